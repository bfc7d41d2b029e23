"""copilots/*: messages to agents from programs, answered within the request, and feedback."""

from functools import partial
from typing import Any
from uuid import UUID

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from carrel.wire import messages as wire
from carrel.wire.conversations import CREATE_CONVERSATION
from carrel.wire.replies import StreamingChunk
from service.auth.authorization import authorize
from service.auth.callers import Caller, acting_for
from service.domains.agents.conversations import streaming
from service.domains.agents.conversations.changes import give_feedback
from service.domains.agents.conversations.messages import begin_conversation, begin_turn
from service.domains.agents.conversations.models import Message
from service.domains.agents.conversations.reading.turns import SeenTurn, result_of, see_turn, unknown_conversation
from service.domains.agents.conversations.streaming import Position, wait_until_done
from service.platform.errors import require
from service.runtime import Runtime
from service.web.dependencies import CallerDep, RuntimeDep, reauthenticate
from service.web.idempotency import attempt_of
from service.web.routing import Router

router = Router()
STREAM: dict[int | str, dict[str, Any]] = {200: {"model": StreamingChunk}}


@router.operation(wire.SEND_MESSAGE, own_key=True)
async def send_message(
    request: wire.SendMessageRequest, http: Request, response: Response, runtime: RuntimeDep, caller: CallerDep
) -> wire.SendMessageResponse:
    """Send a message to an agent deployed to the caller and open to programs, and wait for the reply."""
    turn_id = await _begin(request, http, response, runtime=runtime, caller=caller)
    await wait_until_done(runtime, http, organization_id=caller.organization_id, turn_id=turn_id)
    return wire.SendMessageResponse(send_chat_result=result_of(await _look(runtime, http, request, turn_id=turn_id)))


@router.operation(wire.STREAM_MESSAGE, own_key=True, response_class=StreamingResponse, responses=STREAM)
async def stream_message(
    request: wire.SendMessageRequest, http: Request, response: Response, runtime: RuntimeDep, caller: CallerDep
) -> StreamingResponse:
    """Send a message like sendMessage, and receive the reply as server-sent events while it is being written."""
    turn_id = await _begin(request, http, response, runtime=runtime, caller=caller)
    look = partial(_look, runtime, http, request, turn_id=turn_id)
    events = streaming.stream_events(
        http, turn=await look(), position=Position(), look=look, tell=streaming.v0_events, cut=streaming.v0_cut()
    )
    headers = {**streaming.HEADERS, **response.headers}
    return StreamingResponse(events, media_type=streaming.MEDIA_TYPE, headers=headers)


router.serve(CREATE_CONVERSATION, begin_conversation)
router.serve(wire.PROVIDE_MESSAGE_FEEDBACK, give_feedback, acting=False)


async def _begin(
    request: wire.SendMessageRequest, http: Request, response: Response, *, runtime: Runtime, caller: Caller
) -> UUID:
    async with runtime.database.transaction(caller.organization_id) as connection:
        acting = await acting_for(connection, caller, request.user_email)
        message = Message(
            request.agent_id, request.message, request.conversation_id, variables=request.input_variables or ()
        )
        attempt = attempt_of(http, response, caller=caller, connection=connection)
        return (await begin_turn(runtime, attempt, acting, message=message, by_program=True)).job_id


async def _look(runtime: Runtime, http: Request, request: wire.SendMessageRequest, *, turn_id: UUID) -> SeenTurn:
    """Return a turn as visible to the request's caller now; Unauthenticated or Forbidden when access has ended."""
    async with reauthenticate(http, runtime) as (connection, again):
        authorize(again, wire.SEND_MESSAGE.requires)
        acting = await acting_for(connection, again, request.user_email)
        # It may be erased since.
        return require(await see_turn(connection, acting, turn_id=turn_id), unknown_conversation())
