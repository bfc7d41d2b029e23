"""Web addresses, the check of addresses given by users (by default, only public pass), and the senders of requests."""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import SplitResult, unquote, urlsplit

import httpcore
import httpx
from starlette.requests import HTTPConnection

from carrel.wire.oauth_clients import IN_BRACKETS, LOOPBACK

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IPv4 addresses as IPv6 addresses for translators (RFC 6052).
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
# Ranges that the library's `is_global` wrongly takes for public: IPv6 outside global unicast (RFC 4291), such as
# site-local addresses and private translators (RFC 8215), and IPv4 protocol assignments (RFC 6890).
_UNICAST = ipaddress.IPv6Network("2000::/3")
_ASSIGNED = ipaddress.IPv4Network("192.0.0.0/24")


class AddressDenied(OSError):  # noqa: N818 - an OSError, as every other reason why there is no connection
    """The address is not public, and no setting allows it."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The networks and host names allowed by a setting in addition to public addresses."""

    networks: tuple[Network, ...] = ()
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Self:
        """Parse a setting's entries: addresses, networks such as 10.0.0.0/8, and host names."""
        bare = [entry.strip("[]") for entry in entries]
        networks = tuple(ipaddress.ip_network(each, strict=False) for each in bare if is_network(each))
        return cls(networks, frozenset(each.lower().rstrip(".") for each in bare if not is_network(each)))

    def allows(self, address: Address) -> bool:
        """Return whether an address is public, or explicitly allowed; of an IPv6 address, its embedded IPv4 counts."""
        return self.names_address(address) or _is_public(_embedded_ipv4(address))

    def names_address(self, address: Address) -> bool:
        """Return whether the setting explicitly allows an address, public or not."""
        both = {address, _embedded_ipv4(address)}
        return any(item in network for item in both for network in self.networks if item.version == network.version)

    def may_allow(self, host: str) -> bool:
        """Return whether a host in a URI can be allowed; a name is checked again by its address on connecting."""
        try:
            address = ipaddress.ip_address(host.split("%", maxsplit=1)[0])
        except ValueError:
            name = host.lower().rstrip(".")
            if name in self.names or not (name == "localhost" or name.endswith(".localhost")):
                return True
            return any(self.allows(ipaddress.ip_address(item)) for item in ("127.0.0.1", "::1"))
        return self.allows(address)

    def resolve(self) -> "AllowedHosts":
        """Look up the allowed names in DNS, and return the hosts with these addresses. Blocks the thread."""
        found: set[Network] = set()
        for name in self.names:
            try:
                addresses = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except OSError:  # an unknown name allows no address
                continue
            found |= {ipaddress.ip_network(str(address[4][0]).split("%")[0]) for address in addresses}
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
    """Connects only to allowed IP addresses, never to a Unix socket; for a host name, to the address just checked."""

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
        """Connect to a host's first allowed address that answers. Raises AddressDenied if none is allowed, else the
        error of the last attempt."""
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
        raise AddressDenied("Only http and https addresses can be connected to.")

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends HTTP requests only to allowed addresses; plain http only to addresses named by the setting itself."""

    def __init__(self, allowed: AllowedHosts) -> None:
        self._pools = {
            scheme: httpcore.AsyncConnectionPool(
                ssl_context=_load_authorities(), network_backend=GuardedBackend(allowed, named_only=scheme == b"http")
            )
            for scheme in (b"http", b"https")
        }

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, leaving redirects to the client. Raises AddressDenied, and httpcore's errors."""
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
    return [ipaddress.ip_address(str(item[4][0]).split("%", maxsplit=1)[0]) for item in found]


def parts_of(address: str) -> SplitResult | None:
    """Split an absolute http(s) address of printable ASCII without user, password and fragment; None otherwise."""
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return None
    odd = not address.isascii() or not address.isprintable() or any(char in address for char in ' "<>\\^`{|}#')
    # Python takes the text in brackets for the host, even with other text next to it; browsers don't.
    odd = odd or "@" in parts.netloc or ("[" in parts.netloc and not IN_BRACKETS.fullmatch(parts.netloc))
    return parts if parts.scheme in {"http", "https"} and host and not odd else None


