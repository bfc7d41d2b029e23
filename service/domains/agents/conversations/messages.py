"""Sending a message adds the turn and its job in a transaction; a repeated Idempotency-Key returns the same turn."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.agents import AgentDefinition
from carrel.wire.conversations import CreateConversationRequest, CreateConversationResponse
from carrel.wire.messages import SendAgentMessageResponse
from service.auth.authorization import authorize_message
from service.auth.callers import Caller
from service.domains.agents.conversations import queries
from service.domains.agents.conversations.jobs import enqueue_next
from service.domains.agents.conversations.models import Message, fill_in
from service.domains.agents.conversations.reading.turns import unknown_conversation
from service.domains.agents.definitions.queries import get_deployed_agent
from service.domains.agents.definitions.service import unknown_agent
from service.platform.errors import Forbidden, require
from service.platform.identifiers import uuid7
from service.platform.logs import request_id
from service.platform.networks import current_sender
from service.runtime import Runtime
from service.web.idempotency import REPLAYED
from service.web.idempotency import Attempt as Request


async def begin_turn(
    runtime: Runtime, request: Request, caller: Caller, *, message: Message, by_program: bool
) -> SendAgentMessageResponse:
    """Add a turn for the caller's message in the request's transaction; a worker answers later. `by_program`: over v0,
    403 unless the agent allows programs. 404 for agent or conversation. A repeated Idempotency-Key returns its turn."""
    connection = request.connection
    agent = await _require_agent(connection, caller, agent_id=message.agent_id)
    if message.conversation_id is not None:
        # Earlier messages may quote documents outside the collections that the caller is limited to.
        is_beyond = caller.collection_ids is not None
        if is_beyond or not await queries.lock_conversation(
            connection, caller, conversation_id=message.conversation_id, agent_id=agent.agent_id
        ):
            raise unknown_conversation()
    if by_program:
        _require_api_access(agent)
    kept = await request.claim()
    if kept is not None:
        request.response.headers[REPLAYED] = "true"
        return await _repeat(runtime, request, caller, turn_id=UUID(bytes=kept.body))
    begun = await _add(runtime, request, caller, message=message)
    await request.keep(begun.job_id.bytes)
    return begun


async def begin_conversation(
    connection: Connection, caller: Caller, *, request: CreateConversationRequest
) -> CreateConversationResponse:
    """Begin a conversation before the first message; optional, because sendMessage begins a conversation by default.
    Only the caller can continue it. 404 for the agent, 403 `api_access_off`."""
    _require_api_access(await _require_agent(connection, caller, agent_id=request.agent_id))
    conversation_id = uuid7()
    await queries.insert_conversation(connection, caller, conversation_id=conversation_id, agent_id=request.agent_id)
    return CreateConversationResponse(conversation_id=conversation_id)


async def _require_agent(connection: Connection, caller: Caller, *, agent_id: UUID) -> AgentDefinition:
    authorize_message(caller, agent_id)
    return require(await get_deployed_agent(connection, caller, agent_id=agent_id), unknown_agent())


def _require_api_access(agent: AgentDefinition) -> None:
    if not agent.api_access_enabled:
        raise Forbidden(
            "API access is off for this agent. An admin can open it to programs, or a person can ask it on /api/v1.",
            code="api_access_off",
        )


async def _add(runtime: Runtime, request: Request, caller: Caller, *, message: Message) -> SendAgentMessageResponse:
    connection, conversation_id = request.connection, message.conversation_id
    text = await fill_in(connection, caller, message=message)
    if conversation_id is None:
        conversation_id = uuid7()
        await queries.insert_conversation(
            connection, caller, conversation_id=conversation_id, agent_id=message.agent_id
        )
    turn_id = uuid7()
    row = {
        "turn_id": turn_id,
        "credential_id": caller.credential_id,
        "acting_through_id": caller.acting_through,
        "request_id": request_id() or None,
        **current_sender().columns,
        "message": text,
        "collection_ids": None if caller.collection_ids is None else sorted(caller.collection_ids),
    }
    busy = await queries.find_next_running(connection, caller.organization_id, conversation_id=conversation_id)
    await queries.insert_turn(connection, caller, conversation_id=conversation_id, row=row)
    if busy is None:
        await enqueue_next(runtime, connection, caller.organization_id, conversation_id=conversation_id)
    return SendAgentMessageResponse(job_id=turn_id, conversation_id=conversation_id)


async def _repeat(runtime: Runtime, request: Request, caller: Caller, *, turn_id: UUID) -> SendAgentMessageResponse:
    """Return an earlier request's turn, to be answered again if it failed; NotFound if it was erased."""
    connection, organization_id = request.connection, caller.organization_id
    found = await queries.lock_conversation_of(connection, organization_id, turn_id=turn_id)
    conversation_id = require(found, unknown_conversation())  # it may be erased by now
    busy = await queries.find_next_running(connection, organization_id, conversation_id=conversation_id)
    if await queries.rerun_turn(connection, organization_id, turn_id=turn_id) and busy is None:
        await enqueue_next(runtime, connection, organization_id, conversation_id=conversation_id)
    return SendAgentMessageResponse(job_id=turn_id, conversation_id=conversation_id)
