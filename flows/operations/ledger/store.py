"""The one interface to where ledgers are kept: transactions on their tables, and the lock on a source.

A place is a SQLite file for each source (flows.operations.ledger.files), or one PostgreSQL database that several
machines share (flows.operations.ledger.database). Statements are the same in both. Everything raises LedgerError, with
what to do, when the place can't be used.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Self

from sqlalchemy import ColumnElement, Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError

from flows.errors import LedgerError
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.tables import FORMAT, UPGRADES, metadata

_PERMISSION_DENIED = "42501"


class Store(ABC):
    """The tables of a place. Safe to use from several threads, processes and (in PostgreSQL) machines at once."""

    turn: AbstractContextManager[object] = nullcontext()
    """What one thread at a time has while it uses the engine."""
    held: ColumnElement[bool]
    """Whether the lock that some row of the runs is under is still held, as an expression of SQL."""
    lock_pid: int | None = None
    """The PostgreSQL process that holds this store's lock, for others to see whether it still does."""

    def __init__(self, address: Address) -> None:
        self.address = address
        with translate_errors(address):
            self.engine = self._connect()
        try:
            with translate_errors(address):
                self._prepare()
        except BaseException:
            self.engine.dispose()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the lock back and close the connections. What was written is kept already."""
        self.unlock()
        with self.turn:
            self.engine.dispose()

    @contextmanager
    def read(self) -> Generator[Connection]:
        """Read, all of one moment in SQLite."""
        with self.turn, translate_errors(self.address), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        """Write all of it or nothing; in SQLite other writers wait."""
        writing = self.engine.execution_options(carrel_writes=True)
        with self.turn, translate_errors(self.address), writing.begin() as connection:
            yield connection

    @abstractmethod
    def lock(self) -> bool:
        """Take the lock that lets one run at a time have a source, or return False at once when another has it.

        It is given back by itself when its holder dies.
        """

    @abstractmethod
    def unlock(self) -> None:
        """Give the lock back; harmless when it is not held."""

    @abstractmethod
    def _connect(self) -> Engine:
        """Return an engine for the place, which need not have been asked yet."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make the tables where they are missing. Raises LedgerError where they are of a newer format."""


def make_tables(connection: Connection, found: int) -> None:
    """Make the tables, or bring those of an older format to this one; `found` is their format, 0: there are none yet.

    Raises LedgerError, and changes nothing, where they are of a newer format, or of one from before 0.1.0.
    """
    if found > FORMAT:
        msg = f"The ledger is of a newer Carrel (format {found}, here {FORMAT}). Run that one."
        raise LedgerError(msg)
    if 0 < found < min(UPGRADES) - 1:
        msg = f"The ledger is of format {found}, from before 0.1.0 (here {FORMAT}). Move it away, and run again."
        raise LedgerError(msg)
    if not found:
        metadata.create_all(connection)
        return
    for number in range(found + 1, FORMAT + 1):
        connection.exec_driver_sql(UPGRADES[number])


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
