"""The lock that lets one run at a time have a source. It is given back by itself when its holder dies."""

import sqlite3
from typing import Protocol

from sqlalchemy import Connection

from flows.errors import SourceBusyError
from flows.operations.ledger import queries
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.store import Store, translate_errors

_HALF = 2**32


class SourceLock(Protocol):
    """An exclusive lock on a source."""

    def acquire(self, *, described: str) -> int | None:
        """Take the lock at once or raise SourceBusyError with `described` (who has it).

        Returns the PostgreSQL process that holds it, for others to see whether it still does.
        """
        ...

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        ...


def lock_of(store: Store) -> SourceLock:
    """Return the lock of the store's source, not taken yet."""
    return DatabaseLock(store) if store.address.shared else FileLock(store.address)


def lock_number(name: str) -> int:
    """Return the advisory lock of a source: 64 bits with a sign, from its name (hexadecimal)."""
    return int.from_bytes(bytes.fromhex(name)[:8], "big", signed=True)


def lock_halves(name: str) -> tuple[int, int]:
    """Return the advisory lock as pg_locks shows it: its upper and its lower 32 bits."""
    return divmod(lock_number(name) % 2**64, _HALF)


class FileLock:
    """A lock beside a ledger's file, held through SQLite."""

    def __init__(self, address: Address) -> None:
        self._path = address.path.with_suffix(".lock")
        self._connection: sqlite3.Connection | None = None

    def acquire(self, *, described: str) -> int | None:
        """See SourceLock."""
        with translate_errors(self._path):
            connection = sqlite3.connect(self._path, timeout=0, check_same_thread=False, isolation_level=None)
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as exc:
                connection.close()
                if exc.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                    raise SourceBusyError(described) from exc
                raise
        self._connection = connection
        return None

    def release(self) -> None:
        """See SourceLock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class DatabaseLock:
    """An advisory lock of a PostgreSQL connection of its own; when that breaks, the lock is gone.

    Who has lost it may write no more: each write asks whether it is still held (queries.run_of_claim).
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._connection: Connection | None = None

    def acquire(self, *, described: str) -> int | None:
        """See SourceLock."""
        with translate_errors(self._store.address):
            self._connection = self._store.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if queries.try_lock(self._connection, lock_number(self._store.address.name)):
                return queries.connection_pid(self._connection)
        self.release()
        raise SourceBusyError(described)

    def release(self) -> None:
        """See SourceLock."""
        if self._connection is not None:
            self._connection.invalidate()  # ends the session, and with it the lock, whatever state it is in
            self._connection.close()
            self._connection = None
