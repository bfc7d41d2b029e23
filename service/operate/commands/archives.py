"""`backup FILE` and `restore FILE`."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from service.operate.backup.errors import NotEmptyError
from service.operate.backup.manifest import Manifest
from service.operate.backup.restoring import fill, refuse_filled_database, verify
from service.operate.backup.taking import take_backup
from service.operate.commands.access import open_access, refuse_strangers
from service.operate.commands.context import settings_of
from service.operate.commands.formatting import format_count, format_size
from service.operate.deployment import key_files, restore_mark
from service.platform.database import driver_url
from service.platform.files import FileStore, open_files
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres, FolderLock, remove_cluster
from service.platform.settings import Settings

ArchivePath = Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]


def backup(context: typer.Context, path: ArchivePath) -> None:
    """Write database and files to FILE, of one moment, while the service runs."""
    settings = settings_of(context)
    with open_access(settings) as access:
        manifest = take_backup(
            path,
            owner=access.owner,
            files=open_files(settings),
            data_dir=settings.data_dir,
            secret_key=settings.secret_key,
        )
    typer.echo(f"{path}: {_describe(manifest)}, {format_size(path.stat().st_size)}.", err=True)
    if manifest.contents.secret_key_sha256 is None and manifest.key_fingerprint is not None:
        typer.echo("The secret key is not in it, because CARREL_SECRET_KEY gives it: keep that too.", err=True)


def restore(context: typer.Context, path: ArchivePath) -> None:
    """Restore a backup into an empty data folder and an empty database."""
    settings = settings_of(context)
    with path.open("rb") as file:
        _refuse_filled_folder(settings)
        manifest = verify(file)
        file.seek(0)
        with _mark_folder(settings) as files:
            _fill(file, manifest, settings, files)
    typer.echo(f"Restored: {_describe(manifest)}.", err=True)
    if manifest.contents.secret_key_sha256 is None and manifest.key_fingerprint is not None:
        typer.echo("Start the service with the CARREL_SECRET_KEY it had when this backup was taken.", err=True)


def _describe(manifest: Manifest) -> str:
    parts = {
        "document": manifest.rows["documents"],
        "file": manifest.contents.files,
        "organization": manifest.rows["organizations"],
    }
    return ", ".join(format_count(count, what) for what, count in parts.items())


@contextmanager
def _mark_folder(settings: Settings) -> Generator[FileStore]:
    """Lock the empty data folder, and mark it as unusable until the block ends without an error.

    After an error the folder is emptied again; a killed process leaves the mark.
    """
    settings.data_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
    lock = FolderLock(settings.data_dir)
    try:
        _refuse_filled_folder(settings)
        if restore_mark.is_marked(settings.data_dir):
            _empty(settings)
        restore_mark.set_mark(settings.data_dir)
        try:
            yield open_files(settings)
        except BaseException:
            _empty(settings)
            restore_mark.remove_mark(settings.data_dir)
            raise
        restore_mark.remove_mark(settings.data_dir)
    finally:
        lock.release()


def _fill(file: IO[bytes], manifest: Manifest, settings: Settings, files: FileStore) -> None:
    key_folder = settings.data_dir if settings.secret_key is None else None
    if settings.database_url is not None:
        owner = driver_url(settings.database_url.get_secret_value())
        refuse_filled_database(owner)
        fill(file, manifest, owner=owner, files=files, key_folder=key_folder)
        return
    server = EmbeddedPostgres(settings.data_dir)
    try:
        server.start()
        fill(file, manifest, owner=server.url(user=SUPERUSER), files=files, key_folder=key_folder)
    finally:
        server.stop()


def _refuse_filled_folder(settings: Settings) -> None:
    """Raise NotEmptyError when a deployment's files are in the data folder, except after an interrupted restore."""
    if settings.files_url is not None and open_files(settings).has_owner():
        raise NotEmptyError(
            "The store of CARREL_FILES_URL is a deployment's. Set CARREL_FILES_URL to a store of its own; if that"
            " deployment is gone for good, delete the object `deployment` there."
        )
    if restore_mark.is_marked(settings.data_dir):
        refuse_strangers(settings.data_dir / "postgres")
        return
    places = [settings.data_dir / "postgres", settings.data_dir / key_files.KEY_FILE]
    found = [place for place in places if place.exists()]
    if settings.files_url is None and settings.files_dir.exists() and any(settings.files_dir.iterdir()):
        found.append(settings.files_dir)
    if found:
        raise NotEmptyError(
            f"There is something already: {', '.join(map(str, found))}. Restore into an empty folder: set"
            " CARREL_DATA_DIR to another, or move these away."
        )


def _empty(settings: Settings) -> None:
    """Delete what a restore has written."""
    remove_cluster(settings.data_dir)
    if settings.files_url is None:
        shutil.rmtree(settings.files_dir, ignore_errors=True)
    if settings.secret_key is None:
        (settings.data_dir / key_files.KEY_FILE).unlink(missing_ok=True)
