"""admin/auditLog/query: an extension, for admins only. Nothing here or elsewhere changes or deletes an entry."""

from carrel.wire.admin import AdminAuditLogQueryRequest, AdminAuditLogQueryResponse
from service.audit import log
from service.dependencies import CallerDep, ConnectionDep
from service.routing import Router

router = Router(prefix="/admin/auditLog", tags=["extension"])


@router.post("/query")
async def query_audit_log(
    request: AdminAuditLogQueryRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminAuditLogQueryResponse:
    """Read the audit log, newest first."""
    return await log.query_log(connection, caller, request=request)
