"""Counting hits, in this process or in a store that replicas share.

Counts are of fixed windows that begin with their first hit, because a refusal then can say to the second when
everything is allowed again: whoever waits as long as it was told gets through. The price is that up to twice the limit
may fall around the end of a window.
"""

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from limits import RateLimitItem
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter
from limits.errors import StorageError

if TYPE_CHECKING:
    from service.platform.shared_store import SharedStore


# Beyond so many counts at a time the oldest are forgotten: a million addresses cost no more memory, and refuse nobody.
MOST_COUNTS = 100_000


@dataclass(slots=True)
class _Window:
    ends: float
    count: int = 0


class BoundedMemory(Storage):
    """Counts in memory, all over windows of one length, so that the oldest window is the first to end.

    The library's own memory looks at every count on each hit, and has no bound.
    """

    STORAGE_SCHEME = None

    def __init__(self, *, capacity: int = MOST_COUNTS) -> None:
        super().__init__()
        self._capacity = capacity
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def base_exceptions(self) -> type[Exception]:
        """The exceptions of the store: none."""
        return StorageError

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Count a hit, and return the count of its window; a new window lasts `expiry` seconds."""
        now = time.monotonic()
        window = self._windows.get(key)
        if window is None or window.ends <= now:
            self._windows.pop(key, None)
            self._make_room(now)
            window = self._windows[key] = _Window(now + expiry)
        window.count += amount
        return window.count

    async def get(self, key: str) -> int:
        """Return the count of the current window."""
        window = self._windows.get(key)
        return window.count if window is not None and window.ends > time.monotonic() else 0

    async def get_expiry(self, key: str) -> float:
        """Return when the current window ends, in seconds since the epoch."""
        window = self._windows.get(key)
        return time.time() + (window.ends - time.monotonic() if window is not None else 0)

    async def check(self) -> bool:
        """Return whether the store works."""
        return True

    async def reset(self) -> int:
        """Forget everything."""
        count = len(self._windows)
        self._windows.clear()
        return count

    async def clear(self, key: str) -> None:
        """Forget one count."""
        self._windows.pop(key, None)

    def _make_room(self, now: float) -> None:
        while self._windows:
            oldest = next(iter(self._windows.values()))
            if oldest.ends > now and len(self._windows) < self._capacity:
                return
            self._windows.popitem(last=False)


class Counter:
    """A counter of one kind of hits with one limit: in the shared store, or in this process without one."""

    def __init__(self, limit: RateLimitItem, *, kind: str, shared: "SharedStore | None") -> None:
        self._limit = limit
        self._kind = kind
        self._shared = shared
        self._memory = FixedWindowRateLimiter(BoundedMemory())

    async def hit(self, who: str) -> int | None:
        """Count a hit: None within the limit, else the whole seconds (at least 1) until hits are allowed again.

        While the shared store is away, this process counts for itself: every replica then allows the limit.
        """
        if self._shared is not None and self._shared.in_service:
            async with self._shared.briefly():
                return await self._hit(self._shared.limiter, who)
        return await self._hit(self._memory, who)

    async def _hit(self, limiter: FixedWindowRateLimiter, who: str) -> int | None:
        if await limiter.hit(self._limit, self._kind, who):
            return None
        stats = await limiter.get_window_stats(self._limit, self._kind, who)
        return min(max(1, math.ceil(stats.reset_time - time.time())), self._limit.get_expiry())
