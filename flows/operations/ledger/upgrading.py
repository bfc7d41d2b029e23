"""The ledger's tables, made where they are missing and brought to the format of now where they are older."""

from sqlalchemy import Connection, Engine, func, insert, inspect, select, text

from flows.errors import LedgerError
from flows.operations.ledger.tables import FORMAT, files, formats, metadata, quarantine, sent, sources
from flows.operations.sources.fingerprint import key_of

_CREATION = 0x6361_7272_656C_6C64  # the advisory lock under which tables are made: a number of our own
_PAGE = 1000


def prepare_file(engine: Engine, *, name: str) -> None:
    """Make a SQLite file's tables; what an older one knows (digests, refusals, documents sent) is kept.

    A run that the older one had not finished is forgotten: the next plan finds out what it has sent.
    """
    with engine.connect() as connection:
        if _file_format(connection) == FORMAT:
            return
    with engine.execution_options(carrel_writes=True).begin() as connection:
        found = _file_format(connection)
        _refuse_newer(found)
        if found == FORMAT:
            return
        metadata.create_all(connection)
        if inspect(connection).has_table("refusals"):
            _take_over(connection, name=name)
        connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")


def prepare_database(engine: Engine) -> None:
    """Make a PostgreSQL database's tables, whoever else does so at the same time."""
    with engine.begin() as connection:
        if inspect(connection).has_table(formats.name):
            _refuse_newer(connection.execute(select(func.max(formats.c.format))).scalar_one())
            return
    with engine.begin() as connection:
        connection.execute(select(func.pg_advisory_xact_lock(_CREATION)))
        if not inspect(connection).has_table(formats.name):
            metadata.create_all(connection)
            connection.execute(insert(formats).values(format=FORMAT))


def _file_format(connection: Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _refuse_newer(found: int) -> None:
    if found > FORMAT:
        msg = f"The ledger is of a newer Carrel (format {found}, here {FORMAT}). Run that one."
        raise LedgerError(msg)


def _take_over(connection: Connection, *, name: str) -> None:
    """Bring over what the first format knew, and drop its tables."""
    known = {"kind": "", "target": "", "source": "", "options": "{}", "scans": 0}
    connection.execute(insert(sources).values(name=name, **known))
    source_id = connection.execute(select(sources.c.source_id)).scalar_one()
    _take_files(connection, source_id)
    _take_refusals(connection, source_id)
    _take_sent(connection, source_id)
    for table in ("files", "refusals", "documents", "problems", "runs"):
        connection.exec_driver_sql(f"DROP TABLE {table}")


def _take_files(connection: Connection, source_id: int) -> None:
    old = connection.execute(text("SELECT path, size, mtime_ns, ctime_ns, inode, sha256, hashed_at_ns FROM files"))
    for page in old.partitions(_PAGE):
        values = [
            {
                "source_id": source_id,
                "key": key_of(row.path),
                "size": row.size,
                "marker": f"{row.mtime_ns}:{row.ctime_ns}:{row.inode}",
                "sha256": row.sha256,
                "taken_at_ns": row.hashed_at_ns,
            }
            for row in page
        ]
        connection.execute(insert(files), values)


def _take_refusals(connection: Connection, source_id: int) -> None:
    old = connection.execute(text("SELECT external_id, fingerprint, error_code, error_message FROM refusals"))
    for page in old.partitions(_PAGE):
        values = [
            {
                "source_id": source_id,
                "part": 1,
                "key": key_of(row.external_id),
                "scan": 0,
                "position": 0,
                "place": row.external_id,
                "external_id": row.external_id,
                "code": row.error_code,
                "message": row.error_message,
                "fingerprint": row.fingerprint,
                "for_good": True,
                "ignored": False,
                "since": 0.0,
            }
            for row in page
        ]
        connection.execute(insert(quarantine), values)


def _take_sent(connection: Connection, source_id: int) -> None:
    old = connection.execute(
        text(
            "SELECT external_id, document_id, fingerprint FROM documents"
            " WHERE state IN ('uploaded', 'indexed') AND document_id IS NOT NULL"
        )
    )
    for page in old.partitions(_PAGE):
        values = [
            {
                "source_id": source_id,
                "key": key_of(row.external_id),
                "external_id": row.external_id,
                "document_id": row.document_id,
                "fingerprint": row.fingerprint,
                "intended": None,
            }
            for row in page
        ]
        connection.execute(insert(sent), values)
