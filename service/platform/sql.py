"""Helpers for SQL shared by several packages, and the clock for expiring credentials."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from uuid import UUID

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from sqlalchemy.sql.elements import KeyedColumnElement
from sqlalchemy.types import TypeEngine

from carrel.wire.common import Versioned

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value")
Found = TypeVar("Found")
Chosen = TypeVar("Chosen", bound="sa.Select[*tuple[Any, ...]]")
Parameters = Mapping[str, Any] | None


def param(column: sa.ColumnElement[Value], name: str | None = None) -> sa.BindParameter[Value]:
    """Return a required parameter for a statement built once, passed by `params` under the column's name, or `name`.
    The parameter is named differently: SQLAlchemy would treat an equal name as a value to write."""
    return sa.bindparam(f"param_{name or column.key}", type_=column.type)


ORGANIZATION = sa.bindparam("param_organization_id", type_=sa.Uuid())


def params(organization_id: UUID, **values: Any) -> dict[str, Any]:
    """Return the parameters of a statement built once with `ORGANIZATION` as organization."""
    return {"param_organization_id": organization_id, **{f"param_{name}": value for name, value in values.items()}}


def matches(
    table: sa.FromClause, organization_id: UUID | sa.ColumnElement[UUID], **values: object
) -> sa.ColumnElement[bool]:
    """Build the condition that a row belongs to the organization and has the given column values."""
    return sa.and_(
        table.c.organization_id == organization_id, *(table.c[name] == value for name, value in values.items())
    )


def read_sql(module: str, name: str) -> str:
    """Read a long statement from the file `name`.sql beside a module."""
    return Path(module).with_name(f"{name}.sql").read_text("utf-8")


async def revoke(connection: Connection, table: sa.Table, organization_id: UUID, **key: UUID) -> bool:
    """Revoke the organization's row with this key; False if already revoked or unknown."""
    now = {"revoked_at": sa.func.now()}
    return await update_rows(connection, table, organization_id, now, table.c.revoked_at.is_(None), **key) > 0


async def update_rows(
    connection: Connection,
    table: sa.Table,
    organization_id: UUID,
    values: Mapping[str, object],
    *conditions: sa.ColumnElement[bool],
    **key: object,
) -> int:
    """Set columns of the organization's rows with the given key and conditions; return the number of rows."""
    chosen = sa.update(table).where(matches(table, organization_id, **key), *conditions)
    return (await connection.execute(chosen.values(values))).rowcount


async def delete_rows(
    connection: Connection, table: sa.Table, organization_id: UUID, *conditions: sa.ColumnElement[bool], **key: object
) -> int:
    chosen = sa.delete(table).where(matches(table, organization_id, **key), *conditions)
    return (await connection.execute(chosen)).rowcount


async def insert_new(
    connection: Connection, table: sa.Table, row: Mapping[str, object], *, unique: Sequence[str] | None = None
) -> bool:
    """Insert a row unless a row with equal unique columns exists (all keys, or `unique`); return whether it was new."""
    statement = insert(table).values(row).on_conflict_do_nothing(index_elements=unique)
    return (await connection.execute(statement.returning(table.c.organization_id))).one_or_none() is not None


async def count_rows(connection: Connection, *conditions: sa.ColumnElement[bool]) -> int:
    return (await connection.execute(sa.select(sa.func.count()).where(*conditions))).scalar_one()


class Window(NamedTuple):
    """A page of a list ordered by id: the rows `after` an id, at most `limit`."""

    after: UUID
    limit: int


def rows_after(statement: Chosen, column: sa.ColumnElement[Value], after: Value, limit: int) -> Chosen:
    return statement.where(column > after).order_by(column).limit(limit)


def in_array(column: sa.ColumnElement[Value], values: Iterable[Value]) -> sa.ColumnElement[bool]:
    """Whether a column is in `values`: a single array parameter, so a single statement to plan and cache."""
    array: Any = sa.literal(list(values), sa.ARRAY(column.type))
    return column == sa.any_(array)


def optional(column: sa.ColumnElement[Value], value: Value | None) -> sa.ColumnElement[bool]:
    """Build the condition that a column is `value`; always true for None."""
    return sa.true() if value is None else column == value


def optional_in(column: sa.ColumnElement[UUID], ids: Collection[UUID] | None) -> sa.ColumnElement[bool]:
    """Build the condition that a column is in `ids`; always true for None."""
    return sa.true() if ids is None else in_array(column, ids)


def rows_of(columns: Sequence[KeyedColumnElement[Any]], rows: Sequence[Mapping[str, object]]) -> sa.TableValuedAlias:
    """Build a table of rows, passed as an array per column, so that a statement runs once for all rows."""
    arrays = (sa.literal([row[column.key] for row in rows], sa.ARRAY(column.type, dimensions=1)) for column in columns)
    named = (sa.column(element.key, element.type) for element in columns)
    return sa.func.unnest(*arrays).table_valued(*named).render_derived(name="given")


def columns_of(
    table: sa.FromClause, kind: "type[DataclassInstance | BaseModel]", *others: KeyedColumnElement[Any]
) -> tuple[KeyedColumnElement[Any], ...]:
    """Return a column for each field of a dataclass or model, by name: of `others`, or else of the table."""
    named = {column.key: column for column in (*table.columns, *others)}
    names = list(kind.model_fields) if issubclass(kind, BaseModel) else [field.name for field in fields(kind)]
    if issubclass(kind, Versioned):
        names.remove("version")  # the model computes the version
    return tuple(named[name] for name in names)


