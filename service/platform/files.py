"""The store of documents' files in a folder or bucket: one object per content, named by its SHA-256. Raises 507
`storage_full` and, for unreadable files, 503 `file_unavailable`. Also makes senders' file names safe."""

import asyncio
import errno
import os
import re
import time
import unicodedata
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit
from uuid import UUID

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from service.platform.errors import BadRequest, InsufficientStorage, ServiceError, Unavailable
from service.platform.settings import Settings

_READ = 1 << 20
# The part of a streamed object that is in memory at a time.
_PART = 8 << 20
_PARTS_AT_ONCE = 2
# A full quota and a file-size limit are like a full disk to the sender of a file.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_KEY = re.compile(r"([0-9a-f]{2})/(\1[0-9a-f]{62})")
# The name of an unfinished file in a folder.
_UNFINISHED = re.compile(r"[0-9a-f]{64}#\d+")
_OWNER = "deployment"
# The suffix of a note while its content is being archived.
_TAKEN = ".taken"
UNTOUCHED_SECONDS = 24 * 3600.0
"""A file untouched for this many seconds is no longer being written: the slowest upload writes every few minutes."""
_LISTED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A stored object: name (the SHA-256, unless altered by hand), size and age."""

    sha256: bytes
    size: int
    modified_at: datetime


class FileStore:
    """The store of files by content. Objects appear whole and never change: repeated, concurrent stores do no harm."""

    def __init__(self, store: ObjectStore, *, folder: Path | None = None, unarchived: Path | None = None) -> None:
        self._store = store
        self.folder = folder  # None: the store is not on this machine's disk
        self._unarchived = unarchived

    @classmethod
    def from_url(cls, url: str, *, unarchived: Path | None = None) -> Self:
        """Open or create the store at `url` (file:, s3:, gs:, az:); `unarchived` is the folder of `take_unarchived`."""
        store, folder = open_store(url)
        return cls(store, folder=folder, unarchived=unarchived)

    async def put(self, path: Path, sha256: bytes) -> None:
        """Store a file durably, and note it as unarchived. Always writes, so no time reveals stored content. Raises
        InsufficientStorage, or Unavailable `storage_unavailable`."""
        try:
            if self.folder is None:
                await obstore.put_async(self._store, _key(sha256), path)
            else:
                await asyncio.to_thread(self.write, sha256, path)
            if self._unarchived is not None:
                await asyncio.to_thread((self._unarchived / sha256.hex()).touch, 0o600)
        except (BaseError, OSError) as error:
            raise _refusal(error) from error

    async def ensure(self, path: Path, sha256: bytes) -> None:
        """Store the file again, as `put` does, if it was collected since; a stored file stays as it is."""
        try:
            if await self.exists(sha256):
                return
        except (BaseError, OSError) as error:
            raise _refusal(error) from error
        await self.put(path, sha256)

    def find_path(self, sha256: bytes) -> Path | None:
        """Return a content's path on this machine's disk, if the store is local and the content available."""
        path = None if self.folder is None else self.folder / _key(sha256)
        return path if path is not None and path.is_file() else None

    async def stream(self, sha256: bytes) -> AsyncIterator[bytes]:
        """Return a content's pieces, of about a megabyte. Raises Unavailable `file_unavailable` before the first piece,
        and the store's own errors later."""
        try:
            found = await obstore.get_async(self._store, _key(sha256))
        except (BaseError, OSError) as error:
            message = "The file can't be read at the moment. Try again. If it fails again, report the request id."
            raise Unavailable(message, code="file_unavailable") from error
        return _pieces(found.stream(min_chunk_size=_READ))

    def read(self, sha256: bytes) -> Iterator[bytes]:
        """Yield a file's content without an event loop; raises OSError, or obstore's error, when unreadable."""
        return (bytes(piece) for piece in obstore.get(self._store, _key(sha256)).stream(min_chunk_size=_READ))

    def write(self, sha256: bytes, content: Path | Iterator[bytes]) -> None:
        """Store a file or pieces, durably; nothing if `content` raises. Raises OSError, or obstore's error."""
        obstore.put(self._store, _key(sha256), content, chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE)
        if self.folder is not None:
            # If the collector removes it at this moment, `ensure` stores it again.
            with suppress(FileNotFoundError):
                sync_file(self.folder / _key(sha256))

    def take_unarchived(self) -> set[bytes]:
        """Return the contents noted as not archived; call `drop_notes` once they are."""
        taken: set[bytes] = set()
        for path in () if self._unarchived is None else self._unarchived.iterdir():
            if path.suffix != _TAKEN:
                # If the content is stored again, it gets a new note, which `drop_notes` keeps.
                with suppress(FileNotFoundError):
                    path.replace(path.with_suffix(_TAKEN))
            taken.add(bytes.fromhex(path.stem))
        return taken

    def drop_notes(self, sha256s: Iterable[bytes]) -> None:
        """Delete the notes on contents returned by `take_unarchived`, once archived."""
        if self._unarchived is not None:
            for sha256 in sha256s:
                (self._unarchived / f"{sha256.hex()}{_TAKEN}").unlink(missing_ok=True)

    def is_unarchived(self, sha256: bytes) -> bool:
        if self._unarchived is None:
            return False
        # A note taken between the two checks has its other name at the second.
        return any((self._unarchived / f"{sha256.hex()}{suffix}").exists() for suffix in ("", _TAKEN))

    async def exists(self, sha256: bytes) -> bool:
        if self.folder is not None:
            return self.find_path(sha256) is not None  # no wait for a thread
        try:
            await obstore.head_async(self._store, _key(sha256))
        except FileNotFoundError:
            return False
        return True

    async def delete(self, sha256: bytes) -> None:
        with suppress(FileNotFoundError):
            await obstore.delete_async(self._store, _key(sha256))

    def remove(self, sha256: bytes) -> None:
        """Delete a content, if present, without an event loop."""
        with suppress(FileNotFoundError):
            obstore.delete(self._store, _key(sha256))

    def list_stored(self, *, first_byte: int | None = None) -> Iterator[list[StoredObject]]:
        """Yield the stored contents in batches, unordered, optionally only SHA-256 digests with `first_byte`."""
        prefix = None if first_byte is None else f"{first_byte:02x}"
        listed = obstore.list(self._store, prefix, chunk_size=_LISTED_AT_ONCE)  # pyright: ignore[reportUnknownMemberType] - it leaves Arrow's untyped
        for batch in listed:
            named = ((_KEY.fullmatch(each["path"]), each) for each in batch)
            # A batch with only other names is not the end.
            if found := [
                StoredObject(bytes.fromhex(name[2]), each["size"], each["last_modified"])
                for name, each in named
                if name is not None
            ]:
                yield found

    def claim(self, owner: UUID) -> bool:
        """Claim an unowned store for a deployment's id; return whether the store belongs to the deployment."""
        if not self.has_owner():
            with suppress(AlreadyExistsError):
                obstore.put(self._store, _OWNER, str(owner).encode(), mode="create")
        return bytes(obstore.get(self._store, _OWNER).bytes()) == str(owner).encode()

    def has_owner(self) -> bool:
        try:
            obstore.head(self._store, _OWNER)
        except FileNotFoundError:
            return False
        return True

    def remove_leftovers(self, *, untouched_seconds: float = 0.0) -> None:
        """Remove partial files of killed writers, untouched for some seconds, from a folder; a bucket has none."""
        if self.folder is not None:
            found = (path for path in self.folder.glob("??/*#*") if _UNFINISHED.fullmatch(path.name))
            remove_untouched(found, seconds=untouched_seconds)


