"""The ledger's SQL, for SQLite and PostgreSQL alike. Keys are at most a thousand a statement."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from flows.operations.tables import documents, files, quarantine, runs, sent, sources

AnyRow = Row[*tuple[Any, ...]]
Values = dict[str, Any]

_DELETES = func.coalesce(documents.c.action, "") == "delete"

# Whether the connection that took the source's advisory lock (in two halves) still has it.
_LOCK_HELD = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND pid = ledger_runs.lock_pid AND classid::bigint = {high} AND objid::bigint = {low}"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)


def _insert(connection: Connection, table: Any) -> Any:
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def _many(connection: Connection, statement: Any, rows: Sequence[Values]) -> None:
    """Run an INSERT for many rows of the same members: given as they are, which costs a third of what it does else."""
    compiled = statement.compile(dialect=connection.dialect, column_keys=list(rows[0]))
    constants = {name: value for name, value in compiled.params.items() if name not in rows[0]}
    if compiled.positiontup is None:
        connection.exec_driver_sql(str(compiled), [constants | row for row in rows])
    else:
        in_order = itemgetter(*compiled.positiontup)
        connection.exec_driver_sql(str(compiled), [in_order(constants | row) for row in rows])


# Sources and runs


def read_source(connection: Connection, name: str) -> AnyRow | None:
    """Return the source of this name, if it has ever been begun."""
    return connection.execute(select(sources).where(sources.c.name == name)).one_or_none()


def list_sources(connection: Connection) -> Sequence[AnyRow]:
    """Return every source."""
    return connection.execute(select(sources).order_by(sources.c.source, sources.c.name)).all()


def keep_source(connection: Connection, values: Values) -> int:
    """Keep what a source is and what it was begun with last; return its id."""
    statement = _insert(connection, sources).values(**values, scans=0)
    connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))
    return connection.execute(select(sources.c.source_id).where(sources.c.name == values["name"])).scalar_one()


def next_scan(connection: Connection, source_id: int) -> int:
    """Count one more scan of the source and return its number, which no other one has."""
    ours = sources.c.source_id == source_id
    connection.execute(update(sources).where(ours).values(scans=sources.c.scans + 1))
    return connection.execute(select(sources.c.scans).where(ours)).scalar_one()


def unfinished_run(connection: Connection, source_id: int) -> AnyRow | None:
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
    statement = _insert(connection, runs).values(**values)
    connection.execute(statement.on_conflict_do_update(index_elements=["run_key"], set_=renewed))
    return connection.execute(select(runs).where(runs.c.run_key == values["run_key"])).one()


def drop_runs(connection: Connection, source_id: int, *, but: str | None) -> None:
    """Drop the source's runs with their documents; `but` is the key of one that stays."""
    old = select(runs.c.run_id).where(runs.c.source_id == source_id, runs.c.run_key != (but or ""))
    # Locked first, so that who still writes for one of them is done, and finds it gone with his next write.
    dropped = connection.execute(old.with_for_update()).scalars().all()
    of_them = documents.c.run_id.in_(dropped)
    _keep_intents(connection, source_id, of_them)
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


# What a scan finds


def read_digests(connection: Connection, source_id: int, keys: Sequence[bytes]) -> Sequence[AnyRow]:
    """Return the digests kept of these files."""
    return connection.execute(select(files).where(files.c.source_id == source_id, files.c.key.in_(keys))).all()


def keep_digests(connection: Connection, values: Sequence[Values]) -> None:
    """Keep digests of files."""
    statement = _insert(connection, files)
    fresh = {name: statement.excluded[name] for name in ("size", "marker", "sha256", "taken_at_ns")}
    _many(connection, statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=fresh), values)


def seen_keys(connection: Connection, run_id: int, *, scan: int, keys: Sequence[bytes]) -> set[bytes]:
    """Return which of the documents this scan has had already."""
    found = select(documents.c.key).where(
        documents.c.run_id == run_id, documents.c.scan == scan, documents.c.key.in_(keys)
    )
    return set(connection.execute(found).scalars())


