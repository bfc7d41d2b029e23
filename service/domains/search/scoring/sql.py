"""The shapes of searches, and the exact scores of chunks, as parts of the statements of a search."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from pgvector.sqlalchemy import HALFVEC, SPARSEVEC
from sqlalchemy.types import TypeEngine

from service.domains.documents.collections.filters import Comparison
from service.domains.search.syntax.queries import ORGANIZATION, FieldShape
from service.schema.indexing import INDEX_TABLES, TERM_DIMENSIONS

AnySelect = sa.Select[*tuple[Any, ...]]

SHAPES = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a search that change the statements; `is_distributed` means the index tables are on several servers.
    `has_vectors_inside`: an earlier version has written some vectors into the chunks' rows. `is_small`: little is in
    scope, so the legs score everything, and the hits' scores are theirs (None: the statement finds out)."""

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
    is_small: bool | None = None


SPACE: sa.ColumnElement[int] = sa.bindparam("space_id", type_=sa.Integer())


def constant(name: str, to_type: TypeEngine[Any], shape: Shape) -> sa.ColumnElement[Any]:
    """Build a parameter of a pgvector type: a subquery read once by a generic plan, or a value for Citus."""
    value = sa.cast(sa.bindparam(name, type_=sa.Text()), to_type)
    return value if shape.is_distributed else sa.select(value).scalar_subquery()


def dense_score(shape: Shape) -> sa.ColumnElement[float]:
    """Build a chunk's negative cosine with the query; NULL without a vector."""
    return embedding_of(shape).op("<#>", return_type=sa.Float())(constant("vector", HALFVEC(shape.dimensions), shape))


def embedding_of(shape: Shape) -> sa.ColumnElement[Any]:
    """Select a chunk's vector. The statement joins both vector tables if some vectors are inside chunks."""
    tables = INDEX_TABLES[shape.dimensions]
    inside, apart = tables.chunks.c.embedding, tables.vectors.c.embedding
    return sa.func.coalesce(inside, apart) if shape.has_vectors_inside else apart


def with_vectors(statement: AnySelect, shape: Shape) -> AnySelect:
    """Join the vectors of a statement's chunks; chunks without a vector stay."""
    tables = INDEX_TABLES[shape.dimensions]
    own = tables.vectors.c.organization_id == ORGANIZATION, tables.vectors.c.space_id == SPACE
    return statement.outerjoin(tables.vectors, sa.and_(tables.vector_of(tables.chunks), *own))


def lexical_score(column: sa.ColumnElement[Any], shape: Shape) -> sa.ColumnElement[float]:
    # pgvector loops over its left operand: the shorter list first takes a tenth less time.
    return constant("terms", SPARSEVEC(TERM_DIMENSIONS), shape).op("<#>", return_type=sa.Float())(column)
