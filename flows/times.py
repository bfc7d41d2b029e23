"""When a schedule runs: cron expressions in a time zone, checked, with their next times."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterError, croniter

from flows.prefect_api import RunsError

_FIELDS = 5
_UNKNOWN_TO_PREFECT = frozenset("hr")


class InvalidTimesError(RunsError):
    """A cron expression or a time zone is wrong; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a schedule: a cron expression in a time zone, or only a text for another kind of schedule."""

    cron: str
    timezone: str = "UTC"
    other: str = ""


def check_times(times: Times) -> None:
    """Check that a schedule of these times can be kept, and runs some day. Raises InvalidTimesError."""
    fields = times.cron.split()
    if not times.cron.startswith("@") and len(fields) != _FIELDS:
        msg = f"“{times.cron}” needs five parts: minute, hour, day of month, month, and day of week, as in 0 2 * * 1."
        raise InvalidTimesError(msg)
    if not croniter.is_valid(times.cron) or any(one.casefold() in _UNKNOWN_TO_PREFECT for one in fields):
        msg = f"“{times.cron}” is no cron expression. Write one such as 0 2 * * 1, which is Monday at 02:00."
        raise InvalidTimesError(msg)
    try:
        ZoneInfo(times.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        msg = f"“{times.timezone}” is no time zone. Choose one such as Europe/Berlin or UTC."
        raise InvalidTimesError(msg) from exc
    if not next_times([times], 1):
        msg = f"“{times.cron}” names a day that never comes. Change the day or the month."
        raise InvalidTimesError(msg)


def next_times(every: Sequence[Times], count: int, *, after: datetime | None = None) -> list[datetime]:
    """Return the next moments of times that were checked, each in its time zone; none of other kinds of schedules."""
    start = after or datetime.now(UTC)
    found = (at for times in every if times.cron for at in islice(_moments(times, start), count))
    return sorted(found)[:count]


def _moments(times: Times, start: datetime) -> Iterator[datetime]:
    """Yield the moments after `start`, by the clock on the wall there, as Prefect counts them."""
    zone = ZoneInfo(times.timezone)
    clock = croniter(times.cron, start.astimezone(zone).replace(tzinfo=None))
    while True:
        try:
            at: datetime = clock.get_next(datetime)
        except CroniterError:  # a 30th of February
            return
        yield at.replace(tzinfo=zone)
