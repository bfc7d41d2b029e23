"""Searching a collection's chunks; smart filtering waits for two more answers, and the ranking's again."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import sqrt
from uuid import UUID

from carrel.wire.collections import DistanceMetric
from carrel.wire.search import (
    AppliedExtraction,
    AppliedFilter,
    AppliedFiltering,
    AppliedOptions,
    CollectionSearchResult,
    DrawnFilter,
    FoundChunk,
    SearchDocumentCollectionRequest,
    SearchDocumentCollectionResponse,
)
from service.auth.callers import Caller, ask_acting_for
from service.domains.documents.collections.service import ask_collection
from service.domains.search import queries
from service.domains.search.filters import conditions_by_schema
from service.domains.search.fusion import smooth_scores
from service.domains.search.log import SearchLog
from service.domains.search.pipeline import Found, Plan, search
from service.domains.search.ranking import Ranking
from service.domains.search.reranking import ask_whether
from service.domains.search.search_query import compute, require_text
from service.domains.search.snippets import merge_texts
from service.domains.search.syntax.parsing import ParsedQuery, parse_query
from service.domains.search.understanding.drawing import find_unused
from service.domains.search.understanding.service import Filtering, Understood, ask_whether_model, understand
from service.index.service import Space
from service.platform.batches import Batch
from service.runtime import Runtime

_UNUSED = (
    "No filter was made of {}: that needs one field of the collection that clearly takes it, words that plainly say it "
    "of the documents, and no alternatives in the query."
)


async def search_collection(
    runtime: Runtime, caller: Caller, *, request: SearchDocumentCollectionRequest
) -> SearchDocumentCollectionResponse:
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
    # With alternatives or phrases, filters are read from the query as it is written: they refuse some of these.
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
    return SearchDocumentCollectionResponse(
        search_id=log.search_id,
        results=await compute(found.texts(), group),
        search_terms_used=list(dict.fromkeys(word for each in found.queries for word in each.words)),
        structured_filters_applied=[
            AppliedFilter(field=each.field, operator=each.operator, value=each.value) for each in (*filters, *drawn)
        ],
        applied=_say_applied(stated, understood, found, collection.fields),
    )


def _cut(ranking: Ranking, *, metric: str, threshold: float) -> Ranking:
    """Return the hits that reach a threshold in the collection's metric, with these scores. Vectors have unit norm:
    COSINE and DOTPRODUCT are equal, a EUCLIDEAN distance d becomes 1 / (1 + d)."""
    similarities = ranking.similarities
    if metric == DistanceMetric.EUCLIDEAN:
        similarities = [1 / (1 + sqrt(max(0.0, 2 - 2 * cosine))) for cosine in similarities]
    scores = [score for score in smooth_scores(similarities) if score >= threshold]  # they never rise
    return replace(ranking, hits=ranking.hits[: len(scores)], similarities=scores)


def _say_applied(
    query: str, understood: Understood, found: Found[queries.FoundChunk], fields: Mapping[str, str]
) -> AppliedOptions:
    by_model, note, questions = understood.by_model, understood.note, list(understood.questions)
    extraction, filtering = None, None
    if questions:
        extraction = AppliedExtraction(questions=questions, by_model=by_model, note=None if by_model else note)
    if found.drawn is not None:
        filters = [
            DrawnFilter(field=each.field, operator=each.operator, value=each.value, words=each.words)
            for each in found.drawn
        ]
        # Of several questions no conditions are drawn, whatever they state.
        unused = find_unused(questions[0] if questions else query, found.drawn, fields) if len(questions) <= 1 else []
        if unused:
            note = " ".join([*([note] if note else []), _UNUSED.format(", ".join(f"“{words}”" for words in unused))])
        filtering = AppliedFiltering(filters=filters, dropped=found.dropped, by_model=by_model, note=note)
    return found.say_applied().model_copy(update={"filtering": filtering, "extraction": extraction})


def _group_by_document(found: Found[queries.FoundChunk], limit: int, *, merged: bool) -> list[CollectionSearchResult]:
    by_document: dict[UUID, list[FoundChunk]] = {}
    relevance = found.ranking.relevance_of(found.best(limit))
    for hit, score in found.ranking.scores_of(found.best(limit)).items():
        row = found.rows[hit]
        chunk = FoundChunk(
            chunk_id=row.chunk_id,
            chunk_index=row.chunk_no,
            text=row.text,
            score=score,
            relevance=relevance[hit],
            matched=found.matched_by(hit),
            place=row.place,
        )
        by_document.setdefault(row.document_id, []).append(chunk)
    documents = {row.document_id: row for row in found.rows.values()}
    return [_to_result(documents[document_id], chunks, merged=merged) for document_id, chunks in by_document.items()]


def _to_result(document: queries.FoundChunk, chunks: list[FoundChunk], *, merged: bool) -> CollectionSearchResult:
    return CollectionSearchResult(
        document_id=document.document_id,
        document_name=document.name,
        document_external_id=document.external_id,
        document_url=document.external_url,
        document_version=document.version,
        document_metadata=document.custom_metadata,
        chunks=chunks,
        merged_contents=merge_texts({chunk.chunk_index: chunk.text for chunk in chunks}) if merged else None,
    )
