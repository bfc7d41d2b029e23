"""Operations as attributes of resources, typed for every way to call them. A resource is generic in its mode:
`Catalog[Sync]` on a Carrel, `Catalog[Async]` on an AsyncCarrel, `Catalog[Raw[Sync]]` and `Catalog[Raw[Async]]` behind
`with_raw_response`. An operation is a method that returns a Call; its descriptor returns the mode's result."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from pydantic import ValidationError

from carrel._calls import Call, Connection, RawResponse, perform, perform_streamed
from carrel._connect import UNCHANGED, MaybeTimeout, reconnect
from carrel._downloads import AsyncDownload, Download
from carrel._drivers import AsyncDriver, Flow, SyncDriver, Walk
from carrel._pages import AsyncPager, AsyncStream, Listing, Page, Pager, Stream
from carrel.errors import InvalidArgumentError
from carrel.wire.common import ResponseModel

P = ParamSpec("P")
M = TypeVar("M")
Item = TypeVar("Item", bound=ResponseModel)
Model = TypeVar("Model", bound=ResponseModel)
T = TypeVar("T")
Given = TypeVar("Given")
Awaited = TypeVar("Awaited")
RawGiven = TypeVar("RawGiven")
RawAwaited = TypeVar("RawAwaited")
NO_ID = "must be an id (a UUID), as lists give it"


class Sync:
    """Mode of resources with blocking operations."""


class Async:
    """Mode of resources with operations to await."""


class Raw(Generic[M]):
    """Mode of resources with operations that return the whole HTTP response."""


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A connection, its driver, and whether to return whole responses."""

    connection: Connection
    driver: SyncDriver | AsyncDriver
    raw: bool = False

    def as_raw(self) -> "Session":
        """Return a session with whole responses as results."""
        return replace(self, raw=True)

    def perform(self, make_call: Callable[[], Call[Model]]) -> Flow[RawResponse[Model] | Model]:
        """Check the arguments of an operation, then perform it."""
        answer = yield from perform(check_arguments(make_call), self.connection)
        return answer if self.raw else answer.parsed


class Resource(Generic[M]):
    """A group of operations under a path segment."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.connection.base_url!r})"


def session_of(resource: Resource[Any]) -> Session:
    return resource._session  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the descriptors are its other half


def check_arguments(make: Callable[[], T]) -> T:
    """Return the result of building a request; raises InvalidArgumentError for invalid arguments."""
    try:
        return make()
    except ValidationError as exc:
        problems = "; ".join(f"{'.'.join(map(str, error['loc']))}: {_describe_wrong(error)}" for error in exc.errors())
        raise InvalidArgumentError(problems) from exc


def _describe_wrong(error: Mapping[str, Any]) -> str:
    match error["type"], error.get("ctx", {}):
        case "uuid_parsing", _:
            return NO_ID
        case "string_too_short", {"min_length": 1}:
            return "must not be empty"
        case "string_too_long", {"max_length": int(most)}:
            return f"is too long, with {len(error['input']):,} characters: at most {most:,} are allowed"
        case _:
            return error["msg"].removeprefix("Value error, ")


def _with_options(session: Session, kwargs: dict[str, Any], names: Iterable[str] = ("timeout", "headers")) -> Session:
    """Return the session for one call, and remove the call's own `timeout` and `headers` from `kwargs`."""
    options = {name: kwargs.pop(name) for name in names if name in kwargs}
    if not options:
        return session
    headers: Mapping[str, str] = options.get("headers") or {}
    timeout: MaybeTimeout = options.get("timeout", UNCHANGED)
    connection = reconnect(session.connection, timeout=timeout, max_retries=None, headers=headers)
    return replace(session, connection=replace(connection, is_exact=timeout is not UNCHANGED))


def _with_own_session(resource: Resource[Any], kwargs: dict[str, Any], *names: Iterable[str]) -> Resource[Any]:
    """Return the resource for one call, and remove the options named in `_with_options` from `kwargs`."""
    session = _with_options(session_of(resource), kwargs, *names)
    return resource if session is session_of(resource) else type(resource)(session)


