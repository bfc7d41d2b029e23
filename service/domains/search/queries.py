"""Run a search's statements in a REPEATABLE READ snapshot; every condition is in the legs, before ordering or LIMIT."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Text, bindparam, case, func, insert, literal_column, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import oversight as wire
from carrel.wire.common import ResourceType
from carrel.wire.places import PassagePlace
from carrel.wire.search import SearchFeedback, SearchMode
from service.auth.callers import Caller
from service.domains.documents.collections.comparisons import name_of_value
from service.domains.documents.collections.filters import Comparison
from service.domains.search import sql
from service.domains.search.fusion import Legs, Scores
from service.domains.search.scoring.sql import ORGANIZATION, AnySelect, Shape
from service.domains.search.search_query import WHOLE, Hit, Scope, SearchQuery
from service.domains.search.syntax.parsing import FieldClause
from service.domains.search.syntax.queries import any_with_field, field_parameters, pattern_of, shape_of_fields
from service.identity.queries import user_as
from service.index.spaces.queries import CurrentSpace, Space
from service.index.statistics.queries import Frequency
from service.index.term_keys import every_key
from service.index.terms import as_sparsevec
from service.permissions.queries import reader_parameters
from service.platform import traces
from service.platform.batches import Answer, Batch
from service.platform.sql import columns_of, count_where, find_row, find_rows, optional_in
from service.schema.identity import principals
from service.schema.search import free_texts, searches

# The pages, then documents, whose chunks get exact scores after the first pass by meaning. More pages, so that one long
# document on the subject leaves room for others.
BEST_PAGES = 5000
BEST_DOCUMENTS = 2000
# Feedback from the first results (Rocchio, 1971): the question moves this far towards the mean of this many results.
FEEDBACK_WEIGHT, FEEDBACK_EXAMPLES = 0.4, 3


class ExactScores(NamedTuple):
    """A hit's scores and the chunk nearest in meaning. Without a vector, a hit gets the mean cosine (`has_meaning`)."""

    hit: Hit
    scores: Scores
    nearest_chunk: int
    is_bare: bool
    has_meaning: bool = True


class Candidate(NamedTuple):
    """A hit's negative scores (`dense` None: no vector yet), nearest chunk, and rank in each leg (None: not found)."""

    document_id: UUID
    hit_no: int
    lexical: float
    dense: float | None
    dense_rank: int | None
    lexical_rank: int | None
    nearest: int
    size: int


class _Nearness(NamedTuple):
    number: int
    dense: float | None


@dataclass(frozen=True, slots=True)
class ChunkWeights:
    """The weights of scores for choosing a document's best chunk, and the cosine of a chunk without a vector."""

    lexical: float
    dense: float
    unknown: float = 0.0

    def parameters(self) -> dict[str, float]:
        return {"lexical_share": self.lexical, "dense_share": self.dense, "unknown": -self.unknown}


@dataclass(frozen=True, slots=True)
class FoundPassage:
    document_id: UUID
    chunk_no: int
    text: str
    place: PassagePlace | None


@dataclass(frozen=True, slots=True)
class FoundDocument(FoundPassage):
    name: str
    names: str
    external_id: str
    external_url: str | None
    custom_metadata: dict[str, str]
    updated_at: datetime
    changed_at: datetime
    resource_type: ResourceType
    resource_id: str
    container_id: UUID | None
    version: int

    @property
    def hit(self) -> Hit:
        return Hit(self.document_id, WHOLE)


@dataclass(frozen=True, slots=True)
class FoundChunk(FoundPassage):
    hit_no: int
    chunk_id: UUID
    name: str
    names: str
    external_id: str
    external_url: str | None
    custom_metadata: dict[str, str]
    version: int

    @property
    def hit(self) -> Hit:
        return Hit(self.document_id, self.hit_no)


Row = TypeVar("Row", FoundDocument, FoundChunk)


