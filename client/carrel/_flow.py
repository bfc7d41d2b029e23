"""The effects that an operation asks for, carried out by its driver (blocking, asynchronous, test). A flow is a
generator: it yields a Request and gets the `httpx.Response` or the thrown `httpx.HTTPError`; a Sleep, and gets None;
Work, and gets its result; and returns its own. A walked flow also yields Read, and gets a stream's next event (None at
its end) or the thrown error; and Emit, an item for its walker."""

import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

import httpx
from httpx_sse import EventSource

from carrel._uploads import Upload

T = TypeVar("T")
TRACEPARENT = "traceparent"


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request to send; `timeout` in seconds as httpx's transports take it; `stream`: leave the body unread."""

    url: httpx.URL
    headers: httpx.Headers
    body: bytes | Upload
    timeout: Mapping[str, float | None]
    stream: bool = False
    method: str = "POST"

    def to_httpx(self) -> httpx.Request:
        """Return the request for one attempt; an upload starts over from its beginning."""
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
        """Return the request with an access token."""
        headers = self.headers.copy()
        headers["Authorization"] = f"Bearer {token}"
        return replace(self, headers=headers)

    @property
    def repeatable(self) -> bool:
        """Whether the request can be sent again from its beginning; see `Upload.repeatable`."""
        return isinstance(self.body, bytes) or self.body.repeatable


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """A blocking call that must not run in an event loop's thread; its exceptions end the flow."""

    do: Callable[[], Any]


class Events:
    """The server-sent events of a response whose body is unread, read one by one, blocking or awaited."""

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
    """An item for the caller who walks the flow."""

    item: T


# What is sent in depends on what was yielded, which a generator's type can't say.
Flow: TypeAlias = Generator[Request | Sleep | Work, Any, T]
Walk: TypeAlias = Generator[Request | Sleep | Work | Read | Emit[T], Any, None]


def run_in_thread(do: Callable[[], T]) -> Flow[T]:
    """Return the result of a slow call, which runs in a thread if an event loop drives the flow."""
    result: T = yield Work(do)
    return result
