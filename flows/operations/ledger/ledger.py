"""The ledger: what a run has found, planned and done, one row a document, for each service and source.

Each change is committed before the next document is begun, so a run that is killed at any moment is taken up where it
was. What is in the catalog stays the service's to say: a plan is asked for again on every run, so that a lost or stale
ledger costs time and never a document. Beyond its runs it keeps what the source has sent (which alone may be deleted
when the source no longer has it) and what is in quarantine.
"""

import socket
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from uuid import uuid4

from pydantic import SecretStr
from sqlalchemy import Connection

from carrel.wire.catalog import ContainedFiles
from flows.errors import LedgerError, SourceBusyError
from flows.operations.ledger.addresses import Address, kind_of, ledger_name
from flows.operations.ledger.places import open_store, open_stores
from flows.operations.ledger.queries import documents, plans, quarantined, runs, sendings
from flows.operations.ledger.queries.common import AnyRow
from flows.operations.ledger.rows import (
    FIRST,
    LAST,
    Digest,
    Entry,
    Failure,
    Missing,
    Retry,
    Run,
    failure_values,
    problem_values,
)
from flows.operations.ledger.states import Action, Count, State
from flows.operations.sent import Sent, as_row
from flows.operations.sources.documents import Problem
from flows.operations.sources.fingerprint import key_of, key_range

P = ParamSpec("P")
T = TypeVar("T")
Query = Callable[Concatenate[Connection, Run, P], T]

_PAGE = 1000


