"""admin/sessions: extensions, for admins only."""

from carrel.wire import sessions as wire
from service.identity_server.sessions import service
from service.web.routing import Router

router = Router()

router.serve(wire.ADMIN_SESSIONS_LIST, service.list_sessions)
router.serve(wire.ADMIN_SESSIONS_END, service.end_sessions)
