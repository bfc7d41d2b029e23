"""The outermost layer: id, log line, metrics, last-resort errors, limits on headers and pace, turns for uploads."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from carrel.wire.operations import ApiOperation
from service.platform import traces
from service.platform.errors import BadRequest, ServiceError, error_response, internal_error
from service.platform.logs import begin_request, logger
from service.platform.networks import begin_sender
from service.web.existing_clients import OLDER_FORM, replace_older_form
from service.web.metrics import UNKNOWN_ROUTE, Metrics

MOST_HEADER_BYTES = 64 * 1024
MOST_HEADERS = 200
MOST_URL_BYTES = 16 * 1024
# The longest wait for the next piece of a body, and the slowest whole body, beyond the same time again.
PATIENCE_SECONDS = 30.0
SLOWEST_BYTES_A_SECOND = 1000
# Of pieces from this size on, one is taken in each pass of the event loop, however many bodies arrive.
LARGE_PIECE_BYTES = 16 * 1024
# The most uploads that are authenticated at once, which leaves database connections for other requests.
UPLOADS_ENTERING = 4
# An upload waits no longer for authentication: when the database is slow, further waiting does not help.
ENTERING_SECONDS = 10.0
CLIENT_GONE = 499
FAILED = 500
# Health checks come every few seconds.
UNTRACED_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
TRACE_HEADERS = (traces.TRACEPARENT, "tracestate")
# The header for deprecated operations and older request forms (RFC 9745): since 2026-01-01T00:00:00Z; both work.
DEPRECATED_SINCE_2026 = "@1767225600"
KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Edge:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._flow = Flow()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await Exchange(self._app, self._metrics, flow=self._flow, scope=scope, send=send).answer(receive)
        else:
            await self._app(scope, receive, send)


class Flow:
    """Fair turns for the bodies of many requests, so that no body delays another request."""

    def __init__(self) -> None:
        self._pass = asyncio.Lock()
        self._entering = asyncio.Semaphore(UPLOADS_ENTERING)

    async def take_turn(self) -> None:
        """Wait until no other body takes a large piece in the current pass of the event loop."""
        async with self._pass:
            await asyncio.sleep(0)

    async def enter(self) -> Callable[[], None]:
        """Wait until few uploads are being authenticated, at most `ENTERING_SECONDS`. Return a function to call
        afterwards, repeatedly if need be."""
        try:
            async with asyncio.timeout(ENTERING_SECONDS):
                await self._entering.acquire()
        except TimeoutError:
            return lambda: None
        left = False

        def leave() -> None:
            nonlocal left
            if not left:
                left = True
                self._entering.release()

        return leave


def mark_answer(headers: MutableHeaders, request_id: str) -> None:
    """Set the headers of every response: the request's id, no type sniffing, and no caching by default."""
    headers["X-Request-Id"] = request_id
    headers["X-Content-Type-Options"] = "nosniff"
    headers.setdefault("Cache-Control", "no-store")


