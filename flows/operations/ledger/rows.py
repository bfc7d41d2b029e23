"""The values stored by the ledger, and the conversion to rows of tables."""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, astuple, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from carrel.wire.catalog import ContainedFiles
from flows.operations.sources.documents import Access, Problem, SourceDocument, StoredObject, encode, key_of

if TYPE_CHECKING:
    from sqlalchemy import Row


class State(StrEnum):
    """A document's progress: FORBIDDEN and FAILED in quarantine, UPLOADED without index, KEPT only in the catalog."""

    FOUND = "found"
    PLANNED = "planned"
    UNCHANGED = "unchanged"
    FORBIDDEN = "forbidden"
    UPLOADED = "uploaded"
    INDEXED = "indexed"
    FAILED = "failed"
    IGNORED = "ignored"
    DELETED = "deleted"
    KEPT = "kept"


class Action(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Count(NamedTuple):
    """Documents in a state with an action, their bytes sent, unread parts and waiting pages, and files `contained`."""

    state: State
    action: Action | None
    documents: int
    sent_bytes: int
    partly_read: int
    pages_waiting: int
    contained: str = ""


FIRST = bytes(16)
"""Sorts before every key (except the key of a text in 2**128)."""
LAST = b"\xff" * 16


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a source, by the keys of its rows; `claim` is the right to write (flows.operations.ledger.tables)."""

    source_id: int = 0
    run_id: int = 0
    scan: int = 0
    key: str = ""
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A document in the ledger: ready to send, with file digest and fingerprint."""

    document: SourceDocument
    size: int
    sha256: bytes
    fingerprint: str
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class Digest:
    """The SHA-256 of contents, read at `taken_at_ns` since the epoch; valid while size and `marker` are unchanged."""

    size: int
    marker: str
    sha256: bytes
    taken_at_ns: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A quarantined item with a reason; `since` is in seconds since the epoch, `fingerprint` from that time."""

    place: str
    external_id: str | None
    code: str
    message: str
    since: float
    ignored: bool
    fingerprint: str


LONGEST_TEXT = 4096
"""The longest text, in characters, accepted by the service for an item or a source."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The quarantined items to send again: the named items (SourceItem.name), or all."""

    names: frozenset[str] = frozenset()

    def concerns(self, names: set[str]) -> bool:
        return not self.names or not self.names.isdisjoint(names)


@dataclass(frozen=True, slots=True)
class Missing:
    """A document sent by the source and now missing there; `intended`: fingerprint of a possible earlier sending."""

    external_id: str
    document_id: str | None
    fingerprint: str | None
    intended: str | None


def values_of(entry: Entry, key: bytes, run: Run) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "key": key,
        "external_id": entry.document.external_id,
        "scan": run.scan,
        "payload": pack(entry.document),
        "size": entry.size,
        "sha256": entry.sha256,
        "fingerprint": entry.fingerprint,
        "document_id": entry.document_id,
        "state": State.FOUND,
        "action": None,
    }


def entry_of(row: "Row[Any]") -> Entry:
    members: dict[str, Any] = json.loads(row.payload)
    access = members["access"]
    members["access"] = access and Access(tuple(access[0]), tuple(access[1]), access[2])
    members["stored"] = members.get("stored") and StoredObject(*members["stored"])
    document = SourceDocument(external_id=row.external_id, **members)
    return Entry(document, row.size, bytes(row.sha256), row.fingerprint, row.document_id)


def pack(document: SourceDocument) -> str:
    access = document.access
    members: dict[str, Any] = {
        "path": document.path,
        "name": document.name,
        "file_name": document.file_name,
        "access": access and [access.users, access.groups, access.internal_public],
        "metadata": dict(document.metadata),
        "collection": document.collection,
        "external_url": document.external_url,
        "place": document.place,
        "stored": document.stored and astuple(document.stored),
    }
    if document.read_pictures is not None:
        members["read_pictures"] = document.read_pictures
    return encode(members)


def deletion_of(missing: Missing) -> Entry:
    name = missing.external_id
    document = SourceDocument(path="", external_id=name, name=name.rpartition("/")[2], file_name=name, place=name)
    return Entry(document, 0, b"", missing.fingerprint or missing.intended or "", missing.document_id)


def problem_values(problem: Problem, run: Run, *, position: int) -> dict[str, Any]:
    """Return a problem as a row of the quarantine; a new code or new words make it a new problem."""
    said = storable(f"{problem.code}\n{problem.message}")
    return {
        **_quarantine_values(run, place=problem.place, code=problem.code, message=problem.message),
        "part": 0,
        "key": key_of(storable(problem.place)),
        "position": position,
        "external_id": problem.external_id and storable(problem.external_id),
        "fingerprint": hashlib.sha256(said.encode()).hexdigest(),
    }


def failure_values(entry: Entry, run: Run, *, code: str, message: str) -> dict[str, Any]:
    document = entry.document
    return {
        **_quarantine_values(run, place=document.place, code=code, message=message),
        "part": 1,
        "key": key_of(document.external_id),
        "position": 0,
        "external_id": document.external_id,
        "fingerprint": entry.fingerprint,
    }


def _quarantine_values(run: Run, *, place: str, code: str, message: str) -> dict[str, Any]:
    return {
        "source_id": run.source_id,
        "scan": run.scan,
        "place": storable(place),
        "code": code,
        "message": storable(message),
        "for_good": False,
        "ignored": False,
        "since": time.time(),
    }


def storable(text: str) -> str:
    """Return a text accepted by every database: lone surrogates written out, and no NUL."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


@dataclass(frozen=True, slots=True)
class Sent:
    """The service's response to a document; UPLOADED: not searchable yet. `fingerprint` is of the sent contents."""

    state: State
    document_id: str
    sent_bytes: int
    fingerprint: str
    parts_not_read: int = 0
    pages_waiting: int = 0
    contained: ContainedFiles | None = None

    def as_row(self) -> dict[str, Any]:
        return asdict(self) | {"contained": "" if self.contained is None else self.contained.model_dump_json()}


Send = Callable[[Entry], Awaitable[Sent]]
"""Sends a document; safe to repeat."""
