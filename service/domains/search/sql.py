"""Search statements, built once per shape; `organization_id` and `reader_parameters` limit each to readable rows."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pgvector.sqlalchemy import BIT, HALFVEC, SPARSEVEC, VECTOR
from sqlalchemy.dialects.postgresql import aggregate_order_by, distinct_on
from sqlalchemy.types import NullType, TypeEngine

from carrel.wire.common import ResourceType
from service.domains.documents.collections.comparisons import fits
from service.domains.search.scoring.sql import (
    ORGANIZATION,
    SHAPES,
    SPACE,
    AnySelect,
    Shape,
    constant,
    dense_score,
    embedding_of,
    lexical_score,
    with_vectors,
)
from service.domains.search.search_query import WHOLE
from service.domains.search.syntax.queries import is_readable, name_matches, select_with_fields, time_of_change
from service.index.ingestion.queries import all_names
from service.index.queries import lacks_meaning, shown_version
from service.permissions.queries import readable_by_parameters, within_parameters
from service.platform.sql import as_member, count_of, matches, may_read_index
from service.schema.catalog import documents
from service.schema.identity import resources
from service.schema.indexing import CHUNKS_PER_PAGE, INDEX_TABLES, TERM_DIMENSIONS, space_documents

# For a reader of at most this many code pages, scoring all chunks is faster than an index look-up.
FEW_PAGES = 2000
# The same limit in chunks, checked before a search, which then has a shorter statement.
FEW_CHUNKS = 10_000
# At least this many hits are proven to be the first: a hybrid ranking uses more hits of a leg than it shows.
LEAST_PROVEN = 20
# pgvector adds up in single precision.
MARGIN = 1.00001
# The chunks of a leg that are ranked, and how far to continue if they are of too few documents.
LEG = 100
FURTHEST = 1000
NEARLY_EMPTY = 64  # bytes: a title or a heading alone has the words of many questions, and answers none
RANKS = ("dense_rank", "lexical_rank")
_OF_HIT: dict[str, TypeEngine[Any]] = {
    "chunk_no": sa.Integer(),
    "lexical": sa.Float(),
    "dense": sa.Float(),
    **dict.fromkeys(RANKS, sa.BigInteger()),
}

KEYS: sa.ColumnElement[Any] = sa.bindparam("keys", type_=sa.ARRAY(sa.BigInteger()))
BOUND: sa.ColumnElement[float] = sa.bindparam("bound", type_=sa.Double[float]())
FEW_KEYS: sa.ColumnElement[Any] = sa.bindparam("few_keys", type_=sa.ARRAY(sa.BigInteger()))
FEW_BOUND: sa.ColumnElement[float] = sa.bindparam("few_bound", type_=sa.Double[float]())
AT_LEAST: sa.ColumnElement[int] = sa.bindparam("at_least", type_=sa.Integer())
PATTERN: sa.ColumnElement[str] = sa.bindparam("pattern", type_=sa.Text())
MOST: sa.ColumnElement[int] = sa.bindparam("most", type_=sa.Integer())
# The most documents without vectors that are read to count those in scope.
WAITING_LOOKED_AT = 5000
UNKNOWN: sa.ColumnElement[float] = sa.bindparam("unknown", type_=sa.Float())

_ORDER: Sequence[sa.ColumnElement[Any]] = [
    sa.literal_column(name, NullType()) for name in ("negative", "document_id", "chunk_no")
]


def array_of(name: str, of: TypeEngine[Any]) -> Any:
    return sa.bindparam(name, type_=sa.ARRAY(of))


def _in_scope(table: sa.FromClause, shape: Shape) -> sa.ColumnElement[bool]:
    """Build the condition of index rows in scope: THE place that limits a search to readable rows. The table's index
    finds access classes singly; rows without a class are compared with a hash table."""
    columns: Any = table.c
    document_id: sa.ColumnElement[UUID] = columns.document_id
    access_class: sa.ColumnElement[int] = columns.access_class
    readable = readable_by_parameters()
    classes: Any = sa.func.array(readable.scalar_subquery())
    conditions = [
        table.c.organization_id == ORGANIZATION,
        table.c.space_id == SPACE,
        access_class == sa.any_(classes) if isinstance(table, sa.Table) else access_class.in_(readable),
    ]
    if shape.by_resource_type:
        of_type = resources.c.resource_type == sa.any_(array_of("resource_types", sa.Text()))
        kinds = sa.select(resources.c.object_id).where(resources.c.organization_id == ORGANIZATION, of_type)
        conditions.append(document_id.in_(kinds))
    if shape.is_narrowed:
        conditions.append(document_id.in_(within_parameters()))
    if shape.has_only:
        conditions.append(document_id == sa.any_(array_of("only_ids", sa.Uuid())))
    if shape.has_passages and "chunk_no" in columns:
        conditions.append(_is_passage(columns))
    if shape.has_without:
        conditions.append(document_id != sa.all_(array_of("without_ids", sa.Uuid())))
    if shape.conditions or shape.fields:
        conditions.append(document_id.in_(sa.select(_fitting(shape).c.document_id)))
    return sa.and_(*conditions)


def _is_passage(columns: Any) -> sa.ColumnElement[bool]:
    given = _given_hits(ids="passage_ids", numbers="passage_numbers")
    own = sa.tuple_(columns.document_id, columns.chunk_no).in_(sa.select(given.c.document_id, given.c.chunk_no))
    return sa.or_(own, columns.document_id.in_(sa.select(given.c.document_id).where(given.c.chunk_no == WHOLE)))


@lru_cache(SHAPES)
def _fitting(shape: Shape) -> sa.CTE:
    """Build the CTE of documents that match the filters. Reading metadata for each chunk would cost more."""
    source = space_documents if shape.by_chunk else documents
    space = {"space_id": SPACE} if shape.by_chunk else {}
    fitting = sa.select(source.c.document_id).where(matches(source, ORGANIZATION, **space))
    if shape.fields:
        with_fields = select_with_fields(shape.fields, is_narrowed=shape.is_narrowed)
        fitting = fitting.where(source.c.document_id.in_(with_fields))
    held = source.c.custom_metadata
    conditions = (fits(held, each, number=number) for number, each in enumerate(shape.conditions))
    return fitting.where(*conditions).cte("fitting").prefix_with("MATERIALIZED")


@lru_cache(SHAPES)
def whether_small(shape: Shape, few: int) -> AnySelect:
    """Build the statement that returns `is_small`: whether the scope has fewer than `few` chunks."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    last = sa.select(chunks.c.access_class).where(_in_scope(chunks, shape)).offset(few - 1).limit(1)
    return sa.select(last.scalar_subquery().is_(None).label("is_small"))


