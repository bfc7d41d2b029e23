"""Who may use an agent: principals with VIEWER on its resource. It opens no collection or document to anybody."""

from dataclasses import replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import agents as wire
from service.audit.service import record
from service.audit.versions import refuse_stale
from service.auth.authorization import messageable_agents
from service.auth.callers import Caller
from service.domains.agents.definitions.service import require_agent, unknown_agent
from service.identity.principals import resolve, to_named_principal
from service.permissions.access import Access, roles_by_id
from service.permissions.agents.queries import list_deployed_agents as list_agents_of
from service.permissions.queries import get_resource, list_grants, lock_resource
from service.permissions.service import access_of, set_access
from service.web.pagination import Cursor


async def deploy_agent(
    connection: Connection, caller: Caller, *, request: wire.AdminAgentsDeployRequest
) -> wire.AdminAgentsDeployResponse:
    """Change who may use an agent, at commit; 400 names the principals that the organization doesn't have."""
    agent = await require_agent(connection, caller.organization_id, agent_id=request.agent_id)
    if await lock_resource(connection, caller.organization_id, agent.agent_id) is None:
        raise unknown_agent()
    before = await access_of(connection, caller.organization_id, agent.agent_id)
    if request.version is not None:
        shown = await _show(connection, caller, agent.agent_id, before)
        await refuse_stale(connection, caller, request.version, shown, target_id=agent.agent_id)
    after = await _desired_access(connection, caller, before, request=request)
    if after != before:
        await set_access(connection, caller.organization_id, object_id=agent.agent_id, access=after)
        await record(
            connection,
            caller,
            "agent.deploy",
            "agent",
            agent.agent_id,
            details={"before": roles_by_id(before.grants()), "after": roles_by_id(after.grants())},
        )
    return await _show(connection, caller, agent.agent_id, after)


async def list_deployed_agents(
    connection: Connection, caller: Caller, *, request: wire.ListAgentsRequest
) -> wire.ListAgentsResponse:
    """List the agents that the person may message, and the token too."""
    cursor = Cursor.read(caller, operation=wire.LIST_AGENTS.path, request=request)
    rows = await list_agents_of(
        connection, caller, among_ids=messageable_agents(caller), after=cursor.after_id, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: [str(row.agent_id)])
    return wire.ListAgentsResponse(agents=page.items, next_page_token=page.next_page_token)


async def _desired_access(
    connection: Connection, caller: Caller, before: Access, *, request: wire.AdminAgentsDeployRequest
) -> Access:
    references = [(f"principals.{place}", principal) for place, principal in enumerate(request.principals)]
    named = await resolve(connection, caller.organization_id, references=references)
    everyone = {caller.organization_id} if request.organization_wide else set[UUID]()
    viewers = frozenset({one.principal_id for one in named} | everyone)
    match request.change:
        case None | wire.DeploymentChange.REPLACE:
            return Access(owner_id=None, viewers=viewers)
        case wire.DeploymentChange.ADD:
            return replace(before, viewers=before.viewers | viewers)
        case wire.DeploymentChange.REMOVE:
            return replace(before, viewers=before.viewers - viewers)


async def _show(
    connection: Connection, caller: Caller, agent_id: UUID, access: Access
) -> wire.AdminAgentsDeployResponse:
    resource = await get_resource(connection, caller.organization_id, object_id=agent_id)
    if resource is None:
        raise unknown_agent()
    rows = await list_grants(connection, caller.organization_id, access_class=resource.access_class)
    return wire.AdminAgentsDeployResponse(
        agent_id=agent_id,
        principals=[to_named_principal(row) for row in rows],
        organization_wide=caller.organization_id in access.viewers,
        version=access.version,
    )
