"""The service's indexing backlog, and texts about what a run waits for because of it."""

import time
from dataclasses import dataclass

from carrel import AsyncCarrel
from carrel.errors import APIConnectionError, APIError, CarrelError
from carrel.wire.oversight import AdminStatusGetResponse, StorageLevel
from flows.operations.formatting import count_text, duration_text
from flows.operations.notes import notes_of

_FRESH_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """The organization's indexing backlog; `chunks` and `chunks_per_second` are None when unknown.

    `is_paused`: a disk of the service is short of room, so that nothing is indexed until somebody makes room.
    """

    documents: int
    chunks: int | None = None
    chunks_per_second: float | None = None
    is_paused: bool = False

    @classmethod
    def of(cls, status: AdminStatusGetResponse) -> "Backlog":
        """Read the backlog from the service's status; an older service gives less."""
        indexing = status.indexing
        return cls(
            indexing.running if indexing.waiting_documents is None else indexing.waiting_documents,
            indexing.waiting_chunks,
            indexing.chunks_per_second,
            is_paused=any(disk.level is not StorageLevel.OK for disk in status.storage),
        )

    @property
    def seconds(self) -> float | None:
        """The seconds until it is indexed at the present pace; None when unknown."""
        if self.chunks is None or not self.chunks_per_second:
            return None
        return self.chunks / self.chunks_per_second


class BacklogReader:
    """Reads the service's backlog every few seconds at most, and not again once the key isn't allowed to."""

    def __init__(self, client: AsyncCarrel) -> None:
        self._client = client.with_options(max_retries=0, timeout=10.0)
        self._read_at = float("-inf")
        self._known: Backlog | None = None
        self._is_refused = False

    async def read(self) -> Backlog | None:
        """Return the backlog, or None when this caller can't read it."""
        if self._is_refused or time.monotonic() - self._read_at < _FRESH_SECONDS:
            return self._known
        self._read_at = time.monotonic()
        try:
            self._known = Backlog.of(await self._client.admin.status.get())
        except APIError as exc:
            self._is_refused = exc.status in {401, 403, 404}
            self._known = None
        except CarrelError:
            self._known = None
        return self._known


class BusyNotice:
    """Notes, for the progress of a run, why a service that is busy or away makes the run wait."""

    def __init__(self, client: AsyncCarrel, ledger: str) -> None:
        self._reader = BacklogReader(client)
        self._notes = notes_of(ledger)

    async def begin(self, error: APIConnectionError | APIError, *, seconds: float) -> None:
        """Note the service's message, with the size of its indexing backlog if that is the reason."""
        said = error.message if isinstance(error, APIError) else str(error)
        if isinstance(error, APIError) and error.code == "indexing_backlog":
            backlog = await self._reader.read()
            text = ahead_text(backlog) if backlog else f"waiting for the service to index: {said}"
        else:
            text = f"waiting for the service: {said} (asking again in {seconds:.0f} s)"
        self._notes.begin_wait(self, text)

    def end(self) -> None:
        """Note that this part of the run no longer waits."""
        self._notes.end_wait(self)


def ahead_text(backlog: Backlog) -> str:
    """Return a text that says how much the service indexes before it accepts more, and how long that takes."""
    time_left = "" if backlog.seconds is None else f", {duration_text(backlog.seconds)}"
    return f"waiting for the service to index: {count_text(backlog.documents, 'document')} ahead{time_left}"
