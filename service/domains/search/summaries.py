"""The search log in numbers, by day or week."""

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.oversight import (
    AdminSearchLogSummarizeRequest,
    AdminSearchLogSummarizeResponse,
    Bucket,
    SearchesInBucket,
)
from service.auth.callers import Caller
from service.domains.search import queries
from service.platform.errors import BadRequest, FieldError

MOST_BUCKETS = 400
LENGTHS = {Bucket.DAY: timedelta(days=1), Bucket.WEEK: timedelta(weeks=1)}


async def summarize(
    connection: AsyncConnection, caller: Caller, *, request: AdminSearchLogSummarizeRequest
) -> AdminSearchLogSummarizeResponse:
    """How many searches there were in every day or week, and how they went; for admins.

    Raises BadRequest: `from` not before `to`, or more than `MOST_BUCKETS` buckets (`too_many_buckets`).
    """
    starts = _starts(request.from_, request.to, request.bucket)
    rows = await queries.count_searches(
        connection, caller.organization_id, since=request.from_, until=request.to, bucket=request.bucket.value
    )
    found = {row.from_: row for row in rows}
    return AdminSearchLogSummarizeResponse(buckets=[found.get(start) or _empty(start) for start in starts])


def _starts(since: datetime, until: datetime, bucket: Bucket) -> list[datetime]:
    if since >= until:
        message = "`from` must lie before `to`."
        raise BadRequest(message, details=[FieldError("to", message)])
    first, length = _beginning(since, bucket), LENGTHS[bucket]
    if (until - first) > MOST_BUCKETS * length:
        advice = "Ask for weeks, or for less at a time." if bucket is Bucket.DAY else "Ask for less at a time."
        message = f"From then to then are more than {MOST_BUCKETS} buckets. {advice}"
        raise BadRequest(message, code="too_many_buckets", details=[FieldError("bucket", message)])
    return list(_every(first, until, length))


def _beginning(moment: datetime, bucket: Bucket) -> datetime:
    midnight = datetime.combine(moment.date(), time(), UTC)
    return midnight - timedelta(days=midnight.weekday() if bucket is Bucket.WEEK else 0)


def _every(first: datetime, until: datetime, length: timedelta) -> Iterator[datetime]:
    # Counted rather than added up, so that nothing is added to the calendar's last day.
    for number in range(-(-(until - first) // length)):
        yield first + number * length


def _empty(start: datetime) -> SearchesInBucket:
    return SearchesInBucket(from_=start, searches=0, without_results=0, thumbs_up=0, thumbs_down=0)
