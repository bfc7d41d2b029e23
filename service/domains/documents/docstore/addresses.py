"""Which addresses a sync may connect to: by default, public ones only.

Whoever may edit a collection names a document database, and the service connects to it from inside its network. So
names are not trusted: each address is checked at the moment of connecting, whether it came from the URI, from DNS, or
from a server that lists its replicas, and nothing can change between the check and the connection.
"""

import ipaddress
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, cast
from weakref import WeakSet

from service.platform.networks import AddressDenied, AllowedHosts


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
