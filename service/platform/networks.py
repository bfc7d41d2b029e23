"""The hosts that the service may connect to if others name them: by default, public addresses only. Neither the person
nor the name is trusted: each address is checked while connecting."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, cast

import httpcore
import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IPv4 addresses written as IPv6 ones, for translation on the way (RFC 6052).
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
# What the library's `is_global` takes for public, and is not: of IPv6 all but global unicast (RFC 4291), such as
# site-local addresses and translators of one's own (RFC 8215); of IPv4 protocol assignments (RFC 6890).
_UNICAST = ipaddress.IPv6Network("2000::/3")
_ASSIGNED = ipaddress.IPv4Network("192.0.0.0/24")


class AddressDenied(OSError):  # noqa: N818 - an OSError, as every other reason why there is no connection
    """The address is not public, and no setting allows it."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The networks and host names that a setting allows beside public addresses."""

    networks: tuple[Network, ...] = ()
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Self:
        """Read the setting's entries: an address, a network such as 10.0.0.0/8, or a host's name."""
        networks: list[Network] = []
        names: set[str] = set()
        for entry in entries:
            try:
                networks.append(ipaddress.ip_network(entry.strip("[]"), strict=False))
            except ValueError:
                names.add(entry.lower().rstrip("."))
        return cls(tuple(networks), frozenset(names))

    def allows(self, address: Address) -> bool:
        return self.names_address(address) or _is_public(_embedded_ipv4(address))

    def names_address(self, address: Address) -> bool:
        """Return whether the setting itself allows this address, public or not."""
        both = {address, _embedded_ipv4(address)}
        return any(one in network for one in both for network in self.networks if one.version == network.version)

    def may_allow(self, host: str) -> bool:
        """Return whether a host in a URI can be allowed; a name is checked again by its address when connecting."""
        try:
            address = ipaddress.ip_address(host.split("%", maxsplit=1)[0])
        except ValueError:
            name = host.lower().rstrip(".")
            return name in self.names or not (name == "localhost" or name.endswith(".localhost")) or self._loopback()
        return self.allows(address)

    def _loopback(self) -> bool:
        return any(self.allows(ipaddress.ip_address(one)) for one in ("127.0.0.1", "::1"))

    def resolve(self) -> "AllowedHosts":
        """Return these hosts with the current addresses of the allowed names; blocks."""
        found: set[Network] = set()
        for name in self.names:
            try:
                addresses = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except OSError:  # a name that nobody has allows nothing
                continue
            found |= {ipaddress.ip_network(str(one[4][0]).split("%")[0]) for one in addresses}
        return AllowedHosts((*self.networks, *found), self.names)


def _is_public(address: Address) -> bool:
    within = address in _UNICAST if isinstance(address, ipaddress.IPv6Address) else address not in _ASSIGNED
    return within and address.is_global and not address.is_multicast


def _embedded_ipv4(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to allowed addresses alone, of which a host's name must have one; by IP address, as it was judged."""

    def __init__(self, allowed: AllowedHosts, *, named_only: bool) -> None:
        self._backend = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())
        self._is_allowed = allowed.names_address if named_only else allowed.allows

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first allowed address of a host that answers; AddressDenied when none is allowed."""
        failure: Exception = AddressDenied(
            "The address is not public, and CARREL_WEBHOOK_ALLOWED_HOSTS doesn't allow it."
        )
        for address in await _look_up(host, port):
            if not self._is_allowed(address):
                continue
            try:
                return await self._backend.connect_tcp(
                    str(address), port, timeout=timeout, local_address=local_address, socket_options=socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(self, *_arguments: Any, **_options: Any) -> httpcore.AsyncNetworkStream:
        """Refuse a socket of this machine."""
        raise AddressDenied("Only web addresses are connected to.")

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class GuardedTransport(httpx.AsyncBaseTransport):
    """Carries HTTP requests to allowed addresses alone, of http to those that the setting itself names."""

    def __init__(self, allowed: AllowedHosts) -> None:
        pools = {
            scheme: httpcore.AsyncConnectionPool(
                ssl_context=_load_authorities(), network_backend=GuardedBackend(allowed, named_only=scheme == b"http")
            )
            for scheme in (b"http", b"https")
        }
        self._pools = pools

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its redirects are the client's to follow. Raises AddressDenied, and httpcore's errors."""
        url = request.url
        answer = await self._pools[url.raw_scheme].handle_async_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer))

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()


@cache
def _load_authorities() -> ssl.SSLContext:
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._answer.aiter_stream():
            yield piece

    async def aclose(self) -> None:
        await self._answer.aclose()


async def _look_up(host: str, port: int) -> list[Address]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(one[4][0]).split("%", maxsplit=1)[0]) for one in found]
