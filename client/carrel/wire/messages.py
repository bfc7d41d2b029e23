"""Messages to agents and feedback on replies: copilots/* on v0, agents/* on v1."""

from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, TypeAdapter

from carrel.wire.common import ActingRequest, FeedbackRequest, RequestModel, ResponseModel
from carrel.wire.fields import NO_NUL, Description, Label, must
from carrel.wire.operations import ADDS_DATA, KEYED, MESSAGE, NOT_FOUND, SHARED, ApiOperation
from carrel.wire.replies import ReferencedSource, SendChatResult

MessageText = Annotated[
    str,
    Field(min_length=1, max_length=20_000, examples=["How many days of leave do I have?"]),
    NO_NUL,
    must(str.strip, "must say something"),
]


class InputVariable(RequestModel):
    """A variable of a message, with documents as its value."""

    name: Label
    """Name of the variable, written `{{name}}` in the message."""
    ids: Annotated[list[UUID], Field(min_length=1, max_length=100)]
    """Ids of documents that the caller may READ, 1 to 100."""


class SendMessageRequest(ActingRequest):
    """Send a message to an agent deployed to the caller, with API access enabled."""

    agent_id: UUID
    message: MessageText
    conversation_id: UUID | None = None
    """Id of the conversation to continue; absent: a new conversation."""
    input_variables: Annotated[list[InputVariable] | None, Field(max_length=20)] = None
    """Variables, at most 20, each replaced in the message by the names of its documents, or else added to it."""


class SendMessageResponse(ResponseModel):
    """The result of a message."""

    send_chat_result: SendChatResult
    """The reply, or the reason for withholding it."""


class Verdict(StrEnum):
    """Whether a reply was any good."""

    POSITIVE = "POSITIVE"
    NEGATIVE = "NEGATIVE"


class MessageFeedback(RequestModel):
    """Feedback on a reply."""

    feedback: Verdict
    """Whether the reply was good."""
    descriptive_feedback: Description | None = None
    """Good or bad points of the reply, at most 10,000 characters."""
    suggested_answer: Description | None = None
    """A better answer for the agent, at most 10,000 characters."""


class ProvideMessageFeedbackRequest(FeedbackRequest):
    """Record feedback on a reply in the audit log, by the reply's recipient or an admin."""

    agent_id: UUID
    message_id: UUID
    """Id of the message with the judged reply."""
    message_feedback: MessageFeedback
    """The person's feedback."""


class ProvideMessageFeedbackResponse(ResponseModel):
    """The audit entry with the feedback."""

    audit_log_id: UUID


class NewConversation(RequestModel):
    """Start a conversation."""

    type: Literal["new"] = "new"


class ExistingConversation(RequestModel):
    """Continue a conversation of the caller with the same agent."""

    type: Literal["existing"] = "existing"
    conversation_id: UUID
    """Id of a conversation of the caller with the same agent."""


ConversationReference = Annotated[NewConversation | ExistingConversation, Field(discriminator="type")]


class SendAgentMessageRequest(RequestModel):
    """Send a message on v1."""

    agent_id: UUID
    conversation: ConversationReference
    """A new or existing conversation."""
    message: MessageText


class SendAgentMessageResponse(ResponseModel):
    """The job for the reply."""

    job_id: UUID
    conversation_id: UUID


class FetchAgentResponseRequest(RequestModel):
    """The parameters of GET /api/v1/agents/fetchAgentResponse and streamAgentResponse."""

    job_id: UUID


class AgentResponse(ResponseModel):
    """A reply with sources."""

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
    """Text of the reply so far, without sources."""


class CompletedJob(ResponseModel):
    """The reply is complete."""

    status: Literal["COMPLETED"] = "COMPLETED"
    """The reply is complete."""
    result: AgentResponse
    """The reply."""
    conversation_id: UUID


class FailedJob(ResponseModel):
    """The job failed without a reply."""

    status: Literal["FAILED"] = "FAILED"
    """The job failed without a reply."""
    error_message: str
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
"""Record POSITIVE or NEGATIVE feedback on a reply, with an optional comment, in the audit log. The reply must
belong to the caller, or to the user named by `user_email`; admins may judge all replies. An end user outside
the organization is named in the entry's text."""
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
