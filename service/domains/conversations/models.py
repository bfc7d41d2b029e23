"""Values that the modules of conversations pass to each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from carrel.wire.messages import InputVariable
from service.audit.service import Origin
from service.platform.errors import NotFound
from service.platform.sql import AnyRow


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
    """A turn that a worker answers."""

    organization_id: UUID
    conversation_id: UUID
    turn_id: UUID
    turn_no: int
    agent_id: UUID
    message: str
    origin: Origin

    @classmethod
    def of(cls, organization_id: UUID, row: AnyRow) -> "Work":
        """Build the value from a row of `queries.begin_attempt` or `queries.get_work`."""
        return cls(
            organization_id=organization_id,
            conversation_id=row.conversation_id,
            turn_id=row.turn_id,
            turn_no=row.turn_no,
            agent_id=row.agent_id,
            message=row.message,
            origin=Origin(
                principal_id=row.principal_id,
                credential_id=row.credential_id,
                acting_through=row.acting_through_id,
                request_id=row.request_id,
            ),
        )


def unknown_conversation() -> NotFound:
    """Return the one error for a conversation that is unknown, another person's, or with another agent."""
    return NotFound(
        "You have no such conversation with this agent. Check the conversationId, or leave it out to begin a new one.",
        code="conversation_not_found",
    )
