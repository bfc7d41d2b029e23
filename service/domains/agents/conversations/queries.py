"""SQL that adds, answers and erases turns of conversations."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.places import PassagePlace
from service.auth.callers import Caller
from service.domains.agents.conversations.models import Work
from service.domains.agents.conversations.question_log.queries import end_erased, log_turn
from service.domains.agents.conversations.reading.queries import is_own, is_withheld_from
from service.platform.sql import (
    columns_of,
    delete_rows,
    find_row,
    find_rows,
    in_array,
    matches,
    optional_in,
    rows_of,
    update_rows,
)
from service.schema.conversations import (
    COMPLETED,
    FAILED,
    RUNNING,
    conversation_readers,
    conversations,
    turn_passages,
    turns,
)

# The job queue's library owns this table (`service.runtime.jobs`); a job's arguments contain ids.
_JOBS = sa.table("procrastinate_jobs", sa.column("id", sa.BigInteger), sa.column("args", JSONB))


@dataclass(frozen=True)
class StoredPassage:
    """A row of a turn's passages; passages without a text have numbers below zero."""

    passage_no: int
    document_id: UUID
    text: str | None
    place: PassagePlace | None
    rests_on: bool


@dataclass(frozen=True, slots=True)
class CompletedTurn:
    turn_id: UUID
    message: str
    reply: str


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    conversation_id: UUID
    status: str


async def lock_conversation(connection: Connection, caller: Caller, *, conversation_id: UUID, agent_id: UUID) -> bool:
    """Lock the caller's conversation; False if unknown. Adding or ending a turn locks first, to keep the order."""
    key = {"conversation_id": conversation_id, "principal_id": caller.principal_id, "agent_id": agent_id}
    own = sa.select(conversations.c.conversation_id).where(matches(conversations, caller.organization_id, **key))
    return (await connection.execute(own.with_for_update(key_share=True))).one_or_none() is not None


