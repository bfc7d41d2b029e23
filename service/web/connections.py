"""Callers' open connections: limits in total and per address, and the connection to close for a new connection. A
connection waits while no request on it is being answered. Waiting connections may be closed, the longest waiting first,
so unfinished requests block no callers. Next are bodies slower than the minimum pace, or first if bodies hold over half
of all connections. No response is interrupted; `service.web.protocol` closes unread responses."""

import asyncio
import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from itertools import islice
from socket import IPPROTO_TCP, TCP_NODELAY, socket
from typing import Protocol

from carrel.wire.oversight import ConnectionsState
from service.platform.logs import logger
from service.platform.networks import is_network
from service.platform.rate_limits import network_of
from service.platform.sharing import Figure, Share

# The part of all connections that an address may have: an office behind an address needs many, but never all.
SHARE_OF_AN_ADDRESS = 4
# The least time between two log lines about pressure.
REPORT_SECONDS = 5.0
# The most connections examined to find one to close (answer read, or slow body), so that this is fast under any load.
LOOKED_THROUGH = 64


class Closable(Protocol):
    """The interface of a connection that may be closed to make room."""

    @property
    def origin(self) -> str:
        """The address or network charged for the connection (`rate_limits.network_of`)."""
        ...

    @property
    def has_unsent(self) -> bool:
        """Whether a part of the last response is unsent."""
        ...

    @property
    def is_slow(self) -> bool:
        """Whether the request body arrives below the minimum pace."""
        ...

    def abort(self) -> None: ...


@dataclass(eq=False, slots=True)
class _Group:
    open: int = 0
    waiting: dict[Closable, None] = field(default_factory=dict[Closable, None])
    receiving: dict[Closable, None] = field(default_factory=dict[Closable, None])


