"""What a run of this process tells while it goes on, beside what its ledger keeps."""

from dataclasses import dataclass, field

from flows.operations.scan import Scanned

_MOST_KEPT = 100  # of the latest runs: what is told of older ones is in their ledgers


@dataclass(slots=True)
class RunNotes:
    """A run's notes: what holds its parts up right now, in words; `scanned` is what its scan found."""

    scanned: Scanned = field(default_factory=Scanned)
    _waits: dict[object, str] = field(default_factory=dict[object, str])

    @property
    def waiting_for(self) -> str:
        """What holds the run up right now, as the part that began to wait last says it; nothing when no part waits."""
        return next(reversed(self._waits.values()), "")

    def begin_wait(self, part: object, text: str) -> None:
        """Keep what a part of the run waits for, instead of what that part has waited for before."""
        self._waits[part] = text

    def end_wait(self, part: object) -> None:
        """Keep that a part of the run waits no more; the others may."""
        self._waits.pop(part, None)


_notes: dict[str, RunNotes] = {}


def notes_of(ledger: str) -> RunNotes:
    """Return the notes of this process's run on the ledger of this name."""
    notes = _notes[ledger] = _notes.pop(ledger, None) or RunNotes()
    if len(_notes) > _MOST_KEPT:
        del _notes[next(iter(_notes))]
    return notes
