"""conversations/* on v1, and the creation of a conversation on v0."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import ActingRequest, PagedParameters, PagedResponse, RequestModel, ResponseModel
from carrel.wire.fields import NO_NUL, EmailAddress, Instant, Label
from carrel.wire.messages import Verdict
from carrel.wire.operations import ADDS_DATA, KEYED, MESSAGE, NOT_FOUND, ApiOperation
from carrel.wire.replies import ReferencedSource


class CreateConversationRequest(ActingRequest):
    """Begin a conversation with an agent before the first message."""

    agent_id: UUID


class CreateConversationResponse(ResponseModel):
    """The new conversation."""

    conversation_id: UUID
    """Id of the conversation, for all its messages."""


class ListConversationsRequest(PagedParameters):
    """The parameters of GET /api/v1/conversations."""

    agent_id: UUID | None = None
    """Only conversations with this agent."""
    query: Label | None = None
    """Only conversations with all of these words, or parts of words, in title, messages and replies, in any case."""
    shared: bool | None = None
    """Conversations that other people share with the caller, instead of the caller's own; default: false."""


class Conversation(ResponseModel):
    """A conversation of a person with an agent."""

    conversation_id: UUID
    agent_id: UUID
    agent_name: str
    title: str
    """The title given by the person, or the beginning of the first message."""
    message_count: int
    """Number of messages sent by the person."""
    created_at: Instant
    """When the conversation began."""
    updated_at: Instant
    """When the latest message was sent."""
    shared_by: str | None = None
    """Name of the person who shares the conversation; absent: it is the caller's own."""
    shared_with: list[str] | None = None
    """Email addresses of the active users with whom the caller shares the conversation; absent: none."""


class ListConversationsResponse(PagedResponse):
    """A page of conversations, latest first."""

    conversations: list[Conversation]
    """The conversations, the latest first."""


class GetConversationRequest(PagedParameters):
    """The parameters of GET /api/v1/conversations/{conversationId}."""


class DeleteConversationRequest(RequestModel):
    """Delete one of the caller's conversations permanently."""

    conversation_id: UUID


class DeleteConversationResponse(ResponseModel):
    """The deleted conversation."""

    conversation_id: UUID


class RenameConversationRequest(DeleteConversationRequest):
    """Rename one of the caller's conversations."""

    title: Annotated[str, Field(max_length=80, pattern=r"\S"), NO_NUL]
    """The new title."""


class RenameConversationResponse(Conversation):
    """The conversation with the new title."""


class ShareConversationRequest(DeleteConversationRequest):
    """Set the people who may read one of the caller's conversations."""

    readers: Annotated[list[EmailAddress], Field(max_length=50)]
    """Email addresses of active users of the organization, instead of the earlier ones; empty: end sharing."""


class ShareConversationResponse(Conversation):
    """The conversation with its readers."""


class MessageStatus(StrEnum):
    """Status of an exchange. WITHHELD: the reply is based on documents that the caller may not read now."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    WITHHELD = "WITHHELD"


class ConversationMessage(ResponseModel):
    """A message and its visible reply, if any."""

    message_id: UUID
    created_at: Instant
    """When the message was sent."""
    message: str
    """Text of the person's message."""
    status: MessageStatus
    """How far the reply is."""
    agent_response_text: str | None = None
    """Text of the visible reply, if any."""
    referenced_sources: list[ReferencedSource] = Field(default_factory=list[ReferencedSource])
    warnings: list[str] = Field(default_factory=list[str])
    error_message: str | None = None
    feedback: Verdict | None = None
    """The person's feedback on the reply."""


class GetConversationResponse(PagedResponse):
    """A page of a conversation's messages, oldest first."""

    conversation: Conversation
    messages: list[ConversationMessage]
    """The messages, oldest first."""


LIST_CONVERSATIONS = ApiOperation(
    "conversations", ListConversationsRequest, ListConversationsResponse, MESSAGE, method="GET", version="v1"
)
"""List the person's own conversations, latest first, optionally only with one agent. `query` limits the list
to conversations with all of its words in title, messages and replies; WITHHELD replies are not searched.
`shared`: list the conversations that other people share with the person."""
RENAME_CONVERSATION = ApiOperation(
    "conversations/rename",
    RenameConversationRequest,
    RenameConversationResponse,
    MESSAGE,
    ADDS_DATA | NOT_FOUND,
    version="v1",
)
"""Rename one of the person's own conversations."""
DELETE_CONVERSATION = ApiOperation(
    "conversations/delete",
    DeleteConversationRequest,
    DeleteConversationResponse,
    MESSAGE,
    KEYED | NOT_FOUND,
    version="v1",
)
"""Delete one of the person's own conversations permanently, with messages and replies. The audit log and the
question log still show that messages existed, without their text."""
SHARE_CONVERSATION = ApiOperation(
    "conversations/share", ShareConversationRequest, ShareConversationResponse, MESSAGE, NOT_FOUND, version="v1"
)
"""Share one of the person's own conversations with active users of the organization; `readers` replaces
earlier readers. A reader sees all questions, and each reply of which that reader may read every document.
Access ends when a reader may no longer use the agent."""
GET_CONVERSATION = ApiOperation(
    "conversations/{conversationId}",
    GetConversationRequest,
    GetConversationResponse,
    MESSAGE,
    NOT_FOUND,
    method="GET",
    version="v1",
)
"""List a conversation's messages with replies, oldest first; `pages()` also have the conversation. A reply
based on documents that the person may not read now is WITHHELD, without text. The conversation may be shared
with the person."""
CREATE_CONVERSATION = ApiOperation(
    "copilots/createConversation",
    CreateConversationRequest,
    CreateConversationResponse,
    MESSAGE,
    KEYED | ADDS_DATA | NOT_FOUND,
    version="v0",
)
