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
"""How many documents of a kind are named; a CSV file names all."""
GONE, TO_DELETE, FAILED = "Gone from the source, kept", "To delete", "Failed"
CREATED, UPDATED, DELETED = "Created", "Updated", "Deleted"
"""What a named document is counted as."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's counts at some moment; at its end they are its result.

    `documents` of the source are created, updated, unchanged, forbidden, failed, or still `waiting` to be sent;
    `indexing` of those in the catalog can't be searched yet, and of `partly_read`, which were sent, some parts were not
    read, such as pictures: each document's page says which. `pages_waiting` scanned pages and pictures were still to
    be read when their documents had been sent. `problems` are items that can't be a document.
    Of `containers`, archives and mails that were sent, `contained_files` are the files, those in archives in them too:
    `contained_waiting` are still to be read, and of the others these were `contained_left_out`, by reason;
    `contained_unindexed` became documents that could not be indexed.
    `ignored` were set aside by a person. Of `to_delete`, which the source no longer has, `deleted` are gone and
    `undeleted` could not be deleted; `left` were changed by others since, or are in another source, so they stay, and
    so do the `gone`, since nothing is to be deleted, and the `left_out`, which this run excludes.
    `held_back` says why nothing is deleted; `to_delete` are then those that would be, as far as that can be known."""

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
        """The number of items that did not get into the catalog, each with its reason in the quarantine."""
        return self.forbidden + self.failed + self.problems + self.undeleted

    @property
    def complete(self) -> bool:
        """Whether nothing is in quarantine and nothing was held back; else the exit code is 1."""
        return not self.quarantined and not self.held_back

    @property
    def progress(self) -> float:
        """The share of the work that is done, 0 to 100 (percent): files in archives and mails count as documents do."""
        whole = self.to_send + self.contained_files + (0 if self.held_back else self.to_delete)
        done = self.to_send - self.waiting + self.deleted + self.undeleted
        done += self.contained_files - self.contained_waiting
        return 100.0 * done / whole if whole else 100.0

    def as_json(self) -> dict[str, Any]:
        derived = {"sent": self.sent, "quarantined": self.quarantined, "progress": round(self.progress, 1)}
        return asdict(self) | derived

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> "Summary":
        """Read the counts that `as_json` gave; unknown members are ignored."""
        others = {"held_back", "contained_left_out"}
        numbers = {name: int(members[name]) for name in cls.__slots__ if name in members and name not in others}
        left_out: Mapping[str, int] = members.get("contained_left_out") or {}
        return cls(**numbers, contained_left_out=left_out, held_back=str(members.get("held_back", "")))

    def contained_text(self) -> str:
        """Return how far the files in archives and mails are, for people; empty where there are none."""
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
        return f"{count_text(self.containers, 'archive or mail', 'archives and mails')}: {found}"

    def coming_text(self) -> str:
        """Return what the service still does by itself after the run has ended, for people; empty where all is done."""
        coming = [
            (self.contained_waiting, "file in archives and mails to read", "files in archives and mails to read"),
            (self.indexing, "document to finish indexing", "documents to finish indexing"),
            (self.pages_waiting, "scanned page or picture to read", "scanned pages or pictures to read"),
        ]
        return ", ".join(count_text(number, one, many) for number, one, many in coming if number)

    def text(self) -> str:
        parts = [
            f"{self.created} created",
            f"{self.updated} updated",
            f"{self.unchanged} unchanged",
            f"{self.quarantined} in quarantine",
        ]
        pages = ("scanned page or picture is still being read", "scanned pages or pictures are still being read")
        others = {
            "gone from the source, which stay": self.gone,
            "changed by others or in another source, left alone": self.left,
            "sent before and left out now, which stay": self.left_out,
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
        text = f"{documents}: {', '.join(parts)}; {_readable(self.sent_bytes)} sent"
        return ". ".join(filter(None, (text, self.contained_text(), self.held_back)))


def summarize(ledger: "Ledger") -> Summary:
    everything = ledger.counts()
    counts = [count for count in everything if count.action is not Action.DELETE]
    deletions = Counter[State]()
    for count in everything:
        deletions[count.state] += count.documents if count.action is Action.DELETE else 0
    undeleted, deleted = deletions[State.FAILED] + deletions[State.FORBIDDEN], deletions[State.DELETED]
    held_back = ledger.blocked_reason()
    # What is marked is not decided on before the guard has seen all of it.
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


def _readable(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
