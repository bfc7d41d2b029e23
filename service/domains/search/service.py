"""Search the catalog or a collection's chunks, and take feedback. A search waits for at most seven database answers,
then a log entry, and on several servers a check. Smart filtering adds two answers, and repeats the ranking's."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import sqrt
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import search as wire
from carrel.wire.collections import DistanceMetric
from carrel.wire.common import NamedDocument, ResourceIdentifier
from service.audit.service import find_author, record_feedback
from service.auth.callers import Caller, ask_acting_for
from service.domains.documents.collections.filters import conditions_by_schema, conditions_without_schema
from service.domains.documents.collections.service import ask_collection
from service.domains.search import queries
from service.domains.search.arranging import ARRANGED, arrange
from service.domains.search.facets.service import count_facets
from service.domains.search.fusion import smooth_scores
from service.domains.search.log import SearchLog
from service.domains.search.pipeline import Found, Plan, search
from service.domains.search.ranking import Ranking
from service.domains.search.reranking import ask_whether
from service.domains.search.search_query import Scope, compute, require_text
from service.domains.search.snippets import Passage, merge_texts, snippet_of
from service.domains.search.syntax.parsing import ParsedQuery, parse_query
from service.domains.search.understanding.drawing import find_unused
from service.domains.search.understanding.service import Filtering, Understood, ask_whether_model, understand
from service.index.spaces.queries import Space, ask_catalog
from service.permissions.rights import unknown_document
from service.platform.batches import Batch
from service.platform.errors import BadRequest, FieldError, NotFound
from service.runtime import Runtime

FIRST_PASSAGES = 2
MOST_CHARACTERS = 8_192
"""The most passages of a document, and characters of passages, to search with for similar documents."""


async def search_catalog(
    runtime: Runtime, caller: Caller, *, request: wire.SearchDocumentCatalogRequest
) -> wire.SearchDocumentCatalogResponse:
    """Search all documents the caller may READ, by metadata and contents; no other documents are ranked, counted or
    shown. Raises BadRequest for an empty query, NotFound for an unknown `similarTo`, and the errors of `acting_for`."""
    query, options, about = require_text(request.search_query), request.search_options, Batch()
    asked = ask_acting_for(about, caller, request.user_email)
    catalog = ask_catalog(about, caller.organization_id)
    reranks = ask_whether(about, runtime.reranker, caller.organization_id, option=options.enable_reranking)
    position = runtime.standbys.ask(about)
    await runtime.database.read(caller.organization_id, about)
    acting = asked.caller()
    parsed = ParsedQuery(query) if options.literal_query else parse_query(query)
    if options.similar_to is not None:
        parsed = ParsedQuery(await _read_beginning(runtime, acting, catalog.row, options.similar_to))
    order = options.order or wire.ResultOrder.RELEVANCE
    arranges = options.group_similar or order is not wire.ResultOrder.RELEVANCE
    plan = Plan(
        runtime,
        acting,
        texts=[parsed.text],
        # A query of fields alone has no words to look for, so rank by meaning.
        mode=options.mode if parsed.has_words else wire.SearchMode.SEMANTIC,
        space=catalog.row,
        ask_contents=queries.ask_found_documents,
        limit=options.max_results,
        position=position,
        conditions=conditions_without_schema(options.metadata_filters),
        resource_types=tuple(options.resource_types or ()),
        reranks=reranks(),
        parsed=parsed,
        checks_words=options.similar_to is None and parsed.has_words,
        corrects=not options.literal_query,
        reads=ARRANGED if arranges else 0,
        passages=options.passages_per_document or 1,
        arrange=partial(arrange, groups=options.group_similar or False, order=order) if arranges else None,
        without=frozenset({options.similar_to} if options.similar_to else ()),
    )
    is_late = plan.candidates > 0 or arranges
    log = SearchLog(runtime, plan.caller, query, options.mode, collection_id=None, is_late=is_late)
    found = await search(plan, log)
    facets, counted = None, None
    if options.count_facets:
        ids = [hit.document_id for hit in found.ranking.hits]
        facets, counted = await count_facets(runtime.database, acting, ids)
    return wire.SearchDocumentCatalogResponse(
        search_id=log.search_id,
        results=await compute(found.texts(), _to_documents, found, plan.limit),
        facets=facets,
        facets_counted=counted,
        applied=found.say_applied(),
    )


async def _read_beginning(runtime: Runtime, caller: Caller, space: Space | None, document_id: UUID) -> str:
    """Return the first passages of a readable document's text. Raises NotFound `document_not_found`."""
    batch, rows = Batch(), list[queries.FoundPassage]()
    if space is not None:
        scope = Scope(caller=caller, space=space, by_chunk=False)
        answer = queries.ask_beginning(batch, scope, document_id=document_id, most=FIRST_PASSAGES)
        await runtime.database.read(caller.organization_id, batch)
        rows = answer.rows
    if not rows:
        raise unknown_document()
    return "\n".join(row.text for row in rows)[:MOST_CHARACTERS]


