"""The ledger: what a run has found, planned and done, one row a document, in a SQLite file per service and source.

Each change is committed before the next document is begun, so a run that is killed at any moment is taken up where it
was. What is in the catalog stays the service's to say: a plan is asked for again on every run, so that a lost or stale
ledger costs time and never a document.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Self
from uuid import uuid4

from flows.operations.documents import Access, Problem, SourceDocument
from flows.operations.fingerprint import bucket_of, bucket_range
from flows.operations.store import SourceLock, Store


class State(StrEnum):
    """How far a document is. FORBIDDEN and FAILED are its quarantine; UPLOADED waits for its index."""

    FOUND = "found"
    PLANNED = "planned"
    UNCHANGED = "unchanged"
    FORBIDDEN = "forbidden"
    UPLOADED = "uploaded"
    INDEXED = "indexed"
    FAILED = "failed"


class Action(StrEnum):
    """What the plan wants done with a document."""

    CREATE = "create"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Entry:
    """A document as the ledger keeps it: ready to be sent, with its file's digest and its fingerprint."""

    document: SourceDocument
    size: int
    sha256: bytes
    fingerprint: str
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Something in quarantine, and why."""

    place: str
    external_id: str | None
    code: str
    message: str


class Count(NamedTuple):
    """How many documents are in a state with an action, and how many bytes of them were sent."""

    state: State
    action: Action | None
    documents: int
    sent_bytes: int


class Ledger(Store):
    """One source's ledger. `run_key` names the run it works on, from `begin` or `join`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lock = SourceLock(path)
        self.run_key = ""
        self.scan = 0

    @classmethod
    def at(cls, folder: Path, *, target: str, source: str) -> Self:
        """Open the ledger of a source (flows.operations.sources.source_identity) on the service at `target`."""
        name = hashlib.sha256(f"{target}\n{source}".encode()).hexdigest()[:24]
        return cls(folder / f"{name}.sqlite")

    @classmethod
    def join(cls, path: Path, run_key: str) -> Self:
        """Open the ledger of a run that somebody else has begun and holds the lock of."""
        ledger = cls(path)
        ledger.run_key = run_key
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and give the lock back."""
        super().close()
        self._lock.release()

    def begin(self) -> None:
        """Take the source, and take up the run that was not finished, else begin a new one.

        Raises SourceBusyError while another run has it. Rows of earlier runs are dropped.
        """
        self._lock.acquire(described=self._holder())
        with self.transaction() as connection:
            found = connection.execute("SELECT run_key, scan FROM runs WHERE finished_at IS NULL").fetchone()
            self.run_key, self.scan = (str(found[0]), int(found[1]) + 1) if found else (uuid4().hex, 1)
            connection.execute("DELETE FROM problems")
            connection.execute("DELETE FROM documents WHERE run_key <> ?", (self.run_key,))
            connection.execute("DELETE FROM runs WHERE run_key <> ?", (self.run_key,))
            connection.execute(
                "INSERT INTO runs (run_key, started_at, process, scan) VALUES (?, ?, ?, ?) ON CONFLICT (run_key)"
                " DO UPDATE SET process = excluded.process, started_at = excluded.started_at, scan = excluded.scan",
                (self.run_key, time.time(), os.getpid(), self.scan),
            )

    @classmethod
    def watch(cls, path: Path, *, process: int) -> Self | None:
        """Open the ledger of the run that a process has begun, to read; None as long as it has not."""
        if not path.exists():
            return None
        ledger = cls(path)
        rows = ledger.rows("SELECT run_key FROM runs WHERE process = ? AND finished_at IS NULL", (process,))
        if not rows:
            ledger.close()
            return None
        ledger.run_key = str(rows[0][0])
        return ledger

    def join_latest(self) -> None:
        """Read the run that was begun last."""
        rows = self.rows("SELECT run_key FROM runs ORDER BY started_at DESC LIMIT 1")
        self.run_key = str(rows[0][0]) if rows else ""

    def finish(self) -> None:
        """Mark the run finished: the next one begins anew."""
        with self.transaction() as connection:
            connection.execute("UPDATE runs SET finished_at = ? WHERE run_key = ?", (time.time(), self.run_key))

    def _holder(self) -> str:
        rows = self.rows("SELECT process, started_at FROM runs ORDER BY started_at DESC LIMIT 1")
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(float(str(rows[0][1])))) if rows else "just now"
        who = f"process {rows[0][0]}, since {since}" if rows else "another process"
        return f"This source is being worked on by another run ({who}). Wait for it to end, or stop it, then run again."

    def record(self, entries: Sequence[Entry]) -> list[Entry]:
        """Keep what a scan found; return the entries whose external id this scan has had already, which are not kept.

        A document that this run has sent already stays so while its fingerprint is the same.
        """
        seen = self._seen([entry.document.external_id for entry in entries])
        fresh: dict[str, Entry] = {}
        repeated: list[Entry] = []
        for entry in entries:
            external_id = entry.document.external_id
            if external_id in seen or external_id in fresh:
                repeated.append(entry)
            else:
                fresh[external_id] = entry
        with self.transaction() as connection:
            connection.executemany(_RECORD, [self._values(entry) for entry in fresh.values()])
        return repeated

    def _seen(self, external_ids: Sequence[str]) -> set[str]:
        rows = self.rows(
            "SELECT external_id FROM documents WHERE run_key = ? AND scan = ?"
            " AND external_id IN (SELECT value FROM json_each(?))",
            (self.run_key, self.scan, json.dumps(external_ids)),
        )
        return {str(row[0]) for row in rows}

    def _values(self, entry: Entry) -> tuple[object, ...]:
        document = entry.document
        return (
            self.run_key,
            document.external_id,
            bucket_of(document.external_id),
            self.scan,
            _packed(document),
            entry.size,
            entry.sha256,
            entry.fingerprint,
            entry.document_id,
        )

    def record_problems(self, problems: Iterable[Problem]) -> None:
        """Keep what of the source can't be a document."""
        values = [(self.run_key, item.place, item.external_id, item.code, item.message) for item in problems]
        with self.transaction() as connection:
            connection.executemany("INSERT INTO problems VALUES (?, ?, ?, ?, ?)", values)

    def forget_unseen(self) -> None:
        """Drop what an earlier scan of this run found and this one no longer did."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM documents WHERE run_key = ? AND scan <> ?", (self.run_key, self.scan))

    def fingerprints(self, *, after: str, limit: int) -> list[tuple[str, str]]:
        """Return up to `limit` (external id, fingerprint) behind `after`, in the order of the ids."""
        rows = self.rows(
            "SELECT external_id, fingerprint FROM documents WHERE run_key = ? AND external_id > ?"
            " ORDER BY external_id LIMIT ?",
            (self.run_key, after, limit),
        )
        return [(str(external_id), str(fingerprint)) for external_id, fingerprint in rows]

    def apply_plan(self, plan: Mapping[str, Action | State]) -> None:
        """Set each document to PLANNED with its action, to UNCHANGED or to FORBIDDEN.

        What this run has sent itself stays sent when the service says UNCHANGED.
        """
        sends = [(verdict, self.run_key, key) for key, verdict in plan.items() if isinstance(verdict, Action)]
        rests = [
            (verdict, *_EXCUSES[verdict], self.run_key, key) for key, verdict in plan.items() if verdict in _EXCUSES
        ]
        with self.transaction() as connection:
            connection.executemany(
                "UPDATE documents SET state = 'planned', action = ? WHERE run_key = ? AND external_id = ?", sends
            )
            connection.executemany(
                "UPDATE documents SET action = NULL, state = ?, error_code = ?, error_message = ?"
                " WHERE run_key = ? AND external_id = ? AND state NOT IN ('uploaded', 'indexed')",
                rests,
            )

    def skip_refused(self) -> None:
        """Set aside, without sending them, the documents that were refused for good and are still the same."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE documents SET state = 'failed', action = NULL, error_code = refused.error_code,"
                " error_message = refused.error_message FROM refusals AS refused WHERE run_key = ?"
                " AND state = 'planned' AND refused.external_id = documents.external_id"
                " AND refused.fingerprint = documents.fingerprint",
                (self.run_key,),
            )

    def identify(self, document_ids: Mapping[str, str]) -> None:
        """Keep the document ids that belong to external ids; those the source does not name are passed over."""
        values = [(document_id, self.run_key, key) for key, document_id in document_ids.items()]
        with self.transaction() as connection:
            connection.executemany("UPDATE documents SET document_id = ? WHERE run_key = ? AND external_id = ?", values)

    def plan_identified(self) -> None:
        """Plan every document that has an id; the others are in no catalog that this caller can read."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE documents SET state = 'planned', action = 'create'"
                " WHERE run_key = ? AND state = 'found' AND document_id IS NOT NULL",
                (self.run_key,),
            )
            connection.execute(
                "UPDATE documents SET state = 'failed', error_code = 'not_in_catalog', error_message ="
                " 'No document of this external id can be read by this caller. Upload it first.'"
                " WHERE run_key = ? AND state = 'found'",
                (self.run_key,),
            )

    def pending(self, *, partition: int, partitions: int, state: State = State.PLANNED) -> list[Entry]:
        """Return the partition's documents that are in `state`, by bucket."""
        first, end = bucket_range(partition, partitions=partitions)
        rows = self.rows(
            "SELECT payload, size, sha256, fingerprint, document_id FROM documents"
            " WHERE run_key = ? AND state = ? AND bucket >= ? AND bucket < ? ORDER BY bucket",
            (self.run_key, state, first, end),
        )
        return [_entry(*row) for row in rows]

    def sent(self, external_id: str, *, state: State, document_id: str, sent_bytes: int, fingerprint: str) -> None:
        """Keep that the service has acknowledged the document (`fingerprint`: of what was really sent)."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE documents SET state = ?, document_id = ?, sent_bytes = ?, fingerprint = ?, error_code = NULL,"
                " error_message = NULL WHERE run_key = ? AND external_id = ?",
                (state, document_id, sent_bytes, fingerprint, self.run_key, external_id),
            )
            connection.execute("DELETE FROM refusals WHERE external_id = ?", (external_id,))

    def settled(self, external_id: str) -> None:
        """Keep that an uploaded document can be searched now."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE documents SET state = 'indexed' WHERE run_key = ? AND external_id = ?",
                (self.run_key, external_id),
            )

    def failed(self, entry: Entry, *, state: State, code: str, message: str, for_good: bool) -> None:
        """Put a document into quarantine; `for_good`: later runs don't send it again while it is the same."""
        key = entry.document.external_id
        with self.transaction() as connection:
            connection.execute(
                "UPDATE documents SET state = ?, error_code = ?, error_message = ?"
                " WHERE run_key = ? AND external_id = ?",
                (state, code, message, self.run_key, key),
            )
            if for_good:
                connection.execute(
                    "INSERT OR REPLACE INTO refusals VALUES (?, ?, ?, ?)", (key, entry.fingerprint, code, message)
                )

    def counts(self) -> list[Count]:
        """Return the run's documents by state and action."""
        rows = self.rows(
            "SELECT state, action, count(*), sum(sent_bytes) FROM documents WHERE run_key = ? GROUP BY state, action",
            (self.run_key,),
        )
        return [
            Count(State(str(state)), Action(str(action)) if action else None, int(str(number)), int(str(sent)))
            for state, action, number, sent in rows
        ]

    def problem_count(self) -> int:
        """Return how many of the source's items can't be a document."""
        return int(str(self.rows("SELECT count(*) FROM problems WHERE run_key = ?", (self.run_key,))[0][0]))

    def failures(self, *, limit: int = -1) -> list[Failure]:
        """Return the quarantine: the source's problems in its order, then documents by external id; -1: all of it."""
        rows = self.rows(
            "SELECT place, external_id, code, message FROM"
            " (SELECT 0 AS part, rowid AS number, place, external_id, code, message FROM problems WHERE run_key = ?1"
            " UNION ALL SELECT 1, 0, json_extract(payload, '$.place'), external_id, coalesce(error_code, state),"
            " coalesce(error_message, '') FROM documents WHERE run_key = ?1 AND state IN ('failed', 'forbidden'))"
            " ORDER BY part, number, external_id LIMIT ?2",
            (self.run_key, limit),
        )
        return [Failure(*row) for row in rows]  # pyright: ignore[reportArgumentType] - the columns' types


