"""What people think of the replies they were given; on the audit log, the words where they can be erased."""

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.conversations import (
    MessageFeedback,
    ProvideMessageFeedbackRequest,
    ProvideMessageFeedbackResponse,
)
from service.audit.service import record
from service.auth.authorization import authorize_message
from service.auth.callers import Caller, acting_for
from service.domains.conversations import queries
from service.domains.conversations.reading.queries import find_turn
from service.domains.conversations.reading.turns import unknown_message
from service.platform.errors import Conflict


async def give_feedback(
    connection: AsyncConnection, caller: Caller, *, request: ProvideMessageFeedbackRequest
) -> ProvideMessageFeedbackResponse:
    """Keep feedback on a reply to the caller, on the audit log. The last verdict stands with the reply.

    Raises Forbidden for an access token for other agents, NotFound for what is no reply of this agent to the caller,
    and Conflict `no_reply` while there is none, or when the message failed.
    """
    caller = await acting_for(connection, caller, request.user_email)
    agent_id, message_id, feedback = request.agent_id, request.message_id, request.message_feedback
    authorize_message(caller, agent_id)
    turn = await find_turn(connection, caller, turn_id=message_id, agent_ids=[agent_id])
    if turn is None:
        raise unknown_message()
    if turn.status != queries.COMPLETED:
        raise Conflict("There is no reply to this message. Give feedback when there is one.", code="no_reply")
    verdict = feedback.feedback.value
    await queries.note_feedback(connection, caller.organization_id, turn_id=message_id, feedback=verdict)
    details = {"agentId": str(agent_id), "conversationId": str(turn.conversation_id), "feedback": verdict}
    audit_log_id = await record(
        connection,
        caller,
        action="agent.feedback",
        target_type="message",
        target_id=message_id,
        details=details,
        text=_join_texts(feedback),
    )
    return ProvideMessageFeedbackResponse(audit_log_id=audit_log_id)


def _join_texts(feedback: MessageFeedback) -> str:
    suggested = feedback.suggested_answer and f"Suggested answer: {feedback.suggested_answer}"
    return "\n\n".join(part for part in (feedback.descriptive_feedback, suggested) if part)
