"""Taking a backup (one snapshot, with files) of a running service, and restoring, after a reading to verify."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO

from obstore.exceptions import BaseError
from pydantic import SecretStr
from sqlalchemy import Connection
from sqlalchemy.engine import URL

from service import migrations
from service.operate.backup import postgres_tools, queries
from service.operate.backup.archive import (
    ArchiveError,
    ArchiveWriter,
    BackupError,
    Manifest,
    NotEmptyError,
    Progress,
    Sink,
    new_file,
    read_archive,
)
from service.operate.deployment import service
from service.operate.distribution import is_distributed
from service.platform.files import FileStore


def take_backup(path: Path, *, owner: URL, files: FileStore, data_dir: Path, secret_key: SecretStr | None) -> Manifest:
    """Write a backup of the database (as `owner`) and files to `path`. The data folder's secret key is included, but
    not a given `secret_key`. Raises BackupError, or MigrationError for a newer database: no backup was written."""
    with new_file(path) as file, queries.open_snapshot(owner) as snapshot:
        revision, postgresql = check_database(snapshot.connection)
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
        progress = Progress("Database")
        archive.add_database(progress.count(postgres_tools.dump(owner, snapshot=snapshot.name)))
        progress.end()
        if key is not None:
            archive.add_secret_key(key)
        describe = partial(
            Manifest,
            created_at=datetime.now(UTC),
            schema_revision=revision,
            postgresql=postgresql,
            key_fingerprint=None if fingerprint is None else fingerprint.hex(),
            rows=rows,
        )
        return archive.close(describe)


def check_database(connection: Connection) -> tuple[str, int]:
    """Return a database's schema revision and PostgreSQL's major version. Raises BackupError, or MigrationError for a
    newer or older schema, if this Carrel can't back up all of it."""
    postgresql = postgres_tools.check_version(queries.server_version(connection))
    if not queries.table_names(connection):
        raise BackupError("The database is empty, so there is nothing to back up. Check CARREL_DATA_DIR.")
    revision = migrations.current_revision(connection)
    migrations.refuse_unknown(revision)
    if revision is None:
        raise BackupError("This Carrel doesn't know the database's schema. Back it up with the Carrel that runs on it.")
    queries.refuse_hidden(connection)
    if is_distributed(connection):
        raise BackupError(
            "The index is spread over several servers, and this command can't read all at the same moment. Back up "
            "each server by its own means, to one restore point (docs/scaling.md)."
        )
    return revision, postgresql


def _read_kept_key(data_dir: Path, fingerprint: bytes | None) -> SecretStr | None:
    key = service.read_key(data_dir)
    if fingerprint is None or service.matches(key, fingerprint):
        return key
    successor = service.read_successor(data_dir)
    if service.matches(successor, fingerprint):
        return successor
    raise BackupError(
        f"The secret key in {data_dir} does not belong to this database. Put the right key back, or set "
        "CARREL_SECRET_KEY."
    )


def _read(files: FileStore, sha256: bytes) -> Iterator[bytes]:
    try:
        yield from files.read(sha256)
    except (BaseError, OSError) as exc:
        message = f"The file {sha256.hex()} can't be read from the file store. Put it back from an earlier backup."
        raise BackupError(message) from exc


def verify(file: IO[bytes]) -> Manifest:
    """Read an archive to the end and return the manifest, storing nothing. Raises ArchiveError if it is damaged, has a
    schema that this Carrel can't migrate, or a secret key of another database."""
    sink = Sink("Verifying")
    manifest = read_archive(file, sink)
    sink.progress.end()
    refuse_unknown_schema(manifest.schema_revision)
    fingerprint = None if manifest.key_fingerprint is None else bytes.fromhex(manifest.key_fingerprint)
    if sink.key is not None and fingerprint is not None and not service.matches(sink.key, fingerprint):
        raise ArchiveError("The secret key in this archive does not belong to its database. Use another backup.")
    return manifest


def refuse_unknown_schema(revision: str) -> None:
    """Raise ArchiveError if this Carrel can't migrate a backup's schema."""
    if migrations.is_newer(revision):
        raise ArchiveError(
            f"A newer Carrel took this backup (schema {revision}; this Carrel knows schemas up to {migrations.HEAD}). "
            "Restore it with that release."
        )
    if migrations.is_older(revision):
        raise ArchiveError(
            f"A Carrel before {migrations.BASELINE_VERSION} took this backup (schema {revision}; this Carrel upgrades "
            f"schemas from {migrations.BASELINE} on). Restore it with version {migrations.BASELINE_VERSION}, then "
            "upgrade."
        )


def refuse_filled_database(owner: URL) -> None:
    with queries.connect(owner) as connection:
        if queries.has_objects(connection):
            raise NotEmptyError("The database is not empty. Restore into an empty database.")


def fill(file: IO[bytes], manifest: Manifest, *, owner: URL, files: FileStore, key_folder: Path | None) -> None:
    """Restore a verified archive into an empty database and file store, and migrate. The secret key goes to
    `key_folder`. The database comes last, in a single transaction. Raises BackupError: do not use the targets."""
    with queries.connect(owner) as connection:
        queries.prepare_empty(connection)
    sink = _Filling(owner, files=files, key_folder=key_folder)
    if read_archive(file, sink) != manifest:
        raise ArchiveError("The archive changed after it was verified. Stop all writes to it and restore again.")
    sink.progress.end()
    with queries.connect(owner) as connection:
        if queries.count_rows(connection) != manifest.rows:
            raise BackupError("The restored database's rows differ from the backup. Use another backup.")
    migrations.upgrade(owner)
    with queries.connect(owner) as connection:
        queries.take_new_store(connection)
        queries.vacuum(connection)


class _Filling(Sink):
    def __init__(self, owner: URL, *, files: FileStore, key_folder: Path | None) -> None:
        super().__init__("Restoring")
        self._owner = owner
        self._files = files
        self._key_folder = key_folder

    def take_file(self, sha256: bytes, pieces: Iterator[bytes]) -> None:
        self._files.write(sha256, self.progress.count(pieces))

    def take_database(self, pieces: Iterator[bytes]) -> None:
        postgres_tools.load(self._owner, self.progress.count(pieces))

    def take_secret_key(self, key: SecretStr) -> None:
        if self._key_folder is not None:
            service.keep_key(self._key_folder, key)
