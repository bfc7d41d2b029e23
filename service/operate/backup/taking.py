"""Taking a backup while the service runs: one snapshot of the database, and the files in it."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from obstore.exceptions import BaseError
from pydantic import SecretStr
from sqlalchemy.engine import URL

from service import migrations
from service.operate.backup import postgres_tools, queries
from service.operate.backup.archive import ArchiveWriter, new_file
from service.operate.backup.errors import BackupError
from service.operate.backup.manifest import Contents, Manifest
from service.operate.backup.progress import Progress
from service.operate.backup.queries import Snapshot
from service.operate.deployment import key_files
from service.operate.deployment.service import matches
from service.operate.distribution import is_distributed
from service.platform.files import FileStore


def take_backup(path: Path, *, owner: URL, files: FileStore, data_dir: Path, secret_key: SecretStr | None) -> Manifest:
    """Write a backup of the database (as its `owner`) and its files to `path`; return its manifest. The snapshot's
    files stay meanwhile. The secret key is included if it is in the data folder, not if given as `secret_key`. Raises
    BackupError, or MigrationError for a newer Carrel's database: nothing was written."""
    with new_file(path) as file, queries.open_snapshot(owner) as snapshot:
        revision, postgresql = _check(snapshot)
        fingerprint = queries.read_key_fingerprint(snapshot.connection)
        key = None if secret_key is not None else _read_kept_key(data_dir, fingerprint)
        rows = queries.count_rows(snapshot.connection)
        archive = ArchiveWriter(file)
        count, size = snapshot.file_totals()
        progress = Progress("Files")
        for number, (sha256, file_size) in enumerate(snapshot.files(), start=1):
            archive.add_file(sha256, _read(files, sha256), size=file_size)
            progress.add(file_size, f" of {size / 1e6:,.0f}, {number} of {count}")
        progress.end()
        archive.add_database(_show_progress(postgres_tools.dump(owner, snapshot=snapshot.name)))
        if key is not None:
            archive.add_secret_key(key)

        def describe(contents: Contents) -> Manifest:
            return Manifest(
                created_at=datetime.now(UTC),
                schema_revision=revision,
                postgresql=postgresql,
                key_fingerprint=None if fingerprint is None else fingerprint.hex(),
                rows=rows,
                contents=contents,
            )

        return archive.close(describe)


def _check(snapshot: Snapshot) -> tuple[str, int]:
    postgresql = postgres_tools.check_version(queries.server_version(snapshot.connection))
    if not queries.table_names(snapshot.connection):
        raise BackupError("The database is empty: there is nothing to back up. Is CARREL_DATA_DIR the right folder?")
    revision = migrations.current_revision(snapshot.connection)
    migrations.refuse_unknown(revision)
    if revision is None:
        raise BackupError("The database's schema is not one this Carrel knows. Back it up with the Carrel that runs.")
    queries.refuse_hidden(snapshot.connection)
    if is_distributed(snapshot.connection):
        raise BackupError(
            "The index lies on several servers, of which this command can't read one moment. Back up each server by"
            " means of its own, and all of them to one restore point: docs/scaling.md says how."
        )
    return revision, postgresql


def _read_kept_key(data_dir: Path, fingerprint: bytes | None) -> SecretStr | None:
    key = key_files.read_key(data_dir)
    if fingerprint is None or matches(key, fingerprint):
        return key
    successor = key_files.read_successor(data_dir)
    if matches(successor, fingerprint):
        return successor
    raise BackupError(
        f"The secret key in {data_dir} is not the one this database was set up with. Put it back, or set"
        " CARREL_SECRET_KEY."
    )


def _read(files: FileStore, sha256: bytes) -> Iterator[bytes]:
    try:
        yield from files.read(sha256)
    except (BaseError, OSError) as exc:
        message = f"The file {sha256.hex()} can't be read from the file store. Put it back from an earlier backup."
        raise BackupError(message) from exc


def _show_progress(pieces: Iterable[bytes]) -> Iterator[bytes]:
    progress = Progress("Database")
    for piece in pieces:
        yield piece
        progress.add(len(piece))
    progress.end()
