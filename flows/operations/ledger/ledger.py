"""The ledger: what a run has found, planned and done, one row a document, for each service and source.

Each change is committed before the next document is begun, so a run that is killed at any moment is taken up where it
was. What is in the catalog stays the service's to say: a plan is asked for again on every run, so that a lost or stale
ledger costs time and never a document. Beyond its runs it keeps what the source has sent (which alone may be deleted
when the source no longer has it) and what is in quarantine.
"""

from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from flows.operations.ledger import queries
from flows.operations.ledger.deletions import DeletionLedger
from flows.operations.ledger.rows import (
    FIRST,
    LAST,
    Digest,
    Entry,
    Failure,
    entry_of,
    failure_of,
    failure_values,
    pack,
    problem_values,
    storable,
    values_of,
)
from flows.operations.ledger.states import Action, Count, State
from flows.operations.sources.documents import Problem
from flows.operations.sources.fingerprint import key_of, key_range

_PAGE = 1000
_FORBIDDEN = ("external_id_taken", "The external id names a document that this caller may not update.")
_NOT_IN_CATALOG = ("not_in_catalog", "No document of this external id can be read by this caller. Upload it first.")


class Ledger(DeletionLedger):
    """One source's ledger: what its run finds, plans and does."""

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
            seen = queries.find_seen(connection, self.run_id, scan=self.scan, keys=keys)
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
                    values = {"payload": pack(kept)}
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

    def mark_sent(self, external_id: str, *, state: State, document_id: str, sent_bytes: int, fingerprint: str) -> None:
        """Record that the service has accepted a document (`fingerprint`: of the contents that were sent)."""
        key = key_of(external_id)
        known = {"document_id": document_id, "fingerprint": fingerprint}
        with self._write() as connection:
            done = {**known, "state": state, "sent_bytes": sent_bytes}
            queries.update_document(connection, self.run_id, key, done)
            queries.keep_sent(
                connection, {"source_id": self.source_id, "key": key, "external_id": external_id, **known}
            )
            queries.release(connection, self.source_id, part=1, key=key)

    def mark_searchable(self, external_id: str) -> None:
        """Record that an uploaded document can be searched."""
        with self._write() as connection:
            queries.update_document(connection, self.run_id, key_of(external_id), {"state": State.INDEXED})

    def leave_unasked(self) -> None:
        """Keep in quarantine what was to be asked after, since nobody does."""
        with self._write() as connection:
            queries.leave_unasked(connection, self.source_id, run_id=self.run_id, scan=self.scan)

    def mark_failed(self, entry: Entry, *, state: State, code: str, message: str, for_good: bool) -> None:
        """Put a document into quarantine; `for_good`: later runs don't send it again while it is unchanged."""
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
                rows = queries.find_quarantined(connection, self.source_id, keys=list(by_key))
            found |= {by_key[bytes(key)] for key in rows}
        return found

    def failure_codes(self) -> dict[str, int]:
        """Return how often each code occurs in the run's quarantine."""
        with self._store.read() as connection:
            return {row.code: row.number for row in queries.count_codes(connection, self.source_id, scan=self.scan)}
