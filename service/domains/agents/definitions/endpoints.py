"""admin/agents/*: extensions, for admins."""

from carrel.wire import agents as wire
from service.domains.agents.definitions import service
from service.web.routing import Router

router = Router()

router.serve(wire.ADMIN_AGENTS_CREATE, service.create_agent)
router.serve(wire.ADMIN_AGENTS_UPDATE, service.update_agent)
router.read(wire.ADMIN_AGENTS_LIST, service.list_agents)
router.read(wire.ADMIN_AGENTS_LIST_VERSIONS, service.list_versions, name="list_agent_versions")
router.serve(wire.ADMIN_AGENTS_DELETE, service.delete_agent)
router.serve(wire.ADMIN_AGENTS_DEPLOY, service.deploy_agent)
