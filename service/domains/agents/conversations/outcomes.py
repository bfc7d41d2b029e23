"""Ending a turn, with a reply or with an error, and recording it on the audit log as its sender's."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.audit.service import Change, record_later
from service.auth.callers import Caller
from service.domains.agents.answering.models import Citation, Passage, Reply
from service.domains.agents.conversations import queries
from service.domains.agents.conversations.drafts import Draft, to_stored_passages
from service.domains.agents.conversations.models import Work
from service.platform.errors import ServiceError

FAILED, COMPLETED, WITHHELD = "failed", "completed", "withheld"


async def complete(connection: Connection, caller: Caller, work: Work, *, draft: Draft, reply: Reply) -> bool:
    """Save a reply as its sender's; False when the turn is no longer this worker's. The conversation is locked."""
    cited = list(dict.fromkeys(citation.passage_no for citation in reply.citations))
    resting = cited if reply.quotes_only else range(len(reply.passages))
    passages = to_stored_passages(reply.passages, resting=resting)
    if not reply.quotes_only:
        passages += draft.carried
    values = {
        "status": queries.COMPLETED,
        "attempt": draft.next_attempt(reply.text),
        "reply": reply.text,
        "citations": [_to_stored_citation(one, reply.passages[one.passage_no]) for one in reply.citations],
        "warnings": list(reply.warnings),
        "model": reply.model,
    }
    if not await _end(connection, work, attempt=draft.attempt, values=values, passages=passages):
        return False
    documents = [str(one) for one in dict.fromkeys(reply.passages[number].document_id for number in cited)]
    withheld = await queries.is_withheld(connection, caller, turn_id=work.turn_id)
    await _record(connection, work, status=WITHHELD if withheld else COMPLETED, documentIds=documents)
    return True


def _to_stored_citation(citation: Citation, passage: Passage) -> dict[str, Any]:
    """Return a citation as it is kept; replies of before have none of the last four members."""
    return {
        "passageNo": citation.passage_no,
        "quote": citation.quote,
        "collectionId": None if passage.collection_id is None else str(passage.collection_id),
        "chunkNo": None if passage.collection_id is None else passage.chunk_no,
        "version": passage.version,
        "unsupported": list(citation.unsupported),
    }


async def fail(connection: Connection, work: Work, *, attempt: int, error: ServiceError) -> bool:
    """Save a turn's error, its conversation locked; return False when the turn is no longer this worker's."""
    retry_after = error.headers.get("Retry-After")
    values = {
        "status": queries.FAILED,
        "reply": None,
        "error_code": error.code,
        "error_message": error.message,
        "retry_after": None if retry_after is None else int(retry_after),
    }
    if not await _end(connection, work, attempt=attempt, values=values, passages=()):
        return False
    await _record(connection, work, status=FAILED, code=error.code)
    return True


async def _end(
    connection: Connection,
    work: Work,
    *,
    attempt: int,
    values: dict[str, Any],
    passages: Sequence[queries.StoredPassage],
) -> bool:
    organization_id, turn_id = work.organization_id, work.turn_id
    if not await queries.end_turn(connection, organization_id, turn_id=turn_id, attempt=attempt, values=values):
        return False
    await queries.replace_passages(connection, organization_id, turn_id=turn_id, passages=passages)
    return True


async def _record(connection: Connection, work: Work, **details: object) -> None:
    place = {"agentId": str(work.agent_id), "conversationId": str(work.conversation_id), "messageId": str(work.turn_id)}
    change = Change("agent.message", "agent", work.agent_id, {**place, **details})
    entry_id = await record_later(connection, work.organization_id, origin=work.origin, change=change)
    await queries.note_entry(connection, work.organization_id, turn_id=work.turn_id, audit_log_id=entry_id)
