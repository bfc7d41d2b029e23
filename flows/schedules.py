"""Schedules on a Prefect server, read through its API: those kept there, and those that the file declares."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from flows.run_status import DEPLOYMENT, SCHEDULE, RunStatus
from flows.runs import FLOWS, Runs
from flows.schedule_labels import Label
from flows.times import Times, next_times

_PAGE = 200
_NEXT = 3


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that is kept by Prefect, or a deployment with an entry in the file, which has no `schedule_id`.

    Without `times` it runs when somebody starts it.
    """

    deployment_id: UUID
    name: str
    flow: str
    parameters: Mapping[str, Any]
    times: Sequence[Times]
    paused: bool
    resting: Sequence[UUID] = ()
    """Schedules of the file's entry that were paused apart from it."""
    schedule_id: UUID | None = None
    label: Label | None = None
    revision: str = ""
    """Changes whenever somebody changes the schedule."""

    @property
    def key(self) -> str:
        """The id by which the schedule is named in an address."""
        return str(self.schedule_id or self.deployment_id)


@dataclass(frozen=True, slots=True)
class Seen:
    """The next times of a schedule, and its last run."""

    next_at: Sequence[datetime] = ()
    last: RunStatus | None = None


def list_schedules(runs: Runs) -> list[Schedule]:
    """Return every schedule, by name. Raises RunsError."""
    found: list[dict[str, Any]] = []
    query = {"flows": {"name": {"any_": list(FLOWS)}}, "sort": "NAME_ASC", "limit": _PAGE}
    while page := runs.rows("/deployments/filter", {**query, "offset": len(found)}):
        found += page
    every = [one for deployment in found for one in _schedules_of(runs, deployment)]
    return sorted(every, key=lambda one: (one.name.casefold(), one.key))


def look_at(runs: Runs, schedules: Sequence[Schedule]) -> dict[str, Seen]:
    """Return the next times and the last run of each schedule, by its key. Raises RunsError."""
    own = [one.key for one in schedules if one.schedule_id]
    files = [one.key for one in schedules if not one.schedule_id]
    rows = [
        *_newest(runs, files, lambda keys: {"deployments": {"id": {"any_": keys}}}, lambda run: run["deployment_id"]),
        *_newest(runs, own, lambda keys: {"flow_runs": {"created_by": {"id_": keys}}}, _creator),
        *_newest(runs, own, lambda keys: {"flow_runs": {"tags": {"any_": [SCHEDULE + key for key in keys]}}}, _tagged),
    ]
    newest = dict(sorted(rows, key=lambda found: str(found[1]["expected_start_time"])))
    statuses = {str(run.flow_run_id): run for run in runs.statuses(list(newest.values()))}
    last = {key: statuses[run["id"]] for key, run in newest.items()}
    return {one.key: Seen([] if one.paused else next_times(one.times, _NEXT), last.get(one.key)) for one in schedules}


def _schedules_of(runs: Runs, deployment: Mapping[str, Any]) -> Iterable[Schedule]:
    """Yield the schedules that are kept on a flow's deployment for single runs, or what the file has declared."""
    every: Sequence[Mapping[str, Any]] = deployment.get("schedules") or ()
    flow, paused = runs.flow_of(deployment), bool(deployment.get("paused"))
    if deployment["name"] == DEPLOYMENT:
        for one in every:
            if (label := Label.of(one.get("slug"))) is not None:
                yield _page_schedule(one, label, flow=flow, deployment_paused=paused)
        return
    resting = [UUID(one["id"]) for one in every if not one["active"]]
    yield Schedule(
        deployment_id=UUID(deployment["id"]),
        name=str(deployment["name"]),
        flow=flow,
        parameters=deployment.get("parameters") or {},
        times=[_times(one["schedule"]) for one in every],
        paused=paused or (bool(every) and len(resting) == len(every)),
        resting=resting,
    )


def _page_schedule(one: Mapping[str, Any], label: Label, *, flow: str, deployment_paused: bool) -> Schedule:
    return Schedule(
        deployment_id=UUID(one["deployment_id"]),
        name=label.name,
        flow=flow,
        parameters=one.get("parameters") or {},
        times=[_times(one["schedule"])],
        paused=deployment_paused or not one["active"],
        schedule_id=UUID(one["id"]),
        label=label,
        revision=str(one["updated"]),
    )


def _times(schedule: Mapping[str, Any]) -> Times:
    cron, timezone = str(schedule.get("cron") or ""), str(schedule.get("timezone") or "UTC")
    other = "" if cron else str(schedule.get("rrule") or f"every {schedule.get('interval')} s")
    return Times(cron, timezone, other)


def _newest(
    runs: Runs,
    keys: Sequence[str],
    filters: Callable[[Sequence[str]], dict[str, Any]],
    key_of: Callable[[Mapping[str, Any]], str],
) -> list[tuple[str, dict[str, Any]]]:
    """Return the newest run that was due by now of each of the keys, which `filters` looks for, with its key.

    One query finds most; runs of frequent schedules may fill it, and those of rare ones are then queried separately.
    """
    if not keys:
        return []
    rows = _due(runs, filters(keys), limit=_PAGE)
    found = {key_of(run): run for run in reversed(rows)}
    if len(rows) == _PAGE:
        for key in set(keys) - set(found):
            found.update((key, run) for run in _due(runs, filters([key]), limit=1))
    return list(found.items())


def _due(runs: Runs, filters: Mapping[str, Any], *, limit: int) -> list[dict[str, Any]]:
    due = {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}}
    chosen = {**filters, "flow_runs": {**filters.get("flow_runs", {}), **due}}
    return runs.rows("/flow_runs/filter", {**chosen, "sort": "EXPECTED_START_TIME_DESC", "limit": limit})


def _creator(run: Mapping[str, Any]) -> str:
    creator: Mapping[str, Any] | None = run.get("created_by")
    return str(creator["id"]) if creator else ""


def _tagged(run: Mapping[str, Any]) -> str:
    return next((tag.removeprefix(SCHEDULE) for tag in run.get("tags") or () if tag.startswith(SCHEDULE)), "")
