"""Bring log and files into the archive. No archived moment refers to a missing file: a stored file is noted
(`FileStore.take_unarchived`) before the transaction that refers to it commits. Each round reads the log's end, then the
notes, and archives noted files before the log. A note stays until its file is archived, and protects the file from
collection. At start, a comparison of archive and database finds lost notes. A replication slot keeps unarchived log up
to `max_slot_wal_keep_size`; beyond the limit the archive has a gap."""

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from multiprocessing.connection import wait
from operator import itemgetter
from pathlib import Path
from socket import MSG_DONTWAIT, socket
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import IO

from obstore.exceptions import BaseError
from sqlalchemy.engine import URL

from service.operate.archiving import queries
from service.operate.archiving.archive import Archive, Position, segment_name
from service.operate.backup.archive import ArchiveError
from service.operate.backup.queries import open_snapshot
from service.operate.deployment import service
from service.platform.background import Failures
from service.platform.deployment_errors import ForeignArchiveError
from service.platform.files import FileStore, open_files
from service.platform.logs import logger
from service.platform.postgres.host import cluster_folder
from service.platform.postgres.server import DATABASE, SUPERUSER, EmbeddedPostgres
from service.platform.processes import READY, end_when_parent_dies
from service.platform.secrets import Keys
from service.platform.settings import Settings
from service.platform.sharing import Figure

COPIED_AT_ONCE = 8
_READ = 1024 * 1024
_IN_MEMORY = 8 * _READ
# Files too large for memory are on the disk one at a time.
_large = Lock()


class _UnreadableError(Exception):
    """The disk fails to read an existing file."""


@dataclass
class Copied:
    """Copied files and bytes, and SHA-256s of `faulty` files: missing, altered, or (perhaps for now) `unreadable`."""

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
    """Copy contents, several at a time, without missing, altered and unreadable files. Other errors, and errors of the
    repeated `check`, are raised. `spool` is the folder for large files in transit (None: TMPDIR)."""
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


