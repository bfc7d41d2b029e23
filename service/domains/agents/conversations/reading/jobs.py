"""A turn as the job that v1 shows: to its sender alone, for 24 hours after the message was sent."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.messages import AgentResponse, CompletedJob, FailedJob, FetchAgentResponseResponse, RunningJob
from service.auth.authorization import messageable_agents
from service.auth.callers import Caller
from service.domains.agents.conversations.reading.turns import WITHHELD_REPLY, SeenTurn, see_turn
from service.platform.errors import NotFound
from service.runtime import Runtime

KEPT = timedelta(hours=24)


async def see_job(runtime: Runtime, connection: AsyncConnection, caller: Caller, *, job_id: UUID) -> SeenTurn:
    """Return the turn of one of the caller's jobs.

    Raises NotFound for another's job, for agents that the caller's token isn't for, and 24 hours after the message.
    """
    turn = await see_turn(connection, caller, turn_id=job_id, agent_ids=messageable_agents(caller))
    now = await runtime.clock.now(connection)
    if turn is None or turn.row.created_at <= now - KEPT:
        raise NotFound(
            "You have no such job. Send the jobId that sendMessage gave you; it is good for 24 hours.",
            code="job_not_found",
        )
    return turn


def job_of(turn: SeenTurn) -> FetchAgentResponseResponse:
    """Convert a turn to the response of fetchAgentResponse."""
    if turn.status == "RUNNING":
        return RunningJob(partial_text=turn.text or None)
    if turn.status == "FAILED":
        code, message = turn.error
        return FailedJob(error_message=message, error_code=code)
    if turn.status == "WITHHELD":
        return FailedJob(error_message=WITHHELD_REPLY, error_code="reply_withheld")
    result = AgentResponse(
        agent_response_text=turn.text or "",
        message_id=turn.turn_id,
        referenced_sources=list(turn.cited),
        warnings=turn.warnings,
        audit_log_id=turn.audit_log_id,
    )
    return CompletedJob(result=result, conversation_id=turn.row.conversation_id)
