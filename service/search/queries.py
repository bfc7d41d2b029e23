"""SQL of search: the two legs, the exact scores of what they found, and what is shown of it.

The legs are flat queries over the access classes the caller may read; every condition (access, metadata, kind of
resource) stands inside them, before any ordering or LIMIT. All run in one REPEATABLE READ snapshot.
"""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import BIT, HALFVEC, SPARSEVEC, VECTOR
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    DateTime,
    Double,
    Float,
    Integer,
    Select,
    Table,
    Text,
    Uuid,
    and_,
    any_,
    case,
    cast,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import NullType

from carrel.wire.search import FilterOperator
from service.audit.tables import free_texts
from service.catalog.tables import documents
from service.indexing.tables import CHUNKS_PER_PAGE, INDEX_TABLES, TERM_DIMENSIONS, space_documents
from service.permissions.queries import readable_classes
from service.permissions.tables import resources
from service.search.filters import Condition, Kind
from service.search.fusion import Scores
from service.search.question import WHOLE, Question, Scope, Unit
from service.search.tables import searches
from service.sql import AnyRow, among

# Pages, then documents, whose chunks the first pass by meaning hands on to the exact scores. More pages than documents,
# so that one long document on the very subject leaves room for others.
BEST_PAGES = 2000
BEST_DOCUMENTS = 500

# A leg's chunks: those that the ranking is made of, and how far it is followed when they are of too few documents.
LEG = 100
FURTHEST = 1000


@dataclass(frozen=True, slots=True)
class ExactScores:
    """A unit's scores, and the number of its chunk that is nearest in meaning."""

    scores: Scores
    nearest_chunk: int


@dataclass(frozen=True, slots=True)
class Shown:
    """How much each exact score counts when the chunk to show of a document is chosen."""

    lexical: float
    dense: float


def _constant(value: str, to_type: Any) -> ColumnElement[Any]:
    """A parameter of a pgvector type, read once a statement even when its plan is a generic one."""
    return select(cast(literal(value, Text), to_type)).scalar_subquery()


def _negative_product(column: ColumnElement[Any], value: ColumnElement[Any]) -> ColumnElement[float]:
    return column.op("<#>", return_type=Float())(value)


def _within(table: Table, scope: Scope) -> ColumnElement[bool]:
    """The rows of an index table that are in scope: THE place where a search is narrowed to what may be read."""
    organization_id = scope.caller.organization_id
    classes: Any = func.array(readable_classes(scope.caller).scalar_subquery())
    narrowed = [
        table.c.organization_id == organization_id,
        table.c.space_id == scope.space.space_id,
        table.c.access_class == any_(classes),
    ]
    if scope.resource_types:
        of_kind = select(resources.c.object_id).where(
            resources.c.organization_id == organization_id, among(resources.c.resource_type, scope.resource_types)
        )
        narrowed.append(table.c.document_id.in_(of_kind))
    if scope.conditions:
        narrowed.append(table.c.document_id.in_(_fitting(scope)))
    return and_(*narrowed)


def _fitting(scope: Scope) -> Select[UUID]:
    """The documents whose metadata fits every condition."""
    holder = space_documents if scope.by_chunk else documents
    statement = select(holder.c.document_id).where(holder.c.organization_id == scope.caller.organization_id)
    if scope.by_chunk:
        statement = statement.where(space_documents.c.space_id == scope.space.space_id)
    return statement.where(*(_fits(holder.c.custom_metadata, condition) for condition in scope.conditions))


def _fits(metadata: ColumnElement[Any], condition: Condition) -> ColumnElement[bool]:
    """Whether a value fits; one that is absent, or not of the condition's kind, is only ever "not equal"."""
    held: ColumnElement[str] = metadata.op("->>", return_type=Text())(condition.field)
    if condition.operator is FilterOperator.CONTAINS:
        return func.strpos(held, condition.value) > 0
    value = _read_as(held, condition.kind)
    fits: ColumnElement[bool] = _COMPARISONS[condition.operator](value, condition.value)
    return or_(value.is_(None), fits) if condition.operator is FilterOperator.NOT_EQUAL else fits


