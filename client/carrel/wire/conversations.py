"""conversations/* on v1, and the creation of a conversation on v0."""

from enum import StrEnum
from uuid import UUID

from pydantic import Field

from carrel.wire.common import ActingRequest, PagedParameters, PagedResponse, ResponseModel
from carrel.wire.fields import Instant
from carrel.wire.messages import Verdict
from carrel.wire.operations import ADDS_DATA, KEYED, MESSAGE, NOT_FOUND, ApiOperation
from carrel.wire.replies import ReferencedSource


class CreateConversationRequest(ActingRequest):
    """Begin a conversation with an agent before its first message."""

    agent_id: UUID


class CreateConversationResponse(ResponseModel):
    """The new conversation."""

    conversation_id: UUID
    """Id of the conversation, for the first message and all that follow."""


class ListConversationsRequest(PagedParameters):
    """The parameters of GET /api/v1/conversations: those with one agent, if it is named."""

    agent_id: UUID | None = None
    """Only conversations with the agent of this id."""


class Conversation(ResponseModel):
    """A conversation of a person with an agent."""

    conversation_id: UUID
    agent_id: UUID
    agent_name: str
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
    created_at: Instant
    """When the message was sent."""
    message: str
    """What the person said."""
    status: MessageStatus
    """How far the reply is."""
    agent_response_text: str | None = None
    """Text of the reply, if there is one that may be shown."""
    referenced_sources: list[ReferencedSource] = Field(default_factory=list[ReferencedSource])
    warnings: list[str] = Field(default_factory=list[str])
    error_message: str | None = None
    """Why there is no reply, and what to do."""
    feedback: Verdict | None = None
    """What the person thinks of the reply."""


class GetConversationResponse(PagedResponse):
    """One page of a conversation's messages, oldest first."""

    conversation: Conversation
    """The conversation."""
    messages: list[ConversationMessage]
    """The messages, oldest first."""


LIST_CONVERSATIONS = ApiOperation(
    "conversations", ListConversationsRequest, ListConversationsResponse, MESSAGE, method="GET", version="v1"
)
"""Walk the conversations, the latest first; those with one agent if it is named."""
GET_CONVERSATION = ApiOperation(
    "conversations/{conversationId}",
    GetConversationRequest,
    GetConversationResponse,
    MESSAGE,
    NOT_FOUND,
    method="GET",
    version="v1",
)
"""Walk a conversation's messages with their replies, oldest first; `pages()` also have the conversation.

A reply that rests on what the person may not read any more is WITHHELD, without its text."""
CREATE_CONVERSATION = ApiOperation(
    "copilots/createConversation",
    CreateConversationRequest,
    CreateConversationResponse,
    MESSAGE,
    KEYED | ADDS_DATA | NOT_FOUND,
    version="v0",
)
