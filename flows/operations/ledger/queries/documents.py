"""The documents of a run: found, planned and done."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import (
    Connection,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    null,
    or_,
    select,
    update,
)

from flows.operations.ledger.queries.common import DELETES, Values, insert_into, insert_many
from flows.operations.ledger.queries.sendings import keep_intents
from flows.operations.ledger.rows import Digest, Entry, Run, entry_of, values_of
from flows.operations.ledger.states import Action, Count, State
from flows.operations.ledger.tables import documents, files, quarantine
from flows.operations.sources.fingerprint import key_of


def read_digests(connection: Connection, run: Run, names: Sequence[str]) -> dict[str, Digest]:
    """Return the digests kept under these names."""
    by_key = {key_of(name): name for name in names}
    found = select(files).where(files.c.source_id == run.source_id, files.c.key.in_(by_key))
    return {
        by_key[bytes(row.key)]: Digest(row.size, row.marker, bytes(row.sha256), row.taken_at_ns)
        for row in connection.execute(found)
    }


def keep_digests(connection: Connection, run: Run, digests: Mapping[str, Digest]) -> None:
    """Keep digests under names."""
    values = [{"source_id": run.source_id, "key": key_of(name), **asdict(digest)} for name, digest in digests.items()]
    statement = insert_into(connection, files)
    fresh = {name: statement.excluded[name] for name in ("size", "marker", "sha256", "taken_at_ns")}
    insert_many(connection, statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=fresh), values)


def record(connection: Connection, run: Run, entries: Sequence[Entry]) -> list[Entry]:
    """Keep documents that a scan found; return those whose external id it has had already, which are not kept."""
    by_key: dict[bytes, Entry] = {}
    keys = [key_of(entry.document.external_id) for entry in entries]
    seen = _find_seen(connection, run, keys)
    repeated: list[Entry] = []
    for key, entry in zip(keys, entries, strict=True):
        if key in seen or key in by_key:
            repeated.append(entry)
        else:
            by_key[key] = entry
    if by_key:
        _keep_found(connection, [values_of(entry, key, run) for key, entry in by_key.items()])
    return repeated


def _find_seen(connection: Connection, run: Run, keys: Sequence[bytes]) -> set[bytes]:
    found = select(documents.c.key).where(
        documents.c.run_id == run.run_id, documents.c.scan == run.scan, documents.c.key.in_(keys)
    )
    return set(connection.execute(found).scalars())


def _keep_found(connection: Connection, values: Sequence[Values]) -> None:
    """Keep documents as FOUND; one that this run has sent stays so while its fingerprint is the same."""
    statement = insert_into(connection, documents)
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
    insert_many(connection, statement.on_conflict_do_update(index_elements=["run_id", "key"], set_=fresh), values)


def forget_unseen(connection: Connection, run: Run) -> None:
    """Drop what an earlier scan of the run found and this one no longer did; what the run has deleted stays known."""
    unseen = and_(documents.c.run_id == run.run_id, documents.c.scan != run.scan, documents.c.state != "deleted")
    keep_intents(connection, run.source_id, unseen)
    connection.execute(delete(documents).where(unseen))


def fingerprints(connection: Connection, run: Run, *, after: bytes, limit: int) -> list[tuple[bytes, str, str]]:
    """Return (key, external id, fingerprint) of the run's documents behind a key."""
    found = select(documents.c.key, documents.c.external_id, documents.c.fingerprint).where(
        documents.c.run_id == run.run_id, documents.c.key > after, ~DELETES
    )
    rows = connection.execute(found.order_by(documents.c.key).limit(limit))
    return [(bytes(row.key), row.external_id, row.fingerprint) for row in rows]


def plan_sends(connection: Connection, run: Run, *, action: str, keys: Sequence[bytes]) -> None:
    """Plan to send these documents."""
    which = and_(documents.c.run_id == run.run_id, documents.c.key.in_(keys))
    connection.execute(update(documents).where(which).values(state="planned", action=action))


def unsearchable(connection: Connection, run: Run, *, keys: Sequence[bytes]) -> set[bytes]:
    """Return which of these documents, as they are, came into quarantine since their index could not be made."""
    found = select(documents.c.key).join(quarantine, quarantine.c.key == documents.c.key)
    same = and_(
        quarantine.c.source_id == run.source_id,
        quarantine.c.part == 1,
        quarantine.c.code == "indexing_failed",
        quarantine.c.fingerprint == documents.c.fingerprint,
    )
    which = and_(documents.c.run_id == run.run_id, documents.c.key.in_(keys), documents.c.state == "found")
    return set(connection.execute(found.where(which, same)).scalars())


def leave_unasked(connection: Connection, run: Run) -> None:
    """Set documents that this run has not sent and still would ask after to FAILED; they stay in quarantine."""
    unasked = and_(documents.c.run_id == run.run_id, documents.c.state == "uploaded", documents.c.action.is_(None))
    ours = and_(quarantine.c.source_id == run.source_id, quarantine.c.part == 1)
    same = exists().where(unasked, documents.c.key == quarantine.c.key)
    connection.execute(update(quarantine).where(ours, same).values(scan=run.scan))
    connection.execute(update(documents).where(unasked).values(state="failed"))


