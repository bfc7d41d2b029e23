"""The store of documents' files: one object per content, named by its SHA-256, in a folder or a bucket.

InsufficientStorage `storage_full`    507: the disk or bucket takes no more
Unavailable `file_unavailable`        503: a file that should be there can't be read
"""

import asyncio
import errno
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from service.platform.errors import InsufficientStorage, ServiceError, Unavailable
from service.platform.settings import Settings

_READ = 1 << 20
# Of an object that is written as it comes: so much is in memory at a time, once for each part.
_PART = 8 << 20
_PARTS_AT_ONCE = 2
# Quota exceeded and a file-size limit are a full disk to whoever sends a file.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FULL_MESSAGES = tuple(f"(os error {number})" for number in _FULL)


class FileStore:
    """The store of files by content. Objects never change, so storing one twice, or two at once, is harmless.

    An object appears whole or not at all: it is written beside its place and moved there.
    """

    def __init__(self, store: ObjectStore, *, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder

    @property
    def folder(self) -> Path | None:
        """The folder of a store on this machine's disk; None for a store elsewhere."""
        return self._folder

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Open the store at `url` (file:, s3:, gs:, az:); a folder is made when it isn't there."""
        parts = urlsplit(url)
        if parts.scheme == "file":
            folder = Path(unquote(parts.path))
            return cls(LocalStore(folder, mkdir=True), folder=folder)
        return cls(from_url(url))

    async def put(self, path: Path, sha256: bytes) -> None:
        """Store the file at `path`, whose SHA-256 the caller has computed; durable on return.

        Always writes, also when the content is there already: how long it takes tells nobody what others have stored.
        Raises InsufficientStorage.
        """
        key = _key(sha256)
        try:
            await obstore.put_async(self._store, key, path)
            if self._folder is not None:
                await asyncio.to_thread(_sync, self._folder / key)
        except (BaseError, OSError) as error:
            raise _refusal(error) from error

    async def stream(self, sha256: bytes) -> AsyncIterator[bytes]:
        """Yield a content in pieces of about a megabyte; raises Unavailable (file_unavailable) before the first."""
        try:
            found = await obstore.get_async(self._store, _key(sha256))
        except (BaseError, OSError) as error:
            raise Unavailable(
                "The file can't be read from storage at the moment. Try again; if it persists, report the request id.",
                code="file_unavailable",
            ) from error
        return _pieces(found.stream(min_chunk_size=_READ))

    def read(self, sha256: bytes) -> Iterator[bytes]:
        """Yield a file's content without an event loop; raises OSError, or obstore's error, when it can't be read."""
        found = obstore.get(self._store, _key(sha256))
        return (bytes(piece) for piece in found.stream(min_chunk_size=_READ))

    def write(self, sha256: bytes, pieces: Iterator[bytes]) -> None:
        """Store content that comes in pieces; durable on return. When `pieces` raises, nothing is stored."""
        obstore.put(self._store, _key(sha256), pieces, chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE)
        if self._folder is not None:
            _sync(self._folder / _key(sha256))

    async def exists(self, sha256: bytes) -> bool:
        """Check whether the store has a content."""
        try:
            await obstore.head_async(self._store, _key(sha256))
        except FileNotFoundError:
            return False
        return True


def open_files(settings: Settings) -> FileStore:
    """Open the store of the settings: their address, or a folder of the data folder that nobody else may look into."""
    if settings.files_url is not None:
        return FileStore.from_url(settings.files_url)
    settings.files_dir.mkdir(mode=0o700, exist_ok=True)
    return FileStore.from_url(settings.files_dir.resolve().as_uri())


def storage_full(error: OSError) -> InsufficientStorage | None:
    """Return the answer to a write that failed for want of space, None when it failed for another reason."""
    return _full() if error.errno in _FULL else None


async def _pieces(stream: AsyncIterable[Any]) -> AsyncIterator[bytes]:
    async for piece in stream:
        yield bytes(piece)


def _key(sha256: bytes) -> str:
    name = sha256.hex()
    return f"{name[:2]}/{name}"


def _sync(path: Path) -> None:
    """Force the content and then its name to disk: the database row that refers to it is as durable."""
    for each, flags in ((path, os.O_RDONLY), (path.parent, os.O_RDONLY | os.O_DIRECTORY)):
        descriptor = os.open(each, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _refusal(error: Exception) -> ServiceError:
    is_full = isinstance(error, OSError) and error.errno in _FULL
    if is_full or any(message in str(error) for message in _FULL_MESSAGES):
        return _full()
    return Unavailable("The file can't be stored at the moment. Try again shortly.", code="storage_unavailable")


def _full() -> InsufficientStorage:
    return InsufficientStorage(
        "There is no space left to store files; nothing of this one was kept. Tell an operator, and try again later."
    )
