"""Multipart bodies that are read from disk during sending, and can be sent again."""

import io
import mimetypes
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

import anyio.to_thread
import httpx

from carrel.errors import CarrelError, InvalidArgumentError

FileInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]
"""A path, bytes, or a file opened for reading bytes."""

UploadProgress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes of the file sent so far and the file's size (None for a pipe)."""

READ_SIZE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """A file to send: a path, or an open file from its position `start`; `size` in bytes, None if unknown."""

    name: str
    file: Path | IO[bytes]
    size: int | None
    start: int = 0

    def open(self) -> IO[bytes]:
        """Open the file at the beginning of the part to send."""
        if isinstance(self.file, Path):
            return self.file.open("rb")
        if self.size is not None:
            self.file.seek(self.start)
        return self.file

    def close(self, handle: IO[bytes]) -> None:
        """Close the file, unless opened by the caller."""
        if handle is not self.file:
            handle.close()


def source_of(file: FileInput, *, file_name: str | None, fallback_name: str) -> Source:
    """Return the source of a file's bytes, named `file_name`, else like the file, else `fallback_name`; an open file is
    sent from its position. Raises OSError for an unreadable path, InvalidArgumentError for a file open as text."""
    if isinstance(file, str | os.PathLike):
        path = Path(file)
        with path.open("rb") as handle:
            return Source(file_name or path.name, path, os.fstat(handle.fileno()).st_size)
    if isinstance(file, bytes | bytearray | memoryview):
        return Source(file_name or fallback_name, io.BytesIO(file), memoryview(file).nbytes)
    if not callable(getattr(file, "read", None)):
        msg = f"the file is a path, bytes, or a file open with mode 'rb', and no {type(file).__name__}"
        raise InvalidArgumentError(f'{msg}; its name goes beside it: upload_file(b"…", file_name="a.txt", …)')
    own_name: object = getattr(file, "name", None)
    name = file_name or (Path(own_name).name if isinstance(own_name, str) else "")
    return _describe_open_file(file, name or fallback_name)


def _describe_open_file(file: IO[bytes], name: str) -> Source:
    if isinstance(file, io.TextIOBase):
        raise InvalidArgumentError("the file is open as text; open it with mode 'rb'")
    if not file.seekable():
        return Source(name, file, None)
    start = file.tell()
    size = max(file.seek(0, os.SEEK_END) - start, 0)
    file.seek(start)
    return Source(name, file, size, start)


class Upload:
    """A multipart/form-data body. Fields come first, so that the service can refuse before receiving the file."""

    def __init__(
        self, *, fields: Mapping[str, str], part: str, source: Source, on_progress: UploadProgress | None = None
    ) -> None:
        self.source = source
        self.on_progress = on_progress
        self.spent = False
        self.broke_off = False  # whether sending was interrupted and can be repeated
        boundary = secrets.token_hex(16)
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._head = _head(boundary, fields=fields, part=part, file_name=source.name)
        self._tail = f"\r\n--{boundary}--\r\n".encode()

    @property
    def length(self) -> int | None:
        """The size of the whole body in bytes, None when the file's is unknown."""
        return None if self.source.size is None else len(self._head) + self.source.size + len(self._tail)

    @property
    def repeatable(self) -> bool:
        """Whether the body can be sent again. A pipe can't, once its data has been read."""
        return self.source.size is not None or not self.spent

    def without_progress(self) -> "Upload":
        """Return the same body without progress reports."""
        quiet = copy(self)
        quiet.on_progress = None
        return quiet

    def stream(self) -> "MultipartStream":
        """Return the body for one attempt."""
        return MultipartStream(self)

    def open(self) -> "Reading":
        """Begin to read the body."""
        self.spent, self.broke_off = True, self.source.size is not None
        return Reading(self.source, self._head, self._tail, self.on_progress)


class Reading:
    """A pass through a body, in small pieces."""

    def __init__(self, source: Source, head: bytes, tail: bytes, on_progress: UploadProgress | None = None) -> None:
        self._source = source
        self._handle = source.open()
        self._remaining = source.size
        self._lead, self._tail = head, tail
        self._on_progress = on_progress
        self._sent = 0
        self.done = False

    def read(self) -> bytes:
        """Return the next piece, and set `done` with the last. Raises CarrelError if the file's size has changed."""
        size = READ_SIZE if self._remaining is None else min(READ_SIZE, self._remaining)
        chunk = self._handle.read(size)
        if self._remaining is not None:
            if size and not chunk:
                raise CarrelError(f"{self._source.name} became shorter while it was being sent")
            self._remaining -= len(chunk)
        self._sent += len(chunk)
        self.done = self._remaining == 0 or not chunk
        path = isinstance(self._source.file, Path)
        if self.done and path and os.fstat(self._handle.fileno()).st_size != self._source.size:
            msg = f"{self._source.name} changed while it was being sent. Upload it when it is complete"
            raise CarrelError(msg)
        lead, self._lead = self._lead, b""
        return lead + chunk + self._tail if self.done else lead + chunk

    def report(self) -> None:
        """Report the bytes sent so far to `on_progress`; call it again after sending the last piece."""
        if self._on_progress is not None:
            self._on_progress(self._sent, self._source.size)

    def close(self) -> None:
        """Close the file of the upload."""
        self._source.close(self._handle)


class MultipartStream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body for httpx, piece by piece as the socket takes it; in async code, a thread reads the file."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload

    def __iter__(self) -> Iterator[bytes]:
        reading = self._upload.open()
        try:
            reading.report()
            while not reading.done:
                yield reading.read()
                reading.report()
            self._upload.broke_off = False
        finally:
            reading.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        reading = await anyio.to_thread.run_sync(self._upload.open)
        try:
            reading.report()
            while not reading.done:
                yield await anyio.to_thread.run_sync(reading.read)
                reading.report()
            self._upload.broke_off = False
        finally:
            reading.close()


def _head(boundary: str, *, fields: Mapping[str, str], part: str, file_name: str) -> bytes:
    lines: list[str] = []
    for name, value in fields.items():
        lines += [f"--{boundary}", f'Content-Disposition: form-data; name="{name}"', "", value]
    escaped = file_name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    media_type = mimetypes.guess_type(file_name)[0] or "application/octet-stream"
    lines += [
        f"--{boundary}",
        f'Content-Disposition: form-data; name="{part}"; filename="{escaped}"',
        f"Content-Type: {media_type}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode("utf-8", "replace")
