"""Messages to agents: copilots/* on v0, agents/* and conversations on v1.

The results of v0 have the names that published clients of this API parse, the snake_case one too.
"""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, TypeAdapter, computed_field

from carrel.wire.common import (
    NO_NUL,
    ActingRequest,
    Description,
    FeedbackRequest,
    Instant,
    Label,
    PagedParameters,
    PagedResponse,
    RequestModel,
    ResponseModel,
)
from carrel.wire.operations import ADDS_DATA, KEYED, MESSAGE, NOT_FOUND, SHARED, ApiOperation


def _refuse_blank(text: str) -> str:
    if not text.strip():
        msg = "must say something"
        raise ValueError(msg)
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
    """Id of the agent."""
    message: MessageText
    """What the person says, 1 to 20,000 characters."""
    conversation_id: UUID | None = None
    """Id of the conversation to go on with; absent: a new one."""
    input_variables: Annotated[list[InputVariable] | None, Field(max_length=20)] = None
    """Variables, at most 20, each replaced in the message by the names of its documents; added where the message
    doesn't hold it.
    """


class CreateConversationRequest(ActingRequest):
    """Begin a conversation with an agent before its first message."""

    agent_id: UUID
    """Id of the agent."""


class CreateConversationResponse(ResponseModel):
    """The new conversation."""

    conversation_id: UUID
    """Id of the conversation, for the first message and all that follow."""


class ExternalResourceId(ResponseModel):
    """A resource's identity in its source system, as replies name it."""

    external_resource_id: str
    """Identifier of the resource in its source system."""
    resource_type: str
    """Kind of the resource in its source system."""


class ReferencedSource(ResponseModel):
    """A document and the words of it that a reply rests on."""

    id: UUID
    """Id of the document."""
    name: str
    """Name of the document."""
    url: str | None = None
    """Address of the document in its source system."""
    external_resource_id: ExternalResourceId
    """The document's identity in its source system."""
    quote: str
    """Words of the document that the reply rests on, exactly as they are there."""


class ReplyMessage(ResponseModel):
    """What the agent says."""

    message: str
    """Text of the reply."""

    @computed_field
    @property
    def data_chunk(self) -> str:
        """Text of the reply again: clients of v0 since 0.0.10 need it under this name as well."""
        return self.message


class InsertedAuditLog(ResponseModel):
    """The audit entry of an exchange."""

    id: UUID
    """Id of the entry in the audit log."""


class WebSearchResult(ResponseModel):
    """Agents search no web, so there is never one."""


class PolicyTrigger(ResponseModel):
    """No policy is applied to messages, so there is never one."""


class AiResponseResult(ResponseModel):
    """An agent's reply."""

    type: Literal["ai_response_result"] = "ai_response_result"
    """A reply."""
    conversation_id: UUID
    """Id of the conversation."""
    message_id: UUID
    """Id of the message and of the reply to it; feedback names it."""
    response: ReplyMessage
    """The reply."""
    referenced_sources: list[ReferencedSource]
    """Sources that the reply rests on; `[1]` in its text is the first."""
    sources_in_data_context: list[ReferencedSource]
    """Sources that the agent was given to read."""
    web_search_results: list[WebSearchResult] = Field(default_factory=list[WebSearchResult])
    """Always empty: agents don't search the web."""
    warnings: list[str]
    """What the reader of the reply should know."""
    policy_triggers: list[PolicyTrigger] = Field(alias="policy_triggers", default_factory=list[PolicyTrigger])
    """Always empty; clients of v0 up to 0.0.30 need it."""
    inserted_audit_log: InsertedAuditLog = Field(alias="inserted_audit_log")
    """The audit-log entry of the exchange."""


