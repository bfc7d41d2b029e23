"""Taking backups of the database's folder into the archive, and deleting expired backups."""

import gzip
import hashlib
import io
import secrets
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, NamedTuple

from sqlalchemy.engine import URL

from service.operate.archiving.archive import SHA256_BYTES, Archive, Base, read_log_range
from service.operate.archiving.shipping import archive_files, claim_archive, open_shipper
from service.operate.backup import postgres_tools, queries
from service.operate.backup.archive import ArchiveError, BackupError, PostgresToolError, Progress
from service.operate.backup.taking import check_database
from service.platform.files import open_files
from service.platform.postgres.server import DATABASE, SUPERUSER, EmbeddedPostgres
from service.platform.settings import Settings

MANIFEST = "backup_manifest"
FULL_AFTER = timedelta(days=7)
# A file may be stored this long before the document that refers to it is saved.
UPLOADED_BEFORE = timedelta(days=1)
ARCHIVED_SECONDS = 120
_READ = 1024 * 1024
_LEVEL = 1


class Removed(NamedTuple):
    """The numbers of backups, log segments, and files removed from an archive."""

    bases: int
    segments: int
    files: int


def take_base(settings: Settings, server: EmbeddedPostgres, archive: Archive, *, say: Callable[[str], None]) -> Base:
    """Take an incremental backup, or a full backup: the first, once a week, or if PostgreSQL refuses an incremental
    (`say` gets the reason). Also claims the archive, and archives files and log. Raises BackupError."""
    owner = server.url(user=SUPERUSER)
    with server.connect(DATABASE) as connection:
        claim_archive(connection, archive)
    archive.remove_leftovers()
    with queries.connect(owner) as connection:
        revision, postgresql = check_database(connection)
    files = _archive_log_and_files(settings, server, archive)
    started_at = datetime.now(UTC)
    name = f"{started_at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
    archive.put_file_list(name, files)
    bases = archive.bases()
    parent = bases[-1] if bases and started_at - chain(bases, bases[-1])[0].ended_at < FULL_AFTER else None
    taken = _take_incremental(archive, name, owner, parent, say=say) or _write_tar(archive, name, owner, manifest=None)
    timeline, start, end = read_log_range(taken.manifest)
    base = Base(
        name=name,
        parent=parent.name if parent is not None and taken.is_incremental else None,
        started_at=started_at,
        ended_at=datetime.now(UTC),
        timeline=timeline,
        start_lsn=start,
        end_lsn=end,
        schema_revision=revision,
        postgresql=postgresql,
        size=taken.size,
        sha256=taken.sha256,
        files=len(files) // SHA256_BYTES,
    )
    wait_until_archived(settings, server, archive, lsn=end)
    archive.finish_base(base, manifest=taken.manifest)
    return base


def remove_old(archive: Archive, *, keep: timedelta) -> Removed:
    """Remove archived objects unneeded for a restore to any moment within `keep`; return the numbers removed. The last
    backup before the period stays, with all files and all later log."""
    since = datetime.now(UTC) - keep
    bases = archive.bases()
    earlier = [base for base in bases if base.ended_at <= since]
    if not earlier:
        return Removed(0, 0, 0)
    oldest = earlier[-1]
    wanted = [base for base in bases if base.ended_at >= oldest.ended_at]
    kept = {each.name for base in wanted for each in chain(bases, base)}
    files = _remove_files(archive, wanted, since=min(base.started_at for base in wanted) - UPLOADED_BEFORE)
    size = archive.position().segment_bytes
    first = min(base.first_segment(size) for base in wanted)
    segments = [name for name in archive.log_pieces() if name < first]
    archive.drop_log(segments)
    # A backup in progress is newer than the oldest wanted backup.
    others = [name for name in archive.base_names() if name not in kept and name < oldest.name]
    for name in others:
        archive.drop_base(name)
    return Removed(len(others), len(segments), files)


def chain(bases: list[Base], base: Base) -> list[Base]:
    """Return the backups needed by an incremental backup, full first. Raises BackupError if any is missing."""
    by_name, found = {each.name: each for each in bases}, [base]
    while found[0].parent is not None:
        parent = by_name.get(found[0].parent)
        if parent is None:
            raise BackupError(f"The archive lacks the backup {found[0].parent}, which {base.name} needs.")
        found.insert(0, parent)
    return found


