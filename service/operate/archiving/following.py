"""A standby of the embedded database: a data folder made from an archive that keeps replaying its log. Nobody reads it
until it is promoted to a deployment of its own."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from service.operate.archiving.archive import Archive
from service.operate.archiving.copying import copy_files, select_lacking
from service.operate.archiving.models import Position, segment_name
from service.operate.archiving.restoring import Plan, Restored, finish_restore, unpack
from service.operate.backup.errors import ArchiveError
from service.platform.background import Failures
from service.platform.files import FileStore
from service.platform.logs import logger
from service.platform.postgres.standby import EmbeddedStandby

LOOK_SECONDS = 1.0
# How often the log says how far the standby is.
SAY_SECONDS = 60.0
# What is uploaded since the last look is brought when the standby is promoted.
FILES_SECONDS = 300.0


class GapError(ArchiveError):
    """The archive lacks log that the standby needs to go on."""


def make_standby(archive: Archive, plan: Plan, server: EmbeddedStandby) -> None:
    """Make a standby, not started, from the newest backup and log. Raises BackupError: do not use the folder."""
    unpack(archive, plan, server)
    server.place()


class _EndedError(Exception):
    """The standby is to be promoted while files are brought."""


class Follower:
    """Brings what is new in an archive to a standby."""

    def __init__(self, archive: Archive, server: EmbeddedStandby, files: FileStore) -> None:
        self._archive = archive
        self._server = server
        self._files = files
        # What was copied of the newest segment before is copied again: nothing says how far that was on the disk.
        self._reached: int | None = None

    def follow(self, ends: Callable[[], bool]) -> None:
        """Follow until `ends` returns True, and retry failures. Raises GapError: make the standby again."""
        failures, said_at, brought_at = Failures("standby"), float("-inf"), float("-inf")

        def check() -> None:
            if ends():
                raise _EndedError

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
            except _EndedError:
                return
            except Exception as error:  # noqa: BLE001 - the next time may find it better
                failures.log(error)
            time.sleep(LOOK_SECONDS)

    def bring_log(self) -> Position:
        """Copy new log from the archive, and return its position. Raises GapError if the next log is missing."""
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
            begin, content = self._read(name, offset, until=until, segment_bytes=size)
            self._server.write_log(name, begin, content, segment_bytes=size)
            self._reached = reached = number * size + until
        return position

    def _read(self, segment: str, offset: int, *, until: int, segment_bytes: int) -> tuple[int, bytes]:
        try:
            return self._archive.read_log_since(segment, offset, until=until, segment_bytes=segment_bytes)
        except FileNotFoundError as exc:
            raise GapError(_MADE_AGAIN) from exc

    def _bring_files(self, check: Callable[[], None]) -> None:
        """Copy the archive's files that the standby lacks; only a 256th part of the names is in memory at a time."""

        def list_archived() -> Iterator[bytes]:
            for first_byte in range(256):
                batches = self._archive.files.list_stored(first_byte=first_byte)
                yield from sorted(each.sha256 for batch in batches for each in batch)

        copy_files(self._archive.files, self._files, select_lacking(self._files, list_archived()), check=check)


def promote_standby(
    archive: Archive | None, server: EmbeddedStandby, *, files: FileStore, key_folder: Path | None
) -> Restored:
    """Replay the archive (None: the log that is here), and make the standby a running deployment. Repeatable."""
    server.follow()
    moment = None
    if archive is not None and server.is_standby():
        moment = Follower(archive, server, files).bring_log().at
    server.promote()
    return finish_restore(archive, server, moment=moment, files=files, key_folder=key_folder)


_MADE_AGAIN = (
    "The archive has no log that continues from where this standby is: it was away for longer than log is kept, or"
    " the log has a gap. Empty the folder and begin again."
)