class BlockedResult(ResponseModel):
    """A reply that is withheld, and why: the caller may no longer read what it rests on."""

    type: Literal["blocked_result"] = "blocked_result"
    """A reply that is withheld."""
    conversation_id: UUID
    """Id of the conversation."""
    blocks: list[str]
    """Why the reply is withheld."""
    warnings: list[str]
    """What else the caller should know."""
    policy_triggers: list[PolicyTrigger] = Field(alias="policy_triggers", default_factory=list[PolicyTrigger])
    """Always empty; clients of v0 up to 0.0.30 need it."""
    inserted_audit_log: InsertedAuditLog = Field(alias="inserted_audit_log")
    """The audit-log entry of the exchange."""


SendChatResult = Annotated[AiResponseResult | BlockedResult, Field(discriminator="type")]


class SendMessageResponse(ResponseModel):
    """What came of a message."""

    send_chat_result: SendChatResult
    """The reply, or why it is withheld."""


class ChunkKind(StrEnum):
    """The server-sent events of v0's streamMessage.

    A reply is `initial`, then `data_chunk` as often as it grows, `end_of_message` and `final_chunk`. `blocked` and
    `error_chunk` are the last: the reply is withheld, or there is none, and what was sent of it is void.
    """

    INITIAL = "initial"
    DATA = "data_chunk"
    END_OF_MESSAGE = "end_of_message"
    FINAL = "final_chunk"
    BLOCKED = "blocked"
    ERROR = "error_chunk"


class ChunkError(ResponseModel):
    """Why there is no reply."""

    message: str
    """Why there is no reply, and what to do."""
    code: str
    """Stable code of the problem, for programs."""


class StreamingChunk(ResponseModel):
    """The `data` of one event of v0's streamMessage; its members depend on its kind."""

    event: ChunkKind
    """Kind of the event."""
    conversation_id: UUID | None = None
    """Id of the conversation; in `initial` and `blocked`."""
    chunk: str | None = None
    """Text that follows what was sent before; in `data_chunk`."""
    warnings: list[str] | None = None
    """What the reader of the reply should know; in `initial` (empty while the reply is made), `final_chunk` and
    `blocked`.
    """
    web_search_results: list[WebSearchResult] | None = None
    """Always empty, in `initial`: agents don't search the web."""
    sources: list[ReferencedSource] | None = None
    """Sources that the reply rests on; in `final_chunk`."""
    message_id: UUID | None = None
    """Id of the message and of the reply to it, which feedback names; in `final_chunk`."""
    blocks: list[str] | None = None
    """Why the reply is withheld; in `blocked`."""
    error: ChunkError | None = None
    """Why there is no reply; in `error_chunk`."""


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
    """Id of the agent."""
    message_id: UUID
    """Id of the message whose reply it is about."""
    message_feedback: MessageFeedback
    """What the person thinks of the reply."""


class ProvideMessageFeedbackResponse(ResponseModel):
    """The audit entry that holds it."""

    audit_log_id: UUID
    """Id of the entry in the audit log."""


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
    """Id of the agent."""
    conversation: ConversationReference
    """A new conversation, or one to go on with."""
    message: MessageText
    """What the person says, 1 to 20,000 characters."""


class SendAgentMessageResponse(ResponseModel):
    """The job that answers it."""

    job_id: UUID
    """Id of the job that makes the reply; kept for 24 hours."""
    conversation_id: UUID
    """Id of the conversation."""


class FetchAgentResponseRequest(RequestModel):
    """The parameters of GET /api/v1/agents/fetchAgentResponse and streamAgentResponse."""

    job_id: UUID
    """Id of the job that makes the reply; kept for 24 hours."""


class AgentResponse(ResponseModel):
    """A reply, with what it rests on."""

    agent_response_text: str
    """Text of the reply."""
    message_id: UUID
    """Id of the message and of the reply to it; feedback names it."""
    referenced_sources: list[ReferencedSource]
    """Sources that the reply rests on; `[1]` in its text is the first."""
    warnings: list[str] = Field(default_factory=list[str])
    """What the reader of the reply should know."""
    audit_log_id: UUID
    """Id of the entry in the audit log."""


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
    """Id of the conversation."""


class FailedJob(ResponseModel):
    """There is no reply."""

    status: Literal["FAILED"] = "FAILED"
    """There is no reply."""
    error_message: str
    """Why there is no reply, and what to do."""
    error_code: str
    """Stable code of the problem, for programs."""