class Connections:
    """The open connections of a worker, limited to `most`. Each address has a separate limit, unless it `is_shared`."""

    def __init__(
        self, most: int, *, is_shared: Callable[[str], bool] = lambda _: False, share: Share | None = None
    ) -> None:
        self.most = most
        self.share = share or Share()
        self.most_of_address = max(1, most // SHARE_OF_AN_ADDRESS)
        self.refused = 0
        self.evicted = 0
        self.pressed_at: datetime | None = None
        self.failed: str | None = None
        self.is_closing = False
        self.is_draining = False
        self._is_shared = is_shared
        self._all = _Group()
        self._networks: dict[str, _Group] = {}
        self._evicted: set[Closable] = set()
        self._reported = (0, 0)
        self._report: asyncio.TimerHandle | None = None

    @property
    def open(self) -> int:
        return self._all.open

    @property
    def has_others(self) -> bool:
        return self.share.workers > 1

    @property
    def has_more_than_others(self) -> bool:
        """Whether another worker has fewer connections than the current worker."""
        return self.has_others and self.share.has_more_than_others(Figure.CONNECTIONS_OPEN)

    def tell(self) -> None:
        pressed_at = self.pressed_at.timestamp() if self.pressed_at else 0.0
        self.share.tell(Figure.CONNECTIONS_MOST, self.most)
        self.share.tell(Figure.CONNECTIONS_OPEN, self.open)
        self.share.tell(Figure.CONNECTIONS_REFUSED, self.refused)
        self.share.tell(Figure.CONNECTIONS_EVICTED, self.evicted)
        self.share.tell(Figure.CONNECTIONS_PRESSED_AT, pressed_at)

    def describe(self) -> ConnectionsState:
        self.tell()
        pressed_at = max(self.share.figures.read(Figure.CONNECTIONS_PRESSED_AT))
        return ConnectionsState(
            open=int(self.share.total(Figure.CONNECTIONS_OPEN)),
            most=int(self.share.total(Figure.CONNECTIONS_MOST)),
            refused=int(self.share.total(Figure.CONNECTIONS_REFUSED)),
            evicted=int(self.share.total(Figure.CONNECTIONS_EVICTED)),
            pressed_at=datetime.fromtimestamp(pressed_at, UTC) if pressed_at else None,
        )

    def admit(self, host: str) -> bool:
        """Count a new connection, after closing another if there are too many; count a refusal and return False if none
        can be closed, or after `close`."""
        origin = network_of(host)
        network = self._networks.get(origin) or _Group()
        if not self._has_room(network, host):
            self.refused += 1
            self._report_soon()
            return False
        self._networks[origin] = network
        network.open += 1
        self._all.open += 1
        self.tell()
        return True

    def release(self, origin: str) -> None:
        network = self._networks[origin]
        network.open -= 1
        self._all.open -= 1
        self.tell()
        if not network.open:
            del self._networks[origin]

    def note_waiting(self, connection: Closable) -> None:
        """Record a connection without a request in progress: it may be closed to make room."""
        if connection not in self._all.waiting and connection not in self._evicted:
            self.note_answering(connection)
            for group in self._groups(connection):
                group.waiting[connection] = None

    def note_receiving(self, connection: Closable) -> None:
        """Record that a request's body is arriving: closing is allowed if the body takes too long."""
        if connection not in self._all.receiving and connection not in self._evicted:
            self.note_answering(connection)
            for group in self._groups(connection):
                group.receiving[connection] = None

    def note_answering(self, connection: Closable) -> None:
        """Record that a complete request is being answered: the connection stays."""
        if connection in self._evicted:
            return
        for group in self._groups(connection):
            group.waiting.pop(connection, None)
            group.receiving.pop(connection, None)

    def note_closed(self, connection: Closable) -> None:
        """Forget a connection that has ended, or was closed to make room (then it is counted only once)."""
        if connection in self._evicted:
            self._evicted.discard(connection)
            return
        self.note_answering(connection)
        self.release(connection.origin)

    def note_failure(self, error: OSError) -> None:
        """Record a connection refused by the system. Reports of pressure give the last reason."""
        self.failed = error.strerror
        self._report_soon()

    def close(self) -> None:
        """Admit no further connections, and report refusals not reported yet."""
        self.is_closing = True
        if self._report is not None:
            self._report.cancel()
            self._log_pressure()

    def _has_room(self, network: _Group, host: str) -> bool:
        if self.is_closing:
            return False
        if network.open >= self.most_of_address and not self._is_shared(host):
            return self._evict(network)
        return self.open < self.most or self._evict(self._all)

    def _evict(self, group: _Group) -> bool:
        """Close the least valuable connection, of a network or of all; return False without a candidate."""
        connection = self._choose(group)
        if connection is None:
            return False
        self.note_closed(connection)
        self._evicted.add(connection)
        self.evicted += 1
        self._report_soon()
        connection.abort()
        return True

    def _choose(self, group: _Group) -> Closable | None:
        oldest = tuple(islice(group.waiting, LOOKED_THROUGH))
        waiting = next((closable for closable in oldest if not closable.has_unsent), oldest[0] if oldest else None)
        if waiting is not None and len(self._all.receiving) <= self.most // 2:
            return waiting
        return _slow_body(group.receiving) or waiting

    def _groups(self, connection: Closable) -> tuple[_Group, _Group]:
        return self._all, self._networks[connection.origin]

    def _report_soon(self) -> None:
        self.pressed_at = datetime.now(UTC)
        if self._report is None:
            self._report = asyncio.get_running_loop().call_later(REPORT_SECONDS, self._log_pressure)

    def _log_pressure(self) -> None:
        refused, evicted = self._reported
        self._report, self._reported = None, (self.refused, self.evicted)
        logger.warning(
            "too_many_connections",
            refused=self.refused - refused,
            evicted=self.evicted - evicted,
            open=self.open,
            addresses=len(self._networks),
            most=self.most,
            most_of_address=self.most_of_address,
            failed=self.failed,
        )
        self.failed = None


def shared_addresses(trusted_proxies: Iterable[str]) -> Callable[[str], bool]:
    """Return a function to recognize shared addresses: trusted proxies (`*`: all) and the machine, maybe a proxy."""
    proxies = tuple(trusted_proxies)
    networks = [ip_network(proxy) for proxy in proxies if proxy != "*"]

    def is_shared(host: str) -> bool:
        if "*" in proxies or not is_network(host):
            return "*" in proxies
        address = ip_address(host)
        address = getattr(address, "ipv4_mapped", None) or address
        return address.is_loopback or any(address in network for network in networks)

    return is_shared


def _slow_body(receiving: dict[Closable, None]) -> Closable | None:
    """Return a connection with a slow body, if the search finds any. Fast connections move to the end of the queue."""
    for connection in tuple(islice(receiving, LOOKED_THROUGH)):
        if connection.is_slow:
            return connection
        receiving[connection] = receiving.pop(connection)
    return None


# The most connections accepted in a pass of the event loop, so that a crowd does not delay open connections.
ACCEPTED_AT_ONCE = 32
# The pause until a file may have been closed; the listener's socket stays readable, and must not spin.
PAUSE_SECONDS = 0.2
# Lets a worker with fewer connections accept first; waking up takes far less.
YIELD_SECONDS = 0.002
# The connection is gone before it was accepted; accept(2) passes its network errors on.
_GONE = frozenset({
    errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.ENOPROTOOPT, errno.EHOSTDOWN, errno.EHOSTUNREACH,
    errno.EOPNOTSUPP, errno.ENETUNREACH, errno.EPERM, getattr(errno, "ENONET", errno.ENETDOWN),
})  # fmt: skip


class Listener:
    """Accepts connections on a socket until closed, despite any accept error."""

    def __init__(
        self, listening: socket, connections: Connections, *, make_protocol: Callable[[str], asyncio.Protocol]
    ) -> None:
        self._socket = listening
        self._connections = connections
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._has_yielded = False
        self._starting: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}"

    def listen(self, backlog: int) -> None:
        """Start accepting; `backlog` connections may wait."""
        self._socket.setblocking(False)
        self._socket.listen(backlog)
        self._resume()

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)

    async def wait_closed(self) -> None:
        """Wait until all accepted connections have been started."""
        await asyncio.gather(*self._starting)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept_some)

    def _accept_some(self) -> None:
        """Accept waiting connections. A worker with more connections than another first waits for other workers."""
        if self._has_yielded or not self._connections.has_more_than_others:
            self._accept(1 if self._connections.has_others else ACCEPTED_AT_ONCE)
            return
        self._has_yielded = True
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(YIELD_SECONDS, self._resume)

    def _accept(self, most: int) -> None:
        self._has_yielded = False
        for _ in range(most):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _GONE:
                    self._pause_after(error)
                    return
            else:
                self._start_if_admitted(accepted, str(address[0]))

    def _start_if_admitted(self, accepted: socket, host: str) -> None:
        if not self._connections.admit(host):
            accepted.close()
            return
        task = self._loop.create_task(self._start(accepted, network_of(host)))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, accepted: socket, origin: str) -> None:
        try:
            accepted.setblocking(False)
            accepted.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(lambda: self._make_protocol(origin), accepted)
        except BaseException as error:
            accepted.close()
            self._connections.release(origin)
            if not isinstance(error, Exception):
                raise
            # A network error is the client's; any other is a defect here.
            log = logger.debug if isinstance(error, OSError) else logger.error
            log("connection_not_started", reason=repr(error))

    def _pause_after(self, error: OSError) -> None:
        """Pause, and record the failure, while descriptors or memory are used up; the socket stays readable."""
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._resume)
        self._connections.note_failure(error)