def record_documents(connection: Connection, values: Sequence[Values]) -> None:
    """Keep documents as FOUND; one that this run has sent stays so while its fingerprint is the same."""
    statement = _insert(connection, documents)
    new = statement.excluded
    # Not as a list, which no statement for many rows may have.
    done = or_(documents.c.state == "uploaded", documents.c.state == "indexed")
    stays = and_(documents.c.fingerprint == new.fingerprint, done)
    fresh = {name: new[name] for name in ("external_id", "scan", "payload", "size", "sha256", "fingerprint")}
    fresh |= {
        "document_id": func.coalesce(new.document_id, documents.c.document_id),
        "state": case((stays, documents.c.state), else_="found"),
        # A document that was planned to be deleted is in the source again.
        "action": case((documents.c.action == "delete", null()), else_=documents.c.action),
    }
    _many(connection, statement.on_conflict_do_update(index_elements=["run_id", "key"], set_=fresh), values)


def forget_unseen(connection: Connection, source_id: int, *, run_id: int, scan: int) -> None:
    """Drop what an earlier scan of the run found and this one no longer did; what the run has deleted stays known."""
    unseen = and_(documents.c.run_id == run_id, documents.c.scan != scan, documents.c.state != "deleted")
    _keep_intents(connection, source_id, unseen)
    connection.execute(delete(documents).where(unseen))


def _keep_intents(connection: Connection, source_id: int, which: ColumnElement[bool]) -> None:
    """Of documents that may have been sent without anybody having heard of it, keep the fingerprint they had."""
    doubtful = select(literal(source_id), documents.c.key, documents.c.external_id, documents.c.fingerprint).where(
        which, documents.c.action.in_(("create", "update")), documents.c.state.in_(("found", "planned"))
    )
    statement = _insert(connection, sent).from_select(["source_id", "key", "external_id", "intended"], doubtful)
    intended = {"intended": statement.excluded.intended}
    connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=intended))


# The plan


def fingerprints(connection: Connection, run_id: int, *, after: bytes, limit: int) -> Sequence[AnyRow]:
    """Return (key, external id, fingerprint) of the run's documents behind a key."""
    found = select(documents.c.key, documents.c.external_id, documents.c.fingerprint).where(
        documents.c.run_id == run_id, documents.c.key > after, ~_DELETES
    )
    return connection.execute(found.order_by(documents.c.key).limit(limit)).all()


def plan_sends(connection: Connection, run_id: int, *, action: str, keys: Sequence[bytes]) -> None:
    """Plan to send these documents."""
    which = and_(documents.c.run_id == run_id, documents.c.key.in_(keys))
    connection.execute(update(documents).where(which).values(state="planned", action=action))


def plan_rest(connection: Connection, run_id: int, *, state: str, keys: Sequence[bytes]) -> None:
    """Set documents that need not or can't be sent to a state; what this run has sent itself stays sent."""
    which = and_(
        documents.c.run_id == run_id, documents.c.key.in_(keys), documents.c.state.not_in(("uploaded", "indexed"))
    )
    connection.execute(update(documents).where(which).values(state=state, action=None))


def entries_of(connection: Connection, run_id: int, *, state: str, keys: Sequence[bytes]) -> Sequence[AnyRow]:
    """Return those of the documents that are in a state."""
    which = and_(documents.c.run_id == run_id, documents.c.key.in_(keys), documents.c.state == state)
    return connection.execute(select(documents).where(which)).all()


