"""The process: uvicorn around the application, from the first signal handler to the database's shutdown."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import copy_context
from socket import socket
from typing import Any, cast

import uvicorn
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.main import open_app
from service.platform.descriptors import most_connections, raise_limit
from service.platform.errors import BadRequest, error_response
from service.platform.logs import begin_request, logger
from service.platform.settings import Settings
from service.web.connections import Connections, shared_addresses
from service.web.dependencies import STOPPING
from service.web.edge import PATIENCE_SECONDS, SLOWEST_BYTES_A_SECOND, mark_answer
from service.web.listener import Listener

# How long in-flight requests may go on after SIGTERM.
GRACE_SECONDS = 30
# What requests that are cancelled after that may take to end.
CANCELLED_SECONDS = 5
# What a body may take to begin: nobody is slow at once.
BEGIN_SECONDS = 2.0
# Most bytes in a row that are no part of a body: headers, trailers, what surrounds a chunk.
MOST_FRAMING_BYTES = 1024 * 1024
# Requests that a client may send ahead of their answers; those of one read are all parsed before any is answered.
MOST_PIPELINED = 16
# A sender usually reads the answer only when it has sent all, so what follows an early refusal is discarded a while.
MOST_DISCARDED_BYTES = 64 * 1024 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 that hangs up on callers that send without end, keep the service waiting, or don't read their answers.

    What comes between a request's headers and its answer, a body, is the application's to bound (`service.web.edge`).
    """

    # A request's headers come within so many seconds.
    header_seconds = PATIENCE_SECONDS
    # So much of an answer that is being sent is read within so many seconds.
    reading_seconds = PATIENCE_SECONDS
    framing_bytes = 0
    discarded_bytes = 0
    discarded_before = 0
    in_headers = False
    deadline: asyncio.TimerHandle | None = None
    reading_deadline: asyncio.TimerHandle | None = None
    unsent_before = 0
    body_began = 0.0
    body_bytes = 0

    def __init__(self, *, connections: Connections | None = None, origin: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.open_connections = connections
        self.origin = origin
        # The request that is being answered; `cycle` is the last that came, which may wait for others' answers.
        self.answered_cycle: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Wait for a first request, but not for ever."""
        super().connection_made(transport)
        self._expect_soon()
        self._report_state()
        if self.open_connections is not None and self.open_connections.is_closing:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more, and let the request that is being answered know that nobody reads on."""
        self._stop_waiting()
        self._stop_watching()
        if self.open_connections is not None:
            self.open_connections.note_closed(self)
            self.open_connections = None
        if self.answered_cycle is not None:
            self.answered_cycle.disconnected = True
            self.answered_cycle.message_event.set()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Make answers wait for their reader, but not for ever."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Go on with an answer."""
        super().resume_writing()
        self._watch_reader()

    def on_message_begin(self) -> None:
        """Begin to count; hang up on a client that sends too many requests ahead of their answers."""
        if len(self.pipeline) >= MOST_PIPELINED:
            self.pipeline.clear()
            self.abort()
            raise ConnectionAbortedError  # ends the parsing of what was sent
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
        if not self.pipeline:
            self.answered_cycle = self.cycle
        self.body_began = self.loop.time()
        self.body_bytes = 0
        self._report_state()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        super().on_body(body)
        self.framing_bytes = 0
        self.body_bytes += len(body)
        if self.cycle.response_complete:
            self.discarded_bytes += len(body)
            if self.discarded_bytes > MOST_DISCARDED_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        """Take the end of a request."""
        super().on_message_complete()
        self._report_state()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        self.answered_cycle = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self.pipeline:
            # The one that begins now was read whole; what comes after all of them can wait.
            self.flow.pause_reading()
        self._report_state()
        self._watch_reader()

    def data_received(self, data: bytes) -> None:
        """Take what arrived, unless there is no end to it."""
        super().data_received(data)
        self.framing_bytes += len(data)
        if self.framing_bytes > MOST_FRAMING_BYTES:
            self.transport.close()
        elif self._is_waiting:
            self._expect_soon()
        self._watch_reader()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the shape of every error, and hang up."""
        if self.transport.is_closing():
            return
        # In a context of its own: the request id is this answer's, and nobody else's.
        answer = copy_context().run(_refuse_malformed, msg)
        fields = [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
        self.transport.write(b"".join([b"HTTP/1.1 400 Bad Request\r\n", *fields, b"\r\n", bytes(answer.body)]))
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Have a request answered, and watch the reader when that ends, be it in the middle of the answer."""

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            try:
                await app(scope, receive, send)
            finally:
                # By then uvicorn has closed the transport of an answer that is not whole.
                self.loop.call_soon(self._watch_reader)

        super()._start_asgi_task(cycle, answer)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which no further request has come."""
        super().timeout_keep_alive_handler()
        self._watch_reader()

    def shutdown(self) -> None:
        """Let the request that is being answered know that the service waits for it (`dependencies.is_stopping`)."""
        super().shutdown()
        if self._is_answering:
            cast("dict[str, object]", self.cycle.scope)[STOPPING] = True
        self._watch_reader()

    @property
    def has_unsent(self) -> bool:
        """Whether a part of the last answer waits for its reader."""
        return self.transport.get_write_buffer_size() > 0

    @property
    def is_slow(self) -> bool:
        """Whether the body comes more slowly than `Body` allows on the whole, and the service isn't why.

        The service may be until it says "100 Continue"; one that keeps an upload waiting to be authenticated has paused
        reading, or has all of it.
        """
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:
            return False
        elapsed = self.loop.time() - self.body_began - BEGIN_SECONDS
        return self.body_bytes < SLOWEST_BYTES_A_SECOND * elapsed

    def abort(self) -> None:
        """Close the connection without sending what is left."""
        self.transport.abort()

    def _report_state(self) -> None:
        """Report the connection as waiting (then it may be closed for another one), receiving, or answering."""
        connections = self.open_connections
        if connections is None:
            return
        if not self._is_answering:
            connections.note_waiting(self)
        elif self.cycle.more_body:
            connections.note_receiving(self)
        else:
            connections.note_answering(self)

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
        elif self.has_unsent:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.close()

    def _watch_reader(self) -> None:
        """Wait for the reader of what is unsent while nothing is added to that: answers wait, or there are no more."""
        if not self.has_unsent or not (self.flow.write_paused or self.transport.is_closing()):
            self._stop_watching()
        elif self.reading_deadline is None:
            self.unsent_before = self.transport.get_write_buffer_size()
            self.reading_deadline = self.loop.call_later(self.reading_seconds, self._judge_reader)

    def _stop_watching(self) -> None:
        if self.reading_deadline is not None:
            self.reading_deadline.cancel()
            self.reading_deadline = None

    def _judge_reader(self) -> None:
        self.reading_deadline = None
        read = self.unsent_before - self.transport.get_write_buffer_size()
        if self.has_unsent and read < SLOWEST_BYTES_A_SECOND * self.reading_seconds:
            self.transport.abort()
        else:
            self._watch_reader()


class Server(uvicorn.Server):
    """A uvicorn server whose connections are bounded where they are accepted.

    Signals are left to `serve`: uvicorn's own handling would end the process before the database.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self.connections = connections
        # The task of `serve`, which opens and closes the application, too.
        self.running: asyncio.Task[Any] | None = None

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do nothing."""
        yield

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to answer, and say where."""
        listeners = [Listener(one, self.connections, make_protocol=self._protocol) for one in sockets or ()]
        # uvicorn closes these, and waits for them, as it does with the event loop's own servers.
        self.servers = cast("list[asyncio.base_events.Server]", listeners)
        for listener in listeners:
            listener.listen(self.config.backlog)
            logger.info("listening", url=f"http://{listener.address}")
        self.started = True

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Accept nobody any more and finish what is in flight."""
        self.connections.close()
        await super().shutdown(sockets)
        await self._end_requests()
        self.started = False

    def stop(self) -> None:
        """Finish what is in flight and end; asked twice, end at once.

        While it serves, uvicorn does so by itself. While the application is opened or closed, nobody else would.
        """
        self.force_exit = self.should_exit
        self.should_exit = True
        if self.force_exit and not self.started and self.running is not None:
            self.running.cancel()

    async def _end_requests(self) -> None:
        """Cancel the requests that are left, and wait a while: the application that they use is closed next."""
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
    """Serve until SIGTERM or SIGINT; one that comes during the start is obeyed as soon as all is open to be closed.

    Raises:
        DatabaseServerError: the embedded database can't be started, or the data folder is in use.
        ValueError: the address can't be listened on, or the process may open too few files.
    """
    connections = Connections(
        most_connections(settings, raise_limit()), is_shared=shared_addresses(settings.trusted_proxies)
    )
    config = server_config(settings)
    try:
        listener = config.bind_socket()
    except SystemExit:  # uvicorn has logged the system's reason, but not of which address
        msg = f"Nothing can listen on {settings.host}:{settings.port}. Set CARREL_HOST and CARREL_PORT to what is free."
        raise ValueError(msg) from None
    server = Server(config, connections)
    server.running = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop)
    # Port 0 takes a free one, which the issuer names.
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    try:
        async with open_app(settings) as app:
            app.state.connections = connections
            app.state.metrics.watch(connections)
            config.app = app
            if not server.should_exit:
                await server.serve([listener])
    except asyncio.CancelledError:
        if not server.force_exit:
            raise
    finally:
        listener.close()
    logger.info("stopped")


def _refuse_malformed(reason: str) -> JSONResponse:
    request_id = begin_request(None)
    answer = error_response(BadRequest(f"{reason} Check what sends it.", code="malformed_http"))
    mark_answer(answer.headers, request_id)
    answer.headers["Connection"] = "close"
    return answer
