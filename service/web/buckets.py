"""Days and weeks that a log is counted by."""

from datetime import MAXYEAR, UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from carrel.wire.oversight import Bucket
from service.platform.errors import BadRequest, FieldError

MOST_BUCKETS = 400
LENGTHS = {Bucket.DAY: timedelta(days=1), Bucket.WEEK: timedelta(weeks=1)}


def bucket_starts(since: datetime, until: datetime, bucket: Bucket, time_zone: str = "UTC") -> list[datetime]:
    """Return the beginning of each day or week of a time zone from `since` until before `until`. Raises BadRequest:
    `since` not before `until`, more than `MOST_BUCKETS` buckets (`too_many_buckets`), or an unknown time zone."""
    require_span(since, until)
    try:
        zone = UTC if time_zone == "UTC" else ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:  # no such name, or that of a folder or of another file
        message = f"There is no time zone {time_zone!r}. Give the name of one, such as UTC or Pacific/Auckland."
        raise BadRequest(message, details=[FieldError("timeZone", message)]) from error
    length = LENGTHS[bucket]
    # The calendar's first and last year have moments that a zone's clock can't show.
    zone = zone if 1 < since.year < MAXYEAR else UTC
    first = _beginning(since, bucket, zone)
    if (until - first) > MOST_BUCKETS * length:
        advice = "Ask for weeks, or for less at a time." if bucket is Bucket.DAY else "Ask for less at a time."
        message = f"From then to then are more than {MOST_BUCKETS} buckets. {advice}"
        raise BadRequest(message, code="too_many_buckets", details=[FieldError("bucket", message)])
    # By the clock of the zone, in which a day may have 23 or 25 hours, and not beyond the calendar's last day.
    starts, start, last = [first.astimezone(UTC)], first, datetime.max.replace(tzinfo=first.tzinfo)
    while last - start > length + timedelta(days=zone is not UTC) and (start := start + length) < until:
        starts.append(start.astimezone(UTC))
    return starts


def require_span(since: datetime, until: datetime) -> None:
    """Raise BadRequest unless one moment lies before the other."""
    if since >= until:
        message = "`from` must lie before `to`."
        raise BadRequest(message, details=[FieldError("to", message)])


def _beginning(moment: datetime, bucket: Bucket, zone: tzinfo) -> datetime:
    midnight = datetime.combine(moment.astimezone(zone).date(), time(), zone)
    return midnight - timedelta(days=midnight.weekday() if bucket is Bucket.WEEK else 0)
