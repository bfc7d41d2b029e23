"""A search, from plan to hits. `find` is the main path, from top to bottom, and part of `search`.

    Plan                 the caller, the texts to search for, and the scope
    -> embed             the texts as vectors, while no transaction is open
    -> open_snapshot     one snapshot of one index, to weigh the words of the texts
    -> draw_readable     the filters stated in the query, if requested
    -> find_narrowing    the documents chosen by the query's signs, if any
    -> rank              candidates in scope by words and by meaning, and their fusion: a Ranking
    -> ask_contents      the passage of each hit, and its document
    -> check_words       words missing from all reachable documents; the ranking is repeated with corrections
    -> keep_readable     the hits readable by the caller now, where a snapshot can't decide
    -> Found

`search` adds, in this order: the choice of a server to read from (`service.runtime.standbys`), the reranking of the
best hits (`reranking`), and the search log (`log`). A search without reranking, on the primary, is `find` alone."""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Generic
from uuid import UUID

from carrel.wire.reranking import AppliedReranking
from carrel.wire.search import AppliedOptions, AppliedSyntax, DrawnFilter, MatchedBy, SearchMode
from service.auth.callers import Caller
from service.domains.documents.collections.filters import Condition
from service.domains.search import spelling
from service.domains.search.log import SearchLog
from service.domains.search.narrowing import find_narrowing, find_unmet
from service.domains.search.queries import ChunkWeights, FoundPassage, Row, ask_passages, ask_without_meaning
from service.domains.search.ranking import NOTHING_RANKED, Ranking, merge_rankings, rank
from service.domains.search.reranking import CANDIDATES, rerank, text_of
from service.domains.search.search_query import Hit, Scope, SearchQuery, compute, prepare_query
from service.domains.search.snapshot import Snapshot, open_snapshot
from service.domains.search.spelling import ALL_MATCHED, MOST_WORDS, UNCHECKED, Checked, check_words
from service.domains.search.sql import NEARLY_EMPTY
from service.domains.search.syntax.parsing import NO_SIGNS, ParsedQuery
from service.domains.search.syntax.queries import any_pattern_of
from service.domains.search.understanding.service import Filtering, conditions_of, draw_readable
from service.index.spaces.queries import Space
from service.index.tokenization import WORD
from service.platform.batches import Answer, Batch
from service.platform.sharing import Figure
from service.runtime import Runtime
from service.runtime.standbys.queries import Position
from service.runtime.standbys.service import Source

FIRST, LOOKED_THROUGH = 3, 20  # first results whose texts are checked for the query's words before the index is asked
LONGEST_NAME = 6  # the most words of a name
_HAS_NUMBER = re.compile(r"\d\D*\d\D*\d|\d[^\W\d]|[^\W\d]\d")  # three digits, or a digit next to a letter
MOST_WITHOUT_MEANING = 1000

AskContents = Callable[[Batch, Scope, SearchQuery, Sequence[Hit], ChunkWeights], Answer[Row]]


@dataclass(frozen=True, slots=True)
class Plan(Generic[Row]):
    """A planned search. `texts` are the query, or questions instead; `space` None means an empty index. `filtering`
    counts unless no document fits; `cut` leaves out hits. `parsed` has the signs. `checks_words` finds words missing
    from all reachable documents; `corrects` also replaces them by similar words. Contents of `reads` hits are read for
    `arrange`, the display order, and `passages` of each document or beside each chunk."""

    runtime: Runtime
    caller: Caller
    texts: Sequence[str]
    mode: SearchMode
    space: Space | None
    ask_contents: AskContents[Row]
    limit: int
    position: Answer[Position] | None
    by_chunk: bool = False
    conditions: tuple[Condition, ...] = ()
    resource_types: tuple[str, ...] = ()
    filtering: Filtering | None = None
    cut: Callable[[Ranking], Ranking] = lambda ranking: ranking
    by_frequency: bool = True
    reranks: bool = False
    parsed: ParsedQuery = NO_SIGNS
    checks_words: bool = False
    corrects: bool = False
    reads: int = 0
    passages: int = 1
    arrange: "Callable[[Found[Row]], Found[Row]] | None" = None
    without: frozenset[UUID] = frozenset()

    @property
    def candidates(self) -> int:
        """The most hits to rerank, 0 without reranking. A search finds this number even if fewer are requested."""
        return CANDIDATES if self.reranks and self.runtime.reranker is not None else 0

    @property
    def most(self) -> int:
        return max(self.limit, self.candidates, self.reads)