@lru_cache(SHAPES)
def _reads_little(shape: Shape) -> sa.ColumnElement[bool]:
    if shape.is_small is False:
        return sa.false()
    pages = INDEX_TABLES[shape.dimensions].code_pages
    some = sa.select(pages.c.page_no).where(_in_scope(pages, shape)).limit(FEW_PAGES)
    return _materialize("little", count_of(some.subquery("some")) < FEW_PAGES)


@lru_cache(SHAPES)
def _score_all(shape: Shape, name: str) -> sa.CTE:
    """Build the scores of all chunks in a small scope, by meaning ("dense") or by words ("lexical")."""
    tables = INDEX_TABLES[shape.dimensions]
    table, score = tables.vectors, dense_score(shape)
    if name == "lexical":
        table, score = tables.chunks, lexical_score(tables.chunks.c.terms, shape)
    scores = sa.select(table.c.document_id, table.c.chunk_no, score.label("negative"))
    return scores.where(_in_scope(table, shape)).cte(f"{name}_all").prefix_with("MATERIALIZED")


@lru_cache(SHAPES)
def dense_leg(shape: Shape) -> AnySelect:
    """Build the semantic leg: the chunks nearest in meaning. A small scope scores every vector. In a large scope,
    binary codes find the best `page_limit` code pages, and all chunks of their best `document_limit` documents are
    scored."""
    if shape.is_small:
        return _hits(shape, "dense", sa.select(*_score_all(shape, "dense").c))
    tables = INDEX_TABLES[shape.dimensions]
    pages, table = tables.code_pages, tables.chunks if shape.has_vectors_inside else tables.vectors
    code = constant("code", BIT(shape.dimensions), shape)
    slots = (pages.c[f"c{slot}"] for slot in range(1, CHUNKS_PER_PAGE + 1))
    distance = sa.func.least(*(slot.op("<~>", return_type=sa.Float())(code) for slot in slots)).label("distance")
    # Servers of a cluster can't tell whether all chunks in scope are scored.
    is_large = shape.is_distributed or shape.is_small is False
    reads_much = () if is_large else (sa.not_(_reads_little(shape)),)
    nearest = (
        sa.select(pages.c.document_id, distance)
        .where(*reads_much, _in_scope(pages, shape))
        .order_by(distance, pages.c.document_id)
        .limit(sa.bindparam("page_limit", type_=sa.Integer()))
        .cte("nearest")
    )
    candidates = (
        sa.select(nearest.c.document_id)
        .group_by(nearest.c.document_id)
        .order_by(sa.func.min(nearest.c.distance), nearest.c.document_id)
        .limit(sa.bindparam("document_limit", type_=sa.Integer()))
        .cte("candidates")
    )
    scores: AnySelect = sa.select(table.c.document_id, table.c.chunk_no, dense_score(shape).label("negative"))
    every, best = (
        with_vectors(each, shape).where(embedding_of(shape).is_not(None)) if shape.has_vectors_inside else each
        for each in (scores, scores.join(candidates, candidates.c.document_id == table.c.document_id))
    )
    best = best.where(table.c.organization_id == ORGANIZATION, table.c.space_id == SPACE)
    if shape.has_passages:
        best = best.where(_is_passage(table.c))
    if is_large:
        return _hits(shape, "dense", best)
    return _hits(shape, "dense", every.where(_reads_little(shape), _in_scope(table, shape)), best)


