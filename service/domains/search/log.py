"""Reading the search log."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import UserPrincipal
from carrel.wire.oversight import (
    ADMIN_SEARCH_LOG_QUERY,
    AdminSearchLogQueryRequest,
    AdminSearchLogQueryResponse,
    LoggedSearch,
)
from service.auth.callers import Caller
from service.domains.search import queries
from service.domains.search.queries import SearchFilter
from service.web.pagination import Cursor


async def query_log(
    connection: AsyncConnection, caller: Caller, *, request: AdminSearchLogQueryRequest
) -> AdminSearchLogQueryResponse:
    """Read the search log, newest first; `withoutResults` and `feedback` narrow it."""
    cursor = Cursor.read(caller, operation=ADMIN_SEARCH_LOG_QUERY.path, request=request)
    filters = SearchFilter(
        since=request.from_,
        until=request.to,
        without_results=request.without_results,
        without_words=request.without_words,
        feedback=None if request.feedback is None else str(request.feedback),
        ids=request.ids,
    )
    before = (datetime.fromisoformat(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else None
    rows = await queries.list_searches(
        connection, caller.organization_id, filters=filters, before=before, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: [row.at.isoformat(), str(row.search_id)])
    return AdminSearchLogQueryResponse(
        searches=[_search(row) for row in page.items], next_page_token=page.next_page_token
    )


def _search(row: queries.StoredSearch) -> LoggedSearch:
    return LoggedSearch(
        search_id=row.search_id,
        at=row.at,
        actor=UserPrincipal(id=str(row.principal_id), name=row.name or "", email=row.email or ""),
        query=row.text,
        document_collection_id=row.collection_id,
        mode=row.mode,
        result_count=row.result_count,
        has_words=row.has_words,
        feedback=row.feedback,
    )
