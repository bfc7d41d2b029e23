"""Lists, whose pages are fetched during iteration, and streams; close both with `with` or `async with`."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, cast

from carrel._calls import Call, Connection, perform
from carrel._drivers import AsyncDriver, Emit, Flow, SyncDriver, Walk
from carrel.errors import CarrelError
from carrel.wire.common import PagedRequest, PagedResponse, ResponseModel
from carrel.wire.frames import frame_of
from carrel.wire.operations import ApiOperation

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item", bound=ResponseModel)
Page = TypeVar("Page", bound=PagedResponse)
Driver = TypeVar("Driver", SyncDriver, AsyncDriver)
ListProgress: TypeAlias = Callable[[int, int | None], object]
"""Called after each page with the number of items so far, and the total (None until the last page)."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item, Page]):
    """A list operation with its arguments; `items` returns the rows of a page, `values` are the path parameters."""

    operation: ApiOperation[Any, Page]
    request: PagedRequest
    items: Callable[[Page], Sequence[Item]]
    values: Mapping[str, object] = field(default_factory=dict[str, object])

    def first(self) -> Call[Page]:
        """Return the call for the first page, or for the page of the request's page token."""
        return Call(self.operation, self.request, values=self.values)

    def after(self, page: Page) -> "Listing[Item, Page] | None":
        """Return the listing of the items after a page; None after the last. Raises CarrelError for a repeated page."""
        if (token := page.next_page_token) is None:
            return None
        if token == self.request.page_token:
            raise CarrelError("The list can't continue: the service returned the same page twice")
        return replace(self, request=self.request.model_copy(update={"page_token": token}))


def fetch(listing: Listing[Item, Page], connection: Connection) -> Flow[Page]:
    return (yield from perform(listing.first(), connection)).parsed


@dataclass(eq=False, repr=False)
class _Paged(Generic[Item, Page, Driver]):
    _listing: Listing[Item, Page]
    _connection: Connection
    _driver: Driver
    _on_progress: ListProgress | None = None

    def __repr__(self) -> str:
        parameters = self._listing.request.model_dump(exclude_defaults=True, by_alias=False)
        listed = "".join(f", {name}={value!r}" for name, value in parameters.items())
        kind, path = type(self).__name__, self._listing.operation.path
        return f"<{kind} of {path}{listed}: iterate it, or take first() or to_frame()>"

    def with_progress(self, on_progress: ListProgress) -> Self:
        """Return the list with progress: `on_progress` gets the number of items and the total (None until the end)."""
        return type(self)(self._listing, self._connection, self._driver, on_progress)

    def _walk_pages(self) -> Walk[Page]:
        rest: Listing[Item, Page] | None = self._listing
        done = 0
        while rest is not None:
            page = yield from fetch(rest, self._connection)
            done += len(rest.items(page))
            if self._on_progress is not None:
                self._on_progress(done, None if page.next_page_token else done)
            yield Emit(page)
            rest = rest.after(page)


class Pager(_Paged[Item, Page, SyncDriver]):
    """All items of a list, in the list's order; pages are fetched while iterating, and each iteration starts again."""

    def __iter__(self) -> Iterator[Item]:
        for page in self.pages():
            yield from self._listing.items(page)

    def first(self) -> Item | None:
        """Return the first item, or None for an empty list."""
        return next(iter(self), None)

    def pages(self) -> Iterator[Page]:
        """Yield the pages. Keep a page's `next_page_token` to continue after the page later."""
        return self._driver.walk(self._walk_pages())

    def to_frame(self) -> "pd.DataFrame":
        """Fetch the whole list as a pandas DataFrame; see `carrel.wire.frames.frame_of`."""
        return frame_of(list(self), _row_type(self._listing))


class AsyncPager(_Paged[Item, Page, AsyncDriver]):
    """All items of a list, in the list's order; pages are fetched while iterating, and each iteration starts again."""

    async def __aiter__(self) -> AsyncIterator[Item]:
        async for page in self.pages():
            for item in self._listing.items(page):
                yield item

    async def first(self) -> Item | None:
        """Return the first item, or None for an empty list."""
        return await anext(aiter(self), None)

    def pages(self) -> AsyncIterator[Page]:
        """Yield the pages. Keep a page's `next_page_token` to continue after the page later."""
        return self._driver.walk(self._walk_pages())

    async def to_frame(self) -> "pd.DataFrame":
        """Fetch the whole list as a pandas DataFrame; see `carrel.wire.frames.frame_of`."""
        return frame_of([item async for item in self], _row_type(self._listing))


def _row_type(listing: Listing[Item, Page]) -> object:
    return cast("type[PagedResponse]", listing.operation.answer).row_type()


class Closing(ABC):
    """Closed at the end of a `with` block, also after an error."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClosing(ABC):
    """Closed at the end of an `async with` block, also after an error."""

    @abstractmethod
    async def close(self) -> None:
        """Release the resources of the object."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


Streamed = TypeVar("Streamed")


class Stream(Closing, Generic[Streamed]):
    """Items of a response as they arrive. The first `next` sends the request; a stream can be iterated over once. The
    connection closes early at the end of a `with`, by `close`, or when the stream is garbage-collected."""

    def __init__(self, walk: Generator[Streamed, None, None]) -> None:
        self._walk = walk

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Streamed:
        return next(self._walk)

    def close(self) -> None:
        """Close the connection without reading the rest of the stream."""
        self._walk.close()


class AsyncStream(AsyncClosing, Generic[Streamed]):
    """Items of a response as they arrive, like Stream, for `async for` and `async with`."""

    def __init__(self, walk: AsyncGenerator[Streamed, None]) -> None:
        self._walk = walk

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Streamed:
        return await anext(self._walk)

    async def close(self) -> None:
        """Close the connection without reading the rest of the stream."""
        await self._walk.aclose()
