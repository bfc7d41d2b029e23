"""An unreliable network: a proxy on loopback that ends or resets connections after a number of answer bytes."""

import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

RESET = b"\1\0\0\0\0\0\0\0"
"""SO_LINGER with zero time: closing sends a reset."""


@dataclass
class Network:
    """A client's address; `allowed` are the answer bytes that the next connections let through."""

    base_url: str
    services: deque[str]
    allowed: deque[int] = field(default_factory=deque[int])
    cuts: int = 0
    _open: list["Connection"] = field(default_factory=list["Connection"])

    def cut(self) -> None:
        while self._open:
            self._open.pop().reset()

    def join(self, client: socket.socket) -> None:
        service = self._connect()
        if service is None:
            client.close()
            return
        connection = Connection(self, client, service, self.allowed.popleft() if self.allowed else None)
        self._open.append(connection)
        for work in (connection.ask, connection.answer):
            threading.Thread(target=work, daemon=True).start()

    def _connect(self) -> socket.socket | None:
        for _ in range(len(self.services)):
            self.services.rotate(-1)
            host, port = self.services[-1].removeprefix("http://").split(":")
            with suppress(OSError):
                return socket.create_connection((host, int(port)))
        return None


@dataclass
class Connection:
    """A connection through the network; `allowed` is None without a limit."""

    network: Network
    client: socket.socket
    service: socket.socket
    allowed: int | None

    def ask(self) -> None:
        with suppress(OSError):
            while piece := self.client.recv(65536):
                self.service.sendall(piece)
        self._hang_up()

    def answer(self) -> None:
        with suppress(OSError):
            while piece := self.service.recv(65536):
                if self.allowed is not None and len(piece) > self.allowed:
                    # Not a reset: that would take back what has been let through and isn't read yet.
                    self.client.sendall(piece[: self.allowed])
                    self.network.cuts += 1
                    break
                self.allowed = None if self.allowed is None else self.allowed - len(piece)
                self.client.sendall(piece)
        self._hang_up()

    def reset(self) -> None:
        with suppress(OSError):  # it has ended by itself
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.network.cuts += 1
        self._hang_up()

    def _hang_up(self) -> None:
        for end in (self.client, self.service):
            with suppress(OSError):
                # A thread that is reading keeps a closed socket alive; this wakes it.
                end.shutdown(socket.SHUT_RD)
            end.close()


@contextmanager
def cutting(*base_urls: str) -> Iterator[Network]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        network = Network(f"http://127.0.0.1:{listener.getsockname()[1]}", services=deque(base_urls))
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    client, _ = listener.accept()
                    client.setblocking(True)
                    network.join(client)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield network
        finally:
            ended.set()
            thread.join(5)
            network.cut()
