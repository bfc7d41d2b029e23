"""PostgreSQL: metadata for declaring tables, and transactions. The service's role `carrel_service` is no superuser or
owner and has no BYPASSRLS: row-level security shows only rows of the organization set by the transaction."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv6Address
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import MetaData, event
from sqlalchemy.engine import URL, Engine, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool, QueuePool

from service.platform import traces
from service.platform.batches import Batch
from service.platform.errors import commit_unconfirmed, is_database_full
from service.platform.logs import logger
from service.platform.primary import NewestPrimary

SERVICE_ROLE = "carrel_service"
ORGANIZATION_SETTING = "carrel.organization_id"
BACKUP_SETTING = "carrel.backup"
# The advisory lock for removing files; a process that reads a snapshot's files shares the lock.
FILES_LOCK = 0x_CA55_E2
# The default time limit of a statement: a late answer is better than a refusal.
POOL_WAIT_SECONDS = 30
CONNECT_SECONDS = 5
CLOSE_SECONDS = 2
# Commands count the connected services by this name.
APPLICATION_NAME = "carrel-2"
# The server closes connections left over from a busy time; the most recently used connection is used next, and stays.
IDLE_SECONDS = 120
# For a transaction whose writes may be lost if the database or machine fails within a second.
DONT_WAIT_FOR_DISK = "SET LOCAL synchronous_commit = off"
# The settings with which search was measured. The embedded server has these; an external server may differ.
PLANNER = "-c jit=off -c max_parallel_workers_per_gather=0 -c work_mem=64MB -c random_page_cost=1.1"

_ATTRIBUTES = "target_session_attrs"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def driver_url(url: str, *, setting: str = "CARREL_DATABASE_URL") -> URL:
    """Parse a `postgresql://` or `postgres://` address for psycopg; of several servers (host:port,host:port), the
    writable server is used. Raises ValueError naming the `setting`, never the address: it may contain a password."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {"postgresql", "postgres", "postgresql+psycopg"}:
        raise ValueError(f"{setting} must start with postgresql://")
    try:
        return _require_writable(make_url(f"postgresql+psycopg://{_move_hosts_to_query(rest)}"))
    except (ArgumentError, ValueError):
        raise ValueError(
            f"{setting} can't be read. It is postgresql://user:password@host:port/database, with"
            " @ : / ? # , and % percent-encoded in user and password. Several servers are host:port,host:port; an IPv6"
            " address stands in brackets."
        ) from None


def _move_hosts_to_query(rest: str) -> str:
    place, _, query = rest.partition("?")
    user, _, server = place.rpartition("@")
    hosts, _, database = server.partition("/")
    if "," not in hosts:
        return rest
    names, ports = zip(*(_split_host(each) for each in hosts.split(",")), strict=True)
    named = f"host={','.join(names)}" + (f"&port={','.join(ports)}" if any(ports) else "")
    return f"{user}@/{database}?{named}" + (f"&{query}" if query else "")


def _split_host(given: str) -> tuple[str, str]:
    """Split a host, or an IPv6 address in brackets, from an optional port; ValueError for invalid text."""
    host, _, port = given.rpartition(":") if ":" in given.rpartition("]")[2] else (given, "", "")
    if host.startswith("["):
        return str(IPv6Address(host.removeprefix("[").removesuffix("]"))), str(int(port)) if port else ""
    if ":" in host or "]" in host:
        raise ValueError(host)
    return host, str(int(port)) if port else ""


def _require_writable(url: URL) -> URL:
    named = url.query.get("host", url.host or "")
    hosts = named.split(",") if isinstance(named, str) else named
    if len(hosts) == 1:
        return url
    # Hosts in parameters have no brackets, so an IPv6 address with a port can't be recognized.
    if any("[" in host or (not isinstance(named, str) and host.count(":") > 1) for host in hosts):
        raise ValueError(named)
    return url if _ATTRIBUTES in url.query else url.update_query_dict({_ATTRIBUTES: "read-write"})


