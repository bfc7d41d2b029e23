"""admin/agents/*: extensions, for admins."""

from carrel.wire.agents import (
    AdminAgentsCreateRequest,
    AdminAgentsCreateResponse,
    AdminAgentsDeleteRequest,
    AdminAgentsDeleteResponse,
    AdminAgentsDeployRequest,
    AdminAgentsDeployResponse,
    AdminAgentsListRequest,
    AdminAgentsListResponse,
    AdminAgentsUpdateRequest,
    AdminAgentsUpdateResponse,
)
from service.domains.agents import deploying, service
from service.domains.answering.providers import model_names
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.idempotency import idempotent
from service.web.routing import Router

router = Router(prefix="/admin/agents", tags=["extension"])


@router.post("/create")
@idempotent
async def create_agent(
    request: AdminAgentsCreateRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> AdminAgentsCreateResponse:
    """Define an agent; nobody may use it before it is deployed."""
    models = model_names(runtime.settings)
    agent = await service.create_agent(connection, caller, request=request, models=models)
    return AdminAgentsCreateResponse(**dict(agent))


@router.post("/update")
async def update_agent(
    request: AdminAgentsUpdateRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> AdminAgentsUpdateResponse:
    """Change an agent from the next message on; what is left out stays."""
    models = model_names(runtime.settings)
    agent = await service.update_agent(connection, caller, request=request, models=models)
    return AdminAgentsUpdateResponse(**dict(agent))


@router.post("/list")
async def list_agents(
    request: AdminAgentsListRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> AdminAgentsListResponse:
    """List agents, and the models they may be given."""
    page = await service.list_agents(connection, caller, request=request)
    models = list(model_names(runtime.settings))
    return AdminAgentsListResponse(agents=list(page.items), models=models, next_page_token=page.next_page_token)


@router.post("/delete")
@idempotent
async def delete_agent(
    request: AdminAgentsDeleteRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminAgentsDeleteResponse:
    """Delete an agent; people keep their conversations with it."""
    await service.delete_agent(connection, caller, agent_id=request.agent_id)
    return AdminAgentsDeleteResponse(agent_id=request.agent_id)


@router.post("/deploy")
async def deploy_agent(
    request: AdminAgentsDeployRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminAgentsDeployResponse:
    """Replace who may use an agent."""
    return await deploying.deploy_agent(connection, caller, request=request)
