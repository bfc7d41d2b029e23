"""Ledgers in a PostgreSQL database, for machines that load the same sources."""

from typing import Any

from pydantic import SecretStr
from sqlalchemy import Boolean, Connection, Engine, create_engine, delete, func, insert, inspect, literal_column, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from flows.errors import LedgerError
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.store import Store, make_tables, translate_errors
from flows.operations.ledger.tables import FORMAT, formats

_CREATION = 0x6361_7272_656C_6C64  # the advisory lock under which tables are made: a number of our own
# A machine that vanishes is noticed within about a minute, by either side.
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
# Whether the connection that took the source's advisory lock still has it; pg_locks shows the lock in two halves.
_HELD = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND pid = ledger_runs.lock_pid AND classid::bigint = {high} AND objid::bigint = {low}"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)


class DatabaseStore(Store):
    """A PostgreSQL database. The lock is an advisory one, of a connection of its own; when that breaks, it is gone.

    Who has lost it may write no more: each write asks whether it is still `held`.
    """

    def __init__(self, address: Address) -> None:
        self._lock: Connection | None = None
        self._number = int(address.name[:16] or "0", 16)
        self.held = literal_column(_HELD.format(high=self._number >> 32, low=self._number % 2**32), Boolean)
        super().__init__(address)

    def lock(self) -> bool:
        """See Store."""
        signed = self._number - 2**64 if self._number >= 2**63 else self._number
        with translate_errors(self.address):
            self._lock = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if self._lock.execute(select(func.pg_try_advisory_lock(signed))).scalar_one():
                self.lock_pid = self._lock.execute(select(func.pg_backend_pid())).scalar_one()
                return True
        self.unlock()
        return False

    def unlock(self) -> None:
        """See Store."""
        if self._lock is not None:
            self._lock.invalidate()  # ends the session, and with it the lock, whatever state it is in
            self._lock.close()
            self._lock = None

    def _connect(self) -> Engine:
        url = _driver_url(self.address.database_url or SecretStr(""))
        return create_engine(url, connect_args=_CONNECTION, pool_pre_ping=True, hide_parameters=True)

    def _prepare(self) -> None:
        """Make the tables, whoever else does so at the same time."""
        with self.engine.begin() as connection:
            if _format_of(connection) == FORMAT:
                return
        with self.engine.begin() as connection:
            connection.execute(select(func.pg_advisory_xact_lock(_CREATION)))
            found = _format_of(connection)
            if found != FORMAT:
                make_tables(connection, found)
                connection.execute(delete(formats))
                connection.execute(insert(formats).values(format=FORMAT))


def _format_of(connection: Connection) -> int:
    """Return the format of the tables there; 0: there are none yet."""
    if not inspect(connection).has_table(formats.name):
        return 0
    return connection.execute(select(func.max(formats.c.format))).scalar_one()


def _driver_url(secret: SecretStr) -> URL:
    """Read the setting as an address for psycopg, repeating nothing of it, since a password may stand in it."""
    scheme, separator, rest = secret.get_secret_value().partition("://")
    try:
        if separator and scheme in {"postgresql", "postgres", "postgresql+psycopg"}:
            return make_url(f"postgresql+psycopg://{rest}")
    except (ArgumentError, ValueError, NoSuchModuleError):
        pass
    msg = (
        "CARREL_FLOWS_DATABASE_URL can't be read. It is postgresql://user:password@host:port/database, with"
        " @ : / ? # and % percent-encoded in user and password."
    )
    raise LedgerError(msg)