@dataclass(frozen=True, slots=True)
class Findings:
    """The documents found by a search; None for searches older than this record."""

    document_ids: Sequence[UUID] | None


def shape_of(scope: Scope) -> Shape:
    comparisons = tuple(Comparison(each.field, each.operator, each.kind) for each in scope.conditions)
    return Shape(
        scope.space.dimensions,
        scope.by_chunk,
        comparisons,
        by_resource_type=bool(scope.resource_types),
        is_distributed=scope.is_distributed,
        is_narrowed=scope.caller.collection_ids is not None,
        fields=shape_of_fields(scope.fields),
        has_only=scope.only is not None,
        has_without=bool(scope.without),
        has_pattern=scope.pattern is not None,
        has_passages=scope.by_chunk and scope.passages is not None,
        # A CurrentSpace may have vectors; only a snapshot knows.
        has_vectors_inside=not isinstance(scope.space, CurrentSpace) or scope.space.has_vectors_inside,
    )


def _parameters(scope: Scope, search_query: SearchQuery) -> dict[str, Any]:
    asked = {"vector": search_query.vector, "code": search_query.code, "terms": search_query.terms}
    return _parameters_of(scope) | asked


def _parameters_of(scope: Scope) -> dict[str, Any]:
    return {
        "organization_id": scope.caller.organization_id,
        "space_id": scope.space.space_id,
        "resource_types": list(scope.resource_types),
        "only_ids": list(scope.only or ()),
        "without_ids": list(scope.without),
        "pattern": scope.pattern,
        **_hits(scope.passages or (), prefix="passage_"),
        **{name_of_value(number): each.value for number, each in enumerate(scope.conditions)},
        **field_parameters(scope.fields, scope.caller),
        **reader_parameters(scope.caller, is_narrowing=True),
    }


def _hits(hits: Collection[Hit], *, prefix: str = "") -> dict[str, Any]:
    return {f"{prefix}ids": [hit.document_id for hit in hits], f"{prefix}numbers": [hit.chunk_no for hit in hits]}


def ask_whether_small(batch: Batch, caller: Caller, space: Space, *, few: int | None = None) -> Answer[dict[str, bool]]:
    """Ask in a batch whether fewer than `few` (None: FEW_CHUNKS) chunks of a space are readable (`is_small`)."""
    scope = Scope(caller, space, by_chunk=False)
    return batch.ask(sql.whether_small(shape_of(scope), few or sql.FEW_CHUNKS), dict[str, bool], _parameters_of(scope))


def ask_candidates(batch: Batch, scope: Scope, search_query: SearchQuery, *, at_least: int) -> Answer[Candidate]:
    """Add the read of a search's hits to a batch. The caller checks that a lexical search looks for words."""
    by_meaning = search_query.mode is not SearchMode.LEXICAL
    shape = shape_of(scope)
    is_whole = scope == Scope(scope.caller, scope.space, scope.by_chunk, pattern=scope.pattern)
    is_known = is_whole if search_query.is_small is False else not shape.has_vectors_inside
    shape = replace(shape, is_small=search_query.is_small if is_known else None)
    statement = sql.candidates(shape, by_words=search_query.looks_for_words, by_meaning=by_meaning)
    limits = {"page_limit": BEST_PAGES, "document_limit": BEST_DOCUMENTS, "at_least": at_least}
    few, lookup = search_query.few, search_query.lookup
    keys = {"few_keys": list(few.keys), "few_bound": few.bound, "keys": list(lookup.keys), "bound": lookup.bound}
    return batch.ask(statement, Candidate, _parameters(scope, search_query) | limits | keys)


