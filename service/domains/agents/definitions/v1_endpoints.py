"""GET /api/v1/agents: an extension."""

from typing import Annotated

from fastapi import Query

from carrel.wire.agents import LIST_AGENTS, ListAgentsRequest, ListAgentsResponse
from service.domains.agents.definitions import deploying
from service.web.dependencies import CallerDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(LIST_AGENTS)
async def list_deployed_agents(
    request: Annotated[ListAgentsRequest, Query()], connection: SnapshotDep, caller: CallerDep
) -> ListAgentsResponse:
    """List the agents that the person may message, and the token too."""
    page = await deploying.list_deployed_agents(connection, caller, request=request)
    return ListAgentsResponse(agents=list(page.items), next_page_token=page.next_page_token)
