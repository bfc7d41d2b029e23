"""Bringing log and files into the archive, as they are written.

Why a database of any moment in the archive refers to no file that isn't there: a file that is stored is noted
(`FileStore.take_unarchived`) before the transaction that refers to it is committed. Each round reads how far the log
is, and then the notes; it archives the noted files before that part of the log. What notes were lost with a machine, or
were never made, is found by comparing the archive with the database when a process begins to archive.

The log is read where PostgreSQL writes it. A replication slot keeps what isn't archived, as much of it as
`max_slot_wal_keep_size` says; when it had to let some go, the archive has a gap, and goes on behind it.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from socket import socket

from sqlalchemy.engine import URL

from service.operate.archiving import queries
from service.operate.archiving.archive import Archive
from service.operate.archiving.copying import copy_files
from service.operate.archiving.errors import ForeignArchiveError
from service.operate.archiving.models import Position, segment_name
from service.operate.backup.queries import open_snapshot
from service.operate.deployment import key_files
from service.platform.background import Failures
from service.platform.files import FileStore, open_files
from service.platform.keys import Keys
from service.platform.logs import logger
from service.platform.postgres.host import cluster_folder
from service.platform.postgres.server import DATABASE, SUPERUSER, EmbeddedPostgres
from service.platform.processes import READY
from service.platform.settings import Settings

Check = Callable[[], None]
Tell = Callable[[float], None]
LOOK_SECONDS = 1.0
# An archive of a database that isn't written to says so often that it is alive.
SAY_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 15.0


class _EndedError(Exception):
    """The process is to end while it is at work."""


class Shipper:
    """Brings what is new into the archive, round by round. `check` is called again and again, and may raise."""

    def __init__(
        self, connection: queries.Connection, archive: Archive, files: FileStore, *, log: Path, check: Check
    ) -> None:
        self._check = check
        self._connection = connection
        self._archive = archive
        self._files = files
        self._log = log
        self._segment_bytes = queries.read_segment_bytes(connection)
        kept, is_new = queries.ensure_slot(connection)
        self._sent = kept - kept % self._segment_bytes
        self._said: Position | None = None
        self._said_at = 0.0
        if is_new:
            logger.warning("archive_begins", advice="Take a backup now: python -m service backup --incremental.")

    def ship(self) -> Position:
        """Archive all that is on the disk by now: files, log, and then the position."""
        end = queries.read_log_end(self._connection)
        # No file goes before it is archived; where archiving fails, the lock stays until the connection ends.
        queries.lock_files(self._connection)
        _archive_files(self._files, self._archive, self._files.take_unarchived())
        queries.unlock_files(self._connection)
        self._ship_log(end)
        position = Position(at=end.at, timeline=end.timeline, lsn=end.lsn, segment_bytes=self._segment_bytes)
        moved = self._said is None or self._said.lsn != end.lsn
        if moved or time.monotonic() - self._said_at > SAY_SECONDS:
            self._archive.move_position(position)
            self._said, self._said_at = position, time.monotonic()
        return position

    def _ship_log(self, end: queries.LogEnd) -> None:
        size = self._segment_bytes
        while self._sent < end.lsn:
            self._check()
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
def open_shipper(
    settings: Settings, server: EmbeddedPostgres, archive: Archive, *, check: Check = lambda: None
) -> Generator[Shipper | None]:
    """Begin to archive: keep the secret key and all files that there are; None when another process archives."""
    with server.connect(DATABASE) as connection:
        if not queries.try_lock_archive(connection):
            yield None
            return
        archive.claim(queries.read_store_id(connection))
        _archive_keys(settings, archive)
        files = open_files(settings)
        shipper = Shipper(connection, archive, files, log=cluster_folder(settings.data_dir) / "pg_wal", check=check)
        archive_files(server.url(user=SUPERUSER), files, archive, check=check)
        yield shipper


def archive_files(owner: URL, files: FileStore, archive: Archive, *, check: Check = lambda: None) -> bytes:
    """Archive the files that documents have and the archive lacks; return the SHA-256s of all that they have, joined.

    Only a 256th part of the archive's names is in memory at a time.
    """
    wanted = bytearray()

    def lacking() -> Iterator[bytes]:
        stored, first_byte = set[bytes](), -1
        for sha256, _ in snapshot.files():
            if sha256[0] != first_byte:
                first_byte = sha256[0]
                batches = archive.files.list_stored(first_byte=first_byte)
                stored = {each.sha256 for batch in batches for each in batch}
            wanted.extend(sha256)
            if sha256 not in stored:
                check()
                yield sha256

    with open_snapshot(owner) as snapshot:
        _archive_files(files, archive, lacking())
    return bytes(wanted)


def keep_archiving(settings: Settings, server: EmbeddedPostgres, orders: socket, tell: Tell) -> None:
    """Archive until an order comes, or the process that gives orders has ended; failures are logged, and tried again.

    `tell` is told the time, in seconds since 1970, up to which all is archived, after each round.

    Raises:
        ForeignArchiveError: the archive is another deployment's.
    """
    failures, pause = Failures("archive"), LOOK_SECONDS
    while True:
        try:
            _archive_until_ordered(settings, server, orders, tell)
        except ForeignArchiveError:
            raise
        except _EndedError:
            return
        except Exception as error:  # noqa: BLE001 - the next time may find it better
            failures.log(error)
            orders.send(READY)  # the service starts without its archive
        else:
            return
        if wait([orders], pause):
            return
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _archive_until_ordered(settings: Settings, server: EmbeddedPostgres, orders: socket, tell: Tell) -> None:
    assert settings.archive_url is not None  # noqa: S101 - else nothing is archived
    archive = Archive.create(settings.archive_url)

    def check() -> None:
        if wait([orders], 0):
            raise _EndedError

    while True:
        with open_shipper(settings, server, archive, check=check) as shipper:
            orders.send(READY)
            while shipper is not None:
                tell(shipper.ship().at.timestamp())
                if wait([orders], LOOK_SECONDS):
                    # What was written since; an order is still to be read, so this takes a segment at most.
                    with suppress(_EndedError):
                        shipper.ship()
                    return
        if wait([orders], LOOK_SECONDS):  # another process archives
            return


def _archive_files(files: FileStore, archive: Archive, sha256s: Iterable[bytes]) -> None:
    """Archive files; what one document lacks is logged, and no reason to archive no other."""
    faulty = copy_files(files, archive.files, sha256s).faulty
    if faulty:
        logger.error(
            "files_not_archived", files=len(faulty), first=faulty[0].hex(), advice="python -m service files check"
        )


def _archive_keys(settings: Settings, archive: Archive) -> None:
    if settings.secret_key is not None:
        return
    for key in (key_files.read_key(settings.data_dir), key_files.read_successor(settings.data_dir)):
        if key is not None:
            archive.put_key(key, fingerprint=Keys(key).fingerprint)
