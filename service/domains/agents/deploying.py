"""Who may use an agent: those it is deployed to, which is a grant of VIEWER on its resource, and nobody else.

A deployment opens none of the agent's collections or documents to anybody.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.admin import NamedPrincipal
from carrel.wire.agents import (
    LIST_AGENTS,
    AdminAgentsDeployRequest,
    AdminAgentsDeployResponse,
    Agent,
    ListAgentsRequest,
)
from service.audit.service import record
from service.auth.authorization import messageable_agents
from service.auth.callers import Caller
from service.auth.queries import get_acting_principal
from service.domains.agents import queries
from service.domains.agents.service import require_agent, unknown_agent
from service.identity.principals import resolve, to_named_principal
from service.permissions.access import Access, roles_by_id
from service.permissions.classes.queries import list_grants
from service.permissions.queries import get_resource, lock_resource
from service.permissions.service import access_of, set_access
from service.platform.identifiers import NIL
from service.web.pagination import Cursor, Page


async def deploy_agent(
    connection: AsyncConnection, caller: Caller, *, request: AdminAgentsDeployRequest
) -> AdminAgentsDeployResponse:
    """Replace the users of an agent, effective at commit, and return them; for admins.

    Raises NotFound, and BadRequest naming the principals this organization doesn't have.
    """
    agent = await require_agent(connection, caller.organization_id, agent_id=request.agent_id)
    if await lock_resource(connection, caller.organization_id, agent.agent_id) is None:
        raise unknown_agent()
    before = await access_of(connection, caller.organization_id, agent.agent_id)
    after = await _desired_access(connection, caller, request=request)
    if after != before:
        await set_access(connection, caller.organization_id, object_id=agent.agent_id, access=after)
        await record(
            connection,
            caller,
            action="agent.deploy",
            target_type="agent",
            target_id=agent.agent_id,
            details={"before": roles_by_id(before.grants()), "after": roles_by_id(after.grants())},
        )
    return AdminAgentsDeployResponse(
        agent_id=agent.agent_id,
        principals=await _list_deployed_to(connection, caller, agent.agent_id),
        organization_wide=request.organization_wide,
    )


async def list_deployed_agents(
    connection: AsyncConnection, caller: Caller, *, request: ListAgentsRequest
) -> Page[Agent]:
    """List a page of the agents that are deployed to the caller, and that its access token's scopes cover."""
    cursor = Cursor.read(caller, operation=LIST_AGENTS.path, request=request)
    rows = await queries.list_deployed_agents(
        connection, caller, among_ids=messageable_agents(caller), after=cursor.after_id, limit=cursor.limit
    )
    return cursor.page(rows, position=lambda row: [str(row.agent_id)])


async def read_deployed_names(
    connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID, agent_ids: Collection[UUID]
) -> dict[UUID, str]:
    """Return the names of those of these agents that are deployed to a user; other agents stay unknown."""
    person = await get_acting_principal(connection, organization_id, principal_id=principal_id)
    if person is None or not agent_ids:
        return {}
    reader = _Person(organization_id, person.principals)
    rows = await queries.list_deployed_agents(connection, reader, among_ids=agent_ids, after=NIL, limit=len(agent_ids))
    return {row.agent_id: row.name for row in rows}


@dataclass(frozen=True)
class _Person:
    organization_id: UUID
    principals: tuple[UUID, ...]


async def _desired_access(connection: AsyncConnection, caller: Caller, *, request: AdminAgentsDeployRequest) -> Access:
    references = [(f"principals.{place}", principal) for place, principal in enumerate(request.principals)]
    named = await resolve(connection, caller.organization_id, references=references)
    everyone = [caller.organization_id] if request.organization_wide else []
    return Access(owner_id=None, viewers=frozenset([*(one.principal_id for one in named), *everyone]))


async def _list_deployed_to(connection: AsyncConnection, caller: Caller, agent_id: UUID) -> list[NamedPrincipal]:
    resource = await get_resource(connection, caller.organization_id, object_id=agent_id)
    if resource is None:
        raise unknown_agent()
    rows = await list_grants(connection, caller.organization_id, access_class=resource.access_class)
    return [to_named_principal(row) for row in rows]
