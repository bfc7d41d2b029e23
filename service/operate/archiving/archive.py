"""The archive: objects in a folder or a bucket, written once and, except `position.json`, never changed.

    files/<aa>/<SHA-256>           each file, as in the file store; files/deployment names the owning deployment
    log/<segment>/<offset>         bytes of the database's log from this offset on (hexadecimal), gzipped
    position.json                  how far log and files are archived
    bases/<name>/base.tar.gz       a backup of the database's folder, as pg_basebackup makes it
    bases/<name>/manifest          PostgreSQL's manifest of it, from which the next incremental backup begins
    bases/<name>/files             the SHA-256 of each document's file at the start: 32 bytes each, in order
    bases/<name>/backup.json       its description; without it the backup is incomplete, and not used
    keys/<fingerprint>             each secret key found in the data folder

A segment of the log arrives in pieces while it is being written, and whole (offset 0) when it is full."""

import gzip
import re
import shutil
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit
from uuid import UUID

import obstore
from pydantic import BaseModel, Field, SecretStr, TypeAdapter, ValidationError

from service.operate.backup.archive import ArchiveError, Count, Described
from service.platform.deployment_errors import ForeignArchiveError
from service.platform.files import UNTOUCHED_SECONDS, FileStore, open_store, remove_untouched, sync_file


class Position(Described):
    """The archived log at the time `at`: `begins_lsn`, perhaps after a gap, to `lsn`, with every file it mentions."""

    at: datetime
    timeline: Count
    lsn: Count
    segment_bytes: Count
    begins_lsn: Count = 0


