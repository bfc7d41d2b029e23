"""Schedules on a Prefect server. Schedules made by people are stored on the flow's deployment for single runs, with
separate parameters; the rest are declared in the file of deployments."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterError, croniter

from carrel.wire.sources import holds_credential
from flows.runs import DEPLOYMENT, FLOWS, SCHEDULE, Label, Runs, RunsError, RunStatus, find_tag, source_in

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
    """Check that a schedule with these times is valid, and will ever run. Raises InvalidTimesError."""
    fields = times.cron.split()
    if not times.cron.startswith("@") and len(fields) != _FIELDS:
        msg = f"“{times.cron}” needs five parts: minute, hour, day of month, month and day of week, such as 0 2 * * 1."
        raise InvalidTimesError(msg)
    if not croniter.is_valid(times.cron) or any(field.casefold() in _UNKNOWN_TO_PREFECT for field in fields):
        msg = f"“{times.cron}” is not a cron expression. Enter for example 0 2 * * 1, which is Monday at 02:00."
        raise InvalidTimesError(msg)
    try:
        ZoneInfo(times.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        msg = f"“{times.timezone}” is not a time zone. Choose a time zone such as Europe/Berlin or UTC."
        raise InvalidTimesError(msg) from exc
    if not next_times([times], 1):
        raise InvalidTimesError(f"“{times.cron}” describes a day that never occurs. Change the day or the month.")


def next_times(every: Sequence[Times], count: int, *, after: datetime | None = None) -> list[datetime]:
    """Return the next `count` moments of all checked times, each in its time zone; other schedules have none."""
    start = after or datetime.now(UTC)
    found = (at for times in every if times.cron for at in islice(_moments(times, start), count))
    return sorted(found)[:count]


def _moments(times: Times, start: datetime) -> Iterator[datetime]:
    """Yield the times of a schedule after `start` in its time zone, as Prefect computes them."""
    zone = ZoneInfo(times.timezone)
    clock = croniter(times.cron, start.astimezone(zone).replace(tzinfo=None))
    while True:
        try:
            at: datetime = clock.get_next(datetime)
        except CroniterError:  # a 30th of February
            return
        yield at.replace(tzinfo=zone)


_PAGE = 200
_NEXT = 3


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule in Prefect, or (without `schedule_id`) a deployment of the file; without `times`: by hand."""

    deployment_id: UUID
    name: str
    flow: str
    parameters: Mapping[str, Any]
    times: Sequence[Times]
    paused: bool
    resting: Sequence[UUID] = ()
    """Schedules of the file's entry paused separately."""
    schedule_id: UUID | None = None
    label: Label | None = None
    revision: str = ""
    """Changes with every change of the schedule."""

    @property
    def key(self) -> str:
        return str(self.schedule_id or self.deployment_id)

    @property
    def source(self) -> str:
        """The source of the schedule's runs, as in RunStatus."""
        return source_in(self.parameters)


@dataclass(frozen=True, slots=True)
class Seen:
    """The next times of a schedule, and its last run."""

    next_at: Sequence[datetime] = ()
    last: RunStatus | None = None


def list_schedules(runs: Runs) -> list[Schedule]:
    """Return every schedule of Carrel's flows, and every deployment of the file, by name. Raises RunsError."""
    found: list[dict[str, Any]] = []
    query = {"flows": {"name": {"any_": list(FLOWS)}}, "sort": "NAME_ASC", "limit": _PAGE}
    while page := runs.rows("/deployments/filter", {**query, "offset": len(found)}):
        found += page
    every = [schedule for deployment in found for schedule in _schedules_of(runs, deployment)]
    return sorted(every, key=lambda schedule: (schedule.name.casefold(), schedule.key))