async def lock_conversation_of(connection: Connection, organization_id: UUID, *, turn_id: UUID) -> UUID | None:
    """Lock a turn's conversation, of any principal; return the conversation's id, None when the turn was erased."""
    statement = (
        sa.select(conversations.c.conversation_id)
        .join(turns, turns.c.conversation_id == conversations.c.conversation_id)
        .where(conversations.c.organization_id == organization_id, turns.c.turn_id == turn_id)
        .with_for_update(key_share=True, of=conversations)
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def insert_conversation(connection: Connection, caller: Caller, *, conversation_id: UUID, agent_id: UUID) -> None:
    row = {
        "conversation_id": conversation_id,
        "organization_id": caller.organization_id,
        "agent_id": agent_id,
        "principal_id": caller.principal_id,
        "origin": caller.origin,
    }
    await connection.execute(sa.insert(conversations).values(row))


async def insert_turn(
    connection: Connection, caller: Caller, *, conversation_id: UUID, row: Mapping[str, object]
) -> None:
    """Add a turn at the end of a locked conversation, and set the conversation's `updated_at` to the turn's time."""
    touched = (
        sa.update(conversations)
        .where(matches(conversations, caller.organization_id, conversation_id=conversation_id))
        .values(updated_at=sa.func.greatest(conversations.c.updated_at, sa.func.clock_timestamp()))
        .returning(conversations.c.updated_at)
        .cte("touched")
    )
    last = (
        sa.select(sa.func.coalesce(sa.func.max(turns.c.turn_no), 0))
        .where(matches(turns, caller.organization_id, conversation_id=conversation_id))
        .scalar_subquery()
    )
    values = {
        **row,
        "organization_id": caller.organization_id,
        "conversation_id": conversation_id,
        "turn_no": last + 1,
        "created_at": sa.select(touched.c.updated_at).scalar_subquery(),
    }
    inserted = await connection.execute(sa.insert(turns).values(values).add_cte(touched).returning(turns.c.turn_id))
    await log_turn(connection, caller.organization_id, turn_id=inserted.scalar_one())


async def find_next_running(connection: Connection, organization_id: UUID, *, conversation_id: UUID) -> UUID | None:
    """Return the first RUNNING turn of a conversation; a worker is answering the turn, or will."""
    statement = (
        sa.select(turns.c.turn_id)
        .where(matches(turns, organization_id, conversation_id=conversation_id, status=RUNNING))
        .order_by(turns.c.turn_no)
        .limit(1)
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def rerun_turn(connection: Connection, organization_id: UUID, *, turn_id: UUID) -> bool:
    """Set a failed turn to RUNNING again; return False when it hasn't failed."""
    statement = (
        sa.update(turns)
        .where(matches(turns, organization_id, turn_id=turn_id, status=FAILED))
        .values(
            status=RUNNING, error_code=sa.null(), error_message=sa.null(), retry_after=sa.null(),
            audit_log_id=sa.null(), finished_at=sa.null(),
        )
        .returning(turns.c.turn_id)
    )  # fmt: skip
    failed = (await connection.execute(statement)).one_or_none() is not None
    if failed:
        await log_turn(connection, organization_id, turn_id=turn_id)
    return failed


_WORK = columns_of(turns, Work, conversations.c.conversation_id, conversations.c.principal_id, conversations.c.agent_id)


async def begin_attempt(connection: Connection, organization_id: UUID, *, turn_id: UUID) -> Work | None:
    """Begin an attempt to answer a running turn, and void earlier attempts. Return its work; None if not running."""
    statement = (
        sa.update(turns)
        .where(
            matches(turns, organization_id, turn_id=turn_id, status=RUNNING),
            conversations.c.conversation_id == turns.c.conversation_id,
        )
        .values(attempt=turns.c.attempt + 1, reply=sa.null())
        .returning(*_WORK)
    )
    return await find_row(connection, statement, Work)


async def get_work(connection: Connection, organization_id: UUID, *, turn_id: UUID) -> Work | None:
    """Return the work of a running turn, without beginning an attempt; None for any other turn."""
    statement = (
        sa.select(*_WORK)
        .join(conversations, conversations.c.conversation_id == turns.c.conversation_id)
        .where(matches(turns, organization_id, turn_id=turn_id, status=RUNNING))
    )
    return await find_row(connection, statement, Work)


async def update_turn(
    connection: Connection, organization_id: UUID, *, turn_id: UUID, attempt: int, values: Mapping[str, object]
) -> bool:
    """Update a running turn; False, without a change, if the turn is over or another attempt is the latest."""
    key = {"turn_id": turn_id, "status": RUNNING, "attempt": attempt}
    return await update_rows(connection, turns, organization_id, values, **key) == 1


async def end_turn(connection: Connection, work: Work, *, attempt: int, values: Mapping[str, object]) -> bool:
    """End a running turn, also in the question log; False, without a change, if the attempt is void."""
    organization_id, turn_id, values = work.organization_id, work.turn_id, {**values, "finished_at": sa.func.now()}
    mine = await update_turn(connection, organization_id, turn_id=turn_id, attempt=attempt, values=values)
    if mine:
        await log_turn(connection, organization_id, turn_id=turn_id)
    return mine


async def set_audit_log_id(connection: Connection, organization_id: UUID, *, turn_id: UUID, audit_log_id: UUID) -> None:
    await update_rows(connection, turns, organization_id, {"audit_log_id": audit_log_id}, turn_id=turn_id)


async def list_history(
    connection: Connection, caller: Caller, *, conversation_id: UUID, before: int, limit: int
) -> list[CompletedTurn]:
    """List the completed turns before a turn number, latest first; skip turns withheld from the caller."""
    statement = (
        sa.select(turns.c.turn_id, turns.c.message, turns.c.reply)
        .where(
            matches(turns, caller.organization_id, conversation_id=conversation_id, status=COMPLETED),
            turns.c.turn_no < before,
            ~is_withheld_from(caller),
        )
        .order_by(turns.c.turn_no.desc())
        .limit(limit)
    )
    return await find_rows(connection, statement, CompletedTurn)


async def list_documents_under(
    connection: Connection, organization_id: UUID, *, turn_ids: Sequence[UUID]
) -> Sequence[UUID]:
    """List the ids of the documents that the turns' replies rest on, readable or not."""
    statement = (
        sa.select(turn_passages.c.document_id)
        .where(
            turn_passages.c.organization_id == organization_id,
            in_array(turn_passages.c.turn_id, turn_ids),
            turn_passages.c.rests_on,
        )
        .distinct()
        .order_by(turn_passages.c.document_id)
    )
    return (await connection.execute(statement)).scalars().all()


async def replace_passages(
    connection: Connection, organization_id: UUID, *, turn_id: UUID, passages: Sequence[StoredPassage]
) -> None:
    await delete_rows(connection, turn_passages, organization_id, turn_id=turn_id)
    if not passages:
        return
    columns = [turn_passages.c[name] for name in ("passage_no", "document_id", "text", "place", "rests_on")]
    given = rows_of(columns, [vars(passage) for passage in passages])
    values = sa.select(sa.literal(turn_id), sa.literal(organization_id), *given.c)
    names = ["turn_id", "organization_id", *given.c.keys()]
    await connection.execute(sa.insert(turn_passages).from_select(names, values))


async def is_withheld(connection: Connection, caller: Caller, *, turn_id: UUID) -> bool:
    """Return whether a turn's reply rests on a document hidden from the caller (without READ)."""
    own = matches(turns, caller.organization_id, turn_id=turn_id)
    statement = sa.select(is_withheld_from(caller)).where(own).select_from(turns)
    return (await connection.execute(statement)).scalar_one()


async def note_feedback(
    connection: Connection,
    organization_id: UUID,
    *,
    turn_id: UUID,
    agent_id: UUID,
    principal_ids: Collection[UUID] | None,
    feedback: str,
) -> JudgedTurn | None:
    """Save feedback on an agent's reply to any of the principals (None: anyone), replacing earlier feedback; return the
    turn, or None for an unknown reply."""
    statement = (
        sa.update(turns)
        .where(
            matches(turns, organization_id, turn_id=turn_id),
            conversations.c.conversation_id == turns.c.conversation_id,
            matches(conversations, organization_id, agent_id=agent_id),
            optional_in(conversations.c.principal_id, principal_ids),
        )
        .values(feedback=feedback)
        .returning(turns.c.status, turns.c.conversation_id)
    )
    judged = await find_row(connection, statement, JudgedTurn)
    if judged is not None:
        await log_turn(connection, organization_id, turn_id=turn_id)
    return judged


async def list_abandoned(
    connection: Connection, organization_id: UUID, *, before: datetime, limit: int
) -> Sequence[UUID]:
    """List turns begun before a moment: the first RUNNING turn of each conversation without a job."""
    other = turns.alias("other")
    others = sa.select(other.c.turn_id).where(
        matches(other, organization_id, conversation_id=turns.c.conversation_id, status=RUNNING)
    )
    of_organization = _JOBS.c.args["organization_id"].astext == str(organization_id)
    job = sa.select(_JOBS.c.id).where(
        of_organization, _JOBS.c.args["turn_id"].astext == sa.cast(other.c.turn_id, sa.Text)
    )
    statement = (
        sa.select(turns.c.turn_id)
        .where(
            matches(turns, organization_id, status=RUNNING),
            turns.c.created_at < before,
            ~others.where(other.c.turn_no < turns.c.turn_no).exists(),
            ~others.where(job.exists()).exists(),
        )
        .order_by(turns.c.created_at)
        .limit(limit)
    )
    return (await connection.execute(statement)).scalars().all()


async def delete_conversations_before(
    connection: Connection, organization_id: UUID, *, before: datetime, limit: int
) -> int:
    """Erase up to `limit` conversations not changed since `before`; return the number of their messages."""
    old = (
        sa.select(conversations.c.conversation_id)
        .where(conversations.c.organization_id == organization_id, conversations.c.updated_at < before)
        .order_by(conversations.c.updated_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return await _delete(connection, organization_id, (await connection.execute(old)).scalars().all())


async def delete_conversations_of(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> int:
    """Erase a principal's conversations; return the number of their messages."""
    own = (
        sa.select(conversations.c.conversation_id)
        .where(matches(conversations, organization_id, principal_id=principal_id))
        .order_by(conversations.c.conversation_id)
        .with_for_update()
    )
    return await _delete(connection, organization_id, (await connection.execute(own)).scalars().all())


async def erase_conversation(connection: Connection, caller: Caller, *, conversation_id: UUID) -> int:
    """Erase a conversation of the caller; return the number of messages, 0 for any other conversation."""
    own = sa.select(conversations.c.conversation_id).where(
        is_own(caller, None), conversations.c.conversation_id == conversation_id
    )
    found = (await connection.execute(own.with_for_update())).scalars().all()
    return await _delete(connection, caller.organization_id, found)


async def set_title(connection: Connection, caller: Caller, *, conversation_id: UUID, title: str) -> None:
    own = is_own(caller, None) & (conversations.c.conversation_id == conversation_id)
    await connection.execute(sa.update(conversations).where(own).values(title=title))


async def replace_readers(
    connection: Connection, caller: Caller, *, conversation_id: UUID, principal_ids: Collection[UUID]
) -> tuple[list[UUID], list[UUID]]:
    """Set the readers of a locked conversation; return the added and the removed readers."""
    of_it = matches(conversation_readers, caller.organization_id, conversation_id=conversation_id)
    reader = conversation_readers.c.principal_id
    gone = sa.delete(conversation_readers).where(of_it, ~in_array(reader, principal_ids)).returning(reader)
    removed = (await connection.execute(gone)).scalars().all()
    given = rows_of([reader], [{"principal_id": principal_id} for principal_id in principal_ids])
    values = sa.select(sa.literal(caller.organization_id), sa.literal(conversation_id), *given.c)
    names = ["organization_id", "conversation_id", "principal_id"]
    new = insert(conversation_readers).from_select(names, values).on_conflict_do_nothing().returning(reader)
    return sorted((await connection.execute(new)).scalars().all()), sorted(removed)


async def _delete(connection: Connection, organization_id: UUID, conversation_ids: Sequence[UUID]) -> int:
    # Callers lock conversations before turns, as when turns are added or ended: another order could deadlock.
    are_in = in_array(turns.c.conversation_id, conversation_ids)
    count = await delete_rows(connection, turns, organization_id, are_in)
    await end_erased(connection, organization_id, conversation_ids=conversation_ids)
    for table in (conversation_readers, conversations):
        await delete_rows(connection, table, organization_id, in_array(table.c.conversation_id, conversation_ids))
    return max(count, len(conversation_ids))  # conversations without a message count too: 0 means that nothing was left
