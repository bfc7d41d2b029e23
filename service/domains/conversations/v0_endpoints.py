"""copilots/*: messages to agents from programs, answered within the request, and feedback (an extension)."""

from fastapi import Request, Response

from carrel.wire.conversations import (
    PROVIDE_MESSAGE_FEEDBACK,
    SEND_MESSAGE,
    ProvideMessageFeedbackRequest,
    ProvideMessageFeedbackResponse,
    SendMessageRequest,
    SendMessageResponse,
)
from service.auth.authorization import authorize
from service.auth.callers import acting_for
from service.domains.conversations.feedback import give_feedback
from service.domains.conversations.messages import begin_turn
from service.domains.conversations.models import Message, unknown_conversation
from service.domains.conversations.reading.results import result_of
from service.domains.conversations.reading.turns import see_turn
from service.domains.conversations.waiting import wait_until_done
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, reauthenticate
from service.web.idempotency import attempt_of
from service.web.routing import Router

router = Router()


@router.operation(SEND_MESSAGE, own_key=True)
async def send_message(
    request: SendMessageRequest, http: Request, response: Response, runtime: RuntimeDep, caller: CallerDep
) -> SendMessageResponse:
    """Send a message to an agent that is deployed to the caller and open to programs, and wait for its reply."""
    message = Message(request.agent_id, request.message, request.conversation_id)
    async with runtime.database.transaction(caller.organization_id) as connection:
        acting = await acting_for(connection, caller, request.user_email)
        attempt = attempt_of(http, response, caller=caller, connection=connection)
        begun = await begin_turn(runtime, attempt, acting, message=message, by_program=True)
    await wait_until_done(runtime, http, organization_id=caller.organization_id, turn_id=begun.turn_id)
    async with reauthenticate(http, runtime) as (connection, again):
        authorize(again, SEND_MESSAGE.requires)
        acting = await acting_for(connection, again, request.user_email)
        turn = await see_turn(connection, acting, turn_id=begun.turn_id)
    if turn is None:  # erased meanwhile
        raise unknown_conversation()
    return SendMessageResponse(send_chat_result=result_of(turn))


@router.operation(PROVIDE_MESSAGE_FEEDBACK)
async def provide_message_feedback(
    request: ProvideMessageFeedbackRequest, connection: ConnectionDep, caller: CallerDep
) -> ProvideMessageFeedbackResponse:
    """Keep feedback on a reply to the caller, or by an admin on anybody's, on the audit log."""
    return await give_feedback(connection, caller, request=request)
