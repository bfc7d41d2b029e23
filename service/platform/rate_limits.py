"""Rate limits: of requests by a credential, and of failed authentications and sign-ins from an address. A valid
credential is never refused because others at its address fail: the failures only turn further failures from 401 into
429. With secrets of 160 bits, that is against noise and load, not against guessing."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING
from uuid import UUID

from limits import RateLimitItemPerSecond

from service.platform.counters import Counter
from service.platform.errors import TooMany
from service.platform.senders import LONGEST_ADDRESS
from service.platform.settings import IN_MEMORY, Settings
from service.platform.sharing import Share

if TYPE_CHECKING:
    from service.platform.shared_store import SharedStore

WINDOW_SECONDS = 60
# The network that one IPv6 subscriber has at least, in bits of the address that tell its hosts apart.
IPV6_HOST_BITS = 64


class RateLimits:
    """The limits of one service; each None where there is no limit."""

    def __init__(self, *, requests: Counter | None, failures: Counter | None) -> None:
        self._requests = requests
        self._failures = failures

    async def count_request(self, credential_id: UUID) -> None:
        """Count an authenticated request; TooMany `rate_limited` beyond the limit."""
        wait = await self._requests.hit(str(credential_id)) if self._requests else None
        if wait is not None:
            raise TooMany(
                f"This credential has sent too many requests. Go on in {wait} s.", code="rate_limited", retry_after=wait
            )

    async def count_failure(self, address: str | None) -> None:
        """Count a failed authentication from an address; TooMany `too_many_failures` beyond the limit."""
        _refuse(await self._failures.hit(network_of(address or "")) if self._failures else None)

    async def count_refused_sign_in(self, address: str | None) -> None:
        """Count a sign-in that a provider was asked about in vain, apart from other failures, to the same limit."""
        _refuse(await self._failures.hit(_sign_ins_of(address)) if self._failures else None)

    async def require_few_refused_sign_ins(self, address: str | None) -> None:
        """Refuse what a provider would have to be asked about, as `count_refused_sign_in` does, and count nothing."""
        _refuse(await self._failures.wait(_sign_ins_of(address)) if self._failures else None)


def _sign_ins_of(address: str | None) -> str:
    return f"sign-ins {network_of(address or '')}"


def _refuse(wait: int | None) -> None:
    if wait is not None:
        raise TooMany(
            f"Too many requests from this address came without a valid credential. Try again in {wait} s.",
            code="too_many_failures",
            retry_after=wait,
        )


@asynccontextmanager
async def open_rate_limits(
    settings: Settings, *, share: Share | None = None, window_seconds: int = WINDOW_SECONDS
) -> AsyncGenerator[RateLimits]:
    """Yield the limits of the settings, counted over windows of this length; a store that is away is no error."""
    async with AsyncExitStack() as stack:
        shared = await _open_store(stack, settings.rate_limit_store.get_secret_value())
        share = share or Share()

        def counter(kind: str, amount: int) -> Counter | None:
            limit = RateLimitItemPerSecond(amount, window_seconds, namespace="carrel")
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
    """Return what an address is counted as: an IPv4 address itself, an IPv6 address's /64."""
    try:
        parsed = ip_address(address)
    except ValueError:  # a socket without an address, or what a trusted proxy passed on
        return address[:LONGEST_ADDRESS]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> IPV6_HOST_BITS << IPV6_HOST_BITS)}/{128 - IPV6_HOST_BITS}"
