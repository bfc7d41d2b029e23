"""Renaming and deleting a conversation, which the person whose conversation it is does."""

from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import conversations as wire
from service.audit.service import record
from service.auth.callers import Caller
from service.domains.agents.conversations import queries
from service.domains.agents.conversations.reading.listing import require_own, to_conversation


async def rename_conversation(
    connection: Connection, caller: Caller, *, request: wire.RenameConversationRequest
) -> wire.RenameConversationResponse:
    """Give one of the caller's conversations another title; NotFound for any other conversation."""
    conversation = await require_own(connection, caller, request.conversation_id)
    title = request.title.strip()
    await queries.set_title(connection, caller, conversation_id=request.conversation_id, title=title)
    return wire.RenameConversationResponse(**dict(to_conversation(replace(conversation, beginning=title))))


async def delete_conversation(
    connection: Connection, caller: Caller, *, request: wire.DeleteConversationRequest
) -> wire.DeleteConversationResponse:
    """Delete one of the caller's conversations for good; NotFound for any other conversation."""
    conversation_id = request.conversation_id
    conversation = await require_own(connection, caller, conversation_id)
    count = await queries.erase_conversation(connection, caller, conversation_id=conversation_id)
    details = {"conversationId": str(conversation_id), "messages": count}
    await record(connection, caller, "conversation.delete", "agent", conversation.agent_id, details=details)
    return wire.DeleteConversationResponse(conversation_id=conversation_id)