def ask_containing(
    batch: Batch,
    scope: Scope,
    *,
    terms: Collection[int] = (),
    phrase: str | None = None,
    is_common: bool = False,
    most: int = 1,
) -> Answer[Hit]:
    """Read in a batch the chunks with any of these terms (of the phrase's rarest word) or, if given, the phrase. For a
    common word, read the chunks in scope up to the limit, because the index reads all chunks with a word."""
    keys = () if is_common else every_key(terms, space_id=scope.space.space_id)
    parameters = _parameters_of(scope) | {"terms": as_sparsevec(dict.fromkeys(terms, 1.0)), "keys": list(keys)}
    pattern = {} if phrase is None else {"pattern": pattern_of(phrase.removeprefix('"'))}
    statement = sql.chunks_containing(shape_of(scope), is_phrase=phrase is not None)
    return batch.ask(statement, Hit, parameters | pattern | {"most": most})


async def find_candidates(
    connection: Connection, scope: Scope, search_query: SearchQuery, *, at_least: int
) -> tuple[Legs[int], list[ExactScores]]:
    """Return both legs as numbers in the list of their hits' scores: a dictionary would hash each id repeatedly."""
    if search_query.mode is SearchMode.LEXICAL and not search_query.looks_for_words:
        return Legs(_order_by_rank(()), _order_by_rank(())), []
    batch = Batch()
    answer = ask_candidates(batch, scope, search_query, at_least=at_least)
    with traces.span("search legs", {"carrel.mode": search_query.mode}) as span:
        await batch.run(connection)
        span.set_attribute("carrel.hits", len(answer.rows))
    by_rank = [row.dense for row in answer.rows if row.dense is not None and row.dense_rank is not None]
    known = by_rank or [row.dense for row in answer.rows if row.dense is not None]
    mean = sum(known) / len(known) if known else 0.0
    exact = [
        ExactScores(
            Hit(row.document_id, row.hit_no),
            Scores(-row.lexical, -(mean if row.dense is None else row.dense)),
            row.nearest,
            is_bare=row.size < sql.NEARLY_EMPTY,
            has_meaning=row.dense is not None,
        )
        for row in answer.rows
    ]
    legs = Legs(
        lexical=_order_by_rank(row.lexical_rank for row in answer.rows),
        dense=_order_by_rank(row.dense_rank for row in answer.rows),
    )
    return legs, exact


def _order_by_rank(ranks: Iterable[int | None]) -> list[int]:
    return [number for _, number in sorted((rank, number) for number, rank in enumerate(ranks) if rank is not None)]


async def score_near(
    connection: Connection, scope: Scope, search_query: SearchQuery, *, hits: Sequence[Hit], examples: Sequence[Hit]
) -> dict[int, float]:
    """Return cosines of hits with vectors, by their place in `hits`, to the question vector moved towards the mean
    vector of `examples`."""
    weights = "[" + ",".join([repr(FEEDBACK_WEIGHT)] * scope.space.dimensions) + "]"
    parameters = _parameters(scope, search_query) | _hits(hits) | _hits(examples, prefix="example_")
    batch = Batch()
    answer = batch.ask(sql.scores_near(shape_of(scope)), _Nearness, parameters | {"weights": weights})
    with traces.span("search again"):
        await batch.run(connection)
    return {row.number - 1: -row.dense for row in answer.rows if row.dense is not None}


def ask_found_documents(
    batch: Batch, scope: Scope, search_query: SearchQuery, hits: Sequence[Hit], weights: ChunkWeights
) -> Answer[FoundDocument]:
    parameters = _parameters(scope, search_query) | _hits(hits) | weights.parameters()
    return batch.ask(sql.found_documents(shape_of(scope)), FoundDocument, parameters)


def ask_passages(
    batch: Batch, scope: Scope, search_query: SearchQuery, hits: Sequence[Hit], weights: ChunkWeights, *, most: int
) -> Answer[FoundPassage]:
    """Read in a batch the best `most` passages of each found document, or the `most` chunks on each side of a hit."""
    parameters = _parameters(scope, search_query) | _hits(hits) | weights.parameters() | {"most": most}
    statement = sql.neighbours if scope.by_chunk else sql.further_passages
    return batch.ask(statement(shape_of(scope)), FoundPassage, parameters)