class Base(Described):
    """A backup of the database's folder, full or since `parent`; it needs the log from `start_lsn` to `end_lsn`."""

    name: str
    parent: str | None
    started_at: datetime
    ended_at: datetime
    timeline: Count
    start_lsn: Count
    end_lsn: Count
    schema_revision: str
    postgresql: Count
    size: Count
    sha256: str
    files: Count

    def first_segment(self, segment_bytes: int) -> str:
        return segment_name(self.timeline, self.start_lsn // segment_bytes, segment_bytes=segment_bytes)

    def leads_to(self, position: Position) -> bool:
        """Return whether the archive's log leads from the backup to a position: same timeline, no gap."""
        return self.timeline == position.timeline and self.start_lsn >= position.begins_lsn


class _Range(BaseModel):
    timeline: int = Field(alias="Timeline")
    start: str = Field(alias="Start-LSN")
    end: str = Field(alias="End-LSN")


class _Manifest(BaseModel):
    ranges: list[_Range] = Field(alias="WAL-Ranges", min_length=1, max_length=1)


def read_log_range(manifest: bytes) -> tuple[int, int, int]:
    """Return timeline, start and end of the log needed by a backup, from PostgreSQL's manifest with one range."""
    [needed] = TypeAdapter(_Manifest).validate_json(manifest).ranges
    return needed.timeline, parse_lsn(needed.start), parse_lsn(needed.end)


def format_moment(moment: datetime, *, timespec: str = "seconds") -> str:
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def segment_name(timeline: int, number: int, *, segment_bytes: int) -> str:
    high, low = divmod(number, 2**32 // segment_bytes)
    return f"{timeline:08X}{high:08X}{low:08X}"


def parse_lsn(text: str) -> int:
    """Return PostgreSQL's written log position as bytes from the start of the log."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


_BUFFER = 8 * 1024 * 1024
_LEVEL = 1
_AT_ONCE = 16
_PIECE = re.compile(r"log/([0-9A-F]{24})/([0-9a-f]{8})")
SHA256_BYTES = 32


def is_address(location: str) -> bool:
    """Return whether a text is the address of an archive, rather than a path."""
    return "://" in location


class Archive:
    """An archive. Its methods block."""

    def __init__(self, url: str) -> None:
        self._store, self._folder = open_store(url)
        self._bases: dict[str, Base] = {}
        self.files = FileStore.from_url(f"{url.rstrip('/')}/files")

    @classmethod
    def create(cls, url: str) -> Self:
        """Open the archive at `url`. Access to a folder is limited to its owner, because an archive holds all data."""
        archive = cls(url)
        if archive._folder is not None:
            archive._folder.chmod(0o700)
        return archive

    @classmethod
    def find(cls, location: str) -> Self:
        """Open the archive at an address, or in a folder. Raises ArchiveError if the folder doesn't exist."""
        url = location if is_address(location) else Path(location).resolve().as_uri()
        if url.startswith("file:") and not Path(unquote(urlsplit(url).path)).is_dir():
            raise ArchiveError(f"There is no archive in {location}. Name the folder or address of CARREL_ARCHIVE_URL.")
        return cls(url)

    def claim(self, store_id: UUID) -> None:
        """Claim the archive for the deployment. Raises ForeignArchiveError if it belongs to another deployment."""
        if not self.files.claim(store_id):
            raise ForeignArchiveError(
                "The archive at CARREL_ARCHIVE_URL belongs to another deployment, perhaps the original of this "
                "restored copy. Set CARREL_ARCHIVE_URL to an empty folder or prefix, then take a backup."
            )

    def position(self) -> Position:
        """Return how far log and files are archived. Raises ArchiveError if nothing is archived yet."""
        try:
            return Position.model_validate_json(self._read("position.json"))
        except FileNotFoundError as exc:
            raise ArchiveError("This place has no archive yet. Start the service with CARREL_ARCHIVE_URL.") from exc

    def move_position(self, position: Position) -> None:
        self._put("position.json", position.model_dump_json().encode())

    def put_log(self, segment: str, offset: int, content: bytes) -> None:
        self._put(self._piece_key(segment, offset), gzip.compress(content, _LEVEL, mtime=0))

    def drop_pieces(self, segment: str) -> None:
        """Delete a segment's pieces, except the piece with offset 0."""
        pieces = [key for key in self._list(f"log/{segment}") if key != self._piece_key(segment, 0)]
        if pieces:
            obstore.delete(self._store, pieces)

    def log_pieces(self, segment: str | None = None) -> dict[str, list[int]]:
        """Return the sorted offsets of the pieces, by segment: of all segments, or of one."""
        found: dict[str, list[int]] = defaultdict(list)
        for key in self._list("log" if segment is None else f"log/{segment}"):
            if named := _PIECE.fullmatch(key):
                found[named[1]].append(int(named[2], 16))
        return {segment: sorted(offsets) for segment, offsets in found.items()}

    def log_ends(self, pieces: Mapping[str, Iterable[int]]) -> list[int]:
        """Return how many bytes of each segment are archived without a hole, given its pieces' offsets in order."""
        keys = [self._piece_key(segment, offset) for segment, offsets in pieces.items() for offset in offsets]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            lengths = dict(zip(keys, pool.map(self._measure, keys), strict=True))
        ends: list[int] = []
        for segment, offsets in pieces.items():
            end = 0
            for offset in offsets:
                if offset <= end:
                    end = max(end, offset + lengths[self._piece_key(segment, offset)])
            ends.append(end)
        return ends

    def read_log(self, segment: str, offsets: Iterable[int], *, segment_bytes: int) -> bytes:
        """Return a segment made of its pieces up to the first hole, then zeros. Raises ArchiveError if damaged."""
        try:
            return self._join_pieces(segment, offsets, segment_bytes)
        except FileNotFoundError:
            # The segment became full after the listing: it is whole now, and its pieces are deleted.
            return self._join_pieces(segment, [0], segment_bytes)

    def read_log_since(self, segment: str, offset: int, *, until: int, segment_bytes: int) -> tuple[int, bytes]:
        """Return a segment's bytes from `offset` or earlier, with the real offset. Raises FileNotFoundError."""
        offsets = self.log_pieces(segment).get(segment)
        if not offsets:
            raise FileNotFoundError(segment)
        content = bytearray()
        with suppress(FileNotFoundError):  # the segment has just become full
            for each in (each for each in offsets if each >= offset):
                if each != offset + len(content):
                    break
                content += self._unpack(segment, each)
        if offset + len(content) >= until:
            return offset, bytes(content)
        # The rest is in a piece that was written again from an earlier offset.
        return 0, self.read_log(segment, offsets, segment_bytes=segment_bytes)

    def has_segment(self, segment: str, *, segment_bytes: int) -> bool:
        """Return whether a segment is archived whole, in a single piece."""
        try:
            return len(self._unpack(segment, 0)) == segment_bytes
        except FileNotFoundError:
            return False

    def drop_log(self, segments: Iterable[str]) -> None:
        for segment in segments:
            self._drop(f"log/{segment}")

    def bases(self) -> list[Base]:
        """Return the complete backups, oldest first. Raises ArchiveError for an unreadable description."""
        names = self.base_names()
        for name in names:
            if name not in self._bases:  # backups don't change
                try:
                    self._bases[name] = Base.model_validate_json(self._read(f"bases/{name}/backup.json"))
                except FileNotFoundError:
                    continue
                except ValidationError as exc:
                    raise ArchiveError(f"A newer Carrel took the backup {name}, or the backup was altered.") from exc
        return sorted((self._bases[name] for name in names if name in self._bases), key=lambda base: base.ended_at)

    def base_names(self) -> list[str]:
        """Return the names of all backups, even incomplete backups, oldest first."""
        listed = obstore.list_with_delimiter(self._store, "bases")  # pyright: ignore[reportUnknownMemberType] - it leaves Arrow's untyped
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in listed["common_prefixes"])

    def write_base(self, name: str) -> Any:
        return obstore.open_writer(self._store, f"bases/{name}/base.tar.gz", buffer_size=_BUFFER)

    def finish_base(self, base: Base, *, manifest: bytes) -> None:
        """Complete a backup: add manifest and description, after tar and files."""
        if self._folder is not None:
            sync_file(self._folder / f"bases/{base.name}/base.tar.gz")
        self._put(f"bases/{base.name}/manifest", manifest)
        self._put(f"bases/{base.name}/backup.json", base.model_dump_json(indent=1).encode())
        self._bases[base.name] = base

    def read_base(self, name: str) -> Any:
        return obstore.open_reader(self._store, f"bases/{name}/base.tar.gz", buffer_size=_BUFFER)

    def read_manifest(self, name: str) -> bytes:
        return self._read(f"bases/{name}/manifest")

    def drop_base(self, name: str) -> None:
        """Delete a backup, description first, so that an interrupted deletion leaves an incomplete backup."""
        with suppress(FileNotFoundError):
            obstore.delete(self._store, f"bases/{name}/backup.json")
        self._drop(f"bases/{name}")

    def drop_files(self, sha256s: Iterable[bytes], *, before: datetime) -> int:
        """Delete the files not stored again since `before`; return the number."""

        def drop(key: str) -> bool:
            with suppress(FileNotFoundError):
                if obstore.head(self._store, key)["last_modified"] < before:
                    obstore.delete(self._store, key)
                    return True
            return False

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return sum(pool.map(drop, (f"files/{name[:2]}/{name}" for name in map(bytes.hex, sha256s))))

    def remove_leftovers(self, *, untouched_seconds: float = UNTOUCHED_SECONDS) -> None:
        """Remove temporary files of a killed process from a folder. A bucket never shows unfinished objects."""
        if self._folder is not None:
            remove_untouched(self._folder.rglob("*#*"), seconds=untouched_seconds)

    def put_file_list(self, name: str, sha256s: bytes) -> None:
        """Store the list of documents' files, as joined SHA-256s, at the start of a backup."""
        self._put(f"bases/{name}/files", sha256s)

    def file_list(self, name: str) -> Iterator[bytes]:
        """Yield the SHA-256 of each document's file at the start of a backup."""
        content = self._read(f"bases/{name}/files")
        for start in range(0, len(content), SHA256_BYTES):
            yield content[start : start + SHA256_BYTES]

    def put_key(self, key: SecretStr, *, fingerprint: bytes) -> None:
        self._put(f"keys/{fingerprint.hex()}", key.get_secret_value().encode())

    def key(self, fingerprint: bytes) -> SecretStr | None:
        try:
            return SecretStr(self._read(f"keys/{fingerprint.hex()}").decode())
        except FileNotFoundError:
            return None

    def _piece_key(self, segment: str, offset: int) -> str:
        return f"log/{segment}/{offset:08x}"

    def _measure(self, piece: str) -> int:
        """Return a piece's length unpacked, from the last four bytes of gzip data (RFC 1952, section 2.3.1)."""
        size = obstore.head(self._store, piece)["size"]
        return int.from_bytes(bytes(obstore.get_range(self._store, piece, start=size - 4, length=4)), "little")

    def _join_pieces(self, segment: str, offsets: Iterable[int], segment_bytes: int) -> bytes:
        content, end, offsets = bytearray(segment_bytes), 0, list(offsets)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for offset, piece in zip(offsets, pool.map(partial(self._unpack, segment), offsets), strict=True):
                if offset > end:
                    break
                content[offset : offset + len(piece)] = piece
                end = max(end, offset + len(piece))
        return bytes(content[:segment_bytes])

    def _unpack(self, segment: str, offset: int) -> bytes:
        try:
            return gzip.decompress(self._read(self._piece_key(segment, offset)))
        except (gzip.BadGzipFile, zlib.error, EOFError) as exc:
            raise ArchiveError(f"The archived log is damaged in {self._piece_key(segment, offset)}.") from exc

    def _read(self, key: str) -> bytes:
        return bytes(obstore.get(self._store, key).bytes())

    def _put(self, key: str, content: bytes) -> None:
        obstore.put(self._store, key, content)
        if self._folder is not None:
            sync_file(self._folder / key)

    def _drop(self, prefix: str) -> None:
        if keys := list(self._list(prefix)):
            obstore.delete(self._store, keys)
        if self._folder is not None:  # also remove leftovers of interrupted writes
            shutil.rmtree(self._folder / prefix, ignore_errors=True)

    def _list(self, prefix: str) -> Iterator[str]:
        for batch in obstore.list(self._store, prefix):  # pyright: ignore[reportUnknownMemberType] - it leaves Arrow's untyped
            for each in batch:
                yield each["path"]
