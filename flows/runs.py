"""Starting and following runs through Prefect's HTTP API, with httpx and without Prefect."""

import hashlib
import json
import os
import platform
import re
import time
import zlib
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
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
    """Prefect can't be reached or refuses a request; the message gives advice."""


class PrefectAwayError(RunsError):
    """Prefect's server doesn't answer."""


class NotServedError(RunsError):
    """No process serves this flow."""


class UnknownError(RunsError):
    """The run or schedule does not exist, or no longer exists."""


def table(data: object) -> list[dict[str, Any]]:
    """Return the rows of a table artifact's data; no rows for other data."""
    rows: object = json.loads(data) if isinstance(data, str) else data
    return cast("list[dict[str, Any]]", rows) if isinstance(rows, list) else []


_SLUG = re.compile(r"(.*) \[workbench; made by (\S*); changed by (\S*); ([^\s;\]]+)\]", re.DOTALL)
_FORMER_SLUG = "carrel-page?"


@dataclass(frozen=True, slots=True)
class Label:
    """Data of a schedule in addition to times and parameters, stored in the slug and shown by Prefect."""

    name: str
    made_by: str = ""
    changed_by: str = ""
    key: str = ""
    """Identifies a schedule; the same key can't be used twice."""

    @property
    def slug(self) -> str:
        """The slug with this label, readable in Prefect's pages."""
        made, changed, key = (quote(item, safe="@+") for item in (self.made_by, self.changed_by, self.key))
        return f"{self.name} [workbench; made by {made}; changed by {changed}; {key}]"

    @staticmethod
    def of(slug: str | None) -> "Label | None":
        """Return the label in a slug; None for the slug of a schedule declared in a file."""
        if found := _SLUG.fullmatch(slug or ""):
            return Label(found[1], *map(unquote, found.groups()[1:]))
        if slug is None or not slug.startswith(_FORMER_SLUG):
            return None
        held = {name: values[0] for name, values in parse_qs(slug.removeprefix(_FORMER_SLUG)).items()}
        return Label(held.get("name", ""), held.get("by", ""), held.get("changed", ""), held.get("key", ""))


DEPLOYMENT = "carrel"
"""The name of every flow's deployment for starts by hand."""
PLAN, PLANNED, PROGRESS = "carrel-plan", "carrel-planned", "carrel-progress"
NAMES, CSV = "carrel-names", "carrel-csv"
COUNTS, FAILURES, CHANGES = "carrel-counts", "carrel-failures", "carrel-access-changes"
PERSON = "carrel-person:"
"""The prefix of a run's tag with the name of the starter."""
MACHINE = "carrel-machine:"
"""The prefix of a deployment's tag with the machine and user of its runs."""
MISSED = "carrel-missed:"
"""The prefix of a run's tag with the number of missed times of the schedule."""
SKIPPED = "Skipped"
"""The name of a run's final state when another run works on its source."""
SCHEDULE = "carrel-schedule:"
"""The prefix of a run's tag with the schedule of a *Run now*."""

