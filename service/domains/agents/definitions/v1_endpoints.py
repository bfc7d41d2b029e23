"""GET /api/v1/agents: an extension."""

from carrel.wire.agents import LIST_AGENTS
from service.domains.agents.definitions import deploying
from service.web.routing import Router

router = Router()

router.read(LIST_AGENTS, deploying.list_deployed_agents)
