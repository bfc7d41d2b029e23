"""The archive of a backup: a gzipped tar, written and read as a stream, never whole in memory.

    files/<SHA-256>       each file once, in the order of their names
    database/<number>     pg_dump's custom format, in pieces, because a tar needs a member's size before its content
    secret.key            if present in the data folder
    manifest.json         the archive's contents; if missing or different from the contents, the archive is refused

Members are never unpacked to a path: the names must match the four patterns in order."""

import fcntl
import gzip
import hashlib
import io
import os
import re
import stat
import sys
import tarfile
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from service.platform.files import sync

_EVERY_SECONDS = 0.2
_MEGABYTE = 1_000_000


class Progress:
    """A progress line, overwritten at each step; silent unless standard error is a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown_at = 0.0
        self._is_watched = sys.stderr.isatty()
        self._bytes = 0

    def add(self, size: int, detail: str = "") -> None:
        self._bytes += size
        if self._is_watched and time.monotonic() - self._shown_at >= _EVERY_SECONDS:
            self._shown_at = time.monotonic()
            self._show(f"{self._what}: {self._bytes / _MEGABYTE:,.0f} MB{detail}")

    def count(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pieces, and add each piece's size once the next is asked for."""
        for piece in pieces:
            yield piece
            self.add(len(piece))

    def end(self) -> None:
        if self._is_watched:
            self._show("")

    def _show(self, line: str) -> None:
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()


class BackupError(Exception):
    """Base of all backup errors."""


class ArchiveError(BackupError):
    """The archive is damaged, cut off, or not Carrel's; no contents were kept."""


class MomentError(ArchiveError):
    """The archive can't restore the requested moment."""


class PostgresToolError(BackupError):
    """A PostgreSQL program failed; the message ends with the program's error."""


class NotEmptyError(BackupError):
    """A backup can be restored only into an empty data folder and an empty database."""


FORMAT = 1
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class Described(BaseModel):
    """A part of a description, written once and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Contents(Described):
    """An archive's contents; `files_sha256` covers all names in order, `secret_key_sha256` a key in the data folder."""

    files: Count = 0
    file_bytes: Count = 0
    files_sha256: Sha256
    database_bytes: Count = 0
    database_sha256: Sha256
    secret_key_sha256: Sha256 | None = None


class Manifest(Described):
    """The last member: `rows` of each table, and the database's `key_fingerprint` in hexadecimal (None: never set)."""

    format: Literal[1] = FORMAT
    created_at: datetime
    schema_revision: Annotated[str, Field(pattern=r"^[0-9]{4}$")]
    postgresql: Count
    key_fingerprint: Sha256 | None
    rows: dict[str, Count]
    contents: Contents


PIECE = 8 * 1024 * 1024
_READ = 1024 * 1024
_LARGEST_SMALL_MEMBER = 4 * 1024 * 1024
# Higher levels gain little on documents and vectors, and take several times as long.
_LEVEL = 1
_FILE = re.compile(r"files/([0-9a-f]{64})")
_DATABASE = "database/{:06}"
_SECRET_KEY = "secret.key"  # noqa: S105 - a member's name
_MANIFEST = "manifest.json"


@dataclass
class _Tally:
    files: int = 0
    file_bytes: int = 0
    names: Any = field(default_factory=hashlib.sha256)
    database_bytes: int = 0
    database: Any = field(default_factory=hashlib.sha256)
    secret_key: str | None = None

    def add_file(self, sha256: bytes, size: int) -> None:
        self.files += 1
        self.file_bytes += size
        self.names.update(sha256)

    def add_database(self, piece: bytes) -> None:
        self.database_bytes += len(piece)
        self.database.update(piece)

    def contents(self) -> Contents:
        return Contents(
            files=self.files,
            file_bytes=self.file_bytes,
            files_sha256=self.names.hexdigest(),
            database_bytes=self.database_bytes,
            database_sha256=self.database.hexdigest(),
            secret_key_sha256=self.secret_key,
        )


