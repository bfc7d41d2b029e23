"""Starting and following runs through Prefect's HTTP API, which needs httpx and not Prefect."""

import hashlib
import json
import os
import platform
import re
import time
import zlib
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self, cast
from urllib.parse import parse_qs, quote, unquote
from uuid import UUID

import httpx

from carrel.environment import http_options
from flows.operations.options import UploadOptions
from flows.operations.summary import Summary

Body = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None

_TIMEOUT = 10.0
_PAUSES = (0.5, 1.0, 2.0)  # seconds


class RunsError(Exception):
    """Prefect can't be asked, or can't do what is asked; the message says what to do."""


class PrefectAwayError(RunsError):
    """Prefect's server doesn't answer."""


class NotServedError(RunsError):
    """No process serves this flow."""


class UnknownError(RunsError):
    """There is no such run or schedule, or none any more."""


def table(data: object) -> list[dict[str, Any]]:
    """Return the rows of a table artifact's data; none of what is no table."""
    rows: object = json.loads(data) if isinstance(data, str) else data
    return cast("list[dict[str, Any]]", rows) if isinstance(rows, list) else []


_SLUG = re.compile(r"(.*) \[workbench; made by (\S*); changed by (\S*); ([^\s;\]]+)\]", re.DOTALL)
_FORMER_SLUG = "carrel-page?"


@dataclass(frozen=True, slots=True)
class Label:
    """What is kept of a schedule beside its times and parameters, in its slug, which Prefect shows too."""

    name: str
    made_by: str = ""
    changed_by: str = ""
    key: str = ""
    """Tells schedules apart; two of one key can't be made."""

    @property
    def slug(self) -> str:
        """The slug that holds this, which people read in Prefect's pages."""
        made, changed, key = (quote(one, safe="@+") for one in (self.made_by, self.changed_by, self.key))
        return f"{self.name} [workbench; made by {made}; changed by {changed}; {key}]"

    @staticmethod
    def of(slug: str | None) -> "Label | None":
        """Return what a slug holds; None for the slug of a schedule that a file has declared."""
        if found := _SLUG.fullmatch(slug or ""):
            return Label(found[1], *map(unquote, found.groups()[1:]))
        if slug is None or not slug.startswith(_FORMER_SLUG):
            return None
        held = {name: values[0] for name, values in parse_qs(slug.removeprefix(_FORMER_SLUG)).items()}
        return Label(held.get("name", ""), held.get("by", ""), held.get("changed", ""), held.get("key", ""))


DEPLOYMENT = "carrel"
"""Every flow is served under this name, for who starts it by hand."""
PLAN, PLANNED, PROGRESS = "carrel-plan", "carrel-planned", "carrel-progress"
NAMES, CSV = "carrel-names", "carrel-csv"
COUNTS, FAILURES, CHANGES = "carrel-counts", "carrel-failures", "carrel-access-changes"
PERSON = "carrel-person:"
"""What a run's tag begins with that names who started it."""
MACHINE = "carrel-machine:"
"""What a deployment's tag begins with that names the machine and user that carry out its runs."""
MISSED = "carrel-missed:"
"""What a run's tag begins with that counts the earlier times of its schedule that were missed."""
SKIPPED = "Skipped"
"""The name of the state in which a run ends because another run works on its source."""
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
    permissions found widened and narrowed; `names` the first documents of each number (flows.operations.named).
    `flow` is the flow's name, `person` who started it, as they said, unless it was started `by_schedule`, whose
    `schedule_name` is known if people have made it; `missed` counts the missed times of the schedule that it stands
    for. A run is `skipped` while another run works on its source."""

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
    names: Sequence[Mapping[str, str]] = ()
    flow: str = ""
    deployment_id: UUID | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    person: str = ""
    by_schedule: bool = False
    schedule_name: str = ""
    missed: int = 0
    skipped: bool = False
    schedule_id: str = ""
    """The schedule whose *Run now* started it."""
    due_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def finished(self) -> bool:
        return self.state in _FINAL

    @property
    def source(self) -> str:
        """The source parameter of the run, or where a ledger's name was loaded from; empty for a flow without one."""
        return str(self.parameters.get("loaded_from") or self.parameters.get("source") or "")

    @property
    def options(self) -> Mapping[str, Any]:
        options: Mapping[str, Any] | None = self.parameters.get("options")
        return options or {}

    @property
    def only_plans(self) -> bool:
        return bool(self.parameters.get("dry_run"))


