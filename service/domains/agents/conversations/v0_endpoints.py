"""copilots/*: messages to agents from programs, answered within the request, and feedback."""

from functools import partial
from typing import Any
from uuid import UUID

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from carrel.wire.conversations import CREATE_CONVERSATION, CreateConversationRequest, CreateConversationResponse
from carrel.wire.messages import (
    PROVIDE_MESSAGE_FEEDBACK,
    SEND_MESSAGE,
    STREAM_MESSAGE,
    ProvideMessageFeedbackRequest,
    ProvideMessageFeedbackResponse,
    SendMessageRequest,
    SendMessageResponse,
)
from carrel.wire.replies import StreamingChunk
from service.auth.authorization import authorize
from service.auth.callers import Caller, acting_for
from service.domains.agents.conversations import streaming
from service.domains.agents.conversations.feedback import give_feedback
from service.domains.agents.conversations.messages import begin_conversation, begin_turn
from service.domains.agents.conversations.models import Message, unknown_conversation
from service.domains.agents.conversations.reading.results import result_of
from service.domains.agents.conversations.reading.turns import SeenTurn, see_turn
from service.domains.agents.conversations.streaming import Position
from service.domains.agents.conversations.waiting import wait_until_done
from service.runtime import Runtime
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, reauthenticate
from service.web.idempotency import attempt_of
from service.web.routing import Router

router = Router()
STREAM: dict[int | str, dict[str, Any]] = {200: {"model": StreamingChunk}}


@router.operation(SEND_MESSAGE, own_key=True)
async def send_message(
    request: SendMessageRequest, http: Request, response: Response, runtime: RuntimeDep, caller: CallerDep
) -> SendMessageResponse:
    """Send a message to an agent that is deployed to the caller and open to programs, and wait for its reply."""
    turn_id = await _begin(request, http, response, runtime=runtime, caller=caller)
    await wait_until_done(runtime, http, organization_id=caller.organization_id, turn_id=turn_id)
    return SendMessageResponse(send_chat_result=result_of(await _look(runtime, http, request, turn_id=turn_id)))


@router.operation(STREAM_MESSAGE, own_key=True, response_class=StreamingResponse, responses=STREAM)
async def stream_message(
    request: SendMessageRequest, http: Request, response: Response, runtime: RuntimeDep, caller: CallerDep
) -> StreamingResponse:
    """Send a message as sendMessage does, and get its reply as server-sent events while it is made."""
    turn_id = await _begin(request, http, response, runtime=runtime, caller=caller)
    look = partial(_look, runtime, http, request, turn_id=turn_id)
    events = streaming.stream_events(
        http, turn=await look(), position=Position(), look=look, tell=streaming.v0_events, cut=streaming.v0_cut()
    )
    headers = {**streaming.HEADERS, **response.headers}
    return StreamingResponse(events, media_type=streaming.MEDIA_TYPE, headers=headers)


@router.operation(CREATE_CONVERSATION)
async def create_conversation(
    request: CreateConversationRequest, connection: ConnectionDep, caller: CallerDep
) -> CreateConversationResponse:
    """Begin a conversation before its first message; sendMessage begins one by itself."""
    acting = await acting_for(connection, caller, request.user_email)
    begun = await begin_conversation(connection, acting, agent_id=request.agent_id)
    return CreateConversationResponse(conversation_id=begun)


@router.operation(PROVIDE_MESSAGE_FEEDBACK)
async def provide_message_feedback(
    request: ProvideMessageFeedbackRequest, connection: ConnectionDep, caller: CallerDep
) -> ProvideMessageFeedbackResponse:
    """Keep feedback on a reply to the caller, or by an admin on anybody's, on the audit log."""
    return await give_feedback(connection, caller, request=request)


async def _begin(
    request: SendMessageRequest, http: Request, response: Response, *, runtime: Runtime, caller: Caller
) -> UUID:
    """Begin the turn of a message as whom the request acts for, and return its id."""
    async with runtime.database.transaction(caller.organization_id) as connection:
        acting = await acting_for(connection, caller, request.user_email)
        message = Message(
            request.agent_id, request.message, request.conversation_id, variables=request.input_variables or ()
        )
        attempt = attempt_of(http, response, caller=caller, connection=connection)
        return (await begin_turn(runtime, attempt, acting, message=message, by_program=True)).turn_id


async def _look(runtime: Runtime, http: Request, request: SendMessageRequest, *, turn_id: UUID) -> SeenTurn:
    """Return a turn as the request's caller may see it now; Unauthenticated or Forbidden when it may no more."""
    async with reauthenticate(http, runtime) as (connection, again):
        authorize(again, SEND_MESSAGE.requires)
        acting = await acting_for(connection, again, request.user_email)
        turn = await see_turn(connection, acting, turn_id=turn_id)
    if turn is None:  # erased meanwhile
        raise unknown_conversation()
    return turn
