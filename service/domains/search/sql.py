"""The statements of search, each built once for its shape and run with the parameters of a search.

Building one takes longer than PostgreSQL takes for a narrow reader's answer. Every table is bound to the parameter
`organization_id`; what may be read is bound by the parameters of `service.permissions.queries.reader_parameters`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import BIT, HALFVEC, SPARSEVEC, VECTOR
from sqlalchemy import (
    ARRAY,
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    Float,
    FromClause,
    Integer,
    Select,
    Table,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    cast,
    column,
    distinct,
    func,
    literal_column,
    not_,
    null,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.types import NullType, TypeEngine

from carrel.wire.common import ResourceType
from service.domains.search.filters import Comparison
from service.domains.search.matching import fits
from service.domains.search.search_query import WHOLE
from service.permissions.queries import readable_by_parameters
from service.platform.sql import as_member, count_of
from service.schema.catalog import documents
from service.schema.indexing import CHUNKS_PER_PAGE, INDEX_TABLES, TERM_DIMENSIONS, space_documents
from service.schema.permissions import resources

AnySelect = Select[*tuple[Any, ...]]

# Who can read no more code pages than so many gets each of their chunks scored: that takes less than to look for them.
FEW_PAGES = 2000
# So many hits at least are shown to be the first ones: a hybrid ranking stands on more of a leg than it shows.
LEAST_PROVEN = 20
# pgvector adds up in single precision.
MARGIN = 1.00001
# A leg's chunks: those that the ranking is made of, and how far it is followed when they are of too few documents.
LEG = 100
FURTHEST = 1000
RANKS = ("dense_rank", "lexical_rank")

SHAPES = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """What makes one search's statements differ from another's, apart from parameters."""

    dimensions: int
    by_chunk: bool
    conditions: tuple[Comparison, ...] = ()
    by_resource_type: bool = False


ORGANIZATION: ColumnElement[UUID] = bindparam("organization_id", type_=Uuid())
SPACE: ColumnElement[int] = bindparam("space_id", type_=Integer())


KEYS: ColumnElement[Any] = bindparam("keys", type_=ARRAY(BigInteger()))
BOUND: ColumnElement[float] = bindparam("bound", type_=Double[float]())
AT_LEAST: ColumnElement[int] = bindparam("at_least", type_=Integer())

_ORDER: Sequence[ColumnElement[Any]] = [
    literal_column(name, NullType()) for name in ("negative", "document_id", "chunk_no")
]


def _array(name: str, of: TypeEngine[Any]) -> Any:
    return bindparam(name, type_=ARRAY(of))


def _constant(name: str, to_type: TypeEngine[Any]) -> ColumnElement[Any]:
    """Build a parameter of a pgvector type as a subquery, so that a generic plan reads it once and not per row."""
    return select(cast(bindparam(name, type_=Text()), to_type)).scalar_subquery()


def _dense(column: ColumnElement[Any], shape: Shape) -> ColumnElement[float]:
    return column.op("<#>", return_type=Float())(_constant("vector", HALFVEC(shape.dimensions)))


def _lexical(column: ColumnElement[Any]) -> ColumnElement[float]:
    return column.op("<#>", return_type=Float())(_constant("terms", SPARSEVEC(TERM_DIMENSIONS)))


def _in_scope(table: FromClause, shape: Shape) -> ColumnElement[bool]:
    """Build the condition of an index table's rows in scope: THE place that limits a search to what may be read.

    An index of the table finds the access classes one by one; rows without one are compared with a hash table of them.
    """
    document_id: ColumnElement[UUID] = table.c.document_id
    access_class: ColumnElement[int] = table.c.access_class
    readable = readable_by_parameters()
    classes: Any = func.array(readable.scalar_subquery())
    conditions = [
        table.c.organization_id == ORGANIZATION,
        table.c.space_id == SPACE,
        access_class == any_(classes) if isinstance(table, Table) else access_class.in_(readable),
    ]
    if shape.by_resource_type:
        of_type = resources.c.resource_type == any_(_array("resource_types", Text()))
        kinds = select(resources.c.object_id).where(resources.c.organization_id == ORGANIZATION, of_type)
        conditions.append(document_id.in_(kinds))
    if shape.conditions:
        conditions.append(document_id.in_(select(_fitting(shape).c.document_id)))
    return and_(*conditions)


@lru_cache(SHAPES)
def _fitting(shape: Shape) -> CTE:
    """Build the part of a statement that finds the documents that fit, once for all of its other parts.

    Reading metadata costs more than a score, so it isn't done for each chunk.
    """
    return _select_matching(shape).cte("fitting").prefix_with("MATERIALIZED")


def _select_matching(shape: Shape) -> Select[UUID]:
    """Select the documents whose metadata (in the collection, if it is one) meets every condition."""
    source = space_documents if shape.by_chunk else documents
    statement = select(source.c.document_id).where(source.c.organization_id == ORGANIZATION)
    if shape.by_chunk:
        statement = statement.where(space_documents.c.space_id == SPACE)
    held = source.c.custom_metadata
    return statement.where(*(fits(held, each, number=number) for number, each in enumerate(shape.conditions)))


@lru_cache(SHAPES)
def dense_leg(shape: Shape) -> AnySelect:
    """Build the statement of the semantic leg: the chunks nearest in meaning.

    The best `page_limit` code pages are found by their binary codes; of their best `document_limit` documents, every
    chunk is scored exactly.
    """
    pages, chunks = INDEX_TABLES[shape.dimensions].code_pages, INDEX_TABLES[shape.dimensions].chunks
    code = _constant("code", BIT(shape.dimensions))
    slots = (pages.c[f"c{slot}"] for slot in range(1, CHUNKS_PER_PAGE + 1))
    distance = func.least(*(slot.op("<~>", return_type=Float())(code) for slot in slots)).label("distance")
    nearest = (
        select(pages.c.document_id, distance)
        .where(_in_scope(pages, shape))
        .order_by(distance, pages.c.document_id)
        .limit(bindparam("page_limit", type_=Integer()))
        .cte("nearest")
    )
    candidates = (
        select(nearest.c.document_id)
        .group_by(nearest.c.document_id)
        .order_by(func.min(nearest.c.distance), nearest.c.document_id)
        .limit(bindparam("document_limit", type_=Integer()))
        .cte("candidates")
    )
    scored = (
        select(chunks.c.document_id, chunks.c.chunk_no, _dense(chunks.c.embedding, shape).label("negative"))
        .join(candidates, candidates.c.document_id == chunks.c.document_id)
        .where(chunks.c.organization_id == ORGANIZATION, chunks.c.space_id == SPACE)
    )
    return _hits(scored, shape)


@lru_cache(SHAPES)
def lexical_leg(shape: Shape) -> AnySelect:
    """Build the statement of the lexical leg: the chunks with the highest BM25 scores, if they have a query term.

    Where much may be read, an index finds chunks by the `keys` of terms. No other chunk has a score above `bound`, so
    they will do if `at_least` (or twenty) have one, or if it is 0. Otherwise every chunk that may be read is scored.
    """
    chunks = INDEX_TABLES[shape.dimensions].chunks
    every = select(chunks.c.document_id, chunks.c.chunk_no, _lexical(chunks.c.terms).label("negative"))
    every = every.where(_in_scope(chunks, shape))
    worth = select(_reads_much(shape).label("holds")).cte("worth").prefix_with("MATERIALIZED")
    is_worth: ColumnElement[bool] = select(worth.c.holds).scalar_subquery()
    found = _find_by_terms(shape).where(is_worth).cte("found").prefix_with("MATERIALIZED")
    hits = func.count() if shape.by_chunk else func.count(distinct(found.c.document_id))
    better = select(hits).select_from(found).where(found.c.negative <= -BOUND * MARGIN).scalar_subquery()
    will_do = and_(is_worth, or_(BOUND == 0, better >= func.greatest(AT_LEAST, LEAST_PROVEN))).label("holds")
    proof = select(will_do).cte("proof").prefix_with("MATERIALIZED")
    is_proven: ColumnElement[bool] = select(proof.c.holds).scalar_subquery()
    scored = union_all(select(*found.c).where(is_proven), every.where(not_(is_proven))).subquery("scored")
    return _hits(select(*scored.c), shape, below=0)


def _reads_much(shape: Shape) -> ColumnElement[bool]:
    """Build the condition that it is worth finding chunks by terms: much is in scope, and the index is usable.

    It is where the owner of the function that reads it bypasses row-level security and may read the chunks. A superuser
    counts only if the table is its own too: what the function calls belongs to the table's owner, who could change it.
    """
    function, chunks = f"'chunks_with_terms_{shape.dimensions}'::regproc", f"'chunks_{shape.dimensions}'::regclass"
    may_read = f"has_table_privilege(proowner, {chunks}, 'SELECT')"
    owner = f"rolsuper AND proowner = relowner OR rolbypassrls AND NOT rolsuper AND {may_read}"
    source = "pg_proc JOIN pg_roles ON pg_roles.oid = proowner CROSS JOIN pg_class"
    is_usable: ColumnElement[bool] = literal_column(
        f"(SELECT {owner} FROM {source} WHERE pg_proc.oid = {function} AND pg_class.oid = {chunks})",  # noqa: S608 - names of ours
        Boolean(),
    )
    pages = INDEX_TABLES[shape.dimensions].code_pages
    some = select(pages.c.page_no).where(_in_scope(pages, shape)).limit(FEW_PAGES)
    return and_(func.cardinality(KEYS) > 0, is_usable, count_of(some.subquery("some")) == FEW_PAGES)


def _find_by_terms(shape: Shape) -> AnySelect:
    """Select the best chunks in scope that have one of the `keys`.

    A function of the database reads the index of terms, which row-level security keeps from everybody else, and returns
    rows of the transaction's organization alone.
    """
    chunks = INDEX_TABLES[shape.dimensions].chunks
    names = ("document_id", "organization_id", "space_id", "access_class", "chunk_no")
    columns = [*(column(name, chunks.c[name].type) for name in names), column("negative", Float())]
    function = getattr(func, f"chunks_with_terms_{shape.dimensions}")
    terms = _constant("terms", SPARSEVEC(TERM_DIMENSIONS))
    with_terms = function(KEYS, terms).table_valued(*columns).alias("with_terms")
    best = select(with_terms.c.document_id, with_terms.c.chunk_no, with_terms.c.negative)
    return best.where(_in_scope(with_terms, shape)).order_by(*_ORDER).limit(FURTHEST)


def _hits(scored: AnySelect, shape: Shape, *, below: float | None = None) -> AnySelect:
    """Select the hits of a leg's best chunks, with the `rank` of each hit's best chunk, from 1."""
    best = scored.order_by(*_ORDER).limit(LEG if shape.by_chunk else FURTHEST).subquery("best")
    ranked = select(best.c.document_id, best.c.chunk_no, func.row_number().over(order_by=_ORDER).label("rank"))
    if below is not None:
        ranked = ranked.where(best.c.negative < below)
    if shape.by_chunk:
        return ranked.order_by(literal_column("rank"))
    chunks = ranked.subquery("chunks")
    first = func.min(chunks.c.rank).label("rank")
    return select(chunks.c.document_id, first).group_by(chunks.c.document_id).order_by(first).limit(LEG)


def _given_hits(*, ids: str = "ids", numbers: str = "numbers") -> FromClause:
    """Build the table of the hits in the parameters `ids` and `numbers`."""
    hits = func.unnest(_array(ids, Uuid()), _array(numbers, Integer()))
    return hits.table_valued("document_id", "chunk_no").render_derived(name="hit")


def _select_chunks(hit: FromClause, shape: Shape) -> AnySelect:
    """Select the chunks of hits, each with its hit's number."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    own = and_(
        chunks.c.organization_id == ORGANIZATION,
        chunks.c.space_id == SPACE,
        chunks.c.document_id == hit.c.document_id,
    )
    if shape.by_chunk:
        own = and_(own, chunks.c.chunk_no == hit.c.chunk_no)
    hit_no = hit.c.chunk_no.label("hit_no")
    return select(chunks.c.document_id, hit_no, chunks.c.chunk_no).select_from(hit).join(chunks, own)