def is_confidential(address: str) -> bool:
    """Return whether data sent to an address stays secret on the way: by https, or by http within this machine."""
    parts = parts_of(address)
    return parts is not None and (parts.scheme == "https" or parts.hostname in LOOPBACK)


def without_local_port(address: str) -> str | None:
    """Return an http address of this machine without its port; None for any other address."""
    parts = parts_of(address)
    if parts is None or parts.scheme != "http" or parts.hostname not in LOOPBACK:
        return None
    return parts._replace(netloc=f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname).geturl()


def name_loopback(address: str) -> str:
    """Return an http address of this machine with `localhost` instead of an IP, so that browsers allow passkeys
    (WebAuthn, section 5.1.3). Remote addresses, and addresses with a path (a proxy's), stay unchanged."""
    parts = parts_of(address)
    if parts is None or parts.scheme != "http" or parts.path or parts.hostname not in LOOPBACK:
        return address
    return f"http://localhost:{parts.port}" if parts.port else "http://localhost"


def is_redis(url: str) -> bool:
    """Return whether an address is a Redis database, optionally with the database number as path."""
    parts = _server_of(url, {"redis", "rediss"})
    return parts is not None and (parts.path in {"", "/"} or parts.path.removeprefix("/").isdecimal())


def is_mail_server(url: str) -> bool:
    """Return whether an address is a mail server: smtp or smtps, a host, an optional port, and no more."""
    parts = _server_of(url, {"smtp", "smtps"})
    return parts is not None and not parts.path.strip("/")


def _server_of(url: str, schemes: set[str]) -> SplitResult | None:
    """Split a URL; None unless it has an allowed scheme and a host, and neither query nor fragment."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        return None
    return parts if fits and not parts.query and not parts.fragment else None


def is_network(text: str, *, strict: bool = False) -> bool:
    """Return whether a text is an IP address or a network; if `strict`, without bits of a host."""
    try:
        ipaddress.ip_network(text, strict=strict)
    except ValueError:
        return False
    return True


def overlap(item: str, other: str) -> bool:
    """Return whether two object-store addresses (file:, s3:, gs:, az:) are equal, or either contains the other."""
    return all(part == its for part, its in zip(_place(item), _place(other), strict=False))


def _place(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.scheme == "file":
        return ("file", *Path(path).resolve().parts)
    return (parts.scheme, parts.netloc, *filter(None, path.split("/")))


LONGEST_ADDRESS = 64
# Browsers send far less; longer texts are cut before they are searched.
LONGEST_USER_AGENT = 512
# In this order, because most User-Agents also contain the names of browsers that they imitate.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
_PROGRAM = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,39}", re.ASCII)


@dataclass(frozen=True)
class Sender:
    """The address and device of a request; None if unknown, and outside a request."""

    address: str | None = None
    device: str | None = None

    @property
    def columns(self) -> dict[str, str | None]:
        return asdict(self)


NO_SENDER = Sender()
_sender: ContextVar[Sender] = ContextVar("carrel_sender", default=NO_SENDER)


def current_sender() -> Sender:
    return _sender.get()


def begin_sender(connection: HTTPConnection) -> None:
    """Record the sender of a request; the connection's client is already the address forwarded by a trusted proxy."""
    host = connection.client.host if connection.client else ""
    address = "".join(letter for letter in host[:LONGEST_ADDRESS] if letter.isprintable())
    _sender.set(Sender(address or None, describe_device(connection.headers.get("user-agent", ""))))


def describe_device(user_agent: str) -> str | None:
    """Return a short description of a User-Agent, such as "Firefox on Windows" or "curl"; None if not recognized."""
    text = user_agent[:LONGEST_USER_AGENT]
    if not text.startswith("Mozilla/"):
        program = _PROGRAM.match(text)
        return program[0] if program else None
    browser = next((name for mark, name in _BROWSERS if mark in text), "A browser")
    system = next((name for mark, name in _SYSTEMS if mark in text), None)
    return f"{browser} on {system}" if system else browser
