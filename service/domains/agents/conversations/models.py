"""Values that the modules of conversations pass to each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from carrel.wire.messages import InputVariable
from service.audit.service import Origin
from service.platform.errors import NotFound
from service.platform.senders import Sender


@dataclass(frozen=True, slots=True)
class Message:
    """A person's message to an agent: in one of their conversations with the agent, or (None) in a new conversation.

    `variables` are filled in when the turn is added.
    """

    agent_id: UUID
    text: str
    conversation_id: UUID | None = None
    variables: Sequence[InputVariable] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """A running turn that a worker answers, in an attempt of this number (0: in none yet)."""

    organization_id: UUID
    conversation_id: UUID
    turn_id: UUID
    turn_no: int
    attempt: int
    agent_id: UUID
    message: str
    principal_id: UUID
    credential_id: UUID
    acting_through_id: UUID | None
    request_id: str | None
    collection_ids: Sequence[UUID] | None
    address: str | None
    device: str | None

    @property
    def origin(self) -> Origin:
        """The origin of the message."""
        sender = Sender(self.address, self.device)
        return Origin(self.principal_id, self.credential_id, self.acting_through_id, self.request_id, sender)


def unknown_conversation() -> NotFound:
    """Return the one error for a conversation that is unknown, another person's, or with another agent."""
    return NotFound(
        "You have no such conversation with this agent. Check the conversationId, or leave it out to begin a new one.",
        code="conversation_not_found",
    )
