"""The ranking of a search: the legs of the requested mode, exact scores of all hits, and a single order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.search import SearchMode
from service.domains.search import queries
from service.domains.search.fusion import BARE_SHARE, Legs, Scores, fuse, fusion_of, scale_of, smooth_scores
from service.domains.search.queries import FEEDBACK_EXAMPLES, ChunkWeights, ExactScores
from service.domains.search.search_query import WORDS, Hit, Scope, SearchQuery

# For the built-in model: cosines of texts with nothing, and with everything, in common with a question. From
# `LEAST_NEAR`, a text with at least half the best cosine is called close in meaning.
FAR, NEAR, LEAST_NEAR = 0.1, 0.7, 0.25

# When rankings are merged, the smaller this number, the more the first places count (Cormack et al., 2009).
RECIPROCAL_OFFSET = 10


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits, best first. `has_words`: a word of the question is in scope (None: unchecked). `notes`: numbers of limited
    clauses. `relevance` is by words and meaning, `near` close in meaning, `is_by_time`: ordered by last change."""

    hits: Sequence[Hit]
    similarities: Sequence[float]
    chunk_weights: ChunkWeights
    has_words: bool | None
    notes: Mapping[int, str] = field(default_factory=dict[int, str])
    relevance: Mapping[Hit, float] = field(default_factory=dict[Hit, float])
    near: frozenset[Hit] = frozenset()
    is_by_time: bool = False

    def relevance_of(self, hits: Sequence[Hit]) -> dict[Hit, float]:
        """Return the relevance of hits shown in this order: from 0 to 1, never rising unless sorted by time."""
        relevance = [self.relevance.get(hit, 0.0) for hit in hits]
        return dict(zip(hits, relevance if self.is_by_time else smooth_scores(relevance), strict=True))

    def with_hits(self, hits: Sequence[Hit]) -> "Ranking":
        """Return the ranking limited to the given hits, in the given order."""
        if hits is self.hits:
            return self
        similarities = dict(zip(self.hits, self.similarities, strict=True))
        return replace(self, hits=hits, similarities=[similarities[hit] for hit in hits])

    def scores_of(self, hits: Sequence[Hit]) -> dict[Hit, float]:
        """Return the scores to report for hits shown in this order: from 0 to 1, never rising."""
        scores = self.with_hits(hits).similarities
        shown = [max(0.0, each) for each in scores] if self.is_by_time else smooth_scores(scores)
        return dict(zip(hits, shown, strict=True))


NOTHING_RANKED = Ranking((), (), ChunkWeights(0, 1), None)


async def rank(connection: Connection, scope: Scope, search_query: SearchQuery, *, at_least: int) -> Ranking:
    """Rank the scope in a REPEATABLE READ transaction, in a hybrid search twice; NOTHING_RANKED without any hit."""
    legs, exact = await queries.find_candidates(connection, scope, search_query, at_least=at_least)
    scores = {number: each.scores for number, each in enumerate(exact)}
    bare = {number for number, each in enumerate(exact) if each.is_bare}
    has_words = bool(legs.lexical) if search_query.looks_for_words else None
    if not scores:
        return replace(NOTHING_RANKED, has_words=has_words)
    if search_query.mode is SearchMode.HYBRID:
        words = search_query.weight_of_words
        fusion = fusion_of(legs, scores, words=words)
        first = fuse(scores, fusion, bare=bare)
        hits = await _search_again(connection, scope, search_query, legs=legs, exact=exact, first=first)
        chunk_weights = ChunkWeights(
            lexical=words / WORDS / fusion.lexical.deviation,
            dense=(1 - words) / (1 - WORDS) / fusion.dense.deviation,
            unknown=fusion.dense.mean,
        )
    else:
        by_words = search_query.mode is SearchMode.LEXICAL
        chunk_weights = ChunkWeights(lexical=int(by_words), dense=int(not by_words))
        worth = {hit: each.lexical if by_words else each.dense for hit, each in scores.items()}
        hits = sorted(scores, key=lambda hit: (-worth[hit] * (BARE_SHARE if hit in bare else 1), hit))
    return Ranking(
        [exact[hit].hit for hit in hits],
        [scores[hit].dense for hit in hits],
        chunk_weights,
        has_words,
        relevance=_weigh_relevance(search_query, exact),
        near=_find_near(search_query, [each for each in exact if each.has_meaning]),
    )


