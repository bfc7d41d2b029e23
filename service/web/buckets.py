"""Days and weeks that a log is counted by."""

from datetime import UTC, datetime, time, timedelta

from carrel.wire.oversight import Bucket
from service.platform.errors import BadRequest, FieldError

MOST_BUCKETS = 400
LENGTHS = {Bucket.DAY: timedelta(days=1), Bucket.WEEK: timedelta(weeks=1)}


def bucket_starts(since: datetime, until: datetime, bucket: Bucket) -> list[datetime]:
    """Return the beginning of each day or week from `since` until before `until`. Raises BadRequest: `since` not before
    `until`, or more than `MOST_BUCKETS` buckets (`too_many_buckets`)."""
    require_span(since, until)
    first, length = _beginning(since, bucket), LENGTHS[bucket]
    if (until - first) > MOST_BUCKETS * length:
        advice = "Ask for weeks, or for less at a time." if bucket is Bucket.DAY else "Ask for less at a time."
        message = f"From then to then are more than {MOST_BUCKETS} buckets. {advice}"
        raise BadRequest(message, code="too_many_buckets", details=[FieldError("bucket", message)])
    # Counted rather than added up, so that nothing is added to the calendar's last day.
    return [first + number * length for number in range(-(-(until - first) // length))]


def require_span(since: datetime, until: datetime) -> None:
    """Raise BadRequest unless one moment lies before the other."""
    if since >= until:
        message = "`from` must lie before `to`."
        raise BadRequest(message, details=[FieldError("to", message)])


def _beginning(moment: datetime, bucket: Bucket) -> datetime:
    midnight = datetime.combine(moment.date(), time(), UTC)
    return midnight - timedelta(days=midnight.weekday() if bucket is Bucket.WEEK else 0)
