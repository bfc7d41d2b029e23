"""Telling the service when schedules are due, so that it tells people when nothing starts them.

A process that serves schedules says so every minute. Where that process or Prefect is away, nobody does, and the
service finds out when the time has passed.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from prefect.client.orchestration import get_client

from carrel.errors import CarrelError
from carrel.wire.alerts import MOST_SCHEDULES, ReportedSchedule
from flows.operations.jobs import open_client
from flows.prefect_api import RunsError
from flows.runs import Runs
from flows.schedules import Schedule, list_schedules
from flows.settings import FlowSettings
from flows.times import next_times

_AGAIN_SECONDS = 60.0
_WAITING = {"type": {"any_": ["SCHEDULED"]}, "name": {"any_": ["Scheduled", "Late"]}}
_PAGE = 200
_LONGEST_NAME = 200


async def report_schedules(settings: FlowSettings, *, say: Callable[[str], None]) -> None:
    """Report every minute, until cancelled, when the schedules of Prefect's server are due."""
    async with get_client() as client:
        api_url = str(client.api_url)
    failed = ""
    with Runs(api_url) as runs:
        while True:
            try:
                schedules = await asyncio.to_thread(read_due, runs)
                async with open_client(settings) as client:
                    await client.alerts.report_schedules(schedules)
                failed = ""
            except (CarrelError, RunsError) as exc:
                if failed != str(exc):  # not every minute
                    failed = str(exc)
                    say(f"When schedules are due was not reported to the service ({failed}); it is tried again.")
            await asyncio.sleep(_AGAIN_SECONDS)


def read_due(runs: Runs) -> list[ReportedSchedule]:
    """Return each schedule that isn't paused, with when it is due next, or since when nothing starts it.

    Raises RunsError.
    """
    schedules = [one for one in list_schedules(runs) if not one.paused and any(times.cron for times in one.times)]
    since = _waiting_since(runs) if schedules else {}
    reported = [_report(one, since.get(one.key)) for one in schedules]
    return [one for one in reported if one is not None][:MOST_SCHEDULES]


def _report(schedule: Schedule, since: datetime | None) -> ReportedSchedule | None:
    due = next_times(schedule.times, 1)
    if since is None and not due:
        return None
    name = schedule.name[:_LONGEST_NAME] or schedule.flow
    return ReportedSchedule(subject=schedule.key, name=name, due_at=since or due[0])


def _waiting_since(runs: Runs) -> dict[str, datetime]:
    """Return, by the keys of schedules, when the first run that is due and that nothing has started was due."""
    due = {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}}
    rows = runs.rows(
        "/flow_runs/filter",
        {"flow_runs": {**due, "state": _WAITING}, "sort": "EXPECTED_START_TIME_ASC", "limit": _PAGE},
    )
    return {key: _time_of(row) for row in reversed(rows) if row.get("auto_scheduled") for key in _keys_of(row)}


def _keys_of(row: Mapping[str, Any]) -> Sequence[str]:
    creator: Mapping[str, Any] | None = row.get("created_by")
    return [str(one) for one in ((creator or {}).get("id"), row.get("deployment_id")) if one]


def _time_of(row: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(row["expected_start_time"]))
