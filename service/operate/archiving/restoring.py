"""Restoring an archived moment from backup and log, and standbys that replay the log and serve no readers."""

import gzip
import hashlib
import io
import os
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, cast

from sqlalchemy.engine import URL

from service import migrations
from service.operate.archiving.archive import Archive, Base, Position, format_moment, parse_lsn, segment_name
from service.operate.archiving.bases import chain
from service.operate.archiving.shipping import Copied, EndedError, copy_files, select_missing
from service.operate.backup import postgres_tools, queries
from service.operate.backup.archive import ArchiveError, MomentError, Progress
from service.operate.backup.taking import refuse_unknown_schema
from service.operate.deployment import service
from service.platform.background import Failures
from service.platform.files import FileStore
from service.platform.logs import logger
from service.platform.postgres.recovery import RecoveringPostgres
from service.platform.postgres.server import SUPERUSER
from service.platform.postgres.standby import EmbeddedStandby

_READ = 1024 * 1024
# The archive may end within a record of the log, which can't be replayed. Records are shorter than this.
_RECORD_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Plan:
    """The backups, full first, and log segments to a moment. `to` None: the `position`, reached if `is_whole`."""

    to: datetime | None
    bases: list[Base]
    segments: dict[str, list[int]]
    position: Position
    is_whole: bool


@dataclass(frozen=True)
class Restored:
    """A restore's result: moment (None: the last before a gap in the log), counts, and missing or altered files."""

    moment: datetime | None
    rows: dict[str, int]
    files: int
    faulty: list[bytes]
    has_key: bool


def plan_restore(archive: Archive, to: datetime | None) -> Plan:
    """Find the backup and log for a moment. Raises MomentError for a moment outside the archive, and ArchiveError."""
    # Read in this order, so that the position is behind the end of each listed backup.
    bases, position = archive.bases(), archive.position()
    if not bases:
        raise ArchiveError("There is no backup in the archive: run `python -m service backup --incremental` first.")
    if to is not None and to > position.at:
        raise MomentError(
            f"The archive ends at {format_moment(position.at)}. Choose an earlier moment, or leave out --to."
        )
    pieces = archive.log_pieces()
    # The log of a backup kept only for later incremental backups may have been removed.
    first = min(pieces, default="")
    usable = [base for base in bases if base.first_segment(position.segment_bytes) >= first] or bases
    earlier = [base for base in usable if to is None or base.ended_at <= to]
    if not earlier:
        raise MomentError(f"The first moment that can be restored is {format_moment(usable[0].ended_at)}.")
    base = earlier[-1]
    # The log after a backup of an old schema may contain the upgrade.
    if migrations.is_newer(base.schema_revision):
        raise ArchiveError(
            f"A newer Carrel took this backup (schema {base.schema_revision}). Restore it with that release."
        )
    if base.postgresql != (ours := postgres_tools.tools_major_version()):
        raise ArchiveError(
            f"This backup is of PostgreSQL {base.postgresql}, but this Carrel has PostgreSQL {ours}. Restore it with a "
            f"Carrel that has PostgreSQL {base.postgresql}."
        )
    segments, is_whole = _find_log(archive, pieces, base, position)
    return Plan(to, chain(bases, base), segments, position, is_whole)


def restore_moment(
    archive: Archive, plan: Plan, server: RecoveringPostgres, *, files: FileStore, key_folder: Path | None
) -> Restored:
    """Restore a moment and migrate; the server stays up. After RecoveryError or BackupError abandon the target."""
    unpack(archive, plan, server)
    return finish_restore(archive, server, moment=_replay(plan, server), files=files, key_folder=key_folder)


def finish_restore(
    archive: Archive | None,
    server: RecoveringPostgres,
    *,
    moment: datetime | None,
    files: FileStore,
    key_folder: Path | None,
) -> Restored:
    """Bring an open database's files and key from the archive (None: neither), migrate, and give it a new store id.
    Raises ArchiveError if this Carrel can't migrate its schema."""
    owner = server.url(user=SUPERUSER)
    with queries.connect(owner) as connection:
        if (revision := migrations.current_revision(connection)) is not None:
            refuse_unknown_schema(revision)
    copied = Copied() if archive is None else _bring_files(archive, owner, files)
    with queries.connect(owner) as connection:
        fingerprint = queries.read_key_fingerprint(connection)
    key = None if fingerprint is None or archive is None else archive.key(fingerprint)
    if key is not None and key_folder is not None:
        service.keep_key(key_folder, key)
    migrations.upgrade(owner)
    with queries.connect(owner) as connection:
        queries.take_new_store(connection)
        rows = queries.count_rows(connection)
    os.sync()
    return Restored(moment, rows, copied.files, copied.faulty, has_key=key is not None or fingerprint is None)


