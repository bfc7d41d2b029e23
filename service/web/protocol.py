"""HTTP/1.1 between uvicorn and possibly hostile callers, with limits on time, bytes and requests."""

import asyncio
from contextvars import copy_context
from typing import Any, cast

from fastapi.responses import JSONResponse
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.platform.errors import BadRequest, error_response
from service.platform.logs import begin_request
from service.web.connections import Connections
from service.web.dependencies import STOPPING
from service.web.edge import PATIENCE_SECONDS, SLOWEST_BYTES_A_SECOND, mark_answer

# Before this time, no body counts as slow.
BEGIN_SECONDS = 2.0
# The most bytes in a row outside a body: headers, trailers, and the frames of chunks.
MOST_FRAMING_BYTES = 1024 * 1024
TLS_HANDSHAKE = b"\x16\x03"
TLS_SPOKEN = "This port accepts http, but the request used TLS. Use http://, or the address of your TLS proxy."
# The most requests before their answers; requests of a single read are all parsed before the first answer.
MOST_PIPELINED = 16
# Most senders read the answer only after sending all, so up to this much is discarded after an early refusal.
MOST_DISCARDED_BYTES = 64 * 1024 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 that disconnects callers that send endless headers, stall, or don't read. `web.edge` limits bodies."""

    # The time limit for a request's headers.
    header_seconds = PATIENCE_SECONDS
    # The time limit for reading the next part of an answer.
    reading_seconds = PATIENCE_SECONDS
    framing_bytes = 0
    speaks_tls = False
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
        # The request being answered; `cycle` is the newest request, which may wait for earlier answers.
        self.answered_cycle: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._expect_soon()
        self._report_state()
        if self.open_connections is not None and self.open_connections.is_closing:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting, and notify the request in progress of the reader's absence."""
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
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch_reader()

    def on_message_begin(self) -> None:
        """Start counting. Disconnect a client with too many requests ahead of the responses."""
        if len(self.pipeline) >= MOST_PIPELINED:
            self.pipeline.clear()
            self.abort()
            raise ConnectionAbortedError  # stops the parser
        self.in_headers = True
        self.framing_bytes = 0
        self.discarded_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Accept a header. A trailer, after the body, is ignored, because no trailers were requested."""
        if self.in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.in_headers = False
        self.framing_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()
        if self.open_connections is not None and self.open_connections.is_draining:
            # Make the client connect again, to another worker.
            self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"close")]
        if not self.pipeline:
            self.answered_cycle = self.cycle
        self.body_began = self.loop.time()
        self.body_bytes = 0
        self._report_state()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self.framing_bytes = 0
        self.body_bytes += len(body)
        if self.cycle.response_complete:
            self.discarded_bytes += len(body)
            if self.discarded_bytes > MOST_DISCARDED_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._report_state()

    def on_response_complete(self) -> None:
        self.answered_cycle = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self.pipeline:
            # The next request is already read; later requests can wait.
            self.flow.pause_reading()
        elif self.cycle.more_body:
            self._expect_soon()
        self._report_state()
        self._watch_reader()

    def data_received(self, data: bytes) -> None:
        self.speaks_tls = data.startswith(TLS_HANDSHAKE)
        super().data_received(data)
        self.framing_bytes += len(data)
        if self.framing_bytes > MOST_FRAMING_BYTES:
            self.transport.close()
        elif self._is_waiting:
            self._expect_soon()
        self._watch_reader()

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed HTTP, in the shape of every error, and disconnect."""
        if self.transport.is_closing():
            return
        # In a separate context, because the request id belongs only to this answer.
        answer = copy_context().run(_malformed_answer, TLS_SPOKEN if self.speaks_tls else msg)
        fields = [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
        self.transport.write(b"".join([b"HTTP/1.1 400 Bad Request\r\n", *fields, b"\r\n", bytes(answer.body)]))
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Start the response to a request, and watch the reader when it ends, even in the middle of the response."""

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            try:
                await app(scope, receive, send)
            finally:
                # By then, uvicorn has closed the transport of an incomplete answer.
                self.loop.call_soon(self._watch_reader)

        super()._start_asgi_task(cycle, answer)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_reader()

    def shutdown(self) -> None:
        """Notify the request in progress that the service is waiting (`dependencies.is_stopping`)."""
        super().shutdown()
        if self._is_answering:
            cast("dict[str, object]", self.cycle.scope)[STOPPING] = True
        self._watch_reader()

    @property
    def has_unsent(self) -> bool:
        return self.transport.get_write_buffer_size() > 0

    @property
    def is_slow(self) -> bool:
        """Whether the body is slower than `Body` allows, except by the service ("100 Continue", authentication)."""
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:
            return False
        elapsed = self.loop.time() - self.body_began - BEGIN_SECONDS
        return self.body_bytes < SLOWEST_BYTES_A_SECOND * elapsed

    def abort(self) -> None:
        self.transport.abort()

    def _report_state(self) -> None:
        """Report the connection as waiting (and closable for another connection), receiving, or answering."""
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
        """Whether incoming data belongs to a new request, or to the rest of a refused request."""
        return self.in_headers or not self._is_answering

    def _expect_soon(self) -> None:
        if self.deadline is None:
            self.discarded_before = self.discarded_bytes
            self.deadline = self.loop.call_later(self.header_seconds, self._close_if_stalled)

    def _stop_waiting(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _close_if_stalled(self) -> None:
        self.deadline = None
        discarded = self.discarded_bytes - self.discarded_before
        if self._is_answering or discarded > SLOWEST_BYTES_A_SECOND * self.header_seconds:
            self._expect_soon()
        elif self.has_unsent:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.close()

    def _watch_reader(self) -> None:
        """Wait for the reader of unsent data while no data is added: responses wait, or there are no more."""
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


def _malformed_answer(reason: str) -> JSONResponse:
    request_id = begin_request(None)
    answer = error_response(BadRequest(f"{reason} Check the program that sent it.", code="malformed_http"))
    mark_answer(answer.headers, request_id)
    answer.headers["Connection"] = "close"
    return answer
