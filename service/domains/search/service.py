"""Search the catalog, and take feedback; `collection_search` searches collections. A search waits for at most six
database answers, then a log entry, and on several servers a check."""

from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import ResourceIdentifier
from carrel.wire.search import (
    CatalogSearchResult,
    MatchedBy,
    SearchDocumentCatalogRequest,
    SearchDocumentCatalogResponse,
    Snippet,
    SubmitSearchFeedbackRequest,
    SubmitSearchFeedbackResponse,
    TextSpan,
)
from service.audit.service import find_author, record_feedback
from service.auth.callers import Caller, ask_acting_for
from service.domains.search import queries
from service.domains.search.filters import conditions_without_schema
from service.domains.search.log import SearchLog
from service.domains.search.pipeline import Found, Plan, search
from service.domains.search.reranking import ask_whether
from service.domains.search.search_query import require_text
from service.domains.search.snippets import Passage, snippet_of
from service.domains.search.syntax.parsing import ParsedQuery, parse_query
from service.index.service import ask_catalog
from service.platform.batches import Batch
from service.platform.errors import BadRequest, FieldError, NotFound
from service.runtime import Runtime


async def search_catalog(
    runtime: Runtime, caller: Caller, *, request: SearchDocumentCatalogRequest
) -> SearchDocumentCatalogResponse:
    """Search all documents the caller may READ, by metadata and contents; nothing else is ranked, counted or shown.
    Raises BadRequest for a query without anything in it, and what `acting_for` raises."""
    query, options, about = require_text(request.search_query), request.search_options, Batch()
    asked = ask_acting_for(about, caller, request.user_email)
    catalog = ask_catalog(about, caller.organization_id)
    reranks = ask_whether(about, runtime.reranker, caller.organization_id, option=options.enable_reranking)
    position = runtime.standbys.ask(about)
    await runtime.database.read(caller.organization_id, about)
    parsed = ParsedQuery(query) if options.literal_query else parse_query(query)
    plan = Plan(
        runtime,
        asked.caller(),
        texts=[parsed.text],
        mode=options.mode,
        space=catalog.row,
        ask_contents=queries.ask_found_documents,
        limit=options.max_results,
        position=position,
        conditions=conditions_without_schema(options.metadata_filters),
        resource_types=tuple(options.resource_types or ()),
        reranks=reranks(),
        parsed=parsed,
        checks_words=True,
        corrects=not options.literal_query,
    )
    log = SearchLog(runtime, plan.caller, query, plan.mode, collection_id=None, is_reranked=plan.candidates > 0)
    found = await search(plan, log)
    return SearchDocumentCatalogResponse(
        search_id=log.search_id, results=_to_documents(found, plan.limit), applied=found.say_applied()
    )


async def submit_feedback(
    connection: AsyncConnection, caller: Caller, *, request: SubmitSearchFeedbackRequest
) -> SubmitSearchFeedbackResponse:
    """Store an end user's feedback on a search of the caller's, or by an admin on anybody's, on the audit log.

    Raises NotFound for a search that the author didn't make (an admin may judge everybody's), BadRequest
    `document_not_in_results` for a document that the search didn't find, and what `find_author` raises."""
    author = await find_author(connection, caller, user_email=request.user_email)
    feedback = str(request.feedback)
    # What a refusal below has noted goes with the request's transaction.
    judged = await queries.note_feedback(
        connection,
        caller.organization_id,
        search_id=request.search_id,
        principal_ids=author.subject_ids,
        feedback=feedback,
        about=str(request.document_id or ""),
    )
    if judged is None:
        raise NotFound("You made no such search. Send the searchId of a search response.", code="search_not_found")
    details = {"feedback": feedback}
    if request.document_id is not None:
        # Of searches from before their results were kept, any document is taken: what they found is not known.
        if judged.document_ids is not None and request.document_id not in judged.document_ids:
            message = "The search did not find this document. Send a documentId of its results, or leave it out."
            raise BadRequest(message, code="document_not_in_results", details=[FieldError("documentId", message)])
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


def _to_documents(found: Found[queries.FoundDocument], limit: int) -> list[CatalogSearchResult]:
    if not found.rows:
        return []
    [query] = found.queries
    mark = partial(snippet_of, terms=query.term_set, stemmings=query.stemmings)
    scores = found.ranking.scores_of(found.ranking.hits)
    relevance = found.ranking.relevance_of(found.best(limit))
    return [
        _to_document(found.rows[hit], scores[hit], mark(found.rows[hit].text), relevance[hit], found.matched_by(hit))
        for hit in relevance
    ]


def _to_document(
    row: queries.FoundDocument, score: float, passage: Passage, relevance: float, matched: MatchedBy
) -> CatalogSearchResult:
    return CatalogSearchResult(
        document_id=row.document_id,
        document_name=row.name,
        document_external_id=row.external_id,
        document_external_url=row.external_url,
        document_version=row.version,
        resource=ResourceIdentifier(resource_id=row.resource_id, resource_type=row.resource_type),
        score=score,
        relevance=relevance,
        matched=matched,
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
