"""Copying files between the file store and the archive."""

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

from service.platform.files import FileStore
from service.platform.logs import logger

COPIED_AT_ONCE = 8
_READ = 1024 * 1024
_IN_MEMORY = 8 * _READ

Skip = Callable[[bytes, Exception], None]


class AlteredError(Exception):
    """A content isn't of the SHA-256 that it is named by."""


def copy_files(source: FileStore, target: FileStore, sha256s: Iterable[bytes], *, skip: Skip) -> tuple[int, int]:
    """Copy contents from one store to another, several at a time; return their number and bytes.

    `skip` is called for what the first store lacks or has altered, which isn't copied. Other errors are raised.
    """
    files = size = 0
    left, copy = iter(sha256s), partial(_copy, source, target, skip=skip)
    with ThreadPoolExecutor(COPIED_AT_ONCE) as pool:
        while batch := list(islice(left, COPIED_AT_ONCE * 8)):
            sizes = [copied for copied in pool.map(copy, batch) if copied is not None]
            files, size = files + len(sizes), size + sum(sizes)
    return files, size


def log_faulty(sha256: bytes, error: Exception) -> None:
    """Log a file that can't be archived: what one document lacks is no reason to archive no other."""
    logger.error("file_not_archived", sha256=sha256.hex(), reason=str(error))


def _copy(source: FileStore, target: FileStore, sha256: bytes, *, skip: Skip) -> int | None:
    # The whole content first: its SHA-256 is known then, and a store can't be read within a write to another.
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as held:
        digest = hashlib.sha256()
        try:
            for piece in source.read(sha256):
                digest.update(piece)
                held.write(piece)
        except FileNotFoundError as error:
            skip(sha256, error)
            return None
        if digest.digest() != sha256:
            skip(sha256, AlteredError("The file has another content than it had."))
            return None
        size = held.tell()
        held.seek(0)
        target.write(sha256, iter(lambda: held.read(_READ), b""))
    return size
