"""Messages to agents and feedback on replies: copilots/* on v0, agents/* on v1."""

from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, TypeAdapter

from carrel.wire.common import ActingRequest, FeedbackRequest, RequestModel, ResponseModel
from carrel.wire.fields import NO_NUL, Description, Label
from carrel.wire.operations import ADDS_DATA, KEYED, MESSAGE, NOT_FOUND, SHARED, ApiOperation
from carrel.wire.replies import ReferencedSource, SendChatResult


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must say something")
    return text


MessageText = Annotated[
    str,
    Field(min_length=1, max_length=20_000, examples=["How many days of leave do I have?"]),
    NO_NUL,
    AfterValidator(_refuse_blank),
]


class InputVariable(RequestModel):
    """A variable of a message, whose value is documents."""

    name: Label
    """Name of the variable, which the message holds as `{{name}}`."""
    ids: Annotated[list[UUID], Field(min_length=1, max_length=100)]
    """Ids of documents that the caller may READ, 1 to 100."""


class SendMessageRequest(ActingRequest):
    """Send a message to an agent that is deployed to the caller and has API access."""

    agent_id: UUID
    message: MessageText
    """What the person says, 1 to 20,000 characters."""
    conversation_id: UUID | None = None
    """Id of the conversation to go on with; absent: a new one."""
    input_variables: Annotated[list[InputVariable] | None, Field(max_length=20)] = None
    """Variables, at most 20, each replaced in the message by the names of its documents; added where the message
    doesn't hold it."""


class SendMessageResponse(ResponseModel):
    """What came of a message."""

    send_chat_result: SendChatResult
    """The reply, or why it is withheld."""


class Verdict(StrEnum):
    """Whether a reply was any good."""

    POSITIVE = "POSITIVE"
    NEGATIVE = "NEGATIVE"


class MessageFeedback(RequestModel):
    """What somebody thinks of a reply."""

    feedback: Verdict
    """Whether the reply was good."""
    descriptive_feedback: Description | None = None
    """What was good or bad about it, at most 10,000 characters."""
    suggested_answer: Description | None = None
    """What the agent should have said, at most 10,000 characters."""


class ProvideMessageFeedbackRequest(FeedbackRequest):
    """Keep feedback on a reply on the audit log, by whom it was given to or by an admin."""

    agent_id: UUID
    message_id: UUID
    """Id of the message whose reply it is about."""
    message_feedback: MessageFeedback
    """What the person thinks of the reply."""


class ProvideMessageFeedbackResponse(ResponseModel):
    """The audit entry that holds it."""

    audit_log_id: UUID


class NewConversation(RequestModel):
    """Start a conversation."""

    type: Literal["new"] = "new"
    """A new conversation."""


class ExistingConversation(RequestModel):
    """Go on with a conversation of the caller's with the same agent."""

    type: Literal["existing"] = "existing"
    """A conversation that exists."""
    conversation_id: UUID
    """Id of the conversation; one of the caller's with the same agent."""


ConversationReference = Annotated[NewConversation | ExistingConversation, Field(discriminator="type")]


class SendAgentMessageRequest(RequestModel):
    """Send a message on v1."""

    agent_id: UUID
    conversation: ConversationReference
    """A new conversation, or one to go on with."""
    message: MessageText
    """What the person says, 1 to 20,000 characters."""


class SendAgentMessageResponse(ResponseModel):
    """The job that answers it."""

    job_id: UUID
    """Id of the job that makes the reply; kept for 24 hours."""
    conversation_id: UUID


class FetchAgentResponseRequest(RequestModel):
    """The parameters of GET /api/v1/agents/fetchAgentResponse and streamAgentResponse."""

    job_id: UUID
    """Id of the job that makes the reply; kept for 24 hours."""


class AgentResponse(ResponseModel):
    """A reply, with what it rests on."""

    agent_response_text: str
    """Text of the reply."""
    message_id: UUID
    referenced_sources: list[ReferencedSource]
    warnings: list[str] = Field(default_factory=list[str])
    audit_log_id: UUID


class RunningJob(ResponseModel):
    """The reply is being made."""

    status: Literal["RUNNING"] = "RUNNING"
    """The reply is being made."""
    partial_text: str | None = None
    """Text of the reply so far, without its sources."""


class CompletedJob(ResponseModel):
    """The reply is there."""

    status: Literal["COMPLETED"] = "COMPLETED"
    """The reply is there."""
    result: AgentResponse
    """The reply."""
    conversation_id: UUID


class FailedJob(ResponseModel):
    """There is no reply."""

    status: Literal["FAILED"] = "FAILED"
    """There is no reply."""
    error_message: str
    """Why there is no reply, and what to do."""
    error_code: str
    """Stable code of the problem, for programs."""


FetchAgentResponseResponse = Annotated[RunningJob | CompletedJob | FailedJob, Field(discriminator="status")]


SEND_MESSAGE = ApiOperation(
    "copilots/sendMessage",
    SendMessageRequest,
    SendMessageResponse,
    MESSAGE,
    KEYED | ADDS_DATA | NOT_FOUND | SHARED,
    version="v0",
)
PROVIDE_MESSAGE_FEEDBACK = ApiOperation(
    "copilots/provideMessageFeedback",
    ProvideMessageFeedbackRequest,
    ProvideMessageFeedbackResponse,
    MESSAGE,
    KEYED | NOT_FOUND,
    version="v0",
    by_position=("agent_id", "message_id", "feedback"),
)
"""Keep POSITIVE or NEGATIVE on a reply, with words about it, on the audit log.

The reply was given to the caller, or to the user named by `user_email`; admins judge everybody's. An end user
who is no user of the organization is kept in the entry's text."""
SEND_AGENT_MESSAGE = ApiOperation(
    "agents/sendMessage",
    SendAgentMessageRequest,
    SendAgentMessageResponse,
    MESSAGE,
    KEYED | ADDS_DATA | NOT_FOUND | SHARED,
    version="v1",
)
FETCH_AGENT_RESPONSE = ApiOperation(
    "agents/fetchAgentResponse",
    FetchAgentResponseRequest,
    TypeAdapter[RunningJob | CompletedJob | FailedJob](FetchAgentResponseResponse),
    MESSAGE,
    NOT_FOUND | SHARED,
    method="GET",
    version="v1",
)
STREAM_AGENT_RESPONSE: ApiOperation[Any, Any] = ApiOperation(
    "agents/streamAgentResponse", FetchAgentResponseRequest, None, MESSAGE, NOT_FOUND, method="GET", version="v1"
)
PROVIDE_AGENT_MESSAGE_FEEDBACK = ApiOperation(
    "agents/provideMessageFeedback",
    ProvideMessageFeedbackRequest,
    ProvideMessageFeedbackResponse,
    MESSAGE,
    KEYED | NOT_FOUND,
    version="v1",
)
STREAM_MESSAGE: ApiOperation[Any, Any] = ApiOperation(
    "copilots/streamMessage", SendMessageRequest, None, MESSAGE, KEYED | ADDS_DATA | NOT_FOUND, version="v0"
)