_COMPARISONS: Mapping[FilterOperator, Callable[[Any, Any], Any]] = {
    FilterOperator.EQUAL: operator.eq,
    FilterOperator.NOT_EQUAL: operator.ne,
    FilterOperator.LESS: operator.lt,
    FilterOperator.GREATER: operator.gt,
    FilterOperator.LESS_OR_EQUAL: operator.le,
    FilterOperator.GREATER_OR_EQUAL: operator.ge,
}


def _read_as(held: ColumnElement[str], kind: Kind) -> ColumnElement[Any]:
    """Read a stored string as a kind; NULL when it can't be, never an error."""
    if kind is Kind.STRING:
        return held.collate("C")
    if kind is Kind.DATETIME:
        # A time without an offset is in UTC, whatever the session's zone.
        has_offset = held.regexp_match(r"[Tt ].*([Zz]|[+-][0-9]{2}:?[0-9]{2})$")
        aware = case((func.pg_input_is_valid(held, "timestamptz"), cast(held, DateTime(timezone=True))))
        naive = case((func.pg_input_is_valid(held, "timestamp"), func.timezone("UTC", cast(held, DateTime()))))
        return case((has_offset, aware), else_=naive)
    name, to_type = _SQL_TYPES[kind]
    return case((func.pg_input_is_valid(held, name), cast(held, to_type)))


_SQL_TYPES: Mapping[Kind, tuple[str, Any]] = {
    Kind.INT: ("bigint", BigInteger()),
    Kind.DOUBLE: ("double precision", Double[float]()),
    Kind.BOOLEAN: ("boolean", Boolean()),
}


async def dense_leg(connection: AsyncConnection, scope: Scope, question: Question, *, at_least: int) -> list[Unit]:
    """The units nearest in meaning, best first: candidates by their binary codes, then by exact inner product."""
    tables = INDEX_TABLES[scope.space.dimensions]
    pages, chunks = tables.code_pages, tables.chunks
    code = _constant(question.code, BIT(scope.space.dimensions))
    distances = [pages.c[f"c{slot}"].op("<~>", return_type=Float())(code) for slot in range(1, CHUNKS_PER_PAGE + 1)]
    distance = func.least(*distances).label("distance")
    nearest = (
        select(pages.c.document_id, distance)
        .where(_within(pages, scope))
        .order_by(distance, pages.c.document_id)
        .limit(BEST_PAGES)
        .cte("nearest")
    )
    candidates = (
        select(nearest.c.document_id)
        .group_by(nearest.c.document_id)
        .order_by(func.min(nearest.c.distance), nearest.c.document_id)
        .limit(BEST_DOCUMENTS)
        .cte("candidates")
    )
    score = _negative_product(chunks.c.embedding, _vector(question, scope))
    scored = (
        select(chunks.c.document_id, chunks.c.chunk_no, score.label("negative"))
        .join(candidates, candidates.c.document_id == chunks.c.document_id)
        .where(chunks.c.organization_id == scope.caller.organization_id, chunks.c.space_id == scope.space.space_id)
    )
    return await _units(connection, scope, scored, at_least=at_least)


async def lexical_leg(connection: AsyncConnection, scope: Scope, question: Question, *, at_least: int) -> list[Unit]:
    """The units with the highest BM25 scores, best first; none without a term of the query."""
    chunks = INDEX_TABLES[scope.space.dimensions].chunks
    score = _negative_product(chunks.c.terms, _terms(question))
    scored = select(chunks.c.document_id, chunks.c.chunk_no, score.label("negative")).where(_within(chunks, scope))
    return await _units(connection, scope, scored, at_least=at_least, below=0)