def adopt(connection: Connection, source_id: int, *, run_id: int, keys: Sequence[bytes]) -> None:
    """Of documents that the catalog has as they are here, keep those as sent that this source had meant to send."""
    intended = exists().where(
        sent.c.source_id == source_id, sent.c.key == documents.c.key, sent.c.intended == documents.c.fingerprint
    )
    planned = and_(documents.c.action.in_(("create", "update")), documents.c.state == "found")
    arrived = select(
        literal(source_id), documents.c.key, documents.c.external_id, documents.c.fingerprint, null()
    ).where(documents.c.run_id == run_id, documents.c.key.in_(keys), or_(planned, intended))
    statement = _insert(connection, sent).from_select(
        ["source_id", "key", "external_id", "fingerprint", "intended"], arrived
    )
    values = {"fingerprint": statement.excluded.fingerprint, "intended": None}
    connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=values))


def has_intents(connection: Connection, source_id: int) -> bool:
    """Say whether there is a document of which nobody knows if it arrived."""
    found = select(exists().where(sent.c.source_id == source_id, sent.c.intended.is_not(None)))
    return bool(connection.execute(found).scalar_one())


def count_found(connection: Connection, run_id: int, *, scan: int) -> int:
    """Return how many documents this scan has found."""
    found = select(func.count()).where(documents.c.run_id == run_id, documents.c.scan == scan, ~_DELETES)
    return connection.execute(found).scalar_one()


def missing(connection: Connection, source_id: int, *, run_id: int, after: bytes, limit: int) -> Sequence[AnyRow]:
    """Return what the source has sent and the run has not found, by key, behind `after`."""
    found = exists().where(documents.c.run_id == run_id, documents.c.key == sent.c.key)
    rows = select(sent).where(sent.c.source_id == source_id, sent.c.key > after, ~found)
    return connection.execute(rows.order_by(sent.c.key).limit(limit)).all()


def problems_named(connection: Connection, source_id: int, *, scan: int, names: Sequence[str]) -> set[str]:
    """Return which of these external ids the scan has come upon as what can't be a document."""
    found = select(quarantine.c.external_id).where(
        quarantine.c.source_id == source_id,
        quarantine.c.part == 0,
        quarantine.c.scan == scan,
        quarantine.c.external_id.in_(names),
    )
    return {str(name) for name in connection.execute(found).scalars()}


def problems_hiding(connection: Connection, source_id: int, *, scan: int, codes: Sequence[str]) -> Sequence[AnyRow]:
    """Return (number, one place) of what this scan could not see into: without an external id, or of these codes."""
    found = select(func.count().label("number"), func.min(quarantine.c.place).label("place")).where(
        quarantine.c.source_id == source_id,
        quarantine.c.part == 0,
        quarantine.c.scan == scan,
        or_(quarantine.c.external_id.is_(None), quarantine.c.code.in_(codes)),
    )
    return connection.execute(found).all()


def mark(connection: Connection, values: Sequence[Values]) -> None:
    """Keep documents that may be deleted, as FOUND: nothing deletes them before `confirm`."""
    statement = _insert(connection, documents)
    fresh = {name: statement.excluded[name] for name in values[0] if name not in {"run_id", "key"}}
    _many(connection, statement.on_conflict_do_update(index_elements=["run_id", "key"], set_=fresh), values)


def confirm(connection: Connection, run_id: int) -> None:
    """Plan to delete what is marked."""
    marked = and_(documents.c.run_id == run_id, _DELETES, documents.c.state == "found")
    connection.execute(update(documents).where(marked).values(state="planned"))


def unmark(connection: Connection, run_id: int) -> None:
    """Forget what is marked."""
    marked = and_(documents.c.run_id == run_id, _DELETES, documents.c.state == "found")
    connection.execute(delete(documents).where(marked))


def forget_sent(connection: Connection, source_id: int, keys: Sequence[bytes]) -> None:
    """Forget that the source has sent documents: they are there no more."""
    connection.execute(delete(sent).where(sent.c.source_id == source_id, sent.c.key.in_(keys)))


