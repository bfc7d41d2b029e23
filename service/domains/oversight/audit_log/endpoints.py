"""admin/auditLog and admin/searchLog: extensions, for admins only. No operation changes or deletes an entry."""

from carrel.wire import oversight as wire
from service.domains.oversight.audit_log import log
from service.domains.search import log as search_log
from service.web.routing import Router

router = Router()

router.read(wire.ADMIN_AUDIT_LOG_QUERY, log.query_log, name="query_audit_log")
router.serve(wire.ADMIN_SEARCH_LOG_QUERY, search_log.query_log, name="query_search_log")
router.serve(wire.ADMIN_SEARCH_LOG_SUMMARIZE, search_log.summarize, name="summarize_search_log")
