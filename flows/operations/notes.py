"""What a run of this process tells while it goes on, beside what its ledger keeps."""

from dataclasses import dataclass, field

from flows.operations.scan import Scanned

_MOST_KEPT = 100  # of the latest runs: what is told of older ones is in their ledgers


@dataclass(slots=True)
class RunNotes:
    """A run's notes: the texts about what its parts wait for; `scanned` is the result of its scan.

    `remarks` are sentences that belong into its words, and are no reason to fail.
    """

    scanned: Scanned = field(default_factory=Scanned)
    remarks: list[str] = field(default_factory=list[str])
    _waits: dict[object, str] = field(default_factory=dict[object, str])

    @property
    def waiting_for(self) -> str:
        """The text of the part that began to wait last; empty when no part waits."""
        return next(reversed(self._waits.values()), "")

    def begin_wait(self, part: object, text: str) -> None:
        """Note what a part of the run waits for, in place of its earlier text."""
        self._waits[part] = text

    def end_wait(self, part: object) -> None:
        """Note that a part of the run no longer waits; others may."""
        self._waits.pop(part, None)


_notes: dict[str, RunNotes] = {}


def notes_of(ledger: str) -> RunNotes:
    """Return the notes of this process's run on the ledger of this name."""
    notes = _notes[ledger] = _notes.pop(ledger, None) or RunNotes()
    if len(_notes) > _MOST_KEPT:
        del _notes[next(iter(_notes))]
    return notes
