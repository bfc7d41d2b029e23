"""The process: uvicorn around the application, from the first signal handler to the database's shutdown."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager
from socket import socket

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.logs import logger
from service.main import open_app
from service.settings import Settings

# How long in-flight requests may go on after SIGTERM.
GRACE_SECONDS = 30
MOST_UNFINISHED_HEADER_BYTES = 1024 * 1024
# A sender usually reads the answer only when it has sent all, so what follows an early refusal is discarded a while.
MOST_DISCARDED_BYTES = 64 * 1024 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 that hangs up on headers that never end, and on a body that goes on after its refusal."""

    unfinished_header_bytes = 0
    discarded_bytes = 0
    in_headers = False

    def on_message_begin(self) -> None:
        """Begin to count."""
        self.in_headers = True
        self.unfinished_header_bytes = 0
        self.discarded_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop counting."""
        self.in_headers = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        super().on_body(body)
        if self.cycle.response_complete:
            self.discarded_bytes += len(body)
            if self.discarded_bytes > MOST_DISCARDED_BYTES:
                self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Take what arrived, unless there is no end to it."""
        super().data_received(data)
        if self.in_headers:
            self.unfinished_header_bytes += len(data)
            if self.unfinished_header_bytes > MOST_UNFINISHED_HEADER_BYTES:
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


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        DatabaseServerError: the embedded database can't be started, or the data folder is in use.
        ValueError: the address can't be listened on.
    """
    config = uvicorn.Config(
        "service.main:open_app",
        host=settings.host,
        port=settings.port,
        http=BoundedProtocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
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
