"""The ledger: what a run has found, planned and done, one row a document, for each service and source.

Each change is committed before the next document is begun, so a run that is killed at any moment is taken up where it
was. What is in the catalog stays the service's to say: a plan is asked for again on every run, so that a lost or stale
ledger costs time and never a document. Beyond its runs it keeps what the source has sent (which alone may be deleted
when the source no longer has it) and what is in quarantine.
"""

import hashlib
import os
import socket
import time
from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from uuid import uuid4

from pydantic import SecretStr
from sqlalchemy import Connection

from flows.errors import LedgerError, SourceBusyError
from flows.operations.ledger import queries
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.locks import lock_halves, lock_of
from flows.operations.ledger.rows import (
    FIRST,
    LAST,
    Digest,
    Entry,
    Failure,
    Missing,
    deletion_of,
    entry_of,
    failure_of,
    failure_values,
    packed,
    problem_values,
    storable,
    values_of,
)
from flows.operations.ledger.states import Action, Count, State
from flows.operations.ledger.store import Store
from flows.operations.sources.documents import Problem
from flows.operations.sources.fingerprint import key_of, key_range

_PAGE = 1000
_FORBIDDEN = ("external_id_taken", "The external id names a document that this caller may not update.")
_NOT_IN_CATALOG = ("not_in_catalog", "No document of this external id can be read by this caller. Upload it first.")


