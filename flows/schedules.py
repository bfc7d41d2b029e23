"""Schedules, read, paused and resumed through Prefect's API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from flows.run_status import DEPLOYMENT, RunStatus, moment_of
from flows.runs import FLOWS, Runs

_PAGE = 200
_NEXT = 3


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a schedule: a cron expression in a time zone, or only a text for another kind of schedule."""

    cron: str
    timezone: str
    other: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A deployment with an entry in the file. Without `times` it runs when somebody starts it."""

    deployment_id: UUID
    name: str
    flow: str
    parameters: Mapping[str, Any]
    times: Sequence[Times]
    paused: bool
    resting: Sequence[UUID]
    """Its schedules that were paused apart from it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The next run of a schedule, and how the last one went."""

    next_at: Sequence[datetime] = ()
    last: RunStatus | None = None


def list_schedules(runs: Runs) -> list[Schedule]:
    """Return every schedule, by name. Raises RunsError."""
    found: list[dict[str, Any]] = []
    query = {"flows": {"name": {"any_": list(FLOWS)}}, "sort": "NAME_ASC", "limit": _PAGE}
    while page := runs.rows("/deployments/filter", {**query, "offset": len(found)}):
        found += page
    ours = [one for one in found if one["name"] != DEPLOYMENT]
    return [_schedule(runs, one) for one in ours]


def look_at(runs: Runs, schedules: Sequence[Schedule]) -> dict[UUID, Seen]:
    """Return the next and the last run of each schedule. Raises RunsError."""
    now = datetime.now(UTC).isoformat()
    coming = _by_deployment(runs, schedules, {"after_": now}, sort="EXPECTED_START_TIME_ASC", each=_NEXT)
    past = _by_deployment(runs, schedules, {"before_": now}, sort="EXPECTED_START_TIME_DESC", each=1)
    last = {run.deployment_id: run for run in runs.statuses([found[0] for found in past.values() if found])}
    return {
        one.deployment_id: Seen(
            [at for run in coming[one.deployment_id] if (at := moment_of(run["expected_start_time"]))],
            last.get(one.deployment_id),
        )
        for one in schedules
    }


def pause(runs: Runs, schedule: Schedule) -> None:
    """Pause a schedule, which then starts no runs; runs in progress continue. Raises RunsError."""
    runs.call("POST", f"/deployments/{schedule.deployment_id}/pause_deployment")


def resume(runs: Runs, schedule: Schedule) -> None:
    """Resume a schedule, which then starts runs at its times again. Raises RunsError."""
    for resting in schedule.resting:
        runs.call("PATCH", f"/deployments/{schedule.deployment_id}/schedules/{resting}", {"active": True})
    runs.call("POST", f"/deployments/{schedule.deployment_id}/resume_deployment")


def _schedule(runs: Runs, deployment: Mapping[str, Any]) -> Schedule:
    schedules: Sequence[Mapping[str, Any]] = deployment.get("schedules") or ()
    resting = [UUID(one["id"]) for one in schedules if not one["active"]]
    return Schedule(
        deployment_id=UUID(deployment["id"]),
        name=str(deployment["name"]),
        flow=runs.flow_of(deployment),
        parameters=deployment.get("parameters") or {},
        times=[_times(one["schedule"]) for one in schedules],
        paused=bool(deployment.get("paused")) or (bool(schedules) and len(resting) == len(schedules)),
        resting=resting,
    )


def _times(schedule: Mapping[str, Any]) -> Times:
    cron, timezone = str(schedule.get("cron") or ""), str(schedule.get("timezone") or "UTC")
    other = "" if cron else str(schedule.get("rrule") or f"every {schedule.get('interval')} s")
    return Times(cron, timezone, other)


def _by_deployment(
    runs: Runs, schedules: Sequence[Schedule], due: Mapping[str, str], *, sort: str, each: int
) -> dict[UUID, list[dict[str, Any]]]:
    """Return the first `each` runs of each schedule, sorted by `sort`.

    One query finds most; runs of frequent schedules may fill it, and those of rare ones are then queried separately.
    """
    found: dict[UUID, list[dict[str, Any]]] = {one.deployment_id: [] for one in schedules}
    if not schedules:
        return found
    query = {"flow_runs": {"expected_start_time": dict(due)}, "sort": sort}
    everyone = {"deployments": {"id": {"any_": [str(one) for one in found]}}, "limit": _PAGE}
    rows = runs.rows("/flow_runs/filter", {**query, **everyone})
    for row in rows:
        found[UUID(row["deployment_id"])].append(row)
    if len(rows) == _PAGE:
        for one in (one for one, its in found.items() if len(its) < each):
            alone = {"deployments": {"id": {"any_": [str(one)]}}, "limit": each}
            found[one] = runs.rows("/flow_runs/filter", {**query, **alone})
    return {one: its[:each] for one, its in found.items()}
