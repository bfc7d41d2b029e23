"""The documents of a run: found, planned and done."""

from collections.abc import Sequence

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

from flows.operations.ledger.queries.common import DELETES, AnyRow, Values, insert_into, insert_many
from flows.operations.ledger.queries.sendings import keep_intents
from flows.operations.ledger.tables import documents, files, quarantine


def read_digests(connection: Connection, source_id: int, keys: Sequence[bytes]) -> Sequence[AnyRow]:
    """Return the digests kept of these files."""
    return connection.execute(select(files).where(files.c.source_id == source_id, files.c.key.in_(keys))).all()


def keep_digests(connection: Connection, values: Sequence[Values]) -> None:
    """Keep digests of files."""
    statement = insert_into(connection, files)
    fresh = {name: statement.excluded[name] for name in ("size", "marker", "sha256", "taken_at_ns")}
    insert_many(connection, statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=fresh), values)


def find_seen(connection: Connection, run_id: int, *, scan: int, keys: Sequence[bytes]) -> set[bytes]:
    """Return which of the documents this scan has had already."""
    found = select(documents.c.key).where(
        documents.c.run_id == run_id, documents.c.scan == scan, documents.c.key.in_(keys)
    )
    return set(connection.execute(found).scalars())


def record_documents(connection: Connection, values: Sequence[Values]) -> None:
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


def forget_unseen(connection: Connection, source_id: int, *, run_id: int, scan: int) -> None:
    """Drop what an earlier scan of the run found and this one no longer did; what the run has deleted stays known."""
    unseen = and_(documents.c.run_id == run_id, documents.c.scan != scan, documents.c.state != "deleted")
    keep_intents(connection, source_id, unseen)
    connection.execute(delete(documents).where(unseen))


def fingerprints(connection: Connection, run_id: int, *, after: bytes, limit: int) -> Sequence[AnyRow]:
    """Return (key, external id, fingerprint) of the run's documents behind a key."""
    found = select(documents.c.key, documents.c.external_id, documents.c.fingerprint).where(
        documents.c.run_id == run_id, documents.c.key > after, ~DELETES
    )
    return connection.execute(found.order_by(documents.c.key).limit(limit)).all()


def plan_sends(connection: Connection, run_id: int, *, action: str, keys: Sequence[bytes]) -> None:
    """Plan to send these documents."""
    which = and_(documents.c.run_id == run_id, documents.c.key.in_(keys))
    connection.execute(update(documents).where(which).values(state="planned", action=action))


def unsearchable(connection: Connection, source_id: int, *, run_id: int, keys: Sequence[bytes]) -> set[bytes]:
    """Return which of these documents, as they are, came into quarantine since their index could not be made."""
    found = select(documents.c.key).join(quarantine, quarantine.c.key == documents.c.key)
    same = and_(
        quarantine.c.source_id == source_id,
        quarantine.c.part == 1,
        quarantine.c.code == "indexing_failed",
        quarantine.c.fingerprint == documents.c.fingerprint,
    )
    which = and_(documents.c.run_id == run_id, documents.c.key.in_(keys), documents.c.state == "found")
    return set(connection.execute(found.where(which, same)).scalars())


def leave_unasked(connection: Connection, source_id: int, *, run_id: int, scan: int) -> None:
    """Set documents that this run has not sent and still would ask after to FAILED; they stay in quarantine."""
    unasked = and_(documents.c.run_id == run_id, documents.c.state == "uploaded", documents.c.action.is_(None))
    ours = and_(quarantine.c.source_id == source_id, quarantine.c.part == 1)
    same = exists().where(unasked, documents.c.key == quarantine.c.key)
    connection.execute(update(quarantine).where(ours, same).values(scan=scan))
    connection.execute(update(documents).where(unasked).values(state="failed"))


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


def page(
    connection: Connection, run_id: int, *, state: str, deleting: bool, after: bytes, last: bytes, limit: int
) -> Sequence[AnyRow]:
    """Return documents in a state, by key, behind `after` and up to `last`; those to delete, or the others."""
    found = select(documents).where(
        documents.c.run_id == run_id,
        documents.c.state == state,
        documents.c.key > after,
        documents.c.key <= last,
        DELETES if deleting else ~DELETES,
    )
    return connection.execute(found.order_by(documents.c.key).limit(limit)).all()


def update_document(connection: Connection, run_id: int, key: bytes, values: Values) -> None:
    """Set members of a document."""
    which = and_(documents.c.run_id == run_id, documents.c.key == key)
    connection.execute(update(documents).where(which).values(**values))


def counts(connection: Connection, run_id: int) -> Sequence[AnyRow]:
    """Return (state, action, documents, bytes sent) of the run."""
    found = select(
        documents.c.state,
        documents.c.action,
        func.count().label("number"),
        func.sum(documents.c.sent_bytes).label("sent"),
    ).where(documents.c.run_id == run_id)
    return connection.execute(found.group_by(documents.c.state, documents.c.action)).all()


def count_known(connection: Connection, run_id: int) -> int:
    """Return how many of the documents that the run has found were in the catalog before it."""
    asked_after = and_(documents.c.state.in_(("uploaded", "indexed")), documents.c.action.is_(None))
    before = or_(documents.c.state == "unchanged", documents.c.action == "update", asked_after)
    found = select(func.count()).where(documents.c.run_id == run_id, ~DELETES, before)
    return connection.execute(found).scalar_one()


def count_found(connection: Connection, run_id: int, *, scan: int) -> int:
    """Return how many documents this scan has found."""
    found = select(func.count()).where(documents.c.run_id == run_id, documents.c.scan == scan, ~DELETES)
    return connection.execute(found).scalar_one()
