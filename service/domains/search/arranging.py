"""Results in display order: similar documents grouped, and sorting by time."""

from collections.abc import Sequence
from dataclasses import replace

from carrel.wire.search import ResultOrder
from service.domains.search.pipeline import Found
from service.domains.search.queries import FoundDocument
from service.domains.search.search_query import Hit
from service.index.tokenization import fold, split_words

ARRANGED = 100  # results that are grouped or ordered by time; the others are left out
LEAST_BY_TIME = 0.4  # of the best relevance: results with less are left out of an order by time

# Texts are nearly equal that share this part of their runs of words, or of which one is nearly all in the other.
_RUN, _EQUAL, _WITHIN, _FEWEST = 3, 0.8, 0.9, 4


def arrange(found: Found[FoundDocument], *, groups: bool, order: ResultOrder) -> Found[FoundDocument]:
    hits, similar = found.best(ARRANGED), dict[Hit, list[Hit]]()
    if groups:
        similar = group_similar({hit: found.rows[hit].text for hit in hits})
        hits = list(similar)
    ranking = found.ranking.with_hits(hits)
    if order is not ResultOrder.RELEVANCE:
        least = LEAST_BY_TIME * max((ranking.relevance.get(hit, 0.0) for hit in hits), default=0.0)
        hits = [hit for hit in hits if ranking.relevance.get(hit, 0.0) >= least]
        newest_first = sorted(hits, key=lambda hit: found.rows[hit].changed_at, reverse=order is ResultOrder.NEWEST)
        ranking = replace(ranking.with_hits(newest_first), is_by_time=True)
    return replace(found, ranking=ranking, similar=similar)


def group_similar(texts: dict[Hit, str]) -> dict[Hit, list[Hit]]:
    """Return the first hit of each group of nearly equal texts, in order, with the group's other hits."""
    groups: dict[Hit, list[Hit]] = {}
    runs: dict[Hit, frozenset[int]] = {}
    for hit, text in texts.items():
        own = _runs_of(text)
        first = next((each for each, others in runs.items() if _are_similar(own, others)), None)
        if first is None:
            groups[hit], runs[hit] = [], own
        else:
            groups[first].append(hit)
    return groups


def _runs_of(text: str) -> frozenset[int]:
    words: Sequence[str] = [fold(word) for word in split_words(text)]
    return frozenset(hash(tuple(words[at : at + _RUN])) for at in range(len(words) - _RUN + 1))


def _are_similar(one: frozenset[int], other: frozenset[int]) -> bool:
    fewer = min(len(one), len(other))
    if fewer < _FEWEST:
        return one == other and bool(one)
    shared = len(one & other)
    return shared >= _EQUAL * (len(one) + len(other) - shared) or shared >= _WITHIN * fewer