class _Method(Generic[P, Given, Awaited, RawGiven, RawAwaited]):
    """A function called with its resource; the type parameters are the results in the four modes."""

    _call: Callable[..., Any]

    def _describe(self, call: Callable[..., Any], function: Callable[..., Any]) -> None:
        update_wrapper(cast("Any", self), function)
        self._call = update_wrapper(call, function)

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, Given]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, Awaited]: ...
    @overload
    def __get__(self, resource: Resource[Raw[Sync]], owner: type) -> Callable[P, RawGiven]: ...
    @overload
    def __get__(self, resource: Resource[Raw[Async]], owner: type) -> Callable[P, RawAwaited]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        return self if resource is None else MethodType(self._call, resource)


class Operation(
    _Method[P, Model, Coroutine[Any, Any, Model], RawResponse[Model], Coroutine[Any, Any, RawResponse[Model]]],
    Generic[P, Model],
):
    """An operation with one response."""

    def __init__(self, function: Callable[Concatenate[Any, P], Call[Model]]) -> None:
        def call(resource: Resource[Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
            session = _with_options(session_of(resource), kwargs)
            return session.driver.run(session.perform(lambda: function(resource, *args, **kwargs)))

        self._describe(call, function)


class ListOperation(
    _Method[P, Pager[Item, Page], AsyncPager[Item, Page], RawResponse[Page], Coroutine[Any, Any, RawResponse[Page]]],
    Generic[P, Item, Page],
):
    """An operation with pages; the result iterates over all of them, or is the first response when raw."""

    def __init__(self, function: Callable[Concatenate[Any, P], Listing[Item, Page]]) -> None:
        def call(resource: Resource[Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
            session = _with_options(session_of(resource), kwargs)
            if session.raw:
                return session.driver.run(session.perform(lambda: function(resource, *args, **kwargs).first()))
            listing = check_arguments(lambda: function(resource, *args, **kwargs))
            if isinstance(session.driver, SyncDriver):
                return Pager(listing, session.connection, session.driver)
            return AsyncPager(listing, session.connection, session.driver)

        self._describe(call, function)


class DownloadOperation(
    _Method[P, Download, Coroutine[Any, Any, AsyncDownload], Download, Coroutine[Any, Any, AsyncDownload]], Generic[P]
):
    """An operation that downloads a file, read from the connection on demand."""

    def __init__(self, function: Callable[Concatenate[Any, P], Call[Any]]) -> None:
        def flow(session: Session, make: Callable[[], Call[Any]]) -> Flow[Download | AsyncDownload]:
            response = yield from perform_streamed(check_arguments(make), session.connection)
            return Download(response) if isinstance(session.driver, SyncDriver) else AsyncDownload(response)

        def call(resource: Resource[Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
            session = _with_options(session_of(resource), kwargs)
            return session.driver.run(flow(session, lambda: function(resource, *args, **kwargs)))

        self._describe(call, function)


class FlowOperation(_Method[P, T, Coroutine[Any, Any, T], T, Coroutine[Any, Any, T]], Generic[P, T]):
    """An operation of several calls, with a combined result."""

    def __init__(self, function: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        def flow(make: Callable[[], Flow[T]]) -> Flow[T]:
            return (yield from check_arguments(make))

        def call(resource: Resource[Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
            own = _with_own_session(resource, kwargs, ("headers",))
            return session_of(own).driver.run(flow(lambda: function(own, *args, **kwargs)))

        self._describe(call, function)


class StreamOperation(_Method[P, Stream[T], AsyncStream[T], Stream[T], AsyncStream[T]], Generic[P, T]):
    """An operation that returns a stream."""

    def __init__(self, function: Callable[Concatenate[Any, P], Walk[T]]) -> None:
        def call(resource: Resource[Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
            own = _with_own_session(resource, kwargs)
            driver, walk = session_of(own).driver, check_arguments(lambda: function(own, *args, **kwargs))
            return Stream(driver.walk(walk)) if isinstance(driver, SyncDriver) else AsyncStream(driver.walk(walk))

        self._describe(call, function)