FetchAgentResponseResponse = Annotated[RunningJob | CompletedJob | FailedJob, Field(discriminator="status")]


class StreamEvent(StrEnum):
    """The server-sent events of streamAgentResponse; each one's data is JSON.

    `delta` has a `TextDelta`; `restarted` says that what was sent so far is void, since the job began anew after a
    crash; `completed` (a `CompletedJob`) and `failed` (a `FailedJob`) are the last.
    """

    DELTA = "delta"
    RESTARTED = "restarted"
    COMPLETED = "completed"
    FAILED = "failed"


class TextDelta(ResponseModel):
    """What a reply has grown by."""

    text: str
    """Text that follows what was sent before."""


class ListConversationsRequest(PagedParameters):
    """The parameters of GET /api/v1/conversations: those with one agent, if it is named."""

    agent_id: UUID | None = None
    """Only conversations with the agent of this id."""


class Conversation(ResponseModel):
    """A conversation of a person with an agent."""

    conversation_id: UUID
    """Id of the conversation."""
    agent_id: UUID
    """Id of the agent."""
    agent_name: str
    """Name of the agent."""
    title: str
    """Beginning of the first message."""
    message_count: int
    """Number of messages that the person sent."""
    created_at: Instant
    """When it was begun."""
    updated_at: Instant
    """When its latest message was sent."""


class ListConversationsResponse(PagedResponse):
    """One page of the caller's conversations, the latest first."""

    rows_in: ClassVar[str] = "conversations"
    conversations: list[Conversation]
    """The conversations, the latest first."""


class GetConversationRequest(PagedParameters):
    """The parameters of GET /api/v1/conversations/{conversationId}."""


class MessageStatus(StrEnum):
    """How far an exchange is. WITHHELD: its reply rests on what the caller may no longer read."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    WITHHELD = "WITHHELD"


class ConversationMessage(ResponseModel):
    """A message and the reply to it, if there is one that may be shown."""

    message_id: UUID
    """Id of the message and of the reply to it; feedback names it."""
    created_at: Instant
    """When the message was sent."""
    message: str
    """What the person said."""
    status: MessageStatus
    """How far the reply is."""
    agent_response_text: str | None = None
    """Text of the reply, if there is one that may be shown."""
    referenced_sources: list[ReferencedSource] = Field(default_factory=list[ReferencedSource])
    """Sources that the reply rests on; `[1]` in its text is the first."""
    warnings: list[str] = Field(default_factory=list[str])
    """What the reader of the reply should know."""
    error_message: str | None = None
    """Why there is no reply, and what to do."""
    feedback: Verdict | None = None
    """What the person thinks of the reply."""


class GetConversationResponse(PagedResponse):
    """One page of a conversation's messages, oldest first."""

    rows_in: ClassVar[str] = "messages"
    conversation: Conversation
    """The conversation."""
    messages: list[ConversationMessage]
    """The messages, oldest first."""


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
)
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
STREAM_AGENT_RESPONSE: ApiOperation[Any] = ApiOperation(
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
LIST_CONVERSATIONS = ApiOperation(
    "conversations", ListConversationsRequest, ListConversationsResponse, MESSAGE, method="GET", version="v1"
)
GET_CONVERSATION = ApiOperation(
    "conversations/{conversationId}",
    GetConversationRequest,
    GetConversationResponse,
    MESSAGE,
    NOT_FOUND,
    method="GET",
    version="v1",
)
STREAM_MESSAGE: ApiOperation[Any] = ApiOperation(
    "copilots/streamMessage", SendMessageRequest, None, MESSAGE, KEYED | ADDS_DATA | NOT_FOUND, version="v0"
)
CREATE_CONVERSATION = ApiOperation(
    "copilots/createConversation",
    CreateConversationRequest,
    CreateConversationResponse,
    MESSAGE,
    KEYED | ADDS_DATA | NOT_FOUND,
    version="v0",
)
