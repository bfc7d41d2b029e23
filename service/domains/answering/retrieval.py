"""The passages that may answer a query, from what its sender may read: the ranking of search, without a results page.

Nothing is logged as a search: nobody typed these words into a search box, and the conversation keeps what was found.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.answering.models import Passage
from service.domains.collections.queries import list_searchable
from service.domains.search.queries import ask_found_chunks
from service.domains.search.ranking import rank
from service.domains.search.reranking import CANDIDATES, ask_whether, rerank
from service.domains.search.search_query import Hit, Scope, SearchQuery, prepare_query
from service.domains.search.snapshot import open_snapshot
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


async def retrieve(
    runtime: Runtime, caller: Caller, *, collection_ids: Sequence[UUID], query: str, limit: int
) -> list[Passage]:
    """Return at most so many (and at most MOST_PASSAGES) passages, best first, from these collections.

    Collections that the caller may not search are passed over silently, as are documents it may not READ. A chunk that
    stands in several collections comes once. Raises Unavailable when the query can't be embedded.
    """
    query = query.strip()[:LONGEST_QUERY]
    if not query or not collection_ids:
        return []
    with traces.span("retrieve passages", {"carrel.collections": len(collection_ids)}) as span:
        found = await _retrieve(runtime, caller, collection_ids=collection_ids, query=query, limit=limit)
        span.set_attribute("carrel.passages", len(found))
    return found


async def _retrieve(
    runtime: Runtime, caller: Caller, *, collection_ids: Sequence[UUID], query: str, limit: int
) -> list[Passage]:
    first = Batch()
    position = runtime.standbys.ask(first)
    reranks = ask_whether(first, runtime.reranker, caller.organization_id)
    async with runtime.database.transaction(caller.organization_id, read_only=True, first=first) as connection:
        collections = await list_searchable(connection, caller, collection_ids=collection_ids)
    embeddings: Embeddings = {}
    limit = min(limit, MOST_PASSAGES)
    most = max(limit, CANDIDATES) if reranks() else limit
    found: list[Passage] = []
    for collection in collections:
        space = Space(collection.space_id, collection.model, collection.dimensions)
        prepare = partial(_prepare_query, runtime, query, embeddings)
        read = partial(_read_best, caller, space, prepare=prepare, limit=most)
        those = await runtime.standbys.read(runtime.database, position, read)
        found += [replace(passage, collection_id=collection.collection_id) for passage in those]
    best = _merge(found)[:most]
    if reranks():
        texts = {place: f"{each.document_name}\n{each.text}" for place, each in enumerate(best)}
        order, _ = await rerank(runtime.reranker, query, texts)
        best = [best[place] for place in order]
    return best[:limit]


async def _prepare_query(runtime: Runtime, query: str, embeddings: Embeddings, space: Space) -> list[SearchQuery]:
    """Embed the query once for each model, while no transaction is open."""
    embedder = runtime.embedders.get(space.model)
    if space.model not in embeddings:
        [embeddings[space.model]] = await embedder.embed([query])
    mean, embedding = embedder.model.mean, embeddings[space.model]
    # How many chunks have a word is counted over what anybody may read. Left out, so that a reply doesn't depend on
    # documents that its reader can't know of; the sentences found are weighed among themselves later.
    prepared = prepare_query(
        query,
        mode=SearchMode.HYBRID,
        language=space.language,
        embedding=embedding,
        mean=mean,
        by_frequency=False,
    )
    return [prepared]


async def _read_best(
    caller: Caller,
    space: Space,
    source: Source,
    *,
    prepare: Callable[[Space], Awaitable[Sequence[SearchQuery]]],
    limit: int,
) -> list[Passage]:
    """Return a collection's best passages; the ranking and the texts are of one snapshot."""
    async with open_snapshot(source, caller.organization_id, space, prepare=prepare, read_only=True) as read:
        scope = Scope(caller=caller, space=read.space, by_chunk=True, is_distributed=read.is_distributed)
        ranking = await rank(read.connection, scope, read.search_query, at_least=limit)
        hits = ranking.hits[:limit]
        batch = Batch()
        chunks = ask_found_chunks(batch, scope, read.search_query, hits=hits)
        await batch.run(read.connection)
    found = await read.keep_readable(caller, {Hit(row.document_id, row.hit_no): row for row in chunks.rows})
    return [
        Passage(
            hit.document_id, found[hit].name, _shorten(found[hit].text), score, hit.chunk_no, place=found[hit].place
        )
        for hit, score in zip(hits, ranking.scores(), strict=False)
        if hit in found
    ]


def _shorten(text: str) -> str:
    return next(cut_windows(Span("", text), LONGEST_PASSAGE)).text


def _merge(passages: Sequence[Passage]) -> list[Passage]:
    """Order passages of several collections by score, each once; those of one collection keep their ranking."""
    once: dict[tuple[UUID, str], Passage] = {}
    for passage in sorted(passages, key=lambda passage: -passage.score):
        once.setdefault((passage.document_id, passage.text), passage)
    return list(once.values())
