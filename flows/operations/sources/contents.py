"""A file's contents at the moment of sending, with the fingerprint of exactly the sent bytes, not the scan's."""

import hashlib
import io
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from io import FileIO
from itertools import chain
from typing import IO

from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Digest, Entry
from flows.operations.sources.documents import fingerprint_of
from flows.operations.sources.objects import IN_MEMORY, marker_digest, read_object

QUIET_SECONDS = 2.0
"""Seconds: sending waits for a file written more recently."""


class ChangingFileError(Exception):
    code = "file_changing"

    def __init__(self) -> None:
        super().__init__("The file changed while it was read or sent. Run again when it is complete.")


@dataclass(slots=True)
class Contents:
    """A file to send, positioned at its start, `size` in bytes; in memory if small, else on disk."""

    file: IO[bytes]
    size: int
    fingerprint: str
    status: os.stat_result | None = None

    def check(self) -> None:
        """Raise ChangingFileError if a file streamed from disk has changed since it was opened."""
        if self.status is not None:
            _check_unchanged(self.file, self.status)


def open_contents(entry: Entry) -> Contents:
    """Open a document's file, or its object, for sending. Raises OSError and ChangingFileError."""
    if entry.document.stored is not None:
        file, size, marker = read_object(entry.document.stored)
        return Contents(file, size, _fingerprint(entry, marker_digest(marker)))
    file = FileIO(entry.document.path, opener=_open_no_link)
    try:
        status = _wait_until_left_alone(file)
        if status.st_size <= IN_MEMORY:
            contents = file.readall()
            _check_unchanged(file, status)
            file.close()
            return Contents(io.BytesIO(contents), len(contents), _fingerprint(entry, hashlib.sha256(contents).digest()))
        fingerprint = _fingerprint(entry, hash_open_file(file).sha256)
        file.seek(0)
        return Contents(io.BufferedReader(file), status.st_size, fingerprint, status)
    except BaseException:
        file.close()
        raise


def _fingerprint(entry: Entry, digest: bytes) -> str:
    return entry.fingerprint if digest == entry.sha256 else fingerprint_of(entry.document, sha256=digest)


def _open_no_link(path: str, flags: int) -> int:
    """Open a file but no link: a path that became a link since the scan could lead anywhere."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


# A saved digest is trusted if path, size, times and inode are the same and the file was older than two seconds when
# read: a file written again within a clock tick can look the same with other contents (git calls this a racy index).
# The change time counts too, because tools can set the modification time back.
_RACY_NS = 2_000_000_000


def hash_open_file(file: FileIO) -> Digest:
    """Read an open file from start to end; return the digest with the status from before the reading."""
    status = _wait_until_left_alone(file)
    now = time.time_ns()
    digest = hashlib.file_digest(file, "sha256").digest()
    _check_unchanged(file, status)
    return Digest(status.st_size, _marker_of(status), digest, now)


def _wait_until_left_alone(file: IO[bytes]) -> os.stat_result:
    """Wait until a file has not changed for a moment; return the status. Raises ChangingFileError."""
    status = os.fstat(file.fileno())
    if seconds := _seconds_until_quiet(status):
        time.sleep(seconds)
        _check_unchanged(file, status)
    return status


def _seconds_until_quiet(status: os.stat_result) -> float:
    seconds = status.st_mtime + QUIET_SECONDS - time.time()
    return seconds if 0 < seconds <= QUIET_SECONDS else 0.0


def _check_unchanged(file: IO[bytes], status: os.stat_result) -> None:
    now = os.fstat(file.fileno())
    if (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        raise ChangingFileError


def _marker_of(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"


def _holds_for(digest: Digest, status: os.stat_result) -> bool:
    same = (digest.size, digest.marker) == (status.st_size, _marker_of(status))
    return same and max(status.st_mtime_ns, status.st_ctime_ns) < digest.taken_at_ns - _RACY_NS


def hash_files(ledger: Ledger, paths: Iterable[str]) -> dict[str, Digest | OSError | ChangingFileError]:
    """Return each file's digest by path, or the reading error. Only changed files are read."""
    wanted = list(dict.fromkeys(paths))
    known = ledger.digests(wanted)
    hashes: dict[str, Digest | OSError | ChangingFileError] = {}
    fresh: dict[str, Digest] = {}
    young: dict[str, os.stat_result] = {}  # checked again at the end, so that all together need only one wait
    for path in chain(wanted, young):
        try:
            digest = known.get(path)
            if digest is None or not _holds_for(digest, os.stat(path)):  # noqa: PTH116 - a Path costs as much again
                with FileIO(path) as file:
                    if path in young:
                        _check_unchanged(file, young[path])
                    elif _seconds_until_quiet(status := os.fstat(file.fileno())):
                        young[path] = status
                        continue
                    digest = fresh[path] = hash_open_file(file)
            hashes[path] = digest
        except (OSError, ChangingFileError) as exc:
            hashes[path] = exc
    ledger.keep_digests(fresh)
    return hashes
