"""Searching the catalog, and feedback on what was found; collections are searched in `collection_search`.

A query is embedded before the transaction of its search opens; that one reads a single snapshot from the legs to the
names in the results, and keeps the search in the log. A search waits for six answers of the database at most; for one
more to be logged afterwards, and for one more to ask again who may read what in an index on several servers. Where a
standby of the database is read from, it keeps no log: the primary does, in a transaction of its own. So does the
coordinator of an index on several servers, once it has checked what may be shown.
"""

from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import ResourceIdentifier
from carrel.wire.search import (
    AppliedOptions,
    CatalogSearchOptions,
    CatalogSearchResult,
    SearchDocumentCatalogRequest,
    SearchDocumentCatalogResponse,
    Snippet,
    SubmitSearchFeedbackRequest,
    SubmitSearchFeedbackResponse,
    TextSpan,
)
from service.audit.feedback import find_author, record_feedback
from service.auth.callers import Caller, ask_acting_for
from service.domains.search import queries
from service.domains.search.filters import conditions_without_schema
from service.domains.search.ranking import NOTHING_RANKED, rank
from service.domains.search.reranking import ask_whether, text_of
from service.domains.search.search_query import Scope
from service.domains.search.searching import Search, require_text
from service.domains.search.snapshot import open_snapshot
from service.domains.search.snippets import Passage, snippet_of
from service.index.service import Space, ask_catalog
from service.platform.batches import Batch
from service.platform.errors import BadRequest, FieldError, NotFound
from service.runtime import Runtime
from service.runtime.standbys import Source


async def search_catalog(
    runtime: Runtime, caller: Caller, *, request: SearchDocumentCatalogRequest
) -> SearchDocumentCatalogResponse:
    """Search all documents the caller may READ, by metadata and contents.

    Nothing else is ranked, counted or shown. Raises BadRequest for a query without anything in it, and what
    `acting_for` raises.
    """
    query = require_text(request.search_query)
    about = Batch()
    asked = ask_acting_for(about, caller, request.user_email)
    catalog = ask_catalog(about, caller.organization_id)
    options = request.search_options
    reranks = ask_whether(about, runtime.reranker, caller.organization_id, option=options.enable_reranking)
    position = runtime.standbys.ask(about)
    await runtime.database.read(caller.organization_id, about)
    space = catalog.row
    search = Search(runtime, asked.caller(), query, options.mode, collection_id=None, reranks=reranks())
    if space is None:
        _, reranking = await search.rerank(NOTHING_RANKED, {})
        search_id = await search.log(search.entry((), has_words=None))
        return SearchDocumentCatalogResponse(
            search_id=search_id, results=[], applied=AppliedOptions(reranking=reranking)
        )
    find = partial(_find_documents, search, space, options)
    return await runtime.standbys.read(runtime.database, position, find)


async def _find_documents(
    search: Search, space: Space, options: CatalogSearchOptions, source: Source
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
        most = max(options.max_results, search.candidates)
        ranking = await rank(read.connection, scope, read.search_query, at_least=most)
        hits = ranking.hits[:most]
        last = Batch()
        documents = queries.ask_found_documents(
            last, scope, read.search_query, hits=hits, chunk_weights=ranking.chunk_weights
        )
        entry = search.entry(hits, has_words=ranking.has_words)
        await search.finish(read, last, entry)
    found = await read.keep_readable(acting, {row.document_id: row for row in documents.rows})
    texts = {hit: text_of(found[hit.document_id]) for hit in hits if hit.document_id in found}
    ranking, reranking = await search.rerank(ranking, texts)
    scored = zip(ranking.hits, ranking.scores(), strict=True)
    shown = [(hit, score) for hit, score in scored if hit in texts][: options.max_results]
    search_id = await search.log_after(read, entry, [hit for hit, _ in shown])
    mark = partial(snippet_of, terms=read.search_query.term_set, stemmings=read.search_query.stemmings)
    results = [_to_document(found[hit.document_id], score, mark(found[hit.document_id].text)) for hit, score in shown]
    return SearchDocumentCatalogResponse(
        search_id=search_id, results=results, applied=AppliedOptions(reranking=reranking)
    )


async def submit_feedback(
    connection: AsyncConnection, caller: Caller, *, request: SubmitSearchFeedbackRequest
) -> SubmitSearchFeedbackResponse:
    """Store an end user's feedback on a search of the caller's, or by an admin on anybody's, on the audit log.

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
    return SubmitSearchFeedbackResponse(
        audit_log_id=await record_feedback(
            connection,
            author,
            action="search.feedback",
            target_type="search",
            target_id=request.search_id,
            details=details,
            texts=[request.comments],
        )
    )


def _require_result(document_id: UUID, search: queries.Findings) -> None:
    # Of searches from before their results were kept, any document is taken: what they found is not known.
    if search.document_ids is not None and document_id not in search.document_ids:
        message = "The search did not find this document. Send a documentId of its results, or leave it out."
        raise BadRequest(message, code="document_not_in_results", details=[FieldError("documentId", message)])


def _to_document(row: queries.FoundDocument, score: float, passage: Passage) -> CatalogSearchResult:
    return CatalogSearchResult(
        document_id=row.document_id,
        document_name=row.name,
        document_external_id=row.external_id,
        document_external_url=row.external_url,
        document_version=row.version,
        resource=ResourceIdentifier(resource_id=row.resource_id, resource_type=row.resource_type),
        score=score,
        snippet=Snippet(
            text=passage.text,
            matches=[TextSpan(start=start, end=end) for start, end in passage.matches],
            chunk_index=row.chunk_no,
            place=row.place,
        ),
        custom_metadata=row.custom_metadata,
        updated_at=row.updated_at,
        parent_document_id=row.container_id,
    )