async def _units(
    connection: AsyncConnection,
    scope: Scope,
    scored: Select[*tuple[Any, ...]],
    *,
    at_least: int,
    below: float | None = None,
) -> list[Unit]:
    """The units of a leg's best chunks, best first: of the first 100, or of as many more as `at_least` units take."""
    order: list[ColumnElement[Any]] = [
        literal_column(name, NullType()) for name in ("negative", "document_id", "chunk_no")
    ]
    best = scored.order_by(*order).limit(LEG if scope.by_chunk else FURTHEST).subquery("best")
    ranked = select(best.c.document_id, best.c.chunk_no, func.row_number().over(order_by=order).label("rank"))
    if below is not None:
        ranked = ranked.where(best.c.negative < below)
    if scope.by_chunk:
        rows = await connection.execute(ranked.order_by(literal_column("rank")))
        return [Unit(row.document_id, row.chunk_no) for row in rows]
    chunks = ranked.subquery("chunks")
    first = func.min(chunks.c.rank).label("first")
    statement = select(chunks.c.document_id, first).group_by(chunks.c.document_id).order_by(first).limit(LEG)
    rows = enumerate((await connection.execute(statement)).all())
    return [Unit(row.document_id, WHOLE) for place, row in rows if row.first <= LEG or place < at_least]


async def exact_scores(
    connection: AsyncConnection, scope: Scope, question: Question, *, units: Collection[Unit]
) -> dict[Unit, ExactScores]:
    """Both scores of units the legs found, each the maximum over a unit's chunks, and its chunk nearest in meaning."""
    chunks = INDEX_TABLES[scope.space.dimensions].chunks
    dense = _negative_product(chunks.c.embedding, _vector(question, scope)).label("dense")
    lexical = _negative_product(chunks.c.terms, _terms(question)).label("lexical")
    chosen = _chosen(scope, units).add_columns(dense, lexical).subquery("chosen")
    nearest: Any = aggregate_order_by(chosen.c.chunk_no, chosen.c.dense, chosen.c.chunk_no)
    statement = select(
        chosen.c.document_id,
        chosen.c.unit_no,
        func.min(chosen.c.lexical).label("lexical"),
        func.min(chosen.c.dense).label("dense"),
        func.array_agg(nearest, type_=ARRAY(Integer))[1].label("nearest"),
    ).group_by(chosen.c.document_id, chosen.c.unit_no)
    return {
        Unit(row.document_id, row.unit_no): ExactScores(Scores(-row.lexical, -row.dense), nearest_chunk=row.nearest)
        for row in await connection.execute(statement)
    }


async def scores_near(
    connection: AsyncConnection,
    scope: Scope,
    question: Question,
    *,
    units: Collection[Unit],
    examples: Sequence[Unit],
    weight: float,
) -> dict[Unit, float]:
    """The cosines of units with the question moved towards the mean of `examples` (chunks), `weight` times it."""
    dimensions = scope.space.dimensions
    chunks = INDEX_TABLES[dimensions].chunks
    vector = VECTOR(dimensions)
    examples_scope = replace(scope, by_chunk=True)
    example = _chosen(examples_scope, examples).add_columns(cast(chunks.c.embedding, vector).label("embedding"))
    mean: ColumnElement[Any] = select(func.avg(example.subquery("example").c.embedding)).scalar_subquery()
    weights = _constant("[" + ",".join([repr(weight)] * dimensions) + "]", vector)
    moved = func.l2_normalize(_constant(question.vector, vector).op("+")(mean.op("*")(weights)))
    asked = select(cast(moved, HALFVEC(dimensions))).scalar_subquery()
    dense = _negative_product(chunks.c.embedding, asked).label("dense")
    chosen = _chosen(scope, units).add_columns(dense).subquery("chosen")
    statement = select(chosen.c.document_id, chosen.c.unit_no, func.min(chosen.c.dense).label("dense")).group_by(
        chosen.c.document_id, chosen.c.unit_no
    )
    return {Unit(row.document_id, row.unit_no): -row.dense for row in await connection.execute(statement)}


