"""The job, at most one for a conversation, to answer the next turn as the sender, with the sender's current rights."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from psycopg import Error as DriverError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.agents import AgentDefinition
from service.audit.service import Change, record_later
from service.auth.callers import Caller, reload_caller
from service.domains.agents import answering
from service.domains.agents.answering.models import Assignment, Citation, Exchange, Passage, Reply
from service.domains.agents.conversations import queries
from service.domains.agents.conversations.drafts import Draft, Superseded, to_stored_passages
from service.domains.agents.conversations.models import Work
from service.domains.agents.definitions.queries import get_deployed_agent
from service.domains.agents.definitions.service import unknown_agent
from service.identity.queries import organization_ids
from service.platform.background import for_each_organization
from service.platform.errors import (
    Forbidden,
    InsufficientStorage,
    ServiceError,
    Unavailable,
    from_database,
    internal_error,
    require,
)
from service.platform.logs import begin_request, logger
from service.runtime import Runtime
from service.runtime.jobs.models import Task
from service.runtime.jobs.running import refuse_deadly

FAILED, COMPLETED, WITHHELD = "failed", "completed", "withheld"
# The most earlier exchanges that the model gets; a setting limits their text.
MOST_EXCHANGES = 50
# The job fails this long after the reply's own deadline, in case that deadline is not kept.
SPARE_SECONDS = 30


async def answer_turn(runtime: Runtime, *, organization_id: UUID, turn_id: UUID) -> None:
    """Answer a running turn from the beginning. Connection errors of the database are raised, to put the job back."""
    started = await _start(runtime, organization_id, turn_id)
    if started is None:
        return
    draft, assignment = started
    try:
        outcome = await _outcome(runtime, draft, assignment)
    except Superseded:
        return
    await _finish(runtime, draft, outcome)


ANSWER_TURN = Task("answer_turn", answer_turn)


async def enqueue_next(
    runtime: Runtime, connection: Connection, organization_id: UUID, *, conversation_id: UUID
) -> None:
    """Enqueue a job for the first unanswered turn of a locked conversation in which no job is running."""
    turn_id = await queries.find_next_running(connection, organization_id, conversation_id=conversation_id)
    if turn_id is not None:
        await runtime.jobs.enqueue(connection, ANSWER_TURN, organization_id=organization_id, turn_id=turn_id)


async def _start(runtime: Runtime, organization_id: UUID, turn_id: UUID) -> tuple[Draft, Assignment] | None:
    """Begin an attempt; None if the turn is over, or fails now because the sender may not have an answer."""
    async with runtime.database.transaction(organization_id) as connection:
        await queries.lock_conversation_of(connection, organization_id, turn_id=turn_id)
        work = await queries.begin_attempt(connection, organization_id, turn_id=turn_id)
        if work is None:
            return None
        begin_request(work.origin.request_id)
        try:
            caller, agent = await _sender(runtime, connection, work)
        except ServiceError as error:
            await _fail(runtime, connection, work, attempt=work.attempt, error=error)
            return None
        history = await queries.list_history(
            connection, caller, conversation_id=work.conversation_id, before=work.turn_no, limit=MOST_EXCHANGES
        )
        carried = await queries.list_documents_under(
            connection, organization_id, turn_ids=[exchange.turn_id for exchange in history]
        )
    assignment = Assignment(
        sender=partial(_present_sender, runtime, work),
        message=work.message,
        instructions=agent.instructions,
        model=agent.model,
        collection_ids=agent.collection_ids,
        history=[Exchange(exchange.message, exchange.reply) for exchange in reversed(history)],
        retrieval=agent.retrieval,
    )
    return Draft(runtime, work, carried=carried), assignment


async def _sender(runtime: Runtime, connection: Connection, work: Work) -> tuple[Caller, AgentDefinition]:
    """Return the message's sender with current rights, and the agent; raise the reason not to answer."""
    caller = await reload_caller(
        connection,
        work.organization_id,
        principal_id=work.origin.principal_id,
        credential_id=work.origin.credential_id,
        acting_through=work.origin.acting_through,
        keys=runtime.keys,
    )
    gone = Forbidden("The person who sent this message is no longer active. Ask an admin.", code="sender_inactive")
    caller = require(caller, gone)
    if work.collection_ids is not None:
        caller = replace(caller, collection_ids=frozenset(work.collection_ids))
    return caller, require(await get_deployed_agent(connection, caller, agent_id=work.agent_id), unknown_agent())


async def _present_sender(runtime: Runtime, work: Work) -> Caller:
    async with runtime.database.transaction(work.organization_id, read_only=True) as connection:
        caller, _ = await _sender(runtime, connection, work)
    return caller


async def _outcome(runtime: Runtime, draft: Draft, assignment: Assignment) -> Reply | ServiceError:
    """Return the reply, or the error to save; raises Superseded, and errors of a database out of reach."""
    try:
        refuse_deadly()
        async with asyncio.timeout(runtime.settings.model_seconds + SPARE_SECONDS):
            return await answering.answer(runtime, assignment, progress=draft)
    except Superseded:
        raise
    except ServiceError as error:
        return error
    except TimeoutError:
        return Unavailable("The reply took too long, and was cancelled. Send the message again.", code="reply_timeout")
    except Exception as error:
        away = isinstance(error, DBAPIError) and isinstance(from_database(error), Unavailable | InsufficientStorage)
        if away or isinstance(error, (DriverError, PoolTimeoutError)):
            raise
        logger.exception("reply_failed", turn_id=str(draft.work.turn_id))
        return internal_error()


