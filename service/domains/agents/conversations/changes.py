"""Changing, sharing and deleting conversations, and feedback. The audit log has no words: words must be deletable."""

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import conversations as wire
from carrel.wire.common import UserReference
from carrel.wire.messages import ProvideMessageFeedbackRequest, ProvideMessageFeedbackResponse
from service.audit.service import find_author, record, record_feedback
from service.auth.authorization import authorize_message
from service.auth.callers import Caller
from service.domains.agents.conversations import queries
from service.domains.agents.conversations.reading.turns import require_own, shorten_title, unknown_conversation
from service.identity.principals import resolve
from service.platform.errors import Conflict, NotFound


async def rename_conversation(
    connection: Connection, caller: Caller, *, request: wire.RenameConversationRequest
) -> wire.RenameConversationResponse:
    """Rename a conversation of the caller. NotFound for any other conversation."""
    conversation = await require_own(connection, caller, request.conversation_id)
    title = request.title.strip()
    await queries.set_title(connection, caller, conversation_id=request.conversation_id, title=title)
    return wire.RenameConversationResponse(**dict(shorten_title(conversation.model_copy(update={"title": title}))))


async def share_conversation(
    connection: Connection, caller: Caller, *, request: wire.ShareConversationRequest
) -> wire.ShareConversationResponse:
    """Set the people who may read a conversation of the caller. NotFound for any other conversation, 400
    `unknown_principal` for an address without an active user of the organization."""
    conversation_id = request.conversation_id
    agent_id = (await require_own(connection, caller, conversation_id)).agent_id
    named = await resolve(
        connection,
        caller.organization_id,
        references=[(f"readers.{place}", UserReference(email=email)) for place, email in enumerate(request.readers)],
        may_be_named=lambda principal, _place: principal.kind == "user" and principal.active,
    )
    # another request may have deleted it
    if not await queries.lock_conversation(connection, caller, conversation_id=conversation_id, agent_id=agent_id):
        raise unknown_conversation()
    readers = {item.principal_id for item in named} - {caller.principal_id}
    added, removed = await queries.replace_readers(
        connection, caller, conversation_id=conversation_id, principal_ids=readers
    )
    if added or removed:
        changes = {"added": list(map(str, added)), "removed": list(map(str, removed))}
        details = {"conversationId": str(conversation_id), **changes}
        await record(connection, caller, "conversation.share", "agent", agent_id, details=details)
    shared = await require_own(connection, caller, conversation_id)
    return wire.ShareConversationResponse(**dict(shorten_title(shared)))


async def delete_conversation(
    connection: Connection, caller: Caller, *, request: wire.DeleteConversationRequest
) -> wire.DeleteConversationResponse:
    """Permanently delete a conversation of the caller, with audit. NotFound for any other conversation."""
    conversation_id = request.conversation_id
    conversation = await require_own(connection, caller, conversation_id)
    count = await queries.erase_conversation(connection, caller, conversation_id=conversation_id)
    if not count:  # another request has deleted it
        raise unknown_conversation()
    details = {"conversationId": str(conversation_id), "messages": count}
    await record(connection, caller, "conversation.delete", "agent", conversation.agent_id, details=details)
    return wire.DeleteConversationResponse(conversation_id=conversation_id)


async def give_feedback(
    connection: Connection, caller: Caller, *, request: ProvideMessageFeedbackRequest
) -> ProvideMessageFeedbackResponse:
    """Record feedback on a reply in the audit log: by the recipient, or an admin on any reply. 404, 409 `no_reply`."""
    author = await find_author(connection, caller, user_email=request.user_email)
    agent_id, message_id, feedback = request.agent_id, request.message_id, request.message_feedback
    authorize_message(author.caller, agent_id)
    verdict = feedback.feedback.value
    # A refusal below rolls this back with the request's transaction.
    keys = {"turn_id": message_id, "agent_id": agent_id}
    turn = await queries.note_feedback(
        connection, caller.organization_id, **keys, principal_ids=author.subject_ids, feedback=verdict
    )
    if turn is None:
        raise NotFound(
            "You have no such message. Send the messageId of a reply that you were given.", code="message_not_found"
        )
    if turn.status != queries.COMPLETED:
        raise Conflict("There is no reply to this message. Give feedback when there is one.", code="no_reply")
    suggested = feedback.suggested_answer and f"Suggested answer: {feedback.suggested_answer}"
    audit_log_id = await record_feedback(
        connection,
        author,
        action="agent.feedback",
        target_type="message",
        target_id=message_id,
        details={"agentId": str(agent_id), "conversationId": str(turn.conversation_id), "feedback": verdict},
        texts=[feedback.descriptive_feedback, suggested],
    )
    return ProvideMessageFeedbackResponse(audit_log_id=audit_log_id)
