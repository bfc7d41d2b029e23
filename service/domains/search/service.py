"""Searching the catalog and collections, and feedback on what was found.

A query is embedded before the transaction of its search opens; that one reads a single snapshot from the legs to the
names in the results, and keeps the search in the log.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import sqrt
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.collections import DistanceMetric
from carrel.wire.common import ResourceIdentifier, Role
from carrel.wire.search import (
    AppliedFilter,
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
from service.audit.service import record
from service.auth.callers import Caller, acting_for
from service.domains.collections.service import collection_for
from service.domains.search import queries
from service.domains.search.filters import conditions_by_schema, conditions_without_schema
from service.domains.search.fusion import shown_scores
from service.domains.search.question import Question, Scope, Unit, ask
from service.domains.search.ranking import Ranking, rank
from service.domains.search.snapshot import snapshot_of
from service.domains.search.snippets import merge_texts, snippet_of
from service.index.service import Space, find_catalog
from service.platform.database import leave_out_when_full
from service.platform.errors import BadRequest, FieldError, NotFound
from service.platform.identifiers import uuid7
from service.platform.logs import request_id
from service.platform.sql import AnyRow
from service.runtime import Runtime


async def search_catalog(
    runtime: Runtime, caller: Caller, *, request: SearchDocumentCatalogRequest
) -> SearchDocumentCatalogResponse:
    """Search the documents that the acting principal may READ; nothing else is ranked, counted or shown.

    Raises BadRequest for a query without anything in it, and what `acting_for` raises.
    """
    query = _checked(request.search_query)
    options = request.search_options
    async with runtime.database.transaction(caller.organization_id) as connection:
        acting = await acting_for(connection, caller, request.user_email)
        space = await find_catalog(connection, caller.organization_id)
    search = _Search(acting, query, options.mode, collection_id=None, is_kept=not runtime.disk.is_full)
    if space is None:
        async with runtime.database.transaction(caller.organization_id) as connection:
            return SearchDocumentCatalogResponse(search_id=await search.log(connection, 0), results=[])
    conditions = conditions_without_schema(options.metadata_filters)
    async with snapshot_of(runtime, caller.organization_id, space, ask=partial(_asked, runtime, search)) as read:
        scope = Scope(
            caller=acting,
            space=read.space,
            by_chunk=False,
            conditions=conditions,
            resource_types=tuple(options.resource_types or ()),
        )
        ranking = await rank(read.connection, scope, read.question, at_least=options.max_results)
        units = ranking.units[: options.max_results]
        found = await queries.read_found_documents(
            read.connection, scope, ranking.question, units=units, shown=ranking.shown
        )
        search_id = await search.log(read.connection, len(found))
    results = [
        _document(found[unit.document_id], score, ranking.question)
        for unit, score in zip(units, ranking.scores(), strict=False)
    ]
    return SearchDocumentCatalogResponse(search_id=search_id, results=results)


async def search_collection(
    runtime: Runtime, caller: Caller, *, request: SearchDocumentCollectionRequest
) -> SearchDocumentCollectionResponse:
    """Search the chunks of a collection's documents that the acting principal may READ.

    Raises NotFound when it may not search the collection, BadRequest for an empty query or a filter that doesn't fit
    the collection's schema, and what `acting_for` raises.
    """
    query = _checked(request.search_query)
    options = request.search_options
    async with runtime.database.transaction(caller.organization_id) as connection:
        acting = await acting_for(connection, caller, request.user_email)
        collection = await collection_for(
            connection, acting, collection_id=request.document_collection_id, at_least=Role.VIEWER
        )
    conditions = conditions_by_schema(
        request.structured_query_filters, collection.fields, member="structuredQueryFilters"
    )
    space = Space(collection.space_id, collection.model, collection.dimensions)
    search = _Search(
        acting, query, options.mode, collection_id=collection.collection_id, is_kept=not runtime.disk.is_full
    )
    async with snapshot_of(runtime, caller.organization_id, space, ask=partial(_asked, runtime, search)) as read:
        scope = Scope(caller=acting, space=read.space, by_chunk=True, conditions=conditions)
        ranking = await rank(read.connection, scope, read.question, at_least=options.max_chunks)
        scores = _above(options.threshold or 0, _reported(ranking, collection.distance_metric), options.max_chunks)
        found = await queries.read_found_chunks(read.connection, scope, read.question, units=list(scores))
        search_id = await search.log(read.connection, len(found))
    return SearchDocumentCollectionResponse(
        search_id=search_id,
        results=_grouped(scores, found, merged=options.merge_contents),
        search_terms_used=list(dict.fromkeys(read.question.words)),
        structured_filters_applied=[
            AppliedFilter(field=each.field, operator=each.operator, value=each.value)
            for each in request.structured_query_filters
        ],
    )


async def submit_feedback(connection: AsyncConnection, caller: Caller, *, request: SubmitSearchFeedbackRequest) -> UUID:
    """Keep feedback on a search, or on one of its results, on the audit log; the entry's id.

    Raises NotFound for a search that isn't one of the organization's, and what `acting_for` raises.
    """
    acting = await acting_for(connection, caller, request.user_email)
    feedback = str(request.feedback)
    noted = await queries.note_feedback(
        connection, caller.organization_id, search_id=request.search_id, feedback=feedback
    )
    if not noted:
        raise NotFound("There is no such search. Send the searchId of a search response.", code="search_not_found")
    details = {"feedback": feedback}
    if request.document_id is not None:
        details["documentId"] = str(request.document_id)
    return await record(
        connection,
        acting,
        action="search.feedback",
        target_type="search",
        target_id=request.search_id,
        details=details,
        text=request.comments,
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """Who searches for what, as the log keeps it; without `is_kept`, the log may lack it where the disk has no room."""

    caller: Caller
    query: str
    mode: SearchMode
    collection_id: UUID | None
    is_kept: bool

    async def log(self, connection: AsyncConnection, result_count: int) -> UUID:
        """Keep the search, and return its id."""
        search_id = uuid7()
        row = {
            "search_id": search_id,
            "principal_id": self.caller.principal_id,
            "collection_id": self.collection_id,
            "mode": str(self.mode),
            "result_count": result_count,
            "request_id": request_id() or None,
        }
        async with nullcontext() if self.is_kept else leave_out_when_full(connection):
            await queries.log_search(connection, self.caller.organization_id, row=row, query=self.query)
        return search_id


def _checked(query: str) -> str:
    if not query.strip():
        message = "The query is empty. Send the words or the question to search for."
        raise BadRequest(message, code="empty_query", details=[FieldError("searchQuery", message)])
    return query


async def _asked(runtime: Runtime, search: _Search, space: Space) -> Question:
    """Embed a query, while no transaction is open."""
    embedder = runtime.embedders.get(space.model)
    [embedding] = await embedder.embed([search.query])
    return ask(search.query, mode=search.mode, language=space.language, embedding=embedding, mean=embedder.model.mean)


def _document(row: AnyRow, score: float, question: Question) -> CatalogSearchResult:
    passage = snippet_of(row.text, question.term_set, language=question.language)
    return CatalogSearchResult(
        document_id=row.document_id,
        document_name=row.name,
        document_external_id=row.external_id,
        document_external_url=row.external_url,
        resource=ResourceIdentifier(resource_id=row.resource_id, resource_type=row.resource_type),
        score=score,
        snippet=Snippet(text=passage.text, matches=[TextSpan(start=start, end=end) for start, end in passage.matches]),
        custom_metadata=row.custom_metadata,
        updated_at=row.updated_at,
    )


def _reported(ranking: Ranking, metric: str) -> dict[Unit, float]:
    """Return the units' scores in the collection's metric, best first.

    Vectors have unit norm, so the metrics rank alike: COSINE and DOTPRODUCT are the same number, and a EUCLIDEAN
    distance d becomes 1 / (1 + d).
    """
    similarities = list(ranking.cosines)
    if metric == DistanceMetric.EUCLIDEAN:
        similarities = [1 / (1 + sqrt(max(0.0, 2 - 2 * cosine))) for cosine in similarities]
    return dict(zip(ranking.units, shown_scores(similarities), strict=True))


def _above(threshold: float, scores: Mapping[Unit, float], most: int) -> dict[Unit, float]:
    kept = [(unit, score) for unit, score in scores.items() if score >= threshold]
    return dict(kept[:most])


def _grouped(
    scores: Mapping[Unit, float], found: Mapping[Unit, AnyRow], *, merged: bool
) -> list[CollectionSearchResult]:
    """Gather chunks, best first, by document; the document of the best chunk comes first."""
    by_document: dict[UUID, list[Unit]] = {}
    for unit in scores:
        by_document.setdefault(unit.document_id, []).append(unit)
    return [_collected(units, scores, found, merged=merged) for units in by_document.values()]


def _collected(
    units: Sequence[Unit], scores: Mapping[Unit, float], found: Mapping[Unit, AnyRow], *, merged: bool
) -> CollectionSearchResult:
    document = found[units[0]]
    chunks = [
        FoundChunk(chunk_id=found[unit].chunk_id, chunk_index=unit.chunk_no, text=found[unit].text, score=scores[unit])
        for unit in units
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
