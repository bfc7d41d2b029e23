"""Digests of files, read once and then known by the file's status.

A kept digest is trusted when path, size, times and inode are the same and the file was already older than two seconds
when it was read: a file written again within a clock's tick of its reading can look the same and hold something else
(git knows this as a racy index). The change time is compared too, since a tool can set the modification time back.
"""

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Self

from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Digest

_RACY_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class FileHash:
    """A file's SHA-256 and its status when it was read (sizes in bytes, times in nanoseconds since the epoch)."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    sha256: bytes
    hashed_at_ns: int

    def holds_for(self, status: os.stat_result) -> bool:
        """Return whether a file with this status still has this digest."""
        same = (self.size, self.mtime_ns, self.ctime_ns, self.inode) == (
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
        )
        return same and max(self.mtime_ns, self.ctime_ns) < self.hashed_at_ns - _RACY_NS

    def as_digest(self) -> Digest:
        """Return what the ledger keeps."""
        marker = f"{self.mtime_ns}:{self.ctime_ns}:{self.inode}"
        return Digest(self.size, marker, self.sha256, self.hashed_at_ns)

    @classmethod
    def from_digest(cls, kept: Digest) -> Self:
        """Return what `as_digest` gave."""
        mtime_ns, ctime_ns, inode = map(int, kept.marker.split(":"))
        return cls(kept.size, mtime_ns, ctime_ns, inode, kept.sha256, kept.taken_at_ns)


def hash_open_file(file: FileIO) -> FileHash:
    """Read an open file from start to end, and return its digest with the status from before the reading."""
    now = time.time_ns()
    status = os.fstat(file.fileno())
    digest = hashlib.file_digest(file, "sha256").digest()
    return FileHash(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, digest, now)


def hash_files(ledger: Ledger, paths: Iterable[Path]) -> dict[Path, FileHash | OSError]:
    """Return each file's digest, or why it can't be read. Only files that changed since they were kept are read."""
    wanted = list(paths)
    known = ledger.digests([str(path) for path in wanted])
    hashes: dict[Path, FileHash | OSError] = {}
    fresh: dict[str, Digest] = {}
    for path in wanted:
        try:
            digest = known.get(str(path))
            kept = None if digest is None else FileHash.from_digest(digest)
            if kept is None or not kept.holds_for(path.stat()):
                with FileIO(path) as file:
                    kept = hash_open_file(file)
                fresh[str(path)] = kept.as_digest()
            hashes[path] = kept
        except OSError as exc:
            hashes[path] = exc
    ledger.keep_digests(fresh)
    return hashes
