"""Schedules made, changed, paused, resumed, run now and deleted, through Prefect's API.

A schedule is kept on its flow's deployment for single runs, with parameters of its own: whoever runs what people start
runs it too, and no file has to know it.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from carrel.wire.sources import holds_credential
from flows.prefect_api import RunsError
from flows.run_status import SCHEDULE
from flows.runs import Runs
from flows.schedules import Label, Schedule
from flows.times import Times, check_times

LONGEST_NAME = 200

_one_at_a_time = threading.Lock()


class InvalidScheduleError(RunsError):
    """A schedule can't be kept as it was asked for; the message says what to change."""


class ChangedMeanwhileError(RunsError):
    """Somebody else has changed or deleted the schedule since it was read."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a schedule is to run, and when; `parameters` are the flow's."""

    name: str
    flow: str
    parameters: Mapping[str, Any]
    times: Times

    def check(self) -> None:
        """Check what Prefect would keep as it is. Raises RunsError."""
        if not self.name.strip() or len(self.name) > LONGEST_NAME:
            msg = f"A schedule needs a name of at most {LONGEST_NAME} letters."
            raise InvalidScheduleError(msg)
        if holds_credential(str(self.parameters.get("source") or "")):
            msg = (
                "A password or a query doesn't belong into an address: everybody who looks at the schedule would see "
                "it. Leave it out; what carries out the runs has credentials in its environment."
            )
            raise InvalidScheduleError(msg)
        check_times(self.times)


def add_schedule(runs: Runs, draft: Draft, *, person: str = "", key: str = "") -> UUID:
    """Make a schedule; return its id, and that of the first one for a second call with the same key.

    `person` is who makes it, for others to see. Raises RunsError.
    """
    draft.check()
    deployment = runs.call("GET", f"/deployments/name/{draft.flow}/carrel")
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
    """Change what a schedule runs and when; it stays paused if it is.

    Raises ChangedMeanwhileError if somebody has changed it since it was read, and RunsError.
    """
    draft.check()
    with _one_at_a_time:
        now, label = _read(runs, schedule)
        _refuse_stale(schedule, now, label)
        _write(runs, schedule, _body(draft, replace(label, name=draft.name.strip(), changed_by=person)))


def pause_schedule(runs: Runs, schedule: Schedule, *, person: str = "") -> None:
    """Pause a schedule, which then starts no runs; runs in progress continue. Raises RunsError."""
    if schedule.schedule_id is None:
        runs.call("POST", f"/deployments/{schedule.deployment_id}/pause_deployment")
        return
    with _one_at_a_time:
        _set_active(runs, schedule, False, person=person)


def resume_schedule(runs: Runs, schedule: Schedule, *, person: str = "") -> None:
    """Resume a schedule, which then starts runs at its times again. Raises RunsError."""
    with _one_at_a_time:
        if schedule.schedule_id is not None:
            _set_active(runs, schedule, True, person=person)
        for resting in schedule.resting:
            runs.call("PATCH", f"/deployments/{schedule.deployment_id}/schedules/{resting}", {"active": True})
        # For a kept one too: somebody may have paused its deployment in Prefect's own pages.
        runs.call("POST", f"/deployments/{schedule.deployment_id}/resume_deployment")
        _plan_runs(runs, schedule.deployment_id)


def run_schedule(runs: Runs, schedule: Schedule, *, person: str = "", key: str | None = None) -> UUID:
    """Start what a schedule runs now, beside its times; return the run's id. Raises RunsError."""
    if schedule.schedule_id is None:
        return runs.start_deployment(schedule.deployment_id, {}, person=person, key=key)
    tags = [f"{SCHEDULE}{schedule.schedule_id}"]
    return runs.start_deployment(schedule.deployment_id, schedule.parameters, person=person, key=key, tags=tags)


def delete_schedule(runs: Runs, schedule: Schedule) -> None:
    """Delete a schedule that Prefect keeps; its runs stay, and one in progress continues.

    Raises ChangedMeanwhileError if somebody has changed it since it was read, and RunsError.
    """
    if schedule.schedule_id is None:
        msg = f"{schedule.name} stands in the file of schedules: remove it there."
        raise InvalidScheduleError(msg)
    with _one_at_a_time:
        _refuse_stale(schedule, *_read(runs, schedule))
        runs.call("DELETE", _path(schedule))
        _plan_runs(runs, schedule.deployment_id)


def _set_active(runs: Runs, schedule: Schedule, active: bool, *, person: str) -> None:
    now, label = _read(runs, schedule)
    # Prefect empties the parameters of a schedule that is updated without them.
    body = {"active": active, "parameters": now["parameters"], "slug": replace(label, changed_by=person).slug}
    _write(runs, schedule, body)


def _write(runs: Runs, schedule: Schedule, body: Mapping[str, Any]) -> None:
    runs.call("PATCH", _path(schedule), body)
    _plan_runs(runs, schedule.deployment_id)


def _read(runs: Runs, schedule: Schedule) -> tuple[Mapping[str, Any], Label]:
    """Return a schedule as Prefect has it now. Raises ChangedMeanwhileError when it is gone."""
    for one in runs.call("GET", f"/deployments/{schedule.deployment_id}/schedules"):
        if one["id"] == str(schedule.schedule_id) and (label := Label.of(one["slug"])) is not None:
            return one, label
    msg = "Somebody has deleted this schedule. Look at the list again."
    raise ChangedMeanwhileError(msg)


def _refuse_stale(schedule: Schedule, now: Mapping[str, Any], label: Label) -> None:
    if now["updated"] != schedule.revision:
        who = label.changed_by or "Somebody"
        msg = f"{who} has changed this schedule. Nothing was done: look at it as it is now, and do it again."
        raise ChangedMeanwhileError(msg)


def _body(draft: Draft, label: Label) -> dict[str, Any]:
    return {
        "schedule": {"cron": draft.times.cron, "timezone": draft.times.timezone},
        "parameters": dict(draft.parameters),
        "slug": label.slug,
    }


def _path(schedule: Schedule) -> str:
    return f"/deployments/{schedule.deployment_id}/schedules/{schedule.schedule_id}"


def _plan_runs(runs: Runs, deployment_id: UUID) -> None:
    """Let Prefect make the next runs of a deployment's schedules at once.

    It removed them with the change, and would make them within a minute, in which one of them could be due.
    """
    with suppress(RunsError):
        if not runs.call("GET", f"/deployments/{deployment_id}")["paused"]:
            runs.call("POST", f"/deployments/{deployment_id}/schedule", {})
