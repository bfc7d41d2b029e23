"""Copying files between the file store and the archive."""

import hashlib
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from service.platform.files import FileStore

COPIED_AT_ONCE = 8
_READ = 1024 * 1024
_IN_MEMORY = 8 * _READ


@dataclass
class Copied:
    """Number and bytes of the files that were copied, and the SHA-256s of those that are missing or altered."""

    files: int = 0
    size: int = 0
    faulty: list[bytes] = field(default_factory=list[bytes])


def copy_files(source: FileStore, target: FileStore, sha256s: Iterable[bytes]) -> Copied:
    """Copy contents from one store to another, several at a time.

    What the first store lacks, or has altered, isn't copied, and keeps nothing else from being copied. Other errors of
    the stores are raised.
    """
    copied, left, copy = Copied(), iter(sha256s), partial(_copy, source, target)
    with ThreadPoolExecutor(COPIED_AT_ONCE) as pool:
        while batch := list(islice(left, COPIED_AT_ONCE * 8)):
            for sha256, size in zip(batch, pool.map(copy, batch), strict=True):
                if size is None:
                    copied.faulty.append(sha256)
                else:
                    copied.files += 1
                    copied.size += size
    return copied


def _copy(source: FileStore, target: FileStore, sha256: bytes) -> int | None:
    # The whole content first: its SHA-256 is known then, and a store can't be read within a write to another.
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as held:
        digest = hashlib.sha256()
        try:
            for piece in source.read(sha256):
                digest.update(piece)
                held.write(piece)
        except FileNotFoundError:
            return None
        if digest.digest() != sha256:
            return None
        size = held.tell()
        held.seek(0)
        target.write(sha256, iter(lambda: held.read(_READ), b""))
    return size
