"""Checking the file store against the database: missing, altered or leftover files."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

from obstore.exceptions import BaseError

from service.operate.backup.archive import BackupError, Progress
from service.operate.backup.queries import Snapshot
from service.platform.files import FileStore

_PREFIXES = 256


class Fault(StrEnum):
    """The fault of a file referred to by a document's version."""

    MISSING = "MISSING"
    ALTERED = "ALTERED"


@dataclass(frozen=True, slots=True)
class FaultyFile:
    """A file unreadable or different from the upload; `documents` are ids of documents with versions of the file."""

    sha256: bytes
    fault: Fault
    documents: list[str]


@dataclass(slots=True)
class Checked:
    """The result of a check: counts and bytes of used and leftover files, and the faulty files."""

    files: int = 0
    bytes: int = 0
    left_over: int = 0
    left_over_bytes: int = 0
    faulty: list[FaultyFile] = field(default_factory=list[FaultyFile])


def check_files(snapshot: Snapshot, files: FileStore, *, contents: bool) -> Checked:
    """Compare store and snapshot: names, sizes and, if asked, `contents`. Raises BackupError for an unlistable store;
    an unreadable file counts as altered."""
    checked, progress = Checked(), Progress("Files")
    named = snapshot.files()
    following = next(named, None)
    for first_byte in range(_PREFIXES):
        try:
            batches = list(files.list_stored(first_byte=first_byte))
        except (BaseError, OSError) as exc:
            raise BackupError("The file store can't be listed: " + str(exc).partition("\n")[0]) from exc
        stored = {item.sha256: item.size for batch in batches for item in batch}
        while following is not None and following[0][0] == first_byte:
            sha256, size = following
            checked.files += 1
            checked.bytes += size
            fault = _find_fault(files, sha256, size=size, stored=stored.pop(sha256, None), contents=contents)
            if fault is not None:
                checked.faulty.append(FaultyFile(sha256, fault, snapshot.documents_of(sha256)))
            progress.add(size, f", {checked.files:,} checked, {len(checked.faulty):,} faulty")
            following = next(named, None)
        checked.left_over += len(stored)
        checked.left_over_bytes += sum(stored.values())
    progress.end()
    return checked


def _find_fault(files: FileStore, sha256: bytes, *, size: int, stored: int | None, contents: bool) -> Fault | None:
    if stored is None:
        return Fault.MISSING
    is_altered = stored != size or (contents and _hash_stored(files, sha256) != sha256)
    return Fault.ALTERED if is_altered else None


def _hash_stored(files: FileStore, sha256: bytes) -> bytes | None:
    digest = hashlib.sha256()
    try:
        for piece in files.read(sha256):
            digest.update(piece)
    except (BaseError, OSError):
        return None
    return digest.digest()
