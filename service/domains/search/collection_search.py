"""Searching a collection's chunks.

A search waits for as many answers of the database as one of the catalog (`service.domains.search.service`), and for
the ranking's again with each further question. Where a query may state filters, smart filtering waits for two more, the
time and the values, and where its filters find nothing, for the ranking's again.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import sqrt
from uuid import UUID

from carrel.wire.collections import DistanceMetric
from carrel.wire.search import (
    AppliedExtraction,
    AppliedFilter,
    AppliedFiltering,
    AppliedOptions,
    CollectionSearchOptions,
    CollectionSearchResult,
    DrawnFilter,
    FoundChunk,
    SearchDocumentCollectionRequest,
    SearchDocumentCollectionResponse,
)
from service.auth.callers import Caller, ask_acting_for
from service.domains.documents.collections.queries import StoredCollection
from service.domains.documents.collections.service import ask_collection
from service.domains.search import queries
from service.domains.search.filters import Condition, conditions_by_schema
from service.domains.search.fusion import smooth_scores
from service.domains.search.ranking import Ranking, merge_rankings, rank
from service.domains.search.reranking import ask_whether, text_of
from service.domains.search.search_query import Hit, Scope
from service.domains.search.searching import Search, require_text
from service.domains.search.snapshot import Snapshot, open_snapshot
from service.domains.search.snippets import merge_texts
from service.domains.search.understanding.drawing import DrawnCondition, find_unused
from service.domains.search.understanding.service import ask_whether_model, conditions_of, draw_readable, understand
from service.index.service import Space
from service.platform.batches import Batch
from service.runtime import Runtime
from service.runtime.standbys import Source

_UNUSED = (
    "No filter was made of {}: that needs one field of the collection that clearly takes it, words that plainly say it "
    "of the documents, and no alternatives in the query."
)


async def search_collection(
    runtime: Runtime, caller: Caller, *, request: SearchDocumentCollectionRequest
) -> SearchDocumentCollectionResponse:
    """Search the chunks of a collection; needs VIEWER on it and READ on each document.

    Raises NotFound when it may not search the collection, BadRequest for an empty query or a filter that doesn't fit
    the collection's schema, and what `acting_for` raises.
    """
    query = require_text(request.search_query)
    about = Batch()
    asked = ask_acting_for(about, caller, request.user_email)
    give_collection = ask_collection(about, caller.organization_id, collection_id=request.document_collection_id)
    options = request.search_options
    reranks = ask_whether(about, runtime.reranker, caller.organization_id, option=options.enable_reranking)
    reads = bool(options.enable_smart_filtering or options.enable_query_extraction)
    asks_model = ask_whether_model(about, runtime, caller.organization_id) if reads else bool
    position = runtime.standbys.ask(about)
    await runtime.database.read(caller.organization_id, about)
    acting = asked.caller()
    collection = give_collection(acting)
    conditions = conditions_by_schema(
        request.structured_query_filters, collection.fields, member="structuredQueryFilters"
    )
    own = {each.field for each in request.structured_query_filters}
    understood = await understand(runtime, acting, query, collection, options, own=own, asks_model=asks_model())
    search = Search(runtime, acting, query, options.mode, collection.collection_id, understood, reranks())
    find = partial(_find_chunks, search, collection, conditions, request)
    return await runtime.standbys.read(runtime.database, position, find)


async def _find_chunks(
    search: Search,
    collection: StoredCollection,
    conditions: tuple[Condition, ...],
    request: SearchDocumentCollectionRequest,
    source: Source,
) -> SearchDocumentCollectionResponse:
    options = request.search_options
    space = Space(collection.space_id, collection.model, collection.dimensions)
    async with open_snapshot(source, search.caller.organization_id, space, prepare=search.prepare) as read:
        drawn = await _draw(read, search, collection, request)
        rank_within = partial(_rank_within, read, search, collection, options)
        scope, ranking, scores = await rank_within((*conditions, *conditions_of(drawn or (), collection.fields)))
        if dropped := bool(drawn and not scores):
            scope, ranking, scores = await rank_within(conditions)
        last = Batch()
        hits = list(scores)[: max(options.max_chunks, search.candidates)]
        chunks = queries.ask_found_chunks(last, scope, read.search_query, hits=hits)
        entry = search.entry(hits[: options.max_chunks], has_words=ranking.has_words)
        await search.finish(read, last, entry)
    found = await read.keep_readable(search.caller, {Hit(row.document_id, row.hit_no): row for row in chunks.rows})
    ranking, reranking = await search.rerank(ranking, {hit: text_of(row) for hit, row in found.items()})
    scores = _score_in_order([hit for hit in ranking.hits if hit in found][: options.max_chunks], scores)
    search_id = await search.log_after(read, entry, list(scores))
    return SearchDocumentCollectionResponse(
        search_id=search_id,
        results=_group_by_document(scores, found, merged=options.merge_contents),
        search_terms_used=list(dict.fromkeys(word for each in read.search_queries for word in each.words)),
        structured_filters_applied=[
            AppliedFilter(field=each.field, operator=each.operator, value=each.value)
            for each in (*request.structured_query_filters, *(() if dropped else drawn or ()))
        ],
        applied=_say_applied(search, drawn, dropped=dropped).model_copy(update={"reranking": reranking}),
    )


async def _draw(
    read: Snapshot, search: Search, collection: StoredCollection, request: SearchDocumentCollectionRequest
) -> list[DrawnCondition] | None:
    """Return the conditions that the query states; None where nobody asked for them.

    Of a field that the request's own filters name there is none. Neither is there one of several questions: it would
    narrow those that don't state it.
    """
    if not request.search_options.enable_smart_filtering:
        return None
    if len(read.search_queries) > 1:
        return []
    if search.understood.conditions is not None:
        return list(search.understood.conditions)
    own = {each.field for each in request.structured_query_filters}
    fields = {name: kind for name, kind in collection.fields.items() if name not in own}
    return await draw_readable(read, search.caller, read.search_query.text, fields, clock=search.runtime.clock)


async def _rank_within(
    read: Snapshot,
    search: Search,
    collection: StoredCollection,
    options: CollectionSearchOptions,
    conditions: tuple[Condition, ...],
) -> tuple[Scope, Ranking, dict[Hit, float]]:
    """Rank the chunks that fit conditions for each question; return also those that may be shown, with their scores.

    The threshold is held against the scores of this ranking: reranking neither adds to what reaches it nor takes away.
    """
    scope = Scope(
        caller=search.caller, space=read.space, by_chunk=True, conditions=conditions, is_distributed=read.is_distributed
    )
    most = max(options.max_chunks, search.candidates)
    rankings = [await rank(read.connection, scope, each, at_least=most) for each in read.search_queries]
    ranking = merge_rankings(rankings)
    scores = _score_results(ranking, collection.distance_metric)
    least = options.threshold or 0
    return scope, ranking, {hit: score for hit, score in scores.items() if score >= least}


def _say_applied(search: Search, drawn: Sequence[DrawnCondition] | None, *, dropped: bool) -> AppliedOptions:
    """Return what the options of a search did."""
    understood = search.understood
    by_model, note = understood.by_model, understood.note
    why_rules = None if by_model else note
    questions = list(search.questions)
    extraction = AppliedExtraction(questions=questions, by_model=by_model, note=why_rules) if questions else None
    if drawn is None:
        return AppliedOptions(extraction=extraction)
    filters = [
        DrawnFilter(field=each.field, operator=each.operator, value=each.value, words=each.words) for each in drawn
    ]
    # Of several questions no conditions are drawn, whatever they state.
    unused = find_unused(questions[0] if questions else search.query, drawn) if len(questions) <= 1 else []
    if unused:
        note = " ".join([*([note] if note else []), _UNUSED.format(", ".join(f"“{words}”" for words in unused))])
    return AppliedOptions(
        filtering=AppliedFiltering(filters=filters, dropped=dropped, by_model=by_model, note=note),
        extraction=extraction,
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


def _score_in_order(hits: Sequence[Hit], scores: Mapping[Hit, float]) -> dict[Hit, float]:
    """Return the scores of hits in the order in which they are shown, which they don't contradict."""
    return dict(zip(hits, smooth_scores([scores[hit] for hit in hits]), strict=True))


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
        document_version=document.version,
        document_metadata=document.custom_metadata,
        chunks=chunks,
        merged_contents=merge_texts({chunk.chunk_index: chunk.text for chunk in chunks}) if merged else None,
    )