def _find_log(
    archive: Archive, pieces: dict[str, list[int]], base: Base, position: Position
) -> tuple[dict[str, list[int]], bool]:
    """Return the segments from a backup on, up to the first gap, and whether they reach the position."""
    size = position.segment_bytes
    names = [
        segment_name(base.timeline, number, segment_bytes=size)
        for number in range(base.start_lsn // size, -(-position.lsn // size))
    ]
    begun = {name: pieces[name] for name in takewhile(lambda name: 0 in pieces.get(name, ()), names)}
    # The last segment reaches the position. Among the others, the first incomplete segment begins a gap.
    ends = archive.log_ends({name: begun[name] for name in names[:-1] if name in begun})
    full = sum(1 for _ in takewhile(lambda end: end >= size, ends))
    is_whole = len(begun) == len(names) and full == len(ends)
    reached = position.lsn if is_whole else (base.start_lsn // size + full) * size + sum(ends[full : full + 1])
    if reached < base.end_lsn:
        lacking = segment_name(base.timeline, reached // size, segment_bytes=size)
        raise ArchiveError(f"The log in the archive lacks {lacking}, which the backup {base.name} needs.")
    return {name: begun[name] for name in list(begun)[: full + 1]}, is_whole


def unpack(archive: Archive, plan: Plan, server: RecoveringPostgres) -> None:
    """Unpack and combine a plan's backups, and add its log. Raises ArchiveError for damage, else RecoveryError."""
    progress = Progress("Backup")
    for number, base in enumerate(plan.bases):
        source = _Checked(archive.read_base(base.name), progress)
        try:
            with gzip.GzipFile(fileobj=source) as content:
                server.unpack(cast("IO[bytes]", content), number)
                while content.read(_READ):
                    pass
        except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, FileNotFoundError) as exc:
            raise ArchiveError(f"The backup {base.name} in the archive is damaged, or its tar is missing.") from exc
        source.check(base)
    progress.end()
    server.combine(len(plan.bases))
    progress, segment_bytes = Progress("Log"), plan.position.segment_bytes
    for number, (name, offsets) in enumerate(plan.segments.items(), start=1):
        server.put_log(name, archive.read_log(name, offsets, segment_bytes=segment_bytes))
        progress.add(segment_bytes, f", {number} of {len(plan.segments)} segments")
    progress.end()


def _replay(plan: Plan, server: RecoveringPostgres) -> datetime | None:
    """Replay the log; return the moment reached, None before a gap. Raises MomentError for a gap before `plan.to`."""
    names = list(plan.segments)
    numbers = {name: number for number, name in enumerate(names, start=1)}
    progress = Progress("Replayed")

    def show(segment: str) -> None:
        progress.add(0, f", {numbers.get(segment, len(names))} of {len(names)} segments")

    if server.recover(until=plan.to, show=show) and plan.to is not None:
        return plan.to
    if plan.to is not None and plan.is_whole:
        # The log ends before the wanted moment, and contains no later commit.
        server.recover(until=None, show=show)
    if plan.is_whole and parse_lsn(server.left_log_at()) >= plan.position.lsn - _RECORD_BYTES:
        return plan.to or plan.position.at
    if plan.to is not None:
        raise MomentError(f"The log has a gap: it can be replayed only to {names[-1]}. Choose an earlier moment.")
    return None


def _bring_files(archive: Archive, owner: URL, files: FileStore) -> Copied:
    progress = Progress("Files")

    def list_contents() -> Iterator[bytes]:
        for sha256, size in snapshot.files():
            yield sha256
            progress.add(size)

    with queries.open_snapshot(owner) as snapshot:
        copied = copy_files(archive.files, files, select_missing(files, list_contents()))
    progress.end()
    return copied


class _Checked(io.RawIOBase):
    def __init__(self, source: Any, progress: Progress) -> None:
        self._source = source
        self._progress = progress
        self._digest = hashlib.sha256()
        self._size = 0

    def read(self, size: int = -1) -> bytes:
        piece = bytes(self._source.read(size))
        self._digest.update(piece)
        self._size += len(piece)
        self._progress.add(len(piece))
        return piece

    def check(self, base: Base) -> None:
        while self.read(_READ):
            pass
        if (self._size, self._digest.hexdigest()) != (base.size, base.sha256):
            raise ArchiveError(f"The backup {base.name} in the archive has changed. Restore an earlier moment.")


LOOK_SECONDS = 1.0
# The time between two log lines about the standby's progress.
SAY_SECONDS = 60.0
# Newer uploads are copied when the standby is promoted.
FILES_SECONDS = 300.0


class GapError(ArchiveError):
    """The archive lacks log needed by the standby."""


def make_standby(archive: Archive, plan: Plan, server: EmbeddedStandby) -> None:
    """Create a standby, not started, from a plan. After ArchiveError or RecoveryError, do not use the folder."""
    unpack(archive, plan, server)
    server.place()


class Follower:
    """Brings new log and files from an archive to a standby."""

    def __init__(self, archive: Archive, server: EmbeddedStandby, files: FileStore) -> None:
        self._archive = archive
        self._server = server
        self._files = files
        # Copy the newest segment again, because its earlier copy may not have reached the disk.
        self._reached: int | None = None

    def follow(self, ends: Callable[[], bool]) -> None:
        """Follow until `ends` returns True; log and retry failures. Raises GapError: create the standby again."""
        failures, said_at, brought_at = Failures("standby"), float("-inf"), float("-inf")

        def check() -> None:
            if ends():
                raise EndedError

        while not ends():
            try:
                self._server.follow()
                position = self.bring_log()
                now = time.monotonic()
                if now - brought_at > FILES_SECONDS:
                    self._bring_files(check)
                    brought_at = now
                if now - said_at > SAY_SECONDS:
                    behind = round((datetime.now(UTC) - position.at).total_seconds(), 1)
                    logger.info("standby_follows", as_of=position.at.isoformat(), behind_seconds=behind)
                    said_at = now
                failures.reset()
            except GapError:
                raise
            except EndedError:
                return
            except Exception as error:  # noqa: BLE001 - the next time may find it better
                failures.log(error)
            time.sleep(LOOK_SECONDS)

    def bring_log(self) -> Position:
        """Copy new log from the archive, and return the archive's position. Raises GapError if the next log is missing,
        and ArchiveError for an empty archive or damaged log."""
        position = self._archive.position()
        size = position.segment_bytes
        newest = self._server.newest_segment()
        reached = newest.number(size) * size if self._reached is None else self._reached
        if position.timeline != newest.timeline or position.begins_lsn > reached:
            raise GapError(_MADE_AGAIN)
        while reached < position.lsn:
            number, offset = divmod(reached, size)
            name = segment_name(position.timeline, number, segment_bytes=size)
            until = min(position.lsn - number * size, size)
            try:
                begin, content = self._archive.read_log_since(name, offset, until=until, segment_bytes=size)
            except FileNotFoundError as exc:
                raise GapError(_MADE_AGAIN) from exc
            self._server.write_log(name, begin, content, segment_bytes=size)
            self._reached = reached = number * size + until
        return position

    def _bring_files(self, check: Callable[[], None]) -> None:
        """Copy the archive's files missing on the standby. Only a 256th of the names is in memory at a time."""

        def list_archived() -> Iterator[bytes]:
            for first_byte in range(256):
                batches = self._archive.files.list_stored(first_byte=first_byte)
                yield from sorted(each.sha256 for batch in batches for each in batch)

        copy_files(self._archive.files, self._files, select_missing(self._files, list_archived()), check=check)


def promote_standby(
    archive: Archive | None, server: EmbeddedStandby, *, files: FileStore, key_folder: Path | None
) -> Restored:
    """Replay the archive (None: only the local log), and make the standby a running deployment. Repeatable."""
    server.follow()
    moment = None
    if archive is not None and server.is_standby():
        moment = Follower(archive, server, files).bring_log().at
    server.promote()
    return finish_restore(archive, server, moment=moment, files=files, key_folder=key_folder)


_MADE_AGAIN = (
    "The archive's log does not continue from this standby. The standby was away too long, or the log has a gap. Empty "
    "the folder and begin again."
)