class _Member(sa.TypeDecorator[Any]):
    """A member of an enum, by its text; see `as_member`."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind

    def process_result_value(self, value: str | None, dialect: object) -> StrEnum | None:  # noqa: ARG002 - SQLAlchemy's
        try:
            return None if value is None else self.kind(value)
        except ValueError:
            # A newer release on the same database may have written it.
            if "UNKNOWN" not in self.kind.__members__:
                raise
            return self.kind["UNKNOWN"]


class ModelJson(sa.TypeDecorator[Any]):
    """JSON of a model, written without None fields and read back as the model."""

    impl = JSONB
    cache_ok = True

    def __init__(self, kind: type[BaseModel]) -> None:
        super().__init__(none_as_null=True)
        self.kind = kind

    def process_bind_param(self, value: BaseModel | None, dialect: object) -> Any:  # noqa: ARG002 - SQLAlchemy's
        return None if value is None else value.model_dump(mode="json", exclude_none=True)

    def process_result_value(self, value: Any, dialect: object) -> BaseModel | None:  # noqa: ARG002 - SQLAlchemy's
        return None if value is None else self.kind.model_validate(value)


def as_member(column: KeyedColumnElement[Any], kind: type[StrEnum]) -> sa.Label[Any]:
    """Return a text column read as members of an enum, with the column's own name. A text without a member reads as
    UNKNOWN if the enum has that member; otherwise reading raises ValueError."""
    return sa.type_coerce(column, _Member(kind)).label(column.key)


async def find_rows(
    connection: Connection, statement: sa.Executable, kind: Callable[..., Found], parameters: Parameters = None
) -> list[Found]:
    """Run a statement, and return its rows as `kind`, with fields named like the columns."""
    result = await connection.execute(statement, parameters)
    return list(map(_maker(kind, result), result))


async def find_row(
    connection: Connection, statement: sa.Executable, kind: Callable[..., Found], parameters: Parameters = None
) -> Found | None:
    """Run a statement and return the only row as `kind`, None without a row. Several rows are an error."""
    result = await connection.execute(statement, parameters)
    row = result.one_or_none()
    return None if row is None else _maker(kind, result)(row)


async def get_row(
    connection: Connection, statement: sa.Executable, kind: Callable[..., Found], parameters: Parameters = None
) -> Found:
    result = await connection.execute(statement, parameters)
    return _maker(kind, result)(result.one())


def _maker(kind: Callable[..., Found], result: sa.Result[Any]) -> Callable[[Sequence[Any]], Found]:
    """Return a function to make `kind` from a row by column names; for a dataclass an extra column is an error."""
    names = tuple(result.keys())
    return lambda row: kind(**dict(zip(names, row, strict=True)))


def count_of(rows: sa.FromClause) -> sa.ColumnElement[int]:
    return sa.select(sa.func.count()).select_from(rows).scalar_subquery()


def count_where(condition: sa.ColumnElement[bool], name: str) -> sa.Label[int]:
    """Count a statement's rows matching a condition, as a column with the given name."""
    return sa.func.count().filter(condition).label(name)


def set_organization(organization_id: sa.ColumnElement[UUID]) -> sa.ColumnElement[str]:
    """Build a column `entered` that works like `enter_organization` for a looked-up credential, saving a message."""
    return sa.func.enter_organization(sa.cast(organization_id, sa.Text)).label("entered")


def unnest_rows(kind: str, types: Mapping[str, TypeEngine[Any]]) -> sa.TableValuedAlias:
    """Select rows passed as an array per column; the parameters have names like `chunks_text`."""
    arrays = (sa.bindparam(f"param_{kind}_{name}", type_=sa.ARRAY(each)) for name, each in types.items())
    return sa.func.unnest(*arrays).table_valued(*types).render_derived(name=f"{kind}_given")


def as_arrays(kind: str, names: Iterable[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return rows as an array per column, named `KIND_NAME`: `params` makes them parameters of `unnest_rows`."""
    return {f"{kind}_{name}": [row[position] for row in rows] for position, name in enumerate(names)}


class Clock:
    """The database's time plus `offset`, which only tests set. SQL that looks up credentials adds `offset` to now()."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    async def now(self, connection: Connection) -> datetime:
        """Return the start of the connection's transaction, in UTC."""
        return cast("datetime", (await connection.exec_driver_sql("SELECT now()")).scalar_one()) + self.offset


def may_read_index(function: str, *, of: str) -> sa.ColumnElement[bool]:
    """Build the condition for a function to use its table's index: the owner bypasses row-level security and may read
    the table. A superuser counts only as the table's owner, because the owner could change the function's calls."""
    table = f"'{of}'::regclass"
    may_read = f"has_table_privilege(proowner, {table}, 'SELECT')"
    owner = f"rolsuper AND proowner = relowner OR rolbypassrls AND NOT rolsuper AND {may_read}"
    source = "pg_proc JOIN pg_roles ON pg_roles.oid = proowner CROSS JOIN pg_class"
    return sa.literal_column(
        f"(SELECT {owner} FROM {source} WHERE pg_proc.oid = '{function}'::regproc AND pg_class.oid = {table})",  # noqa: S608 - names of ours
        sa.Boolean(),
    )
