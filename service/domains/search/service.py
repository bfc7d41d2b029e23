"""Searching the catalog and collections, and feedback on what was found.

A query is embedded before the transaction of its search opens; that one reads a single snapshot from the legs to the
names in the results, and keeps the search in the log. A search waits for six answers of the database at most. Where a
standby of the database is read from, it keeps no log: the primary does, in a transaction of its own. So does the
coordinator of an index on several servers, once it has checked what may be shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.collections import DistanceMetric
from carrel.wire.common import ResourceIdentifier
from carrel.wire.search import (
    AppliedFilter,
    CatalogSearchOptions,
    CatalogSearchResult,
    CollectionSearchResult,
    FoundChunk,
    SearchDocumentCatalogRequest,
    SearchDocumentCatalogResponse,
    SearchDocumentCollectionRequest,
    SearchDocumentCollectionResponse,
    SearchMode,
    Snippet,
    SubmitSearchFeedbackRequest,
    TextSpan,
)
from service.audit.feedback import find_author, record_feedback
from service.auth.callers import Caller, ask_acting_for
from service.domains.collections.queries import StoredCollection
from service.domains.collections.service import ask_collection
from service.domains.search import queries
from service.domains.search.filters import Condition, conditions_by_schema, conditions_without_schema
from service.domains.search.fusion import smooth_scores
from service.domains.search.ranking import Ranking, rank
from service.domains.search.search_query import Hit, Scope, SearchQuery, prepare_query
from service.domains.search.snapshot import Snapshot, open_snapshot
from service.domains.search.snippets import Passage, merge_texts, snippet_of
from service.index.service import Space, ask_catalog
from service.platform.batches import Batch
from service.platform.database import DONT_WAIT_FOR_DISK, leave_out_when_full
from service.platform.errors import BadRequest, FieldError, NotFound
from service.platform.identifiers import uuid7
from service.platform.logs import request_id
from service.runtime import Runtime
from service.runtime.standbys import Source

_Entry = dict[str, Any]


async def search_catalog(
    runtime: Runtime, caller: Caller, *, request: SearchDocumentCatalogRequest
) -> SearchDocumentCatalogResponse:
    """Search the documents that the acting principal may READ; nothing else is ranked, counted or shown.

    Raises BadRequest for a query without anything in it, and what `acting_for` raises.
    """
    query = _require_text(request.search_query)
    about = Batch()
    asked = ask_acting_for(about, caller, request.user_email)
    catalog = ask_catalog(about, caller.organization_id)
    position = runtime.standbys.ask(about)
    await runtime.database.read(caller.organization_id, about)
    space = catalog.row
    search = _Search(runtime, asked.caller(), query, request.search_options.mode, collection_id=None)
    if space is None:
        search_id = await search.log(search.entry((), has_words=None))
        return SearchDocumentCatalogResponse(search_id=search_id, results=[])
    find = partial(_find_documents, search, space, request.search_options)
    return await runtime.standbys.read(runtime.database, position, find)


async def _find_documents(
    search: "_Search", space: Space, options: CatalogSearchOptions, source: Source
) -> SearchDocumentCatalogResponse:
    acting = search.caller
    conditions = conditions_without_schema(options.metadata_filters)
    async with open_snapshot(source, acting.organization_id, space, prepare=search.prepare) as read:
        scope = Scope(
            caller=acting,
            space=read.space,
            by_chunk=False,
            conditions=conditions,
            resource_types=tuple(options.resource_types or ()),
            is_distributed=read.is_distributed,
        )
        ranking = await rank(read.connection, scope, read.search_query, at_least=options.max_results)
        hits = ranking.hits[: options.max_results]
        last = Batch()
        documents = queries.ask_found_documents(
            last, scope, read.search_query, hits=hits, chunk_weights=ranking.chunk_weights
        )
        entry = search.entry(hits, has_words=ranking.has_words)
        await search.finish(read, last, entry)
    found = await read.keep_readable(acting, {row.document_id: row for row in documents.rows})
    shown = [(hit, score) for hit, score in zip(hits, ranking.scores(), strict=False) if hit.document_id in found]
    search_id = await search.log_after(read, entry, [hit for hit, _ in shown])
    mark = partial(snippet_of, terms=read.search_query.term_set, stemmings=read.search_query.stemmings)
    results = [_to_document(found[hit.document_id], score, mark(found[hit.document_id].text)) for hit, score in shown]
    return SearchDocumentCatalogResponse(search_id=search_id, results=results)


async def search_collection(
    runtime: Runtime, caller: Caller, *, request: SearchDocumentCollectionRequest
) -> SearchDocumentCollectionResponse:
    """Search the chunks of a collection's documents that the acting principal may READ.

    Raises NotFound when it may not search the collection, BadRequest for an empty query or a filter that doesn't fit
    the collection's schema, and what `acting_for` raises.
    """
    query = _require_text(request.search_query)
    about = Batch()
    asked = ask_acting_for(about, caller, request.user_email)
    give_collection = ask_collection(about, caller.organization_id, collection_id=request.document_collection_id)
    position = runtime.standbys.ask(about)
    await runtime.database.read(caller.organization_id, about)
    acting = asked.caller()
    collection = give_collection(acting)
    conditions = conditions_by_schema(
        request.structured_query_filters, collection.fields, member="structuredQueryFilters"
    )
    search = _Search(runtime, acting, query, request.search_options.mode, collection_id=collection.collection_id)
    find = partial(_find_chunks, search, collection, conditions, request)
    return await runtime.standbys.read(runtime.database, position, find)


async def _find_chunks(
    search: "_Search",
    collection: StoredCollection,
    conditions: tuple[Condition, ...],
    request: SearchDocumentCollectionRequest,
    source: Source,
) -> SearchDocumentCollectionResponse:
    options = request.search_options
    space = Space(collection.space_id, collection.model, collection.dimensions)
    async with open_snapshot(source, search.caller.organization_id, space, prepare=search.prepare) as read:
        scope = Scope(
            caller=search.caller,
            space=read.space,
            by_chunk=True,
            conditions=conditions,
            is_distributed=read.is_distributed,
        )
        ranking = await rank(read.connection, scope, read.search_query, at_least=options.max_chunks)
        scores = _cut_below(
            options.threshold or 0, _score_results(ranking, collection.distance_metric), options.max_chunks
        )
        last = Batch()
        chunks = queries.ask_found_chunks(last, scope, read.search_query, hits=list(scores))
        entry = search.entry(list(scores), has_words=ranking.has_words)
        await search.finish(read, last, entry)
    found = await read.keep_readable(search.caller, {Hit(row.document_id, row.hit_no): row for row in chunks.rows})
    scores = {hit: score for hit, score in scores.items() if hit in found}
    search_id = await search.log_after(read, entry, list(scores))
    return SearchDocumentCollectionResponse(
        search_id=search_id,
        results=_group_by_document(scores, found, merged=options.merge_contents),
        search_terms_used=list(dict.fromkeys(read.search_query.words)),
        structured_filters_applied=[
            AppliedFilter(field=each.field, operator=each.operator, value=each.value)
            for each in request.structured_query_filters
        ],
    )


async def submit_feedback(connection: AsyncConnection, caller: Caller, *, request: SubmitSearchFeedbackRequest) -> UUID:
    """Keep feedback on a search, or on one of its results, on the audit log; the entry's id.

    Raises NotFound for a search that the author didn't make (an admin may judge everybody's), BadRequest
    `document_not_in_results` for a document that the search didn't find, and what `find_author` raises.
    """
    author = await find_author(connection, caller, user_email=request.user_email)
    feedback = str(request.feedback)
    # What a refusal below has noted goes with the request's transaction.
    search = await queries.note_feedback(
        connection,
        caller.organization_id,
        search_id=request.search_id,
        principal_ids=author.subject_ids,
        feedback=feedback,
    )
    if search is None:
        raise NotFound("You made no such search. Send the searchId of a search response.", code="search_not_found")
    details = {"feedback": feedback}
    if request.document_id is not None:
        _require_result(request.document_id, search)
        details["documentId"] = str(request.document_id)
    return await record_feedback(
        connection,
        author,
        action="search.feedback",
        target_type="search",
        target_id=request.search_id,
        details=details,
        texts=[request.comments],
    )


def _require_result(document_id: UUID, search: queries.Findings) -> None:
    # Of searches from before their results were kept, any document is taken: what they found is not known.
    if search.document_ids is not None and document_id not in search.document_ids:
        message = "The search did not find this document. Send a documentId of its results, or leave it out."
        raise BadRequest(message, code="document_not_in_results", details=[FieldError("documentId", message)])


@dataclass(frozen=True, slots=True)
class _Search:
    """Who searches for what, and how that is kept in the log."""

    runtime: Runtime
    caller: Caller
    query: str
    mode: SearchMode
    collection_id: UUID | None

    async def prepare(self, space: Space) -> SearchQuery:
        """Embed the query, while no transaction is open."""
        embedder = self.runtime.embedders.get(space.model)
        [embedding] = await embedder.embed([self.query])
        return prepare_query(
            self.query, mode=self.mode, language=space.language, embedding=embedding, mean=embedder.model.mean
        )

    def entry(self, hits: Sequence[Hit], *, has_words: bool | None) -> _Entry:
        """Return what the log says of the search."""
        return {
            "search_id": uuid7(),
            "principal_id": self.caller.principal_id,
            "collection_id": self.collection_id,
            "mode": str(self.mode),
            "has_words": has_words,
            "request_id": request_id() or None,
            **_results_of(hits),
        }

    async def finish(self, read: Snapshot, last: Batch, entry: _Entry) -> None:
        """Run the last statements of a search's transaction, and keep the search there unless `log_after` does."""
        if _is_logged_after(read):
            await last.run(read.connection)
        elif self.runtime.disk.is_full:
            await last.run(read.connection)
            await self._log_if_it_fits(read.connection, entry)
        else:
            self._ask_to_log(last, entry)
            last.tell("COMMIT")
            await last.run(read.connection)

    async def log_after(self, read: Snapshot, entry: _Entry, shown: Sequence[Hit]) -> UUID:
        """Keep a search with what it shows, unless `finish` has kept it; return its id."""
        return await self.log(entry | _results_of(shown)) if _is_logged_after(read) else entry["search_id"]

    async def log(self, entry: _Entry) -> UUID:
        """Keep a search in a transaction of its own, and return its id."""
        database, organization_id = self.runtime.database, self.caller.organization_id
        if self.runtime.disk.is_full:
            async with database.transaction(organization_id) as connection:
                await self._log_if_it_fits(connection, entry)
        else:
            first = Batch()
            self._ask_to_log(first, entry)
            async with database.transaction(organization_id, first=first):
                pass
        return entry["search_id"]

    async def _log_if_it_fits(self, connection: AsyncConnection, entry: _Entry) -> None:
        """Keep a search; the log may lack it where the disk has no room."""
        batch = Batch()
        self._ask_to_log(batch, entry)
        async with leave_out_when_full(connection):
            await batch.run(connection)

    def _ask_to_log(self, batch: Batch, entry: _Entry) -> None:
        batch.tell(DONT_WAIT_FOR_DISK)
        queries.log_search(batch, self.caller.organization_id, row=entry, query=self.query)