def look_at(runs: Runs, schedules: Sequence[Schedule]) -> dict[str, Seen]:
    """Return each schedule's next three times (none if paused) and last due run, by its key. Raises RunsError."""
    own = [schedule.key for schedule in schedules if schedule.schedule_id]
    files = [item.key for item in schedules if not item.schedule_id]
    rows = [
        *_newest(runs, files, lambda keys: {"deployments": {"id": {"any_": keys}}}, lambda run: run["deployment_id"]),
        *_newest(runs, own, lambda keys: {"flow_runs": {"created_by": {"id_": keys}}}, _creator_id),
        *_newest(
            runs,
            own,
            lambda keys: {"flow_runs": {"tags": {"any_": [SCHEDULE + key for key in keys]}}},
            lambda run: find_tag(run.get("tags") or (), SCHEDULE),
        ),
    ]
    newest = dict(sorted(rows, key=lambda found: str(found[1]["expected_start_time"])))
    statuses = {str(run.flow_run_id): run for run in runs.statuses(list(newest.values()))}
    last = {key: statuses[run["id"]] for key, run in newest.items()}
    return {one.key: Seen([] if one.paused else next_times(one.times, _NEXT), last.get(one.key)) for one in schedules}


def _schedules_of(runs: Runs, deployment: Mapping[str, Any]) -> Iterable[Schedule]:
    every: Sequence[Mapping[str, Any]] = deployment.get("schedules") or ()
    flow, paused = runs.flow_of(deployment), bool(deployment.get("paused"))
    if deployment["name"] == DEPLOYMENT:
        for row in every:
            if (label := Label.of(row.get("slug"))) is not None:
                yield Schedule(
                    deployment_id=UUID(row["deployment_id"]),
                    name=label.name,
                    flow=flow,
                    parameters=row.get("parameters") or {},
                    times=[_times(row["schedule"])],
                    paused=paused or not row["active"],
                    schedule_id=UUID(row["id"]),
                    label=label,
                    revision=str(row["updated"]),
                )
        return
    resting = [UUID(row["id"]) for row in every if not row["active"]]
    yield Schedule(
        deployment_id=UUID(deployment["id"]),
        name=str(deployment["name"]),
        flow=flow,
        parameters=deployment.get("parameters") or {},
        times=[_times(row["schedule"]) for row in every],
        paused=paused or (bool(every) and len(resting) == len(every)),
        resting=resting,
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
    """Return keys with their newest due run; a key without a run is left out."""
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


def _creator_id(run: Mapping[str, Any]) -> str:
    creator: Mapping[str, Any] = run.get("created_by") or {}
    return str(creator.get("id", ""))


LONGEST_NAME = 200

_one_at_a_time = threading.Lock()


class InvalidScheduleError(RunsError):
    """A schedule can't be saved as requested; the message gives advice."""


class ScheduleChangedError(RunsError):
    """The schedule was changed or deleted elsewhere after it was read."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The flow and times of a schedule to save; `parameters` are the flow's."""

    name: str
    flow: str
    parameters: Mapping[str, Any]
    times: Times

    def check(self) -> None:
        """Raise InvalidScheduleError for a wrong name or source, and InvalidTimesError for wrong times."""
        if not self.name.strip() or len(self.name) > LONGEST_NAME:
            raise InvalidScheduleError(f"Enter a name of at most {LONGEST_NAME} letters.")
        if holds_credential(str(self.parameters.get("source") or "")):
            raise InvalidScheduleError(
                "Remove the password or query from the URL: everyone who can see the schedule can see its "
                "URL. The flow server reads credentials from its environment."
            )
        check_times(self.times)


def add_schedule(runs: Runs, draft: Draft, *, person: str = "", key: str = "") -> UUID:
    """Make a schedule for a `person`; return its id, or for a repeated `key` the first schedule's. Raises RunsError."""
    draft.check()
    deployment = runs.call("GET", f"/deployments/name/{draft.flow}/{DEPLOYMENT}")
    label = Label(draft.name.strip(), made_by=person, key=key or uuid4().hex)
    with _one_at_a_time:
        for old in deployment["schedules"]:
            if (known := Label.of(old["slug"])) is not None and known.key == label.key:
                return UUID(old["id"])
        body = {**_body(draft, label), "active": True}
        (made,) = runs.call("POST", f"/deployments/{deployment['id']}/schedules", [body])
        _plan_runs(runs, UUID(deployment["id"]))
    return UUID(made["id"])


def change_schedule(runs: Runs, schedule: Schedule, draft: Draft, *, person: str = "") -> None:
    """Change a schedule; a paused schedule stays paused. Raises ScheduleChangedError and RunsError."""
    draft.check()
    with _one_at_a_time:
        _, label = _read(runs, schedule, is_stale_refused=True)
        _write(runs, schedule, _body(draft, replace(label, name=draft.name.strip(), changed_by=person)))


def pause_schedule(runs: Runs, schedule: Schedule, *, person: str = "") -> None:
    """Pause a schedule: it starts no more runs; runs in progress continue. Raises RunsError."""
    if schedule.schedule_id is None:
        runs.call("POST", f"/deployments/{schedule.deployment_id}/pause_deployment")
        return
    with _one_at_a_time:
        _set_active(runs, schedule, False, person=person)


def resume_schedule(runs: Runs, schedule: Schedule, *, person: str = "") -> None:
    """Resume a paused schedule, and its deployment. Raises RunsError."""
    with _one_at_a_time:
        if schedule.schedule_id is not None:
            _set_active(runs, schedule, True, person=person)
        for resting in schedule.resting:
            runs.call("PATCH", f"/deployments/{schedule.deployment_id}/schedules/{resting}", {"active": True})
        # Also for a kept schedule, because a person may have paused its deployment in Prefect's own pages.
        runs.call("POST", f"/deployments/{schedule.deployment_id}/resume_deployment")
        _plan_runs(runs, schedule.deployment_id)


def run_schedule(runs: Runs, schedule: Schedule, *, person: str = "", key: str | None = None) -> UUID:
    """Start a run of a schedule now, in addition to the schedule's times; return the run's id. Raises RunsError."""
    if schedule.schedule_id is None:
        return runs.start_deployment(schedule.deployment_id, {}, person=person, key=key)
    tags = [f"{SCHEDULE}{schedule.schedule_id}"]
    return runs.start_deployment(schedule.deployment_id, schedule.parameters, person=person, key=key, tags=tags)


def delete_schedule(runs: Runs, schedule: Schedule) -> None:
    """Delete a schedule, but no past run. Raises RunsError, also for a changed schedule or one defined in the file."""
    if schedule.schedule_id is None:
        raise InvalidScheduleError(f"{schedule.name} is defined in the file of schedules. Remove it there.")
    with _one_at_a_time:
        _read(runs, schedule, is_stale_refused=True)
        runs.call("DELETE", _path(schedule))
        _plan_runs(runs, schedule.deployment_id)


def _set_active(runs: Runs, schedule: Schedule, active: bool, *, person: str) -> None:
    now, label = _read(runs, schedule)
    # When a schedule is updated without parameters, Prefect empties them.
    body = {"active": active, "parameters": now["parameters"], "slug": replace(label, changed_by=person).slug}
    _write(runs, schedule, body)


def _write(runs: Runs, schedule: Schedule, body: Mapping[str, Any]) -> None:
    runs.call("PATCH", _path(schedule), body)
    _plan_runs(runs, schedule.deployment_id)


def _read(runs: Runs, schedule: Schedule, *, is_stale_refused: bool = False) -> tuple[Mapping[str, Any], Label]:
    """Return the schedule as it is now. Raises ScheduleChangedError if deleted, or (`is_stale_refused`) changed."""
    for item in runs.call("GET", f"/deployments/{schedule.deployment_id}/schedules"):
        if item["id"] == str(schedule.schedule_id) and (label := Label.of(item["slug"])) is not None:
            if is_stale_refused and item["updated"] != schedule.revision:
                by = label.changed_by or "Someone"
                msg = f"{by} changed this schedule, so nothing was saved. Review the current schedule, and try again."
                raise ScheduleChangedError(msg)
            return item, label
    raise ScheduleChangedError("Someone else deleted this schedule. Reload the list.")


def _body(draft: Draft, label: Label) -> dict[str, Any]:
    return {
        "schedule": {"cron": draft.times.cron, "timezone": draft.times.timezone},
        "parameters": dict(draft.parameters),
        "slug": label.slug,
    }


def _path(schedule: Schedule) -> str:
    return f"/deployments/{schedule.deployment_id}/schedules/{schedule.schedule_id}"


def _plan_runs(runs: Runs, deployment_id: UUID) -> None:
    """Let Prefect plan a deployment's next runs now, unless paused: its own planning may be late. Ignores RunsError."""
    with suppress(RunsError):
        if not runs.call("GET", f"/deployments/{deployment_id}")["paused"]:
            runs.call("POST", f"/deployments/{deployment_id}/schedule", {})