_EXCUSES: Mapping[object, tuple[str | None, str | None]] = {
    State.UNCHANGED: (None, None),
    State.FORBIDDEN: ("external_id_taken", "The external id names a document that this caller may not update."),
}

_RECORD = """
INSERT INTO documents (run_key, external_id, bucket, scan, payload, size, sha256, fingerprint, document_id, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'found')
ON CONFLICT (run_key, external_id) DO UPDATE SET scan = excluded.scan, payload = excluded.payload,
    size = excluded.size, sha256 = excluded.sha256, fingerprint = excluded.fingerprint,
    document_id = coalesce(excluded.document_id, documents.document_id),
    state = CASE WHEN documents.fingerprint = excluded.fingerprint AND documents.state IN ('uploaded', 'indexed')
                 THEN documents.state ELSE 'found' END
"""


def _packed(document: SourceDocument) -> str:
    access = document.access
    members = {
        "path": str(document.path),
        "external_id": document.external_id,
        "name": document.name,
        "file_name": document.file_name,
        "access": access and [access.users, access.groups, access.internal_public],
        "metadata": dict(document.metadata),
        "collection": document.collection,
        "external_url": document.external_url,
        "place": document.place,
    }
    return json.dumps(members, ensure_ascii=True, separators=(",", ":"))


def _entry(payload: object, size: object, sha256: object, fingerprint: object, document_id: object) -> Entry:
    members: dict[str, Any] = json.loads(str(payload))
    access = members["access"]
    members["path"] = Path(members["path"])
    members["access"] = access and Access(tuple(access[0]), tuple(access[1]), access[2])
    return Entry(
        document=SourceDocument(**members),
        size=int(str(size)),
        sha256=bytes(sha256),  # pyright: ignore[reportArgumentType] - the column is a BLOB
        fingerprint=str(fingerprint),
        document_id=None if document_id is None else str(document_id),
    )