async def _finish(runtime: Runtime, draft: Draft, outcome: Reply | ServiceError) -> None:
    """Save a reply if the sender still has rights, else an error."""
    work = draft.work
    async with runtime.database.transaction(work.organization_id) as connection:
        await queries.lock_conversation_of(connection, work.organization_id, turn_id=work.turn_id)
        try:
            if isinstance(outcome, ServiceError):
                raise outcome
            caller, _ = await _sender(runtime, connection, work)
        except ServiceError as error:
            await _fail(runtime, connection, work, attempt=draft.attempt, error=error)
        else:
            await _complete(runtime, connection, caller, draft, reply=outcome)


EVERY_SECONDS = 60
AT_ONCE = 100
# Longer than any reply may take, so that no reply is given up while a worker makes it.
PATIENCE = timedelta(minutes=10)


async def expire_turns(runtime: Runtime) -> int:
    """Fail up to AT_ONCE abandoned turns of each organization; return the number of turns."""
    expired: list[UUID] = []
    patience = PATIENCE + timedelta(seconds=2 * runtime.settings.model_seconds)
    lost = Unavailable("The service lost this message before it was answered. Send it again.", code="reply_lost")

    async def expire(organization_id: UUID) -> None:
        async with runtime.database.transaction(organization_id) as connection:
            before = await runtime.clock.now(connection) - patience
            found = await queries.list_abandoned(connection, organization_id, before=before, limit=AT_ONCE)
        for turn_id in found:
            async with runtime.database.transaction(organization_id) as connection:
                await queries.lock_conversation_of(connection, organization_id, turn_id=turn_id)
                work = await queries.get_work(connection, organization_id, turn_id=turn_id)
                if work is not None:
                    await _fail(runtime, connection, work, attempt=work.attempt, error=lost)
                    expired.append(turn_id)

    await for_each_organization(await organization_ids(runtime.database), expire)
    return len(expired)


async def _complete(runtime: Runtime, connection: Connection, caller: Caller, draft: Draft, *, reply: Reply) -> None:
    """Save a reply, record it, and enqueue the next turn, unless another attempt has the turn."""
    work = draft.work
    cited = list(dict.fromkeys(citation.passage_no for citation in reply.citations))
    resting = cited if reply.quotes_only else range(len(reply.passages))
    passages = to_stored_passages(reply.passages, resting=resting)
    if not reply.quotes_only:
        passages += draft.carried
    values = {
        "status": queries.COMPLETED,
        "attempt": draft.next_attempt(reply.text),
        "reply": reply.text,
        "citations": [_to_stored_citation(item, reply.passages[item.passage_no]) for item in reply.citations],
        "warnings": list(reply.warnings),
        "model": reply.model,
    }
    if await queries.end_turn(connection, work, attempt=draft.attempt, values=values):
        await queries.replace_passages(connection, work.organization_id, turn_id=work.turn_id, passages=passages)
        documents = [str(fromkey) for fromkey in dict.fromkeys(reply.passages[number].document_id for number in cited)]
        withheld = await queries.is_withheld(connection, caller, turn_id=work.turn_id)
        status = WITHHELD if withheld else COMPLETED
        await _record_end(runtime, connection, work, status=status, documentIds=documents)


def _to_stored_citation(citation: Citation, passage: Passage) -> dict[str, Any]:
    """Return a citation as stored. Older replies lack the last five members."""
    part = passage.find(citation.quote)
    return {
        "passageNo": citation.passage_no,
        "quote": citation.quote,
        "collectionId": None if passage.collection_id is None else str(passage.collection_id),
        "chunkNo": None if passage.collection_id is None else part.chunk_no,
        "version": passage.version,
        "unsupported": list(citation.unsupported),
        "place": part.place and part.place.model_dump(mode="json", exclude_none=True),
    }


async def _fail(runtime: Runtime, connection: Connection, work: Work, *, attempt: int, error: ServiceError) -> None:
    """Save a turn's error, record it, and enqueue the next turn, unless another attempt has the turn."""
    retry_after = error.headers.get("Retry-After")
    values = {
        "status": queries.FAILED,
        "reply": None,
        "error_code": error.code,
        "error_message": error.message,
        "retry_after": None if retry_after is None else int(retry_after),
    }
    if await queries.end_turn(connection, work, attempt=attempt, values=values):
        await queries.replace_passages(connection, work.organization_id, turn_id=work.turn_id, passages=())
        await _record_end(runtime, connection, work, status=FAILED, code=error.code)


async def _record_end(runtime: Runtime, connection: Connection, work: Work, **details: object) -> None:
    """Record the end of a turn in the audit log, and enqueue the conversation's next turn."""
    place = {"agentId": str(work.agent_id), "conversationId": str(work.conversation_id), "messageId": str(work.turn_id)}
    change = Change("agent.message", "agent", work.agent_id, {**place, **details})
    entry_id = await record_later(connection, work.organization_id, origin=work.origin, change=change)
    await queries.set_audit_log_id(connection, work.organization_id, turn_id=work.turn_id, audit_log_id=entry_id)
    await enqueue_next(runtime, connection, work.organization_id, conversation_id=work.conversation_id)
