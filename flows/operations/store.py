"""The SQLite file under a ledger, and the lock that lets one run at a time have it."""

import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from flows.errors import LedgerError, SourceBusyError

_BUSY_SECONDS = 60.0

Row = tuple[object, ...]


class Store:
    """A SQLite file with the ledger's schema. Safe to use from several threads and processes at once.

    Everything raises LedgerError when the file can't be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.RLock()
        with _explained(path):
            self._connection = _connect(path, timeout=_BUSY_SECONDS)
        try:
            with _explained(path):
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing so; a power cut may lose the last rows, which the next plan finds again.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(resources.files("flows.operations").joinpath("schema.sql").read_text("utf-8"))

    def close(self) -> None:
        """Close the file. What was written is in it already."""
        with self._guard:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """All of it or nothing; other writers wait."""
        with self._guard, _explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk has rolled back already
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run one reading statement and return all its rows."""
        with self._guard, _explained(self.path):
            return self._connection.execute(statement, parameters).fetchall()


class SourceLock:
    """An exclusive lock beside a ledger, held through SQLite and so given back by the system when its holder dies."""

    def __init__(self, ledger: Path) -> None:
        self._path = ledger.with_suffix(".lock")
        self._connection: sqlite3.Connection | None = None

    def acquire(self, *, described: str) -> None:
        """Take the lock at once or raise SourceBusyError with `described` (who has it)."""
        with _explained(self._path):
            connection = _connect(self._path, timeout=0)
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as exc:
                connection.close()
                if exc.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                    raise SourceBusyError(described) from exc
                raise
        self._connection = connection

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(path: Path, *, timeout: float) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return sqlite3.connect(path, timeout=timeout, check_same_thread=False, isolation_level=None)


@contextmanager
def _explained(path: Path) -> Generator[None]:
    """Say of a failure of the file what to do about it; a wrong statement is a bug and passes through."""
    try:
        yield
    except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
        raise
    except (sqlite3.DatabaseError, OSError) as exc:
        msg = (
            f"The ledger {path} can't be used ({exc}). Make room or let this user write there, and run again; "
            "a damaged one can be deleted, which costs the next run time and no document."
        )
        raise LedgerError(msg) from exc
