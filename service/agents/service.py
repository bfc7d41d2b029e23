"""Rules of agents: what one is, and who may use it.

An agent is a resource without an owner: to deploy it is to grant principals VIEWER on it. That opens none of its
collections or documents to anybody; an agent retrieves what the sender of a message may read.
"""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.agents import queries
from service.agents.queries import StoredAgent, get_deployed_agent
from service.errors import NotFound

__all__ = ["StoredAgent", "get_deployed_agent", "unknown_agent"]


def unknown_agent() -> NotFound:
    """The one answer for an agent that is unknown, deleted, or not deployed to the caller."""
    return NotFound(
        "There is no such agent, or it is not deployed to you. Check the agentId, or ask an admin to deploy it.",
        code="agent_not_found",
    )


async def agent_of(connection: AsyncConnection, organization_id: UUID, *, agent_id: UUID) -> StoredAgent:
    """Return an agent of the organization, for admins; NotFound when there is none (any more)."""
    agent = await queries.get_agent(connection, organization_id, agent_id=agent_id)
    if agent is None:
        raise unknown_agent()
    return agent
