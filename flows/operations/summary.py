"""What a run came to: counts that add up, for people and for machines."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from flows.operations.states import Action, State

if TYPE_CHECKING:
    from flows.operations.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's counts at some moment; at its end they are its result.

    `documents` of the source are created, updated, unchanged, forbidden, failed, or still `waiting` to be sent;
    `indexing` of the created and updated can't be searched yet. `problems` are items that can't be a document.
    """

    documents: int = 0
    to_send: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    forbidden: int = 0
    failed: int = 0
    waiting: int = 0
    indexing: int = 0
    problems: int = 0
    sent_bytes: int = 0

    @property
    def sent(self) -> int:
        """Documents the service has acknowledged."""
        return self.created + self.updated

    @property
    def quarantined(self) -> int:
        """All that did not get into the catalog as the source has it, each with its reason in the quarantine."""
        return self.forbidden + self.failed + self.problems

    @property
    def progress(self) -> float:
        """How much of what is to be sent is done, 0 to 100 (percent)."""
        return 100.0 if not self.to_send else 100.0 * (self.to_send - self.waiting) / self.to_send

    def as_json(self) -> dict[str, Any]:
        """Return the counts as JSON members."""
        return asdict(self) | {"sent": self.sent, "quarantined": self.quarantined, "progress": round(self.progress, 1)}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> "Summary":
        """Return the counts that `as_json` gave; members that are not known are passed over."""
        return cls(**{name: int(members[name]) for name in cls.__slots__ if name in members})

    def text(self) -> str:
        """Return the counts in one line, for people."""
        parts = [
            f"{self.created} created",
            f"{self.updated} updated",
            f"{self.unchanged} unchanged",
            f"{self.quarantined} in quarantine",
        ]
        if self.waiting:
            parts.append(f"{self.waiting} not sent")
        if self.indexing:
            parts.append(f"{self.indexing} still being indexed")
        found = self.documents + self.problems
        documents = f"{found} document{'' if found == 1 else 's'}"
        return f"{documents}: {', '.join(parts)}; {_readable(self.sent_bytes)} sent"


def summarize(ledger: "Ledger") -> Summary:
    """Count the run of this ledger, at any moment of it."""
    counts = ledger.counts()

    def number(*states: State, action: Action | None = None) -> int:
        return sum(c.documents for c in counts if c.state in states and action in (None, c.action))

    done = (State.UPLOADED, State.INDEXED)
    return Summary(
        documents=sum(count.documents for count in counts),
        to_send=sum(count.documents for count in counts if count.action is not None),
        created=number(*done, action=Action.CREATE),
        updated=number(*done, action=Action.UPDATE),
        unchanged=number(State.UNCHANGED),
        forbidden=number(State.FORBIDDEN),
        failed=number(State.FAILED),
        waiting=number(State.FOUND, State.PLANNED),
        indexing=number(State.UPLOADED),
        problems=ledger.problem_count(),
        sent_bytes=sum(count.sent_bytes for count in counts),
    )


def _readable(size: int) -> str:
    """Return a number of bytes as people read it."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