def plan_rest(connection: Connection, run: Run, *, state: str, keys: Sequence[bytes]) -> None:
    """Set documents that need not or can't be sent to a state; what this run has sent itself stays sent."""
    which = and_(
        documents.c.run_id == run.run_id, documents.c.key.in_(keys), documents.c.state.not_in(("uploaded", "indexed"))
    )
    connection.execute(update(documents).where(which).values(state=state, action=None))


def entries_of(connection: Connection, run: Run, *, state: str, keys: Sequence[bytes]) -> list[Entry]:
    """Return those of the documents that are in a state."""
    which = and_(documents.c.run_id == run.run_id, documents.c.key.in_(keys), documents.c.state == state)
    return [entry_of(row) for row in connection.execute(select(documents).where(which))]


def set_aside(connection: Connection, run: Run, *, states: Sequence[str], ignored: bool) -> None:
    """Set aside documents that are what they were when they were refused for good, or when they were ignored."""
    reason = quarantine.c.ignored if ignored else and_(quarantine.c.for_good, quarantine.c.ignored.is_(False))
    same = and_(
        quarantine.c.source_id == run.source_id,
        quarantine.c.part == 1,
        quarantine.c.key == documents.c.key,
        quarantine.c.fingerprint == documents.c.fingerprint,
        reason,
    )
    waiting = and_(documents.c.run_id == run.run_id, documents.c.state.in_(states))
    ours = and_(quarantine.c.source_id == run.source_id, quarantine.c.part == 1, reason)
    connection.execute(update(quarantine).where(ours, exists().where(waiting, same)).values(scan=run.scan))
    state = "ignored" if ignored else "failed"
    action = case((documents.c.action == "delete", documents.c.action), else_=null())
    connection.execute(update(documents).where(waiting, exists().where(same)).values(state=state, action=action))


def identify(connection: Connection, run: Run, document_ids: Mapping[str, str]) -> None:
    """Keep the document ids that belong to external ids; those the source does not name are passed over."""
    values = [{"of_key": key_of(name), "its_id": document_id} for name, document_id in document_ids.items()]
    which = and_(documents.c.run_id == run.run_id, documents.c.key == bindparam("of_key"))
    connection.execute(update(documents).where(which).values(document_id=bindparam("its_id")), values)


def plan_identified(connection: Connection, run: Run) -> None:
    """Plan every found document that has an id."""
    found = and_(documents.c.run_id == run.run_id, documents.c.state == "found")
    known = documents.c.document_id.is_not(None)
    connection.execute(update(documents).where(found, known).values(state="planned", action="create"))


def page(
    connection: Connection, run: Run, *, state: str, deleting: bool, after: bytes, last: bytes, limit: int
) -> list[Entry]:
    """Return documents in a state, by key, behind `after` and up to `last`; those to delete, or the others."""
    found = select(documents).where(
        documents.c.run_id == run.run_id,
        documents.c.state == state,
        documents.c.key > after,
        documents.c.key <= last,
        DELETES if deleting else ~DELETES,
    )
    return [entry_of(row) for row in connection.execute(found.order_by(documents.c.key).limit(limit))]


def update_document(connection: Connection, run: Run, key: bytes, values: Values) -> None:
    """Set members of a document."""
    which = and_(documents.c.run_id == run.run_id, documents.c.key == key)
    connection.execute(update(documents).where(which).values(**values))


def counts(connection: Connection, run: Run) -> list[Count]:
    """Return how many documents of the run are in which state, with which action, how much of them was sent, how many
    have parts that were not read, how many of their pages are read later, and how far the files in each are.
    """
    sent, partly = func.sum(documents.c.sent_bytes), func.count().filter(documents.c.parts_not_read > 0)
    waiting = func.sum(documents.c.pages_waiting)
    alike = (documents.c.state, documents.c.action, documents.c.contained)
    found = select(*alike, func.count(), sent, partly, waiting).where(documents.c.run_id == run.run_id)
    return [
        Count(State(state), Action(action) if action else None, number, int(size), partly_read, int(pages), contained)
        for state, action, contained, number, size, partly_read, pages in connection.execute(found.group_by(*alike))
    ]


def partly_read(connection: Connection, run: Run, *, limit: int | None) -> list[str]:
    """Return the external ids of documents of the run that have parts that were not read, by key."""
    found = select(documents.c.external_id).where(documents.c.run_id == run.run_id, documents.c.parts_not_read > 0)
    return list(connection.execute(found.order_by(documents.c.key).limit(limit)).scalars())


def count_known(connection: Connection, run: Run) -> int:
    """Return how many of the documents that the run has found were in the catalog before it."""
    asked_after = and_(documents.c.state.in_(("uploaded", "indexed")), documents.c.action.is_(None))
    before = or_(documents.c.state == "unchanged", documents.c.action == "update", asked_after)
    found = select(func.count()).where(documents.c.run_id == run.run_id, ~DELETES, before)
    return connection.execute(found).scalar_one()


def count_found(connection: Connection, run: Run) -> int:
    """Return how many documents this scan has found."""
    found = select(func.count()).where(documents.c.run_id == run.run_id, documents.c.scan == run.scan, ~DELETES)
    return connection.execute(found).scalar_one()
