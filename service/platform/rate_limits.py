"""Rate limits: for a credential's requests, and for failed authentications and sign-ins from an address. Failures never
refuse a valid credential; they only turn later failures from 401 to 429. The aim is less noise and load: secrets have
160 bits. Windows begin with the first hit, to say when to retry: up to twice the limit may fall around an end."""

import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING
from uuid import UUID

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter
from limits.errors import StorageError

from service.platform.errors import TooMany
from service.platform.networks import LONGEST_ADDRESS
from service.platform.settings import IN_MEMORY, Settings
from service.platform.sharing import Share

if TYPE_CHECKING:
    from service.platform.shared_store import SharedStore


class SharedMemory(Storage):
    """Counts in the workers' shared memory. The library's memory is per process, unbounded, and scanned at each hit."""

    STORAGE_SCHEME = None

    def __init__(self, share: Share) -> None:
        super().__init__()
        self._share = share

    @property
    def base_exceptions(self) -> type[Exception]:
        return StorageError

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Count a hit, and return the window's count; a new window lasts `expiry` seconds."""
        return self._share.counts.add(self._share.worker, key, amount, now=time.monotonic(), seconds=expiry)

    async def get(self, key: str) -> int:
        return self._share.counts.read(key, now=time.monotonic())[0]

    async def get_expiry(self, key: str) -> float:
        """Return the end of the current window, in seconds since the epoch."""
        now = time.monotonic()
        return time.time() + self._share.counts.read(key, now=now)[1] - now

    async def check(self) -> bool:
        return True

    async def reset(self) -> int | None:
        return None

    async def clear(self, key: str) -> None:
        self._share.counts.forget(key, now=time.monotonic())


class Counter:
    """A counter for hits of a kind with a limit: in the shared store, or in the workers' memory without a store."""

    def __init__(
        self, limit: RateLimitItem, *, kind: str, shared: "SharedStore | None", share: Share | None = None
    ) -> None:
        self._limit = limit
        self._kind = kind
        self._shared = shared
        self._memory = FixedWindowRateLimiter(SharedMemory(share or Share()))

    async def hit(self, subject: str) -> int | None:
        """Count a hit; return None, or beyond the limit the seconds to wait (at least 1). Without a shared store, or
        while it is away, each replica counts for itself."""
        return await self._ask(FixedWindowRateLimiter.hit, subject)

    async def wait(self, subject: str) -> int | None:
        """Return the result of `hit` without counting."""
        return await self._ask(FixedWindowRateLimiter.test, subject)

    async def _ask(self, allows: Callable[..., Awaitable[bool]], subject: str) -> int | None:
        if self._shared is not None and self._shared.in_service:
            async with self._shared.briefly():
                return await self._wait(self._shared.limiter, allows, subject)
        return await self._wait(self._memory, allows, subject)

    async def _wait(
        self, limiter: FixedWindowRateLimiter, allows: Callable[..., Awaitable[bool]], subject: str
    ) -> int | None:
        if await allows(limiter, self._limit, self._kind, subject):
            return None
        stats = await limiter.get_window_stats(self._limit, self._kind, subject)
        return min(max(1, math.ceil(stats.reset_time - time.time())), self._limit.get_expiry())


WINDOW_SECONDS = 60
# The host bits of an IPv6 address: each subscriber has at least a /64 network.
IPV6_HOST_BITS = 64


class RateLimits:
    """The limits of a service; each None if unlimited."""

    def __init__(self, *, requests: Counter | None, failures: Counter | None) -> None:
        self._requests = requests
        self._failures = failures

    async def count_request(self, credential_id: UUID) -> None:
        """Count an authenticated request. Raises TooMany `rate_limited` beyond the limit."""
        wait = await self._requests.hit(str(credential_id)) if self._requests else None
        if wait is not None:
            raise TooMany(
                f"This credential sent too many requests. Try again in {wait} s.", code="rate_limited", retry_after=wait
            )

    async def count_failure(self, address: str | None) -> None:
        """Count a failed authentication from an address. Raises TooMany `too_many_failures` beyond the limit."""
        _refuse(await self._failures.hit(network_of(address or "")) if self._failures else None)

    async def count_refused_sign_in(self, address: str | None) -> None:
        """Count a failed sign-in by a provider, like `count_failure` but separately, with an equal limit."""
        _refuse(await self._failures.hit(_sign_ins_of(address)) if self._failures else None)

    async def require_few_refused_sign_ins(self, address: str | None) -> None:
        """Raise TooMany if `count_refused_sign_in` would raise it; nothing is counted."""
        _refuse(await self._failures.wait(_sign_ins_of(address)) if self._failures else None)


def _sign_ins_of(address: str | None) -> str:
    return f"sign-ins {network_of(address or '')}"


def _refuse(wait: int | None) -> None:
    if wait is not None:
        message = f"Too many requests from this address came without a valid credential. Try again in {wait} s."
        raise TooMany(message, code="too_many_failures", retry_after=wait)


@asynccontextmanager
async def open_rate_limits(settings: Settings, *, share: Share | None = None) -> AsyncGenerator[RateLimits]:
    """Yield the limits of the settings, counted in windows of a minute; an unavailable store is no error."""
    async with AsyncExitStack() as stack:
        shared = await _open_store(stack, settings.rate_limit_store.get_secret_value())
        share = share or Share()

        def counter(kind: str, amount: int) -> Counter | None:
            limit = RateLimitItemPerSecond(amount, WINDOW_SECONDS, namespace="carrel")
            return Counter(limit, kind=kind, shared=shared, share=share) if amount else None

        yield RateLimits(
            requests=counter("requests", settings.rate_limit_requests),
            failures=counter("failures", settings.rate_limit_failures),
        )


async def _open_store(stack: AsyncExitStack, url: str) -> "SharedStore | None":
    if url == IN_MEMORY:
        return None
    from service.platform.shared_store import SharedStore  # noqa: PLC0415 - see there

    store = SharedStore(url)
    stack.push_async_callback(store.close)
    await store.greet()
    return store


def network_of(address: str) -> str:
    """Return the key for counting an address: the IPv4 address, or the IPv6 address's /64."""
    try:
        parsed = ip_address(address)
    except ValueError:  # a socket without an address, or an odd value from a trusted proxy
        return address[:LONGEST_ADDRESS]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> IPV6_HOST_BITS << IPV6_HOST_BITS)}/{128 - IPV6_HOST_BITS}"
