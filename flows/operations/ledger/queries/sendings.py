"""What a source has sent, over all runs, and what of it the source no longer has."""

from collections.abc import Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    literal,
    null,
    or_,
    select,
    update,
)

from flows.operations.ledger.queries.common import DELETES, Values, insert_into, insert_many
from flows.operations.ledger.rows import Missing, Run, deletion_of, values_of
from flows.operations.ledger.states import Action, State
from flows.operations.ledger.tables import documents, runs, sent, sources
from flows.operations.sources.fingerprint import key_of


def keep_intents(connection: Connection, source_id: int, which: ColumnElement[bool]) -> None:
    """Of documents that may have been sent without anybody having heard of it, keep the fingerprint they had."""
    doubtful = select(literal(source_id), documents.c.key, documents.c.external_id, documents.c.fingerprint).where(
        which, documents.c.action.in_(("create", "update")), documents.c.state.in_(("found", "planned"))
    )
    statement = insert_into(connection, sent).from_select(["source_id", "key", "external_id", "intended"], doubtful)
    intended = {"intended": statement.excluded.intended}
    connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=intended))


def adopt(connection: Connection, run: Run, *, keys: Sequence[bytes]) -> None:
    """Of documents that the catalog has as they are here, keep those as sent that this source had meant to send."""
    intended = exists().where(
        sent.c.source_id == run.source_id, sent.c.key == documents.c.key, sent.c.intended == documents.c.fingerprint
    )
    planned = and_(documents.c.action.in_(("create", "update")), documents.c.state == "found")
    arrived = select(
        literal(run.source_id), documents.c.key, documents.c.external_id, documents.c.fingerprint, null()
    ).where(documents.c.run_id == run.run_id, documents.c.key.in_(keys), or_(planned, intended))
    statement = insert_into(connection, sent).from_select(
        ["source_id", "key", "external_id", "fingerprint", "intended"], arrived
    )
    values = {"fingerprint": statement.excluded.fingerprint, "intended": None}
    connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=values))


def has_intents(connection: Connection, run: Run) -> bool:
    """Say whether there is a document of which nobody knows if it arrived."""
    found = select(exists().where(sent.c.source_id == run.source_id, sent.c.intended.is_not(None)))
    return bool(connection.execute(found).scalar_one())


def keep_sent(connection: Connection, values: Values) -> None:
    """Keep that the source has sent a document, and what it was."""
    statement = insert_into(connection, sent).values(**values, intended=None)
    fresh = {"document_id": values["document_id"], "fingerprint": values["fingerprint"], "intended": None}
    connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=fresh))


def forget_sent(connection: Connection, run: Run, keys: Sequence[bytes]) -> None:
    """Forget that the source has sent documents: they are there no more."""
    connection.execute(delete(sent).where(sent.c.source_id == run.source_id, sent.c.key.in_(keys)))


def find_missing(connection: Connection, run: Run, *, after: bytes, limit: int) -> list[tuple[bytes, Missing]]:
    """Return what the source has sent and the run has not found, by key, behind `after`."""
    found = exists().where(documents.c.run_id == run.run_id, documents.c.key == sent.c.key)
    rows = select(sent).where(sent.c.source_id == run.source_id, sent.c.key > after, ~found)
    return [
        (bytes(row.key), Missing(row.external_id, row.document_id, row.fingerprint, row.intended))
        for row in connection.execute(rows.order_by(sent.c.key).limit(limit))
    ]


def found_by_others(connection: Connection, *, name: str, target: str, external_ids: Sequence[str]) -> set[str]:
    """Return which documents the last run of another source (any but the one of this `name`) has found.

    The other source is one of the same service.
    """
    by_key = {key_of(external_id): external_id for external_id in external_ids}
    found = (
        select(documents.c.key)
        .join(runs, runs.c.run_id == documents.c.run_id)
        .join(sources, sources.c.source_id == runs.c.source_id)
        .where(sources.c.name != name, sources.c.target == target, sources.c.kind == "upload")
        .where(documents.c.key.in_(by_key), ~DELETES)
    )
    return {by_key[bytes(key)] for key in connection.execute(found).scalars()}


def mark(connection: Connection, run: Run, missing: Sequence[Missing], *, state: State) -> None:
    """Keep documents that may be deleted, in a state: nothing deletes those that are FOUND before `confirm`."""
    values = [
        values_of(deletion_of(one), key_of(one.external_id), run) | {"state": state, "action": Action.DELETE}
        for one in missing
    ]
    statement = insert_into(connection, documents)
    fresh = {name: statement.excluded[name] for name in values[0] if name not in {"run_id", "key"}}
    insert_many(connection, statement.on_conflict_do_update(index_elements=["run_id", "key"], set_=fresh), values)


def confirm(connection: Connection, run: Run) -> None:
    """Plan to delete what is marked."""
    marked = and_(documents.c.run_id == run.run_id, DELETES, documents.c.state == "found")
    connection.execute(update(documents).where(marked).values(state="planned"))


def forget_plan(connection: Connection, run: Run) -> None:
    """Forget what was planned to be sent: nobody can have sent it."""
    planned = and_(documents.c.run_id == run.run_id, documents.c.state == "planned", ~DELETES)
    connection.execute(update(documents).where(planned).values(state="found", action=None))
