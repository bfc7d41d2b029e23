"""SQL of backups: as the database's owner, across all organizations."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, LargeBinary, column, create_engine, delete, func, select, table, text, update
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from service.operate.backup.archive import BackupError
from service.platform.database import BACKUP_SETTING, FILES_LOCK, SERVICE_ROLE
from service.schema.catalog import document_versions, unused_files
from service.schema.tables import deployment

_FETCHED_AT_ONCE = 1000
_OPTIONS = f"-c {BACKUP_SETTING}=on -c TimeZone=UTC -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"

# Tables in the schema of the service's tables, without tables of extensions.
_TABLES = """
    SELECT c.relname FROM pg_class c
    WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    ORDER BY 1
"""
_OBJECTS = """
    SELECT EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND n.nspname NOT LIKE 'pg\\_%'
          AND n.nspname <> 'information_schema'
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    )
"""
_READS_ALL_ROWS = """
    SELECT pg_has_role(current_user, 'pg_database_owner', 'USAGE') OR rolsuper OR rolbypassrls
    FROM pg_roles WHERE rolname = current_user
"""
_HIDDEN = """
    SELECT relname FROM pg_class
    WHERE relrowsecurity AND relnamespace = current_schema()::regnamespace AND NOT EXISTS (
        SELECT FROM pg_policy WHERE polrelid = pg_class.oid AND polname = 'backup')
    ORDER BY 1
"""


@contextmanager
def connect(url: URL) -> Generator[Connection]:
    """Connect as the owner, in autocommit mode, with access to all rows."""
    with _engine(url).connect() as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")


@dataclass(frozen=True)
class Snapshot:
    """The database at a moment, readable while the snapshot is open."""

    connection: Connection
    name: str

    def files(self) -> Iterator[tuple[bytes, int]]:
        """Yield the SHA-256 and size of every version's file, without duplicates, in order, streamed."""
        statement = (
            select(document_versions.c.file_sha256, func.max(document_versions.c.file_size))
            .group_by(document_versions.c.file_sha256)
            .order_by(document_versions.c.file_sha256)
            .execution_options(stream_results=True, yield_per=_FETCHED_AT_ONCE)
        )
        for sha256, size in self.connection.execute(statement):
            yield bytes(sha256), size

    def file_totals(self) -> tuple[int, int]:
        largest = func.max(document_versions.c.file_size).label("size")
        each = select(largest).group_by(document_versions.c.file_sha256).subquery()
        count, size = self.connection.execute(select(func.count(), func.coalesce(func.sum(each.c.size), 0))).one()
        return int(count), int(size)

    def documents_of(self, sha256: bytes) -> list[str]:
        holding = select(document_versions.c.document_id).where(document_versions.c.file_sha256 == sha256)
        statement = holding.distinct().order_by(document_versions.c.document_id)
        return [str(document_id) for document_id in self.connection.execute(statement).scalars()]


@contextmanager
def open_snapshot(url: URL) -> Generator[Snapshot]:
    """Open a snapshot. Until its end its files are not collected, and the tables are locked against migrations."""
    with _engine(url).connect() as plain:
        names = table_names(plain)
        # Locked before the snapshot, so that no file of the snapshot is removed until the connection closes.
        plain.execute(text("SELECT pg_advisory_lock_shared(:key)"), {"key": FILES_LOCK})
        plain.rollback()
        connection = plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        if names:
            quoted = ", ".join(connection.dialect.identifier_preparer.quote(name) for name in names)
            connection.execute(text(f"LOCK TABLE {quoted} IN ACCESS SHARE MODE"))
        name = connection.execute(text("SELECT pg_export_snapshot()")).scalar_one()
        yield Snapshot(connection, name)


def table_names(connection: Connection) -> list[str]:
    return list(connection.execute(text(_TABLES)).scalars())


def count_rows(connection: Connection) -> dict[str, int]:
    counts = {name: select(func.count()).select_from(table(name)) for name in table_names(connection)}
    return {name: connection.execute(count).scalar_one() for name, count in counts.items()}


def read_key_fingerprint(connection: Connection) -> bytes | None:
    """Return the secret key's fingerprint; None if the database has no fingerprint, or no table for it yet."""
    if deployment.name not in table_names(connection):
        return None
    statement = select(column("key_fingerprint", LargeBinary)).select_from(table(deployment.name))
    return connection.execute(statement).scalar_one_or_none()


def server_version(connection: Connection) -> int:
    return int(connection.execute(text("SHOW server_version_num")).scalar_one())


def list_hidden_tables(connection: Connection) -> list[str]:
    """Return tables with rows that may be hidden from the connection's user, and so missing from a backup."""
    bypasses = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    if connection.execute(text(bypasses)).scalar_one():
        return []
    if not connection.execute(text(_READS_ALL_ROWS)).scalar_one():
        return table_names(connection)
    return list(connection.execute(text(_HIDDEN)).scalars())


def refuse_hidden(connection: Connection) -> None:
    if hidden := list_hidden_tables(connection):
        raise BackupError(
            f"The user of CARREL_DATABASE_URL can't read all rows of {', '.join(hidden[:3])}. Use the database's owner "
            "or a user with BYPASSRLS. After an upgrade, start this Carrel once on the database first."
        )


def has_objects(connection: Connection) -> bool:
    """Return whether the database has a table, view or sequence, apart from extensions'."""
    return bool(connection.execute(text(_OBJECTS)).scalar_one())


def prepare_empty(connection: Connection) -> None:
    """Create the service's role if missing, and let the user become it: dumps contain no roles of the cluster."""
    if not connection.execute(text("SELECT FROM pg_roles WHERE rolname = :role"), {"role": SERVICE_ROLE}).rowcount:
        connection.execute(text(f"CREATE ROLE {SERVICE_ROLE} NOLOGIN NOSUPERUSER NOBYPASSRLS"))
    may_become = text("SELECT pg_has_role(current_user, :role, 'SET')")
    if not connection.execute(may_become, {"role": SERVICE_ROLE}).scalar_one():
        connection.execute(text(f"GRANT {SERVICE_ROLE} TO CURRENT_USER"))


def take_new_store(connection: Connection) -> None:
    """Give a restored database its own store id, because the original deployment may still use its file store, and
    forget which files were unused."""
    connection.execute(
        update(deployment).values(store_id=func.gen_random_uuid(), files_listed_at=text("'-infinity'::timestamptz"))
    )
    connection.execute(delete(unused_files))


def vacuum(connection: Connection) -> None:
    """Update the planner's statistics and visibility maps, so that the first searches are as fast as later searches."""
    connection.execute(text("VACUUM (ANALYZE)"))


def _engine(url: URL) -> Engine:
    return create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args={"options": _OPTIONS})
