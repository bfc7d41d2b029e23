"""The passages that may answer a query, from what its sender may read: the ranking of search, without a results page.

Nothing is logged as a search: nobody typed these words into a search box, and the conversation keeps what was found.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from carrel.wire.agents import AgentRetrieval
from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.agents.answering.models import Passage
from service.domains.documents.collections.queries import StoredCollection, list_searchable
from service.domains.search.filters import Condition
from service.domains.search.queries import ask_found_chunks
from service.domains.search.ranking import Ranking, merge_rankings, rank
from service.domains.search.reranking import CANDIDATES, ask_whether, rerank
from service.domains.search.search_query import Hit, Scope, SearchQuery, prepare_query
from service.domains.search.snapshot import Snapshot, open_snapshot
from service.domains.search.understanding.drawing import DrawnCondition
from service.domains.search.understanding.extraction import extract_questions
from service.domains.search.understanding.following import complete_question
from service.domains.search.understanding.service import conditions_of, draw_readable
from service.index.service import Space
from service.platform import traces
from service.platform.batches import Batch
from service.runtime import Runtime
from service.runtime.standbys import Source
from service.text.sentences import Span, cut_windows

MOST_PASSAGES = 20
LONGEST_PASSAGE = 4000
"""Characters. Only chunks that callers cut themselves are longer; what is beyond isn't shown to a model."""

LONGEST_QUERY = 2000
"""Characters of a query that are looked at; a model may write anything."""

Embeddings = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A look-up of passages: the query, and as many of the best as are wanted.

    `messages` are the person's, the newest last, as far as the model is shown them: what they ask states the filters.
    """

    query: str
    limit: int
    messages: Sequence[str] = ()
    options: AgentRetrieval = field(default_factory=AgentRetrieval)

    @property
    def question(self) -> str:
        """Return what the person asks, with the earlier words that this message leans on."""
        return complete_question(self.messages) or self.query

    def queries(self) -> list[str]:
        """Return the query, or the questions in its place; of a whole message each with what it leans on before it."""
        if not self.options.enable_query_extraction:
            return [self.query]
        if self.messages and self.query == self.question.strip()[:LONGEST_QUERY]:
            *before, newest = self.messages
            return [complete_question([*before, each])[:LONGEST_QUERY] for each in extract_questions(newest)]
        return extract_questions(self.query)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Passages, best first, and how they were looked up, for the reader of a reply from them.

    `narrowed` has the words of the message that state filters, and for each whether the collections were narrowed by
    them: those without such fields are not, nor those in which nothing fits.
    """

    passages: Sequence[Passage]
    narrowed: Mapping[str, frozenset[bool]] = field(default_factory=dict[str, frozenset[bool]])
    note: str | None = None


@dataclass(frozen=True, slots=True)
class _Best:
    """A collection's best passages, and the words of the message that narrowed them, or did not since nothing fits."""

    passages: Sequence[Passage]
    words: str
    dropped: bool


async def retrieve(runtime: Runtime, caller: Caller, *, collection_ids: Sequence[UUID], lookup: Lookup) -> Retrieved:
    """Return the best passages (at most MOST_PASSAGES) from these collections.

    Collections that the caller may not search are passed over silently, as are documents it may not READ. A chunk that
    stands in several collections comes once. Raises Unavailable when the query can't be embedded.
    """
    query = lookup.query.strip()[:LONGEST_QUERY]
    if not query or not collection_ids:
        return Retrieved(())
    lookup = replace(lookup, query=query, limit=min(lookup.limit, MOST_PASSAGES))
    with traces.span("retrieve passages", {"carrel.collections": len(collection_ids)}) as span:
        found = await _retrieve(runtime, caller, collection_ids=collection_ids, lookup=lookup)
        span.set_attribute("carrel.passages", len(found.passages))
    return found


async def _retrieve(runtime: Runtime, caller: Caller, *, collection_ids: Sequence[UUID], lookup: Lookup) -> Retrieved:
    first, options = Batch(), lookup.options
    position = runtime.standbys.ask(first)
    reranks = ask_whether(first, runtime.reranker, caller.organization_id, option=options.enable_reranking)
    async with runtime.database.transaction(caller.organization_id, read_only=True, first=first) as connection:
        collections = await list_searchable(connection, caller, collection_ids=collection_ids)
    queries = lookup.queries()
    embeddings: Embeddings = {}
    most = max(lookup.limit, CANDIDATES) if reranks() and runtime.reranker else lookup.limit
    found: list[_Best] = []
    for collection in collections:
        prepare = partial(_prepare_query, runtime, queries, embeddings)
        read = partial(_read_best, runtime, caller, collection, replace(lookup, limit=most), prepare=prepare)
        found.append(await runtime.standbys.read(runtime.database, position, read))
    passages = _merge([passage for each in found for passage in each.passages])[:most]
    note = None
    if reranks():
        texts = {place: f"{each.document_name}\n{each.text}" for place, each in enumerate(passages)}
        order, applied = await rerank(runtime.reranker, lookup.query, texts)
        passages, note = [passages[place] for place in order], applied.note
    stated = dict.fromkeys(each.words for each in found if each.words)
    narrowed = {words: frozenset(each.words == words and not each.dropped for each in found) for words in stated}
    return Retrieved(passages[: lookup.limit], narrowed, note)