def ask_beginning(batch: Batch, scope: Scope, *, document_id: UUID, most: int) -> Answer[FoundPassage]:
    """Read the first passages of a document in a batch; none for a document out of scope."""
    parameters = _parameters_of(scope) | {"ids": [document_id], "most": most}
    return batch.ask(sql.readable_passages(shape_of(scope)), FoundPassage, parameters)


def ask_whether_met(batch: Batch, scope: Scope, clause: FieldClause) -> Answer[dict[str, bool]]:
    """Ask in a batch whether a readable document fits a field of the query (`is_met`)."""
    [shape] = shape_of_fields([clause])
    statement = any_with_field(shape, is_narrowed=scope.caller.collection_ids is not None)
    return batch.ask(statement, dict[str, bool], _parameters_of(replace(scope, fields=(clause,))))


def ask_counts(batch: Batch, scope: Scope, *, groups: Sequence[Sequence[int]], most: int) -> Answer[Frequency]:
    """Count chunks with a term of each group (from 1) among the first `most` in scope, and these chunks (entry 0)."""
    vectors = [as_sparsevec(dict.fromkeys(terms, 1.0)) for terms in groups]
    return batch.ask(
        sql.counts_of_terms(shape_of(scope)), Frequency, _parameters_of(scope) | {"vectors": vectors, "most": most}
    )


def ask_without_meaning(batch: Batch, scope: Scope, *, most: int) -> Answer[dict[str, int]]:
    """Count in a batch the `documents` in scope, up to `most`, with only words indexed so far."""
    statement = sql.documents_without_meaning(shape_of(scope))
    return batch.ask(statement, dict[str, int], _parameters_of(scope) | {"most": most})


def ask_readable_documents(batch: Batch, caller: Caller, *, document_ids: Collection[UUID]) -> Answer[dict[str, UUID]]:
    reader = reader_parameters(caller, is_narrowing=True)
    parameters = {"organization_id": caller.organization_id, "ids": list(document_ids), **reader}
    statement = sql.readable_documents(is_narrowed=caller.collection_ids is not None)
    return batch.ask(statement, dict[str, UUID], parameters)


def ask_found_chunks(
    batch: Batch, scope: Scope, search_query: SearchQuery, hits: Sequence[Hit], _weights: ChunkWeights
) -> Answer[FoundChunk]:
    parameters = _parameters(scope, search_query) | _hits(hits)
    return batch.ask(sql.found_chunks(shape_of(scope)), FoundChunk, parameters)


async def read_texts(
    connection: Connection, scope: Scope, search_query: SearchQuery, hits: Sequence[Hit]
) -> dict[Hit, str]:
    """Return the titles and texts of chunks already found in scope by a statement of this transaction."""
    batch = Batch()
    answer = ask_found_chunks(batch, replace(scope, by_chunk=True), search_query, hits, ChunkWeights(0, 0))
    await batch.run(connection)
    return {Hit(row.document_id, row.chunk_no): f"{row.name}\n{row.text}" for row in answer.rows}


@lru_cache(1)
def log_search() -> AnySelect:
    """Build the statement that logs a search, with the words (`query`) in another table, where they can be erased."""
    values = {
        column.key: bindparam(column.key, type_=column.type)
        for column in searches.c
        if column.key not in {"organization_id", "at", "feedback", "thumbs"}
    }
    logged = (
        insert(searches).values(organization_id=ORGANIZATION, **values).returning(searches.c.search_id).cte("logged")
    )
    words = select(logged.c.search_id, ORGANIZATION, bindparam("query", type_=Text()))
    kept = insert(free_texts).from_select(["subject_id", "organization_id", "text"], words)
    return select(kept.returning(free_texts.c.subject_id).cte("kept").c.subject_id)


# Searches from before thumbs were saved have only their newest feedback.
_IS_OLDER = (searches.c.thumbs == literal_column("'{}'")) & searches.c.feedback.is_not(None)
_THUMBS = case((_IS_OLDER, func.jsonb_build_object("", searches.c.feedback)), else_=searches.c.thumbs)