def _is_logged_after(read: Snapshot) -> bool:
    """Tell whether a search is kept after its transaction: a standby keeps none, and a cluster checks results first."""
    return read.source.standby is not None or read.is_distributed


def _results_of(hits: Sequence[Hit]) -> _Entry:
    document_ids = [hit.document_id for hit in hits]
    return {"result_count": len(document_ids), "document_ids": list(dict.fromkeys(document_ids))}


def _require_text(query: str) -> str:
    if not query.strip():
        message = "The query is empty. Send the words or the question to search for."
        raise BadRequest(message, code="empty_query", details=[FieldError("searchQuery", message)])
    return query


def _to_document(row: queries.FoundDocument, score: float, passage: Passage) -> CatalogSearchResult:
    return CatalogSearchResult(
        document_id=row.document_id,
        document_name=row.name,
        document_external_id=row.external_id,
        document_external_url=row.external_url,
        resource=ResourceIdentifier(resource_id=row.resource_id, resource_type=row.resource_type),
        score=score,
        snippet=Snippet(
            text=passage.text,
            matches=[TextSpan(start=start, end=end) for start, end in passage.matches],
            place=row.place,
        ),
        custom_metadata=row.custom_metadata,
        updated_at=row.updated_at,
        parent_document_id=row.container_id,
    )


