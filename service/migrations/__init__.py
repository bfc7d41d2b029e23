"""Migrating a database to this version's schema. Migrations run as the database's owner; the service works as
`carrel_service`, which owns no objects. On an external PostgreSQL the address's user must own the database and, once,
have the right to create a role and the extension `vector` (or both exist). The service logs in as the owner too, and
drops to the restricted role on each connection."""

from pathlib import Path
from time import sleep

import psycopg
from psycopg.errors import DeadlockDetected, LockNotAvailable, UnsafeNewEnumValueUsage
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, ProgrammingError
from sqlalchemy.pool import NullPool

from service.platform.deployment_errors import MigrationError
from service.platform.logs import logger
from service.platform.version import VERSION

HEAD = "0091"
# The oldest schema that can be upgraded, and the version that upgrades any schema before.
BASELINE, BASELINE_VERSION = "0090", "0.4.0"
FOLDER = Path(__file__).parent
# One process migrates; replicas that start at the same time wait for it here.
ADVISORY_LOCK = 0x_CA55_E1
# A migration that waits for a table's lock holds up all later statements, so it gives up after this time, and retries.
LOCK_MILLISECONDS = 500
PAUSE_SECONDS = 0.5
# Raised by a server before PostgreSQL 17 or without pgvector 0.7, and for a user without a right.
_UNFIT = psycopg.ProgrammingError | psycopg.NotSupportedError | psycopg.DataError | UnsafeNewEnumValueUsage


def upgrade(url: URL) -> None:
    """Migrate the database at `url` to `HEAD`. Returns quickly if the database is at `HEAD` or newer. Blocks. A newer
    database stays unchanged and is served, as long as the newer migrations only added objects. Each migration is a
    separate transaction: after a kill, the next start repeats only the last. Raises MigrationError if the database is
    older than `BASELINE` or too new for this version, or if its user lacks a privilege."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        while not _is_done(connection):
            if _take_turn(connection):
                _migrate(connection)
            else:
                sleep(PAUSE_SECONDS)


def _is_done(connection: Connection) -> bool:
    """Return whether the schema is `HEAD`, or newer and usable (logged). Raises MigrationError as `upgrade` does."""
    revision = current_revision(connection)
    newer = revision is not None and is_newer(revision)
    if not (newer and _is_usable(connection)):
        refuse_unknown(revision)
    connection.rollback()
    if newer:
        logger.warning("database_is_newer", schema=revision, known=HEAD)
    return newer or revision == HEAD


def _is_usable(connection: Connection) -> bool:
    """Return whether this version can use a newer version's schema. The schema records the oldest usable version."""
    connection.rollback()
    try:
        oldest = connection.execute(text("SELECT usable_from FROM alembic_version")).scalar_one()
    except ProgrammingError:
        return False
    return oldest is not None and not is_newer(oldest)


def _take_turn(connection: Connection) -> bool:
    """Take the migration lock by polling: a concurrent index build waits for statements that wait for the lock."""
    taken = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": ADVISORY_LOCK}).scalar_one()
    connection.commit()
    return bool(taken)


def _migrate(connection: Connection) -> None:
    """Run the missing migrations; after a lock timeout, pause and return: the caller retries the failed migration.
    Raises MigrationError if the server or its user is unfit."""
    connection.execute(text(f"SET lock_timeout = {LOCK_MILLISECONDS}"))
    connection.commit()
    try:
        _run_alembic(connection)
    except DBAPIError as error:
        connection.rollback()
        told = str(error.orig).partition("\n")[0]
        if isinstance(error.orig, LockNotAvailable | DeadlockDetected):
            logger.warning("migration_waits", schema=current_revision(connection), reason=told)
            sleep(PAUSE_SECONDS)
        elif isinstance(error.orig, _UNFIT):
            msg = f"{told}. Carrel needs PostgreSQL 17 or newer, pgvector 0.7, and a user as in docs/operating.md."
            raise MigrationError(msg) from error
        else:
            raise


def current_revision(connection: Connection) -> str | None:
    """Return the revision of the database; None before the first migration."""
    try:
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    except ProgrammingError:
        return None


def is_older(revision: str) -> bool:
    return revision.isdecimal() and revision < BASELINE


def is_newer(revision: str) -> bool:
    return not revision.isdecimal() or revision > HEAD


def refuse_unknown(revision: str | None) -> None:
    """Raise MigrationError for a schema older than `BASELINE` or newer than `HEAD`; None, an empty database, passes."""
    if revision is None:
        return
    if is_older(revision):
        raise MigrationError(
            f"The database is from a Carrel before {BASELINE_VERSION}: its schema is {revision}, and this release "
            f"({VERSION}) upgrades schemas from {BASELINE} on. Start version {BASELINE_VERSION} on it first to upgrade "
            "it, then start this release again. Nothing was changed."
        )
    if is_newer(revision):
        raise MigrationError(
            f"The database is from a newer Carrel: its schema is {revision}, and this release ({VERSION}) knows "
            f"schemas up to {HEAD}. Start the newer release, or restore a backup of this release. Nothing was changed."
        )


def _run_alembic(connection: Connection) -> None:
    # Imported here, because a start on a migrated database doesn't need it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
