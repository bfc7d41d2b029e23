"""SQL for the progress of the database's servers. No organization's rows are read."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.platform.batches import Answer, Batch
from service.schema.tables import deployment

MARK_EVERY = timedelta(seconds=0.9)
# The newest marks, longer than any request: its mark may be read from the primary well before the standby is used.
MARKS_KEPT = 60


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the primary's write-ahead log, after all earlier commits. `written` is in bytes; None if the server is
    no primary. `mark` is the newest; `is_marked`: written since the server started and became primary."""

    written: int | None
    mark: UUID
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """How many bytes of the primary's log a standby has replayed (None: no log), and whether it has the mark."""

    is_standby: bool
    has_mark: bool
    replayed: int | None

    def follows(self, position: Position) -> bool:
        """Whether the server is a standby of the position's server, at least as new as the mark."""
        return self.is_standby and position.is_marked and self.has_mark

    def reaches(self, position: Position) -> bool:
        """Whether the standby certainly shows all commits from before the position was read."""
        if position.written is None or self.replayed is None:
            return False
        return self.follows(position) and self.replayed >= position.written


def _bytes_of(position: sa.ColumnElement[str]) -> sa.ColumnElement[int]:
    return sa.cast(sa.func.pg_wal_lsn_diff(position, sa.literal_column("'0/0'")), sa.BigInteger)


def _run() -> sa.ColumnElement[str]:
    """Return the primary's run: timeline and start time, as files may differ after a restart."""
    timeline = sa.func.left(sa.func.pg_walfile_name(sa.func.pg_current_wal_insert_lsn()), 8)
    return sa.func.concat(timeline, " ", sa.func.extract("epoch", sa.func.pg_postmaster_start_time()))


# The flushed position covers all commits that wait for the disk; with synchronous_commit off, the written position.
_COMMITTED = sa.case(
    (sa.func.pg_is_in_recovery(), sa.null()),
    (sa.func.current_setting("synchronous_commit") == sa.literal("off"), sa.func.pg_current_wal_insert_lsn()),
    else_=sa.func.pg_current_wal_flush_lsn(),
)
_IS_OF_RUN = sa.case((sa.func.pg_is_in_recovery(), sa.false()), else_=deployment.c.replication_timeline == _run())
_POSITION = sa.select(
    _bytes_of(_COMMITTED).label("written"),
    deployment.c.replication_marks[1].label("mark"),
    _IS_OF_RUN.label("is_marked"),
)
_MARK = sa.bindparam("mark", type_=sa.Uuid)
# The replay position is read after the statement's snapshot, so the marks are not newer.
_PROGRESS = sa.select(
    sa.func.pg_is_in_recovery().label("is_standby"),
    sa.func.coalesce(sa.select(sa.any_(deployment.c.replication_marks) == _MARK).scalar_subquery(), sa.false()).label(
        "has_mark"
    ),
    _bytes_of(sa.func.pg_last_wal_replay_lsn()).label("replayed"),
)


def ask_position(batch: Batch) -> Answer[Position]:
    return batch.ask(_POSITION, Position, {})


def ask_progress(batch: Batch, *, mark: UUID) -> Answer[Progress]:
    """Ask a standby for progress. Call outside a transaction, because its snapshot might be older."""
    return batch.ask(_PROGRESS, Progress, {"mark": mark})


async def write_mark(connection: Connection) -> None:
    """Write a new mark, unless the newest is younger than a second and of this run of the server."""
    # The clock's time, not the transaction's: the later of two concurrent writers sees a mark later than its beginning.
    columns, now = deployment.c, sa.func.clock_timestamp()
    marks = sa.func.array_prepend(sa.func.gen_random_uuid(), columns.replication_marks[1 : MARKS_KEPT - 1])
    is_due = ~columns.replication_marked_at.between(now - MARK_EVERY, now) | (columns.replication_timeline != _run())
    values = {"replication_marks": marks, "replication_marked_at": now, "replication_timeline": _run()}
    await connection.execute(sa.update(deployment).where(is_due).values(values))