def _chosen(scope: Scope, units: Collection[Unit]) -> Select[*tuple[Any, ...]]:
    """Select the chunks that units consist of, with the number each unit goes by."""
    chunks = INDEX_TABLES[scope.space.dimensions].chunks
    documents_chosen = literal([unit.document_id for unit in units], ARRAY(Uuid))
    numbers = literal([unit.chunk_no for unit in units], ARRAY(Integer))
    chosen = func.unnest(documents_chosen, numbers).table_valued("document_id", "chunk_no").render_derived(name="unit")
    own = and_(
        chunks.c.organization_id == scope.caller.organization_id,
        chunks.c.space_id == scope.space.space_id,
        chunks.c.document_id == chosen.c.document_id,
    )
    if scope.by_chunk:
        own = and_(own, chunks.c.chunk_no == chosen.c.chunk_no)
    unit_no = chosen.c.chunk_no.label("unit_no")
    return select(chunks.c.document_id, unit_no, chunks.c.chunk_no).select_from(chosen).join(chunks, own)


def _vector(question: Question, scope: Scope) -> ColumnElement[Any]:
    return _constant(question.vector, HALFVEC(scope.space.dimensions))


def _terms(question: Question) -> ColumnElement[Any]:
    return _constant(question.terms, SPARSEVEC(TERM_DIMENSIONS))


async def read_found_documents(
    connection: AsyncConnection, scope: Scope, question: Question, *, units: Sequence[Unit], shown: Shown
) -> dict[UUID, AnyRow]:
    """What is shown of documents that were found: their record, their resource, and the text of their best chunk."""
    chunks = INDEX_TABLES[scope.space.dimensions].chunks
    organization_id = scope.caller.organization_id
    score = shown.lexical * _negative_product(chunks.c.terms, _terms(question)) + shown.dense * _negative_product(
        chunks.c.embedding, _vector(question, scope)
    )
    best = (
        select(chunks.c.text)
        .where(
            chunks.c.organization_id == organization_id,
            chunks.c.space_id == scope.space.space_id,
            chunks.c.document_id == documents.c.document_id,
        )
        .order_by(score, chunks.c.chunk_no)
        .limit(1)
        .scalar_subquery()
    )
    statement = (
        select(documents, resources.c.resource_type, resources.c.resource_id, best.label("text"))
        .join(resources, resources.c.object_id == documents.c.document_id)
        .where(
            documents.c.organization_id == organization_id,
            among(documents.c.document_id, [unit.document_id for unit in units]),
        )
    )
    return {row.document_id: row for row in await connection.execute(statement)}


async def read_found_chunks(connection: AsyncConnection, scope: Scope, *, units: Sequence[Unit]) -> dict[Unit, AnyRow]:
    """What is shown of chunks that were found: id and text, their document, and its metadata in the collection."""
    chunks = INDEX_TABLES[scope.space.dimensions].chunks
    in_space = and_(
        space_documents.c.document_id == chunks.c.document_id, space_documents.c.space_id == chunks.c.space_id
    )
    statement = (
        _chosen(scope, units)
        .add_columns(
            chunks.c.chunk_id,
            chunks.c.text,
            documents.c.name,
            documents.c.external_id,
            documents.c.external_url,
            space_documents.c.custom_metadata,
        )
        .join(documents, documents.c.document_id == chunks.c.document_id)
        .join(space_documents, in_space)
    )
    return {Unit(row.document_id, row.unit_no): row for row in await connection.execute(statement)}


async def log_search(
    connection: AsyncConnection, organization_id: UUID, *, row: Mapping[str, object], query: str
) -> None:
    """Keep who searched for what; the query's words lie apart, where they can be erased."""
    logged = (
        insert(searches)
        .values({**row, "organization_id": organization_id})
        .returning(searches.c.search_id)
        .cte("logged")
    )
    words = select(logged.c.search_id, literal(organization_id), literal(query))
    await connection.execute(insert(free_texts).from_select(["subject_id", "organization_id", "text"], words))


async def search_exists(connection: AsyncConnection, organization_id: UUID, *, search_id: UUID) -> bool:
    """Whether this was a search in the organization."""
    statement = select(searches.c.search_id).where(
        searches.c.organization_id == organization_id, searches.c.search_id == search_id
    )
    return (await connection.execute(statement)).one_or_none() is not None