def select_missing(target: FileStore, sha256s: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the contents missing in a store, in order. Memory holds a 256th of the store's names at a time."""
    for first_byte, wanted in groupby(sha256s, key=itemgetter(0)):
        batches = target.list_stored(first_byte=first_byte)
        stored = {each.sha256 for batch in batches for each in batch}
        yield from (sha256 for sha256 in wanted if sha256 not in stored)


def _copy(
    source: FileStore, target: FileStore, spool: Path | None, check: Callable[[], None], sha256: bytes
) -> int | _UnreadableError | None:
    """Copy a content; return its size, or why it was not copied: unreadable, or missing or altered (None)."""
    # Read the whole content first: its SHA-256 must be known, and one store can't be read during a write to another.
    with ExitStack() as stack, SpooledTemporaryFile(_IN_MEMORY, dir=str(spool) if spool else None) as held:
        digest, is_large = hashlib.sha256(), False
        try:
            for piece in _read_pieces(source, sha256):
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


def _read_pieces(source: FileStore, sha256: bytes) -> Iterator[bytes]:
    try:
        yield from source.read(sha256)
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:
        if source.folder is None:  # an unavailable bucket fails for all files
            raise
        raise _UnreadableError from error


Check = Callable[[], None]
Tell = Callable[[Figure, float], None]
LOOK_SECONDS = 1.0
# How often the archive of an idle database reports that it works.
SAY_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 15.0
# How long the last log is archived after the service has stopped.
LAST_SECONDS = 10.0
_NOTES_AT_ONCE = 256

_BEGIN_ANEW = (
    "To begin another archive, start the service once without CARREL_ARCHIVE_URL. Then choose an empty folder or "
    "prefix, and take a backup."
)


class EndedError(Exception):
    """The work must end before it is done."""


class _Orders:
    """The supervisor's orders: any order ends the archiving, a second order also the last round."""

    def __init__(self, orders: socket) -> None:
        self._orders = orders
        self._is_told = self._has_come = False

    def say_ready_once(self) -> None:
        if not self._is_told:
            self._orders.send(READY)
            self._is_told = True

    def wait(self, seconds: float) -> bool:
        if not self._has_come and wait([self._orders], seconds):
            self._has_come = True
            with suppress(BlockingIOError):  # another thread has taken it
                self._orders.recv(1, MSG_DONTWAIT)
        return self._has_come

    def check(self) -> None:
        if self.wait(0):
            raise EndedError

    def check_hurry(self, deadline: float) -> None:
        if time.monotonic() > deadline or wait([self._orders], 0):
            raise EndedError


class Shipper:
    """Brings new log and files into the archive: first missing older files (`compare`), then in rounds (`ship`)."""

    def __init__(
        self, connection: queries.Connection, archive: Archive, files: FileStore, *, owner: URL, log: Path, spool: Path
    ) -> None:
        """Start where the log is kept. Raises ForeignArchiveError if the archive has log missing in the database."""
        self._connection = connection
        self._archive = archive
        self._files = files
        self._owner = owner
        self._log = log
        self._spool = spool
        self._segment_bytes = queries.read_segment_bytes(connection)
        self._said: Position | None = None
        self._said_at = 0.0
        self._faulty: set[bytes] = set()
        end, position = queries.read_log_end(connection), _find_position(archive)
        if position is not None and position.lsn > end.lsn:
            raise ForeignArchiveError(
                "The archive at CARREL_ARCHIVE_URL is newer than this database. The data folder was copied, or set "
                f"back to an earlier moment, so new log would mix with the archived log. {_BEGIN_ANEW}"
            )
        kept, is_new = queries.ensure_slot(connection)
        self._sent = kept - kept % self._segment_bytes
        has_gap = self._has_gap(end.timeline, position)
        self._begins = position.begins_lsn if position is not None and not has_gap else self._sent
        if is_new or has_gap:
            logger.warning("archive_begins", advice="Take a backup now: python -m service backup --incremental.")

    def _has_gap(self, timeline: int, position: Position | None) -> bool:
        if position is not None and position.lsn >= self._sent:
            return False
        before = segment_name(timeline, self._sent // self._segment_bytes - 1, segment_bytes=self._segment_bytes)
        return not self._archive.has_segment(before, segment_bytes=self._segment_bytes)

    def compare(self, check: Check = lambda: None) -> bytes:
        """Archive documents' files missing in the archive, like `archive_files`; may take hours."""
        return archive_files(self._owner, self._files, self._archive, spool=self._spool, check=check)

    def ship(self, check: Check = lambda: None) -> Position:
        """Archive the disk's files, log, then the position. `check` is called repeatedly and may raise."""
        end = queries.read_log_end(self._connection)
        self._archive_noted(check)
        self._ship_log(end, check)
        position = Position(**end._asdict(), segment_bytes=self._segment_bytes, begins_lsn=self._begins)
        moved = self._said is None or self._said.lsn != end.lsn
        if moved or time.monotonic() - self._said_at > SAY_SECONDS:
            self._archive.move_position(position)
            self._said, self._said_at = position, time.monotonic()
        return position

    def _archive_noted(self, check: Check) -> None:
        """Archive the noted files. Unreadable files are retried each time, and logged once."""
        noted = iter(self._files.take_unarchived())
        while batch := set(islice(noted, _NOTES_AT_ONCE)):
            check()
            copied = copy_files(self._files, self._archive.files, batch, spool=self._spool, check=check)
            _log_faulty([sha256 for sha256 in copied.faulty if sha256 not in self._faulty])
            self._faulty.update(copied.faulty)
            self._files.drop_notes(batch.difference(copied.unreadable))

    def _ship_log(self, end: queries.LogEnd, check: Check) -> None:
        size = self._segment_bytes
        while self._sent < end.lsn:
            check()
            number, offset = divmod(self._sent, size)
            until = min(size, offset + end.lsn - self._sent)
            name = segment_name(end.timeline, number, segment_bytes=size)
            is_whole = until == size
            begin = 0 if is_whole else offset
            with (self._log / name).open("rb") as segment:
                segment.seek(begin)
                self._archive.put_log(name, begin, segment.read(until - begin))
            if is_whole:
                self._archive.drop_pieces(name)
            self._sent += until - offset
            queries.advance_slot(self._connection, lsn=self._sent)


@contextmanager
def open_shipper(settings: Settings, server: EmbeddedPostgres, archive: Archive) -> Generator[Shipper | None]:
    """Yield a shipper, alone until the block ends; None while another process archives. Claims the archive, and stores
    the folder's secret keys there. Raises ForeignArchiveError or ArchiveError, as `claim_archive`."""
    with server.connect(DATABASE) as connection:
        if not queries.try_lock_archive(connection):
            yield None
            return
        claim_archive(connection, archive)
        _archive_keys(settings, archive)
        files, spool = open_files(settings), settings.uploads_dir
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = cluster_folder(settings.data_dir) / "pg_wal"
        yield Shipper(connection, archive, files, owner=server.url(user=SUPERUSER), log=log, spool=spool)


def claim_archive(connection: queries.Connection, archive: Archive) -> None:
    """Claim the archive for this deployment. Raises ForeignArchiveError if the archive belongs to another. Raises
    ArchiveError if unclaimed though the deployment has archived before: the archive's disk may not be mounted."""
    if queries.find_slot(connection) is not None and not archive.files.has_owner():
        raise ArchiveError(
            "CARREL_ARCHIVE_URL has no archive, although this deployment has archived before. Check that its disk is "
            f"mounted. {_BEGIN_ANEW}"
        )
    archive.claim(queries.read_store_id(connection))


def _find_position(archive: Archive) -> Position | None:
    try:
        return archive.position()
    except ArchiveError:  # the archive is still empty
        return None


def archive_files(
    owner: URL, files: FileStore, archive: Archive, *, spool: Path | None = None, check: Check = lambda: None
) -> bytes:
    """Archive files missing in the archive; return the SHA-256s of all, joined. Reads a 256th of names at a time."""
    wanted = bytearray()

    def list_wanted() -> Iterator[bytes]:
        for sha256, _ in snapshot.files():
            check()
            wanted.extend(sha256)
            yield sha256

    with open_snapshot(owner) as snapshot:
        lacking = select_missing(archive.files, list_wanted())
        _log_faulty(copy_files(files, archive.files, lacking, spool=spool, check=check).faulty)
    return bytes(wanted)


def keep_archiving(settings: Settings, server: EmbeddedPostgres, orders: socket, tell: Tell) -> None:
    """Archive until an order arrives or the parent has ended; failures are logged and retried. After each round, `tell`
    gets the times of archive and newest backup in seconds since 1970. Raises ForeignArchiveError."""
    end_when_parent_dies(orders)
    told, failures, pause = _Orders(orders), Failures("archive"), LOOK_SECONDS
    while True:
        try:
            _archive_until_ordered(settings, server, told, tell)
        except ForeignArchiveError:
            raise
        except EndedError:
            return
        except Exception as error:  # noqa: BLE001 - the next time may find it better
            failures.log(error)
            told.say_ready_once()  # the service starts even if the archive fails
        else:
            return
        if told.wait(pause):
            return
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _archive_until_ordered(settings: Settings, server: EmbeddedPostgres, orders: _Orders, tell: Tell) -> None:
    assert settings.archive_url is not None  # noqa: S101 - else nothing is archived
    archive = Archive.create(settings.archive_url)
    while True:
        with open_shipper(settings, server, archive) as shipper:
            if shipper is not None:
                orders.say_ready_once()
                if (position := _find_position(archive)) is not None:
                    tell(Figure.ARCHIVED_AT, position.at.timestamp())
                    tell_backup(archive, position, tell)
                shipper.compare(orders.check)
                _ship_until_ordered(shipper, archive, orders, tell)
                return
        orders.say_ready_once()  # another process archives
        if orders.wait(LOOK_SECONDS):
            return


def _ship_until_ordered(shipper: Shipper, archive: Archive, orders: _Orders, tell: Tell) -> None:
    looked_at = float("-inf")
    with suppress(EndedError):
        while True:
            position = shipper.ship(orders.check)
            tell(Figure.ARCHIVED_AT, position.at.timestamp())
            if time.monotonic() - looked_at > SAY_SECONDS:
                tell_backup(archive, position, tell)
                looked_at = time.monotonic()
            if orders.wait(LOOK_SECONDS):
                break
    # The workers have ended: this contains all writes that they acknowledged.
    shipper.ship(partial(orders.check_hurry, time.monotonic() + LAST_SECONDS))


def tell_backup(archive: Archive, position: Position, tell: Tell) -> None:
    """Report the end time of the newest backup usable at `position`, or 0; nothing if backups are unreadable."""
    with suppress(ArchiveError):  # a backup by a newer Carrel must not stop archiving
        leading = [base.ended_at.timestamp() for base in archive.bases() if base.leads_to(position)]
        tell(Figure.BACKED_UP_AT, max(leading, default=0.0))


def _log_faulty(faulty: list[bytes]) -> None:
    if faulty:
        logger.error(
            "files_not_archived", files=len(faulty), first=faulty[0].hex(), advice="python -m service files check"
        )


def _archive_keys(settings: Settings, archive: Archive) -> None:
    if settings.secret_key is not None:
        return
    for key in (service.read_key(settings.data_dir), service.read_successor(settings.data_dir)):
        if key is not None:
            archive.put_key(key, fingerprint=Keys(key).fingerprint)
