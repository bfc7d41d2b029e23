"""Conversations of a person with their agents, read and sent as that person; nothing here is drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID, uuid4

import streamlit as st

import carrel
from app.auth.current import person_client
from app.formatting import one_line, shorten
from carrel.wire.agents import Agent
from carrel.wire.catalog import IndexingStatus
from carrel.wire.conversations import Conversation, ConversationMessage
from carrel.wire.messages import SendAgentMessageResponse

LONGEST_MESSAGE = 20_000
"""Characters that the service takes."""

EXAMPLES = 3
"""How many questions a new conversation offers."""

_AT_ONCE = 200
_COLLECTIONS, _LONGEST_NAME = 3, 60


@dataclass(frozen=True)
class ChatLocation:
    """An agent and a conversation, as the address of the page Chat names them; empty for none."""

    agent: str = ""
    conversation: str = ""

    @classmethod
    def from_address(cls, parameters: Mapping[str, str]) -> "ChatLocation":
        """Return the location that a page's address names, which may not exist."""
        return cls(parameters.get("agent", ""), parameters.get("conversation", ""))

    def address(self) -> dict[str, str]:
        """Return the parameters of the address that leads here again."""
        wanted = {"agent": self.agent, "conversation": self.conversation}
        return {name: value for name, value in wanted.items() if value}


@dataclass(frozen=True)
class Transcript:
    """A conversation with all its messages, oldest first."""

    conversation: Conversation
    messages: list[ConversationMessage]


@dataclass(frozen=True)
class Outgoing:
    """A message to send; its key has the effect that it is answered once, however often it is sent."""

    place: ChatLocation
    text: str
    key: str = field(default_factory=lambda: uuid4().hex)

    def send(self) -> SendAgentMessageResponse:
        """Send the message; return the job that replies, whose id is also the message's id."""
        client = person_client().with_options(headers={"Idempotency-Key": self.key})
        conversation = self.place.conversation or None
        return client.agents.send_message(self.place.agent, self.text, conversation_id=conversation)


@dataclass(frozen=True)
class Sent:
    """A message that the service has accepted; `begun_at` is the location it was sent from."""

    outgoing: Outgoing
    conversation_id: UUID
    message_id: UUID

    def is_again(self, place: ChatLocation, text: str) -> bool:
        """Return whether a text repeats this message, at its location or at the one it led to."""
        mine = {self.outgoing.place.conversation, str(self.conversation_id)}
        return text == self.outgoing.text and place.conversation in mine


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def my_agents() -> list[Agent]:
    """Return the agents that the person may message, by name."""
    return sorted(person_client().agents.list(), key=lambda agent: agent.name.lower())


def read(conversation: str) -> Transcript | None:
    """Return one of the person's conversations; None when they have no such conversation."""
    try:
        pages = list(person_client().conversations.get(conversation, page_size=_AT_ONCE).pages())
    except (carrel.NotFoundError, carrel.BadRequestError, carrel.InvalidArgumentError):
        return None
    return Transcript(pages[0].conversation, [message for page in pages for message in page.messages])


@st.cache_data(ttl=300, show_spinner=False, scope="session")
def example_questions() -> list[str]:
    """Return questions about some documents that the person may read, of the collections that they may search.

    People aren't told which collections an agent answers from: an example may be one that this agent can't answer.
    """
    client = person_client()
    names: list[str] = []
    for collection in islice(
        client.document_collections.list_document_collections(page_size=_COLLECTIONS), _COLLECTIONS
    ):
        found = client.document_collections.list_documents_in_collection(
            collection.document_collection_id, indexing=IndexingStatus.DONE, page_size=EXAMPLES
        )
        names += [one.document_name for one in next(found.pages()).documents]
    questions = (f"What is in “{shorten(one_line(name), _LONGEST_NAME)}”?" for name in names)
    return list(dict.fromkeys(questions))[:EXAMPLES]