async def submit_feedback(
    connection: Connection, caller: Caller, *, request: wire.SubmitSearchFeedbackRequest
) -> wire.SubmitSearchFeedbackResponse:
    """Store an end user's feedback on the caller's search, or by an admin on any search, on the audit log.

    Raises NotFound for foreign searches, BadRequest `document_not_in_results`, and the errors of `find_author`."""
    author = await find_author(connection, caller, user_email=request.user_email)
    feedback = str(request.feedback)
    # A refusal below rolls this back with the request's transaction.
    judged = await queries.note_feedback(
        connection,
        caller.organization_id,
        search_id=request.search_id,
        principal_ids=author.subject_ids,
        feedback=feedback,
        about=str(request.document_id or ""),
    )
    if judged is None:
        message = "You made no search with this id. Send the searchId of a search response."
        raise NotFound(message, code="search_not_found")
    details = {"feedback": feedback}
    if request.document_id is not None:
        # The results of searches from older releases are unknown, so accept any document.
        if judged.document_ids is not None and request.document_id not in judged.document_ids:
            message = "The search did not find this document. Send a documentId of its results, or leave it out."
            raise BadRequest(message, code="document_not_in_results", details=[FieldError("documentId", message)])
        details["documentId"] = str(request.document_id)
    return wire.SubmitSearchFeedbackResponse(
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


def _to_documents(found: Found[queries.FoundDocument], limit: int) -> list[wire.CatalogSearchResult]:
    if not found.rows:
        return []
    shown, [query] = found.best(limit), found.queries
    mark = partial(snippet_of, terms=query.reading.marked, stemmings=query.stemmings)
    scores, matched = found.ranking.scores_of(found.ranking.hits), {hit: found.matched_by(hit) for hit in shown}
    relevance = found.relevance_of(matched)
    passages: dict[UUID, list[queries.FoundPassage]] = {}
    for passage in found.passages:
        passages.setdefault(passage.document_id, []).append(passage)
    return [
        wire.CatalogSearchResult(
            document_id=row.document_id,
            document_name=row.name,
            document_external_id=row.external_id,
            document_external_url=row.external_url,
            document_version=row.version,
            resource=ResourceIdentifier(resource_id=row.resource_id, resource_type=row.resource_type),
            custom_metadata=row.custom_metadata,
            updated_at=row.updated_at,
            parent_document_id=row.container_id,
            score=scores[hit],
            relevance=relevance[hit],
            matched=matched[hit],
            name_matches=_to_spans(mark(row.name, length=len(row.name))) or None,
            snippet=_to_snippet(row, mark),
            further_passages=[
                _to_snippet(passage, mark)
                for passage in passages.get(row.document_id, ())
                if passage.chunk_no != row.chunk_no
            ],
            similar=[
                NamedDocument(document_id=row.document_id, document_name=row.name, document_external_id=row.external_id)
                for row in map(found.rows.__getitem__, found.similar.get(hit, ()))
            ],
        )
        for hit, row in ((hit, found.rows[hit]) for hit in shown)
    ]


def _to_snippet(row: queries.FoundPassage, mark: Callable[..., Passage]) -> wire.Snippet:
    passage = mark(row.text)
    return wire.Snippet(text=passage.text, matches=_to_spans(passage), chunk_index=row.chunk_no, place=row.place)


def _to_spans(passage: Passage) -> list[wire.TextSpan]:
    return [wire.TextSpan(start=start, end=end) for start, end in passage.matches]


_UNUSED = (
    "{} did not become a filter. A filter needs a single matching field of the collection, and a query that states the "
    "value clearly, without alternatives. You can set the filter yourself."
)


async def search_collection(
    runtime: Runtime, caller: Caller, *, request: wire.SearchDocumentCollectionRequest
) -> wire.SearchDocumentCollectionResponse:
    """Search the chunks of a collection; needs VIEWER on it and READ on each document."""
    query, options, about = require_text(request.search_query), request.search_options, Batch()
    asked = ask_acting_for(about, caller, request.user_email)
    give_collection = ask_collection(about, caller.organization_id, collection_id=request.document_collection_id)
    reranks = ask_whether(about, runtime.reranker, caller.organization_id, option=options.enable_reranking)
    reads = bool(options.enable_smart_filtering or options.enable_query_extraction)
    asks_model = ask_whether_model(about, runtime, caller.organization_id) if reads else bool
    position = runtime.standbys.ask(about)
    await runtime.database.read(caller.organization_id, about)
    acting = asked.caller()
    collection = give_collection(acting)
    filters = request.structured_query_filters
    conditions = conditions_by_schema(filters, collection.fields, member="structuredQueryFilters")
    own = {each.field for each in filters}
    parsed = ParsedQuery(query) if options.literal_query else parse_query(query)
    # Filters refuse some alternatives and phrases, so they read the query as written.
    stated = query if parsed.clauses else parsed.text
    understood = await understand(runtime, acting, stated, collection, options, own=own, asks_model=asks_model())
    texts = understood.questions or [parsed.text]
    free = {name: kind for name, kind in collection.fields.items() if name not in own}
    filtering = (
        Filtering([*understood.questions, stated][0], free, understood.conditions)
        if options.enable_smart_filtering
        else None
    )
    plan = Plan(
        runtime,
        acting,
        texts=texts,
        mode=options.mode,
        space=Space(collection.space_id, collection.model, collection.dimensions),
        ask_contents=queries.ask_found_chunks,
        limit=options.max_chunks,
        position=position,
        by_chunk=True,
        conditions=conditions,
        filtering=filtering,
        cut=partial(_cut, metric=collection.distance_metric, threshold=options.threshold or 0),
        reranks=reranks(),
        parsed=parsed,
        checks_words=len(texts) == 1,
        corrects=not options.literal_query,
    )
    log = SearchLog(runtime, acting, query, plan.mode, collection.collection_id, is_late=plan.candidates > 0)
    found = await search(plan, log)
    drawn = () if found.dropped else found.drawn or ()
    group = partial(_group_by_document, found, plan.limit, merged=options.merge_contents)
    return wire.SearchDocumentCollectionResponse(
        search_id=log.search_id,
        results=await compute(found.texts(), group),
        search_terms_used=list(dict.fromkeys(word for each in found.queries for word in each.reading.words)),
        structured_filters_applied=[
            wire.AppliedFilter(field=each.field, operator=each.operator, value=each.value)
            for each in (*filters, *drawn)
        ],
        applied=_say_applied(stated, understood, found, collection.fields),
    )


def _cut(ranking: Ranking, *, metric: str, threshold: float) -> Ranking:
    """Return hits with smoothed scores in a metric, from the threshold up; a EUCLIDEAN distance d is 1 / (1 + d)."""
    similarities = ranking.similarities
    if metric == DistanceMetric.EUCLIDEAN:
        similarities = [1 / (1 + sqrt(max(0.0, 2 - 2 * cosine))) for cosine in similarities]
    scores = [score for score in smooth_scores(similarities) if score >= threshold]  # scores never rise
    return replace(ranking, hits=ranking.hits[: len(scores)], similarities=scores)


def _say_applied(
    query: str, understood: Understood, found: Found[queries.FoundChunk], fields: Mapping[str, str]
) -> wire.AppliedOptions:
    by_model, note, questions = understood.by_model, understood.note, list(understood.questions)
    extraction, filtering = None, None
    if questions:
        extraction = wire.AppliedExtraction(questions=questions, by_model=by_model, note=None if by_model else note)
    if found.drawn is not None:
        # Several questions draw no conditions.
        unused = find_unused(questions[0] if questions else query, found.drawn, fields) if len(questions) <= 1 else []
        if unused:
            note = " ".join([*([note] if note else []), _UNUSED.format(", ".join(f"“{words}”" for words in unused))])
        filtering = wire.AppliedFiltering(
            filters=list(found.drawn), dropped=found.dropped, by_model=by_model, note=note
        )
    return found.say_applied().model_copy(update={"filtering": filtering, "extraction": extraction})


def _group_by_document(
    found: Found[queries.FoundChunk], limit: int, *, merged: bool
) -> list[wire.CollectionSearchResult]:
    by_document: dict[UUID, list[wire.FoundChunk]] = {}
    matched = {hit: found.matched_by(hit) for hit in found.best(limit)}
    relevance = found.relevance_of(matched)
    for hit, score in found.ranking.scores_of([*matched]).items():
        row = found.rows[hit]
        chunk = wire.FoundChunk(
            chunk_id=row.chunk_id,
            chunk_index=row.chunk_no,
            text=row.text,
            score=score,
            relevance=relevance[hit],
            matched=matched[hit],
            place=row.place,
        )
        by_document.setdefault(row.document_id, []).append(chunk)
    documents = {row.document_id: row for row in found.rows.values()}
    return [
        wire.CollectionSearchResult(
            document_id=document.document_id,
            document_name=document.name,
            document_external_id=document.external_id,
            document_url=document.external_url,
            document_version=document.version,
            document_metadata=document.custom_metadata,
            chunks=chunks,
            merged_contents=merge_texts({chunk.chunk_index: chunk.text for chunk in chunks}) if merged else None,
        )
        for document, chunks in ((documents[document_id], chunks) for document_id, chunks in by_document.items())
    ]