def status_of(run: Mapping[str, Any], artifacts: Mapping[str, Any], *, flow: str) -> RunStatus:
    state: Mapping[str, Any] = run.get("state") or {}
    counts = next(iter(table(artifacts.get(COUNTS))), dict[str, Any]())
    planned = next(iter(table(artifacts.get(PLANNED))), dict[str, Any]())
    tags: Sequence[str] = run.get("tags") or ()
    creator: Mapping[str, Any] = run.get("created_by") or {}
    made_by = Label.of(str(creator.get("display_value") or ""))
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
        names=table(artifacts.get(NAMES)),
        flow=flow,
        deployment_id=UUID(run["deployment_id"]) if run.get("deployment_id") else None,
        parameters=run.get("parameters") or {},
        person=tagged(tags, PERSON),
        by_schedule=bool(run.get("auto_scheduled")),
        schedule_name=made_by.name if made_by else "",
        missed=missed_times(tags),
        skipped=state.get("name") == SKIPPED,
        schedule_id=tagged(tags, SCHEDULE),
        due_at=moment_of(run.get("expected_start_time")),
        started_at=moment_of(run.get("start_time")),
        ended_at=moment_of(run.get("end_time")),
    )


def this_machine() -> str:
    """Return the tag of a deployment whose runs read the same files as this process."""
    return f"{MACHINE}{platform.node()}/{os.geteuid()}"


def tagged(tags: Sequence[str], beginning: str) -> str:
    """Return the rest of the tag that begins so; empty where there is none."""
    return next((tag.removeprefix(beginning) for tag in tags if tag.startswith(beginning)), "")


def missed_times(tags: Sequence[str]) -> int:
    """Return how many earlier times of its schedule a run with these tags stands for."""
    return int(tagged(tags, MISSED) or 0)


