"""The storage of ledgers, SQLite files or PostgreSQL: transactions, and the lock on a source. Raises LedgerError."""

import sqlite3
import threading
from abc import abstractmethod
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NoSuchModuleError, ProgrammingError
from sqlalchemy.pool import StaticPool

from flows.errors import LedgerError
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.tables import FORMAT, formats, metadata

_PERMISSION_DENIED = "42501"


class Store(AbstractContextManager["Store"]):
    """The tables of a place. Safe to use from several threads, processes and (in PostgreSQL) machines at once."""

    turn: AbstractContextManager[object] = nullcontext()
    """The lock for the engine, which only a single thread uses at a time."""
    held: sa.ColumnElement[bool]
    """SQL expression: whether the lock recorded in a row of the runs is still held."""
    lock_pid: int | None = None
    """The PostgreSQL process with this store's lock, for checks by other processes."""

    def __init__(self, address: Address) -> None:
        self.address = address
        with translate_errors(address):
            self.engine = self._connect()
            try:
                self._prepare()
            except BaseException:
                self.engine.dispose()
                raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock and close the connections. Written data are already committed."""
        self.unlock()
        with self.turn:
            self.engine.dispose()

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        """Open a transaction for reading; in SQLite all reads see a single moment."""
        with self.turn, translate_errors(self.address), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """Open a transaction for writing; in SQLite other writers wait."""
        writing = self.engine.execution_options(carrel_writes=True)
        with self.turn, translate_errors(self.address), writing.begin() as connection:
            yield connection

    @abstractmethod
    def lock(self) -> bool:
        """Take the source's lock; return False if another run holds it. A lock ends when its process ends."""

    @abstractmethod
    def unlock(self) -> None:
        """Release the lock; harmless without a lock."""

    @abstractmethod
    def _connect(self) -> sa.Engine:
        """Return an engine for the place, possibly not connected yet."""

    @abstractmethod
    def _read_format(self, connection: sa.Connection) -> int:
        """Return the format of the tables; 0 without tables."""

    @abstractmethod
    def _write_format(self, connection: sa.Connection) -> None:
        """Record the present format of the tables."""

    def _wait_for_makers(self, connection: sa.Connection) -> None:
        """Wait until no other process is creating the tables; in SQLite, a writer has already waited."""

    def _prepare(self) -> None:
        with self.read() as connection:
            if self._read_format(connection) == FORMAT:
                return
        with self.write() as connection:
            self._wait_for_makers(connection)
            found = self._read_format(connection)
            if found > FORMAT:
                raise LedgerError(f"{self.address} is from a newer Carrel (format {found}, here {FORMAT}). Use that.")
            if 0 < found < FORMAT:
                which = f"The ledger {self.address} has format {found}, from before 0.2.0 (here {FORMAT})"
                raise LedgerError(f"{which}. Run version 0.4.0 on it once, or move it away.")
            if not found:
                metadata.create_all(connection)
                self._write_format(connection)


@contextmanager
def translate_errors(place: Address | Path) -> Generator[None]:
    """Turn failures of the place into errors with advice; a wrong statement is a bug and passes through."""
    try:
        yield
    except (IntegrityError, DataError):
        raise
    except DBAPIError as exc:
        if isinstance(exc, ProgrammingError) and getattr(exc.orig, "sqlstate", "") != _PERMISSION_DENIED:
            raise
        raise LedgerError(_advice(place, exc.orig)) from exc
    except (sqlite3.OperationalError, sqlite3.DatabaseError, OSError) as exc:
        raise LedgerError(_advice(place, exc)) from exc


def _advice(place: Address | Path, why: BaseException | None) -> str:
    if isinstance(place, Address) and place.shared:
        return (
            f"The ledger {place} cannot be used ({str(why).strip()}). Check that the database runs and that "
            "its user can create tables. Run again to continue from here."
        )
    return (
        f"The ledger {place} cannot be used ({why}). Free disk space, give this user write access, or set "
        "CARREL_DATA_DIR, and run again. If it is damaged, delete it: the next run takes longer, but loses nothing."
    )


_BUSY_SECONDS = 60.0