class Exchange:
    """A request and the response."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, flow: Flow, scope: Scope, send: Send) -> None:
        self._app = app
        self._metrics = metrics
        self._flow = flow
        self._scope = scope
        self._send = send
        self._status = 0
        self._span: Span = INVALID_SPAN
        self._headers = Headers(scope=scope)
        self._request_id = begin_request(self._headers.get("x-request-id"))
        begin_sender(HTTPConnection(scope))

    async def answer(self, receive: Receive) -> None:
        """Pass the request on. In every case the request is answered, logged, counted and traced."""
        started = time.perf_counter()
        with self._metrics.in_flight.track_inprogress(), self._trace() as self._span:
            try:
                await self._pass_on(receive)
            except ClientDisconnect:
                self._status = CLIENT_GONE
            except Exception:  # noqa: BLE001 - the last place where a defect can become an answer
                logger.exception("request_failed")
                await self._answer_with(internal_error(), receive)
            finally:
                self._log_and_count(time.perf_counter() - started)

    def _trace(self) -> AbstractContextManager[Span]:
        if self._scope["path"] in UNTRACED_PATHS:
            return nullcontext(INVALID_SPAN)
        parent = {name: self._headers[name] for name in TRACE_HEADERS if name in self._headers}
        return traces.begin("request", {"carrel.request_id": self._request_id}, kind=SpanKind.SERVER, parent=parent)

    async def _pass_on(self, receive: Receive) -> None:
        replace_older_form(self._scope)
        refusal = self._find_refusal()
        if refusal is not None:
            await self._answer_with(refusal, receive)
        elif self._is_upload:
            await self._pass_upload(receive)
        else:
            await self._app(self._scope, Body(receive, flow=self._flow).receive, self._send_marked)

    @property
    def _is_upload(self) -> bool:
        content_type = self._headers.get("content-type", "")
        return self._scope["method"] == "POST" and content_type.lower().startswith("multipart/")

    async def _pass_upload(self, receive: Receive) -> None:
        """Pass on an upload. The turn ends with the body or when a response begins: responses may take long."""
        leave = await self._flow.enter()
        body = Body(receive, flow=self._flow)

        async def receive_known() -> Message:
            leave()
            return await body.receive()

        async def send_left(message: Message) -> None:
            leave()
            await self._send_marked(message)

        try:
            await self._app(self._scope, receive_known, send_left)
        finally:
            leave()

    def _find_refusal(self) -> ServiceError | None:
        headers = self._headers.raw
        if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > MOST_HEADER_BYTES:
            limits = f"{MOST_HEADERS} headers, or over {MOST_HEADER_BYTES:,} bytes of headers"
            message = f"The request has over {limits}. Send fewer or shorter headers."
            return ServiceError(message, code="headers_too_large", status=431)
        if len(self._scope["raw_path"]) + len(self._scope["query_string"]) > MOST_URL_BYTES:
            message = f"The request's address is longer than {MOST_URL_BYTES} bytes. Send a shorter address."
            return ServiceError(message, code="address_too_long", status=414)
        if len(self._headers.getlist("authorization")) > 1:
            # A proxy may check one header, and the service the other.
            return BadRequest("There are several Authorization headers. Send only one.", code="authorization_repeated")
        return None

    async def _answer_with(self, error: ServiceError, receive: Receive) -> None:
        """Send an error's answer, unless an answer has begun."""
        if not self._status:
            await error_response(error)(self._scope, receive, self._send_marked)

    async def _send_marked(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            mark_answer(headers, self._request_id)
            operation: ApiOperation[Any, Any] | None = getattr(self._scope.get("route"), "operation", None)
            link = self._scope.get(OLDER_FORM)
            if link is not None or (operation is not None and operation.is_deprecated):
                headers["Deprecation"] = DEPRECATED_SINCE_2026
            if operation is not None and operation.successor:  # relative to this operation (RFC 5829, section 3.2)
                link = f'<{operation.successor}>; rel="successor-version"'
            if link is not None:
                headers["Link"] = link
        await self._send(message)

    def _log_and_count(self, seconds: float) -> None:
        route = _route(self._scope)
        method = self._scope["method"] if self._scope["method"] in KNOWN_METHODS else "other"
        self._metrics.count(route=route, method=method, status=self._status, seconds=seconds)
        if self._span.is_recording():
            self._span.update_name(f"{method} {route}")
            attributes = {"http.request.method": method, "http.route": route, "http.response.status_code": self._status}
            self._span.set_attributes(attributes)
            if self._status >= FAILED:
                self._span.set_status(StatusCode.ERROR)
        logger.info("request", route=route, method=method, status=self._status, milliseconds=round(seconds * 1000, 1))


class Body:
    """A request body with a minimum pace; only the service's waiting time counts."""

    patience = PATIENCE_SECONDS

    def __init__(self, receive: Receive, *, flow: Flow | None = None) -> None:
        self._receive = receive
        self._flow = flow
        self._is_large = False
        self._is_whole = False
        self._waited = 0.0
        self._bytes = 0

    async def receive(self) -> Message:
        """Return the next message. Raises ServiceError 408 `body_too_slow` if the next piece of the body is late."""
        if self._is_whole:
            return await self._receive()
        if self._is_large and self._flow is not None:
            await self._flow.take_turn()
        began = time.monotonic()
        allowed = 2 * self.patience + self._bytes / SLOWEST_BYTES_A_SECOND - self._waited
        try:
            async with asyncio.timeout(min(self.patience, allowed)):
                message = await self._receive()
        except TimeoutError as error:
            raise ServiceError(
                "The body arrived too slowly or stopped. Send it again.",
                code="body_too_slow",
                status=408,
                headers={"Connection": "close"},
            ) from error
        self._waited += time.monotonic() - began
        self._bytes += len(message.get("body", b""))
        self._is_large = len(message.get("body", b"")) >= LARGE_PIECE_BYTES
        self._is_whole = not message.get("more_body", False)
        return message


def _route(scope: Scope) -> str:
    """Return the matched route's template, without resource names. An unknown path is never a label."""
    template = getattr(scope.get("route"), "path", None)
    if template is None:
        return UNKNOWN_ROUTE
    # A route knows its path without its routers' prefixes; without parameters, the request's path is the template.
    return template if "{" in template else scope["path"]
