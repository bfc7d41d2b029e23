"""The pace of indexing and the size of the backlog. Both decide whether uploads are refused."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from service.platform.errors import Unavailable
from service.platform.sharing import Figure, Share

# Before the first measurement, in chunks a second: the local model on two cores, and words on one core.
FIRST_PACE, FIRST_WORDS_PACE = 20.0, 100.0
SLOWEST_PACE = 0.5
SMOOTHING = 0.1
# The size of a chunk's packed text: about 250 English words.
FIRST_CHUNK_BYTES = 500.0
# Fewer documents are no backlog, however long: all are claimed at once anyway.
FEWEST_WAITING = 16
# A refused upload may return when the room is larger than the upload.
DRAINED = 0.9
LONGEST_RETRY_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Backlog:
    """An organization's backlog: `packed_bytes` of documents not yet cut into chunks, `chunks` of all others."""

    documents: int = 0
    packed_bytes: int = 0
    chunks: int = 0


@dataclass(slots=True)
class Pace:
    """The pace of the service's indexing in chunks per second, and the average length of a chunk."""

    chunks_per_second: float = FIRST_PACE
    chunk_bytes: float = FIRST_CHUNK_BYTES
    share: Share = field(default_factory=Share)
    figure: Figure = Figure.CHUNKS_PER_SECOND
    _chunks: int = 0
    _has_begun: bool = False

    def count(self, chunks: int) -> None:
        self._chunks += chunks

    def learn_length(self, *, packed_bytes: int, chunks: int) -> None:
        if chunks and packed_bytes:
            self.chunk_bytes += SMOOTHING * (packed_bytes / chunks - self.chunk_bytes)

    def sample(self, seconds: float, *, is_saturated: bool) -> None:
        """Update the pace by the last `seconds` if documents wait and a document was indexed since the start."""
        chunks, self._chunks = self._chunks, 0
        self.share.tell(self.figure, chunks / seconds)
        found = self.share.total(self.figure)
        self._has_begun = self._has_begun or found > 0
        if is_saturated and self._has_begun:
            self.chunks_per_second += SMOOTHING * min(seconds, 5) * (found - self.chunks_per_second)

    def chunks_in(self, backlog: Backlog) -> int:
        return backlog.chunks + math.ceil(backlog.packed_bytes / self.chunk_bytes)


@dataclass(slots=True)
class BackPressure:
    """Refuses an organization's work if its backlog takes more than `seconds` at its share of the pace."""

    seconds: float
    pace: Pace = field(default_factory=Pace)
    _backlogs: dict[UUID, Backlog] = field(default_factory=dict[UUID, Backlog])

    @property
    def documents(self) -> int:
        """The number of waiting documents of all organizations, as last measured."""
        return sum(backlog.documents for backlog in self._backlogs.values())

    def last_measured(self, organization_ids: Iterable[UUID]) -> dict[UUID, Backlog]:
        return {key: self._backlogs[key] for key in organization_ids if key in self._backlogs}

    def measure(self, backlogs: Mapping[UUID, Backlog]) -> None:
        """Replace all backlogs by measured backlogs; missing organizations have none."""
        self._backlogs = {key: backlog for key, backlog in backlogs.items() if backlog.documents}

    def add(self, organization_id: UUID, *, packed_bytes: int) -> None:
        known = self._backlogs.get(organization_id, Backlog())
        self._backlogs[organization_id] = Backlog(known.documents + 1, known.packed_bytes + packed_bytes, known.chunks)

    def pace_of(self, organization_id: UUID) -> float:
        sharing = len(self._backlogs.keys() | {organization_id})
        return max(self.pace.chunks_per_second, SLOWEST_PACE) / sharing

    def refused_seconds(self, organization_id: UUID) -> int | None:
        """Return the seconds until an upload should be retried; None while the backlog has room."""
        waiting = self._waiting_seconds(self._backlogs.get(organization_id), organization_id)
        if waiting <= self.seconds:
            return None
        return math.ceil(min(max(waiting - DRAINED * self.seconds, 1), LONGEST_RETRY_SECONDS))

    def refuse(self, organization_id: UUID) -> None:
        """Raise Unavailable `indexing_backlog`, with the seconds to wait, if an organization's backlog is too large."""
        seconds = self.refused_seconds(organization_id)
        if seconds is None:
            return
        backlog = self._backlogs[organization_id]
        minutes = math.ceil(self._waiting_seconds(backlog, organization_id) / 60)
        raise Unavailable(
            f"The service is busy indexing: {backlog.documents:,} documents of your organization wait, about "
            f"{minutes:,} min of work. Nothing of this request was kept. Try again in {seconds} s.",
            code="indexing_backlog",
            retry_after=seconds,
        )

    def _waiting_seconds(self, backlog: Backlog | None, organization_id: UUID) -> float:
        if backlog is None or backlog.documents < FEWEST_WAITING:
            return 0.0
        return self.pace.chunks_in(backlog) / self.pace_of(organization_id)
