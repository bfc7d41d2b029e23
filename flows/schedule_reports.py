"""Telling the service each minute when schedules are due, so that it notices when nothing starts them."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from prefect.client.orchestration import get_client

from carrel.errors import CarrelError
from carrel.wire.alerts import MOST_SCHEDULES, ReportedSchedule
from flows.operations.jobs import open_client
from flows.runs import Runs, RunsError
from flows.schedules import list_schedules, next_times
from flows.settings import FlowSettings

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
    """Return each schedule that isn't paused, with its next time, or since when it waits. Raises RunsError."""
    schedules = [one for one in list_schedules(runs) if not one.paused and any(times.cron for times in one.times)]
    since = _waiting_since(runs) if schedules else {}
    due = {one.key: [since[one.key]] if one.key in since else next_times(one.times, 1) for one in schedules}
    return [
        ReportedSchedule(subject=one.key, name=one.name[:_LONGEST_NAME] or one.flow, due_at=due[one.key][0])
        for one in schedules
        if due[one.key]
    ][:MOST_SCHEDULES]


def _waiting_since(runs: Runs) -> dict[str, datetime]:
    """Return, by the keys of schedules, when the first run that is due and that nothing has started was due. A run that
    waits for another run of its schedule to end is not late."""
    is_running = {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}, "limit": _PAGE}
    busy = {key for row in runs.rows("/flow_runs/filter", is_running) for key in _keys_of(row)}
    due = {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}}
    rows = runs.rows(
        "/flow_runs/filter",
        {"flow_runs": {**due, "state": _WAITING}, "sort": "EXPECTED_START_TIME_ASC", "limit": _PAGE},
    )
    since: dict[str, datetime] = {}
    for row in (row for row in reversed(rows) if row.get("auto_scheduled")):
        since |= dict.fromkeys(_keys_of(row), datetime.fromisoformat(str(row["expected_start_time"])))
    return {key: at for key, at in since.items() if key not in busy}


def _keys_of(run: Mapping[str, Any]) -> set[str]:
    creator: Mapping[str, Any] = run.get("created_by") or {}
    return {str(key) for key in (creator.get("id"), run.get("deployment_id")) if key}
