"""The search log in numbers, by day or week."""

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.oversight import AdminSearchLogSummarizeRequest, AdminSearchLogSummarizeResponse, SearchesInBucket
from service.auth.callers import Caller
from service.domains.search import queries
from service.web.pagination import bucket_starts


async def summarize(
    connection: Connection, caller: Caller, *, request: AdminSearchLogSummarizeRequest
) -> AdminSearchLogSummarizeResponse:
    """Count searches by day or week: all, searches without results, and searches with thumbs up or down."""
    starts = bucket_starts(request.from_, request.to, request.bucket, request.time_zone)
    rows = await queries.count_searches(connection, caller.organization_id, request)
    found = {row.from_: row for row in rows}
    none = SearchesInBucket(from_=request.from_, searches=0, without_results=0, thumbs_up=0, thumbs_down=0)
    buckets = [found.get(start) or none.model_copy(update={"from_": start}) for start in starts]
    return AdminSearchLogSummarizeResponse(buckets=buckets)