class Ledger:
    """One source's ledger: what its run finds, plans and does.

    `run` is the run that `begin` has claimed or `join` was given the claim of. Every write raises SourceBusyError once
    somebody else has taken that run up, and LedgerError once the lock on the source is lost: then nothing is written
    that another run could not know of.
    """

    def __init__(self, address: Address, *, kind: str = "", target: str = "", source: str = "") -> None:
        self.address = address
        self.run, self._retry = Run(), Retry()
        self._described = {"kind": kind, "target": target, "source": source}
        self._store = open_store(address)
        self._position = 0
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
        """Open the ledger of a source (flows.operations.sources.reading.source_identity) on the service at `target`.

        It is a file in `folder`, or in the database that is given; of additions to a `collection`, or of uploads.
        """
        address = Address(folder, ledger_name(source, target=target, collection=collection), database_url)
        return cls(address, kind=kind_of(collection), target=target, source=source)

    @classmethod
    def join(cls, address: Address, claim: str) -> Self:
        """Open the ledger of a run that somebody else holds; raises SourceBusyError once another has taken it up."""
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
        """Open the ledger of the run that a process of this machine has begun, to read; None as long as it has not."""
        if not address.exists:
            return None
        ledger = cls(address)
        with ledger._store.read() as connection:
            found = runs.run_of_process(connection, address.name, host=socket.gethostname(), process=process)
        if found is None:
            ledger.close()
            return None
        ledger._follow(found)
        return ledger

    def join_latest(self) -> None:
        """Read the run that was begun last."""
        if (found := self._latest_run()) is not None:
            self._follow(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the lock back and close the connections."""
        self._store.close()

    def begin(self, *, options: str | None = None, retry: Retry | None = None) -> None:
        """Take the source, and take up the run that was not finished, else (or for a `retry`) begin a new one.

        `options` are kept for `quarantine.retry`; rows of earlier runs are dropped. Raises SourceBusyError.
        """
        if not self._store.lock():
            raise SourceBusyError(self._busy_message())
        self._retry = retry or Retry()
        with self._store.write() as connection:
            source_id = runs.keep_source(connection, self.address.name, self._described, options=options)
            unfinished = None if retry else runs.find_unfinished(connection, source_id)
            run_key = unfinished.run_key if unfinished else uuid4().hex
            runs.drop_runs(connection, source_id, but=run_key)
            self._follow(runs.claim_run(connection, source_id, run_key, lock_pid=self._store.lock_pid))
            self._doubtful = unfinished is not None or sendings.has_intents(connection, self.run)

    def finish(self) -> None:
        """Mark the run finished. What it looked for, and has not found, is in quarantine no more."""
        with self._writing() as connection:
            runs.update_run(connection, self.run, {"finished_at": time.time()})
            quarantined.release_unseen(connection, self.run, names=self._retry.names)

    def assure(self) -> None:
        """Raise what a write would when this run is no longer the one that has the source."""
        with self._writing():
            pass

    def _follow(self, row: AnyRow) -> None:
        self.run = Run(row.source_id, row.run_id, row.scan, row.run_key, row.claim)

    def _latest_run(self) -> AnyRow | None:
        with self._store.read() as connection:
            return runs.latest_run(connection, self.address.name)

    def _busy_message(self) -> str:
        who = runs.name_holder(self._latest_run(), shared=self.address.shared)
        return f"This source is being worked on by another run ({who}). Wait for it to end, or stop it, then run again."

    def _own_run(self, connection: Connection) -> AnyRow:
        run = runs.run_of_claim(connection, self.run.claim, held=self._store.held)
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

    @contextmanager
    def _writing(self) -> Generator[Connection]:
        """Write as who has the run; nobody takes it up before this is committed."""
        with self._store.write() as connection:
            self._own_run(connection)
            yield connection

    def _write(self, query: Query[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._writing() as connection:
            return query(connection, self.run, *args, **kwargs)

    def _read(self, query: Query[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._store.read() as connection:
            return query(connection, self.run, *args, **kwargs)

    def digests(self, names: Sequence[str]) -> dict[str, Digest]:
        """Return the digests kept under these names (paths of files, addresses of objects), at most a thousand."""
        return self._read(documents.read_digests, names)

    def keep_digests(self, digests: Mapping[str, Digest]) -> None:
        """Keep digests under names."""
        if digests:
            self._write(documents.keep_digests, digests)

    def record(self, entries: Sequence[Entry]) -> list[Entry]:
        """Keep what a scan found; return the entries whose external id this scan has had already, which are not kept.

        A document that this run has sent already stays so while its fingerprint is the same.
        """
        return self._write(documents.record, entries)

    def record_problems(self, problems: Iterable[Problem]) -> None:
        """Keep what of the source can't be a document."""
        by_key: dict[bytes, dict[str, Any]] = {}
        for problem in problems:
            self._position += 1
            values = problem_values(problem, self.run, position=self._position)
            by_key[values["key"]] = values
        if by_key:
            with self._writing() as connection:
                quarantined.quarantine_items(connection, list(by_key.values()))

    def forget_unseen(self) -> None:
        """Drop what an earlier scan of this run found and this one no longer did."""
        self._write(documents.forget_unseen)

    def count_found(self) -> int:
        """Return how many documents this scan has found."""
        return self._read(documents.count_found)

    def fingerprints(self, *, after: bytes = FIRST, limit: int = _PAGE) -> list[tuple[bytes, str, str]]:
        """Return up to `limit` (key, external id, fingerprint) behind the key `after`, in the order of the keys."""
        return self._read(documents.fingerprints, after=after, limit=limit)

    def apply_plan(
        self, plan: Mapping[str, Action | State], *, document_ids: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Set up to a thousand documents to PLANNED with an action, to UNCHANGED or to FORBIDDEN.

        What this run has sent itself stays sent when the service says UNCHANGED; what is in quarantine since its index
        could not be made, and has an id in `document_ids`, is UPLOADED, so that its index is asked after.
        """
        self._write(plans.apply_plan, plan, document_ids=document_ids, is_doubtful=self._doubtful)

    def set_aside(self, *, refused: bool = True) -> None:
        """Set aside what is as it was when it was ignored or (`refused`) when the service refused it for good."""
        with self._writing() as connection:
            unwanted = (State.PLANNED, State.FORBIDDEN, State.UPLOADED, State.FAILED)
            documents.set_aside(connection, self.run, states=unwanted, ignored=True)
            if refused:
                documents.set_aside(connection, self.run, states=(State.PLANNED,), ignored=False)

    def forget_plan(self) -> None:
        """Forget what was planned to be sent, since nothing of it is: a later run need not ask if it arrived."""
        self._write(sendings.forget_plan)

    def identify(self, document_ids: Mapping[str, str]) -> None:
        """Keep the document ids that belong to external ids; those the source does not name are passed over."""
        if document_ids:
            self._write(documents.identify, document_ids)

    def keep_as_it_is(self, there: Mapping[str, Mapping[str, str]], *, current: Container[str]) -> None:
        """Leave the metadata of at most a thousand documents that are `there` alone where the source says none.

        Those of them that are `current` are UNCHANGED; the others are added again with what they have there.
        """
        self._write(plans.keep_metadata, there, current=current)

    def plan_identified(self) -> None:
        """Plan every document that has an id; the others are in no catalog that this caller can read."""
        self._write(documents.plan_identified)
        while entries := self.page(State.FOUND):
            self._write(plans.fail_unidentified, [entry.document.external_id for entry in entries])

    def page(
        self, state: State, *, after: bytes = FIRST, last: bytes = LAST, deleting: bool = False, limit: int = _PAGE
    ) -> list[Entry]:
        """Return up to `limit` documents in a state, by key: those that are to be deleted, or the others."""
        return self._read(documents.page, state=state, deleting=deleting, after=after, last=last, limit=limit)

    def pending(self, *, partition: int, partitions: int, deleting: bool = False) -> list[Entry]:
        """Return the partition's documents that are planned to be sent, or to be deleted."""
        first, last = key_range(partition, partitions=partitions)
        after = (int.from_bytes(first, "big") - 1).to_bytes(len(first), "big") if first != FIRST else FIRST
        entries: list[Entry] = []
        while found := self.page(State.PLANNED, after=after, last=last, deleting=deleting):
            entries += found
            after = key_of(found[-1].document.external_id)
        return entries

    def mark_sent(self, external_id: str, sent: Sent) -> None:
        """Record that the service has accepted a document."""
        key, row = key_of(external_id), sent.as_row()
        known = {"external_id": external_id, "document_id": sent.document_id, "fingerprint": sent.fingerprint}
        with self._writing() as connection:
            documents.update_document(connection, self.run, key, row)
            sendings.keep_sent(connection, {"source_id": self.run.source_id, "key": key, **known})
            quarantined.release(connection, self.run, part=1, key=key)

    def mark_searchable(self, external_id: str) -> None:
        """Record that an uploaded document can be searched."""
        self._write(documents.update_document, key_of(external_id), {"state": State.INDEXED})

    def keep_contained(self, external_id: str, found: ContainedFiles, *, parts_not_read: int) -> None:
        """Record how far the files in an archive or mail are, and how many of its parts were not read."""
        self._write(documents.update_document, key_of(external_id), as_row(found) | {"parts_not_read": parts_not_read})

    def leave_unasked(self) -> None:
        """Keep in quarantine what was to be asked after, since nobody does."""
        self._write(documents.leave_unasked)

    def mark_failed(self, entry: Entry, *, state: State, code: str, message: str, for_good: bool) -> None:
        """Put a document into quarantine; `for_good`: later runs don't send it again while it is unchanged."""
        values = failure_values(entry, self.run, code=code, message=message)
        with self._writing() as connection:
            documents.update_document(connection, self.run, values["key"], {"state": state})
            quarantined.quarantine_items(connection, [{**values, "for_good": for_good}])

    def counts(self) -> list[Count]:
        """Return the run's documents by state and action."""
        return self._read(documents.counts)

    def partly_read(self, *, limit: int | None = None) -> list[str]:
        """Return the external ids of the run's documents that have parts that were not read, by key."""
        return self._read(documents.partly_read, limit=limit)

    def find_missing(self, *, after: bytes = FIRST, limit: int = _PAGE) -> list[tuple[bytes, Missing]]:
        """Return up to `limit` documents (with their keys) that the source has sent and this run has not found."""
        return self._read(sendings.find_missing, after=after, limit=limit)

    def count_known(self) -> int:
        """Return how many of the documents found were in the catalog before this run."""
        return self._read(documents.count_known)

    def found_by_others(self, names: Sequence[str]) -> set[str]:
        """Return which of these external ids the last run of another source of the same service has found.

        As far as this place of ledgers knows; at most a thousand.
        """
        with self._store.read() as connection:
            own = runs.read_source(connection, self.address.name)
        found: set[str] = set()
        if own is None:
            return found
        for store in open_stores(self.address):
            with store.read() as connection:
                found |= sendings.found_by_others(connection, name=own.name, target=own.target, external_ids=names)
        return found

    def named_by_problems(self, names: Sequence[str]) -> set[str]:
        """Return which of these external ids this scan has come upon as what can't be a document."""
        return self._read(quarantined.problems_named, names=names)

    def hidden_by_problems(self, codes: Sequence[str]) -> tuple[int, str]:
        """Return how many problems may hide documents (no external id, or one of `codes`), and one of their places."""
        return self._read(quarantined.problems_hiding, codes=codes)

    def mark(self, missing: Sequence[Missing], *, state: State = State.FOUND) -> None:
        """Keep documents as what may be deleted; UNCHANGED: as what is left alone."""
        if missing:
            self._write(sendings.mark, missing, state=state)

    def confirm_deletions(self) -> None:
        """Plan the deletion of all marked documents."""
        self._write(sendings.confirm)

    def block_deletions(self, reason: str) -> None:
        """Record why deletions are blocked; marked documents stay marked and are not deleted."""
        self._write(runs.update_run, {"held_back": reason})

    def blocked_reason(self) -> str:
        """Return why deletions are blocked, or an empty text."""
        run = self._latest_run()
        return run.held_back if run and run.run_id == self.run.run_id else ""

    def forget_sent(self, external_ids: Sequence[str]) -> None:
        """Forget documents that are in the catalog no more."""
        if external_ids:
            self._write(sendings.forget_sent, [key_of(name) for name in external_ids])

    def mark_deleted(self, external_id: str) -> None:
        """Record that a document was deleted."""
        key = key_of(external_id)
        with self._writing() as connection:
            documents.update_document(connection, self.run, key, {"state": State.DELETED})
            sendings.forget_sent(connection, self.run, [key])
            quarantined.release(connection, self.run, part=1, key=key)

    def problem_count(self, *, ignored: bool = False) -> int:
        """Return how many of the source's items can't be a document, without those that are ignored, or only those."""
        return self._read(quarantined.count_problems, ignored=ignored)

    def failures(self, *, limit: int | None = None) -> Iterator[Failure]:
        """Return the run's quarantine: the source's problems in its order, then documents by external id."""
        return quarantined.read_failures(self._store, self.run, limit=limit)

    def quarantined_among(self, names: Sequence[str]) -> set[str]:
        """Return which of these external ids and places are in quarantine, from any run."""
        pages = (names[start : start + _PAGE] for start in range(0, len(names), _PAGE))
        return {name for page in pages for name in self._read(quarantined.find_quarantined, page)}

    def failure_codes(self) -> dict[str, int]:
        """Return how often each code occurs in the run's quarantine."""
        return self._read(quarantined.count_codes)
