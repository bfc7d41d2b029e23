"""Downloaded files, read from the connection piece by piece."""

import errno
import os
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import IO, TypeAlias
from urllib.parse import unquote

import anyio.to_thread
import httpx

from carrel._calls import connection_error
from carrel._pages import AsyncClosing, Closing
from carrel.wire.file_names import safe_name
from carrel.wire.pages import PAGE_COUNT

CHUNK_SIZE = 256 * 1024

DownloadProgress: TypeAlias = Callable[[int, int | None], None]
"""Called with the bytes received so far and the size of the file (None if unknown)."""


def _unheard(received: int, total: int | None) -> None:
    """Ignore the progress."""


class _Downloaded:
    """The headers of a download's response."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.file_name!r}, size={self.size})"

    @property
    def file_name(self) -> str:
        """The file's name, made safe for every file system; `download` if the response has none."""
        written = self._response.headers.get("content-disposition", "attachment")
        if whole := re.search(r"filename\*=utf-8'[^']*'([^;\s]+)", written, re.IGNORECASE):
            return safe_name(unquote(whole[1]))
        message = EmailMessage()
        message["Content-Disposition"] = written
        return safe_name(message.get_filename() or "")

    @property
    def media_type(self) -> str:
        """The media type, without parameters."""
        return self._response.headers.get("content-type", "application/octet-stream").partition(";")[0].strip()

    @property
    def size(self) -> int | None:
        """Size in bytes; None if unknown."""
        length = self._response.headers.get("content-length")
        return int(length) if length and "content-encoding" not in self._response.headers else None

    @property
    def page_count(self) -> int | None:
        """The number of pages in the document, if the file is a single page; None for a whole file."""
        count = self._response.headers.get(PAGE_COUNT)
        return int(count) if count else None

    @property
    def headers(self) -> httpx.Headers:
        """The response headers."""
        return self._response.headers

    def _partial_file(self, target: str | os.PathLike[str], *, replace: bool) -> "_PartialFile":
        path = Path(target)
        return _PartialFile(path / self.file_name if path.is_dir() else path, replace=replace)


class _PartialFile:
    """A hidden file beside the target, which gets its name at the end. Raises FileExistsError unless `replace`."""

    def __init__(self, target: Path, *, replace: bool) -> None:
        self.target = target
        self._replace = replace
        self._refuse_existing()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.", suffix=".part")
        self.handle: IO[bytes] = os.fdopen(handle, "wb")
        self.partial = Path(name)

    def write(self, chunk: bytes) -> int:
        self.handle.write(chunk)
        return self.handle.tell()

    def finish(self) -> Path:
        self.handle.close()
        self._refuse_existing()
        self.partial.replace(self.target)
        return self.target

    def _refuse_existing(self) -> None:
        if not self._replace and self.target.exists():
            msg = "The file already exists: choose another name, or replace it (replace=True, --replace)"
            raise FileExistsError(errno.EEXIST, msg, str(self.target))

    def discard(self) -> None:
        self.handle.close()
        self.partial.unlink(missing_ok=True)


class Download(_Downloaded, Closing):
    """A file being downloaded. Read it once, with `save`, `read` or `iter_bytes`, or close the download."""

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the file's bytes as they arrive. Raises APIConnectionError when the connection breaks."""
        try:
            yield from self._response.iter_bytes(CHUNK_SIZE)
        except httpx.HTTPError as exc:
            raise connection_error(exc) from exc
        finally:
            self._response.close()

    def read(self) -> bytes:
        """Return the whole file."""
        return b"".join(self.iter_bytes())

    def save(
        self, target: str | os.PathLike[str], *, replace: bool = False, on_progress: DownloadProgress = _unheard
    ) -> Path:
        """Write the file to a path, or to a folder under its own name. Raises FileExistsError for an existing file,
        unless `replace` is True; the old file is then replaced at the end. `on_progress(received, total)` is called
        with 0 first and after each piece; an exception from it stops the download."""
        file = self._partial_file(target, replace=replace)
        try:
            on_progress(0, self.size)
            for chunk in self.iter_bytes():
                on_progress(file.write(chunk), self.size)
            return file.finish()
        except BaseException:
            file.discard()
            raise

    def close(self) -> None:
        """Close the connection without reading the rest of the file."""
        self._response.close()


class AsyncDownload(_Downloaded, AsyncClosing):
    """A file being downloaded. Read it once, with `save`, `read` or `iter_bytes`, or close the download."""

    async def iter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the file's bytes as they arrive. Raises APIConnectionError when the connection breaks."""
        try:
            async for chunk in self._response.aiter_bytes(CHUNK_SIZE):
                yield chunk
        except httpx.HTTPError as exc:
            raise connection_error(exc) from exc
        finally:
            await self._response.aclose()

    async def read(self) -> bytes:
        """Return the whole file."""
        return b"".join([chunk async for chunk in self.iter_bytes()])

    async def save(
        self, target: str | os.PathLike[str], *, replace: bool = False, on_progress: DownloadProgress = _unheard
    ) -> Path:
        """Write the file like `Download.save`. `on_progress(received, total)` is called in the event loop; an exception
        from `on_progress` stops the download."""
        file = await anyio.to_thread.run_sync(partial(self._partial_file, target, replace=replace))
        try:
            on_progress(0, self.size)
            async for chunk in self.iter_bytes():
                on_progress(await anyio.to_thread.run_sync(file.write, chunk), self.size)
            return await anyio.to_thread.run_sync(file.finish)
        except BaseException:
            file.discard()
            raise

    async def close(self) -> None:
        """Close the connection without reading the rest of the file."""
        await self._response.aclose()
