"""The process: uvicorn around the application, from the first signal handler to the database's shutdown."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager
from socket import socket
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.dependencies import STOPPING
from service.edge import PATIENCE_SECONDS, SLOWEST_BYTES_A_SECOND
from service.logs import logger
from service.main import open_app
from service.settings import Settings

# How long in-flight requests may go on after SIGTERM.
GRACE_SECONDS = 30
# Most bytes in a row that are no part of a body: headers, trailers, what surrounds a chunk.
MOST_FRAMING_BYTES = 1024 * 1024
# A sender usually reads the answer only when it has sent all, so what follows an early refusal is discarded a while.
MOST_DISCARDED_BYTES = 64 * 1024 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 that hangs up on whoever sends without end, or keeps it waiting, before or after a request is answered.

    What comes in between, a body that is being read, is the application's to bound (`service.edge`).
    """

    # A request's headers come within so many seconds.
    header_seconds = PATIENCE_SECONDS
    framing_bytes = 0
    discarded_bytes = 0
    discarded_before = 0
    in_headers = False
    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Wait for a first request, but not for ever."""
        super().connection_made(transport)
        self._expect_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin to count."""
        self.in_headers = True
        self.framing_bytes = 0
        self.discarded_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer, which comes after the body, is passed over: nobody has asked for any."""
        if self.in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop waiting: from here on the application does."""
        self.in_headers = False
        self.framing_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        super().on_body(body)
        self.framing_bytes = 0
        if self.cycle.response_complete:
            self.discarded_bytes += len(body)
            if self.discarded_bytes > MOST_DISCARDED_BYTES:
                self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Take what arrived, unless there is no end to it."""
        super().data_received(data)
        self.framing_bytes += len(data)
        if self.framing_bytes > MOST_FRAMING_BYTES:
            self.transport.close()
        elif self._is_waiting:
            self._expect_soon()

    def shutdown(self) -> None:
        """Let the request that is being answered know that the service waits for it (`dependencies.is_stopping`)."""
        super().shutdown()
        if self._is_answering:
            cast("dict[str, object]", self.cycle.scope)[STOPPING] = True

    @property
    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    @property
    def _is_waiting(self) -> bool:
        """Whether what comes in is a request that begins, or the rest of one that was refused."""
        return self.in_headers or not self._is_answering

    def _expect_soon(self) -> None:
        if self.deadline is None:
            self.discarded_before = self.discarded_bytes
            self.deadline = self.loop.call_later(self.header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _give_up(self) -> None:
        self.deadline = None
        discarded = self.discarded_bytes - self.discarded_before
        if self._is_answering or discarded > SLOWEST_BYTES_A_SECOND * self.header_seconds:
            self._expect_soon()
        elif not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals to us: its own handling would end the process before the database."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do nothing."""
        yield

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to answer, and say where."""
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            logger.info("listening", url=f"http://{host}:{port}")

    def stop(self) -> None:
        """Finish what is in flight and end; asked twice, end at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


def server_config(settings: Settings, app: ASGIApp | str = "service.main:open_app") -> uvicorn.Config:
    """Return how uvicorn serves `app`; the application can be set later, too."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        DatabaseServerError: the embedded database can't be started, or the data folder is in use.
        ValueError: the address can't be listened on.
    """
    config = server_config(settings)
    try:
        listener = config.bind_socket()
    except SystemExit:  # uvicorn has logged the system's reason, but not of which address
        msg = f"Nothing can listen on {settings.host}:{settings.port}. Set CARREL_HOST and CARREL_PORT to what is free."
        raise ValueError(msg) from None
    server = Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop)
    # Port 0 takes a free one, which the issuer names.
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    async with open_app(settings) as app:
        config.app = app
        await server.serve([listener])
    logger.info("stopped")
