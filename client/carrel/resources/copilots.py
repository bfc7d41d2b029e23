"""copilots/*: messages to agents on v0, for API keys and service accounts."""

from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import Operation, Raw, Resource
from carrel.resources._arguments import Id, as_any
from carrel.resources._choices import AnyVerdict
from carrel.wire import messages as wire

M = TypeVar("M")

# The service answers when the reply is there, for which it takes two minutes unless it is set otherwise.
REPLY_PATIENCE = 300.0


class Copilots(Resource[M]):
    """Messages to agents that are deployed to the caller and have API access; `client.agents` is simpler."""

    @property
    def with_raw_response(self) -> "Copilots[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Copilots(self._session.as_raw())

    @Operation
    def send_message(
        self, agent_id: Id, message: str, *, conversation_id: Id | None = None, user_email: str | None = None
    ) -> Call[wire.SendMessageResponse]:
        """Send a message, in a new conversation unless one is named, and wait for the reply.

        The result's `type` is `ai_response_result`, or `blocked_result` for a reply that rests on what the caller may
        not read any more. Raises NotFoundError for an agent that isn't deployed to the caller, PermissionDeniedError
        `api_access_off`, and ServerError when the model gives no reply. Sent again after a broken connection, it is
        answered once.
        """
        return message_call(agent_id, message, conversation_id=conversation_id, user_email=user_email)

    @Operation
    def provide_message_feedback(
        self,
        agent_id: Id,
        message_id: Id,
        feedback: AnyVerdict,
        *,
        descriptive_feedback: str | None = None,
        suggested_answer: str | None = None,
        user_email: str | None = None,
    ) -> Call[wire.ProvideMessageFeedbackResponse]:
        """Keep POSITIVE or NEGATIVE on a reply, with words about it, on the audit log.

        The reply was given to the caller, or to the user named by `user_email`; admins judge everybody's. An end user
        who is no user of the organization is kept in the entry's text.
        """
        request = feedback_request(
            agent_id,
            message_id,
            feedback=feedback,
            descriptive_feedback=descriptive_feedback,
            suggested_answer=suggested_answer,
            user_email=user_email,
        )
        return Call(wire.PROVIDE_MESSAGE_FEEDBACK, request)


def message_call(
    agent_id: Id, message: str, *, conversation_id: Id | None, user_email: str | None
) -> Call[wire.SendMessageResponse]:
    """Return the call that sends a message on v0."""
    request = wire.SendMessageRequest(
        agent_id=as_any(UUID, agent_id),
        message=message,
        conversation_id=as_any(UUID, conversation_id),
        user_email=user_email,
    )
    return Call(wire.SEND_MESSAGE, request, patience=REPLY_PATIENCE)


def feedback_request(
    agent_id: Id,
    message_id: Id,
    *,
    feedback: AnyVerdict,
    descriptive_feedback: str | None,
    suggested_answer: str | None,
    user_email: str | None,
) -> wire.ProvideMessageFeedbackRequest:
    """Return the request body of feedback on a reply."""
    return wire.ProvideMessageFeedbackRequest(
        agent_id=as_any(UUID, agent_id),
        message_id=as_any(UUID, message_id),
        message_feedback=wire.MessageFeedback(
            feedback=as_any(wire.Verdict, feedback),
            descriptive_feedback=descriptive_feedback,
            suggested_answer=suggested_answer,
        ),
        user_email=user_email,
    )
