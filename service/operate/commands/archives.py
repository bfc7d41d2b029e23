"""`backup`, `restore` and `verify`; for a standby, `follow` and `promote`."""

import shutil
import signal
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Annotated

import typer
from obstore.exceptions import BaseError

from service.operate.archiving import restoring
from service.operate.archiving.archive import Archive, format_moment, is_address
from service.operate.archiving.bases import remove_old, take_base
from service.operate.backup import queries
from service.operate.backup.archive import ArchiveError, Manifest, NotEmptyError
from service.operate.backup.checking import check_files
from service.operate.backup.taking import fill, refuse_filled_database, take_backup
from service.operate.backup.taking import verify as verify_archive
from service.operate.commands.context import (
    CommandError,
    format_count,
    format_counts,
    format_size,
    open_access,
    refuse_strangers,
    settings_of,
)
from service.operate.deployment import service
from service.platform import logs
from service.platform.database import driver_url
from service.platform.files import FileStore, open_files
from service.platform.postgres.host import DatabaseServerError
from service.platform.postgres.recovery import RecoveringPostgres
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres, FolderLock, remove_cluster
from service.platform.postgres.standby import EmbeddedStandby
from service.platform.settings import Settings

BackupFile = Annotated[Path | None, typer.Argument(metavar="[FILE]", show_default=False)]
Source = Annotated[str, typer.Argument(metavar="FILE|ARCHIVE", show_default=False)]
Followed = Annotated[str, typer.Argument(metavar="ARCHIVE", show_default=False)]
Incremental = Annotated[
    bool, typer.Option("--incremental", help="Write the changes since the last backup to CARREL_ARCHIVE_URL.")
]
KeepDays = Annotated[
    int | None, typer.Option("--keep-days", min=1, help="Remove data that no restore to these last days needs.")
]
Moment = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="The moment, such as 2026-11-26T06:00:00Z; default: the newest."),
]


def backup(
    context: typer.Context, path: BackupFile = None, *, incremental: Incremental = False, keep_days: KeepDays = None
) -> None:
    """Back up a single moment to FILE, or with --incremental to the archive. The service may be running."""
    settings = settings_of(context)
    if incremental:
        if path is not None:
            raise typer.BadParameter("Leave out FILE with --incremental: the backup goes to CARREL_ARCHIVE_URL.")
        _back_up_to_archive(settings, keep_days)
        return
    if path is None or keep_days is not None:
        raise typer.BadParameter("Give a FILE, or use --incremental, which also allows --keep-days.")
    with open_access(settings) as access:
        manifest = take_backup(
            path,
            owner=access.owner,
            files=open_files(settings),
            data_dir=settings.data_dir,
            secret_key=settings.secret_key,
        )
    typer.echo(
        f"{path}: {_describe(manifest.rows, manifest.contents.files)}, {format_size(path.stat().st_size)}.", err=True
    )
    if manifest.contents.secret_key_sha256 is None and manifest.key_fingerprint is not None:
        typer.echo("The backup does not hold the secret key: keep CARREL_SECRET_KEY too.", err=True)


def restore(context: typer.Context, source: Source, *, to: Moment = None) -> None:
    """Restore a backup, or a moment from an archive, into an empty data folder and an empty database."""
    restored = _restore(settings_of(context), source, to)
    if restored is not None and restored.moment is None:
        raise CommandError(
            "The archive's log has a gap, so later changes were not restored. Use the restored state, or empty the "
            "folder and restore from elsewhere."
        )


def verify(context: typer.Context, source: Source, *, to: Moment = None) -> None:
    """Restore a backup or moment to a temporary folder and compare every file's checksum. Exit code 1 on failure."""
    with TemporaryDirectory(prefix="carrel-verify-") as folder:
        elsewhere = {"data_dir": Path(folder) / "data", "database_url": None, "files_url": None, "archive_url": None}
        settings = settings_of(context).model_copy(update=elsewhere)
        restored = _restore(settings, source, to)
        with open_access(settings) as access, queries.open_snapshot(access.owner) as snapshot:
            checked = check_files(snapshot, open_files(settings), contents=True)
    faulty = [f"{file.sha256.hex()} of {', '.join(file.documents)}" for file in checked.faulty]
    if faulty:
        raise CommandError(
            f"The backup lacks {format_count(len(faulty), 'file')}, or has them altered: {'; '.join(faulty)}."
        )
    if restored is not None and restored.moment is None:
        raise CommandError("The archive's log has a gap, so later changes can't be restored. Take a backup now.")
    typer.echo(f"Verified: {format_count(checked.files, 'file')}, {format_size(checked.bytes)}.", err=True)


