"""Streams: iterators over the items that an operation emits."""

from collections.abc import AsyncGenerator, Generator
from typing import Generic, Self, TypeVar

from carrel._closing import AsyncClosing, Closing

Item = TypeVar("Item")


class Stream(Closing, Generic[Item]):
    """Items of a response as they arrive; the first `next` sends the request, and it can be iterated over once.

    The connection is closed early at the end of a `with`, by `close`, or when nothing refers to the stream any more.
    """

    def __init__(self, walk: Generator[Item, None, None]) -> None:
        self._walk = walk

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        return next(self._walk)

    def close(self) -> None:
        """Close the connection without reading the rest of the stream."""
        self._walk.close()


class AsyncStream(AsyncClosing, Generic[Item]):
    """Items of a response as they arrive; the first `anext` sends the request, and it can be iterated over once.

    The connection is closed early at the end of an `async with`, by `close`, or when nothing refers to the stream any
    more.
    """

    def __init__(self, walk: AsyncGenerator[Item, None]) -> None:
        self._walk = walk

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        return await anext(self._walk)

    async def close(self) -> None:
        """Close the connection without reading the rest of the stream."""
        await self._walk.aclose()
