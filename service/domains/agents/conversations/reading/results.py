"""A finished turn as the `sendChatResult` of v0 (seed, "POST /api/v0/copilots/sendMessage")."""

from carrel.wire.replies import AiResponseResult, BlockedResult, InsertedAuditLog, ReplyMessage, SendChatResult
from service.domains.agents.conversations.reading.turns import WITHHELD_REPLY, SeenTurn
from service.domains.agents.definitions.service import unknown_agent
from service.platform.errors import RETRY_SECONDS, ServiceError, Unavailable, internal_error


def result_of(turn: SeenTurn) -> SendChatResult:
    """Convert a finished turn to the result of a message; raise the error of a failed turn."""
    if turn.status == "FAILED":
        raise _failure(turn)
    entry = InsertedAuditLog(id=turn.audit_log_id)
    if turn.status == "WITHHELD":
        return BlockedResult(
            conversation_id=turn.row.conversation_id,
            blocks=[WITHHELD_REPLY],
            warnings=turn.warnings,
            inserted_audit_log=entry,
        )
    return AiResponseResult(
        conversation_id=turn.row.conversation_id,
        message_id=turn.turn_id,
        response=ReplyMessage(message=turn.text or ""),
        referenced_sources=list(turn.cited),
        sources_in_data_context=list(turn.sources),
        warnings=turn.warnings,
        inserted_audit_log=entry,
    )


def _failure(turn: SeenTurn) -> ServiceError:
    """Build the error that a turn failed with; other errors than an unknown agent or an internal one can be retried."""
    code, message = turn.error
    for known in (unknown_agent(), internal_error()):
        if code == known.code:
            return known
    return Unavailable(message, code=code, retry_after=turn.row.retry_after or RETRY_SECONDS)
