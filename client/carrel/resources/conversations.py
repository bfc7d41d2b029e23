"""conversations: what a person and their agents have said, on v1."""

from typing import TypeVar
from uuid import UUID

from carrel._operations import ListOperation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_any, require_id
from carrel.wire import conversations as wire

M = TypeVar("M")


class Conversations(Resource[M]):
    """The person's own conversations, for an access token."""

    @property
    def with_raw_response(self) -> "Conversations[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Conversations(self._session.as_raw())

    @ListOperation
    def list(
        self, *, agent_id: Id | None = None, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.Conversation, wire.ListConversationsResponse]:
        """Walk the conversations, the latest first; those with one agent if it is named."""
        request = wire.ListConversationsRequest(
            agent_id=as_any(UUID, agent_id), page_size=page_size, page_token=page_token
        )
        return Listing(wire.LIST_CONVERSATIONS, request, lambda page: page.conversations)

    @ListOperation
    def get(
        self, conversation_id: Id, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.ConversationMessage, wire.GetConversationResponse]:
        """Walk a conversation's messages with their replies, oldest first; `pages()` also have the conversation.

        A reply that rests on what the person may not read any more is WITHHELD, without its text.
        """
        request = wire.GetConversationRequest(page_size=page_size, page_token=page_token)
        values = {"conversationId": require_id("conversation_id", conversation_id)}
        return Listing(wire.GET_CONVERSATION, request, lambda page: page.messages, values)
