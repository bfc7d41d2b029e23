"""A snapshot of the searched index. A query is embedded again if another space has replaced the index."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.search import queries
from service.domains.search.queries import Row
from service.domains.search.search_query import WORDS, Hit, Scope, SearchQuery, compute
from service.index.spaces.queries import Space, ask_current_space
from service.index.statistics.queries import Frequency, ask_frequencies, read_frequencies
from service.index.stemming import ENGLISH, stemming_of
from service.index.term_keys import FEW_READ, choose_keys
from service.index.terms import TERMS_OF_STEMMINGS, find_stemmings, weigh_query
from service.index.tokenization import has_unspaced, split_query
from service.platform.batches import Answer, Batch
from service.runtime.standbys import Source
from service.schema.indexing import TOTAL_TERM
from service.text import languages

LOOKED_AT = 1000  # chunks to count words in: of the first documents by id, a random order, and so a fair sample


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A transaction with one snapshot, the searched space, and the queries with weights for the space."""

    source: Source
    connection: Connection
    space: Space
    search_queries: Sequence[SearchQuery]

    @property
    def search_query(self) -> SearchQuery:
        return self.search_queries[0]

    @property
    def is_distributed(self) -> bool:
        return self.source.primary.is_distributed

    async def with_text(self, organization_id: UUID, text: str) -> "Snapshot":
        """Return the snapshot with the first query alone, with another text and the same vector, weighed again."""
        batch, query = Batch(), replace(self.search_query, text=text)
        counted = await _ask_statistics(batch, organization_id, self.space, query)
        await batch.run(self.connection)
        weighed = await _weigh(self.connection, organization_id, self.space, query, counted)
        return replace(self, search_queries=[weighed])

    async def weigh_among_readable(self, caller: Caller) -> "Snapshot":
        """Return the snapshot with words weighed by rarity among the reader's chunks, for agents: hidden documents must
        not affect replies. On several servers, all words weigh the same."""
        if self.is_distributed:
            return self
        scope, batch = Scope(caller, self.space, by_chunk=True), Batch()
        groups = [sorted({each.terms for each in query.reading.sought}) for query in self.search_queries]
        answers = [queries.ask_counts(batch, scope, groups=each, most=LOOKED_AT) for each in groups]
        await batch.run(self.connection)
        weighed: list[SearchQuery] = []
        for query, terms, answer in zip(self.search_queries, groups, answers, strict=True):
            counted = dict(answer.rows)
            # All terms of a word are counted together, under the first.
            frequencies = {its[0]: counted.get(number, 0) for number, its in enumerate(terms, 1)}
            weighed.append(await compute([query.text], _weigh_by_counts, query, frequencies, counted.get(0, 0)))
        return replace(self, search_queries=weighed)

    async def keep_readable(self, caller: Caller, found: Sequence[Row]) -> dict[Hit, Row]:
        """Return the hits allowed for display; on several servers, rights are checked again after reading all texts."""
        if not self.is_distributed:
            return {row.hit: row for row in found}
        batch = Batch()
        answer = queries.ask_readable_documents(batch, caller, document_ids={row.document_id for row in found})
        await self.source.primary.read(caller.organization_id, batch)
        readable = {row["document_id"] for row in answer.rows}
        return {row.hit: row for row in found if row.document_id in readable}


@asynccontextmanager
async def open_snapshot(
    source: Source,
    caller: Caller,
    space: Space,
    prepare: Callable[[Space], Awaitable[Sequence[SearchQuery]]],
    *,
    read_only: bool = False,
) -> AsyncGenerator[Snapshot]:
    """Open a snapshot of a space or its replacement; `prepare` embeds queries. A deleted space counts as empty."""
    organization_id = caller.organization_id
    while True:
        prepared = await prepare(space)
        if any(_needs_model(each) for each in prepared):
            await asyncio.to_thread(languages.tell_language, [each.text for each in prepared])
        first = Batch()
        current = ask_current_space(first, organization_id, space_id=space.space_id)
        counted = [await _ask_statistics(first, organization_id, space, each) for each in prepared]
        small = None if source.primary.is_distributed else queries.ask_whether_small(first, caller, space)
        async with source.snapshot(organization_id, read_only=read_only, first=first) as connection:
            now = current.row or space
            if now.space_id == space.space_id:
                has_old_forms = current.row is not None and current.row.has_old_forms
                is_small = None if small is None else small.rows[0]["is_small"]
                asked = [replace(each, has_old_forms=has_old_forms, is_small=is_small) for each in prepared]
                weighed = [
                    await _weigh(connection, organization_id, now, each, its)
                    for each, its in zip(asked, counted, strict=True)
                ]
                yield Snapshot(source, connection, now, weighed)
                return
        space = now


