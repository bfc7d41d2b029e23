"""What the parts of a conversation pass to each other."""

from dataclasses import dataclass
from uuid import UUID

from service.audit.service import Origin
from service.platform.errors import NotFound
from service.platform.sql import AnyRow


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody says to an agent: in a conversation of theirs with it, or (None) in a new one."""

    agent_id: UUID
    text: str
    conversation_id: UUID | None = None


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
        """Read a row of `queries.begin_attempt` or `queries.get_work`."""
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
    """The one answer for a conversation that is unknown, another's, or with another agent."""
    return NotFound(
        "You have no such conversation with this agent. Check the conversationId, or leave it out to begin a new one.",
        code="conversation_not_found",
    )