@dataclass(frozen=True, slots=True)
class Found(Generic[Row]):
    """Ranked hits, and readable contents of the best; `drawn` conditions (None: off), `dropped` if none fit."""

    ranking: Ranking = NOTHING_RANKED
    rows: Mapping[Hit, Row] = field(default_factory=dict[Hit, Row])
    queries: Sequence[SearchQuery] = ()
    drawn: Sequence[DrawnFilter] | None = None
    dropped: bool = False
    reranking: AppliedReranking | None = None
    syntax: AppliedSyntax | None = None
    checked: Checked = ALL_MATCHED
    passages: Sequence[FoundPassage] = ()
    similar: Mapping[Hit, Sequence[Hit]] = field(default_factory=dict[Hit, Sequence[Hit]])
    without_meaning: int = 0

    def say_applied(self) -> AppliedOptions:
        return AppliedOptions(
            reranking=self.reranking,
            syntax=self.syntax,
            unmatched_words=list(self.checked.unmatched) or None,
            corrections=list(self.checked.corrections) or None,
            without_meaning=self.without_meaning or None,
        )

    def matched_by(self, hit: Hit) -> MatchedBy:
        """Return the query's words in a hit's names and passage, missing words that are elsewhere, and whether the
        meaning is close."""
        words, row = self.queries[0].reading.by_word, self.rows[hit]
        terms = self.queries[0].terms_within(row.names, row.text)
        stretches = {word: spelling.stretches_within(word, parts, terms) for word, parts in words.items()}
        found = [each for its in stretches.values() for each in its]
        # Of the words that replace a misspelled word, any will do.
        instead = [{*each.replaced_by} for each in self.checked.corrections if {*each.replaced_by} & {*found}]
        known = {*self.checked.unmatched}.union(*instead)
        left = [word for word, its in stretches.items() if not its and word not in known]
        missing = left if self.checked is not UNCHECKED and len(words) <= MOST_WORDS else None
        return MatchedBy(words=found, missing=missing or None, meaning=hit in self.ranking.near)

    def relevance_of(self, matched: Mapping[Hit, MatchedBy]) -> dict[Hit, float]:
        """Return the relevance of hits shown in this order. A word found often doesn't stand for a missing word."""
        relevance = dict(self.ranking.relevance)
        for query in self.queries if len(self.queries) == 1 and self.queries[0].looks_for_words else ():
            words, by_meaning = len(query.reading.by_word), query.mode is not SearchMode.LEXICAL
            words -= sum(len(each.replaced_by) - 1 for each in self.checked.corrections)
            for hit, each in matched.items() if 0 < words <= MOST_WORDS else ():
                whole = len(query.reading.by_word.keys() & {*each.words})  # a stretch of a word is no word
                most = ((whole / words) ** 2 + by_meaning) / (1 + by_meaning)
                relevance[hit] = min(most, relevance.get(hit, 0.0))
        return replace(self.ranking, relevance=relevance).relevance_of([*matched])

    def texts(self) -> list[str]:
        return [row.text for row in (*self.rows.values(), *self.passages)]

    def best(self, limit: int) -> list[Hit]:
        """Return the first `limit` hits whose contents were read."""
        return list(islice((hit for hit in self.ranking.hits if hit in self.rows), limit))


async def search(plan: Plan[Row], log: SearchLog | None = None) -> Found[Row]:
    """Find hits on a readable server; rerank, arrange and log the hits. Found documents get missing vectors next."""
    runtime = plan.runtime
    found: Found[Row] = Found()
    with runtime.share.count_in(Figure.SEARCHES_RUNNING):
        if plan.space is not None:
            find_hits = partial(find, plan, plan.space, log)
            found = await runtime.standbys.read(runtime.database, plan.position, find_hits)
        if found.without_meaning:
            found_ids = [hit.document_id for hit in found.best(plan.limit)]
            runtime.indexer.embedding.prefer(plan.caller.organization_id, found_ids)
        if plan.reranks:
            # The model scores without an open transaction.
            best = {hit: found.rows[hit] for hit in found.ranking.hits[: plan.candidates] if hit in found.rows}
            texts = {hit: text_of(row.name, row.text) for hit, row in best.items()}
            order, reranking = await rerank(runtime.reranker, " ".join(plan.texts), texts)
            ranking = found.ranking.with_hits(list(dict.fromkeys((*order, *found.ranking.hits))))
            found = replace(found, ranking=ranking, reranking=reranking)
        if plan.arrange is not None:
            found = await asyncio.to_thread(plan.arrange, found)
        if log is not None:
            await log.keep(found.best(plan.limit))
        return found


