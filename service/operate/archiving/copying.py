"""Copying files between the file store and the archive."""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import IO

from obstore.exceptions import BaseError

from service.platform.files import FileStore

COPIED_AT_ONCE = 8
_READ = 1024 * 1024
_IN_MEMORY = 8 * _READ
# Of files that are too large for memory, one at a time lies on the disk.
_large = Lock()


class _UnreadableError(Exception):
    """The disk doesn't give a file that it has."""


@dataclass
class Copied:
    """Copied files and bytes, and SHA-256s of `faulty` files: missing, altered, or `unreadable`, perhaps for now."""

    files: int = 0
    size: int = 0
    faulty: list[bytes] = field(default_factory=list[bytes])
    unreadable: list[bytes] = field(default_factory=list[bytes])


def copy_files(
    source: FileStore,
    target: FileStore,
    sha256s: Iterable[bytes],
    *,
    spool: Path | None = None,
    check: Callable[[], None] = lambda: None,
) -> Copied:
    """Copy contents between stores, several at a time. Missing, altered and unreadable files are left out; other
    errors, and those of the repeated `check`, are raised. `spool` is the folder for large files on their way (None:
    TMPDIR)."""
    copied, left, copy = Copied(), iter(sha256s), partial(_copy, source, target, spool, check)
    with ThreadPoolExecutor(COPIED_AT_ONCE) as pool:
        while batch := list(islice(left, COPIED_AT_ONCE * 8)):
            for sha256, result in zip(batch, pool.map(copy, batch), strict=True):
                if isinstance(result, int):
                    copied.files += 1
                    copied.size += result
                    continue
                copied.faulty.append(sha256)
                if isinstance(result, _UnreadableError):
                    copied.unreadable.append(sha256)
    return copied


def select_lacking(target: FileStore, sha256s: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the contents that a store lacks, in order; a 256th of the store's names is in memory at a time."""
    for first_byte, wanted in groupby(sha256s, key=itemgetter(0)):
        batches = target.list_stored(first_byte=first_byte)
        stored = {each.sha256 for batch in batches for each in batch}
        yield from (sha256 for sha256 in wanted if sha256 not in stored)


def _copy(
    source: FileStore, target: FileStore, spool: Path | None, check: Callable[[], None], sha256: bytes
) -> int | _UnreadableError | None:
    # The whole content first: its SHA-256 is known then, and a store can't be read within a write to another.
    with ExitStack() as stack:
        held = stack.enter_context(
            tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, dir=str(spool) if spool else None)
        )
        digest, is_large = hashlib.sha256(), False
        try:
            for piece in _read(source, sha256):
                check()
                if not is_large and held.tell() + len(piece) > _IN_MEMORY:
                    stack.enter_context(_large)
                    is_large = True
                digest.update(piece)
                held.write(piece)
        except FileNotFoundError:
            return None
        except _UnreadableError as error:
            return error
        if digest.digest() != sha256:
            return None
        size = held.tell()
        held.seek(0)
        target.write(sha256, _take(held, check))
    return size


def _take(held: IO[bytes], check: Callable[[], None]) -> Iterator[bytes]:
    while piece := held.read(_READ):
        check()
        yield piece


def _read(source: FileStore, sha256: bytes) -> Iterator[bytes]:
    try:
        yield from source.read(sha256)
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:
        if source.folder is None:  # a bucket that doesn't answer fails for all files alike
            raise
        raise _UnreadableError from error
