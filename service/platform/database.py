"""PostgreSQL: the metadata every domain's tables are declared on, and the transactions the service works in.

The service is `carrel_service`, a role without superuser, BYPASSRLS or ownership: row-level security shows it one
organization's rows at a time, the one its transaction names.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import MetaData, event
from sqlalchemy.engine import URL, Engine, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool, QueuePool

from service.platform import traces
from service.platform.batches import Batch
from service.platform.errors import is_database_full

SERVICE_ROLE = "carrel_service"
# For pg_has_role: from PostgreSQL 16 on, who makes a role is a member of it, and may not become it for that alone.
MAY_BECOME = "CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END"
ORGANIZATION_SETTING = "carrel.organization_id"
BACKUP_SETTING = "carrel.backup"
# The advisory lock under which files are removed; who reads the files of one moment holds it, shared.
FILES_LOCK = 0x_CA55_E2
# As long as a statement may take by default: a client is better served late than refused.
POOL_WAIT_SECONDS = 30
CONNECT_SECONDS = 5
APPLICATION_NAME = "carrel"
# Of a transaction whose writes may be lost when the database or the machine fails within a second of its commit.
DONT_WAIT_FOR_DISK = "SET LOCAL synchronous_commit = off"
# What search was measured with. The embedded server is set up so; another one need not be.
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
    """Read a `postgresql://` or `postgres://` address as one for psycopg.

    It may name several servers, as libpq's may (host:port,host:port): then the one of them that takes writes is meant.

    ValueError when it is neither, which names the setting that it was given in; it repeats nothing of the address, in
    which a password may stand anywhere.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {"postgresql", "postgres", "postgresql+psycopg"}:
        raise ValueError(f"{setting} must start with postgresql://")
    try:
        return _prefer_primary(make_url(f"postgresql+psycopg://{_move_hosts(rest)}"))
    except (ArgumentError, ValueError):
        msg = (
            f"{setting} can't be read. It is postgresql://user:password@host:port/database, with"
            " @ : / ? # , and % percent-encoded in user and password. Several servers are host:port,host:port, none of"
            " them by an IPv6 address."
        )
        raise ValueError(msg) from None


def _move_hosts(rest: str) -> str:
    """Move several hosts of an address, without its scheme, to where SQLAlchemy reads them."""
    place, _, query = rest.partition("?")
    user, _, server = place.rpartition("@")
    hosts, _, database = server.partition("/")
    if "," not in hosts:
        return rest
    named = "&".join(f"host={host}" for host in hosts.split(","))
    return f"{user}@/{database}?{named}" + (f"&{query}" if query else "")


def _prefer_primary(url: URL) -> URL:
    """Have the server that takes writes be connected to where an address names several; ValueError for IPv6."""
    named = url.query.get("host", url.host or "")
    hosts = named if isinstance(named, str) else ",".join(named)
    if "," not in hosts:
        return url
    if "[" in hosts or hosts.count(":") > hosts.count(",") + 1:
        raise ValueError("IPv6")
    return url if _ATTRIBUTES in url.query else url.update_query_dict({_ATTRIBUTES: "read-write"})


async def enter_organization(connection: AsyncConnection, organization_id: UUID | None) -> None:
    """Enter an organization: until the transaction ends, row-level security shows only the organization's rows.

    With None, what `Database.transaction` shows without one.
    """
    await connection.exec_driver_sql("SELECT enter_organization(%s)", (str(organization_id or ""),))


@asynccontextmanager
async def leave_out_when_full(connection: AsyncConnection) -> AsyncGenerator[None]:
    """Allow a write to fail on a full disk: the transaction then goes on without that write."""
    await connection.exec_driver_sql("SAVEPOINT may_be_missing")
    try:
        yield
    except DBAPIError as error:
        if not is_database_full(error):
            raise
        await connection.exec_driver_sql("ROLLBACK TO SAVEPOINT may_be_missing")


