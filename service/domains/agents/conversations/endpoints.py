"""copilots/* on v0: messages to agents from programs, answered within the request. agents/* and conversations on v1: a
person's message becomes a job, to fetch or watch. Feedback on both."""

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from carrel.wire import conversations as wire
from carrel.wire import messages
from carrel.wire.agents import LIST_AGENTS
from carrel.wire.replies import StreamingChunk
from service.auth.authorization import authorize
from service.auth.callers import Caller, acting_for
from service.domains.agents.conversations import changes, streaming
from service.domains.agents.conversations.messages import begin_conversation, begin_turn
from service.domains.agents.conversations.models import Message
from service.domains.agents.conversations.reading import turns
from service.domains.agents.definitions.service import list_deployed_agents
from service.platform.errors import require
from service.runtime import Runtime
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep, reauthenticate
from service.web.idempotency import AttemptDep, attempt_of
from service.web.routing import Router

router = Router()
CHUNKS: dict[int | str, dict[str, Any]] = {200: {"model": StreamingChunk}}
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {streaming.MEDIA_TYPE: {}}, "description": "The job's events, until it is done."}
}


@router.operation(messages.SEND_MESSAGE, own_key=True)
async def send_message(
    request: messages.SendMessageRequest, http: Request, response: Response, runtime: RuntimeDep, caller: CallerDep
) -> messages.SendMessageResponse:
    """Send a message to an agent deployed to the caller and open to programs, and wait for the reply."""
    turn_id = await _begin(request, http, response, runtime=runtime, caller=caller)
    await streaming.wait_until_done(runtime, http, organization_id=caller.organization_id, turn_id=turn_id)
    return messages.SendMessageResponse(
        send_chat_result=turns.result_of(await _look(runtime, http, request, turn_id=turn_id))
    )


@router.operation(messages.STREAM_MESSAGE, own_key=True, response_class=StreamingResponse, responses=CHUNKS)
async def stream_message(
    request: messages.SendMessageRequest, http: Request, response: Response, runtime: RuntimeDep, caller: CallerDep
) -> StreamingResponse:
    """Send a message like sendMessage, and receive the reply as server-sent events while it is being written."""
    turn_id = await _begin(request, http, response, runtime=runtime, caller=caller)
    look = partial(_look, runtime, http, request, turn_id=turn_id)
    events = streaming.stream_events(
        http,
        turn=await look(),
        position=streaming.Position(),
        look=look,
        tell=streaming.v0_events,
        cut=streaming.V0_CUT,
    )
    headers = {**streaming.HEADERS, **response.headers}
    return StreamingResponse(events, media_type=streaming.MEDIA_TYPE, headers=headers)


router.serve(wire.CREATE_CONVERSATION, begin_conversation)
router.serve(messages.PROVIDE_MESSAGE_FEEDBACK, changes.give_feedback, acting=False)


async def _begin(
    request: messages.SendMessageRequest, http: Request, response: Response, *, runtime: Runtime, caller: Caller
) -> UUID:
    async with runtime.database.transaction(caller.organization_id) as connection:
        acting = await acting_for(connection, caller, request.user_email)
        message = Message(
            request.agent_id, request.message, request.conversation_id, variables=request.input_variables or ()
        )
        attempt = await attempt_of(http, response, caller=caller, connection=connection)
        return (await begin_turn(runtime, attempt, acting, message=message, by_program=True)).job_id


async def _look(
    runtime: Runtime, http: Request, request: messages.SendMessageRequest, *, turn_id: UUID
) -> turns.SeenTurn:
    """Return a turn as visible to the request's caller now; Unauthenticated or Forbidden when access has ended."""
    async with reauthenticate(http, runtime) as (connection, again):
        authorize(again, messages.SEND_MESSAGE.requires)
        acting = await acting_for(connection, again, request.user_email)
        # The turn may be erased by now.
        return require(await turns.see_turn(connection, acting, turn_id=turn_id), turns.unknown_conversation())


@router.operation(messages.SEND_AGENT_MESSAGE, own_key=True, name="send_message")
async def send_agent_message(
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
    return turns.job_of(await turns.see_job(runtime, connection, caller, job_id=request.job_id))


@router.operation(messages.STREAM_AGENT_RESPONSE, response_class=StreamingResponse, responses=EVENTS)
async def stream_agent_response(
    request: Annotated[messages.FetchAgentResponseRequest, Query()], http: Request, runtime: RuntimeDep
) -> StreamingResponse:
    """Send the progress of the caller's job as server-sent events; `Last-Event-ID` continues an interrupted stream."""
    position = streaming.Position.read(http)
    look = partial(streaming.read_job, runtime, http, job_id=request.job_id)
    events = streaming.stream_events(http, turn=await look(), position=position, look=look, tell=streaming.job_events)
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