def follow(context: typer.Context, source: Followed) -> None:
    """Create a standby of the archived deployment, and keep the standby up to date until its promotion."""
    settings = settings_of(context)
    _refuse_outside_database(settings)
    archive = Archive.find(source)
    if service.read_standby(settings.data_dir) is None or service.is_marked(settings.data_dir):
        _refuse_filled_folder(settings)
        plan = restoring.plan_restore(archive, None)
        with _mark_folder(settings):
            restoring.make_standby(archive, plan, EmbeddedStandby(settings.data_dir))
            service.set_standby(settings.data_dir, source)
    logs.configure(settings.log_level)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    with _open_standby(settings, FolderLock(settings.data_dir)) as server:
        typer.echo(f"Following {source}. To promote: python -m service promote", err=True)
        restoring.Follower(archive, server, open_files(settings)).follow(
            lambda: service.is_promotion_asked(settings.data_dir)
        )
        _promote(settings, server)


def promote(context: typer.Context) -> None:
    """Make the standby in the data folder an independent deployment, with all data in the archive."""
    settings = settings_of(context)
    if service.read_standby(settings.data_dir) is None:
        raise CommandError(f"There is no standby in {settings.data_dir}. Set CARREL_DATA_DIR to its folder.")
    service.ask_promotion(settings.data_dir)
    while service.read_standby(settings.data_dir) is not None:
        try:
            lock = FolderLock(settings.data_dir)
        except DatabaseServerError:  # the process that follows has the folder, and will promote it
            time.sleep(0.2)
            continue
        with _open_standby(settings, lock) as server:
            if service.read_standby(settings.data_dir) is not None:
                _promote(settings, server)
    typer.echo("Promoted. Set CARREL_ARCHIVE_URL to a new place, then start the service.", err=True)


@contextmanager
def _open_standby(settings: Settings, lock: FolderLock) -> Generator[EmbeddedStandby]:
    with ExitStack() as stack:
        stack.callback(lock.release)
        server = EmbeddedStandby(settings.data_dir)
        stack.callback(server.stop)
        yield server


def _promote(settings: Settings, server: EmbeddedStandby) -> None:
    """Promote the standby, without the archive if it can't be read, and remove the standby's mark."""
    source = service.read_standby(settings.data_dir)
    assert source is not None  # noqa: S101 - looked at by its callers
    try:
        archive = Archive.find(source)
        archive.position()
    except (ArchiveError, BaseError) as error:
        typer.echo(f"The archive can't be read, so the standby has only the state copied before: {error}", err=True)
        archive = None
    key_folder = settings.data_dir if settings.secret_key is None else None
    restored = restoring.promote_standby(archive, server, files=open_files(settings), key_folder=key_folder)
    service.remove_standby(settings.data_dir)
    _show_restored(restored)


def _refuse_outside_database(settings: Settings) -> None:
    if settings.database_url is not None:
        raise CommandError("An archive is restored to an embedded database. Unset CARREL_DATABASE_URL.")


def _restore(settings: Settings, source: str, to: str | None) -> restoring.Restored | None:
    """Restore an archive's moment, and return the result; or restore a backup file, and return None."""
    if is_address(source) or Path(source).is_dir():
        restored = _restore_moment(settings, source, None if to is None else _parse_moment(to))
        _show_restored(restored)
        return restored
    if to is not None:
        raise typer.BadParameter(
            "A backup FILE holds only one moment. To use --to, give the archive's folder or address."
        )
    with Path(source).open("rb") as file:
        _refuse_filled_folder(settings)
        manifest = verify_archive(file)
        file.seek(0)
        with _mark_folder(settings) as files:
            _fill_from_file(file, manifest, settings, files)
    typer.echo(f"Restored: {_describe(manifest.rows, manifest.contents.files)}.", err=True)
    if manifest.contents.secret_key_sha256 is None and manifest.key_fingerprint is not None:
        typer.echo("Start the service with the CARREL_SECRET_KEY from the time of this backup.", err=True)
    return None


