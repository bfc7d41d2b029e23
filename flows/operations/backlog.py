"""What the service still has to index, and what a run waits for because of that, in words."""

import time
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from carrel import AsyncCarrel
from carrel.errors import APIError, CarrelError
from flows.operations.notes import notes_of

_FRESH_SECONDS = 3.0


class _Indexing(BaseModel):
    """The figures of `admin/status/get` that are wanted here; an older service leaves most of them out."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)

    running: int = 0
    waiting_documents: int | None = None
    waiting_chunks: int | None = None
    chunks_per_second: float | None = None


class _Status(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    indexing: _Indexing


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the organization still has to get indexed; `chunks` and `chunks_per_second` None: not known."""

    documents: int
    chunks: int | None = None
    chunks_per_second: float | None = None

    @property
    def seconds(self) -> float | None:
        """How long that takes at the pace of lately; None: nobody knows."""
        if self.chunks is None or not self.chunks_per_second:
            return None
        return self.chunks / self.chunks_per_second


class BacklogReader:
    """Reads the service's backlog every few seconds at most; whose key may not is told so once and asks no more."""

    def __init__(self, client: AsyncCarrel) -> None:
        self._client = client.with_options(max_retries=0, timeout=10.0)
        self._read_at = float("-inf")
        self._known: Backlog | None = None
        self._is_refused = False

    async def read(self) -> Backlog | None:
        """Return the backlog, or None where this caller can't see any."""
        if self._is_refused or time.monotonic() - self._read_at < _FRESH_SECONDS:
            return self._known
        self._read_at = time.monotonic()
        try:
            response = await self._client.admin.status.with_raw_response.get()
            found = _Status.model_validate_json(response.content).indexing
        except APIError as exc:
            self._is_refused = exc.status in {401, 403, 404}
            self._known = None
        except (CarrelError, ValidationError):
            self._known = None
        else:
            number = found.running if found.waiting_documents is None else found.waiting_documents
            self._known = Backlog(number, found.waiting_chunks, found.chunks_per_second)
        return self._known


class BusyNotice:
    """Keeps, for whoever shows the progress of a run, what a busy service makes the run wait for."""

    def __init__(self, client: AsyncCarrel, ledger: str) -> None:
        self._reader = BacklogReader(client)
        self._notes = notes_of(ledger)

    async def begin(self, error: APIError, *, seconds: float) -> None:
        """Keep what the service says; of a backlog of its indexing, how much is ahead as well."""
        if error.code != "indexing_backlog":
            self._notes.waiting_for = f"waiting for the service: {error.message} (asking again in {seconds:.0f} s)"
            return
        backlog = await self._reader.read()
        self._notes.waiting_for = (
            ahead_text(backlog) if backlog else f"waiting for the service to index: {error.message}"
        )

    def end(self) -> None:
        """Keep that the run waits no more."""
        self._notes.waiting_for = ""


def ahead_text(backlog: Backlog) -> str:
    """Say how much the service has to index before it takes more, and how long that takes."""
    time_left = "" if backlog.seconds is None else f", {duration_text(backlog.seconds)}"
    return f"waiting for the service to index: {counted(backlog.documents, 'document')} ahead{time_left}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration_text(seconds: float) -> str:
    """Return about how long something takes, as people say it."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min"
    return f"about {round(seconds / 3600)} h"