async def find(plan: Plan[Row], space: Space, log: SearchLog | None, source: Source) -> Found[Row]:
    """Find hits with contents in a single snapshot of a server."""
    prepare, is_read_only = partial(embed, plan), log is None
    async with open_snapshot(source, plan.caller, space, prepare, read_only=is_read_only) as snapshot:
        drawn = None
        read = snapshot if plan.by_frequency else await snapshot.weigh_among_readable(plan.caller)
        if plan.filtering is not None:
            drawn = await draw_readable(read, plan.caller, plan.filtering, clock=plan.runtime.clock)
        ranked = await _rank(plan, read, drawn or ())
        if dropped := bool(drawn and not ranked.ranking.hits):
            ranked = await _rank(plan, read, ())
        last, checked = Batch(), UNCHECKED
        contents = ranked.ask_contents(plan, last)
        if plan.checks_words and read.search_query.reading.words:
            await last.run(read.connection)
            last, checked = Batch(), await _check_words(plan, ranked, contents.rows)
            if checked.corrections:
                ranked = await _rank_corrected(plan, ranked, checked)
                contents = ranked.ask_contents(plan, last)
            elif not plan.by_chunk and read.search_query.looks_for_words:
                texts, rows = [row.text for row in contents.rows], {row.hit: row for row in contents.rows}
                ranking = await compute(texts, _put_full_first, ranked, rows, checked.unmatched)
                ranked = replace(ranked, ranking=ranking)
        ranking, passages = ranked.ranking, None
        unmet = await find_unmet(read.connection, ranked.scope, plan.parsed.fields) if not ranking.hits else []
        if plan.passages > 1:
            passages = ranked.ask_passages(plan, last)
        # On several servers, only the results' rights are checked again.
        is_counted = plan.mode is not SearchMode.LEXICAL and not read.is_distributed
        left_out = ask_without_meaning(last, ranked.scope, most=MOST_WITHOUT_MEANING) if is_counted else None
        if log is None:
            await last.run(read.connection)
        else:
            await log.finish(read, last, ranking.hits[: plan.limit], has_words=ranking.has_words)
    rows = await read.keep_readable(plan.caller, contents.rows)
    syntax = plan.parsed.say_applied(ranking.notes, unmet)
    found = Found(ranking, rows, ranked.read.search_queries, drawn, dropped, syntax=syntax, checked=checked)
    if left_out is not None:
        found = replace(found, without_meaning=left_out.rows[0]["documents"])
    return found if passages is None else replace(found, passages=passages.rows)


@dataclass(frozen=True, slots=True)
class _Ranked:
    read: Snapshot
    scope: Scope
    ranking: Ranking

    def ask_contents(self, plan: Plan[Row], batch: Batch) -> Answer[Row]:
        hits, weights = self.ranking.hits[: plan.most], self.ranking.chunk_weights
        return plan.ask_contents(batch, self.scope, self.read.search_query, hits, weights)

    def ask_passages(self, plan: Plan[Row], batch: Batch) -> Answer[FoundPassage]:
        hits, weights = self.ranking.hits[: plan.most], self.ranking.chunk_weights
        return ask_passages(batch, self.scope, self.read.search_query, hits, weights, most=plan.passages)


async def _check_words(plan: Plan[Row], ranked: _Ranked, rows: Sequence[Row]) -> Checked:
    """Return the words missing from the first texts and from all reachable texts, corrected if the plan `corrects`."""
    query = ranked.read.search_query
    # On several servers, only the results' rights are checked again, so the answer may reveal nothing of other texts.
    corrects = plan.corrects and not (plan.parsed.phrases or ranked.scope.is_distributed)
    wildcards = spelling.find_wildcards(query.text) if corrects else []
    open_words = {piece for each in wildcards for piece in each.split("*")}
    seen, texts, missing = set[int](), list[str](), query.reading.by_word
    # Most queries have all their words in the first texts.
    for part in (rows[:FIRST], rows[FIRST:LOOKED_THROUGH]):
        texts += (text for row in part for text in (row.names, row.text))
        missing = await compute(texts, _find_missing, query, texts, seen)
        missing = {word: parts for word, parts in missing.items() if word not in open_words}
        if not (missing or wildcards):
            return ALL_MATCHED
    everything = Scope(plan.caller, ranked.scope.space, plan.by_chunk, is_distributed=ranked.scope.is_distributed)
    return await check_words(
        ranked.read.connection, everything, query, missing, texts if corrects else None, wildcards=wildcards
    )


