"""Memory shared by forked workers, without locks a killed process could hold: readers add up each worker's cells."""

import hashlib
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum, auto
from mmap import mmap
from struct import Struct


class Figure(IntEnum):
    CONNECTIONS_OPEN = 0
    CONNECTIONS_MOST = auto()
    CONNECTIONS_REFUSED = auto()
    CONNECTIONS_EVICTED = auto()
    CONNECTIONS_PRESSED_AT = auto()
    CHUNKS_PER_SECOND = auto()
    WORDS_PER_SECOND = auto()
    WORDS_AWAITED = auto()
    SEARCHES_RUNNING = auto()
    BYTES_PROMISED = auto()
    RERANKED_AT = auto()
    NOT_RERANKED_AT = auto()
    TIMELINE = auto()
    OLDER_PRIMARY_AT = auto()
    UNCONFIRMED_AT = auto()
    # Figures of the service as a whole.
    ARCHIVED_AT = auto()
    BACKED_UP_AT = auto()


# Counters since a worker's start, which stay when the worker ends.
_KEPT = (Figure.CONNECTIONS_REFUSED, Figure.CONNECTIONS_EVICTED)
# Figures that only rise: the greatest of all workers counts.
_HIGHEST = (Figure.TIMELINE, Figure.OLDER_PRIMARY_AT, Figure.UNCONFIRMED_AT)


class Figures:
    """The workers' figures: a row per worker, and a last row for figures without a worker."""

    def __init__(self, workers: int) -> None:
        self._rows = workers + 1
        self._cells = memoryview(mmap(-1, self._rows * len(Figure) * 8)).cast("d")

    def write(self, worker: int, figure: Figure, value: float) -> None:
        self._cells[worker * len(Figure) + figure] = value

    def write_common(self, figure: Figure, value: float) -> None:
        self.write(self._rows - 1, figure, value)

    def read(self, figure: Figure) -> list[float]:
        return [self._cells[row * len(Figure) + figure] for row in range(self._rows)]

    def clear(self, worker: int) -> None:
        """Reset an ended worker's figures. Its lasting counters and highest figures move to the last row."""
        for figure in _KEPT:
            left = self.read(figure)
            self.write(self._rows - 1, figure, left[-1] + left[worker])
        for figure in _HIGHEST:
            left = self.read(figure)
            self.write(self._rows - 1, figure, max(left[-1], left[worker]))
        for figure in Figure:
            self.write(worker, figure, 0.0)


@dataclass(frozen=True, slots=True)
class _Entry:
    offset: int
    key: int
    ends: float
    counts: tuple[int, ...]


class Counts:
    """Counts per key and time window, shared by workers. If a key's places are all in use, the window that ends first
    is dropped. A secret hash chooses the places, so callers can't displace others. Two workers that begin a window at
    the same moment may lose a count."""

    PLACES = 8

    def __init__(self, workers: int, *, capacity: int) -> None:
        self._entry = Struct(f"=Qd{workers}I")
        self._groups = max(1, capacity // self.PLACES)
        self._memory = mmap(-1, self._groups * self.PLACES * self._entry.size)
        self._secret = os.urandom(16)

    def add(self, worker: int, name: str, amount: int, *, now: float, seconds: float) -> int:
        """Add to a window's count, and return the total of all workers; a new window lasts `seconds`."""
        key, entry = self._find(name, now)
        if entry.key != key or entry.ends <= now:
            entry = _Entry(entry.offset, key, now + seconds, (0,) * len(entry.counts))
            self._entry.pack_into(self._memory, entry.offset, key, entry.ends, *entry.counts)
        own = Struct("=I")
        own.pack_into(self._memory, entry.offset + 16 + own.size * worker, entry.counts[worker] + amount)
        return sum(entry.counts) + amount

    def read(self, name: str, *, now: float) -> tuple[int, float]:
        """Return the current window's count and end; 0 and `now` without a window."""
        key, entry = self._find(name, now)
        return (sum(entry.counts), entry.ends) if entry.key == key and entry.ends > now else (0, now)

    def forget(self, name: str, *, now: float) -> None:
        key, entry = self._find(name, now)
        if entry.key == key:
            self._entry.pack_into(self._memory, entry.offset, 0, 0.0, *(0 for _ in entry.counts))

    def _find(self, name: str, now: float) -> tuple[int, _Entry]:
        digest = hashlib.blake2b(name.encode(), digest_size=16, key=self._secret).digest()
        key = int.from_bytes(digest[:8], "little") or 1
        entries = list(self._group(int.from_bytes(digest[8:], "little") % self._groups))
        own = next((each for each in entries if each.key == key), None)
        return key, own or min(entries, key=lambda each: max(each.ends, now))

    def _group(self, group: int) -> Iterator[_Entry]:
        start, size = group * self.PLACES * self._entry.size, self._entry.size
        for offset in range(start, start + self.PLACES * size, size):
            key, ends, *counts = self._entry.unpack_from(self._memory, offset)
            yield _Entry(offset, key, ends, tuple(counts))


# Memory stays the same for a million addresses, and no address is refused.
MOST_COUNTS = 100_000


@dataclass(frozen=True)
class Share:
    """A worker's row, the number of workers, and the memory shared by all; by default of a single worker."""

    worker: int = 0
    workers: int = 1
    figures: Figures = field(default_factory=lambda: Figures(1))
    counts: Counts = field(default_factory=lambda: Counts(1, capacity=MOST_COUNTS))

    def tell(self, figure: Figure, value: float) -> None:
        self.figures.write(self.worker, figure, value)

    @contextmanager
    def count_in(self, figure: Figure) -> Generator[None]:
        """Count the block in a figure while the block runs; only for the thread of the event loop."""
        self.tell(figure, self.figures.read(figure)[self.worker] + 1)
        try:
            yield
        finally:
            self.tell(figure, self.figures.read(figure)[self.worker] - 1)

    def total(self, figure: Figure) -> float:
        return sum(self.figures.read(figure))

    def latest(self, figure: Figure) -> datetime | None:
        """Return the latest time of a figure among all workers; None before the first."""
        at = max(self.figures.read(figure))
        return datetime.fromtimestamp(at, UTC) if at else None

    def has_more_than_others(self, figure: Figure) -> bool:
        """Return whether another serving worker has a smaller figure than this worker."""
        values, most = self.figures.read(figure), self.figures.read(Figure.CONNECTIONS_MOST)
        return values[self.worker] > min((one for one, serves in zip(values, most, strict=True) if serves), default=0)
