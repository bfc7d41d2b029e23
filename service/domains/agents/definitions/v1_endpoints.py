"""GET /api/v1/agents: an extension."""

from carrel.wire.agents import LIST_AGENTS
from service.domains.agents.definitions import service
from service.web.routing import Router

router = Router()

router.read(LIST_AGENTS, service.list_deployed_agents)
