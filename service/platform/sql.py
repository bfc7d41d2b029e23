"""Helpers for building SQL that several packages use."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Column,
    ColumnElement,
    Executable,
    FromClause,
    Row,
    Table,
    TableValuedAlias,
    Text,
    Uuid,
    any_,
    bindparam,
    cast,
    column,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.database import ORGANIZATION_SETTING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
"""A row whose columns its query's docstring names."""

Value = TypeVar("Value")
Found = TypeVar("Found")


def param(column: ColumnElement[Value], name: str | None = None) -> BindParameter[Value]:
    """Return a parameter of a statement that is built once: `params` passes it by the column's name, or this one.

    Such a statement can't run without all of them. They have names of their own, because SQLAlchemy would write one
    that is called like a column into that column.
    """
    return bindparam(f"param_{name or column.key}", type_=column.type)


ORGANIZATION = bindparam("param_organization_id", type_=Uuid())


def params(organization_id: UUID, **values: Any) -> dict[str, Any]:
    """Return the parameters of a statement that is built once, whose organization is `ORGANIZATION`."""
    return {"param_organization_id": organization_id, **{f"param_{name}": value for name, value in values.items()}}


def in_array(column: ColumnElement[Value], values: Iterable[Value]) -> ColumnElement[bool]:
    """Build the condition that a column is one of `values`: one array parameter, so one statement to plan and cache."""
    array: Any = literal(list(values), ARRAY(column.type))
    return column == any_(array)


def optional_in(column: ColumnElement[UUID], ids: Collection[UUID] | None) -> ColumnElement[bool]:
    """Build the condition that a column is one of `ids`; always true without ids (None)."""
    return true() if ids is None else in_array(column, ids)


def rows_of(columns: Sequence[Column[Any]], rows: Sequence[Mapping[str, object]]) -> TableValuedAlias:
    """Build a table of rows with these columns: one array for each column, however many rows.

    A statement runs once for all of them; the driver's way for many runs it for each.
    """
    arrays = (literal([row[one.name] for row in rows], ARRAY(one.type)) for one in columns)
    named = (column(one.name, one.type) for one in columns)
    return func.unnest(*arrays).table_valued(*named).render_derived(name="given")


def columns_of(table: Table, kind: "type[DataclassInstance]") -> tuple[Column[Any], ...]:
    """Return the columns of a table that have the names of a dataclass's fields, in their order."""
    return tuple(table.c[one.name] for one in fields(kind))


async def find_row(
    connection: AsyncConnection,
    statement: Executable,
    kind: Callable[..., Found],
    parameters: Mapping[str, Any] | None = None,
) -> Found | None:
    """Run a statement that selects a dataclass's fields in their order, and return its row as one; None without any."""
    row = (await connection.execute(statement, parameters)).one_or_none()
    return None if row is None else kind(*row)


def count_of(rows: FromClause) -> ColumnElement[int]:
    """Build the count of the rows of a part of the same statement."""
    return select(func.count()).select_from(rows).scalar_subquery()


def set_organization(organization_id: ColumnElement[UUID]) -> ColumnElement[str]:
    """Build a column, `entered`, by which the look-up of a credential enters the organization it belongs to.

    As `service.platform.database.enter_organization` does, without a further message to the server.
    """
    return func.set_config(ORGANIZATION_SETTING, cast(organization_id, Text), True).label("entered")