@lru_cache(SHAPES)
def candidates(shape: Shape, *, by_words: bool, by_meaning: bool) -> AnySelect:
    """Build the statement of the legs, and of the exact scores of what they find.

    A hit has its rank in each leg (`dense_rank`, `lexical_rank`), its two scores, negative, each the best over its
    chunks, and its nearest chunk. Of a leg, the hits of the first 100 chunks count, and more while there are fewer
    than `at_least` of them.
    """
    chunks = INDEX_TABLES[shape.dimensions].chunks
    legs = {"dense_rank": dense_leg(shape)} if by_meaning else {}
    legs |= {"lexical_rank": lexical_leg(shape)} if by_words else {}
    named = union_all(*(_rank_as(rank, leg, shape) for rank, leg in legs.items())).subquery("named")
    hit = (
        select(named.c.document_id, named.c.chunk_no, *(func.min(named.c[rank]).label(rank) for rank in RANKS))
        .group_by(named.c.document_id, named.c.chunk_no)
        .subquery("hit")
    )
    scores = (_dense(chunks.c.embedding, shape).label("dense"), _lexical(chunks.c.terms).label("lexical"))
    chosen = _select_chunks(hit, shape).add_columns(*scores, *(hit.c[rank] for rank in RANKS)).subquery("chosen")
    nearest: Any = aggregate_order_by(chosen.c.chunk_no, chosen.c.dense, chosen.c.chunk_no)
    return select(
        chosen.c.document_id,
        chosen.c.hit_no,
        *(func.min(chosen.c[name]).label(name) for name in ("lexical", "dense", *RANKS)),
        func.array_agg(nearest, type_=ARRAY(Integer))[1].label("nearest"),
    ).group_by(chosen.c.document_id, chosen.c.hit_no)


