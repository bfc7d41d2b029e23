"""Statements sent together in a message, for frequent requests. Build each only once: it is compiled and prepared."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, Generic, NoReturn, TypeVar, cast

from psycopg import AsyncConnection as DriverConnection
from psycopg import Error as DriverError
from psycopg._preparing import Prepare, PrepareManager
from psycopg._queries import PostgresRawQuery
from psycopg.abc import PQGen
from psycopg.abc import Transformer as Adapting
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from sqlalchemy import ARRAY, Integer, Select, Uuid
from sqlalchemy.dialects.postgresql.psycopg import PGDialectAsync_psycopg
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from service.platform import traces

Found = TypeVar("Found")
Convert = Callable[[Any], Any]

# Each numbered parameter is sent once, even if the statement repeats it, and the driver need not search for names.
_DIALECT: Dialect = PGDialectAsync_psycopg(paramstyle="numeric_dollar")
STATEMENTS = 1024
# Return identical bytes, because the driver looks statements up by them and would hash a long text again.
_encode = lru_cache(STATEMENTS)(str.encode)
# After the first failure, also of a preparation, PostgreSQL aborts all further statements.
_FAILED = frozenset({ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED})


class Answer(Generic[Found]):
    """The rows of a batch's statement. RuntimeError: read before the batch has run, or several rows read as `row`."""

    def __init__(self, kind: Callable[..., Found]) -> None:
        self._kind = kind
        self._rows: list[Found] | None = None

    def take(self, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Make the rows, by position if the columns are the kind's fields in order, else by name."""
        if getattr(self._kind, "__match_args__", None) == tuple(names):
            self._rows = [self._kind(*row) for row in rows]
        else:
            self._rows = [self._kind(**dict(zip(names, row, strict=True))) for row in rows]

    @property
    def rows(self) -> list[Found]:
        if self._rows is None:
            raise RuntimeError("This batch has not been run.")
        return self._rows

    @property
    def row(self) -> Found | None:
        rows = self.rows
        if len(rows) > 1:
            raise RuntimeError("The statement returned more than one row.")
        return rows[0] if rows else None


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    names: Sequence[str]
    constants: Mapping[str, Any]
    binding: Mapping[str, Convert]
    columns: Sequence[str]
    types: tuple[TypeEngine[Any], ...]

    def bind(self, parameters: Mapping[str, Any]) -> list[Any]:
        given = {**self.constants, **parameters}
        return [self.binding[name](given[name]) if name in self.binding else given[name] for name in self.names]

    def read(self, rows: Sequence[tuple[Any, ...]], codes: tuple[int, ...]) -> Sequence[Sequence[Any]]:
        reading = _find_converters(self.types, codes)
        if not reading:
            return rows
        return [[reading[at](value) if at in reading else value for at, value in enumerate(row)] for row in rows]


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    values: Sequence[Any]
    compiled: _Compiled | None = None
    answer: Answer[Any] | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Statements to run together. Later statements see the changes of earlier statements; an error rolls back all."""

    parts: list[_Part] = field(default_factory=list[_Part])

    def ask(
        self, statement: Select[*tuple[Any, ...]], kind: Callable[..., Found], parameters: Mapping[str, Any]
    ) -> Answer[Found]:
        """Add a statement built once, and return a holder for its rows. Raises TypeError for IN with a list."""
        compiled, answer = _compile(statement), Answer(kind)
        self.parts.append(_Part(compiled.text, compiled.bind(parameters), compiled, answer))
        return answer

    def tell(self, text: str, *values: object) -> None:
        """Add a statement in SQL text without reading its rows."""
        self.parts.append(_Part(text, values))

    async def run(self, connection: AsyncConnection) -> None:
        """Send the statements, and give each asked Answer its rows. Raises the DBAPIError of the first failure."""
        with traces.statements(part.text for part in self.parts):
            await self._run(connection)

    async def _run(self, connection: AsyncConnection) -> None:
        pooled = await connection.get_raw_connection()
        driver = cast("DriverConnection[Any]", pooled.driver_connection)
        adapting = Transformer.from_context(driver)
        try:
            async with driver.lock:
                results = await driver.wait(_exchange(driver, adapting, self.parts))
        except DriverError as error:
            await _raise_as_sqlalchemy(connection, driver, error)
        except BaseException:
            # The caller was cancelled: the driver may take the connection for one that still collects answers.
            await connection.invalidate()
            raise
        for part, result in zip(self.parts, results, strict=True):
            if part.compiled is not None and part.answer is not None:
                adapting.set_pgresult(result)
                rows = adapting.load_rows(0, result.ntuples, tuple)
                codes = tuple(map(result.ftype, range(result.nfields)))
                part.answer.take(part.compiled.columns, part.compiled.read(rows, codes))


def _exchange(driver: "DriverConnection[Any]", adapting: Adapting, parts: Sequence[_Part]) -> PQGen[list[PGresult]]:
    """Send statements in one message, without the waits and cursors of the driver's pipeline; raise the first error."""
    server, prepared = driver.pgconn, driver._prepared  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as its cursors do
    # Before sending, because a value that can't be written for PostgreSQL raises its own error.
    queries = [_write_query(adapting, part) for part in parts]
    yield from prepared.maintain_gen(driver)
    server.enter_pipeline_mode()
    try:
        sent = [_send(server, prepared, query) for query in queries]
        server.pipeline_sync()
        yield from send(server)
        results, failures = list[PGresult](), list[DriverError]()
        for query, prepare, name in sent:
            told = (yield from fetch_many(server)) if prepare is Prepare.SHOULD else list[PGresult]()
            [result] = yield from fetch_many(server)
            prepared.validate(prepared.key(query), prepare, name, [result])
            failed = [each for each in (*told, result) if each.status in _FAILED]
            failures += [error_from_result(each, encoding=driver.info.encoding) for each in failed]
            results.append(result)
        yield from fetch_many(server)
    finally:
        if server.status != ConnStatus.BAD:
            server.exit_pipeline_mode()
    if failures:
        raise failures[0]
    return results


def _write_query(adapting: Adapting, part: _Part) -> PostgresRawQuery:
    query = PostgresRawQuery(adapting)
    query.convert(_encode(part.text), part.values)
    return query


def _send(server: PGconn, prepared: PrepareManager, query: PostgresRawQuery) -> tuple[PostgresRawQuery, Prepare, bytes]:
    prepare, name = prepared.get(query, prepare=True)
    if prepare is Prepare.SHOULD:
        server.send_prepare(name, query.query, param_types=query.types)
    server.send_query_prepared(name, query.params, param_formats=query.formats)
    prepared.maybe_add_to_cache(query, prepare, name)
    return query, prepare, name


async def _raise_as_sqlalchemy(
    connection: AsyncConnection, driver: "DriverConnection[Any]", error: DriverError
) -> NoReturn:
    """Raise an error as SQLAlchemy does for other statements. Tell the pool when the connection is lost."""
    if driver.closed or driver.broken:
        # This fails too, and makes SQLAlchemy discard each connection older than the loss.
        await connection.exec_driver_sql("SELECT 1")
    if driver.pgconn.pipeline_status:
        await connection.invalidate()
    # The statement's parameters may contain secrets and contents.
    raise cast("DBAPIError", DBAPIError.instance(None, None, error, DriverError, hide_parameters=True)) from error


@lru_cache(STATEMENTS)
def _compile(statement: Select[*tuple[Any, ...]]) -> _Compiled:
    compiled = statement.compile(dialect=_DIALECT)
    assert isinstance(compiled, SQLCompiler)  # noqa: S101 - what a SELECT is compiled by
    if compiled.post_compile_params:
        raise TypeError("A statement of a batch has one text: pass an array (in_array) instead of IN with a list.")
    binding = {name: _find_binder(bind.type) for name, bind in compiled.binds.items()}
    columns = statement.selected_columns
    return _Compiled(
        # A unique text, so that the driver never takes a statement of a failed batch for prepared.
        text=f"/* batch */ {compiled}",
        names=tuple(compiled.positiontup or ()),
        constants={name: bind.effective_value for name, bind in compiled.binds.items() if not bind.required},
        binding={name: convert for name, convert in binding.items() if convert is not None},
        columns=tuple(columns.keys()),
        types=tuple(column.type for column in columns),
    )


def _find_binder(kind: TypeEngine[Any]) -> Convert | None:
    item = cast("ARRAY[Any]", kind).item_type if isinstance(kind, ARRAY) else None
    if isinstance(item, Uuid | Integer):
        return partial(_write_array, attrgetter("hex") if isinstance(item, Uuid) else str)
    return kind.dialect_impl(_DIALECT).bind_processor(_DIALECT)


def _write_array(write: Callable[[Any], str], values: Iterable[Any] | None) -> str | None:
    """Write an array for PostgreSQL. The driver would read values thrice, and prepare again per size of number."""
    return None if values is None else f"{{{','.join('NULL' if each is None else write(each) for each in values)}}}"


@lru_cache(STATEMENTS)
def _find_converters(types: tuple[TypeEngine[Any], ...], codes: tuple[int, ...]) -> Mapping[int, Convert]:
    found = (
        item.dialect_impl(_DIALECT).result_processor(_DIALECT, code) for item, code in zip(types, codes, strict=True)
    )
    return {at: convert for at, convert in enumerate(found) if convert is not None}