class Database:
    """The pool of connections, and the one way to a transaction.

    The driver begins nothing of itself (AUTOCOMMIT): a transaction's kind goes with its BEGIN, and its organization in
    the same message, which also shows whether the server has closed the connection since it was last used.

    `is_distributed`: its index tables lie on several servers, whose snapshots are not of one moment.
    """

    def __init__(
        self,
        url: URL,
        *,
        pool_size: int = 10,
        statement_seconds: float = 30.0,
        wait_seconds: float = POOL_WAIT_SECONDS,
        connect_seconds: int = CONNECT_SECONDS,
    ) -> None:
        self.is_distributed = False
        # The address's user may be any member of the service's role: each connection gives up the rest at its start.
        # Times are read in UTC: in other zones the first and the last of them lie outside the calendar.
        options = (
            f"-c role={SERVICE_ROLE} -c TimeZone=UTC -c statement_timeout={int(statement_seconds * 1000)} {PLANNER}"
        )
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
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            connect_args=self._connect_args,
        )
        if traces.are_on():
            _measure_statements(self._engine.sync_engine)

    def driver_parameters(self) -> dict[str, Any]:
        """Return the parameters of a connection outside the pool with the pool's role and limits."""
        dialect = self._engine.dialect
        _, parameters = dialect.create_connect_args(self._engine.url)  # pyright: ignore[reportUnknownMemberType] - it leaves url untyped
        return {**parameters, **self._connect_args}

    @asynccontextmanager
    async def transaction(
        self,
        organization_id: UUID | None,
        *,
        isolation: Literal["READ COMMITTED", "REPEATABLE READ"] = "READ COMMITTED",
        read_only: bool = False,
        first: Batch | None = None,
        require: Callable[[AsyncConnection], Awaitable[None]] | None = None,
    ) -> AsyncGenerator[AsyncConnection]:
        """Open a transaction that sees one organization; it commits at the end of the block, or rolls back on an error.

        With `organization_id` None only organizations and API keys can be read: that is how a credential is looked up
        before its organization is known (`enter_organization` follows). The statements of `first` go with its BEGIN.
        `require` is called with the connection before that, outside of any transaction; where it raises, none opens.
        """
        mode = "READ ONLY" if read_only else "READ WRITE"
        opening = Batch()
        opening.tell(f"BEGIN ISOLATION LEVEL {isolation} {mode}")
        async with self._engine.connect() as connection:
            await _open(connection, _enter(opening, organization_id, first), require)
            await connection.begin()  # what a batch opens, SQLAlchemy would not commit
            yield connection
            with traces.statements(("COMMIT",)):
                await connection.commit()

    async def read(self, organization_id: UUID | None, batch: Batch) -> None:
        """Run a batch that only reads, in one message, which is a transaction by itself."""
        async with self._engine.connect() as connection:
            await _open(connection, _enter(Batch(), organization_id, batch))

    @property
    def in_use(self) -> int:
        """How many connections are in use."""
        pool = self._engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    @property
    def is_saturated(self) -> bool:
        """Whether every connection is in use."""
        pool = self._engine.pool
        return isinstance(pool, QueuePool) and pool.checkedout() >= pool.size()

    async def ping(self) -> None:
        """Ask the database for an answer; raises the driver's error when it is away."""
        async with self.transaction(None, read_only=True):
            pass

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()


@asynccontextmanager
async def owner_transaction(url: URL) -> AsyncGenerator[AsyncConnection]:
    """Open a transaction as the database's owner, who may do what the service may not; for commands."""
    engine = create_async_engine(url, poolclass=NullPool, hide_parameters=True)
    async with engine.begin() as connection:
        yield connection


def _measure_statements(engine: Engine) -> None:
    """Have the statements measured that SQLAlchemy sends itself; batches do that where they are run."""

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


def _enter(opening: Batch, organization_id: UUID | None, batch: Batch | None) -> Batch:
    """Return what opens a transaction, then enters an organization, and then does the batch."""
    if organization_id is not None:
        opening.tell("SELECT enter_organization($1)", str(organization_id))
    return Batch([*opening.parts, *(batch.parts if batch else ())])


async def _open(
    connection: AsyncConnection,
    opening: Batch,
    require: Callable[[AsyncConnection], Awaitable[None]] | None = None,
) -> None:
    """Begin; on a new connection when this one turns out to be closed, since nothing has been done on it yet."""
    try:
        await _begin(connection, opening, require)
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        await connection.rollback()
        await _begin(connection, opening, require)


async def _begin(
    connection: AsyncConnection, opening: Batch, require: Callable[[AsyncConnection], Awaitable[None]] | None
) -> None:
    if require is not None:
        await require(connection)
    await opening.run(connection)
