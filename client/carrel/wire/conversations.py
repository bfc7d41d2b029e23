"""Messages to agents: copilots/* on v0, agents/* and conversations on v1.

The results of v0 have the names that published clients of this API parse, the snake_case one too.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from carrel.wire.common import (
    NO_NUL,
    ActingRequest,
    Description,
    Instant,
    PagedParameters,
    PagedResponse,
    RequestModel,
    ResponseModel,
)


def _refuse_blank(text: str) -> str:
    if not text.strip():
        msg = "must say something"
        raise ValueError(msg)
    return text


MessageText = Annotated[str, Field(min_length=1, max_length=20_000), NO_NUL, AfterValidator(_refuse_blank)]


class SendMessageRequest(ActingRequest):
    """Send a message to an agent that is deployed to the caller and has API access (seed)."""

    agent_id: UUID
    message: MessageText
    conversation_id: UUID | None = None


class ExternalResourceId(ResponseModel):
    """A resource's identity in its source system, as replies name it."""

    external_resource_id: str
    resource_type: str


class ReferencedSource(ResponseModel):
    """A document and the words of it that a reply rests on.

    `id` is its documentId; `[1]` in a reply stands for the first source. `quote` is in the document, word for word.
    """

    id: UUID
    name: str
    url: str | None = None
    external_resource_id: ExternalResourceId
    quote: str


class ReplyMessage(ResponseModel):
    """What the agent says."""

    message: str


class InsertedAuditLog(ResponseModel):
    """The audit entry of an exchange."""

    id: UUID


class WebSearchResult(ResponseModel):
    """Agents search no web, so there is never one."""


class AiResponseResult(ResponseModel):
    """An agent's reply; `sources_in_data_context` is all it was given to read (seed, `sendChatResult`)."""

    type: Literal["ai_response_result"] = "ai_response_result"
    conversation_id: UUID
    message_id: UUID
    response: ReplyMessage
    referenced_sources: list[ReferencedSource]
    sources_in_data_context: list[ReferencedSource]
    web_search_results: list[WebSearchResult] = Field(default_factory=list[WebSearchResult])
    warnings: list[str]
    inserted_audit_log: InsertedAuditLog = Field(alias="inserted_audit_log")


class BlockedResult(ResponseModel):
    """A reply that is withheld, and why: the caller may no longer read what it rests on."""

    type: Literal["blocked_result"] = "blocked_result"
    conversation_id: UUID
    blocks: list[str]
    warnings: list[str]
    inserted_audit_log: InsertedAuditLog = Field(alias="inserted_audit_log")


SendChatResult = Annotated[AiResponseResult | BlockedResult, Field(discriminator="type")]


class SendMessageResponse(ResponseModel):
    """What came of a message."""

    send_chat_result: SendChatResult


class Verdict(StrEnum):
    """Whether a reply was any good."""

    POSITIVE = "POSITIVE"
    NEGATIVE = "NEGATIVE"


class MessageFeedback(RequestModel):
    """What somebody thinks of a reply."""

    feedback: Verdict
    descriptive_feedback: Description | None = None
    suggested_answer: Description | None = None


class ProvideMessageFeedbackRequest(ActingRequest):
    """Keep feedback on a reply to the caller, on the audit log."""

    agent_id: UUID
    message_id: UUID
    message_feedback: MessageFeedback


class ProvideMessageFeedbackResponse(ResponseModel):
    """The audit entry that holds it."""

    audit_log_id: UUID


class NewConversation(RequestModel):
    """Start a conversation (seed)."""

    type: Literal["new"] = "new"


class ExistingConversation(RequestModel):
    """Go on with a conversation of the caller's with the same agent."""

    type: Literal["existing"] = "existing"
    conversation_id: UUID


ConversationReference = Annotated[NewConversation | ExistingConversation, Field(discriminator="type")]


class SendAgentMessageRequest(RequestModel):
    """Send a message on v1 (seed, "v1 send message")."""

    agent_id: UUID
    conversation: ConversationReference
    message: MessageText


class SendAgentMessageResponse(ResponseModel):
    """The job that answers it."""

    job_id: UUID
    conversation_id: UUID


class FetchAgentResponseRequest(RequestModel):
    """The parameters of GET /api/v1/agents/fetchAgentResponse and streamAgentResponse."""

    job_id: UUID


class AgentResponse(ResponseModel):
    """A reply, with what it rests on."""

    agent_response_text: str
    message_id: UUID
    referenced_sources: list[ReferencedSource]
    warnings: list[str] = Field(default_factory=list[str])
    audit_log_id: UUID


class RunningJob(ResponseModel):
    """The reply is being made; `partial_text` is how far it is, without its sources."""

    status: Literal["RUNNING"] = "RUNNING"
    partial_text: str | None = None


class CompletedJob(ResponseModel):
    """The reply is there."""

    status: Literal["COMPLETED"] = "COMPLETED"
    result: AgentResponse
    conversation_id: UUID


class FailedJob(ResponseModel):
    """There is no reply; `error_message` says why, and what to do."""

    status: Literal["FAILED"] = "FAILED"
    error_message: str
    error_code: str


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


class ListConversationsRequest(PagedParameters):
    """The parameters of GET /api/v1/conversations: those with one agent, if it is named."""

    agent_id: UUID | None = None


class Conversation(ResponseModel):
    """A conversation; its `title` is the beginning of its first message."""

    conversation_id: UUID
    agent_id: UUID
    agent_name: str
    title: str
    message_count: int
    created_at: Instant
    updated_at: Instant


class ListConversationsResponse(PagedResponse):
    """One page of the caller's conversations, the latest first."""

    rows_in: ClassVar[str] = "conversations"
    conversations: list[Conversation]


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
    created_at: Instant
    message: str
    status: MessageStatus
    agent_response_text: str | None = None
    referenced_sources: list[ReferencedSource] = Field(default_factory=list[ReferencedSource])
    warnings: list[str] = Field(default_factory=list[str])
    error_message: str | None = None
    feedback: Verdict | None = None


class GetConversationResponse(PagedResponse):
    """One page of a conversation's messages, oldest first."""

    rows_in: ClassVar[str] = "messages"
    conversation: Conversation
    messages: list[ConversationMessage]