def moment_of(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


FLOWS = (
    "agent-evaluation",
    "bulk-upload",
    "collection-add",
    "docstore-sync",
    "permission-snapshot",
    "quarantine-retry",
    "reindex",
)
"""The flows whose runs people look at."""

_ARTIFACTS = 200  # the most that Prefect gives at once
_WAITING = frozenset({"SCHEDULED", "PENDING"})


@dataclass(frozen=True, slots=True)
class RunsPage:
    """A page of runs, newest first, and the number of all runs."""

    runs: Sequence[RunStatus]
    total: int


class Runs:
    """The runs on a Prefect server; `api_url` such as http://127.0.0.1:4200/api. Safe to share between threads. Methods
    that start a run return the flow run's id and raise RunsError.

    `person` is who starts it, for others to see; starts with one `key` and equal parameters return the run of the
    first one. Sources are as the serving process sees them."""

    def __init__(self, api_url: str, *, http_client: httpx.Client | None = None) -> None:
        self._http = http_client or httpx.Client(timeout=_TIMEOUT, **http_options(api_url))
        self._url = api_url.rstrip("/")
        self._flows: Mapping[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: Body = None) -> Any:
        """Return what Prefect answers, decoded. Raises RunsError."""
        try:
            response = self._send(method, path, body)
        except httpx.HTTPError as exc:
            msg = f"Prefect does not answer at {self._url} ({exc}). Start it: `python -m flows.server`."
            raise PrefectAwayError(msg) from exc
        if response.status_code == 404 and path.startswith("/deployments/name/"):
            raise NotServedError("Nobody serves the flows. Start them: `python -m flows serve`.")
        if response.is_error:
            msg = f"Prefect answered {response.status_code} to {path}: {response.text[:300]}"
            raise UnknownError(msg) if response.status_code == 404 else RunsError(msg)
        return response.json() if response.content else None

    def rows(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows that one of Prefect's filters finds. Raises RunsError."""
        return cast("list[dict[str, Any]]", self.call("POST", path, body))

    def _send(self, method: str, path: str, body: Body) -> httpx.Response:
        """Send a request, again when Prefect's database is busy, as while it starts: then nothing was done."""
        response = self._http.request(method, f"{self._url}{path}", json=body)
        for pause in _PAUSES:
            if response.status_code != 503:
                break
            time.sleep(pause)
            response = self._http.request(method, f"{self._url}{path}", json=body)
        return response

    def start_upload(
        self,
        source: str,
        options: UploadOptions | None = None,
        *,
        dry_run: bool = False,
        confirmed: str | None = None,
        person: str = "",
        key: str | None = None,
    ) -> UUID:
        """Start a bulk upload of a folder, glob, manifest or object store; a dry run sends and deletes nothing, and
        `confirmed` is as flows.bulk_upload says."""
        parameters: dict[str, Any] = {"source": source, "options": (options or UploadOptions()).model_dump()}
        if dry_run:
            parameters["dry_run"] = True
        if confirmed:
            parameters["confirmed"] = confirmed
        return self.start("bulk-upload", parameters, person=person, key=key)

    def start_retry(
        self, ledger: str, loaded_from: str, *, names: Sequence[str] = (), person: str = "", key: str | None = None
    ) -> UUID:
        """Start sending a source's quarantine again, or items of these names; `loaded_from` is what people see."""
        parameters: dict[str, Any] = {"source": ledger, "loaded_from": loaded_from}
        if names:
            parameters["names"] = list(names)
        return self.start("quarantine-retry", parameters, person=person, key=key)

    def start_again(self, run: RunStatus, *, person: str = "", key: str | None = None) -> UUID:
        if run.deployment_id is None:
            return self.start(run.flow, run.parameters, person=person, key=key)
        try:
            return self.start_deployment(run.deployment_id, run.parameters, person=person, key=key)
        except UnknownError:  # its schedule is gone since
            return self.start(run.flow, run.parameters, person=person, key=key)

    def start(self, flow: str, parameters: Mapping[str, Any], *, person: str = "", key: str | None = None) -> UUID:
        """Start a flow by its name. Raises NotServedError when no process serves it."""
        deployment = self.call("GET", f"/deployments/name/{flow}/{DEPLOYMENT}")
        return self.start_deployment(UUID(deployment["id"]), parameters, person=person, key=key)

    def read_files_here(self, flow: str) -> bool:
        """Return whether a flow's runs read files as this process does: on this machine, as this user."""
        deployment = self.call("GET", f"/deployments/name/{flow}/{DEPLOYMENT}")
        return this_machine() in (deployment.get("tags") or ())

    def start_deployment(
        self,
        deployment_id: UUID,
        parameters: Mapping[str, Any],
        *,
        person: str = "",
        key: str | None = None,
        tags: Sequence[str] = (),
    ) -> UUID:
        tags = [*tags, *([f"{PERSON}{person}"] if person else [])]
        body: dict[str, Any] = {"parameters": parameters, "state": {"type": "SCHEDULED"}, "tags": tags}
        if key is not None:
            given = json.dumps(parameters, sort_keys=True, default=str)
            body["idempotency_key"] = f"{key}-{hashlib.sha256(given.encode()).hexdigest()}"
        return UUID(self.call("POST", f"/deployments/{deployment_id}/create_flow_run", body)["id"])

    def run_status(self, flow_run_id: UUID) -> RunStatus:
        run = self.call("GET", f"/flow_runs/{flow_run_id}")
        keys = (PLAN, PLANNED, COUNTS, FAILURES, CHANGES, NAMES)
        artifacts = self.artifacts([flow_run_id], keys=keys).get(str(flow_run_id), {})
        return status_of(run, artifacts, flow=self.flow_of(run))

    def names_csv(self, flow_run_id: UUID) -> bytes:
        """Return the names of all documents of a run as CSV; empty where the run has none. Raises RunsError."""
        data = self.artifacts([flow_run_id], keys=(CSV,)).get(str(flow_run_id), {}).get(CSV)
        return zlib.decompress(b64decode(data)) if data else b""

    def log(self, flow_run_id: UUID, *, limit: int = 200) -> list[tuple[datetime, str]]:
        """Return the newest lines of a run's log, oldest first, with their times. Raises RunsError."""
        query = {"logs": {"flow_run_id": {"any_": [str(flow_run_id)]}}, "sort": "TIMESTAMP_DESC", "limit": limit}
        lines = reversed(self.rows("/logs/filter", query))
        return [(datetime.fromisoformat(one["timestamp"]), str(one["message"])) for one in lines]

    def page(
        self,
        *,
        number: int = 0,
        size: int = 20,
        flows: Iterable[str] = FLOWS,
        states: Sequence[str] = (),
        after: datetime | None = None,
    ) -> RunsPage:
        """Return a page of the runs that were due by now; `number` counts from 0. `states` are Prefect's types, and
        `after` is the earliest time that a run was due at. Raises RunsError."""
        due = {"before_": datetime.now(UTC).isoformat(), **({"after_": after.isoformat()} if after else {})}
        query = {
            "flows": {"name": {"any_": list(flows)}},
            "flow_runs": {
                "expected_start_time": due,
                **({"state": {"type": {"any_": list(states)}}} if states else {}),
            },
            "sort": "EXPECTED_START_TIME_DESC",
            "limit": size,
            "page": number + 1,
        }
        found = self.call("POST", "/flow_runs/paginate", query)
        return RunsPage(self.statuses(found["results"]), int(found["count"]))

    def statuses(self, runs: Sequence[Mapping[str, Any]]) -> list[RunStatus]:
        """Return the statuses of runs in Prefect's form, with their counts but without their other artifacts."""
        artifacts = self.artifacts([UUID(run["id"]) for run in runs], keys=(COUNTS,))
        return [status_of(run, artifacts.get(run["id"], {}), flow=self.flow_of(run)) for run in runs]

    def is_left_waiting(self, run: RunStatus) -> bool:
        """Return whether a run waits and no process has polled for its work for a minute. Raises RunsError."""
        if run.state not in _WAITING or run.deployment_id is None:
            return False
        try:
            deployment = self.call("GET", f"/deployments/{run.deployment_id}")
        except UnknownError:
            return True
        return deployment.get("status") == "NOT_READY"

    def cancel(self, flow_run_id: UUID) -> None:
        """Ask a run to stop; what it has sent stays, and a new run continues from there. Raises RunsError."""
        body = {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": False}
        self.call("POST", f"/flow_runs/{flow_run_id}/set_state", body)

    def artifacts(self, flow_run_ids: Sequence[UUID], *, keys: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """Return the data of runs' artifacts by run and key; after a restart, of the newest with a key."""
        if not flow_run_ids:
            return {}
        wanted: dict[str, Any] = {"flow_run_id": {"any_": [str(one) for one in flow_run_ids]}}
        if keys:
            wanted["key"] = {"any_": list(keys)}
        query = {"artifacts": wanted, "sort": "CREATED_DESC", "limit": _ARTIFACTS}
        found: dict[str, dict[str, Any]] = {}
        for artifact in reversed(self.rows("/artifacts/filter", query)):
            found.setdefault(str(artifact["flow_run_id"]), {})[str(artifact["key"])] = artifact["data"]
        return found

    def flow_of(self, of: Mapping[str, Any]) -> str:
        """Return the name of the flow of a run or deployment in Prefect's form. Raises RunsError."""
        flow_id = str(of["flow_id"])
        if flow_id not in self._flows:
            self._flows = {**self._flows, flow_id: str(self.call("GET", f"/flows/{flow_id}")["name"])}
        return self._flows[flow_id]
