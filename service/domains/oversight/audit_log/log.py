"""Reading the audit log."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import oversight as wire
from service.audit import queries
from service.audit.queries import Position
from service.auth.callers import Caller
from service.web.pagination import Cursor


async def query_log(
    connection: Connection, caller: Caller, *, request: wire.AdminAuditLogQueryRequest
) -> wire.AdminAuditLogQueryResponse:
    """Read the audit log, newest first.
    `actor` is the acting principal, or the principal acted for. With `query`, or the filter for files in archives and
    mails, a page may be short or empty although more pages follow."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_AUDIT_LOG_QUERY.path, request=request)
    before = Position(datetime.fromisoformat(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else None
    rows = await queries.list_entries(
        connection, caller.organization_id, filters=request, before=before, limit=cursor.limit
    )
    page = cursor.page(rows, position=_position)
    if queries.looks_through(request) and page.next_page_token is None:
        last = await queries.find_last_searched(connection, caller.organization_id, filters=request, before=before)
        page = page if last is None else cursor.page_until(rows, after=_position(last))
    return wire.AdminAuditLogQueryResponse(entries=page.items, next_page_token=page.next_page_token)


def _position(row: wire.AuditEntry | Position) -> list[str]:
    return [row.at.isoformat(), str(row.audit_log_id)]