class Ledger:
    """One source's ledger. `claim` names the run it works on, and the right to, from `begin` or `join`.

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

    # A run's life

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
            unfinished = None if anew else queries.unfinished_run(connection, self.source_id)
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

    # What a scan finds

    def digests(self, names: Sequence[str]) -> dict[str, Digest]:
        """Return the digests kept under these names (paths of files, addresses of objects), at most a thousand."""
        by_key = {key_of(name): name for name in names}
        with self._store.read() as connection:
            rows = queries.read_digests(connection, self.source_id, list(by_key))
        return {
            by_key[bytes(row.key)]: Digest(row.size, row.marker, bytes(row.sha256), row.taken_at_ns) for row in rows
        }

    def keep_digests(self, digests: Mapping[str, Digest]) -> None:
        """Keep digests under names."""
        values = [
            {
                "source_id": self.source_id,
                "key": key_of(name),
                "size": digest.size,
                "marker": digest.marker,
                "sha256": digest.sha256,
                "taken_at_ns": digest.taken_at_ns,
            }
            for name, digest in digests.items()
        ]
        if values:
            with self._write() as connection:
                queries.keep_digests(connection, values)

    def record(self, entries: Sequence[Entry]) -> list[Entry]:
        """Keep what a scan found; return the entries whose external id this scan has had already, which are not kept.

        A document that this run has sent already stays so while its fingerprint is the same.
        """
        keys = [key_of(entry.document.external_id) for entry in entries]
        fresh: dict[bytes, Entry] = {}
        repeated: list[Entry] = []
        with self._write() as connection:
            seen = queries.seen_keys(connection, self.run_id, scan=self.scan, keys=keys)
            for key, entry in zip(keys, entries, strict=True):
                if key in seen or key in fresh:
                    repeated.append(entry)
                else:
                    fresh[key] = entry
            if fresh:
                values = [values_of(entry, key, run_id=self.run_id, scan=self.scan) for key, entry in fresh.items()]
                queries.record_documents(connection, values)
        return repeated

    def record_problems(self, problems: Iterable[Problem]) -> None:
        """Keep what of the source can't be a document."""
        by_key: dict[bytes, dict[str, Any]] = {}
        for problem in problems:
            self._position += 1
            values = problem_values(problem, source_id=self.source_id, scan=self.scan, position=self._position)
            by_key[values["key"]] = values
        if by_key:
            with self._write() as connection:
                queries.quarantine_items(connection, list(by_key.values()))

    def forget_unseen(self) -> None:
        """Drop what an earlier scan of this run found and this one no longer did."""
        with self._write() as connection:
            queries.forget_unseen(connection, self.source_id, run_id=self.run_id, scan=self.scan)

    # The plan

    def fingerprints(self, *, after: bytes = FIRST, limit: int = _PAGE) -> list[tuple[bytes, str, str]]:
        """Return up to `limit` (key, external id, fingerprint) behind the key `after`, in the order of the keys."""
        with self._store.read() as connection:
            rows = queries.fingerprints(connection, self.run_id, after=after, limit=limit)
        return [(bytes(row.key), row.external_id, row.fingerprint) for row in rows]

    def apply_plan(
        self, plan: Mapping[str, Action | State], *, document_ids: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Set up to a thousand documents to PLANNED with an action, to UNCHANGED or to FORBIDDEN.

        What this run has sent itself stays sent when the service says UNCHANGED; what is in quarantine since its index
        could not be made, and has an id in `document_ids`, is UPLOADED, so that its index is asked after.
        """
        by_verdict: dict[Action | State, list[bytes]] = {}
        for external_id, verdict in plan.items():
            by_verdict.setdefault(verdict, []).append(key_of(external_id))
        with self._write() as connection:
            for verdict, keys in by_verdict.items():
                if isinstance(verdict, Action):
                    queries.plan_sends(connection, self.run_id, action=verdict, keys=keys)
                    continue
                if verdict is State.UNCHANGED and self._doubtful:
                    queries.adopt(connection, self.source_id, run_id=self.run_id, keys=keys)
                if verdict is State.UNCHANGED:
                    self._ask_after(connection, keys, document_ids=document_ids)
                queries.plan_rest(connection, self.run_id, state=verdict, keys=keys)
                if verdict is State.FORBIDDEN:
                    self._quarantine(connection, keys, state=verdict, why=_FORBIDDEN)

    def _ask_after(self, connection: Connection, keys: Sequence[bytes], *, document_ids: Mapping[str, str]) -> None:
        failed = queries.unsearchable(connection, self.source_id, run_id=self.run_id, keys=keys)
        if not failed:
            return
        for external_id, document_id in document_ids.items():
            if (key := key_of(external_id)) in failed:
                values = {"state": State.UPLOADED, "action": None, "document_id": document_id}
                queries.update_document(connection, self.run_id, key, values)

    def _quarantine(self, connection: Connection, keys: Sequence[bytes], *, state: State, why: tuple[str, str]) -> None:
        rows = queries.entries_of(connection, self.run_id, state=state, keys=keys)
        values = [
            failure_values(entry_of(row), code=why[0], message=why[1], source_id=self.source_id, scan=self.scan)
            for row in rows
        ]
        if values:
            queries.quarantine_items(connection, values)

    def set_aside(self, *, refused: bool = True) -> None:
        """Set aside what is as it was when it was ignored or (`refused`) when the service refused it for good."""
        with self._write() as connection:
            unwanted = (State.PLANNED, State.FORBIDDEN, State.UPLOADED)
            for states, ignored in ((unwanted, True), ((State.PLANNED,), False)):
                if ignored or refused:
                    queries.set_aside(
                        connection, self.source_id, run_id=self.run_id, scan=self.scan, states=states, ignored=ignored
                    )

    # What the source no longer has

    def missing(self, *, after: bytes = FIRST, limit: int = _PAGE) -> list[tuple[bytes, Missing]]:
        """Return up to `limit` documents (with their keys) that the source has sent and this run has not found."""
        with self._store.read() as connection:
            rows = queries.missing(connection, self.source_id, run_id=self.run_id, after=after, limit=limit)
        return [
            (bytes(row.key), Missing(row.external_id, row.document_id, row.fingerprint, row.intended)) for row in rows
        ]

    def found(self) -> int:
        """Return how many documents this scan has found."""
        with self._store.read() as connection:
            return queries.count_found(connection, self.run_id, scan=self.scan)

    def known(self) -> int:
        """Return how many of the documents found were in the catalog before this run."""
        with self._store.read() as connection:
            return queries.count_known(connection, self.run_id)

    def found_by_others(self, names: Sequence[str]) -> set[str]:
        """Return which of these external ids the last run of another source of the same service has found.

        As far as this place of ledgers knows; at most a thousand.
        """
        by_key = {key_of(name): name for name in names}
        name = self.address.name
        with self._store.read() as connection:
            own = queries.read_source(connection, name)
        target = own.target if own else ""
        found: set[bytes] = set()
        for store in self._stores():
            try:
                with store.read() as connection:
                    found |= queries.found_by_others(connection, name=name, target=target, keys=list(by_key))
            finally:
                if store is not self._store:
                    store.close()
        return {by_key[bytes(key)] for key in found}

    def _stores(self) -> Iterator[Store]:
        """Yield where other sources' ledgers are: the same database, or the other files of the folder."""
        if self.address.shared:
            yield self._store
            return
        for path in sorted(self.address.folder.glob("*.sqlite")):
            if path != self.address.path:
                yield Store(self.address.of(path.stem))

    def named_by_problems(self, names: Sequence[str]) -> set[str]:
        """Return which of these external ids this scan has come upon as what can't be a document."""
        with self._store.read() as connection:
            return queries.problems_named(connection, self.source_id, scan=self.scan, names=names)

    def hidden_by_problems(self, codes: Sequence[str]) -> tuple[int, str]:
        """Return how many problems may hide documents (no external id, or one of `codes`), and one of their places."""
        with self._store.read() as connection:
            row = queries.problems_hiding(connection, self.source_id, scan=self.scan, codes=codes)[0]
        return row.number, row.place or ""

    def mark(self, documents: Sequence[Missing], *, state: State = State.FOUND) -> None:
        """Keep documents as what may be deleted; UNCHANGED: as what is left alone."""
        values = [
            values_of(deletion_of(one), key_of(one.external_id), run_id=self.run_id, scan=self.scan)
            | {"state": state, "action": Action.DELETE}
            for one in documents
        ]
        if values:
            with self._write() as connection:
                queries.mark(connection, values)

    def confirm_deletions(self) -> None:
        """Plan to delete what is marked."""
        with self._write() as connection:
            queries.confirm(connection, self.run_id)
        self.set_aside()

    def hold_back(self, reason: str) -> None:
        """Keep why nothing is deleted; what was marked stays so, and nothing deletes it."""
        with self._write() as connection:
            queries.update_run(connection, self.run_id, {"held_back": reason})

    def held_back(self) -> str:
        """Return why nothing is deleted, or nothing."""
        with self._store.read() as connection:
            run = queries.latest_run(connection, self.address.name)
        return run.held_back if run is not None and run.run_id == self.run_id else ""

    def forget_sent(self, external_ids: Sequence[str]) -> None:
        """Forget documents that are in the catalog no more."""
        if external_ids:
            with self._write() as connection:
                queries.forget_sent(connection, self.source_id, [key_of(name) for name in external_ids])

    def assure(self) -> None:
        """Raise what a write would when this run is no longer the one that has the source."""
        with self._write():
            pass

    def deleted(self, external_id: str) -> None:
        """Keep that a document is deleted."""
        key = key_of(external_id)
        with self._write() as connection:
            queries.update_document(connection, self.run_id, key, {"state": State.DELETED})
            queries.forget_sent(connection, self.source_id, [key])
            queries.release(connection, self.source_id, part=1, key=key)

    def forget_plan(self) -> None:
        """Forget what was planned to be sent, since nothing of it is: a later run need not ask if it arrived."""
        with self._write() as connection:
            queries.forget_plan(connection, self.run_id)

    # Additions to a collection

    def identify(self, document_ids: Mapping[str, str]) -> None:
        """Keep the document ids that belong to external ids; those the source does not name are passed over."""
        values = [{"of_key": key_of(name), "its_id": document_id} for name, document_id in document_ids.items()]
        if values:
            with self._write() as connection:
                queries.identify(connection, self.run_id, values)

    def keep_as_it_is(self, there: Mapping[str, Mapping[str, str]], *, current: Container[str]) -> None:
        """Leave the metadata of documents that are `there` already alone where the source says nothing of any.

        Those of them that are `current` are UNCHANGED; the others are added again with what they have there. At most a
        thousand.
        """
        with self._write() as connection:
            rows = queries.entries_of(connection, self.run_id, state=State.FOUND, keys=[key_of(name) for name in there])
            silent = [entry.document for entry in map(entry_of, rows) if not entry.document.metadata]
            unchanged = [key_of(document.external_id) for document in silent if document.external_id in current]
            queries.plan_rest(connection, self.run_id, state=State.UNCHANGED, keys=unchanged)
            for document in silent:
                if document.external_id not in current:
                    kept = replace(document, metadata=there[document.external_id])
                    values = {"payload": packed(kept)}
                    queries.update_document(connection, self.run_id, key_of(document.external_id), values)

    def plan_identified(self) -> None:
        """Plan every document that has an id; the others are in no catalog that this caller can read."""
        with self._write() as connection:
            queries.plan_identified(connection, self.run_id)
        after = FIRST
        while entries := self.page(State.FOUND, after=after):
            after = key_of(entries[-1].document.external_id)
            keys = [key_of(entry.document.external_id) for entry in entries]
            with self._write() as connection:
                queries.plan_rest(connection, self.run_id, state=State.FAILED, keys=keys)
                self._quarantine(connection, keys, state=State.FAILED, why=_NOT_IN_CATALOG)

    # What is done

    def page(
        self, state: State, *, after: bytes = FIRST, last: bytes = LAST, deleting: bool = False, limit: int = _PAGE
    ) -> list[Entry]:
        """Return up to `limit` documents in a state, by key: those that are to be deleted, or the others."""
        with self._store.read() as connection:
            rows = queries.page(
                connection, self.run_id, state=state, deleting=deleting, after=after, last=last, limit=limit
            )
        return [entry_of(row) for row in rows]

    def pending(self, *, partition: int, partitions: int, deleting: bool = False) -> list[Entry]:
        """Return the partition's documents that are planned to be sent, or to be deleted."""
        first, last = key_range(partition, partitions=partitions)
        after = (int.from_bytes(first, "big") - 1).to_bytes(len(first), "big") if first != FIRST else FIRST
        entries: list[Entry] = []
        while found := self.page(State.PLANNED, after=after, last=last, deleting=deleting):
            entries += found
            after = key_of(found[-1].document.external_id)
        return entries

    def sent(self, external_id: str, *, state: State, document_id: str, sent_bytes: int, fingerprint: str) -> None:
        """Keep that the service has acknowledged the document (`fingerprint`: of what was really sent)."""
        key = key_of(external_id)
        known = {"document_id": document_id, "fingerprint": fingerprint}
        with self._write() as connection:
            done = {**known, "state": state, "sent_bytes": sent_bytes}
            queries.update_document(connection, self.run_id, key, done)
            queries.keep_sent(
                connection, {"source_id": self.source_id, "key": key, "external_id": external_id, **known}
            )
            queries.release(connection, self.source_id, part=1, key=key)

    def settled(self, external_id: str) -> None:
        """Keep that an uploaded document can be searched now."""
        with self._write() as connection:
            queries.update_document(connection, self.run_id, key_of(external_id), {"state": State.INDEXED})

    def leave_unasked(self) -> None:
        """Keep in quarantine what was to be asked after, since nobody does."""
        with self._write() as connection:
            queries.leave_unasked(connection, self.source_id, run_id=self.run_id, scan=self.scan)

    def failed(self, entry: Entry, *, state: State, code: str, message: str, for_good: bool) -> None:
        """Put a document into quarantine; `for_good`: later runs don't send it again while it is the same."""
        values = failure_values(entry, code=code, message=message, source_id=self.source_id, scan=self.scan)
        with self._write() as connection:
            queries.update_document(connection, self.run_id, values["key"], {"state": state})
            queries.quarantine_items(connection, [{**values, "for_good": for_good}])

    def counts(self) -> list[Count]:
        """Return the run's documents by state and action."""
        with self._store.read() as connection:
            rows = queries.counts(connection, self.run_id)
        return [
            Count(State(row.state), Action(row.action) if row.action else None, row.number, int(row.sent))
            for row in rows
        ]

    # What did not get into the catalog

    def problem_count(self, *, ignored: bool = False) -> int:
        """Return how many of the source's items can't be a document, without those that are ignored, or only those."""
        with self._store.read() as connection:
            rows = queries.count_problems(connection, self.source_id, scan=self.scan)
        return sum(row.number for row in rows if bool(row.ignored) is ignored)

    def failures(self, *, limit: int | None = None) -> Generator[Failure]:
        """Yield the run's quarantine: the source's problems in its order, then documents by external id."""
        after: tuple[int, int, str] | None = None
        left = limit
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            with self._store.read() as connection:
                rows = queries.failures(connection, self.source_id, scan=self.scan, after=after, limit=size)
            yield from map(failure_of, rows)
            if len(rows) < size:
                return
            after = (rows[-1].part, rows[-1].position, rows[-1].external_id or "")
            left = None if left is None else left - len(rows)

    def quarantined_among(self, names: Sequence[str]) -> set[str]:
        """Return which of these external ids and places are in quarantine, from any run."""
        found: set[str] = set()
        for start in range(0, len(names), _PAGE):
            by_key = {key_of(storable(name)): name for name in names[start : start + _PAGE]}
            with self._store.read() as connection:
                rows = queries.quarantined_keys(connection, self.source_id, keys=list(by_key))
            found |= {by_key[bytes(key)] for key in rows}
        return found

    def failure_codes(self) -> dict[str, int]:
        """Return how often each code occurs in the run's quarantine."""
        with self._store.read() as connection:
            return {row.code: row.number for row in queries.count_codes(connection, self.source_id, scan=self.scan)}