def remove_untouched(paths: Iterable[Path], *, seconds: float) -> int:
    """Delete the files not written to for some seconds (0: all); return the number deleted."""
    before, removed = time.time() - seconds, 0
    for path in paths:
        with suppress(FileNotFoundError):  # its writer has ended just now
            if path.is_file() and (not seconds or path.stat().st_mtime <= before):
                path.unlink()
                removed += 1
    return removed


def open_store(url: str) -> tuple[ObjectStore, Path | None]:
    """Open the objects at `url` (file:, s3:, gs:, az:), with the local folder, created if missing."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        folder = Path(unquote(parts.path))
        return LocalStore(folder, mkdir=True), folder
    return from_url(url), None


def open_files(settings: Settings) -> FileStore:
    """Open the store of the settings: their address, or a folder in the data folder, private to the service's user."""
    unarchived = None
    if settings.archive_url is not None:
        unarchived = settings.data_dir / "unarchived"
        unarchived.mkdir(mode=0o700, parents=True, exist_ok=True)
    if settings.files_url is not None:
        return FileStore.from_url(settings.files_url, unarchived=unarchived)
    settings.files_dir.mkdir(mode=0o700, exist_ok=True)
    return FileStore.from_url(settings.files_dir.resolve().as_uri(), unarchived=unarchived)


def storage_full(error: OSError) -> InsufficientStorage | None:
    """Return the answer to a write that failed for lack of space, None for any different failure."""
    return _full() if error.errno in _FULL else None


async def _pieces(stream: AsyncIterable[Any]) -> AsyncIterator[bytes]:
    async for piece in stream:
        yield bytes(piece)


def _key(sha256: bytes) -> str:
    name = sha256.hex()
    return f"{name[:2]}/{name}"


def sync_file(path: Path) -> None:
    """Force the content and then the name to disk, so the file is as durable as the database row referring to it."""
    sync(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Force the content of a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refusal(error: Exception) -> ServiceError:
    is_full = isinstance(error, OSError) and error.errno in _FULL
    if is_full or any(f"(os error {number})" in str(error) for number in _FULL):
        return _full()
    return Unavailable("The file can't be stored at the moment. Try again shortly.", code="storage_unavailable")


def _full() -> InsufficientStorage:
    return InsufficientStorage(
        "The storage has no space left. Nothing of this file was stored. Tell an operator, and try again later."
    )


_LONGEST = 255
# Directional overrides turn "fdp.exe" into "exe.pdf"; control characters and line separators break headers and logs.
# The zero-width joiner stays, because emoji contain it.
_UNSHOWN = re.compile("[\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def clean_file_name(name: str) -> str:
    """Return a name's last part in composed Unicode, without disguises. Raises BadRequest `file_name_invalid`."""
    if "\x00" in name:
        raise _invalid("It holds a NUL character.")
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    cleaned = unicodedata.normalize("NFC", _UNSHOWN.sub("", last)).strip()
    if cleaned.strip(".") == "":
        raise _invalid("It names no file.")
    if len(cleaned) > _LONGEST:
        raise _invalid(f"It is longer than {_LONGEST} characters.")
    return cleaned


def _invalid(reason: str) -> BadRequest:
    return BadRequest(f"The file's name can't be used. {reason} Rename it and send it again.", code="file_name_invalid")
