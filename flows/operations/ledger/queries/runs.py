"""Sources and their runs."""

import os
import socket
import time
from collections.abc import Mapping, Sequence
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    select,
    update,
)

from flows.operations.ledger.queries.common import AnyRow, Values, insert_into
from flows.operations.ledger.queries.sendings import keep_intents
from flows.operations.ledger.rows import Run
from flows.operations.ledger.tables import documents, runs, sources


def read_source(connection: Connection, name: str) -> AnyRow | None:
    """Return the source of this name, if it has ever been begun."""
    return connection.execute(select(sources).where(sources.c.name == name)).one_or_none()


def list_sources(connection: Connection) -> Sequence[AnyRow]:
    """Return every source."""
    return connection.execute(select(sources).order_by(sources.c.source, sources.c.name)).all()


def keep_source(connection: Connection, name: str, described: Mapping[str, str], *, options: str | None) -> int:
    """Keep what a source is and the options of its run, by default those of the run before; return its id."""
    statement = insert_into(connection, sources).values(name=name, **described, options=options or "{}", scans=0)
    fresh = {**described, "options": options or sources.c.options}
    connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=fresh))
    return connection.execute(select(sources.c.source_id).where(sources.c.name == name)).scalar_one()


def _next_scan(connection: Connection, source_id: int) -> int:
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


def name_holder(run: AnyRow | None, *, shared: bool) -> str:
    """Return who has a source, by its latest run, for people; in `shared` ledgers, the machine too."""
    if run is None:
        return "another process"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run.started_at))
    return f"process {run.process}{f' on {run.host}' if shared else ''}, since {since}"


def run_of_process(connection: Connection, name: str, *, host: str, process: int) -> AnyRow | None:
    """Return the run of the source that a process of a machine is at."""
    found = (
        select(runs)
        .join(sources, sources.c.source_id == runs.c.source_id)
        .where(sources.c.name == name, runs.c.host == host, runs.c.process == process, runs.c.finished_at.is_(None))
    )
    return connection.execute(found).one_or_none()


def run_of_claim(connection: Connection, claim: str, *, held: ColumnElement[bool]) -> AnyRow | None:
    """Return the run that was claimed so, and keep others from claiming it until the transaction ends.

    Its member `held` is what the expression says of it (flows.operations.ledger.store.Store.held).
    """
    found = select(runs, held.label("held")).where(runs.c.claim == claim)
    return connection.execute(found.with_for_update(read=True, of=runs)).one_or_none()


def claim_run(connection: Connection, source_id: int, run_key: str, *, lock_pid: int | None) -> AnyRow:
    """Begin a run of this process, or take up the one of the same `run_key`; return it."""
    claimed = {
        "claim": uuid4().hex,
        "scan": _next_scan(connection, source_id),
        "started_at": time.time(),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "lock_pid": lock_pid,
        "held_back": "",
    }
    statement = insert_into(connection, runs).values(source_id=source_id, run_key=run_key, **claimed)
    connection.execute(statement.on_conflict_do_update(index_elements=["run_key"], set_=claimed))
    return connection.execute(select(runs).where(runs.c.run_key == run_key)).one()


def drop_runs(connection: Connection, source_id: int, *, but: str | None) -> None:
    """Drop the source's runs with their documents; `but` is the key of one that stays."""
    old = select(runs.c.run_id).where(runs.c.source_id == source_id, runs.c.run_key != (but or ""))
    # Locked first, so that who still writes for one of them is done, and finds it gone with his next write.
    dropped = connection.execute(old.with_for_update()).scalars().all()
    of_them = documents.c.run_id.in_(dropped)
    keep_intents(connection, source_id, of_them)
    connection.execute(delete(documents).where(of_them))
    connection.execute(delete(runs).where(runs.c.run_id.in_(dropped)))


def update_run(connection: Connection, run: Run, values: Values) -> None:
    """Set members of a run."""
    connection.execute(update(runs).where(runs.c.run_id == run.run_id).values(**values))
