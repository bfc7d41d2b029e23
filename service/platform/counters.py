"""Counting hits, in memory that workers share, or in a store that replicas share. Windows begin with their first hit,
so that a refusal can say when to come back; up to twice the limit may fall around the end of a window."""

import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from limits import RateLimitItem
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter
from limits.errors import StorageError

from service.platform.sharing import Share

if TYPE_CHECKING:
    from service.platform.shared_store import SharedStore


class SharedMemory(Storage):
    """Counts in the memory that a service's workers share. The library's own memory is each process's, looks at every
    count on each hit, and has no bound."""

    STORAGE_SCHEME = None

    def __init__(self, share: Share) -> None:
        super().__init__()
        self._share = share

    @property
    def base_exceptions(self) -> type[Exception]:
        return StorageError

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Count a hit, and return the count of its window; a new window lasts `expiry` seconds."""
        return self._share.counts.add(self._share.worker, key, amount, now=time.monotonic(), seconds=expiry)

    async def get(self, key: str) -> int:
        return self._share.counts.read(key, now=time.monotonic())[0]

    async def get_expiry(self, key: str) -> float:
        """Return when the current window ends, in seconds since the epoch."""
        now = time.monotonic()
        return time.time() + self._share.counts.read(key, now=now)[1] - now

    async def check(self) -> bool:
        return True

    async def reset(self) -> int | None:
        """Do nothing: windows end by themselves."""
        return None

    async def clear(self, key: str) -> None:
        self._share.counts.forget(key, now=time.monotonic())


class Counter:
    """A counter of one kind of hits with one limit: in the shared store, or in the workers' memory without one."""

    def __init__(
        self, limit: RateLimitItem, *, kind: str, shared: "SharedStore | None", share: Share | None = None
    ) -> None:
        self._limit = limit
        self._kind = kind
        self._shared = shared
        self._memory = FixedWindowRateLimiter(SharedMemory(share or Share()))

    async def hit(self, who: str) -> int | None:
        """Count a hit: None within the limit, else the whole seconds (at least 1) until hits are allowed again. While
        the shared store is away, every replica counts for itself, and allows the limit."""
        return await self._ask(FixedWindowRateLimiter.hit, who)

    async def wait(self, who: str) -> int | None:
        """Return what `hit` would, and count nothing."""
        return await self._ask(FixedWindowRateLimiter.test, who)

    async def _ask(self, allows: Callable[..., Awaitable[bool]], who: str) -> int | None:
        if self._shared is not None and self._shared.in_service:
            async with self._shared.briefly():
                return await self._wait(self._shared.limiter, allows, who)
        return await self._wait(self._memory, allows, who)

    async def _wait(
        self, limiter: FixedWindowRateLimiter, allows: Callable[..., Awaitable[bool]], who: str
    ) -> int | None:
        if await allows(limiter, self._limit, self._kind, who):
            return None
        stats = await limiter.get_window_stats(self._limit, self._kind, who)
        return min(max(1, math.ceil(stats.reset_time - time.time())), self._limit.get_expiry())
