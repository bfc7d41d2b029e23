"""The result of a run: counts that add up, for people and for machines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from carrel.wire.catalog import ContainedFiles
from flows.operations.formatting import count_text
from flows.operations.ledger.rows import Action, Count, State

if TYPE_CHECKING:
    from flows.operations.ledger.ledger import Ledger

SHOWN = 100
"""Documents named of each kind; a CSV file names all."""
GONE, TO_DELETE, FAILED = "Gone from the source, kept", "To delete", "Failed"
CREATED, UPDATED, DELETED = "Created", "Updated", "Deleted"
"""The kinds of named documents."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's counts at some moment; at the end, the result.

    `documents` of the source are created, updated, unchanged, forbidden, failed, or still `waiting` to be sent. Of the
    documents in the catalog, `indexing` can't be searched yet. Parts of `partly_read` documents, such as pictures, were
    not read: see each document's page. `pages_waiting` counts scanned pages and pictures left to read after sending.
    `problems` are items that can't be a document. `containers` are sent archives and mails, `contained_files` the files
    in them at any depth: `contained_waiting` are still to be read, `contained_left_out` were left out, by reason, and
    `contained_unindexed` became documents but could not be indexed. `ignored` were ignored by a person. `to_delete` are
    no longer in the source: `deleted` are gone and `undeleted` could not be deleted. `left` stay because they were
    changed since, or are in another source; `gone` stay because deletion is off; `left_out` stay because this run
    excludes them. `held_back` is the reason why nothing is deleted; `to_delete` is then an estimate."""

    documents: int = 0
    to_send: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    forbidden: int = 0
    failed: int = 0
    waiting: int = 0
    indexing: int = 0
    partly_read: int = 0
    pages_waiting: int = 0
    containers: int = 0
    contained_files: int = 0
    contained_waiting: int = 0
    contained_unindexed: int = 0
    contained_left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    problems: int = 0
    sent_bytes: int = 0
    ignored: int = 0
    to_delete: int = 0
    deleted: int = 0
    undeleted: int = 0
    left: int = 0
    gone: int = 0
    left_out: int = 0
    held_back: str = ""

    @property
    def sent(self) -> int:
        return self.created + self.updated

    @property
    def quarantined(self) -> int:
        """The number of items missing in the catalog, each with a reason in the quarantine."""
        return self.forbidden + self.failed + self.problems + self.undeleted

    @property
    def complete(self) -> bool:
        return not self.quarantined and not self.held_back

    @property
    def progress(self) -> float:
        """The finished share of the work, 0 to 100 (percent): files in archives and mails count as documents."""
        whole = self.to_send + self.contained_files + (0 if self.held_back else self.to_delete)
        done = self.to_send - self.waiting + self.deleted + self.undeleted
        done += self.contained_files - self.contained_waiting
        return 100.0 * done / whole if whole else 100.0

    def as_json(self) -> dict[str, Any]:
        derived = {"sent": self.sent, "quarantined": self.quarantined, "progress": round(self.progress, 1)}
        return asdict(self) | derived

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> "Summary":
        """Read the counts from `as_json`; unknown members are ignored."""
        others = {"held_back", "contained_left_out"}
        numbers = {name: int(members[name]) for name in cls.__slots__ if name in members and name not in others}
        left_out: Mapping[str, int] = members.get("contained_left_out") or {}
        return cls(**numbers, contained_left_out=left_out, held_back=str(members.get("held_back", "")))

    def contained_text(self) -> str:
        """Describe the progress of files in archives and mails, for people; empty without containers."""
        if not self.containers:
            return ""
        found = ContainedFiles(
            files=self.contained_files,
            waiting=self.contained_waiting,
            documents=0,
            indexing=0,
            indexing_failed=self.contained_unindexed,
            left_out=dict(self.contained_left_out),
        )
        return f"{count_text(self.containers, 'archive or email', 'archives and emails')}: {found}"

    def coming_text(self) -> str:
        """Describe the service's remaining work after the end, for people; empty when all is done."""
        coming = [
            (self.contained_waiting, "file in archives and emails to read", "files in archives and emails to read"),
            (self.indexing, "document to finish indexing", "documents to finish indexing"),
            (self.pages_waiting, "scanned page or picture to read", "scanned pages or pictures to read"),
        ]
        return ", ".join(count_text(number, single, many) for number, single, many in coming if number)

    def text(self) -> str:
        parts = [
            f"{self.created} created",
            f"{self.updated} updated",
            f"{self.unchanged} unchanged",
            f"{self.quarantined} in quarantine",
        ]
        pages = ("scanned page or picture is still being read", "scanned pages or pictures are still being read")
        others = {
            "gone from the source, kept": self.gone,
            "changed by others or in another source, kept": self.left,
            "sent before and now skipped, kept": self.left_out,
            "ignored": self.ignored,
            "not sent": self.waiting,
            "still being indexed": self.indexing,
            "read only in part": self.partly_read,
        }
        if self.to_delete:
            parts.append(f"{self.deleted} of {self.to_delete} deleted")
        parts += [f"{number} {words}" for words, number in others.items() if number]
        if self.pages_waiting:
            parts.append(count_text(self.pages_waiting, *pages))
        found = self.documents + self.problems
        documents = f"{found} document{'' if found == 1 else 's'}"
        text = f"{documents}: {', '.join(parts)}; {_size_text(self.sent_bytes)} sent"
        return ". ".join(filter(None, (text, self.contained_text(), self.held_back)))