@contextmanager
def new_file(path: Path) -> Generator[IO[bytes]]:
    """Open a file, named `path` after a block without errors. Until then the suffix is `.partial`, and only the owner
    can read it. Raises BackupError if `path` exists, another process writes there, or another user owns `.partial`."""
    partial = path.with_name(f"{path.name}.partial")
    _refuse_existing(path)
    if not path.parent.is_dir():
        raise BackupError(f"There is no folder {path.parent}. Create it, or write the backup to another folder.")
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise BackupError(f"Another backup is being written to {path}.") from exc
        _refuse_foreign(partial, descriptor)
        try:
            os.fchmod(descriptor, 0o600)
            file.truncate(0)
            yield file
            file.flush()
            os.fsync(descriptor)
            _refuse_existing(path)
            partial.rename(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    sync(path.parent)


class ArchiveWriter:
    """Writes the members of an archive. Call in this order: `add_file`, `add_database`, `add_secret_key`, `close`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._gzip = gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0)
        # GNU's header has room for sizes of any length.
        self._tar = tarfile.open(fileobj=self._gzip, mode="w", format=tarfile.GNU_FORMAT)  # noqa: SIM115 - `close` does
        self._tally = _Tally()

    def add_file(self, sha256: bytes, pieces: Iterable[bytes], *, size: int) -> None:
        """Add a file. Raises BackupError if the content's SHA-256 or size differs, or as `pieces` does."""
        content = _Hashed(pieces)
        damaged = f"The file {sha256.hex()} in the file store is damaged. Put it back from an earlier backup."
        try:
            self._add(f"files/{sha256.hex()}", content, size)
        except OSError as exc:
            if content.failure is not None:
                raise content.failure from exc
            if content.ended:
                raise BackupError(damaged) from exc
            raise
        if content.sha256() != sha256:
            raise BackupError(damaged)
        self._tally.add_file(sha256, size)

    def add_database(self, pieces: Iterable[bytes]) -> None:
        for number, piece in enumerate(pieces, start=1):
            self._add(_DATABASE.format(number), io.BytesIO(piece), len(piece))
            self._tally.add_database(piece)

    def add_secret_key(self, key: SecretStr) -> None:
        text = key.get_secret_value().encode()
        self._add(_SECRET_KEY, io.BytesIO(text), len(text))
        self._tally.secret_key = hashlib.sha256(text).hexdigest()

    def close(self, describe: Callable[..., Manifest]) -> Manifest:
        """Add the manifest, made by `describe` from the contents, and return it; the file itself stays open."""
        manifest = describe(contents=self._tally.contents())
        text = manifest.model_dump_json(indent=1).encode()
        self._add(_MANIFEST, io.BytesIO(text), len(text))
        self._tar.close()
        self._gzip.close()
        return manifest

    def _add(self, name: str, content: object, size: int) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = size, 0o600, int(time.time())
        self._tar.addfile(member, cast("IO[bytes]", content))
        _forget_members(self._tar)


class _Hashed:
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")
        self._hash = hashlib.sha256()
        self.ended = False
        self.failure: BackupError | None = None

    def read(self, size: int) -> bytes:
        parts, wanted = [self._rest[:size]], size - len(self._rest)
        self._rest = self._rest[size:]
        while wanted > 0 and (piece := memoryview(self._next_piece())):
            parts.append(piece[:wanted])
            self._rest = piece[wanted:]
            wanted -= len(piece)
        return b"".join(parts)

    def sha256(self) -> bytes:
        while self._next_piece():
            pass
        return self._hash.digest()

    def _next_piece(self) -> bytes:
        try:
            piece = next(self._pieces, b"")
        except BackupError as error:
            self.failure = error
            raise OSError from error
        self.ended = self.ended or not piece
        self._hash.update(piece)
        return piece


class Sink:
    """Receives the members of an archive, and counts the bytes. The reader skips unread pieces."""

    def __init__(self, doing: str) -> None:
        self.progress = Progress(doing)
        self.key: SecretStr | None = None

    def take_file(self, sha256: bytes, pieces: Iterator[bytes]) -> None:
        """Receive a file. Reading its last piece raises ArchiveError if the content doesn't match the SHA-256."""
        del sha256
        exhaust(self.progress.count(pieces))

    def take_database(self, pieces: Iterator[bytes]) -> None:
        exhaust(self.progress.count(pieces))

    def take_secret_key(self, key: SecretStr) -> None:
        self.key = key


def read_archive(file: IO[bytes], sink: Sink) -> Manifest:
    """Pass every member to `sink` and return the manifest. Raises ArchiveError, even late: then discard all data."""
    try:
        with (
            gzip.GzipFile(fileobj=file) as content,
            tarfile.open(fileobj=content, mode="r|", bufsize=_READ, tarinfo=_PlainMember) as tar,
        ):
            manifest = _Reader(tar).read(sink)
            while content.read(_READ):  # read to the end, which has gzip's checksum
                pass
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as exc:
        raise _damaged("it is incomplete, or not a backup of Carrel") from exc
    return manifest


class _PlainMember(tarfile.TarInfo):
    """The header of a plain file. Other headers would be read into memory at any claimed size."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header. Raises ArchiveError unless the member is a plain file."""
        member = super().frombuf(buf, encoding, errors)
        if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE}:
            raise _damaged(f"{member.name[:100]!r} is not a plain file")
        return member


