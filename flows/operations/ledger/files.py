"""Ledgers in SQLite: a file for each source, and a lock beside it."""

import sqlite3
import threading

from sqlalchemy import Connection, Engine, create_engine, event, true
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from flows.operations.ledger.addresses import Address
from flows.operations.ledger.store import Store, make_tables, translate_errors
from flows.operations.ledger.tables import FORMAT

_BUSY_SECONDS = 60.0


class FileStore(Store):
    """A SQLite file. It has one connection, which threads take turns at; the lock is another file's."""

    held = true()

    def __init__(self, address: Address) -> None:
        self.turn = threading.RLock()
        self._lock: sqlite3.Connection | None = None
        super().__init__(address)

    def lock(self) -> bool:
        """See Store."""
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
        """See Store."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _connect(self) -> Engine:
        self.address.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        url = URL.create("sqlite", database=str(self.address.path))
        arguments = {"timeout": _BUSY_SECONDS, "check_same_thread": False, "isolation_level": None}
        engine = create_engine(url, connect_args=arguments, poolclass=StaticPool, hide_parameters=True)
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
        return engine

    def _prepare(self) -> None:
        with self.read() as connection:
            if _format_of(connection) == FORMAT:
                return
        with self.write() as connection:
            make_tables(connection, _format_of(connection))
            connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")


def _format_of(connection: Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _set_up(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A killed process loses nothing so; a power cut may lose the last rows, which the next plan finds again.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -4000")


def _begin(connection: Connection) -> None:
    """Take the right to write at once: taken later, it could fail where others have written since."""
    writes = connection.get_execution_options().get("carrel_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
