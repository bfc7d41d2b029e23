"""The service's indexing backlog, and a run's notes about its waits."""

import time
from dataclasses import dataclass, field

from carrel import AsyncCarrel
from carrel.errors import APIConnectionError, APIError, CarrelError
from carrel.wire.oversight import AdminStatusGetResponse, StorageLevel
from flows.operations.formatting import count_text, duration_text
from flows.operations.scan import Scanned

_MOST_KEPT = 100  # runs whose notes a ledger keeps


@dataclass(slots=True)
class RunNotes:
    """A run's notes: the scan's result, the present waits by part, and `remarks`, which don't fail the run."""

    scanned: Scanned = field(default_factory=Scanned)
    remarks: list[str] = field(default_factory=list[str])
    waits: dict[object, str] = field(default_factory=dict[object, str])

    @property
    def newest_wait(self) -> str:
        return next(reversed(self.waits.values()), "")


_notes: dict[str, RunNotes] = {}


def notes_of(ledger: str) -> RunNotes:
    """Return this process's notes of the run on a ledger, or new notes; the last hundred ledgers used keep theirs."""
    notes = _notes[ledger] = _notes.pop(ledger, None) or RunNotes()
    if len(_notes) > _MOST_KEPT:
        del _notes[next(iter(_notes))]
    return notes


_FRESH_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """The indexing backlog (None: unknown). `is_paused`: for disk space; `without_meaning`: already found by words."""

    documents: int
    chunks: int | None = None
    chunks_per_second: float | None = None
    is_paused: bool = False
    without_meaning: int = 0

    @classmethod
    def of(cls, status: AdminStatusGetResponse) -> "Backlog":
        """Read the backlog from the service's status; older services report fewer fields."""
        indexing = status.indexing
        return cls(
            indexing.running if indexing.waiting_documents is None else indexing.waiting_documents,
            indexing.waiting_chunks,
            indexing.chunks_per_second,
            is_paused=any(disk.level is not StorageLevel.OK for disk in status.storage),
            without_meaning=indexing.without_meaning or 0,
        )

    @property
    def seconds(self) -> float | None:
        """Return the seconds until the backlog is indexed at the present pace; None when unknown."""
        return None if self.chunks is None or not self.chunks_per_second else self.chunks / self.chunks_per_second


class BacklogReader:
    """Reads the service's backlog every few seconds at most, and never again after the key is refused."""

    def __init__(self, client: AsyncCarrel) -> None:
        self._client = client.with_options(max_retries=0, timeout=10.0)
        self._read_at = float("-inf")
        self._known: Backlog | None = None
        self._is_refused = False

    async def read(self) -> Backlog | None:
        """Return the backlog, at most three seconds old, or None if the caller can't read it."""
        if self._is_refused or time.monotonic() - self._read_at < _FRESH_SECONDS:
            return self._known
        self._read_at = time.monotonic()
        try:
            self._known = Backlog.of(await self._client.admin.status.get())
        except CarrelError as exc:
            self._known, self._is_refused = None, getattr(exc, "status", 0) in {401, 403, 404}
        return self._known


class BusyNotice:
    """Notes, for the progress of a run, why a busy or unreachable service makes the run wait."""

    def __init__(self, client: AsyncCarrel, ledger: str) -> None:
        self._reader = BacklogReader(client)
        self._notes = notes_of(ledger)

    async def begin(self, error: APIConnectionError | APIError, *, seconds: float) -> None:
        said = error.message if isinstance(error, APIError) else str(error)
        if isinstance(error, APIError) and error.code == "indexing_backlog":
            if (backlog := await self._reader.read()) is not None:
                time_left = "" if backlog.seconds is None else f", {duration_text(backlog.seconds)}"
                said = f"{count_text(backlog.documents, 'document')} ahead{time_left}"
            text = f"waiting for the service to index: {said}"
        else:
            text = f"waiting for the service: {said} (asking again in {seconds:.0f} s)"
        self._notes.waits[self] = text

    def end(self) -> None:
        self._notes.waits.pop(self, None)