def _weigh_relevance(search_query: SearchQuery, exact: Sequence[ExactScores]) -> dict[Hit, float]:
    """Return the relevance of hits, from the weighted share of the query's words in each, and the meaning."""
    by_words, by_meaning = search_query.looks_for_words, search_query.mode is not SearchMode.LEXICAL
    lexical, dense = map(np.array, zip(*(each.scores for each in exact), strict=True))
    words = np.minimum(1.0, lexical / search_query.full_score) * by_words
    meaning = np.clip((dense - FAR) / (NEAR - FAR), 0.0, 1.0) * by_meaning
    found = (words + meaning) / (by_words + by_meaning)
    return dict(zip([each.hit for each in exact], found.tolist(), strict=True))


def _find_near(search_query: SearchQuery, exact: Sequence[ExactScores]) -> frozenset[Hit]:
    if search_query.mode is SearchMode.LEXICAL:
        return frozenset()
    least = max(LEAST_NEAR, max((each.scores.dense for each in exact), default=0.0) / 2)
    return frozenset(each.hit for each in exact if each.scores.dense >= least)


def merge_rankings(rankings: Sequence[Ranking]) -> Ranking:
    """Merge several questions' rankings by reciprocal ranks; a hit has the nearest question's cosine. Drops notes."""
    if len(rankings) == 1:
        return rankings[0]
    weights: dict[Hit, float] = {}
    cosines: dict[Hit, float] = {}
    for ranking in rankings:
        for place, (hit, cosine) in enumerate(zip(ranking.hits, ranking.similarities, strict=True), 1):
            weights[hit] = weights.get(hit, 0.0) + 1 / (RECIPROCAL_OFFSET + place)
            cosines[hit] = max(cosine, cosines.get(hit, cosine))
    hits = sorted(weights, key=lambda hit: (-weights[hit], hit))
    has_words = [ranking.has_words for ranking in rankings if ranking.has_words is not None]
    relevance = dict[Hit, float]()
    for ranking in rankings:
        relevance |= {hit: max(value, relevance.get(hit, 0.0)) for hit, value in ranking.relevance.items()}
    return Ranking(
        hits,
        [cosines[hit] for hit in hits],
        rankings[0].chunk_weights,
        any(has_words) if has_words else None,
        relevance=relevance,
        near=frozenset[Hit]().union(*(ranking.near for ranking in rankings)),
    )


async def _search_again(
    connection: Connection,
    scope: Scope,
    search_query: SearchQuery,
    *,
    legs: Legs[int],
    exact: Sequence[ExactScores],
    first: Sequence[int],
) -> list[int]:
    """Return hits fused again, by cosines to the question moved towards the `first` hits; `first` without vectors."""
    known = [hit for hit in first if exact[hit].has_meaning]
    if not known:
        return list(first)
    examples = [Hit(exact[hit].hit.document_id, exact[hit].nearest_chunk) for hit in known[:FEEDBACK_EXAMPLES]]
    hits = [exact[hit].hit for hit in known]
    found = await queries.score_near(connection, scope, search_query, hits=hits, examples=examples)
    near = {known[place]: cosine for place, cosine in found.items()}
    mean = scale_of([near[hit] for hit in legs.dense if hit in near]).mean
    scores = {hit: Scores(each.scores.lexical, near.get(hit, mean)) for hit, each in enumerate(exact)}
    fusion = fusion_of(legs, scores, words=search_query.weight_of_words)
    return fuse(scores, fusion, bare={hit for hit, each in enumerate(exact) if each.is_bare})