class _Reader:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._tally = _Tally()
        self._member: tarfile.TarInfo | None = None

    def read(self, sink: Sink) -> Manifest:
        self._next_member()
        self._read_files(sink)
        dump = self._read_database()
        sink.take_database(dump)
        exhaust(dump)
        if self._name == _SECRET_KEY:
            text = self._read_small()
            self._tally.secret_key = hashlib.sha256(text).hexdigest()
            sink.take_secret_key(SecretStr(text.decode("ascii", errors="replace")))
            self._next_member()
        return self._read_manifest()

    def _read_files(self, sink: Sink) -> None:
        last = b""
        while match := _FILE.fullmatch(self._name):
            sha256 = bytes.fromhex(match[1])
            if sha256 <= last:
                raise _damaged("its files are out of order")
            last = sha256
            pieces = self._read_file(sha256)
            sink.take_file(sha256, pieces)
            exhaust(pieces)
            self._next_member()

    def _read_file(self, sha256: bytes) -> Iterator[bytes]:
        seen, size = hashlib.sha256(), 0
        # Yield each piece only after the next is read, so that a reader never gets the last piece of wrong contents.
        held = b""
        for piece in self._pieces():
            if held:
                yield held
            seen.update(piece)
            size += len(piece)
            held = piece
        if seen.digest() != sha256:
            raise _damaged(f"the content of the file {sha256.hex()} has changed")
        self._tally.add_file(sha256, size)
        if held:
            yield held

    def _read_database(self) -> Iterator[bytes]:
        number = 1
        while self._name == _DATABASE.format(number):
            for piece in self._pieces():
                self._tally.add_database(piece)
                yield piece
            number += 1
            self._next_member()

    def _read_manifest(self) -> Manifest:
        if self._name != _MANIFEST:
            raise _damaged(f"its first member is {self._name[:100]!r}, not the manifest")
        try:
            manifest = Manifest.model_validate_json(self._read_small())
        except ValidationError as exc:
            raise _damaged("its manifest can't be read: it may need a newer Carrel") from exc
        self._next_member()
        if self._member is not None:
            raise _damaged("something follows its manifest")
        if manifest.contents != self._tally.contents():
            raise _damaged("its contents differ from its manifest")
        return manifest

    @property
    def _name(self) -> str:
        return "" if self._member is None else self._member.name

    def _next_member(self) -> None:
        self._member = self._tar.next()
        _forget_members(self._tar)

    def _pieces(self) -> Iterator[bytes]:
        assert self._member is not None  # noqa: S101 - its name was looked at
        content = cast("IO[bytes]", self._tar.extractfile(self._member))
        while piece := content.read(_READ):
            yield piece

    def _read_small(self) -> bytes:
        if self._member is None or self._member.size > _LARGEST_SMALL_MEMBER:
            raise _damaged(f"{self._name!r} is too large")
        return b"".join(self._pieces())


def _forget_members(tar: tarfile.TarFile) -> None:
    tar.members = []  # pyright: ignore[reportAttributeAccessIssue] - the stubs don't know it


def exhaust(pieces: Iterator[bytes]) -> None:
    for _ in pieces:
        pass


def _damaged(why: str) -> ArchiveError:
    return ArchiveError(f"This archive can't be restored: {why}. Use another backup.")


def _refuse_foreign(partial: Path, descriptor: int) -> None:
    status = os.fstat(descriptor)
    try:
        named = partial.lstat()
    except FileNotFoundError as exc:
        raise BackupError(f"Another process wrote a backup from {partial}. Choose another name.") from exc
    if not os.path.samestat(status, named):
        raise BackupError(f"Another process is writing a backup to {partial}.")
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != os.geteuid():
        raise BackupError(f"{partial} is not a file of yours. Remove it, or choose another folder.")


def _refuse_existing(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise BackupError(f"{path} already exists and is not overwritten. Choose another file name.")
