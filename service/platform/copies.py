"""Caches: files of a remote store, on local disk, and answers of remote services, in memory."""

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

MOST_BYTES = 256 << 20
"""The most disk space for the copies of a process; a larger file is copied at every read."""
MOST_COPIES = 64
KEPT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Copy:
    descriptor: int
    size: int
    closing: asyncio.TimerHandle


class Copies:
    """Copies by the SHA-256 of their content, ordered by last read."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, _Copy] = OrderedDict()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def open(self, sha256: bytes, copying: AbstractAsyncContextManager[Path]) -> AsyncGenerator[Path]:
        """Yield a path, valid until the block ends, of the kept copy of a content, else of the file from `copying`."""
        with ExitStack() as reading:
            async with self._lock:
                kept = self._kept.get(sha256)
                if kept is not None:
                    descriptor = os.dup(kept.descriptor)
                    reading.callback(_close_in_thread, descriptor)
                else:
                    async with copying as path:
                        descriptor = os.open(path, os.O_RDONLY)
                        reading.callback(_close_in_thread, descriptor)
                self._keep(sha256, descriptor)
            yield Path(f"/proc/{os.getpid()}/fd/{descriptor}")

    def close(self) -> None:
        for sha256 in list(self._kept):
            self._close(sha256)

    def _keep(self, sha256: bytes, descriptor: int) -> None:
        """Keep a copy as the most recently read, and close older copies beyond the limits on number and size."""
        size = os.fstat(descriptor).st_size
        if size > MOST_BYTES:
            return
        if sha256 in self._kept:
            self._close(sha256)
        closing = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._close, sha256)
        self._kept[sha256] = _Copy(os.dup(descriptor), size, closing)
        while len(self._kept) > MOST_COPIES or sum(copy.size for copy in self._kept.values()) > MOST_BYTES:
            self._close(next(iter(self._kept)))

    def _close(self, sha256: bytes) -> None:
        copy = self._kept.pop(sha256)
        copy.closing.cancel()
        _close_in_thread(copy.descriptor)


def _close_in_thread(descriptor: int) -> None:
    asyncio.get_running_loop().run_in_executor(None, os.close, descriptor)


Found = TypeVar("Found")
# How long an error is the answer to further requests.
ERROR_SECONDS = 3.0
MOST = 256


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    came_at: float = float("-inf")
    answer: Any = None
    error: Exception | None = None


class Kept:
    """Answers by name, in one process's memory: the `MOST` most recently requested."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    async def get(
        self, name: Hashable, ask: Callable[[], Awaitable[Found]], *, since: float, errors: type[Exception]
    ) -> Found:
        """Return a cached answer newer than `since` (`time.monotonic`), or ask; cache `errors` for `ERROR_SECONDS`."""
        entry = self._entries.setdefault(name, _Entry())
        self._entries.move_to_end(name)
        while len(self._entries) > MOST:
            self._entries.popitem(last=False)
        async with entry.lock:
            oldest = since if entry.error is None else max(since, time.monotonic() - ERROR_SECONDS)
            if entry.came_at < oldest:
                # Keep the older answer until there is a new one, because this request may be cancelled.
                try:
                    entry.answer, entry.error = await ask(), None
                except errors as error:
                    entry.answer, entry.error = None, error
                entry.came_at = time.monotonic()
            if entry.error is not None:
                raise entry.error
            return entry.answer
