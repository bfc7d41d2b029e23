"""The statements about hits that have been found: their scores once the question has moved, and their contents."""

from functools import lru_cache
from typing import Any

from pgvector.sqlalchemy import HALFVEC, VECTOR
from sqlalchemy import (
    ColumnElement,
    Float,
    FromClause,
    Integer,
    Uuid,
    any_,
    bindparam,
    cast,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import distinct_on

from carrel.wire.common import ResourceType
from service.domains.search.sql import (
    ORGANIZATION,
    SHAPES,
    SPACE,
    AnySelect,
    Shape,
    array_of,
    constant,
    dense_score,
    lexical_score,
    select_chunks,
)
from service.permissions.queries import readable_by_parameters, within_parameters
from service.platform.sql import as_member
from service.schema.catalog import documents
from service.schema.indexing import INDEX_TABLES, space_documents
from service.schema.permissions import resources


def _given_hits(*, ids: str = "ids", numbers: str = "numbers") -> FromClause:
    """Build the table of the hits in the parameters `ids` and `numbers`, with the `number` of each, from 1."""
    hits = func.unnest(array_of(ids, Uuid()), array_of(numbers, Integer()))
    return hits.table_valued("document_id", "chunk_no", with_ordinality="number").render_derived(name="hit")


@lru_cache(SHAPES)
def scores_near(shape: Shape) -> AnySelect:
    """Build the statement of hits' negative cosines with the question vector moved towards the examples' mean.

    Examples are the chunks in the parameters `example_…`. `weights` is a vector with the mean's weight in every
    dimension.
    """
    chunks = INDEX_TABLES[shape.dimensions].chunks
    vector = VECTOR(shape.dimensions)
    given = _given_hits(ids="example_ids", numbers="example_numbers")
    examples = select_chunks(given, Shape(shape.dimensions, by_chunk=True))
    example = examples.add_columns(cast(chunks.c.embedding, vector).label("embedding")).subquery("example")
    mean: ColumnElement[Any] = select(func.avg(example.c.embedding)).scalar_subquery()
    moved = func.l2_normalize(
        constant("vector", vector, shape).op("+")(mean.op("*")(constant("weights", vector, shape)))
    )
    asked = select(cast(moved, HALFVEC(shape.dimensions))).scalar_subquery()
    dense = func.min(chunks.c.embedding.op("<#>", return_type=Float())(asked)).label("dense")
    hit = _given_hits()
    return select_chunks(hit, shape).with_only_columns(hit.c.number, dense).group_by(hit.c.number)


@lru_cache(SHAPES)
def found_documents(shape: Shape) -> AnySelect:
    """Build the statement of documents (`ids`) with their resource, and their best chunk.

    `dense_share` and `lexical_share` say how much each score counts for the best chunk.
    """
    chunks = INDEX_TABLES[shape.dimensions].chunks
    shares = {name: bindparam(name, type_=Float()) for name in ("lexical_share", "dense_share")}
    lexical = shares["lexical_share"] * lexical_score(chunks.c.terms, shape)
    dense = shares["dense_share"] * dense_score(chunks.c.embedding, shape)
    ids = any_(array_of("ids", Uuid()))
    best = (
        select(chunks.c.document_id, chunks.c.chunk_no, chunks.c.text, chunks.c.place)
        .ext(distinct_on(chunks.c.document_id))
        .where(chunks.c.organization_id == ORGANIZATION, chunks.c.space_id == SPACE, chunks.c.document_id == ids)
        .order_by(chunks.c.document_id, lexical + dense, chunks.c.chunk_no)
        .subquery("best")
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
        space_documents.c.indexed_version.label("version"),
    )
    found = (
        select(*columns)
        .join(resources, resources.c.object_id == documents.c.document_id)
        .join(space_documents, space_documents.c.document_id == documents.c.document_id)
        .where(
            documents.c.organization_id == ORGANIZATION,
            resources.c.organization_id == ORGANIZATION,
            space_documents.c.organization_id == ORGANIZATION,
            space_documents.c.space_id == SPACE,
            documents.c.document_id == ids,
        )
        .subquery("found")
    )
    return select(*found.c, best.c.chunk_no, best.c.text, best.c.place).join(
        best, best.c.document_id == found.c.document_id
    )


@lru_cache(2)
def readable_documents(*, is_narrowed: bool) -> AnySelect:
    """Build the statement of those documents (`ids`) that the caller may read."""
    statement = select(resources.c.object_id.label("document_id")).where(
        resources.c.organization_id == ORGANIZATION,
        resources.c.object_id == any_(array_of("ids", Uuid())),
        resources.c.access_class.in_(readable_by_parameters()),
    )
    return statement.where(resources.c.object_id.in_(within_parameters())) if is_narrowed else statement


@lru_cache(SHAPES)
def found_chunks(shape: Shape) -> AnySelect:
    """Build the statement of chunks with their document, and its metadata in the collection."""
    chunks = INDEX_TABLES[shape.dimensions].chunks
    entries = (
        select(
            documents.c.document_id,
            documents.c.name,
            documents.c.external_id,
            documents.c.external_url,
            space_documents.c.custom_metadata,
            space_documents.c.indexed_version.label("version"),
        )
        .join(space_documents, space_documents.c.document_id == documents.c.document_id)
        .where(
            documents.c.organization_id == ORGANIZATION,
            space_documents.c.organization_id == ORGANIZATION,
            space_documents.c.space_id == SPACE,
            documents.c.document_id == any_(array_of("ids", Uuid())),
        )
        .subquery("entries")
    )
    columns = [*(chunks.c[name] for name in ("chunk_id", "text", "place")), *list(entries.c)[1:]]
    hits = select_chunks(_given_hits(), shape)
    return hits.add_columns(*columns).join(entries, entries.c.document_id == chunks.c.document_id)