def set_aside(
    connection: Connection, source_id: int, *, run_id: int, scan: int, states: Sequence[str], ignored: bool
) -> None:
    """Set aside documents that are what they were when they were refused for good, or when they were ignored."""
    reason = quarantine.c.ignored if ignored else and_(quarantine.c.for_good, quarantine.c.ignored.is_(False))
    same = and_(
        quarantine.c.source_id == source_id,
        quarantine.c.part == 1,
        quarantine.c.key == documents.c.key,
        quarantine.c.fingerprint == documents.c.fingerprint,
        reason,
    )
    waiting = and_(documents.c.run_id == run_id, documents.c.state.in_(states))
    ours = and_(quarantine.c.source_id == source_id, quarantine.c.part == 1, reason)
    connection.execute(update(quarantine).where(ours, exists().where(waiting, same)).values(scan=scan))
    state = "ignored" if ignored else "failed"
    action = case((documents.c.action == "delete", documents.c.action), else_=null())
    connection.execute(update(documents).where(waiting, exists().where(same)).values(state=state, action=action))


def identify(connection: Connection, run_id: int, document_ids: Sequence[Values]) -> None:
    """Keep documents' ids, given as members `of_key` and `its_id`."""
    which = and_(documents.c.run_id == run_id, documents.c.key == bindparam("of_key"))
    connection.execute(update(documents).where(which).values(document_id=bindparam("its_id")), document_ids)


def plan_identified(connection: Connection, run_id: int) -> None:
    """Plan every found document that has an id."""
    found = and_(documents.c.run_id == run_id, documents.c.state == "found")
    known = documents.c.document_id.is_not(None)
    connection.execute(update(documents).where(found, known).values(state="planned", action="create"))


# What is done


def page(
    connection: Connection, run_id: int, *, state: str, deleting: bool, after: bytes, last: bytes, limit: int
) -> Sequence[AnyRow]:
    """Return documents in a state, by key, behind `after` and up to `last`; those to delete, or the others."""
    found = select(documents).where(
        documents.c.run_id == run_id,
        documents.c.state == state,
        documents.c.key > after,
        documents.c.key <= last,
        _DELETES if deleting else ~_DELETES,
    )
    return connection.execute(found.order_by(documents.c.key).limit(limit)).all()


def update_document(connection: Connection, run_id: int, key: bytes, values: Values) -> None:
    """Set members of a document."""
    which = and_(documents.c.run_id == run_id, documents.c.key == key)
    connection.execute(update(documents).where(which).values(**values))


def keep_sent(connection: Connection, values: Values) -> None:
    """Keep that the source has sent a document, and what it was."""
    statement = _insert(connection, sent).values(**values, intended=None)
    fresh = {"document_id": values["document_id"], "fingerprint": values["fingerprint"], "intended": None}
    connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=fresh))


def counts(connection: Connection, run_id: int) -> Sequence[AnyRow]:
    """Return (state, action, documents, bytes sent) of the run."""
    found = select(
        documents.c.state,
        documents.c.action,
        func.count().label("number"),
        func.sum(documents.c.sent_bytes).label("sent"),
    ).where(documents.c.run_id == run_id)
    return connection.execute(found.group_by(documents.c.state, documents.c.action)).all()


# What did not get into the catalog


def quarantine_items(connection: Connection, values: Sequence[Values]) -> None:
    """Keep items; what is ignored stays so while its fingerprint is the same."""
    statement = _insert(connection, quarantine)
    new = statement.excluded
    same = quarantine.c.fingerprint == new.fingerprint
    fresh = {
        name: new[name]
        for name in ("scan", "position", "place", "external_id", "code", "message", "fingerprint", "for_good")
    }
    fresh |= {
        "ignored": and_(quarantine.c.ignored, same),
        "since": case((same, quarantine.c.since), else_=new.since),
    }
    connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "part", "key"], set_=fresh), values)


def release(connection: Connection, source_id: int, *, part: int, key: bytes) -> None:
    """Take one item out of the quarantine."""
    which = and_(quarantine.c.source_id == source_id, quarantine.c.part == part, quarantine.c.key == key)
    connection.execute(delete(quarantine).where(which))


