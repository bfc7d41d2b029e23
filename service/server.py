"""A worker's server: uvicorn around the application, from the supervisor's first order to the last."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from socket import socket
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from service.main import open_app
from service.platform.processes import DRAIN, READY, Orders
from service.platform.settings import Settings
from service.platform.sharing import Share
from service.web.connections import Connections, Listener, shared_addresses
from service.web.protocol import BoundedProtocol

# How long running requests may continue after SIGTERM.
GRACE_SECONDS = 30
# How long cancelled requests may then take to end.
CANCELLED_SECONDS = 5
# Longer than clients and proxies keep an idle connection (httpx 5 seconds, nginx 60): the client of a request sent
# during the close can't tell whether the request arrived.
KEEP_ALIVE_SECONDS = 75
# How long connections to a replaced worker may stay; most clients close idle connections earlier.
DRAIN_SECONDS = 6
TICK_SECONDS = 1.0


class Server(uvicorn.Server):
    """A uvicorn server with a limit on connections at accept. Signals belong to the supervisor, which sends orders."""

    def __init__(
        self, config: uvicorn.Config, connections: Connections, *, on_start: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()
        self.connections = connections
        self._on_start = on_start
        self._is_stopping = False
        # The task of `serve`, which also opens and closes the application.
        self.running: asyncio.Task[Any] | None = None

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def main_loop(self) -> None:
        """Serve until ordered to leave. The responses' date is set once a second; uvicorn polls ten times a second."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._leaving.wait()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        listeners = [Listener(item, self.connections, make_protocol=self._protocol) for item in sockets or ()]
        # uvicorn closes these and waits for them, like the event loop's own servers.
        self.servers = cast("list[asyncio.base_events.Server]", listeners)
        for listener in listeners:
            listener.listen(self.config.backlog)
        self.connections.tell()
        self.started = True
        self._on_start()

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Admit no connections, wait for running requests as uvicorn does, and cancel the remaining requests."""
        self.connections.close()
        await super().shutdown(sockets)
        await self._end_requests()
        self.started = False

    def obey(self, orders: bytes) -> None:
        """Follow orders in turn: DRAIN drains a started server; any other order, and DRAIN before the start, stops."""
        for order in orders:
            if order == ord(DRAIN) and self.started:
                self.drain()
            else:
                self.stop()

    def stop(self) -> None:
        """Finish work in flight and end; on a second call, end at once. Uvicorn itself does so only while serving."""
        self.force_exit = self._is_stopping
        self._is_stopping = True
        self._leave()
        if self.force_exit and not self.started and self.running is not None:
            self.running.cancel()

    def drain(self) -> None:
        """Stop accepting connections, answer each connection at most once more, and then end."""
        self.connections.is_draining = True
        for listener in self.servers:
            listener.close()
        asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._leave)

    def _leave(self) -> None:
        self.should_exit = True
        self._leaving.set()

    async def _end_requests(self) -> None:
        """Cancel the remaining requests, and wait briefly: the application is closed next."""
        tasks = set(self.server_state.tasks)
        for task in tasks:
            if not task.cancelling():
                task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCELLED_SECONDS)

    def _protocol(self, origin: str) -> BoundedProtocol:
        options: dict[str, Any] = {"config": self.config, "server_state": self.server_state, "app_state": {}}
        return BoundedProtocol(**options, connections=self.connections, origin=origin)


def server_config(settings: Settings, app: ASGIApp | str = "service.main:open_app") -> uvicorn.Config:
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
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


def bind(settings: Settings) -> socket:
    """Bind the port shared by all workers. Raises ValueError if the system refuses."""
    try:
        return server_config(settings).bind_socket()
    except SystemExit:  # uvicorn has logged the system's reason, but not the address
        msg = f"The service can't listen on {settings.host}:{settings.port}. Change CARREL_HOST or CARREL_PORT."
        raise ValueError(msg) from None


async def serve(settings: Settings, listener: socket, orders: socket, *, most: int, share: Share, **parts: Any) -> None:
    """Open the application with `parts`, report READY, and serve until ordered to stop; `most` limits connections.
    Raises the errors of `open_app`."""
    connections = Connections(most, is_shared=shared_addresses(settings.trusted_proxies), share=share)
    config = server_config(settings)
    server = Server(config, connections, on_start=lambda: listening.say(READY))
    server.running = asyncio.current_task()
    listening = await Orders.listen(orders, server.obey)
    try:
        async with open_app(settings, share=share, **parts) as app:
            app.state.connections = connections
            app.state.metrics.watch(connections)
            config.app = app
            if not server.should_exit:
                await server.serve([listener])
    except asyncio.CancelledError:
        if not server.force_exit:
            raise
    finally:
        listening.close()
        listener.close()