def _put_full_first(ranked: _Ranked, rows: Mapping[Hit, Row], unmatched: Collection[str]) -> Ranking:
    """Put titles with all words first, then passages, if the query may be a name: several words, or a number.
    Among equals, texts with the words side by side come first."""
    query, hits, places = ranked.read.search_query, ranked.ranking.hits, dict[Hit, tuple[int, bool]]()
    if not 1 < len(query.reading.words) <= LONGEST_NAME and _HAS_NUMBER.search(query.text) is None:
        return ranked.ranking
    if query.reading.by_word.keys() <= {*unmatched}:  # then no text has a word
        return ranked.ranking

    def is_full(*texts: str) -> bool:
        return _find_missing(query, texts, set()).keys() <= {*unmatched}

    asked = _join_words(query.text)
    for number, row in enumerate(rows[hit] for hit in hits if hit in rows):
        names = row.names if len(query.reading.words) > 1 else row.name
        is_named = (is_whole := is_full(names)) and (len(row.text) > NEARLY_EMPTY or not is_full(row.text))
        if is_whole or (number < LOOKED_THROUGH and is_full(names, row.text)):  # named: by more than a heading
            places[row.hit] = not is_named, asked not in _join_words(f"{names}\n{row.text}")
    return ranked.ranking.with_hits(sorted(hits, key=lambda hit: places.get(hit, (2, False))) if places else hits)


def _join_words(text: str) -> str:
    return f" {' '.join(WORD.findall(text.lower()))} "


def _find_missing(query: SearchQuery, texts: Sequence[str], seen: set[int]) -> dict[str, Sequence[frozenset[int]]]:
    """Return the query's words missing from the texts and from the terms already `seen`, with their terms."""
    seen.update(query.terms_within(*texts))
    return spelling.words_without(query.reading.by_word, seen)


async def _rank_corrected(plan: Plan[Row], ranked: _Ranked, checked: Checked) -> _Ranked:
    text = spelling.replace_words(ranked.read.search_query.text, checked.corrections)
    read = await ranked.read.with_text(plan.caller.organization_id, text)
    ranking = await _rank_in(plan, read, ranked.scope)
    return _Ranked(read, ranked.scope, replace(ranking, notes=ranked.ranking.notes))


async def embed(plan: Plan[Row], space: Space) -> list[SearchQuery]:
    embedders = plan.runtime.embedders
    embeddings = await embedders.embed_query(plan.texts, model=space.model, asker=plan.caller.principal_id)
    return [
        prepare_query(
            text,
            mode=plan.mode,
            language=space.language,
            embedding=embedding,
            model=embedders.get(space.model).model,
            by_frequency=plan.by_frequency,
        )
        for text, embedding in zip(plan.texts, embeddings, strict=True)
    ]


async def _rank(plan: Plan[Row], read: Snapshot, drawn: Sequence[DrawnFilter]) -> _Ranked:
    fields: Mapping[str, str] = plan.filtering.fields if plan.filtering else {}
    scope = Scope(
        caller=plan.caller,
        space=read.space,
        by_chunk=plan.by_chunk,
        conditions=(*plan.conditions, *conditions_of(drawn, fields)),
        resource_types=plan.resource_types,
        is_distributed=read.is_distributed,
        fields=plan.parsed.fields,
        pattern=any_pattern_of(plan.parsed.phrases),
    )
    narrowing = await find_narrowing(read.connection, scope, read.search_queries, plan.parsed)
    if narrowing.needs_meaning and plan.mode is SearchMode.LEXICAL:
        read = replace(read, search_queries=[replace(each, mode=SearchMode.HYBRID) for each in read.search_queries])
    scope = replace(scope, only=narrowing.only, without=narrowing.without | plan.without, passages=narrowing.passages)
    return _Ranked(read, scope, replace(await _rank_in(plan, read, scope), notes=narrowing.notes))


async def _rank_in(plan: Plan[Row], read: Snapshot, scope: Scope) -> Ranking:
    rankings = [await rank(read.connection, scope, each, at_least=plan.most) for each in read.search_queries]
    return plan.cut(merge_rankings(rankings))