@lru_cache(SHAPES)
def lexical_leg(shape: Shape) -> AnySelect:
    """Build the lexical leg: the highest BM25 scores, by few keys of terms in a large scope, else of every chunk."""
    if shape.is_small:
        every = _score_all(shape, "lexical")
        return _hits(shape, "lexical", sa.select(*every.c).where(every.c.negative < 0))
    chunks = INDEX_TABLES[shape.dimensions].chunks
    scores = lexical_score(chunks.c.terms, shape)
    scored = sa.select(chunks.c.document_id, chunks.c.chunk_no, scores.label("negative"))
    if shape.is_distributed:
        return _hits(shape, "lexical", scored.where(_in_scope(chunks, shape), scores < 0))
    # Few keys suffice if they find all hits that the ranking uses: more keys would give the same hits.
    by_few, few_do = _look_up(shape, "few", keys=FEW_KEYS, bound=FEW_BOUND, proven=LEG)
    by_more, more_do = _look_up(shape, "more", keys=KEYS, bound=BOUND, worth=(sa.not_(few_do),))
    # OFFSET makes PostgreSQL score each chunk once, and not again for its filter.
    every = scored.where(sa.not_(few_do), sa.not_(more_do), _in_scope(chunks, shape)).offset(0).subquery("every")
    rest = sa.select(*every.c).where(every.c.negative < 0)
    return _hits(shape, "lexical", by_few, by_more, rest)


def _look_up(
    shape: Shape,
    name: str,
    *,
    keys: sa.ColumnElement[Any],
    bound: sa.ColumnElement[float],
    proven: int = 0,
    worth: Sequence[sa.ColumnElement[bool]] = (),
) -> tuple[AnySelect, sa.ColumnElement[bool]]:
    """Build the chunks found by `keys`, and whether `proven` chunks or `at_least` hits (or 20) reach `bound`."""
    is_worth = _materialize(f"{name}_worth", sa.not_(_reads_little(shape)), _can_look_up(shape, keys), *worth)
    found = _find_by_terms(shape, keys).where(is_worth).cte(name).prefix_with("MATERIALIZED")
    hits = sa.func.count() if shape.by_chunk else sa.func.count(sa.distinct(found.c.document_id))
    is_enough = sa.and_(hits >= sa.func.greatest(AT_LEAST, LEAST_PROVEN), sa.func.count() >= proven)
    reached = sa.select(is_enough).where(found.c.negative <= -bound * MARGIN).scalar_subquery()
    will_do = _materialize(f"{name}_do", is_worth, sa.or_(bound == 0, reached))
    return sa.select(*found.c).where(will_do, found.c.negative < 0), will_do


