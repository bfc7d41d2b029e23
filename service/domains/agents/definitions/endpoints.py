"""admin/agents/*: extensions, for admins."""

from carrel.wire import agents as wire
from service.domains.agents.answering.providers import model_names
from service.domains.agents.definitions import deploying, service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.ADMIN_AGENTS_CREATE)
async def create_agent(
    request: wire.AdminAgentsCreateRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminAgentsCreateResponse:
    """Define an agent; nobody may use it before it is deployed."""
    models = model_names(runtime.settings)
    agent = await service.create_agent(connection, caller, request=request, models=models)
    return wire.AdminAgentsCreateResponse(**dict(agent))


@router.operation(wire.ADMIN_AGENTS_UPDATE)
async def update_agent(
    request: wire.AdminAgentsUpdateRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminAgentsUpdateResponse:
    """Change an agent from the next message on; what is left out stays."""
    models = model_names(runtime.settings)
    agent = await service.update_agent(connection, caller, request=request, models=models)
    return wire.AdminAgentsUpdateResponse(**dict(agent))


@router.operation(wire.ADMIN_AGENTS_LIST)
async def list_agents(
    request: wire.AdminAgentsListRequest, runtime: RuntimeDep, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminAgentsListResponse:
    """List agents, and the models they may be given."""
    page = await service.list_agents(connection, caller, request=request)
    models = list(model_names(runtime.settings))
    return wire.AdminAgentsListResponse(agents=list(page.items), models=models, next_page_token=page.next_page_token)


@router.operation(wire.ADMIN_AGENTS_DELETE)
async def delete_agent(
    request: wire.AdminAgentsDeleteRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminAgentsDeleteResponse:
    """Delete an agent; people keep their conversations with it."""
    await service.delete_agent(connection, caller, agent_id=request.agent_id)
    return wire.AdminAgentsDeleteResponse(agent_id=request.agent_id)


@router.operation(wire.ADMIN_AGENTS_DEPLOY)
async def deploy_agent(
    request: wire.AdminAgentsDeployRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminAgentsDeployResponse:
    """Replace who may use an agent."""
    return await deploying.deploy_agent(connection, caller, request=request)