class FileStore(Store):
    """A SQLite file with a single connection, shared by threads in turn; the lock is a separate file."""

    held = sa.true()

    def __init__(self, address: Address) -> None:
        self.turn = threading.RLock()
        self._lock: sqlite3.Connection | None = None
        super().__init__(address)

    def lock(self) -> bool:
        path = self.address.path.with_suffix(".lock")
        with translate_errors(path):
            connection = sqlite3.connect(path, timeout=0, check_same_thread=False, isolation_level=None)
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as exc:
                connection.close()
                if exc.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                    return False
                raise
        self._lock = connection
        return True

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _connect(self) -> sa.Engine:
        self.address.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        url = URL.create("sqlite", database=str(self.address.path))
        arguments = {"timeout": _BUSY_SECONDS, "check_same_thread": False, "isolation_level": None}
        engine = sa.create_engine(url, connect_args=arguments, poolclass=StaticPool, hide_parameters=True)
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
        return engine

    def _read_format(self, connection: sa.Connection) -> int:
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())

    def _write_format(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")


def _set_up(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A killed process loses nothing; a power failure may lose the last rows, which the next plan finds again.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -4000")


def _begin(connection: sa.Connection) -> None:
    """Take the write lock at once: later it could fail after another process has written."""
    writes = connection.get_execution_options().get("carrel_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


_CREATION = 0x6361_7272_656C_6C64  # the advisory lock for creating tables: an arbitrary number
# Each side notices within about a minute that the other machine is gone.
_SESSION = {
    "idle_session_timeout": 0,
    "lock_timeout": 60_000,
    "tcp_keepalives_idle": 30,
    "tcp_keepalives_interval": 10,
    "tcp_keepalives_count": 3,
}
_CONNECTION: dict[str, Any] = {
    "connect_timeout": 10,
    "application_name": "carrel-flows",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "options": " ".join(f"-c {name}={value}" for name, value in _SESSION.items()),
}
# Whether this connection still has the source's advisory lock; pg_locks shows the lock's number in two halves.
_HELD = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND pid = ledger_runs.lock_pid AND classid::bigint = {high} AND objid::bigint = {low}"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)


class DatabaseStore(Store):
    """A PostgreSQL database; a writer must still hold the advisory lock, which ends with the connection."""

    def __init__(self, address: Address) -> None:
        self._lock: sa.Connection | None = None
        self._number = int(address.name[:16] or "0", 16)
        self.held = sa.literal_column(_HELD.format(high=self._number >> 32, low=self._number % 2**32), sa.Boolean)
        super().__init__(address)

    def lock(self) -> bool:
        signed = self._number - 2**64 if self._number >= 2**63 else self._number
        with translate_errors(self.address):
            self._lock = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if self._lock.execute(sa.select(sa.func.pg_try_advisory_lock(signed))).scalar_one():
                self.lock_pid = self._lock.execute(sa.select(sa.func.pg_backend_pid())).scalar_one()
                return True
        self.unlock()
        return False

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.invalidate()  # ends the session, and with it the lock, in any state
            self._lock.close()
            self._lock = None

    def _connect(self) -> sa.Engine:
        url = _driver_url(self.address.database_url or SecretStr(""))
        return sa.create_engine(url, connect_args=_CONNECTION, pool_pre_ping=True, hide_parameters=True)

    def _read_format(self, connection: sa.Connection) -> int:
        if not sa.inspect(connection).has_table(formats.name):
            return 0
        return connection.execute(sa.select(sa.func.max(formats.c.format))).scalar_one()

    def _write_format(self, connection: sa.Connection) -> None:
        connection.execute(sa.delete(formats))
        connection.execute(sa.insert(formats).values(format=FORMAT))

    def _wait_for_makers(self, connection: sa.Connection) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION)))


def _driver_url(secret: SecretStr) -> URL:
    """Parse the setting as a URL for psycopg; errors don't repeat the setting, which may hold a password."""
    scheme, separator, rest = secret.get_secret_value().partition("://")
    try:
        if separator and scheme in {"postgresql", "postgres", "postgresql+psycopg"}:
            return make_url(f"postgresql+psycopg://{rest}")
    except (ArgumentError, ValueError, NoSuchModuleError):
        pass
    raise LedgerError(
        "CARREL_FLOWS_DATABASE_URL is not valid. Use postgresql://user:password@host:port/database, with @ : "
        "/ ? # and % percent-encoded in user and password."
    )


def open_store(address: Address) -> Store:
    """Open the place of a ledger; create it if missing. Raises LedgerError."""
    return DatabaseStore(address) if address.shared else FileStore(address)


def open_stores(address: Address) -> Iterator[Store]:
    """Yield the store of each place, which closes when the next is opened. Raises LedgerError."""
    for place in address.places():
        with open_store(place) as store:
            yield store
