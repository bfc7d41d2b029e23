"""Setting the people who may read a conversation."""

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import conversations as wire
from service.audit.service import record
from service.auth.callers import Caller
from service.domains.agents.conversations.queries import lock_conversation
from service.domains.agents.conversations.reading.turns import require_own, to_conversation, unknown_conversation
from service.domains.agents.conversations.sharing import queries
from service.identity.principals import find_people


async def share_conversation(
    connection: Connection, caller: Caller, *, request: wire.ShareConversationRequest
) -> wire.ShareConversationResponse:
    """Set the people who may read a conversation of the caller. NotFound for any other conversation.

    BadRequest names addresses that are unknown in the organization."""
    conversation_id = request.conversation_id
    conversation = await require_own(connection, caller, conversation_id)
    readers = await find_people(connection, caller.organization_id, emails=request.readers, field="readers")
    if not await lock_conversation(
        connection, caller, conversation_id=conversation_id, agent_id=conversation.agent_id
    ):  # another request has deleted it meanwhile
        raise unknown_conversation()
    added, removed = await queries.replace_readers(
        connection,
        caller.organization_id,
        conversation_id=conversation_id,
        principal_ids=readers - {caller.principal_id},
    )
    if added or removed:
        changes = {"added": list(map(str, added)), "removed": list(map(str, removed))}
        details = {"conversationId": str(conversation_id), **changes}
        await record(connection, caller, "conversation.share", "agent", conversation.agent_id, details=details)
    shared = await require_own(connection, caller, conversation_id)
    return wire.ShareConversationResponse(**dict(to_conversation(shared)))
