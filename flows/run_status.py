"""The status of a run, from Prefect's record of it and from the run's artifacts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from flows.operations.summary import Summary
from flows.prefect_api import table
from flows.schedule_labels import Label

DEPLOYMENT = "carrel"
"""Every flow is served under this name, for who starts it by hand."""
PLAN, PLANNED, PROGRESS = "carrel-plan", "carrel-planned", "carrel-progress"
COUNTS, FAILURES, CHANGES = "carrel-counts", "carrel-failures", "carrel-access-changes"
PERSON = "carrel-person:"
"""What a run's tag begins with that names who started it."""
SCHEDULE = "carrel-schedule:"
"""What a run's tag begins with that names the schedule it was started from by hand."""

_FINAL = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The status of a run.

    `state` is Prefect's type: SCHEDULED, PENDING, RUNNING, COMPLETED, FAILED, CRASHED, CANCELLING or CANCELLED;
    `message` its text; `phase` scanning, sending, indexing or done; `waiting_for` says what it waits for right now.
    Counts are all zero until the plan is made.
    `failures` are the quarantine's first rows: place, document, code, reason. `plan` is Markdown, `planned` its
    numbers. `figures` are the counts as the flow has them, more than a Summary knows; `changes` what a snapshot of
    permissions found widened and narrowed.
    `flow` is the flow's name, `person` who started it, as they said, unless it was started `by_schedule`, whose
    `schedule_name` is known if people have made it.
    """

    flow_run_id: UUID
    state: str
    message: str
    phase: str = "scanning"
    counts: Summary = field(default_factory=Summary)
    progress: float = 0.0
    documents_per_second: float = 0.0
    seconds: float = 0.0
    waiting_for: str = ""
    failures: Sequence[Mapping[str, str]] = ()
    plan: str = ""
    planned: Mapping[str, int] = field(default_factory=dict[str, int])
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])
    changes: Sequence[Mapping[str, Any]] = ()
    flow: str = ""
    deployment_id: UUID | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    person: str = ""
    by_schedule: bool = False
    schedule_name: str = ""
    due_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def finished(self) -> bool:
        """Whether the run has ended, well or not."""
        return self.state in _FINAL

    @property
    def source(self) -> str:
        """The source parameter of the run, or where a ledger's name was loaded from; empty for a flow without one."""
        return str(self.parameters.get("loaded_from") or self.parameters.get("source") or "")

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the run."""
        options: Mapping[str, Any] | None = self.parameters.get("options")
        return options or {}

    @property
    def only_plans(self) -> bool:
        """Whether the run ends with the plan, and sends nothing."""
        return bool(self.parameters.get("dry_run"))


def status_of(run: Mapping[str, Any], artifacts: Mapping[str, Any], *, flow: str) -> RunStatus:
    """Build the status of a run from Prefect's record, with the data of its artifacts by key."""
    state: Mapping[str, Any] = run.get("state") or {}
    counts = next(iter(table(artifacts.get(COUNTS))), dict[str, Any]())
    planned = next(iter(table(artifacts.get(PLANNED))), dict[str, Any]())
    tags: Sequence[str] = run.get("tags") or ()
    return RunStatus(
        flow_run_id=UUID(run["id"]),
        state=str(run.get("state_type") or "PENDING"),
        message=str(state.get("message") or ""),
        phase=str(counts.get("phase", "scanning")),
        counts=Summary.from_json(counts),
        progress=float(counts.get("progress", 0.0)),
        documents_per_second=float(counts.get("documentsPerSecond", 0.0)),
        seconds=float(counts.get("seconds", 0.0)),
        waiting_for=str(counts.get("waitingFor", "")),
        failures=table(artifacts.get(FAILURES)),
        plan=str(artifacts.get(PLAN) or ""),
        planned={name: int(number) for name, number in planned.items()},
        figures=counts,
        changes=table(artifacts.get(CHANGES)),
        flow=flow,
        deployment_id=UUID(run["deployment_id"]) if run.get("deployment_id") else None,
        parameters=run.get("parameters") or {},
        person=next((tag.removeprefix(PERSON) for tag in tags if tag.startswith(PERSON)), ""),
        by_schedule=bool(run.get("auto_scheduled")),
        schedule_name=_schedule_name(run.get("created_by") or {}),
        due_at=moment_of(run.get("expected_start_time")),
        started_at=moment_of(run.get("start_time")),
        ended_at=moment_of(run.get("end_time")),
    )


def _schedule_name(creator: Mapping[str, Any]) -> str:
    """Return the name of the schedule that made a run, if people have made the schedule."""
    label = Label.of(str(creator.get("display_value") or ""))
    return label.name if label else ""


def moment_of(text: str | None) -> datetime | None:
    """Parse a time as Prefect writes it."""
    return None if text is None else datetime.fromisoformat(text)