def _back_up_to_archive(settings: Settings, keep_days: int | None) -> None:
    if settings.archive_url is None:
        raise CommandError("Set CARREL_ARCHIVE_URL to the place of the service's archive. --incremental needs it.")
    with open_access(settings):
        archive = Archive.create(settings.archive_url)
        server = EmbeddedPostgres(settings.data_dir, is_archived=True)
        base = take_base(settings, server, archive, say=partial(typer.echo, err=True))
    kind = "full backup" if base.parent is None else f"incremental backup upon {base.parent}"
    typer.echo(f"{base.name}: {kind}, {format_count(base.files, 'file')}, {format_size(base.size)}.", err=True)
    if keep_days is not None:
        gone = remove_old(archive, keep=timedelta(days=keep_days))
        counts = {"backup": gone.bases, "log segment": gone.segments, "file": gone.files}
        typer.echo(f"Removed from the archive: {format_counts(counts)}.", err=True)


def _restore_moment(settings: Settings, source: str, to: datetime | None) -> restoring.Restored:
    _refuse_outside_database(settings)
    _refuse_filled_folder(settings)
    archive = Archive.find(source)
    plan = restoring.plan_restore(archive, to)
    with _mark_folder(settings) as files:
        server = RecoveringPostgres(settings.data_dir)
        key_folder = settings.data_dir if settings.secret_key is None else None
        try:
            return restoring.restore_moment(archive, plan, server, files=files, key_folder=key_folder)
        finally:
            server.stop()


def _show_restored(restored: restoring.Restored) -> None:
    at = "of the last moment before a gap in the log"
    if restored.moment is not None:
        at = f"as of {format_moment(restored.moment, timespec='milliseconds')}"
    typer.echo(f"Restored: {_describe(restored.rows, restored.files)}, {at}.", err=True)
    if restored.faulty:
        lacking = format_count(len(restored.faulty), "file")
        typer.echo(f"The archive lacks {lacking}: `python -m service files check` names the documents.", err=True)
    if not restored.has_key:
        typer.echo("Start the service with the CARREL_SECRET_KEY from that moment.", err=True)


def _parse_moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise CommandError(f"{text!r} is not a moment. Use a format such as 2026-11-26T06:00:00Z.") from exc
    if moment.tzinfo is None:
        raise CommandError(f"{text!r} has no time zone. Write {text}Z for UTC, or {text}+01:00.")
    return moment


def _describe(rows: Mapping[str, int], files: int) -> str:
    return format_counts({"document": rows["documents"], "file": files, "organization": rows["organizations"]})


@contextmanager
def _mark_folder(settings: Settings) -> Generator[FileStore]:
    """Lock the empty data folder and mark it unusable until the end. An error empties it; a kill leaves the mark."""
    settings.data_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
    lock = FolderLock(settings.data_dir)
    try:
        _refuse_filled_folder(settings)
        if service.is_marked(settings.data_dir):
            _remove_data(settings)
        service.set_mark(settings.data_dir)
        try:
            yield open_files(settings)
        except BaseException:
            _remove_data(settings)
            service.remove_mark(settings.data_dir)
            raise
        service.remove_mark(settings.data_dir)
    finally:
        lock.release()


def _fill_from_file(file: IO[bytes], manifest: Manifest, settings: Settings, files: FileStore) -> None:
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
    """Raise NotEmptyError for a deployment's store and, unless a restore was interrupted, its files in the folder."""
    if settings.files_url is not None and open_files(settings).has_owner():
        raise NotEmptyError(
            "The store at CARREL_FILES_URL belongs to a deployment. Set CARREL_FILES_URL to an unused store. If that "
            "deployment is gone for good, delete the object `deployment` there."
        )
    if service.is_marked(settings.data_dir):
        refuse_strangers(settings.data_dir / "postgres")
        return
    places = [settings.data_dir / "postgres", settings.data_dir / service.KEY_FILE]
    found = [place for place in places if place.exists()]
    if settings.files_url is None and settings.files_dir.exists() and any(settings.files_dir.iterdir()):
        found.append(settings.files_dir)
    if found:
        raise NotEmptyError(
            f"The restore needs an empty folder, but there is already {', '.join(map(str, found))}. Set "
            "CARREL_DATA_DIR to another folder, or move these files away."
        )


def _remove_data(settings: Settings) -> None:
    """Remove the database and the standby, and the files and the secret key if they are in the data folder."""
    service.remove_standby(settings.data_dir)
    remove_cluster(settings.data_dir)
    if settings.files_url is None:
        shutil.rmtree(settings.files_dir, ignore_errors=True)
    if settings.secret_key is None:
        (settings.data_dir / service.KEY_FILE).unlink(missing_ok=True)