class _Taken(NamedTuple):
    manifest: bytes
    size: int
    sha256: str
    is_incremental: bool


def _take_incremental(
    archive: Archive, name: str, owner: URL, parent: Base | None, *, say: Callable[[str], None]
) -> _Taken | None:
    if parent is None:
        return None
    try:
        return _write_tar(archive, name, owner, manifest=archive.read_manifest(parent.name))
    except PostgresToolError as error:
        say(f"An incremental backup is not possible, so a full backup is taken: {error}")
        return None


def _write_tar(archive: Archive, name: str, owner: URL, *, manifest: bytes | None) -> _Taken:
    with tempfile.TemporaryDirectory(prefix="carrel-backup-") as folder, archive.write_base(name) as target:
        since = None if manifest is None else Path(folder) / MANIFEST
        if since is not None and manifest is not None:
            since.write_bytes(manifest)
        counted = _Counted(target)
        with (
            gzip.GzipFile(filename="", fileobj=counted, mode="wb", compresslevel=_LEVEL, mtime=0) as packed,
            postgres_tools.open_base_backup(owner, since=since) as source,
        ):
            found = _pack(source, packed)
    return _Taken(found, counted.size, counted.digest.hexdigest(), manifest is not None)


def _pack(source: IO[bytes], packed: gzip.GzipFile) -> bytes:
    """Pack a tar to the end, and return the manifest; empty if pg_basebackup failed and reports the error."""
    copied, manifest = _Copied(source, packed, Progress("Backup")), b""
    try:
        with tarfile.open(fileobj=copied, mode="r|", bufsize=_READ) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.name == MANIFEST else None
                manifest = manifest if content is None else content.read()
    except tarfile.TarError:
        return b""
    while copied.read(_READ):
        pass
    copied.progress.end()
    return manifest


class _Copied(io.RawIOBase):
    def __init__(self, source: IO[bytes], packed: gzip.GzipFile, progress: Progress) -> None:
        self._source = source
        self._packed = packed
        self.progress = progress

    def read(self, size: int = -1) -> bytes:
        piece = self._source.read(size)
        self._packed.write(piece)
        self.progress.add(len(piece))
        return piece


class _Counted(io.RawIOBase):
    def __init__(self, target: Any) -> None:
        self._target = target
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, piece: Any) -> int:
        content = bytes(piece)
        self.digest.update(content)
        self.size += len(content)
        self._target.write(content)
        return len(content)


def _remove_files(archive: Archive, bases: list[Base], *, since: datetime) -> int:
    unused = {stored.sha256 for batch in archive.files.list_stored() for stored in batch if stored.modified_at < since}
    for base in bases:
        unused.difference_update(archive.file_list(base.name))
    # Keep a file that was stored again after the listing.
    return archive.drop_files(unused, before=since)


def _archive_log_and_files(settings: Settings, server: EmbeddedPostgres, archive: Archive) -> bytes:
    with open_shipper(settings, server, archive) as shipper:
        if shipper is not None:
            files = shipper.compare()
            shipper.ship()
            return files
    wait_until_archived(settings, server, archive, lsn=0)
    return archive_files(server.url(user=SUPERUSER), open_files(settings), archive)


def wait_until_archived(settings: Settings, server: EmbeddedPostgres, archive: Archive, *, lsn: int) -> None:
    """Archive the log up to a position, or wait for the running service. Raises BackupError without progress."""
    reached, deadline = -1, time.monotonic() + ARCHIVED_SECONDS
    while time.monotonic() < deadline:
        with open_shipper(settings, server, archive) as shipper:
            if shipper is not None:
                shipper.ship()
                return
        with suppress(ArchiveError):  # nothing is archived yet
            position = archive.position().lsn
            if position >= lsn:
                return
            if position > reached:
                reached, deadline = position, time.monotonic() + ARCHIVED_SECONDS
        time.sleep(0.2)
    raise BackupError(
        "The running service doesn't archive its log. Check `archive` in the service's log, then take the backup again."
    )