def _rank_as(name: str, leg: AnySelect, shape: Shape) -> AnySelect:
    """Select what counts of a leg, with the ranks of both legs: its own by its name, the other's NULL."""
    found = leg.cte(f"by_{name}")
    place = func.row_number().over(order_by=found.c.rank).label("place")
    placed = select(found, place).subquery(f"placed_{name}")
    return select(
        placed.c.document_id,
        (placed.c.chunk_no if shape.by_chunk else literal_column(str(WHOLE), Integer())).label("chunk_no"),
        *((placed.c.rank if rank == name else cast(null(), BigInteger())).label(rank) for rank in RANKS),
    ).where(or_(placed.c.rank <= LEG, placed.c.place <= AT_LEAST))


@lru_cache(SHAPES)
def scores_near(shape: Shape) -> AnySelect:
    """Build the statement of hits' negative cosines with the question vector moved towards the examples' mean.

    Examples are the chunks in the parameters `example_…`. `weights` is a vector with the mean's weight in every
    dimension.
    """
    chunks = INDEX_TABLES[shape.dimensions].chunks
    vector = VECTOR(shape.dimensions)
    given = _given_hits(ids="example_ids", numbers="example_numbers")
    examples = _select_chunks(given, Shape(shape.dimensions, by_chunk=True))
    example = examples.add_columns(cast(chunks.c.embedding, vector).label("embedding")).subquery("example")
    mean: ColumnElement[Any] = select(func.avg(example.c.embedding)).scalar_subquery()
    moved = func.l2_normalize(_constant("vector", vector).op("+")(mean.op("*")(_constant("weights", vector))))
    asked = select(cast(moved, HALFVEC(shape.dimensions))).scalar_subquery()
    dense = chunks.c.embedding.op("<#>", return_type=Float())(asked).label("dense")
    chosen = _select_chunks(_given_hits(), shape).add_columns(dense).subquery("chosen")
    return select(chosen.c.document_id, chosen.c.hit_no, func.min(chosen.c.dense).label("dense")).group_by(
        chosen.c.document_id, chosen.c.hit_no
    )


