"""A file's contents at the moment it is sent, with the fingerprint of exactly those bytes.

Between the scan and the sending a file may have changed. The fingerprint that goes with an upload is therefore made
from the bytes that go with it; else a file that changed and changed back would pass for unchanged ever after.
"""

import hashlib
import io
import os
from dataclasses import dataclass
from io import FileIO
from typing import IO

from flows.operations.ledger.rows import Entry
from flows.operations.sources.fingerprint import fingerprint_of
from flows.operations.sources.hashing import hash_open_file
from flows.operations.sources.objects import marker_digest, read_object

_IN_MEMORY = 4 * 1024 * 1024


class ChangingFileError(Exception):
    """The file was written to while it was being sent."""

    code = "file_changing"


@dataclass(slots=True)
class Contents:
    """A file to send, positioned at its start, `size` in bytes; small ones are in memory, larger ones on disk."""

    file: IO[bytes]
    size: int
    fingerprint: str
    status: os.stat_result | None = None

    def check(self) -> None:
        """Raise ChangingFileError when a file that was streamed from disk has changed since it was opened."""
        if self.status is None:
            return
        now = os.fstat(self.file.fileno())
        if (now.st_size, now.st_mtime_ns) != (self.status.st_size, self.status.st_mtime_ns):
            msg = "The file was written to while it was being sent. Run again when it is finished."
            raise ChangingFileError(msg)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def open_contents(entry: Entry) -> Contents:
    """Open a document's file, or its object, for sending. Raises OSError when it can't be read."""
    if entry.document.stored is not None:
        file, size, marker = read_object(entry.document.stored)
        return Contents(file, size, _fingerprint(entry, marker_digest(marker)))
    file = FileIO(entry.document.path, opener=_open_no_link)
    try:
        status = os.fstat(file.fileno())
        if status.st_size <= _IN_MEMORY:
            contents = file.readall()
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
