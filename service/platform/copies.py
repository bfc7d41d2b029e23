"""Copies of stored files on this machine's disk, of a store elsewhere: who leafs through a document has it copied once.

They are few, small together, and gone a few minutes after they were read last.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 256 << 20
"""The copies of a process take up so much at most; a larger file is copied whenever it is read."""
KEPT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy, its size in bytes, and what deletes it when nobody reads it any more."""

    path: Path
    size: int
    deletion: asyncio.TimerHandle


class Copies:
    """Copies by the SHA-256 of their content, in the order in which they were read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, _Copy] = OrderedDict()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def open(self, sha256: bytes, copying: AbstractAsyncContextManager[Path]) -> AsyncGenerator[Path]:
        """Yield where a copy of a content lies; `copying` makes one, which is gone when that ends.

        Several who want it at once wait for one copy.
        """
        async with self._lock:
            kept = self._take(sha256)
            if kept is None:
                async with copying as path:
                    kept = await asyncio.to_thread(_keep, path)
                    if kept is None:
                        yield path
                        return
            self._put(sha256, *kept)
        yield kept[0]

    def _take(self, sha256: bytes) -> tuple[Path, int] | None:
        """Return a copy that is kept, which nothing deletes from now on; None where there is none."""
        copy = self._kept.pop(sha256, None)
        if copy is None:
            return None
        copy.deletion.cancel()
        # Whoever clears the folder of what nobody has written to for a day takes it, too.
        return (copy.path, copy.size) if copy.path.is_file() else None

    def _put(self, sha256: bytes, path: Path, size: int) -> None:
        """Keep a copy as the one that was read last, and delete others until all are small enough together."""
        deletion = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._delete, sha256)
        self._kept[sha256] = _Copy(path, size, deletion)
        while sum(copy.size for copy in self._kept.values()) > MOST_BYTES:
            self._delete(next(iter(self._kept)))

    def _delete(self, sha256: bytes) -> None:
        copy = self._kept.pop(sha256)
        copy.deletion.cancel()
        asyncio.get_running_loop().run_in_executor(None, copy.path.unlink, True)


def _keep(path: Path) -> tuple[Path, int] | None:
    """Give a file a second name, by which it stays when the first is gone; None for one that can't be kept."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        return None
    kept = path.with_name(f"{path.name}-kept")
    try:
        os.link(path, kept)
    except OSError:  # a file system without second names
        return None
    return kept, size