@lru_cache(SHAPES)
def found_documents(shape: Shape) -> AnySelect:
    """Build the statement of documents (`ids`) with their resource, and their best chunk.

    `dense_share` and `lexical_share` say how much each score counts for the best chunk.
    """
    chunks = INDEX_TABLES[shape.dimensions].chunks
    shares = {name: bindparam(name, type_=Float()) for name in ("lexical_share", "dense_share")}
    lexical = shares["lexical_share"] * _lexical(chunks.c.terms)
    dense = shares["dense_share"] * _dense(chunks.c.embedding, shape)
    best = (
        select(chunks.c.text, chunks.c.place)
        .where(
            chunks.c.organization_id == ORGANIZATION,
            chunks.c.space_id == SPACE,
            chunks.c.document_id == documents.c.document_id,
        )
        .order_by(lexical + dense, chunks.c.chunk_no)
        .limit(1)
        .lateral("best")
    )
    columns = (
        documents.c.document_id,
        documents.c.name,
        documents.c.external_id,
        documents.c.external_url,
        documents.c.custom_metadata,
        documents.c.updated_at,
        as_member(resources.c.resource_type, ResourceType),
        *(resources.c.resource_id, resources.c.container_id),
    )
    return (
        select(*columns, *best.c)
        .join(resources, resources.c.object_id == documents.c.document_id)
        .join(best, true())
        .where(
            documents.c.organization_id == ORGANIZATION,
            resources.c.organization_id == ORGANIZATION,
            documents.c.document_id == any_(_array("ids", Uuid())),
        )
    )


@lru_cache(SHAPES)
def found_chunks(shape: Shape) -> AnySelect:
    """Build the statement of chunks with their document, and its metadata in the collection."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    in_space = and_(
        space_documents.c.organization_id == ORGANIZATION,
        space_documents.c.document_id == chunks.c.document_id,
        space_documents.c.space_id == chunks.c.space_id,
    )
    of_document = and_(documents.c.organization_id == ORGANIZATION, documents.c.document_id == chunks.c.document_id)
    columns = (
        *(chunks.c[name] for name in ("chunk_id", "text", "place")),
        documents.c.name,
        documents.c.external_id,
        documents.c.external_url,
        space_documents.c.custom_metadata,
    )
    hits = _select_chunks(_given_hits(), shape)
    return hits.add_columns(*columns).join(documents, of_document).join(space_documents, in_space)
