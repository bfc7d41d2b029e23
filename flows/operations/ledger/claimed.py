"""A run's life in its source's ledger: opened, claimed so that nobody else has it, taken up again, and finished."""

import hashlib
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from pydantic import SecretStr
from sqlalchemy import Connection

from flows.errors import LedgerError, SourceBusyError
from flows.operations.ledger import queries
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.locks import lock_halves, lock_of
from flows.operations.ledger.store import Store


class ClaimedLedger:
    """A source's ledger as a run has it. `claim` names that run, and the right to it, from `begin` or `join`.

    Every write raises SourceBusyError once somebody else has taken the run up, and LedgerError once the lock on the
    source is lost: then nothing is written that another run could not know of.
    """

    def __init__(self, address: Address, *, kind: str = "", target: str = "", source: str = "") -> None:
        self.address = address
        self._described = {"kind": kind, "target": target, "source": source}
        self._store = Store(address)
        self._lock = lock_of(self._store)
        self._halves = lock_halves(address.name) if address.shared else None
        self._position = 0
        self._doubtful = False
        self.run_key, self.claim = "", ""
        self.source_id, self.run_id, self.scan = 0, 0, 0

    @classmethod
    def at(
        cls, folder: Path, *, target: str, source: str, kind: str = "upload", database_url: SecretStr | None = None
    ) -> Self:
        """Open the ledger of a source (flows.operations.sources.reading.source_identity) on the service at `target`.

        It is a file in `folder`, or in the database that is given.
        """
        identity = source if kind == "upload" else f"{kind} {source}"
        name = hashlib.sha256(f"{target}\n{identity}".encode()).hexdigest()[:24]
        return cls(Address(folder, name, database_url), kind=kind, target=target, source=source)

    @classmethod
    def join(cls, address: Address, claim: str) -> Self:
        """Open the ledger of a run that somebody else has begun and holds the lock of.

        Raises SourceBusyError when it was taken up by another since.
        """
        ledger = cls(address)
        try:
            ledger.claim = claim
            with ledger._write() as connection:
                ledger._follow(ledger._own_run(connection))
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def watch(cls, address: Address, *, process: int) -> Self | None:
        """Open the ledger of the run that a process of this machine has begun, to read; None as long as it has not."""
        if not address.shared and not address.path.exists():
            return None
        ledger = cls(address)
        with ledger._store.read() as connection:
            found = queries.run_of_process(connection, address.name, host=socket.gethostname(), process=process)
        if found is None:
            ledger.close()
            return None
        ledger._follow(found)
        return ledger

    def join_latest(self) -> None:
        """Read the run that was begun last."""
        with self._store.read() as connection:
            found = queries.latest_run(connection, self.address.name)
        if found is not None:
            self._follow(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the lock back and close the connections."""
        self._lock.release()
        self._store.close()

    @property
    def quarantine_file(self) -> Path:
        """Where this machine keeps the run's quarantine for people to read."""
        return self.address.folder / f"{self.address.name}.quarantine.jsonl"

    def begin(self, *, options: str | None = None, anew: bool = False) -> None:
        """Take the source, and take up the run that was not finished, else (or `anew`) begin a new one.

        `options` are kept for `quarantine.retry`. Raises SourceBusyError while another run has the source. Rows of
        earlier runs are dropped.
        """
        holder = self._lock.acquire(described=self._holder())
        with self._store.write() as connection:
            known = {"name": self.address.name, **self._described}
            before = queries.read_source(connection, self.address.name)
            known["options"] = options or (before.options if before else "{}")
            self.source_id = queries.keep_source(connection, known)
            unfinished = None if anew else queries.find_unfinished(connection, self.source_id)
            run_key = unfinished.run_key if unfinished else uuid4().hex
            queries.drop_runs(connection, self.source_id, but=run_key)
            claimed = self._claimed(run_key, lock_pid=holder, scan=queries.next_scan(connection, self.source_id))
            self._follow(queries.claim_run(connection, claimed))
            self._doubtful = unfinished is not None or queries.has_intents(connection, self.source_id)

    def _claimed(self, run_key: str, *, lock_pid: int | None, scan: int) -> dict[str, Any]:
        return {
            "source_id": self.source_id,
            "run_key": run_key,
            "claim": uuid4().hex,
            "scan": scan,
            "started_at": time.time(),
            "host": socket.gethostname(),
            "process": os.getpid(),
            "lock_pid": lock_pid,
            "held_back": "",
        }

    def finish(self) -> None:
        """Mark the run finished: the next one begins anew. What it has not come upon is in quarantine no more."""
        with self._write() as connection:
            queries.update_run(connection, self.run_id, {"finished_at": time.time()})
            queries.release_unseen(connection, self.source_id, scan=self.scan)

    def _follow(self, run: queries.AnyRow) -> None:
        self.run_key, self.claim = run.run_key, run.claim
        self.source_id, self.run_id, self.scan = run.source_id, run.run_id, run.scan

    @contextmanager
    def _write(self) -> Generator[Connection]:
        """Write as who has the run; nobody takes it up before this is committed."""
        with self._store.write() as connection:
            self._own_run(connection)
            yield connection

    def _own_run(self, connection: Connection) -> queries.AnyRow:
        run = queries.run_of_claim(connection, self.claim, lock=self._halves)
        if run is None:
            msg = "Another run has taken this source over. Wait for it to end, then run again."
            raise SourceBusyError(msg)
        if not run.held:
            msg = (
                "The connection that held the lock on this source broke, so that another run may have it. Nothing more"
                " is written. Run again: the run goes on from here."
            )
            raise LedgerError(msg)
        return run

    def _holder(self) -> str:
        with self._store.read() as connection:
            run = queries.latest_run(connection, self.address.name)
        who = "another process"
        if run is not None:
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run.started_at))
            machine = f" on {run.host}" if self.address.shared else ""
            who = f"process {run.process}{machine}, since {since}"
        return f"This source is being worked on by another run ({who}). Wait for it to end, or stop it, then run again."

    def assure(self) -> None:
        """Raise what a write would when this run is no longer the one that has the source."""
        with self._write():
            pass