def _score_results(ranking: Ranking, metric: str) -> dict[Hit, float]:
    """Return the hits' scores in the collection's metric, best first.

    Vectors have unit norm, so the metrics rank alike: COSINE and DOTPRODUCT are the same number, and a EUCLIDEAN
    distance d becomes 1 / (1 + d).
    """
    similarities = list(ranking.cosines)
    if metric == DistanceMetric.EUCLIDEAN:
        similarities = [1 / (1 + sqrt(max(0.0, 2 - 2 * cosine))) for cosine in similarities]
    return dict(zip(ranking.hits, smooth_scores(similarities), strict=True))


def _cut_below(threshold: float, scores: Mapping[Hit, float], most: int) -> dict[Hit, float]:
    kept = [(hit, score) for hit, score in scores.items() if score >= threshold]
    return dict(kept[:most])


def _group_by_document(
    scores: Mapping[Hit, float], found: Mapping[Hit, queries.FoundChunk], *, merged: bool
) -> list[CollectionSearchResult]:
    """Gather chunks, best first, by document; the document of the best chunk comes first."""
    by_document: dict[UUID, list[Hit]] = {}
    for hit in scores:
        by_document.setdefault(hit.document_id, []).append(hit)
    return [_to_result(hits, scores, found, merged=merged) for hits in by_document.values()]


def _to_result(
    hits: Sequence[Hit], scores: Mapping[Hit, float], found: Mapping[Hit, queries.FoundChunk], *, merged: bool
) -> CollectionSearchResult:
    document = found[hits[0]]
    chunks = [
        FoundChunk(
            chunk_id=found[hit].chunk_id,
            chunk_index=hit.chunk_no,
            text=found[hit].text,
            score=scores[hit],
            place=found[hit].place,
        )
        for hit in hits
    ]
    return CollectionSearchResult(
        document_id=document.document_id,
        document_name=document.name,
        document_external_id=document.external_id,
        document_url=document.external_url,
        document_metadata=document.custom_metadata,
        chunks=chunks,
        merged_contents=merge_texts({chunk.chunk_index: chunk.text for chunk in chunks}) if merged else None,
    )
