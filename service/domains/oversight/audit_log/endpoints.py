"""admin/auditLog and admin/searchLog: extensions, for admins only. Nothing changes or deletes an entry."""

from carrel.wire.oversight import (
    ADMIN_AUDIT_LOG_QUERY,
    ADMIN_SEARCH_LOG_QUERY,
    ADMIN_SEARCH_LOG_SUMMARIZE,
    AdminAuditLogQueryRequest,
    AdminAuditLogQueryResponse,
    AdminSearchLogQueryRequest,
    AdminSearchLogQueryResponse,
    AdminSearchLogSummarizeRequest,
    AdminSearchLogSummarizeResponse,
)
from service.domains.oversight.audit_log import log
from service.domains.search import log as search_log
from service.domains.search import summaries
from service.web.dependencies import CallerDep, ConnectionDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(ADMIN_AUDIT_LOG_QUERY)
async def query_audit_log(
    request: AdminAuditLogQueryRequest, connection: SnapshotDep, caller: CallerDep
) -> AdminAuditLogQueryResponse:
    """Read the audit log, newest first."""
    return await log.query_log(connection, caller, request=request)


@router.operation(ADMIN_SEARCH_LOG_QUERY)
async def query_search_log(
    request: AdminSearchLogQueryRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminSearchLogQueryResponse:
    """Read the search log, newest first; `withoutResults` and `feedback` narrow it."""
    return await search_log.query_log(connection, caller, request=request)


@router.operation(ADMIN_SEARCH_LOG_SUMMARIZE)
async def summarize_search_log(
    request: AdminSearchLogSummarizeRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminSearchLogSummarizeResponse:
    """Count searches by day or week: all, those that found nothing, and those that people liked or didn't."""
    return await summaries.summarize(connection, caller, request=request)
