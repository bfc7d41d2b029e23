"""Where ledgers are kept: a SQLite file for each source, or one PostgreSQL database that several machines share.

Everything raises LedgerError, with what to do, when that place can't be used.
"""

import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NoSuchModuleError, ProgrammingError
from sqlalchemy.pool import StaticPool

from flows.errors import LedgerError
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.upgrading import prepare_database, prepare_file

_BUSY_SECONDS = 60.0
_PERMISSION_DENIED = "42501"
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


class Store:
    """The tables of a ledger. Safe to use from several threads, processes and (in PostgreSQL) machines at once."""

    def __init__(self, address: Address) -> None:
        self.address = address
        # A SQLite file has one connection, which its threads take turns at.
        self._guard = None if address.shared else threading.RLock()
        with translate_errors(address):
            self.engine = _engine(address)
        try:
            with translate_errors(address):
                prepare_database(self.engine) if address.shared else prepare_file(self.engine, name=address.name)
        except BaseException:
            self.engine.dispose()
            raise

    def close(self) -> None:
        """Close the connections. What was written is kept already."""
        if self._guard is None:
            self.engine.dispose()
        else:
            with self._guard:
                self.engine.dispose()

    @contextmanager
    def read(self) -> Generator[Connection]:
        """Read, all of one moment in SQLite."""
        with self._turn(), translate_errors(self.address), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        """All of it or nothing; in SQLite other writers wait."""
        with self._turn(), translate_errors(self.address):
            engine = self.engine if self._guard is None else self.engine.execution_options(carrel_writes=True)
            with engine.begin() as connection:
                yield connection

    @contextmanager
    def _turn(self) -> Generator[None]:
        if self._guard is None:
            yield
        else:
            with self._guard:
                yield


def _engine(address: Address) -> Engine:
    if address.database_url is None:
        return _file_engine(address.path)
    return create_engine(
        _driver_url(address.database_url), connect_args=_CONNECTION, pool_pre_ping=True, hide_parameters=True
    )


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


def _file_engine(path: Path) -> Engine:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    url = URL.create("sqlite", database=str(path))
    arguments = {"timeout": _BUSY_SECONDS, "check_same_thread": False, "isolation_level": None}
    engine = create_engine(url, connect_args=arguments, poolclass=StaticPool, hide_parameters=True)
    event.listen(engine, "connect", _set_up_file)
    event.listen(engine, "begin", _begin)
    return engine


def _set_up_file(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A killed process loses nothing so; a power cut may lose the last rows, which the next plan finds again.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -16000")


def _begin(connection: Connection) -> None:
    """Take the right to write at once: taken later, it could fail where others have written since."""
    writes = connection.get_execution_options().get("carrel_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def translate_errors(place: Address | Path) -> Generator[None]:
    """Say of a failure of the place what to do about it; a wrong statement is a bug and passes through."""
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
            f"The ledger {place} can't be used ({str(why).strip()}). See that the database runs, and that its user"
            " may create tables there, and run again: the run goes on from here."
        )
    return (
        f"The ledger {place} can't be used ({why}). Make room or let this user write there, and run again; "
        "a damaged one can be deleted, which costs the next run time and no document."
    )
