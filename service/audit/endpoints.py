"""admin/auditLog/query and admin/searchLog/query: extensions, for admins only. Nothing changes or deletes an entry."""

from carrel.wire.admin import (
    AdminAuditLogQueryRequest,
    AdminAuditLogQueryResponse,
    AdminSearchLogQueryRequest,
    AdminSearchLogQueryResponse,
)
from service.audit import log
from service.dependencies import CallerDep, ConnectionDep
from service.routing import Router
from service.search import log as search_log

router = Router(prefix="/admin", tags=["extension"])


@router.post("/auditLog/query")
async def query_audit_log(
    request: AdminAuditLogQueryRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminAuditLogQueryResponse:
    """Read the audit log, newest first."""
    return await log.query_log(connection, caller, request=request)


@router.post("/searchLog/query")
async def query_search_log(
    request: AdminSearchLogQueryRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminSearchLogQueryResponse:
    """Read the search log, newest first; `withoutResults` and `feedback` narrow it."""
    return await search_log.query_log(connection, caller, request=request)
