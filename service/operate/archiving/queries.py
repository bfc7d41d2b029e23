"""SQL of the archiving, as the embedded server's superuser: the log, and the slot keeping unarchived log."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

Connection = psycopg.Connection[Any]
# The process with this lock writes to the archive.
ARCHIVE_LOCK = 0x_CA55_E3
SLOT = "carrel_archive"
LOST = "lost"


class LogEnd(NamedTuple):
    """The end of the log on disk, and the database's time before the reading."""

    at: datetime
    lsn: int
    timeline: int


def try_lock_archive(connection: Connection) -> bool:
    """Lock the archive until the connection ends. Return False while another process holds the lock."""
    return bool(_read(connection, "SELECT pg_try_advisory_lock(%s)", ARCHIVE_LOCK)[0])


def read_store_id(connection: Connection) -> UUID:
    return _read(connection, "SELECT store_id FROM deployment")[0]


def read_segment_bytes(connection: Connection) -> int:
    return _read(connection, "SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size'")[0]


def read_log_end(connection: Connection) -> LogEnd:
    at = _read(connection, "SELECT clock_timestamp()")[0]
    statement = """
        SELECT (lsn - '0/0')::bigint, ('x' || substr(pg_walfile_name(lsn), 1, 8))::bit(32)::int
        FROM pg_current_wal_flush_lsn() lsn
    """
    lsn, timeline = _read(connection, statement)
    return LogEnd(at, lsn, timeline)


def find_slot(connection: Connection) -> int | None:
    """Return the first log position still kept; None without a slot, or if the slot was lost to the size limit."""
    statement = "SELECT (restart_lsn - '0/0')::bigint, wal_status FROM pg_replication_slots WHERE slot_name = %s"
    slot = connection.execute(statement, [SLOT]).fetchone()
    return None if slot is None or slot[1] == LOST else slot[0]


def ensure_slot(connection: Connection) -> tuple[int, bool]:
    """Return the first log position still kept, and whether the slot was made now (earlier log may be missing)."""
    kept = find_slot(connection)
    if kept is not None:
        return kept, False
    drop_slot(connection)
    connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", [SLOT])
    kept = find_slot(connection)
    assert kept is not None  # noqa: S101 - it was just made
    return kept, True


def advance_slot(connection: Connection, *, lsn: int) -> None:
    connection.execute("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s::numeric)", [SLOT, lsn])


def drop_slot(connection: Connection) -> None:
    statement = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    connection.execute(statement, [SLOT])


def _read(connection: Connection, statement: str, *parameters: object) -> Any:
    row = connection.execute(statement.encode(), parameters).fetchone()
    assert row is not None  # noqa: S101 - each of these statements has a row
    return row
