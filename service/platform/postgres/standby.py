"""A cluster replaying log as it arrives in `pg_wal`, watched by PostgreSQL; not readable until promoted."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from service.platform.postgres.host import DatabaseServerError
from service.platform.postgres.recovery import RecoveringPostgres, RecoveryError

_DIGITS = 8
_SEGMENTS = "[0-9A-F]" * 24
# At a promotion, much log may be left to replay.
PROMOTE_SECONDS = 24 * 3600


class Segment(NamedTuple):
    """A log segment: timeline and position, from the file name."""

    timeline: int
    high: int
    low: int

    def number(self, segment_bytes: int) -> int:
        return self.high * (2**32 // segment_bytes) + self.low


class EmbeddedStandby(RecoveringPostgres):
    """A standby: restored like a recovery, then `place`, `follow`, repeated `write_log`, and `promote`."""

    signal_file = "standby.signal"

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self._recovery = {
            "wal_retrieve_retry_interval": "500ms",
            # Recycling would give old segments the names of segments that arrive later.
            "wal_recycle": "off",
        }

    def follow(self) -> None:
        """Start the server unless its process runs: a standby answers no queries. Raises RecoveryError."""
        if self.process() is None and not self._launch():
            raise RecoveryError(f"The standby did not start. The end of its log:\n{self._log_end()}")

    def newest_segment(self) -> Segment:
        name = max(path.name for path in (self._folder / "pg_wal").glob(_SEGMENTS))
        timeline, high, low = (int(name[start : start + _DIGITS], 16) for start in range(0, len(name), _DIGITS))
        return Segment(timeline, high, low)

    def write_log(self, segment: str, offset: int, content: bytes, *, segment_bytes: int) -> None:
        """Write bytes of a segment from an offset on, and sync the file. A new segment has zeros for bytes to come."""
        path = self._folder / "pg_wal" / segment
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size < segment_bytes:
                os.truncate(descriptor, segment_bytes)
                os.fchown(descriptor, self._account.pw_uid, self._account.pw_gid)
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.seek(offset)
                file.write(content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def promote(self) -> None:
        """Replay the available log and open the database for writing; safe to repeat. Raises DatabaseServerError."""
        if self.is_standby():
            wait = ("-w", "-t", str(PROMOTE_SECONDS))
            try:
                self._run("pg_ctl", "-D", self._name(), *wait, "promote", folder=self._folder)
            except subprocess.CalledProcessError as error:
                raise RecoveryError(f"The standby can't be promoted:\n{error.output}") from error
        if not self._answers():
            raise DatabaseServerError(f"The promoted database does not answer. The end of its log:\n{self._log_end()}")

    def is_standby(self) -> bool:
        return (self._folder / self.signal_file).exists()

    def _answers(self) -> bool:
        return self.process() is not None if self.is_standby() else super()._answers()
