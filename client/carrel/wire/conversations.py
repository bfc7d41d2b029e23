"""conversations/* on v1, and the creation of a conversation on v0."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import ActingRequest, PagedParameters, PagedResponse, RequestModel, ResponseModel
from carrel.wire.fields import NO_NUL, Instant, Label
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
    query: Label | None = None
    """Only conversations whose title, messages and replies have all of these words, or parts of words, in any case."""


class Conversation(ResponseModel):
    """A conversation of a person with an agent."""

    conversation_id: UUID
    agent_id: UUID
    agent_name: str
    title: str
    """The title that the person gave it, or the beginning of the first message."""
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


class DeleteConversationRequest(RequestModel):
    """Delete one of the caller's conversations for good."""

    conversation_id: UUID


class DeleteConversationResponse(ResponseModel):
    """The conversation that is gone."""

    conversation_id: UUID


class RenameConversationRequest(DeleteConversationRequest):
    """Give one of the caller's conversations another title."""

    title: Annotated[str, Field(max_length=80, pattern=r"\S"), NO_NUL]
    """The new title."""


class RenameConversationResponse(Conversation):
    """The conversation with its new title."""


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
"""Walk the conversations, the latest first; those with one agent if it is named.

`query`: those whose title, messages and replies have all of these words; a reply that is WITHHELD has none."""
RENAME_CONVERSATION = ApiOperation(
    "conversations/rename",
    RenameConversationRequest,
    RenameConversationResponse,
    MESSAGE,
    ADDS_DATA | NOT_FOUND,
    version="v1",
)
"""Give one of the person's own conversations another title."""
DELETE_CONVERSATION = ApiOperation(
    "conversations/delete",
    DeleteConversationRequest,
    DeleteConversationResponse,
    MESSAGE,
    KEYED | NOT_FOUND,
    version="v1",
)
"""Delete one of the person's own conversations for good, with its messages and replies.

The audit log and the question log keep that there were such messages, without a word of them."""
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
