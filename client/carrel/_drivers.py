"""Flows, generators of effects such as requests and pauses, and two drivers that perform effects by `httpx` clients."""

import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

import anyio
import anyio.to_thread
import httpx
from httpx_sse import EventSource

from carrel._uploads import Upload
from carrel.environment import http_options
from carrel.errors import ConfigurationError

T = TypeVar("T")

TRACEPARENT = "traceparent"


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request. `timeout` is in seconds by httpx's names; `stream` leaves the body unread."""

    url: httpx.URL
    headers: httpx.Headers
    body: bytes | Upload
    timeout: Mapping[str, float | None]
    stream: bool = False
    method: str = "POST"

    def to_httpx(self) -> httpx.Request:
        """Return the request for a single attempt; an upload restarts from the beginning."""
        extensions, headers = {"timeout": self.timeout}, self._traced_headers()
        if isinstance(self.body, bytes):
            return httpx.Request(self.method, self.url, headers=headers, content=self.body, extensions=extensions)
        stream = self.body.stream()
        return httpx.Request(self.method, self.url, headers=headers, stream=stream, extensions=extensions)

    def _traced_headers(self) -> httpx.Headers:
        get_span = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
        span = get_span().get_span_context() if get_span is not None else None
        if span is None or not span.is_valid or TRACEPARENT in self.headers:
            return self.headers
        headers = self.headers.copy()
        headers[TRACEPARENT] = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
        return headers

    def bearing(self, token: str) -> "Request":
        headers = self.headers.copy()
        headers["Authorization"] = f"Bearer {token}"
        return replace(self, headers=headers)

    @property
    def repeatable(self) -> bool:
        """Whether the request can be sent again; see `Upload.repeatable`."""
        return isinstance(self.body, bytes) or self.body.repeatable


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """A blocking call, kept out of event loop threads; exceptions end the flow."""

    do: Callable[[], Any]


class Events:
    """The server-sent events of an unread response, read one at a time, blocking or awaited."""

    def __init__(self, response: httpx.Response) -> None:
        source = EventSource(response)
        self.response = response
        self.blocking = source.iter_sse()
        self.awaiting = source.aiter_sse()


@dataclass(frozen=True, slots=True)
class Read:
    """The next event of a stream."""

    events: Events


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """An item for the caller of `walk`."""

    item: T


# The type of a sent value depends on the yielded value; a generator's type can't express this.
Flow: TypeAlias = Generator[Request | Sleep | Work, Any, T]
Walk: TypeAlias = Generator[Request | Sleep | Work | Read | Emit[T], Any, None]


def run_in_thread(do: Callable[[], T]) -> Flow[T]:
    """Return the result of a slow call; in an event loop, the call runs in a thread."""
    result: T = yield Work(do)
    return result


def _emit_result(flow: Flow[T]) -> Walk[T]:
    yield Emit((yield from flow))


class SyncDriver:
    """Runs flows in the calling thread."""

    def __init__(self, http: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self.http = http
        self.sleep = sleep

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end and return the result; exceptions pass through."""
        with closing(self.walk(_emit_result(flow))) as walk:
            return next(walk)

    def walk(self, flow: Walk[T]) -> Generator[T, None, None]:
        """Yield the items emitted by a flow; the stream is always closed at the end."""
        reading: Events | None = None
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Emit):
                    yield effect.item
                    effect = flow.send(None)
                    continue
                if isinstance(effect, Read):
                    reading = effect.events
                try:
                    result = self._carry_out(effect)
                except httpx.HTTPError as exc:
                    effect = flow.throw(exc)
                else:
                    effect = flow.send(result)
        except StopIteration:
            return
        finally:
            flow.close()
            if reading is not None:
                reading.response.close()

    def _carry_out(self, effect: Request | Sleep | Work | Read) -> object:
        if isinstance(effect, Request):
            _refuse_closed(self.http)
            response = self.http.send(effect.to_httpx(), stream=effect.stream, follow_redirects=False)
            if effect.stream and not response.is_success:
                response.read()
            return response
        if isinstance(effect, Read):
            return next(effect.events.blocking, None)
        return effect.do() if isinstance(effect, Work) else self.sleep(effect.seconds)


class AsyncDriver:
    """Runs flows in the running event loop (asyncio or trio)."""

    def __init__(
        self, http: httpx.AsyncClient, sleep: Callable[[float], Awaitable[None]] = anyio.sleep, *, is_own: bool = False
    ) -> None:
        self.http = http
        self.sleep = sleep
        self._is_own = is_own

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end and return the result; exceptions pass through."""
        async with aclosing(self.walk(_emit_result(flow))) as walk:
            return await anext(walk)

    async def walk(self, flow: Walk[T]) -> AsyncGenerator[T, None]:
        """Yield the items emitted by a flow; the stream is always closed at the end."""
        reading: Events | None = None
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Emit):
                    yield effect.item
                    effect = flow.send(None)
                    continue
                if isinstance(effect, Read):
                    reading = effect.events
                try:
                    result = await self._carry_out(effect)
                except httpx.HTTPError as exc:
                    effect = flow.throw(exc)
                else:
                    effect = flow.send(result)
        except StopIteration:
            return
        finally:
            flow.close()  # at once, even after a failure or cancellation, because the flow may hold resources
            if reading is not None:
                await reading.awaiting.aclose()
                await reading.response.aclose()

    async def _carry_out(self, effect: Request | Sleep | Work | Read) -> object:
        if isinstance(effect, Request):
            _refuse_closed(self.http)
            response = await self._send(effect)
            if effect.stream and not response.is_success:
                await response.aread()
            return response
        if isinstance(effect, Read):
            return await anext(effect.events.awaiting, None)
        return await (anyio.to_thread.run_sync(effect.do) if isinstance(effect, Work) else self.sleep(effect.seconds))

    async def _send(self, request: Request) -> httpx.Response:
        try:
            return await self.http.send(request.to_httpx(), stream=request.stream, follow_redirects=False)
        except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
            if not (self._is_own and isinstance(request.body, Upload) and request.body.broke_off):
                raise
            request = replace(request, body=request.body.without_progress())
        # An event loop drops an early answer (such as "body too large") before the whole body is sent.
        return await anyio.to_thread.run_sync(_send_blocking, request, abandon_on_cancel=True)


def driver_of(http: httpx.Client | httpx.AsyncClient, *, is_own: bool) -> SyncDriver | AsyncDriver:
    """Return the driver of an HTTP client; `is_own` says that the caller didn't provide the client."""
    return AsyncDriver(http, is_own=is_own) if isinstance(http, httpx.AsyncClient) else SyncDriver(http)


def _send_blocking(request: Request) -> httpx.Response:
    with httpx.Client(**http_options(str(request.url))) as http:
        return http.send(request.to_httpx())


def _refuse_closed(http: httpx.Client | httpx.AsyncClient) -> None:
    if http.is_closed:
        raise ConfigurationError("This client is closed. Create a new client")
