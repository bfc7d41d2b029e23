"""Accepting connections, as many as may be open: the event loop's own servers accept all that come, and ask later."""

import asyncio
import errno
from collections.abc import Callable
from socket import IPPROTO_TCP, TCP_NODELAY, socket

from service.platform.logs import logger
from service.platform.rate_limits import network_of
from service.web.connections import Connections

# Between two passes of the event loop, so that a crowd at the door holds up nobody who is inside.
ACCEPTED_AT_ONCE = 32
# What passes when others have closed something; a listener whose socket is readable all the while must not spin.
PAUSE_SECONDS = 0.2
# What another worker gets to accept a connection before this one, which has more: a wake-up takes far less.
YIELD_SECONDS = 0.002
# The connection that was to be accepted is gone; accept(2) passes its network errors on.
_GONE = frozenset({
    errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.ENOPROTOOPT, errno.EHOSTDOWN, errno.EHOSTUNREACH,
    errno.EOPNOTSUPP, errno.ENETUNREACH, errno.EPERM, getattr(errno, "ENONET", errno.ENETDOWN),
})  # fmt: skip


class Listener:
    """Accepts on one socket for as long as it is not closed, whatever an accept fails with."""

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
        """Host and port that are listened on."""
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}"

    def listen(self, backlog: int) -> None:
        """Begin to accept; so many connections may wait for that."""
        self._socket.setblocking(False)
        self._socket.listen(backlog)
        self._resume()

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)

    async def wait_closed(self) -> None:
        """Wait for connections that were accepted and have no protocol yet."""
        await asyncio.gather(*self._starting)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept_some)

    def _accept_some(self) -> None:
        """Accept what has come; one who has more connections than others lets them go first, and takes what is left."""
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
                    self._wait(error)
                    return
            else:
                self._take(accepted, str(address[0]))

    def _take(self, accepted: socket, host: str) -> None:
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
            # A network's error is the caller's; any other is a mistake in here.
            log = logger.debug if isinstance(error, OSError) else logger.error
            log("connection_not_started", reason=repr(error))

    def _wait(self, error: OSError) -> None:
        """Pause: descriptors or memory are used up, and the socket stays readable until there are some again."""
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._resume)
        self._connections.note_failure(error)