_FINAL = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The status of a run.

    `state` is Prefect's type: SCHEDULED, PENDING, RUNNING, COMPLETED, FAILED, CRASHED, CANCELLING or CANCELLED;
    `message` its text; `phase` scanning, sending, indexing or done; `waiting_for` the reason of the present wait.
    Counts are all zero until the plan is made. `failures` are the quarantine's first rows: place, document, code,
    reason. `plan` is Markdown, `planned` its numbers. `figures` are the flow's counts, more than in a Summary;
    `changes` the access changes found by a snapshot of permissions; `names` the first documents of each number
    (flows.operations.named). `flow` is the flow's name, `person` the given name of the starter, unless the run was
    started `by_schedule`: then `schedule_name` is known for schedules made by people. `missed` counts the missed times
    of the schedule covered by this run. A run is `skipped` while another run works on its source."""

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
    """The schedule of a *Run now*."""
    due_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def finished(self) -> bool:
        return self.state in _FINAL

    @property
    def source(self) -> str:
        """The source parameter of the run, or the source of a named ledger; empty for a flow without a source."""
        return source_in(self.parameters)

    @property
    def options(self) -> Mapping[str, Any]:
        options: Mapping[str, Any] | None = self.parameters.get("options")
        return options or {}

    @property
    def only_plans(self) -> bool:
        return bool(self.parameters.get("dry_run"))


def status_of(run: Mapping[str, Any], artifacts: Mapping[str, Any], *, flow: str) -> RunStatus:
    """Return the status of a run in Prefect's form, with its artifacts' data by key; defaults replace missing data."""
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
        person=find_tag(tags, PERSON),
        by_schedule=bool(run.get("auto_scheduled")),
        schedule_name=made_by.name if made_by else "",
        missed=missed_times(tags),
        skipped=state.get("name") == SKIPPED,
        schedule_id=find_tag(tags, SCHEDULE),
        due_at=moment_of(run.get("expected_start_time")),
        started_at=moment_of(run.get("start_time")),
        ended_at=moment_of(run.get("end_time")),
    )


def source_in(parameters: Mapping[str, Any]) -> str:
    """Return the source that parameters name for people (`loaded_from`), else `source`; empty without a source."""
    return str(parameters.get("loaded_from") or parameters.get("source") or "")


def tag_of_this_machine() -> str:

    return f"{MACHINE}{platform.node()}/{os.geteuid()}"


def find_tag(tags: Sequence[str], beginning: str) -> str:
    """Return the rest of the first tag with this beginning; empty without such a tag."""
    return next((tag.removeprefix(beginning) for tag in tags if tag.startswith(beginning)), "")


def missed_times(tags: Sequence[str]) -> int:
    return int(find_tag(tags, MISSED) or 0)


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
"""The flows with runs shown to people."""

_ARTIFACTS = 200  # the most that Prefect returns at once
_WAITING = frozenset({"SCHEDULED", "PENDING"})


@dataclass(frozen=True, slots=True)
class RunsPage:
    """A page of runs, newest first, and the number of all runs."""

    runs: Sequence[RunStatus]
    total: int


class Runs(AbstractContextManager["Runs"]):
    """The runs on a Prefect server; `api_url` such as http://127.0.0.1:4200/api. Safe to share between threads. Methods
    for starting a run return the flow run's id and raise RunsError. `person` is the starter's name, shown to people;
    starts with the same `key` and equal parameters return the first run. Sources are paths of the serving process."""

    def __init__(self, api_url: str, *, http_client: httpx.Client | None = None) -> None:
        self._http = http_client or httpx.Client(timeout=_TIMEOUT, **http_options(api_url))
        self._url = api_url.rstrip("/")
        self._flows: Mapping[str, str] = {}

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: Body = None) -> Any:
        """Return Prefect's decoded answer, None if empty. Raises RunsError, for example PrefectAwayError."""
        try:
            response = self._send(method, path, body)
        except httpx.HTTPError as exc:
            msg = f"Prefect does not answer at {self._url} ({exc}). Start it with: python -m flows.server"
            raise PrefectAwayError(msg) from exc
        if response.status_code == 404 and path.startswith("/deployments/name/"):
            raise NotServedError("No flow server is running. Start it with: python -m flows serve")
        if response.is_error:
            msg = f"Prefect answered {response.status_code} to {path}: {response.text[:300]}"
            raise UnknownError(msg) if response.status_code == 404 else RunsError(msg)
        return response.json() if response.content else None

    def rows(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows found by a filter of Prefect. Raises RunsError."""
        return cast("list[dict[str, Any]]", self.call("POST", path, body))

    def _send(self, method: str, path: str, body: Body) -> httpx.Response:
        """Send a request; repeat it up to three times while Prefect's database is busy: then it had no effect."""
        for pause in _PAUSES:
            response = self._http.request(method, f"{self._url}{path}", json=body)
            if response.status_code != 503:
                return response
            time.sleep(pause)
        return self._http.request(method, f"{self._url}{path}", json=body)

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
        """Start a bulk upload; a dry run sends and deletes nothing. `confirmed`: see flows.bulk_upload."""
        parameters: dict[str, Any] = {"source": source, "options": (options or UploadOptions()).model_dump()}
        parameters |= {"dry_run": True} if dry_run else {}
        parameters |= {"confirmed": confirmed} if confirmed else {}
        return self.start("bulk-upload", parameters, person=person, key=key)

    def start_retry(
        self, ledger: str, loaded_from: str, *, names: Sequence[str] = (), person: str = "", key: str | None = None
    ) -> UUID:
        """Start sending a source's quarantine again, or named items; `loaded_from` is shown to people."""
        parameters = {"source": ledger, "loaded_from": loaded_from, **({"names": list(names)} if names else {})}
        return self.start("quarantine-retry", parameters, person=person, key=key)

    def start_again(self, run: RunStatus, *, person: str = "", key: str | None = None) -> UUID:
        """Start a run's deployment again with equal parameters, or the flow if the deployment is gone."""
        if run.deployment_id is not None:
            with suppress(UnknownError):  # its schedule may be deleted
                return self.start_deployment(run.deployment_id, run.parameters, person=person, key=key)
        return self.start(run.flow, run.parameters, person=person, key=key)

    def start(self, flow: str, parameters: Mapping[str, Any], *, person: str = "", key: str | None = None) -> UUID:
        """Start a flow by name. Raises NotServedError without a process serving it."""
        deployment = self.call("GET", f"/deployments/name/{flow}/{DEPLOYMENT}")
        return self.start_deployment(UUID(deployment["id"]), parameters, person=person, key=key)

    def read_files_here(self, flow: str) -> bool:
        """Return whether a flow's runs can read the current process's files: with the same machine and user."""
        deployment = self.call("GET", f"/deployments/name/{flow}/{DEPLOYMENT}")
        return tag_of_this_machine() in (deployment.get("tags") or ())

    def start_deployment(
        self,
        deployment_id: UUID,
        parameters: Mapping[str, Any],
        *,
        person: str = "",
        key: str | None = None,
        tags: Sequence[str] = (),
    ) -> UUID:
        """Start a run; equal parameters with the same `key` return the first run's id. Raises RunsError."""
        tags = [*tags, *([f"{PERSON}{person}"] if person else [])]
        body: dict[str, Any] = {"parameters": parameters, "state": {"type": "SCHEDULED"}, "tags": tags}
        if key is not None:
            given = json.dumps(parameters, sort_keys=True, default=str)
            body["idempotency_key"] = f"{key}-{hashlib.sha256(given.encode()).hexdigest()}"
        return UUID(self.call("POST", f"/deployments/{deployment_id}/create_flow_run", body)["id"])

    def run_status(self, flow_run_id: UUID) -> RunStatus:
        """Return a run's status, with its artifacts. Raises RunsError; UnknownError if the run doesn't exist."""
        run = self.call("GET", f"/flow_runs/{flow_run_id}")
        keys = (PLAN, PLANNED, COUNTS, FAILURES, CHANGES, NAMES)
        artifacts = self.artifacts([flow_run_id], keys=keys).get(str(flow_run_id), {})
        return status_of(run, artifacts, flow=self.flow_of(run))

    def names_csv(self, flow_run_id: UUID) -> bytes:
        """Return the names of all documents of a run as CSV; empty if the run has none. Raises RunsError."""
        data = self.artifacts([flow_run_id], keys=(CSV,)).get(str(flow_run_id), {}).get(CSV)
        return zlib.decompress(b64decode(data)) if data else b""

    def log(self, flow_run_id: UUID, *, limit: int = 200) -> list[tuple[datetime, str]]:
        """Return the newest lines of a run's log, oldest first, with their times. Raises RunsError."""
        query = {"logs": {"flow_run_id": {"any_": [str(flow_run_id)]}}, "sort": "TIMESTAMP_DESC", "limit": limit}
        lines = reversed(self.rows("/logs/filter", query))
        return [(datetime.fromisoformat(line["timestamp"]), str(line["message"])) for line in lines]

    def page(
        self,
        *,
        number: int = 0,
        size: int = 20,
        flows: Iterable[str] = FLOWS,
        states: Sequence[str] = (),
        after: datetime | None = None,
    ) -> RunsPage:
        """Return a page, counted from 0, of runs due by now (and `after`), in any of the `states`. Raises RunsError."""
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
        """Return the statuses of runs in Prefect's form, with counts but without other artifacts. Raises RunsError."""
        artifacts = self.artifacts([UUID(run["id"]) for run in runs], keys=(COUNTS,))
        return [status_of(run, artifacts.get(run["id"], {}), flow=self.flow_of(run)) for run in runs]

    def is_left_waiting(self, run: RunStatus) -> bool:
        """Return whether a waiting run's deployment is gone, or not polled for a minute. Raises RunsError."""
        if run.state not in _WAITING or run.deployment_id is None:
            return False
        try:
            deployment = self.call("GET", f"/deployments/{run.deployment_id}")
        except UnknownError:
            return True
        return deployment.get("status") == "NOT_READY"

    def cancel(self, flow_run_id: UUID) -> None:
        """Ask a run to stop; sent documents stay, and a new run continues from there. Raises RunsError."""
        body = {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": False}
        self.call("POST", f"/flow_runs/{flow_run_id}/set_state", body)

    def artifacts(self, flow_run_ids: Sequence[UUID], *, keys: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """Return the data of the newest 200 artifacts by run and key, the newest for each key. Raises RunsError."""
        if not flow_run_ids:
            return {}
        wanted: dict[str, Any] = {"flow_run_id": {"any_": [str(flow_run_id) for flow_run_id in flow_run_ids]}}
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
