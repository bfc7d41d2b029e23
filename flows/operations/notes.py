"""What a run of this process tells while it goes on, beside what its ledger keeps."""

from dataclasses import dataclass, field

from flows.operations.scan import Scanned


@dataclass(slots=True)
class RunNotes:
    """A run's notes: `waiting_for` says what holds it up right now, in words; `scanned` is what its scan found."""

    waiting_for: str = ""
    scanned: Scanned = field(default_factory=Scanned)


_notes: dict[str, RunNotes] = {}


def notes_of(ledger: str) -> RunNotes:
    """Return the notes of this process's run on the ledger of this name."""
    return _notes.setdefault(ledger, RunNotes())
