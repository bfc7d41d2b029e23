"""Restoring a cluster from a full backup, incremental backups and the log, up to a moment."""

import os
import re
import secrets
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO

import psutil
import psycopg

from service.platform.postgres.host import DatabaseServerError
from service.platform.postgres.server import PARTIAL, SUPERUSER, EmbeddedPostgres

_COMBINED = "combined"
_REPLAYING = re.compile(r"startup recovering ([0-9A-F]{24})")


class RecoveryError(DatabaseServerError):
    """PostgreSQL can't make a database from the backup and its log."""


class RecoveringPostgres(EmbeddedPostgres):
    """A cluster restored into an empty data folder: `unpack` each backup, `combine` them, `put_log`, `recover`."""

    signal_file = "recovery.signal"

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        # Named like an unfinished cluster, so that the removal of unfinished clusters also removes this folder.
        self._work = self._folder.with_name(f"{PARTIAL}{secrets.token_hex(4)}")
        self._combined = self._work / _COMBINED
        self._recovery: dict[str, str] = {}
        self._show: Callable[[str], None] = lambda _: None

    def unpack(self, stream: IO[bytes], number: int) -> None:
        """Unpack the tar of a backup; the full backup is number 0, incremental backups follow in order. Raises
        RecoveryError for a member that is not a plain file, or outside the folder."""
        folder = self._work / str(number)
        if number == 0:
            self._make_folder(self._work)
        self._make_folder(folder)
        with tarfile.open(fileobj=stream, mode="r|", bufsize=1024 * 1024) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # which Python has from 3.11.4 on
            for member in tar:
                path = folder / member.name
                is_within = path.is_relative_to(folder) and ".." not in path.parts
                if not (is_within and (member.isfile() or member.isdir())):
                    raise RecoveryError(f"{member.name[:100]!r} in the backup is not a plain file.")
                tar.extract(member, folder)
                self._give_to_server(path)

    def combine(self, number: int) -> None:
        """Make a cluster from the first `number` unpacked backups. Raises RecoveryError if they don't fit together."""
        names = [str(each) for each in range(number)]
        try:
            if number > 1:
                self._run("pg_combinebackup", "--link", f"--output={_COMBINED}", *names, folder=self._work)
            else:
                (self._work / names[0]).rename(self._combined)
        except subprocess.CalledProcessError as error:
            raise RecoveryError(f"The backups in the archive don't fit together:\n{error.output}") from error
        folder = self._combined
        # Files that the server had open during the backup.
        for copied in ("log", *(path.name for path in folder.glob(".s.PGSQL.*"))):
            (folder / copied).unlink(missing_ok=True)
        (folder / self.signal_file).touch()
        self._give_to_server(folder / self.signal_file)

    def put_log(self, segment: str, content: bytes) -> None:
        """Add a whole segment of the log to the combined cluster."""
        path = self._combined / "pg_wal" / segment
        path.write_bytes(content)
        self._give_to_server(path)

    def place(self) -> None:
        """Move the restored files to the server's folder."""
        self._combined.rename(self._folder)
        shutil.rmtree(self._work)

    def recover(self, *, until: datetime | None, show: Callable[[str], None]) -> bool:
        """Start the server on a restored folder, replay the log, and open the database. With `until`, later commits are
        left out. Returns False if the log ends earlier: the database stays closed, and calling again without `until`
        continues. `show` receives each replayed segment. Raises RecoveryError if the log can't be replayed."""
        if not (self._folder / "PG_VERSION").exists():
            self.place()
        self._show = show
        self._recovery = {"recovery_target_time": until.isoformat(sep=" ")} if until is not None else {}
        if self._launch():
            return True
        told = self._log_end()
        if until is not None and "recovery ended before configured recovery target was reached" in told:
            (self._folder / "log").unlink()
            return False
        raise RecoveryError(f"PostgreSQL can't replay the log:\n{told}")

    def left_log_at(self) -> str:
        """Return the log position where the recovered database, now open, began its own history."""
        # Each line has timeline, position and reason; the last line is of the newest timeline.
        newest = max((self._folder / "pg_wal").glob("*.history"))
        return newest.read_text().splitlines()[-1].split("\t")[1]

    def _measured_parameters(self) -> dict[str, str]:
        return {
            **super()._measured_parameters(),
            # The whole log is already in the folder.
            "restore_command": "false",
            "recovery_target_timeline": "current",
            "recovery_target_action": "promote",
            # Without readers during recovery, the settings of the backed-up server are not required.
            "hot_standby": "off",
            **self._recovery,
        }

    def _answers(self) -> bool:
        while (process := self.process()) is not None:
            with suppress(psycopg.OperationalError), self.connect(SUPERUSER):
                return True
            with suppress(psutil.Error):
                titles = " ".join(" ".join(child.cmdline()) for child in process.children())
                if replaying := _REPLAYING.search(titles):
                    self._show(replaying[1])
            time.sleep(0.1)
        return False

    def _make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._give_to_server(folder)

    def _give_to_server(self, path: Path) -> None:
        os.chown(path, self._account.pw_uid, self._account.pw_gid)
