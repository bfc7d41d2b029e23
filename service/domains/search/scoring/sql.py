"""The shapes of searches, and the exact scores of chunks, of which the statements of a search are built."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pgvector.sqlalchemy import HALFVEC, SPARSEVEC
from sqlalchemy.types import TypeEngine

from service.domains.search.filters import Comparison
from service.domains.search.syntax.queries import FieldShape
from service.schema.indexing import INDEX_TABLES, TERM_DIMENSIONS

AnySelect = sa.Select[*tuple[Any, ...]]

SHAPES = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a search that change its statements; `is_distributed`: the index tables lie on several servers.
    `has_vectors_inside`: some vectors lie in the rows of their chunks, where an earlier version has written them."""

    dimensions: int
    by_chunk: bool
    conditions: tuple[Comparison, ...] = ()
    by_resource_type: bool = False
    is_distributed: bool = False
    is_narrowed: bool = False
    fields: tuple[FieldShape, ...] = ()
    has_only: bool = False
    has_without: bool = False
    has_pattern: bool = False
    has_passages: bool = False
    has_vectors_inside: bool = False


ORGANIZATION: sa.ColumnElement[UUID] = sa.bindparam("organization_id", type_=sa.Uuid())
SPACE: sa.ColumnElement[int] = sa.bindparam("space_id", type_=sa.Integer())


def constant(name: str, to_type: TypeEngine[Any], shape: Shape) -> sa.ColumnElement[Any]:
    """Build a parameter of a pgvector type: a subquery that a generic plan reads once, or a value for Citus."""
    value = sa.cast(sa.bindparam(name, type_=sa.Text()), to_type)
    return value if shape.is_distributed else sa.select(value).scalar_subquery()


def dense_score(shape: Shape) -> sa.ColumnElement[float]:
    """Build a chunk's negative cosine with the query: NULL while it has no vector."""
    return embedding_of(shape).op("<#>", return_type=sa.Float())(constant("vector", HALFVEC(shape.dimensions), shape))


def embedding_of(shape: Shape) -> sa.ColumnElement[Any]:
    """Select a chunk's vector; the statement joins both of its tables if some vectors lie inside."""
    tables = INDEX_TABLES[shape.dimensions]
    inside, apart = tables.chunks.c.embedding, tables.vectors.c.embedding
    return sa.func.coalesce(inside, apart) if shape.has_vectors_inside else apart


def with_vectors(statement: AnySelect, shape: Shape) -> AnySelect:
    """Join the vectors of the chunks that a statement reads; a chunk without one stays."""
    tables = INDEX_TABLES[shape.dimensions]
    own = tables.vectors.c.organization_id == ORGANIZATION, tables.vectors.c.space_id == SPACE
    return statement.outerjoin(tables.vectors, sa.and_(tables.vector_of(tables.chunks), *own))


def lexical_score(column: sa.ColumnElement[Any], shape: Shape) -> sa.ColumnElement[float]:
    """Build a chunk's negative BM25 score, from its terms."""
    return column.op("<#>", return_type=sa.Float())(constant("terms", SPARSEVEC(TERM_DIMENSIONS), shape))
