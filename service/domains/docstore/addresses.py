"""Which addresses a sync may connect to: by default, public ones only.

Whoever may edit a collection names a document database, and the service connects to it from inside its network. So
names are not trusted: each address is checked at the moment of connecting, whether it came from the URI, from DNS, or
from a server that lists its replicas, and nothing can change between the check and the connection.
"""

import ipaddress
import socket
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, cast
from weakref import WeakSet

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
    """The setting CARREL_DOCSTORE_ALLOWED_HOSTS: networks and host names that are allowed beside public addresses."""

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
        """Return whether the service may connect to this address."""
        meant = _embedded_ipv4(address)
        if any(
            one in network for one in {address, meant} for network in self.networks if one.version == network.version
        ):
            return True
        return _is_public(meant)

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
    """Return the IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


class Egress:
    """Restricts connections made inside `enforce()`, also by tasks begun there, to the allowed addresses.

    It sees connections by Python's sockets on any event loop, as the driver makes them, but none that an event loop
    written in C makes by itself.
    """

    def __init__(self, allowed: AllowedHosts) -> None:
        self._allowed = allowed
        self._made: WeakSet[socket.socket] = WeakSet()
        self.denied = False

    @contextmanager
    def enforce(self) -> Generator[None]:
        """Check every connection of this context until the block ends."""
        _install()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def note(self, made: socket.socket) -> None:
        """Remember a socket that was created."""
        self._made.add(made)

    def close_forgotten(self) -> None:
        """Close sockets without a peer: the driver leaves one open when it is closed while it connects."""
        for one in list(self._made):
            if one.fileno() == -1:
                continue
            try:
                one.getpeername()
            except OSError:
                one.close()

    def judge(self, address: object) -> None:
        """Raise AddressDenied for a socket address that isn't allowed, and remember that one was denied."""
        host = str(cast("tuple[object, ...]", address)[0]) if isinstance(address, tuple) and address else ""
        try:
            allowed = self._allowed.allows(ipaddress.ip_address(host.split("%", maxsplit=1)[0]))
        except ValueError:  # no IP address: a Unix socket, or something stranger
            allowed = False
        if not allowed:
            self.denied = True
            raise AddressDenied("The address is not public, and CARREL_DOCSTORE_ALLOWED_HOSTS doesn't allow it.")


_EVENTS = frozenset({"socket.__new__", "socket.connect"})
_current: ContextVar[Egress | None] = ContextVar("carrel_egress", default=None)


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _EVENTS and (egress := _current.get()) is not None:
        if event == "socket.connect":
            egress.judge(arguments[1])
        else:
            egress.note(arguments[0])


@cache
def _install() -> None:
    """Have the interpreter call `_on_event` before each connection (PEP 578), because the driver has no hook for it."""
    sys.addaudithook(_on_event)
