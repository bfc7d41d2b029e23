"""Restoring a backup. The archive is read twice: once to verify it, once to restore it."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pydantic import SecretStr
from sqlalchemy.engine import URL

from service import migrations
from service.operate.backup import postgres_tools, queries
from service.operate.backup.archive import Sink, read_archive
from service.operate.backup.errors import ArchiveError, BackupError, NotEmptyError
from service.operate.backup.manifest import Manifest
from service.operate.deployment import key_files
from service.operate.deployment.service import matches
from service.platform.files import FileStore


def verify(file: IO[bytes]) -> Manifest:
    """Read an archive to its end and return its manifest; store nothing. Raises ArchiveError if it is unusable."""
    sink = Sink("Verifying")
    manifest = read_archive(file, sink)
    sink.progress.end()
    refuse_unknown_schema(manifest.schema_revision)
    fingerprint = None if manifest.key_fingerprint is None else bytes.fromhex(manifest.key_fingerprint)
    if sink.key is not None and fingerprint is not None and not matches(sink.key, fingerprint):
        raise ArchiveError("The secret key in this archive isn't that of its database. Use another backup.")
    return manifest


def refuse_unknown_schema(revision: str) -> None:
    """Raise ArchiveError when this Carrel can't bring a backup's schema to its own."""
    if migrations.is_newer(revision):
        raise ArchiveError(
            f"This backup was taken by a newer Carrel (schema {revision}; this one knows schemas up to"
            f" {migrations.HEAD}). Restore it with that one."
        )
    if migrations.is_older(revision):
        raise ArchiveError(
            f"This backup was taken by a Carrel before {migrations.BASELINE_VERSION} (schema {revision}; this one"
            f" upgrades schemas from {migrations.BASELINE} on). Restore it with version {migrations.BASELINE_VERSION},"
            " then upgrade to this one."
        )


def refuse_filled_database(owner: URL) -> None:
    """Raise NotEmptyError unless the database is empty."""
    with queries.connect(owner) as connection:
        if queries.has_anything(connection):
            raise NotEmptyError("The database has something in it. Restore into an empty one.")


def fill(file: IO[bytes], manifest: Manifest, *, owner: URL, files: FileStore, key_folder: Path | None) -> None:
    """Restore a verified archive into an empty database and file store, and migrate. The secret key goes to
    `key_folder`, if given. The database comes last, in a single transaction. Raises BackupError: do not use the
    targets."""
    with queries.connect(owner) as connection:
        queries.prepare_empty(connection)
    sink = _Filling(owner, files=files, key_folder=key_folder)
    if read_archive(file, sink) != manifest:
        raise ArchiveError("The archive has changed since it was verified. Nobody may write to it during a restore.")
    sink.progress.end()
    with queries.connect(owner) as connection:
        if queries.count_rows(connection) != manifest.rows:
            raise BackupError("The restored database has not the rows that the backup counted. Use another backup.")
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
        self._files.write(sha256, self.count(pieces))

    def take_database(self, pieces: Iterator[bytes]) -> None:
        postgres_tools.load(self._owner, self.count(pieces))

    def take_secret_key(self, key: SecretStr) -> None:
        if self._key_folder is not None:
            key_files.keep_key(self._key_folder, key)
