"""Parts of every command: group, settings, input and output, and the error. Only the error's message is printed."""

import getpass
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import typer
from pydantic import SecretStr
from sqlalchemy.engine import URL

from service import migrations
from service.identity.passwords import accept_password
from service.operate.backup import queries
from service.operate.deployment.service import refuse_marked
from service.platform.database import Database, driver_url
from service.platform.postgres.host import DatabaseServerError, server_account
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres, FolderLock
from service.platform.settings import Settings


class CommandError(Exception):
    """The command can't run; the message gives a remedy."""


def settings_of(context: typer.Context) -> Settings:
    return cast("Settings", context.obj)


def new_group(about: str) -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, help=about)
    group.callback(help=about)(lambda: None)
    return group


def format_count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(format_count(count, what) for what, count in counts.items())


def format_size(count: int) -> str:
    return f"{count / 1e3:,.0f} kB" if count < 1e6 else f"{count / 1e6:,.1f} MB"


def ask_password() -> SecretStr:
    """Ask for a password twice on a terminal, else read a line of standard input. Raises CommandError if the passwords
    differ or aren't accepted."""
    if sys.stdin.isatty():
        first, second = getpass.getpass("Password: "), getpass.getpass("Repeat the password: ")
        if first != second:
            raise CommandError("The passwords don't match. Nothing was changed.")
    else:
        first = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    try:
        return accept_password(first)
    except ValueError as error:
        raise CommandError(f"{error} Nothing was changed.") from error


@dataclass(frozen=True)
class Access:
    """A connectable database: the addresses as owner and as service, and whether no service is running."""

    owner: URL
    service: URL
    is_alone: bool


@contextmanager
def open_access(settings: Settings, *, alone: bool = False, new: bool = False) -> Generator[Access]:
    """Open the deployment's database; an embedded server started here is stopped at the end. `alone` refuses a running
    service (DatabaseServerError, also if PostgreSQL doesn't start). A missing database is created if `new`, else
    CommandError. Raises UnfinishedRestoreError for a standby or a half-restored backup."""
    refuse_marked(settings.data_dir)
    if settings.database_url is not None:
        url = driver_url(settings.database_url.get_secret_value())
        yield Access(owner=url, service=url, is_alone=False)
        return
    if not new and not (settings.data_dir / "postgres").exists():
        raise CommandError(
            f"{settings.data_dir} has no Carrel database. Set CARREL_DATA_DIR to its folder, or give the command all "
            "settings of the service. `make up` keeps them in .env: set -a; . ./.env; set +a"
        )
    if new and not (settings.data_dir / "postgres").exists():
        sys.stderr.write(f"Creating a database in {settings.data_dir} (CARREL_DATA_DIR names another folder).\n")
    settings.data_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
    lock = _lock_folder(settings, alone=alone)
    refuse_strangers(settings.data_dir / "postgres")
    server = EmbeddedPostgres(settings.data_dir, is_archived=settings.archive_url is not None)
    with ExitStack() as stack:
        if lock is None:
            server.wait_for_start()
        else:
            stack.callback(lock.release)
            stack.callback(server.stop)
            server.start()
        yield Access(owner=server.url(user=SUPERUSER), service=server.url(), is_alone=lock is not None)


@asynccontextmanager
async def open_database(settings: Settings, *, new: bool = False) -> AsyncGenerator[Database]:
    """Open the database as the service's role. An empty database, or one without a running service, is migrated; with
    `new`, a missing database is created. Raises CommandError for another schema, and as `open_access`."""
    with open_access(settings, new=new) as access:
        with queries.connect(access.owner) as connection:
            is_empty = not queries.has_objects(connection)
        if is_empty or access.is_alone:
            migrations.upgrade(access.owner)
        check_schema(access)
        database = Database(access.service, pool_size=2, statement_seconds=settings.request_seconds)
        try:
            yield database
        finally:
            await database.close()


def check_schema(access: Access) -> None:
    """Raise CommandError unless the database has this version's schema; MigrationError if migration is impossible."""
    with queries.connect(access.owner) as connection:
        revision = migrations.current_revision(connection)
    migrations.refuse_unknown(revision)
    if revision != migrations.HEAD:
        raise CommandError(
            f"The database's schema is {revision or 'empty'}, but this Carrel needs {migrations.HEAD}. Start the "
            "service of this version to migrate the database, then run the command again."
        )


def refuse_strangers(cluster: Path) -> None:
    """Raise CommandError unless the cluster belongs to the user for PostgreSQL (`server_account`)."""
    account = server_account()
    if cluster.exists() and cluster.stat().st_uid != account.pw_uid:
        raise CommandError(f"{cluster} is not {account.pw_name}'s. Run the command as the service's user.")


def _lock_folder(settings: Settings, *, alone: bool) -> FolderLock | None:
    try:
        return FolderLock(settings.data_dir)
    except DatabaseServerError:
        if alone:
            raise
        return None
    except PermissionError as exc:
        message = f"{settings.data_dir} belongs to another user. Run the command as the user that runs the service."
        raise CommandError(message) from exc
