"""Sources and their runs: a run is claimed, taken over and finished, and writes only while its claim holds."""

import os
import socket
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import sqlalchemy as sa
from pydantic import SecretStr

from flows.errors import LedgerError, SourceBusyError
from flows.operations.ledger.addresses import Address, kind_of, ledger_name
from flows.operations.ledger.quarantine import release_unseen
from flows.operations.ledger.rows import Retry, Run
from flows.operations.ledger.statements import AnyRow, insert_into, keep_intents
from flows.operations.ledger.store import open_store
from flows.operations.ledger.tables import documents, runs, sent, sources


class ClaimedRun:
    """A run with the right to write: writes raise SourceBusyError after a takeover, LedgerError after a lost lock."""

    def __init__(self, address: Address, *, kind: str = "", target: str = "", source: str = "") -> None:
        self.address = address
        self.run, self._retry = Run(), Retry()
        self._described = {"kind": kind, "target": target, "source": source}
        self._store = open_store(address)
        self._doubtful = False

    @classmethod
    def at(
        cls,
        folder: Path,
        *,
        target: str,
        source: str,
        collection: str | None = None,
        database_url: SecretStr | None = None,
    ) -> Self:
        address = Address(folder, ledger_name(source, target=target, collection=collection), database_url)
        return cls(address, kind=kind_of(collection), target=target, source=source)

    @classmethod
    def join(cls, address: Address, claim: str) -> Self:
        """Open the ledger of a run held elsewhere. Raises SourceBusyError if another process took the run over."""
        ledger = cls(address)
        ledger.run = Run(claim=claim)
        try:
            with ledger._store.write() as connection:
                ledger._follow(ledger._own_run(connection))
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def watch(cls, address: Address, *, process: int) -> Self | None:
        """Open for reading the ledger of the run of a local process; None until the run begins."""
        if not address.exists:
            return None
        ledger = cls(address)
        here = (runs.c.host == socket.gethostname(), runs.c.process == process, runs.c.finished_at.is_(None))
        with ledger._store.read() as connection:
            found = connection.execute(_runs_of(address.name).where(*here)).one_or_none()
        if found is None:
            ledger.close()
            return None
        ledger._follow(found)
        return ledger

    def join_latest(self) -> None:
        """Follow the source's latest run, for reading; do nothing without a run."""
        if (found := self._latest_run()) is not None:
            self._follow(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._store.close()

    def begin(self, *, options: str | None = None, retry: Retry | None = None) -> None:
        """Take the source and its unfinished run, or begin a run, as for a `retry`. Raises SourceBusyError."""
        if not self._store.lock():
            holder = _name_holder(self._latest_run(), shared=self.address.shared)
            advice = "Wait for it to end, or stop it, then run again."
            raise SourceBusyError(f"Another run is loading this source ({holder}). {advice}")
        self._retry = retry or Retry()
        with self._store.write() as connection:
            source_id = self._keep_source(connection, options)
            unfinished = sa.select(runs.c.run_key).where(runs.c.source_id == source_id, runs.c.finished_at.is_(None))
            latest = unfinished.order_by(runs.c.started_at.desc()).limit(1)
            run_key = None if retry else connection.execute(latest).scalar_one_or_none()
            _drop_runs(connection, source_id, but=run_key or "")
            self._claim(connection, source_id, run_key or uuid4().hex)
            intents = sa.select(sa.exists().where(sent.c.source_id == source_id, sent.c.intended.is_not(None)))
            # Whether it is unknown which documents arrived.
            self._doubtful = run_key is not None or bool(connection.execute(intents).scalar_one())

    def finish(self) -> None:
        """Mark the run finished. Items searched for and not found leave the quarantine."""
        with self._writing() as connection:
            self._update_run(connection, finished_at=time.time())
            release_unseen(connection, self.run, names=self._retry.names)

    def assure(self) -> None:
        """Raise the error of a write if the run no longer holds the source."""
        with self._writing():
            pass

    def block_deletions(self, reason: str) -> None:
        """Record why deletions are blocked; marked documents stay marked and are not deleted."""
        with self._writing() as connection:
            self._update_run(connection, held_back=reason)

    def blocked_reason(self) -> str:
        """Return why this run, if it is the latest, deletes nothing; otherwise an empty text."""
        run = self._latest_run()
        return run.held_back if run and run.run_id == self.run.run_id else ""

    def _follow(self, row: AnyRow) -> None:
        self.run = Run(row.source_id, row.run_id, row.scan, row.run_key, row.claim)

    def _latest_run(self) -> AnyRow | None:
        found = self._rows(_runs_of(self.address.name).order_by(runs.c.started_at.desc()).limit(1))
        return found[0] if found else None

    def _keep_source(self, connection: sa.Connection, options: str | None) -> int:
        """Store the source and the run's options, by default the previous run's options; return the source's id."""
        new = {"name": self.address.name, **self._described, "options": options or "{}", "scans": 0}
        statement = insert_into(connection.dialect, sources).values(**new)
        fresh = {**self._described, "options": options or sources.c.options}
        connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=fresh))
        found = sa.select(sources.c.source_id).where(sources.c.name == self.address.name)
        return connection.execute(found).scalar_one()

    def _claim(self, connection: sa.Connection, source_id: int, run_key: str) -> None:
        ours = sources.c.source_id == source_id
        connection.execute(sa.update(sources).where(ours).values(scans=sources.c.scans + 1))
        claimed = {
            "claim": uuid4().hex,
            "scan": connection.execute(sa.select(sources.c.scans).where(ours)).scalar_one(),
            "started_at": time.time(),
            "host": socket.gethostname(),
            "process": os.getpid(),
            "lock_pid": self._store.lock_pid,
            "held_back": "",
        }
        statement = insert_into(connection.dialect, runs).values(source_id=source_id, run_key=run_key, **claimed)
        connection.execute(statement.on_conflict_do_update(index_elements=["run_key"], set_=claimed))
        self._follow(connection.execute(sa.select(runs).where(runs.c.run_key == run_key)).one())

    def _own_run(self, connection: sa.Connection) -> AnyRow:
        """Return the run, which nobody can take over before the commit. Raises SourceBusyError and LedgerError."""
        found = sa.select(runs, self._store.held.label("held")).where(runs.c.claim == self.run.claim)
        run = connection.execute(found.with_for_update(read=True, of=runs)).one_or_none()
        if run is None:
            raise SourceBusyError("Another run has taken over this source. Wait for it to end, then run again.")
        if not run.held:
            raise LedgerError(
                "The database connection with the lock on this source broke, so another run may take over. "
                "This run writes nothing more. Run again to continue from here."
            )
        return run

    @contextmanager
    def _writing(self) -> Generator[sa.Connection]:
        """Write as the holder of the run; another process can take the run over only after the commit."""
        with self._store.write() as connection:
            self._own_run(connection)
            yield connection

    def _write(self, statement: sa.Executable) -> None:
        with self._writing() as connection:
            connection.execute(statement)

    def _rows(self, statement: sa.Executable) -> Sequence[AnyRow]:
        with self._store.read() as connection:
            return connection.execute(statement).all()

    def _update_run(self, connection: sa.Connection, **values: object) -> None:
        connection.execute(sa.update(runs).where(runs.c.run_id == self.run.run_id).values(**values))


def _runs_of(name: str) -> sa.Select[Any]:
    return sa.select(runs).join(sources, sources.c.source_id == runs.c.source_id).where(sources.c.name == name)


def _name_holder(run: AnyRow | None, *, shared: bool) -> str:
    if run is None:
        return "another process"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run.started_at))
    return f"process {run.process}{f' on {run.host}' if shared else ''}, since {since}"


def _drop_runs(connection: sa.Connection, source_id: int, *, but: str) -> None:
    """Delete a source's runs, except the run with this key; remember documents that may have arrived unconfirmed."""
    old = sa.select(runs.c.run_id).where(runs.c.source_id == source_id, runs.c.run_key != but)
    # Lock first: a run that still writes finishes its write, and finds its row deleted at the next.
    dropped = connection.execute(old.with_for_update()).scalars().all()
    of_them = documents.c.run_id.in_(dropped)
    keep_intents(connection, source_id, of_them)
    connection.execute(sa.delete(documents).where(of_them))
    connection.execute(sa.delete(runs).where(runs.c.run_id.in_(dropped)))