async def _prepare_query(
    runtime: Runtime, queries: Sequence[str], embeddings: Embeddings, space: Space
) -> list[SearchQuery]:
    """Embed the queries once for each model, while no transaction is open."""
    embedder = runtime.embedders.get(space.model)
    if space.model not in embeddings:
        embeddings[space.model] = await embedder.embed(queries)
    # How many chunks have a word is counted over what anybody may read. Left out, so that a reply doesn't depend on
    # documents that its reader can't know of; the sentences found are weighed among themselves later.
    return [
        prepare_query(
            query,
            mode=SearchMode.HYBRID,
            language=space.language,
            embedding=embedding,
            mean=embedder.model.mean,
            by_frequency=False,
        )
        for query, embedding in zip(queries, embeddings[space.model], strict=True)
    ]


async def _read_best(
    runtime: Runtime,
    caller: Caller,
    collection: StoredCollection,
    lookup: Lookup,
    source: Source,
    *,
    prepare: Callable[[Space], Awaitable[Sequence[SearchQuery]]],
) -> _Best:
    """Return a collection's best passages; the ranking and the texts are of one snapshot."""
    space = Space(collection.space_id, collection.model, collection.dimensions)
    async with open_snapshot(source, caller.organization_id, space, prepare=prepare, read_only=True) as read:
        drawn = await _draw(runtime, read, caller, collection, lookup)
        rank_within = partial(_rank_within, read, caller, lookup.limit)
        scope, ranking = await rank_within(conditions_of(drawn, collection.fields))
        if dropped := bool(drawn and not ranking.hits):
            scope, ranking = await rank_within(())
        hits = ranking.hits[: lookup.limit]
        batch = Batch()
        chunks = ask_found_chunks(batch, scope, read.search_query, hits=hits)
        await batch.run(read.connection)
    found = await read.keep_readable(caller, {Hit(row.document_id, row.hit_no): row for row in chunks.rows})
    passages = [
        Passage(
            hit.document_id,
            found[hit].name,
            _shorten(found[hit].text),
            score,
            hit.chunk_no,
            place=found[hit].place,
            collection_id=collection.collection_id,
            version=found[hit].version,
        )
        for hit, score in zip(hits, ranking.scores(), strict=False)
        if hit in found
    ]
    return _Best(passages, ", ".join(f"“{each.words}” ({each.field})" for each in drawn), dropped)


async def _draw(
    runtime: Runtime, read: Snapshot, caller: Caller, collection: StoredCollection, lookup: Lookup
) -> list[DrawnCondition]:
    """Return the conditions that the question states, if they are asked for; of several questions there are none."""
    if not lookup.options.enable_smart_filtering or len(read.search_queries) > 1:
        return []
    return await draw_readable(read, caller, lookup.question, collection.fields, clock=runtime.clock)


async def _rank_within(
    read: Snapshot, caller: Caller, at_least: int, conditions: tuple[Condition, ...]
) -> tuple[Scope, Ranking]:
    """Rank the chunks that fit conditions for each question."""
    scope = Scope(
        caller=caller, space=read.space, by_chunk=True, conditions=conditions, is_distributed=read.is_distributed
    )
    rankings = [await rank(read.connection, scope, each, at_least=at_least) for each in read.search_queries]
    return scope, merge_rankings(rankings)


def describe_narrowing(words: str, narrowed: frozenset[bool]) -> str:
    """Say which words narrowed look-ups, and nothing that a document has: what its reader may read can change."""
    if True not in narrowed:
        return f"No document fits {words}, so all were looked through."
    where = ", where there were any" if False in narrowed else ""
    return f"Only documents that fit {words} were looked through{where}."


def _shorten(text: str) -> str:
    return next(cut_windows(Span("", text), LONGEST_PASSAGE)).text


def _merge(passages: Sequence[Passage]) -> list[Passage]:
    """Order passages of several collections by score, each once; those of one collection keep their ranking."""
    once: dict[tuple[UUID, str], Passage] = {}
    for passage in sorted(passages, key=lambda passage: -passage.score):
        once.setdefault((passage.document_id, passage.text), passage)
    return list(once.values())