async def note_feedback(
    connection: Connection,
    organization_id: UUID,
    *,
    search_id: UUID,
    principal_ids: Collection[UUID] | None,
    feedback: str,
    about: str,
) -> Findings | None:
    """Save feedback on a search of one of these principals (None: anyone); return the results, None if unknown."""
    statement = (
        update(searches)
        .where(
            searches.c.organization_id == organization_id,
            searches.c.search_id == search_id,
            optional_in(searches.c.principal_id, principal_ids),
        )
        .values(feedback=feedback, thumbs=_THUMBS.op("||")(func.jsonb_build_object(about, feedback)))
        .returning(searches.c.document_ids)
    )
    return await find_row(connection, statement, Findings)


def _count_thumbs(feedback: SearchFeedback) -> ColumnElement[int]:
    """Build the number of a search's thumbs, for each result and for the whole search; NULL without any."""
    path: ColumnElement[str] = literal_column(f"'$.* ? (@ == \"{feedback.value}\")'")
    return func.nullif(func.jsonb_array_length(func.jsonb_path_query_array(_THUMBS, path)), 0)


async def list_searches(
    connection: Connection,
    organization_id: UUID,
    *,
    request: wire.AdminSearchLogQueryRequest,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[wire.LoggedSearch]:
    named = (
        user_as("actor", searches.c.principal_id),
        free_texts.c.text.label("query"),
        searches.c.collection_id.label("document_collection_id"),
        _count_thumbs(SearchFeedback.THUMBS_UP).label("thumbs_up"),
        _count_thumbs(SearchFeedback.THUMBS_DOWN).label("thumbs_down"),
    )
    statement = (
        select(*columns_of(searches, wire.LoggedSearch, *named))
        .outerjoin(principals, principals.c.principal_id == searches.c.principal_id)
        .outerjoin(free_texts, free_texts.c.subject_id == searches.c.search_id)
        .where(searches.c.organization_id == organization_id, *_log_conditions(request))
        .order_by(searches.c.at.desc(), searches.c.search_id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(tuple_(searches.c.at, searches.c.search_id) < before)
    return await find_rows(connection, statement, wire.LoggedSearch)


async def count_searches(
    connection: Connection, organization_id: UUID, request: wire.AdminSearchLogSummarizeRequest
) -> list[wire.SearchesInBucket]:
    """Count searches by day or week; empty buckets are left out."""
    start = func.date_trunc(request.bucket.value, searches.c.at, request.time_zone).label("from_")
    statement = (
        select(
            start,
            func.count().label("searches"),
            count_where(searches.c.result_count == 0, "without_results"),
            func.coalesce(func.sum(_count_thumbs(SearchFeedback.THUMBS_UP)), 0).label("thumbs_up"),
            func.coalesce(func.sum(_count_thumbs(SearchFeedback.THUMBS_DOWN)), 0).label("thumbs_down"),
        )
        .where(
            searches.c.organization_id == organization_id, searches.c.at >= request.from_, searches.c.at < request.to
        )
        .group_by(literal_column("from_"))
    )
    return await find_rows(connection, statement, wire.SearchesInBucket)


def _log_conditions(request: wire.AdminSearchLogQueryRequest) -> list[ColumnElement[bool]]:
    conditions = [optional_in(searches.c.search_id, request.ids)]
    if request.from_ is not None:
        conditions.append(searches.c.at >= request.from_)
    if request.to is not None:
        conditions.append(searches.c.at < request.to)
    if request.without_results:
        # A literal, so that PostgreSQL can use the partial index of such searches.
        conditions.append(searches.c.result_count == literal_column("0"))
    if request.without_words:
        conditions.append(~searches.c.has_words)
    if request.feedback is not None:
        conditions += [searches.c.feedback.is_not(None), _count_thumbs(request.feedback) > 0]
    return conditions