async def _ask_statistics(
    batch: Batch, organization_id: UUID, space: Space, search_query: SearchQuery
) -> Answer[Frequency] | None:
    """Count in a batch the chunks of each stemming and, if these count, of the query's terms; None without words."""
    if not split_query(search_query.text):
        return None
    terms = [TOTAL_TERM, *TERMS_OF_STEMMINGS.values()]
    if search_query.by_frequency:
        terms += await compute([search_query.text], lambda: sorted(search_query.reading.terms))
    return ask_frequencies(batch, organization_id, space_id=space.space_id, terms=terms)


async def _weigh(
    connection: Connection,
    organization_id: UUID,
    space: Space,
    search_query: SearchQuery,
    counted: Answer[Frequency] | None,
) -> SearchQuery:
    """Return a query weighed in the stemmings of the space, reading further terms; unchanged without counts."""
    if counted is None:
        return search_query
    frequencies = dict(counted.rows)
    asked, search_query = search_query, replace(search_query, stemmings=find_stemmings(frequencies, own=space.language))
    if search_query.mode is SearchMode.HYBRID and search_query.weights_of_words:
        is_slow = search_query.stemmings != (ENGLISH,) and not languages.is_loaded()
        weigh = partial(_weigh_words, search_query, frequencies)
        search_query = replace(search_query, weight_of_words=await asyncio.to_thread(weigh) if is_slow else weigh())
    if not search_query.by_frequency:
        return await compute([search_query.text], _weigh_alike, search_query)
    if further := await compute([search_query.text], lambda: sorted(search_query.reading.terms - asked.reading.terms)):
        frequencies |= await read_frequencies(connection, organization_id, space_id=space.space_id, terms=further)
    return await compute([search_query.text], _weigh_by_frequency, search_query, frequencies, space.space_id)


def _weigh_alike(search_query: SearchQuery) -> SearchQuery:
    shares = dict[int, float]()
    for each in search_query.reading.sought:
        shares |= {term: max(each.share, shares.get(term, 0.0)) for term in each.terms}
    return search_query.with_weights(shares)


def _weigh_by_counts(query: SearchQuery, frequencies: Mapping[int, int], total: int) -> SearchQuery:
    return query.with_weights(weigh_query(query.reading, frequencies=frequencies, total=total))


def _weigh_by_frequency(search_query: SearchQuery, frequencies: Mapping[int, int], space_id: int) -> SearchQuery:
    weights = weigh_query(search_query.reading, frequencies=frequencies, total=frequencies.get(TOTAL_TERM, 0))
    present = {term: weight for term, weight in weights.items() if frequencies.get(term, 0) > 0}
    weighed = replace(search_query.with_weights(weights, known=present), frequencies=frequencies)
    if search_query.is_small:  # all chunks are scored
        return weighed
    lookup = choose_keys(present, space_id=space_id, frequencies=frequencies)
    few = choose_keys(present, space_id=space_id, frequencies=frequencies, most=FEW_READ)
    return replace(weighed, lookup=lookup, few=few)


def _needs_model(query: SearchQuery) -> bool:
    """Return whether to detect the language before the snapshot, because the first detection loads a model."""
    has_weights = query.mode is SearchMode.HYBRID and bool(query.weights_of_words)
    return has_weights and not query.text.isascii() and not has_unspaced(query.text)


def _weigh_words(query: SearchQuery, frequencies: Mapping[int, int]) -> float:
    """Return the weight of words in the query's language; if uncertain, in the language of most chunks of the space.
    Codes and numbers alone weigh as in languages without spaces."""
    weights = query.weights_of_words
    is_code = all(any(map(str.isdigit, part)) for part in query.text.split())  # the model knows no codes and numbers
    if is_code or has_unspaced(query.text):
        return weights["unspaced"]
    if query.text.isascii() and query.stemmings == (ENGLISH,):
        return WORDS  # detecting the language loads a model
    if language := languages.tell_language([query.text]):
        stemming = stemming_of(language, default=ENGLISH)
        return WORDS if language == languages.ENGLISH else weights.get(stemming, weights["other"])
    by_count = {frequencies.get(term, 0): name for name, term in TERMS_OF_STEMMINGS.items()}
    most = max(by_count)
    return weights.get(by_count[most], weights["other"]) if 2 * most > frequencies.get(TOTAL_TERM, 0) else WORDS