def summarize(ledger: "Ledger") -> Summary:
    """Count the documents, problems and deletions of the ledger's run. Raises LedgerError."""
    everything = ledger.counts()
    counts = [count for count in everything if count.action is not Action.DELETE]
    deletions = Counter[State]()
    for count in everything:
        deletions[count.state] += count.documents if count.action is Action.DELETE else 0
    undeleted, deleted = deletions[State.FAILED] + deletions[State.FORBIDDEN], deletions[State.DELETED]
    held_back = ledger.blocked_reason()
    # Marked documents are undecided until the guard has seen all of them.
    held = deletions[State.FOUND] if held_back else 0

    def number(*states: State, action: Action | None = None) -> int:
        return sum(c.documents for c in counts if c.state in states and action in (None, c.action))

    done = (State.UPLOADED, State.INDEXED)
    asked_after = sum(c.documents for c in counts if c.state in done and c.action is None)
    return Summary(
        documents=sum(count.documents for count in counts),
        to_send=sum(count.documents for count in counts if count.action is not None),
        created=number(*done, action=Action.CREATE),
        updated=number(*done, action=Action.UPDATE),
        unchanged=number(State.UNCHANGED) + asked_after,
        forbidden=number(State.FORBIDDEN),
        failed=number(State.FAILED),
        waiting=number(State.FOUND, State.PLANNED),
        indexing=number(State.UPLOADED),
        partly_read=sum(count.partly_read for count in counts),
        pages_waiting=sum(count.pages_waiting for count in counts),
        **_count_contained(counts),
        problems=ledger.problem_count(),
        sent_bytes=sum(count.sent_bytes for count in counts),
        ignored=number(State.IGNORED) + ledger.problem_count(ignored=True),
        to_delete=deletions[State.PLANNED] + held + deleted + undeleted,
        deleted=deleted,
        undeleted=undeleted,
        left=deletions[State.UNCHANGED],
        gone=deletions[State.KEPT],
        left_out=deletions[State.IGNORED],
        held_back=held_back,
    )


def _count_contained(counts: Sequence[Count]) -> dict[str, Any]:
    found = [(ContainedFiles.model_validate_json(each.contained), each.documents) for each in counts if each.contained]
    left_out = Counter[str]()
    for files, containers in found:
        left_out.update({code: number * containers for code, number in files.left_out.items()})
    return {
        "containers": sum(containers for _, containers in found),
        "contained_files": sum(files.files * containers for files, containers in found),
        "contained_waiting": sum(files.waiting * containers for files, containers in found),
        "contained_unindexed": sum(files.indexing_failed * containers for files, containers in found),
        "contained_left_out": dict(left_out.most_common()),
    }


def _size_text(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