def _materialize(name: str, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    holds = sa.select(sa.and_(*conditions).label("holds")).cte(name).prefix_with("MATERIALIZED")
    return sa.select(holds.c.holds).scalar_subquery()


def _can_look_up(shape: Shape, keys: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    reads = may_read_index(f"chunks_with_terms_{shape.dimensions}", of=f"chunks_{shape.dimensions}")
    return sa.and_(sa.func.cardinality(keys) > 0, reads)


def _find_by_terms(shape: Shape, keys: sa.ColumnElement[Any]) -> AnySelect:
    """Select the best chunks in scope by keys. Uses a function, because row-level security hides the index of terms."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    names = ("document_id", "organization_id", "space_id", "access_class", "chunk_no")
    columns = [*(sa.column(name, chunks.c[name].type) for name in names), sa.column("negative", sa.Float())]
    function = getattr(sa.func, f"chunks_with_terms_{shape.dimensions}")
    terms = constant("terms", SPARSEVEC(TERM_DIMENSIONS), shape)
    with_terms = function(keys, terms).table_valued(*columns).alias("with_terms")
    best = sa.select(with_terms.c.document_id, with_terms.c.chunk_no, with_terms.c.negative)
    return best.where(_in_scope(with_terms, shape)).order_by(*_ORDER).limit(FURTHEST)


@lru_cache(SHAPES)
def chunks_containing(shape: Shape, *, is_phrase: bool) -> AnySelect:
    """Build the statement of at most `most` chunks in scope with a word (any of `terms`) or a phrase (`pattern`). With
    the index on one server, `chunk_no` is WHOLE for a phrase in a title, and `keys` find chunks in a large scope."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    scored = sa.select(chunks.c.document_id, chunks.c.chunk_no).where(_in_scope(chunks, shape))
    has_phrase = chunks.c.text.op("~*", is_comparison=True)(PATTERN)
    if not is_phrase:
        scored = scored.where(lexical_score(chunks.c.terms, shape) < 0)
    if shape.is_distributed:
        return (scored.where(has_phrase) if is_phrase else scored).limit(MOST)
    is_worth = _materialize("worth", sa.not_(_reads_little(shape)), _can_look_up(shape, KEYS))
    looked_up = _find_by_terms(shape, KEYS).order_by(None).limit(MOST).where(is_worth).cte("looked_up")
    scanned = scored.where(sa.not_(is_worth)).limit(MOST).subquery("scanned")
    found = sa.union_all(
        sa.select(looked_up.c.document_id, looked_up.c.chunk_no).where(looked_up.c.negative < 0), sa.select(*scanned.c)
    ).subquery("found")
    if not is_phrase:
        return sa.select(*found.c).limit(MOST)
    of_chunk = sa.and_(chunks.c.document_id == found.c.document_id, chunks.c.chunk_no == found.c.chunk_no)
    is_in_title = name_matches(PATTERN)
    number = sa.case((is_in_title, sa.literal_column(str(WHOLE), sa.Integer())), else_=found.c.chunk_no)
    return (
        sa.select(found.c.document_id, number.label("chunk_no"))
        .distinct()
        .join(chunks, sa.and_(of_chunk, chunks.c.organization_id == ORGANIZATION, chunks.c.space_id == SPACE))
        .join(documents, documents.c.document_id == found.c.document_id)
        .where(documents.c.organization_id == ORGANIZATION)
        .where(sa.or_(is_in_title, has_phrase))
        .limit(MOST)
    )


def _hits(shape: Shape, name: str, *sources: AnySelect) -> AnySelect:
    scored = sa.union_all(*sources) if sources[1:] else sources[0]
    best = _best_of(shape, name, scored).subquery(f"{name}_best")
    ranked = sa.select(best.c.document_id, best.c.chunk_no, sa.func.row_number().over(order_by=_ORDER).label("rank"))
    if shape.by_chunk:
        return ranked.order_by(sa.literal_column("rank"))
    chunks = ranked.subquery("chunks")
    first = sa.func.min(chunks.c.rank).label("rank")
    return sa.select(chunks.c.document_id, first).group_by(chunks.c.document_id).order_by(first).limit(LEG)


def _best_of(shape: Shape, name: str, scored: Any) -> AnySelect:
    """Select a leg's best chunks: more than `LEG` only while these are of too few documents, as sorting takes long."""
    if shape.by_chunk or shape.is_distributed:
        every = scored.subquery("scored")
        return sa.select(*every.c).order_by(*_ORDER).limit(LEG if shape.by_chunk else FURTHEST)
    every = scored if shape.is_small else sa.select(*scored.cte(f"{name}_scored").c)
    first = every.order_by(*_ORDER).limit(LEG).cte(f"{name}_first")
    is_enough = sa.select(sa.func.count(sa.distinct(first.c.document_id)) >= AT_LEAST).scalar_subquery()
    more = every.where(sa.not_(is_enough)).order_by(*_ORDER).limit(FURTHEST).subquery(f"{name}_more")
    return sa.union_all(sa.select(*first.c).where(is_enough), sa.select(*more.c))  # pyright: ignore


def select_chunks(hit: sa.FromClause, shape: Shape, *, table: sa.Table | None = None) -> AnySelect:
    """Select the rows of hits in the table of chunks, or in another index table."""
    chunks = INDEX_TABLES[shape.dimensions].chunks if table is None else table
    of_hit = sa.and_(chunks.c.organization_id == ORGANIZATION, chunks.c.space_id == SPACE, _is_of(hit, chunks, shape))
    hit_no = hit.c.chunk_no.label("hit_no")
    return sa.select(chunks.c.document_id, hit_no, chunks.c.chunk_no).select_from(hit).join(chunks, of_hit)


def _select_scored(hit: sa.FromClause, shape: Shape, name: str) -> AnySelect:
    """Select the scores of hits' chunks, in a small scope. They are found by a hash table, however many PostgreSQL
    expects: IS TRUE keeps the condition from becoming a join."""
    every = _score_all(shape, name)
    keys = [name for name in ("document_id", "chunk_no") if shape.by_chunk or name == "document_id"]
    is_hit = sa.tuple_(*(every.c[key] for key in keys)).in_(sa.select(*(hit.c[key] for key in keys)))
    hit_no = every.c.chunk_no if shape.by_chunk else sa.literal_column(str(WHOLE), sa.Integer())
    columns = every.c.document_id, hit_no.label("hit_no"), every.c.chunk_no, every.c.negative.label(name)
    return sa.select(*columns).where(is_hit.is_(sa.true()))


def _select_vectors(hit: sa.FromClause, shape: Shape) -> AnySelect:
    """Select the chunks of hits to read `embedding_of`, without the rows of chunks if these have no vectors."""
    if shape.has_vectors_inside:
        return with_vectors(select_chunks(hit, shape), shape)
    return select_chunks(hit, shape, table=INDEX_TABLES[shape.dimensions].vectors)


def _is_of(hit: sa.FromClause, chunks: sa.FromClause, shape: Shape) -> sa.ColumnElement[bool]:
    of_document = chunks.c.document_id == hit.c.document_id
    return sa.and_(of_document, chunks.c.chunk_no == hit.c.chunk_no) if shape.by_chunk else of_document


@lru_cache(SHAPES)
def candidates(shape: Shape, *, by_words: bool, by_meaning: bool) -> AnySelect:
    """Build the legs and their hits' exact scores, ordered by hit: the rank in each leg, the two best scores, negative,
    and the nearest chunk with its size in bytes. Hits of a leg's first 100 chunks count, and more while fewer than
    `at_least`."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    legs = {"dense_rank": dense_leg(shape)} if by_meaning else {}
    legs |= {"lexical_rank": lexical_leg(shape)} if by_words else {}
    named = sa.union_all(*(_rank_as(rank, leg, shape) for rank, leg in legs.items())).subquery("named")
    hit = (
        sa.select(named.c.document_id, named.c.chunk_no, *(sa.func.min(named.c[rank]).label(rank) for rank in RANKS))
        .group_by(named.c.document_id, named.c.chunk_no)
        .cte("hit")
    )
    near = _select_vectors(hit, shape).add_columns(dense_score(shape).label("dense"))
    if shape.is_small and by_meaning:
        near = _select_scored(hit, shape, "dense")
    own = select_chunks(hit, shape).add_columns(lexical_score(chunks.c.terms, shape).label("lexical"))
    if shape.is_small and by_words:
        own = _select_scored(hit, shape, "lexical")
    size = sa.func.pg_column_size(chunks.c.text).label("size")
    ranks = [hit.c[rank] for rank in RANKS]
    if shape.is_distributed:
        joined = _join_scores(own.add_columns(size, *ranks), near).subquery("joined")
        return sa.select(joined).order_by(joined.c.document_id, joined.c.hit_no)
    ranked = sa.select(hit.c.document_id, hit.c.chunk_no.label("hit_no"), *ranks)
    best = _add_scores(own, near, ranked).subquery("best")
    # Only the nearest chunks, because texts are stored apart from scores.
    own_chunk = chunks.c.organization_id == ORGANIZATION, chunks.c.space_id == SPACE
    is_best = chunks.c.document_id == best.c.document_id, chunks.c.chunk_no == best.c.nearest
    sized = sa.select(best, size).join(chunks, sa.and_(*own_chunk, *is_best))
    return sized.order_by(best.c.document_id, best.c.hit_no)


def _add_scores(*sources: AnySelect) -> AnySelect:
    """Select each hit's best scores and nearest chunk. No join: a wrong estimate would compare all pairs of rows."""
    parts = [
        sa.select(
            each.c.document_id,
            each.c.hit_no,
            *(
                each.c[name] if name in each.c else sa.cast(sa.null(), kind).label(name)
                for name, kind in _OF_HIT.items()
            ),
        )
        for each in (source.subquery() for source in sources)
    ]
    return _best_scores(sa.union_all(*parts).subquery("scores"))  # pyright: ignore


def _join_scores(own: AnySelect, near: AnySelect) -> AnySelect:
    """Select the best scores of hits, and the nearest chunk with its size, on several servers."""
    words, meaning = (each.cte(name).prefix_with("MATERIALIZED") for each, name in ((own, "own"), (near, "near")))
    of_chunk = sa.and_(meaning.c.document_id == words.c.document_id, meaning.c.chunk_no == words.c.chunk_no)
    chosen = sa.select(*words.c, meaning.c.dense).outerjoin_from(words, meaning, of_chunk).subquery("chosen")
    return _best_scores(chosen).add_columns(_first_of(chosen.c.size, chosen.c.dense, chosen.c.chunk_no).label("size"))


def _best_scores(chosen: sa.FromClause) -> AnySelect:
    of_hit = chosen.c.document_id, chosen.c.hit_no
    return sa.select(
        *of_hit,
        *(sa.func.min(chosen.c[name]).label(name) for name in ("lexical", "dense", *RANKS)),
        _first_of(chosen.c.chunk_no, chosen.c.dense, chosen.c.chunk_no).label("nearest"),
    ).group_by(*of_hit)


def _first_of(value: sa.ColumnElement[int], *order: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    ordered: Any = aggregate_order_by(value, *order)
    return sa.func.array_agg(ordered, type_=sa.ARRAY(sa.Integer))[1]


def _rank_as(name: str, leg: AnySelect, shape: Shape) -> AnySelect:
    found = leg.cte(f"by_{name}")
    place = sa.func.row_number().over(order_by=found.c.rank).label("place")
    placed = sa.select(found, place).subquery(f"placed_{name}")
    return sa.select(
        placed.c.document_id,
        (placed.c.chunk_no if shape.by_chunk else sa.literal_column(str(WHOLE), sa.Integer())).label("chunk_no"),
        *((placed.c.rank if rank == name else sa.cast(sa.null(), sa.BigInteger())).label(rank) for rank in RANKS),
    ).where(sa.or_(placed.c.rank <= LEG, placed.c.place <= AT_LEAST))


def _given_hits(*, ids: str = "ids", numbers: str = "numbers") -> sa.FromClause:
    hits = sa.func.unnest(array_of(ids, sa.Uuid()), array_of(numbers, sa.Integer()))
    return hits.table_valued("document_id", "chunk_no", with_ordinality="number").render_derived(name="hit")


@lru_cache(SHAPES)
def scores_near(shape: Shape) -> AnySelect:
    """Build hits' negative cosines with the question vector, moved by `weights` towards the mean of the examples."""
    vector = VECTOR(shape.dimensions)
    given = _given_hits(ids="example_ids", numbers="example_numbers")
    examples = _select_vectors(given, replace(shape, by_chunk=True))
    example = examples.add_columns(sa.cast(embedding_of(shape), vector).label("embedding")).subquery("example")
    mean: sa.ColumnElement[Any] = sa.select(sa.func.avg(example.c.embedding)).scalar_subquery()
    moved = sa.func.l2_normalize(
        constant("vector", vector, shape).op("+")(mean.op("*")(constant("weights", vector, shape)))
    )
    asked = sa.select(sa.cast(moved, HALFVEC(shape.dimensions))).scalar_subquery()
    dense = sa.func.min(embedding_of(shape).op("<#>", return_type=sa.Float())(asked)).label("dense")
    hit = _given_hits()
    return _select_vectors(hit, shape).with_only_columns(hit.c.number, dense).group_by(hit.c.number)


def _worth(chunks: sa.Table, shape: Shape) -> sa.ColumnElement[float]:
    """Build a passage's negative score, by the two scores' shares, halved for a nearly empty passage."""
    lexical = sa.bindparam("lexical_share", type_=sa.Float()) * lexical_score(chunks.c.terms, shape)
    dense = sa.bindparam("dense_share", type_=sa.Float()) * sa.func.coalesce(dense_score(shape), UNKNOWN)
    return (lexical + dense) * sa.case((sa.func.pg_column_size(chunks.c.text) < NEARLY_EMPTY, 0.5), else_=1.0)


@lru_cache(SHAPES)
def found_documents(shape: Shape) -> AnySelect:
    """Build the statement of documents (`ids`) with resource and best chunk, by the two scores' shares."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    ids = sa.any_(array_of("ids", sa.Uuid()))
    preferred = (sa.not_(chunks.c.text.op("~*", is_comparison=True)(PATTERN)),) if shape.has_pattern else ()
    best = (
        with_vectors(sa.select(chunks.c.document_id, chunks.c.chunk_no, chunks.c.text, chunks.c.place), shape)
        .ext(distinct_on(chunks.c.document_id))
        .where(chunks.c.organization_id == ORGANIZATION, chunks.c.space_id == SPACE, chunks.c.document_id == ids)
        .order_by(chunks.c.document_id, *preferred, _worth(chunks, shape), chunks.c.chunk_no)
        .subquery("best")
    )
    columns = (
        documents.c.custom_metadata,
        documents.c.updated_at,
        time_of_change().label("changed_at"),
        as_member(resources.c.resource_type, ResourceType),
        *(resources.c.resource_id, resources.c.container_id),
    )
    of_document = resources.c.object_id == documents.c.document_id, matches(resources, ORGANIZATION)
    found = _select_documents(*columns).join(resources, sa.and_(*of_document)).subquery("found")
    return sa.select(*found.c, best.c.chunk_no, best.c.text, best.c.place).join(
        best, best.c.document_id == found.c.document_id
    )


def _select_documents(*columns: sa.ColumnElement[Any]) -> AnySelect:
    """Select documents (`ids`) in the space, with their names and shown version, and further columns."""
    named = documents.c.name, all_names(ORGANIZATION).label("names"), shown_version().label("version")
    return (
        sa.select(documents.c.document_id, *named, documents.c.external_id, documents.c.external_url, *columns)
        .join(space_documents, space_documents.c.document_id == documents.c.document_id)
        .where(
            matches(documents, ORGANIZATION, document_id=sa.any_(array_of("ids", sa.Uuid()))),
            matches(space_documents, ORGANIZATION, space_id=SPACE),
        )
    )


@lru_cache(SHAPES)
def further_passages(shape: Shape) -> AnySelect:
    """Build the statement of documents' (`ids`) passages by the two scores' shares, the best `most` of each."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    best_first = sa.func.row_number().over(partition_by=chunks.c.document_id, order_by=_worth(chunks, shape))
    place = best_first.label("no")
    ids = sa.any_(array_of("ids", sa.Uuid()))
    ranked = (
        with_vectors(sa.select(chunks.c.document_id, chunks.c.chunk_no, chunks.c.text, chunks.c.place, place), shape)
        .where(chunks.c.organization_id == ORGANIZATION, chunks.c.space_id == SPACE, chunks.c.document_id == ids)
        .subquery("ranked")
    )
    columns = (ranked.c[name] for name in ("document_id", "chunk_no", "text", "place"))
    return sa.select(*columns).where(ranked.c.no <= MOST).order_by(ranked.c.document_id, ranked.c.no)


@lru_cache(SHAPES)
def neighbours(shape: Shape) -> AnySelect:
    """Build the statement of the chunks in scope up to `most` places before or after each hit, and the hits."""
    chunks, hit = INDEX_TABLES[shape.dimensions].chunks, _given_hits()
    is_near = chunks.c.chunk_no.between(hit.c.chunk_no - MOST, hit.c.chunk_no + MOST)
    columns = (chunks.c[name] for name in ("document_id", "chunk_no", "text", "place"))
    near = sa.select(*columns).join_from(hit, chunks, sa.and_(chunks.c.document_id == hit.c.document_id, is_near))
    return near.where(_in_scope(chunks, shape))


@lru_cache(SHAPES)
def readable_passages(shape: Shape) -> AnySelect:
    """Build the statement of the first `most` passages of a document (`ids`) in scope."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    ids = sa.any_(array_of("ids", sa.Uuid()))
    columns = (chunks.c[name] for name in ("document_id", "chunk_no", "text", "place"))
    found = sa.select(*columns).where(_in_scope(chunks, shape), chunks.c.document_id == ids, chunks.c.chunk_no < MOST)
    return found.order_by(chunks.c.chunk_no)


@lru_cache(SHAPES)
def counts_of_terms(shape: Shape) -> AnySelect:
    """Build the statement counting the first `most` chunks in scope with a term of each of the `vectors`."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    first = sa.select(chunks.c.terms).where(_in_scope(chunks, shape)).order_by(chunks.c.document_id, chunks.c.chunk_no)
    sample = first.limit(MOST).cte("sample").prefix_with("MATERIALIZED")
    given = sa.func.unnest(array_of("vectors", sa.Text())).table_valued("written", with_ordinality="number")
    word = given.render_derived(name="word")
    vectors = sa.select(word.c.number, sa.cast(word.c.written, SPARSEVEC(TERM_DIMENSIONS)).label("vector")).cte(
        "vectors"
    )
    vectors = vectors.prefix_with("MATERIALIZED")
    has = sample.c.terms.op("<#>", return_type=sa.Float())(vectors.c.vector) < 0
    counted = sa.select(vectors.c.number.label("term"), sa.func.count().label("chunks")).join_from(vectors, sample, has)
    every = sa.select(sa.literal_column("0", sa.BigInteger()).label("term"), sa.func.count().label("chunks"))
    return sa.union_all(counted.group_by(vectors.c.number), every.select_from(sample))  # pyright: ignore


@lru_cache(SHAPES)
def documents_without_meaning(shape: Shape) -> AnySelect:
    """Count, up to `most`, documents in scope with only words so far; of many waiting, only some are examined."""
    chunks, entry = INDEX_TABLES[shape.dimensions].chunks, space_documents.c
    place = entry.organization_id == ORGANIZATION, entry.space_id == SPACE
    waiting = sa.select(entry.document_id).where(*place, lacks_meaning()).limit(WAITING_LOOKED_AT).subquery("waiting")
    in_scope = sa.select(chunks.c.chunk_no).where(
        _in_scope(chunks, shape), chunks.c.document_id == waiting.c.document_id
    )
    found = sa.select(waiting).where(in_scope.exists()).limit(MOST).subquery("found")
    return sa.select(sa.func.count().label("documents")).select_from(found)


@lru_cache(2)
def readable_documents(*, is_narrowed: bool) -> AnySelect:
    given = matches(resources, ORGANIZATION, object_id=sa.any_(array_of("ids", sa.Uuid())))
    return sa.select(resources.c.object_id.label("document_id")).where(given, is_readable(is_narrowed=is_narrowed))


@lru_cache(SHAPES)
def found_chunks(shape: Shape) -> AnySelect:
    chunks = INDEX_TABLES[shape.dimensions].chunks
    entries = _select_documents(space_documents.c.custom_metadata).subquery("entries")
    columns = [*(chunks.c[name] for name in ("chunk_id", "text", "place")), *list(entries.c)[1:]]
    hits = select_chunks(_given_hits(), shape)
    return hits.add_columns(*columns).join(entries, entries.c.document_id == chunks.c.document_id)
