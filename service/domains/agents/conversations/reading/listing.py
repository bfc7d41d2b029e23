"""Listing a person's own conversations, and the messages of one of them."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import conversations as wire
from service.auth.authorization import messageable_agents
from service.auth.callers import Caller
from service.domains.agents.conversations.reading import queries
from service.domains.agents.conversations.reading.queries import WalkPosition
from service.domains.agents.conversations.reading.turns import WITHHELD_REPLY, SeenTurn, see_turns
from service.platform.errors import NotFound
from service.web.pagination import Cursor

TITLE_CHARACTERS = 80


async def list_conversations(
    connection: Connection, caller: Caller, *, request: wire.ListConversationsRequest
) -> wire.ListConversationsResponse:
    """List the caller's own conversations that no program began, the latest first."""
    cursor = Cursor.read(caller, operation=wire.LIST_CONVERSATIONS.path, request=request)
    rows = await queries.list_conversations(
        connection,
        caller,
        agent_ids=_select_agents(caller, request.agent_id),
        words=(request.query or "").split(),
        position=_read_position(cursor),
        limit=cursor.limit,
    )
    began = cursor.after[0] if cursor.after else rows[0].touched.isoformat() if rows else ""
    page = cursor.page(rows, position=lambda row: [began, row.touched.isoformat(), str(row.conversation_id)])
    return wire.ListConversationsResponse(
        conversations=[to_conversation(row) for row in page.items], next_page_token=page.next_page_token
    )


async def get_conversation(
    connection: Connection, caller: Caller, *, conversation_id: UUID, request: wire.GetConversationRequest
) -> wire.GetConversationResponse:
    """Return a page of the messages of one of the caller's conversations; NotFound for any other conversation."""
    cursor = Cursor.of(
        caller,
        operation=wire.GET_CONVERSATION.path,
        parameters={"conversationId": str(conversation_id)},
        page_size=request.page_size,
        page_token=request.page_token,
    )
    conversation = await require_own(connection, caller, conversation_id)
    after = int(cursor.after[0]) if cursor.after else 0
    rows = await queries.list_turns(
        connection, caller, conversation_id=conversation_id, after=after, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: [str(row.turn_no)])
    return wire.GetConversationResponse(
        conversation=to_conversation(conversation),
        messages=[_message(turn) for turn in await see_turns(connection, caller, rows=page.items)],
        next_page_token=page.next_page_token,
    )


async def require_own(connection: Connection, caller: Caller, conversation_id: UUID) -> queries.StoredConversation:
    """Return one of the caller's conversations with an agent that they may message; NotFound for any other."""
    conversation = await queries.find_conversation(
        connection, caller, conversation_id=conversation_id, agent_ids=messageable_agents(caller)
    )
    if conversation is None:
        raise unknown_conversation()
    return conversation


def _select_agents(caller: Caller, agent_id: UUID | None) -> Sequence[UUID] | frozenset[UUID] | None:
    allowed = messageable_agents(caller)
    if agent_id is None:
        return allowed
    return [agent_id] if allowed is None or agent_id in allowed else []


def _read_position(cursor: Cursor) -> WalkPosition | None:
    if not cursor.after:
        return None
    began, touched, last_id = cursor.after
    return WalkPosition(datetime.fromisoformat(began), datetime.fromisoformat(touched), UUID(last_id))


def to_conversation(row: queries.StoredConversation) -> wire.Conversation:
    line = " ".join((row.beginning or "").split())
    title = line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"
    more = {"title": title, "message_count": row.length}
    return wire.Conversation.model_validate(asdict(row) | more)


def _message(turn: SeenTurn) -> wire.ConversationMessage:
    status = wire.MessageStatus(turn.status)
    withheld = WITHHELD_REPLY if status is wire.MessageStatus.WITHHELD else None
    return wire.ConversationMessage(
        message_id=turn.turn_id,
        created_at=turn.row.created_at,
        message=turn.row.message,
        status=status,
        agent_response_text=turn.text if status is wire.MessageStatus.COMPLETED else None,
        referenced_sources=list(turn.cited),
        warnings=turn.warnings,
        error_message=withheld or turn.row.error_message,
        feedback=turn.row.feedback,
    )


def unknown_conversation() -> NotFound:
    """Return the one error for a conversation that is unknown, another person's, or with another agent."""
    return NotFound(
        "You have no such conversation with this agent. Check the conversationId, or leave it out to begin a new one.",
        code="conversation_not_found",
    )
