"""Bringing a database to the schema of this version of the service.

Migrations run as the database's owner; the service itself connects as `carrel_service`, which owns nothing. On an
outside PostgreSQL the address's user is that owner: it needs to own the database and, once, the right to make a role
and the extension `vector` (or both made beforehand). The service logs in as the same user and gives up everything but
the restricted role on each connection (`role=carrel_service`)."""

from pathlib import Path
from time import sleep

from psycopg.errors import DeadlockDetected, InsufficientPrivilege, LockNotAvailable
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.pool import NullPool

from service.platform.deployment_errors import MigrationError
from service.platform.logs import logger
from service.platform.version import VERSION

HEAD = "0084"
# The oldest schema that is upgraded, and the version that makes it from any schema before.
BASELINE, BASELINE_VERSION = "0079", "0.3.0"
FOLDER = Path(__file__).parent
# One process migrates; replicas that start at the same time wait for it here.
ADVISORY_LOCK = 0x_CA55_E1
# Who waits for a table's lock holds up all who come later: so a migration gives up after so long, and tries again.
LOCK_MILLISECONDS = 500
PAUSE_SECONDS = 0.5


def upgrade(url: URL) -> None:
    """Migrate the database at `url` to `HEAD`; does nothing, quickly, when it is there or further. Blocks.

    A database that a newer release has migrated stays as it is, and is served, as long as everything since `HEAD` was
    only added. Each migration is a transaction of its own: after a kill, the next start repeats the last one alone.

    Raises MigrationError when the database is older than `BASELINE`, or a newer version has made something that this
    version can't use, or the database's user may not do something that a migration needs."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        while not _is_done(connection):
            if _take_turn(connection):
                _migrate(connection)
            else:
                sleep(PAUSE_SECONDS)


def _is_done(connection: Connection) -> bool:
    revision = current_revision(connection)
    newer = revision is not None and is_newer(revision)
    if not (newer and _is_usable(connection)):
        refuse_unknown(revision)
    connection.rollback()
    if newer:
        logger.warning("database_is_newer", schema=revision, known=HEAD)
    return newer or revision == HEAD


def _is_usable(connection: Connection) -> bool:
    """Tell whether code of this version can use a newer version's schema, which keeps from which one on that can be."""
    connection.rollback()
    try:
        oldest = connection.execute(text("SELECT usable_from FROM alembic_version")).scalar_one()
    except ProgrammingError:
        return False
    return oldest is not None and not is_newer(oldest)


def _take_turn(connection: Connection) -> bool:
    """Take the lock under which one process migrates, until the connection is closed; False while another one has it.

    Nobody waits for it in the database: an index that is built without holding up writers waits for all who are in a
    statement there, and so for them."""
    taken = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": ADVISORY_LOCK}).scalar_one()
    connection.commit()
    return bool(taken)


def _migrate(connection: Connection) -> None:
    """Run what is missing, from the migration on that could not have its locks when that was tried before."""
    connection.execute(text(f"SET lock_timeout = {LOCK_MILLISECONDS}"))
    connection.commit()
    try:
        _run(connection)
    except OperationalError as error:
        connection.rollback()
        if not isinstance(error.orig, LockNotAvailable | DeadlockDetected):
            raise
        logger.warning("migration_waits", schema=current_revision(connection), reason=str(error.orig).strip())
        sleep(PAUSE_SECONDS)
    except ProgrammingError as error:
        if not isinstance(error.orig, InsufficientPrivilege):
            raise
        told = error.orig.diag.message_primary
        msg = f"The database's user may not do what is needed ({told}). docs/operating.md says what to prepare."
        raise MigrationError(msg) from error


def current_revision(connection: Connection) -> str | None:
    """Return the revision of the database; None when it has never been migrated."""
    try:
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    except ProgrammingError:
        return None


def is_older(revision: str) -> bool:
    """Tell whether a revision is older than `BASELINE`, so that this version has no migrations from it."""
    return revision.isdecimal() and revision < BASELINE


def is_newer(revision: str) -> bool:
    """Tell whether only a newer version of the service knows a revision."""
    return not revision.isdecimal() or revision > HEAD


def refuse_unknown(revision: str | None) -> None:
    """Raise MigrationError when this version of the service has no migrations from a database's revision to `HEAD`."""
    if revision is None:
        return
    if is_older(revision):
        raise MigrationError(
            f"The database is of a Carrel before {BASELINE_VERSION}: its schema is {revision}, and this release"
            f" ({VERSION}) upgrades schemas from {BASELINE} on. Start version {BASELINE_VERSION} on it first, which"
            " upgrades it, and then this release again. Nothing was changed."
        )
    if is_newer(revision):
        raise MigrationError(
            f"The database is a newer Carrel's: its schema is {revision}, and this release ({VERSION}) knows schemas up"
            f" to {HEAD}. Start the newer release again, or restore a backup of this one. Nothing was changed."
        )


def _run(connection: Connection) -> None:
    # Imported here, because a start on a migrated database doesn't need it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
