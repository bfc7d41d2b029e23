"""Digests of files, read once and then known by the file's status.

A kept digest is trusted when path, size, times and inode are the same and the file was already older than two seconds
when it was read: a file written again within a clock's tick of its reading can look the same and hold something else
(git knows this as a racy index). The change time is compared too, since a tool can set the modification time back.
"""

import hashlib
import os
import time
from collections.abc import Iterable
from io import FileIO

from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Digest

_RACY_NS = 2_000_000_000


def hash_open_file(file: FileIO) -> Digest:
    """Read an open file from start to end, and return its digest with the status from before the reading."""
    now = time.time_ns()
    status = os.fstat(file.fileno())
    digest = hashlib.file_digest(file, "sha256").digest()
    return Digest(status.st_size, _marker_of(status), digest, now)


def _marker_of(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"


def _holds_for(digest: Digest, status: os.stat_result) -> bool:
    """Return whether a file with this status still has this digest."""
    same = (digest.size, digest.marker) == (status.st_size, _marker_of(status))
    return same and max(status.st_mtime_ns, status.st_ctime_ns) < digest.taken_at_ns - _RACY_NS


def hash_files(ledger: Ledger, paths: Iterable[str]) -> dict[str, Digest | OSError]:
    """Return each file's digest by its path, or why it can't be read.

    Only files that changed since they were kept are read.
    """
    wanted = list(paths)
    known = ledger.digests(wanted)
    hashes: dict[str, Digest | OSError] = {}
    fresh: dict[str, Digest] = {}
    for path in wanted:
        try:
            digest = known.get(path)
            if digest is None or not _holds_for(digest, os.stat(path)):  # noqa: PTH116 - a Path costs as much again
                with FileIO(path) as file:
                    digest = fresh[path] = hash_open_file(file)
            hashes[path] = digest
        except OSError as exc:
            hashes[path] = exc
    ledger.keep_digests(fresh)
    return hashes
