"""Bringing a database to the schema of this version of the service.

Migrations run as the database's owner; the service itself connects as `carrel_service`, which owns nothing. On an
outside PostgreSQL the address's user is that owner: it needs to own the database and, once, the right to make a role
and the extension `vector` (or both made beforehand). The service logs in as the same user and gives up everything but
the restricted role on each connection (`role=carrel_service`).
"""

from pathlib import Path

from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.pool import NullPool

from service.platform.deployment_errors import MigrationError
from service.platform.version import VERSION

HEAD = "0038"
FOLDER = Path(__file__).parent
# One process migrates; replicas that start at the same time wait for it here.
ADVISORY_LOCK = 0x_CA55_E1


def upgrade(url: URL) -> None:
    """Migrate the database at `url` to `HEAD`; does nothing, quickly, when it is there. Blocks.

    Raises MigrationError when the database is of a newer version, or its user may not do what a migration needs.
    """
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        revision = current_revision(connection)
        if revision == HEAD:
            return
        refuse_newer(revision)
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": ADVISORY_LOCK})
        connection.commit()
        # A newer release may have migrated the database while this one waited for it.
        refuse_newer(current_revision(connection))
        connection.rollback()
        try:
            _run(connection)
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


def is_known(revision: str) -> bool:
    """Tell whether this version of the service has the migrations that lead to a revision, and from it to `HEAD`."""
    return revision.isdecimal() and any((FOLDER / "versions").glob(f"{revision}_*.py"))


def refuse_newer(revision: str | None) -> None:
    """Raise MigrationError when a database has a revision that only a newer Carrel knows."""
    if revision is not None and not is_known(revision):
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
