"""agents/* and conversations on v1: a person's message becomes a job, to fetch or watch."""

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from carrel.wire import conversations as wire
from carrel.wire import messages
from carrel.wire.agents import LIST_AGENTS
from service.domains.agents.conversations import changes, streaming
from service.domains.agents.conversations.messages import begin_turn
from service.domains.agents.conversations.models import Message
from service.domains.agents.conversations.reading import turns
from service.domains.agents.conversations.reading.turns import job_of, see_job
from service.domains.agents.definitions.service import list_deployed_agents
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.idempotency import AttemptDep
from service.web.routing import Router

router = Router()
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {streaming.MEDIA_TYPE: {}}, "description": "The job's events, until it is done."}
}


@router.operation(messages.SEND_AGENT_MESSAGE, own_key=True)
async def send_message(
    request: messages.SendAgentMessageRequest, runtime: RuntimeDep, caller: CallerDep, attempt: AttemptDep
) -> messages.SendAgentMessageResponse:
    """Send a message to an agent deployed to the caller; the answer is the job of the reply."""
    existing = request.conversation if isinstance(request.conversation, messages.ExistingConversation) else None
    message = Message(request.agent_id, request.message, existing and existing.conversation_id)
    return await begin_turn(runtime, attempt, caller, message=message, by_program=False)


@router.operation(messages.FETCH_AGENT_RESPONSE)
async def fetch_agent_response(
    request: Annotated[messages.FetchAgentResponseRequest, Query()],
    runtime: RuntimeDep,
    connection: ConnectionDep,
    caller: CallerDep,
) -> messages.FetchAgentResponseResponse:
    """Show the progress of the caller's job, and the reply when the job is done."""
    return job_of(await see_job(runtime, connection, caller, job_id=request.job_id))


@router.operation(messages.STREAM_AGENT_RESPONSE, response_class=StreamingResponse, responses=STREAM)
async def stream_agent_response(
    request: Annotated[messages.FetchAgentResponseRequest, Query()], http: Request, runtime: RuntimeDep
) -> StreamingResponse:
    """Send the progress of the caller's job as server-sent events; `Last-Event-ID` continues an interrupted stream."""
    position = streaming.Position.read(http)
    turn = await streaming.read_job(runtime, http, job_id=request.job_id)
    look = partial(streaming.read_job, runtime, http, job_id=request.job_id)
    events = streaming.stream_events(http, turn=turn, position=position, look=look, tell=streaming.job_events)
    return StreamingResponse(events, media_type=streaming.MEDIA_TYPE, headers=streaming.HEADERS)


router.read(LIST_AGENTS, list_deployed_agents)
router.serve(messages.PROVIDE_AGENT_MESSAGE_FEEDBACK, changes.give_feedback, acting=False)
router.read(wire.LIST_CONVERSATIONS, turns.list_conversations)
router.serve(wire.RENAME_CONVERSATION, changes.rename_conversation)
router.serve(wire.DELETE_CONVERSATION, changes.delete_conversation)
router.serve(wire.SHARE_CONVERSATION, changes.share_conversation)


@router.operation(wire.GET_CONVERSATION)
async def get_conversation(
    conversationId: UUID,  # noqa: N803 - as the address has it
    request: Annotated[wire.GetConversationRequest, Query()],
    connection: SnapshotDep,
    caller: CallerDep,
) -> wire.GetConversationResponse:
    """Show the messages of a conversation, oldest first: the caller's own, or shared with the caller."""
    return await turns.get_conversation(connection, caller, conversation_id=conversationId, request=request)
