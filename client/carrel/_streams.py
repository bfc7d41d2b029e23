"""Streams, iterators over the items that an operation emits, and what `with` and `async with` close."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Generator
from typing import Generic, Self, TypeVar


class Closing(ABC):
    """Closed when its `with` ends, however that ends."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClosing(ABC):
    """Closed when its `async with` ends, however that ends."""

    @abstractmethod
    async def close(self) -> None:
        """Release the resources of the object."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


Item = TypeVar("Item")


class Stream(Closing, Generic[Item]):
    """Items of a response as they arrive; the first `next` sends the request, and it can be iterated over once. The
    connection is closed early at the end of a `with`, by `close`, or when nothing refers to the stream any more."""

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
    """Items of a response as they arrive, as Stream has them, for `async for` and `async with`."""

    def __init__(self, walk: AsyncGenerator[Item, None]) -> None:
        self._walk = walk

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        return await anext(self._walk)

    async def close(self) -> None:
        """Close the connection without reading the rest of the stream."""
        await self._walk.aclose()