async def enter_organization(connection: Connection, organization_id: UUID | None) -> None:
    """Set row-level security to an organization until the transaction ends; None: only credentials are readable."""
    await connection.exec_driver_sql("SELECT enter_organization(%s)", (str(organization_id or ""),))


@asynccontextmanager
async def leave_out_when_full(connection: Connection) -> AsyncGenerator[None]:
    """Undo the block's writes if the database's disk is full; the transaction continues without them."""
    await connection.exec_driver_sql("SAVEPOINT may_be_missing")
    try:
        yield
    except DBAPIError as error:
        if not is_database_full(error):
            raise
        await connection.exec_driver_sql("ROLLBACK TO SAVEPOINT may_be_missing")


class Database:
    """The pool of connections, and the only way to open a transaction. BEGIN carries the kind and the organization (the
    driver is in AUTOCOMMIT), and also detects a closed connection. `outliving` returns connections with commits no
    longer awaited. Databases with a common `primary` never return to a server from before a promotion seen by any of
    them. `is_distributed`: index tables lie on several servers, without a common snapshot."""

    def __init__(
        self,
        url: URL,
        *,
        pool_size: int = 10,
        statement_seconds: float = 30.0,
        wait_seconds: float = POOL_WAIT_SECONDS,
        connect_seconds: int = CONNECT_SECONDS,
        primary: NewestPrimary | None = None,
    ) -> None:
        self.is_distributed = False
        self.primary = primary or NewestPrimary()
        self._pool_size = pool_size
        self._statement_seconds = statement_seconds
        self._commits: dict[asyncio.Future[None], float] = {}
        self.outliving: set[asyncio.Future[None]] = set()
        # The address's user may have other roles: each connection gives them up at its start. Times are in UTC, because
        # in other zones the first and last times are outside the calendar.
        statement, idle = int(statement_seconds * 1000), f"-c idle_session_timeout={IDLE_SECONDS}s"
        options = f"-c role={SERVICE_ROLE} -c TimeZone=UTC -c statement_timeout={statement} {idle} {PLANNER}"
        self._connect_args = {
            "options": options,
            "connect_timeout": connect_seconds,
            "application_name": APPLICATION_NAME,
        }
        self._engine: AsyncEngine = create_async_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=wait_seconds,
            pool_use_lifo=True,  # the last used connection has planned its statements
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            connect_args=self._connect_args,
        )
        self.primary.watch(self._engine.sync_engine)
        if traces.are_on():
            _measure_statements(self._engine.sync_engine)

    def driver_parameters(self) -> dict[str, Any]:
        """Return the parameters for a connection outside the pool with the pool's role and limits."""
        dialect = self._engine.dialect
        _, parameters = dialect.create_connect_args(self._engine.url)  # pyright: ignore[reportUnknownMemberType] - it leaves url untyped
        return self.primary.prefer({**parameters, **self._connect_args})

    @asynccontextmanager
    async def transaction(
        self,
        organization_id: UUID | None,
        *,
        isolation: Literal["READ COMMITTED", "REPEATABLE READ"] = "READ COMMITTED",
        read_only: bool = False,
        first: Batch | None = None,
        require: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> AsyncGenerator[Connection]:
        """Open a transaction; it commits at the end of the block, or rolls back on an error. With `organization_id`
        None only organizations and API keys are readable, to look up a credential (`enter_organization` follows).
        `first` is sent with BEGIN. If `require`, called earlier with the connection, raises, no transaction opens."""
        mode = "READ ONLY" if read_only else "READ WRITE"
        opening = Batch()
        opening.tell(f"BEGIN ISOLATION LEVEL {isolation} {mode}")
        async with AsyncExitStack() as held:
            connection = await held.enter_async_context(self._engine.connect())
            await _open(connection, _complete(opening, organization_id, first), require)
            await connection.begin()  # SQLAlchemy would not commit a transaction that a batch has begun
            yield connection
            with traces.statements(("COMMIT",)):
                await (connection.commit() if read_only else self._commit(connection, held))

    async def _commit(self, connection: Connection, held: AsyncExitStack) -> None:
        """Commit, and raise Unavailable after a statement's timeout. The commit itself is not cancelled: while it waits
        for a standby, readers must not see the change. The commit keeps the connection, so a retry waits."""
        committing = asyncio.ensure_future(connection.commit())
        self._commits[committing] = time.monotonic()
        committing.add_done_callback(self._commits.pop)
        try:
            # Before Python 3.12, wait_for would swallow a cancellation that arrives as the commit ends.
            async with asyncio.timeout(self._statement_seconds):
                await asyncio.shield(committing)
        except TimeoutError:
            logger.error("commit_unconfirmed", seconds=self._statement_seconds)
            self.primary.note_unconfirmed()
            raise commit_unconfirmed() from None
        finally:
            if not committing.done():
                outliving = asyncio.ensure_future(outlive_commit(committing, held.pop_all()))
                self.outliving.add(outliving)
                outliving.add_done_callback(self.outliving.discard)

    @property
    def commit_seconds(self) -> float:
        """How long the oldest unconfirmed commit has been waiting, in seconds; 0 if there is none."""
        return time.monotonic() - min(self._commits.values()) if self._commits else 0.0

    async def read(self, organization_id: UUID | None, batch: Batch) -> None:
        """Run a batch of queries in a single message and transaction, for an organization like `transaction`."""
        async with self._engine.connect() as connection:
            await _open(connection, _complete(Batch(), organization_id, batch))

    @property
    def in_use(self) -> int:
        pool = self._engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    @property
    def is_saturated(self) -> bool:
        return self.in_use >= self._pool_size

    async def ping(self) -> None:
        """Query the database; raises the driver's error if the database is unreachable."""
        async with self.transaction(None, read_only=True):
            pass

    async def close(self) -> None:
        """Close every connection, after a short wait for commits no longer awaited."""
        if self.outliving:
            await asyncio.wait(self.outliving, timeout=CLOSE_SECONDS)
        await self._engine.dispose()


async def outlive_commit(committing: asyncio.Future[None], held: AsyncExitStack) -> None:
    """Wait for a commit that nobody awaits any longer, log a failure, and then return the connection (`held`)."""
    async with held:
        try:
            await committing
        except Exception as error:  # noqa: BLE001 - nobody else is told of it
            logger.error("commit_failed", kind=type(getattr(error, "orig", None) or error).__name__)


@asynccontextmanager
async def owner_transaction(url: URL) -> AsyncGenerator[Connection]:
    """Open a transaction on a new connection as the address's own user, not the service's role."""
    async with create_async_engine(url, poolclass=NullPool, hide_parameters=True).begin() as connection:
        yield connection


def _measure_statements(engine: Engine) -> None:
    def begin(_connection: Any, _cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool) -> None:
        context.carrel_span = traces.begin_statement(statement)

    def end(context: Any, error: BaseException | None = None) -> None:
        begun, context.carrel_span = getattr(context, "carrel_span", None), None
        if begun is not None:
            traces.end(begun, error)

    def fail(failure: ExceptionContext) -> None:
        if failure.execution_context is not None:
            end(failure.execution_context, failure.original_exception)

    event.listen(engine, "before_cursor_execute", begin)
    event.listen(engine, "after_cursor_execute", lambda *given: end(given[4]))
    event.listen(engine, "handle_error", fail)


def _complete(opening: Batch, organization_id: UUID | None, batch: Batch | None) -> Batch:
    """Return a transaction's opening, followed by the setting of the organization and the statements of `batch`."""
    if organization_id is not None:
        opening.tell("SELECT enter_organization($1)", str(organization_id))
    return Batch([*opening.parts, *(batch.parts if batch else ())])


async def _open(
    connection: Connection, opening: Batch, require: Callable[[Connection], Awaitable[None]] | None = None
) -> None:
    """Begin, with a fresh connection if the current connection turns out to be closed: no statement has run yet."""
    try:
        await _begin(connection, opening, require)
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        await connection.rollback()
        await _begin(connection, opening, require)


async def _begin(
    connection: Connection, opening: Batch, require: Callable[[Connection], Awaitable[None]] | None
) -> None:
    if require is not None:
        await require(connection)
    await opening.run(connection)