def release_unseen(connection: Connection, source_id: int, *, scan: int) -> None:
    """Take out what this scan has not come upon: it is gone from the source, or it is well."""
    connection.execute(delete(quarantine).where(quarantine.c.source_id == source_id, quarantine.c.scan != scan))


def failures(
    connection: Connection, source_id: int, *, scan: int, after: tuple[int, int, str] | None, limit: int
) -> Sequence[AnyRow]:
    """Return what this scan has in quarantine: problems in the source's order, then documents by external id."""
    name = func.coalesce(quarantine.c.external_id, "")
    found = select(quarantine).where(
        quarantine.c.source_id == source_id, quarantine.c.scan == scan, quarantine.c.ignored.is_(False)
    )
    return connection.execute(
        _behind(found, after, [quarantine.c.part, quarantine.c.position, name]).limit(limit)
    ).all()


def _behind(found: Select[Any], after: Sequence[Any] | None, order: Sequence[ColumnElement[Any]]) -> Select[Any]:
    """Order by these columns and, when `after` is given, begin behind it."""
    if after is not None:
        part, position, name = order
        at_part, at_position, at_name = after
        found = found.where(
            or_(
                part > at_part,
                and_(part == at_part, position > at_position),
                and_(part == at_part, position == at_position, name > at_name),
            )
        )
    return found.order_by(*order)


def quarantined_keys(connection: Connection, source_id: int, *, keys: Sequence[bytes]) -> set[bytes]:
    """Return which of these keys are in quarantine, of documents or of places, ignored or not."""
    found = select(quarantine.c.key).where(quarantine.c.source_id == source_id, quarantine.c.key.in_(keys))
    return set(connection.execute(found).scalars())


def list_quarantine(
    connection: Connection, source_id: int, *, after: tuple[int, int, str] | None, limit: int
) -> Sequence[AnyRow]:
    """Return what of a source is in quarantine, ignored or not: problems first, then documents by external id."""
    name = func.coalesce(quarantine.c.external_id, quarantine.c.place)
    found = select(quarantine, name.label("name")).where(quarantine.c.source_id == source_id)
    return connection.execute(
        _behind(found, after, [quarantine.c.part, quarantine.c.position, name]).limit(limit)
    ).all()


def keys_of_name(connection: Connection, source_id: int, *, name: str, key: bytes) -> list[bytes]:
    """Return the keys of what is in quarantine under an external id or a place (whose own key is `key`)."""
    named = or_(quarantine.c.key == key, and_(quarantine.c.part == 0, quarantine.c.external_id == name))
    found = select(quarantine.c.key).where(quarantine.c.source_id == source_id, named)
    return list(connection.execute(found).scalars())


def set_ignored(connection: Connection, source_id: int, *, keys: Sequence[bytes], ignored: bool) -> None:
    """Ignore what is in quarantine under these keys, or ignore it no more."""
    which = and_(quarantine.c.source_id == source_id, quarantine.c.key.in_(keys))
    connection.execute(update(quarantine).where(which).values(ignored=ignored))


def count_codes(connection: Connection, source_id: int, *, scan: int) -> Sequence[AnyRow]:
    """Return (code, number) of what this scan has in quarantine."""
    found = select(quarantine.c.code, func.count().label("number")).where(
        quarantine.c.source_id == source_id, quarantine.c.scan == scan, quarantine.c.ignored.is_(False)
    )
    return connection.execute(found.group_by(quarantine.c.code)).all()


def count_problems(connection: Connection, source_id: int, *, scan: int) -> Sequence[AnyRow]:
    """Return (ignored, number) of what this scan found that can't be a document."""
    found = select(quarantine.c.ignored, func.count().label("number")).where(
        quarantine.c.source_id == source_id, quarantine.c.scan == scan, quarantine.c.part == 0
    )
    return connection.execute(found.group_by(quarantine.c.ignored)).all()
