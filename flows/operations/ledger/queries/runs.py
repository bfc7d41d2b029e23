"""Sources, their runs, and the lock on them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    func,
    literal,
    literal_column,
    select,
    update,
)

from flows.operations.ledger.queries.common import AnyRow, Values, insert_into
from flows.operations.ledger.queries.sendings import keep_intents
from flows.operations.ledger.tables import documents, runs, sources

# Whether the connection that took the source's advisory lock (in two halves) still has it.
_LOCK_HELD = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND pid = ledger_runs.lock_pid AND classid::bigint = {high} AND objid::bigint = {low}"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)


def read_source(connection: Connection, name: str) -> AnyRow | None:
    """Return the source of this name, if it has ever been begun."""
    return connection.execute(select(sources).where(sources.c.name == name)).one_or_none()


def list_sources(connection: Connection) -> Sequence[AnyRow]:
    """Return every source."""
    return connection.execute(select(sources).order_by(sources.c.source, sources.c.name)).all()


def keep_source(connection: Connection, values: Values) -> int:
    """Keep what a source is and what it was begun with last; return its id."""
    statement = insert_into(connection, sources).values(**values, scans=0)
    connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))
    return connection.execute(select(sources.c.source_id).where(sources.c.name == values["name"])).scalar_one()


def next_scan(connection: Connection, source_id: int) -> int:
    """Count one more scan of the source and return its number, which no other one has."""
    ours = sources.c.source_id == source_id
    connection.execute(update(sources).where(ours).values(scans=sources.c.scans + 1))
    return connection.execute(select(sources.c.scans).where(ours)).scalar_one()


def find_unfinished(connection: Connection, source_id: int) -> AnyRow | None:
    """Return the run of the source that has not ended."""
    found = select(runs).where(runs.c.source_id == source_id, runs.c.finished_at.is_(None))
    return connection.execute(found.order_by(runs.c.started_at.desc()).limit(1)).one_or_none()


def latest_run(connection: Connection, name: str) -> AnyRow | None:
    """Return the run of the source that was begun or taken up last."""
    found = select(runs).join(sources, sources.c.source_id == runs.c.source_id).where(sources.c.name == name)
    return connection.execute(found.order_by(runs.c.started_at.desc()).limit(1)).one_or_none()


def run_of_process(connection: Connection, name: str, *, host: str, process: int) -> AnyRow | None:
    """Return the run of the source that a process of a machine is at."""
    found = (
        select(runs)
        .join(sources, sources.c.source_id == runs.c.source_id)
        .where(sources.c.name == name, runs.c.host == host, runs.c.process == process, runs.c.finished_at.is_(None))
    )
    return connection.execute(found).one_or_none()


def run_of_claim(connection: Connection, claim: str, *, lock: tuple[int, int] | None) -> AnyRow | None:
    """Return the run that was claimed so, and keep others from claiming it until the transaction ends.

    `lock` are the halves of the source's advisory lock in PostgreSQL; then `held` says whether it is still held.
    """
    held: ColumnElement[Any] = literal(value=True)
    if lock is not None:
        held = literal_column(_LOCK_HELD.format(high=lock[0], low=lock[1]))
    found = select(runs, held.label("held")).where(runs.c.claim == claim)
    return connection.execute(found.with_for_update(read=True, of=runs)).one_or_none()


def claim_run(connection: Connection, values: Values) -> AnyRow:
    """Begin a run, or take up the one of the same `run_key`; return it."""
    renewed = {name: value for name, value in values.items() if name not in {"run_key", "source_id"}}
    statement = insert_into(connection, runs).values(**values)
    connection.execute(statement.on_conflict_do_update(index_elements=["run_key"], set_=renewed))
    return connection.execute(select(runs).where(runs.c.run_key == values["run_key"])).one()


def drop_runs(connection: Connection, source_id: int, *, but: str | None) -> None:
    """Drop the source's runs with their documents; `but` is the key of one that stays."""
    old = select(runs.c.run_id).where(runs.c.source_id == source_id, runs.c.run_key != (but or ""))
    # Locked first, so that who still writes for one of them is done, and finds it gone with his next write.
    dropped = connection.execute(old.with_for_update()).scalars().all()
    of_them = documents.c.run_id.in_(dropped)
    keep_intents(connection, source_id, of_them)
    connection.execute(delete(documents).where(of_them))
    connection.execute(delete(runs).where(runs.c.run_id.in_(dropped)))


def update_run(connection: Connection, run_id: int, values: Values) -> None:
    """Set members of a run."""
    connection.execute(update(runs).where(runs.c.run_id == run_id).values(**values))


def try_lock(connection: Connection, number: int) -> bool:
    """Take a PostgreSQL advisory lock for as long as the connection lives, or say that somebody has it."""
    return bool(connection.execute(select(func.pg_try_advisory_lock(number))).scalar_one())


def connection_pid(connection: Connection) -> int:
    """Return the PostgreSQL process that serves the connection."""
    return int(connection.execute(select(func.pg_backend_pid())).scalar_one())
