"""Starting and following runs from elsewhere (the workbench, a script), through Prefect's HTTP API.

It needs httpx alone, so that who only starts runs need not install or import Prefect. The runs themselves are made by
whoever serves the deployments: `python -m flows serve`.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast
from uuid import UUID

import httpx

from flows.operations.options import CollectionOptions, UploadOptions
from flows.operations.summary import Summary

DEPLOYMENT = "carrel"
PLAN, PROGRESS, COUNTS, FAILURES = "carrel-plan", "carrel-progress", "carrel-counts", "carrel-failures"
_FINAL = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})
_TIMEOUT = 10.0
_PAUSES = (0.5, 1.0, 2.0)  # seconds


class RunsError(Exception):
    """Prefect's API can't be reached, or nobody serves the flows; the message says what to start."""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Where a run is.

    `state` is Prefect's type: SCHEDULED, PENDING, RUNNING, COMPLETED, FAILED, CRASHED, CANCELLING or CANCELLED;
    `message` its words; `phase` scanning, sending, indexing or done. Counts are all zero until the plan is made.
    `failures` are the quarantine's first rows: place, document, code, reason. `plan` is Markdown.
    """

    flow_run_id: UUID
    state: str
    message: str
    phase: str = "scanning"
    counts: Summary = field(default_factory=Summary)
    progress: float = 0.0
    documents_per_second: float = 0.0
    seconds: float = 0.0
    failures: Sequence[Mapping[str, str]] = ()
    plan: str = ""

    @property
    def finished(self) -> bool:
        """Whether the run has ended, well or not."""
        return self.state in _FINAL


class Runs:
    """The runs on a Prefect server; `api_url` such as http://127.0.0.1:4200/api. Safe to share between threads."""

    def __init__(self, api_url: str, *, http_client: httpx.Client | None = None) -> None:
        self._http = http_client or httpx.Client(timeout=_TIMEOUT)
        self._url = api_url.rstrip("/")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def start_upload(self, source: str, options: UploadOptions | None = None) -> UUID:
        """Start a bulk upload of a folder, glob or manifest (as the serving process sees it); return the flow run's id.

        Raises RunsError.
        """
        return self._start("bulk-upload", {"source": source, "options": (options or UploadOptions()).model_dump()})

    def start_collection_add(self, source: str, options: CollectionOptions) -> UUID:
        """Start adding what the source names to a collection; return the flow run's id. Raises RunsError."""
        return self._start("collection-add", {"source": source, "options": options.model_dump()})

    def run_status(self, flow_run_id: UUID) -> RunStatus:
        """Return where a run is now. Raises RunsError, also for a run that is not known."""
        run = self._call("GET", f"/flow_runs/{flow_run_id}")
        artifacts = self._artifacts(flow_run_id)
        state: dict[str, Any] = run.get("state") or {}
        counts = next(iter(_table(artifacts.get(COUNTS))), dict[str, Any]())
        return RunStatus(
            flow_run_id=flow_run_id,
            state=str(run.get("state_type") or "PENDING"),
            message=str(state.get("message") or ""),
            phase=str(counts.get("phase", "scanning")),
            counts=Summary.from_json(counts),
            progress=float(counts.get("progress", 0.0)),
            documents_per_second=float(counts.get("documentsPerSecond", 0.0)),
            seconds=float(counts.get("seconds", 0.0)),
            failures=_table(artifacts.get(FAILURES)),
            plan=str(artifacts.get(PLAN) or ""),
        )

    def recent(self, *, limit: int = 20) -> list[UUID]:
        """Return the newest bulk uploads, collection additions and syncs, newest first. Raises RunsError."""
        query = {
            "flows": {"name": {"any_": ["bulk-upload", "collection-add", "docstore-sync"]}},
            "sort": "START_TIME_DESC",
            "limit": limit,
        }
        found = cast("list[dict[str, Any]]", self._call("POST", "/flow_runs/filter", query))
        return [UUID(run["id"]) for run in found]

    def cancel(self, flow_run_id: UUID) -> None:
        """Ask a run to stop; what it has sent stays, and running it again goes on from there. Raises RunsError."""
        body = {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": False}
        self._call("POST", f"/flow_runs/{flow_run_id}/set_state", body)

    def _start(self, flow: str, parameters: Mapping[str, Any]) -> UUID:
        deployment = self._call("GET", f"/deployments/name/{flow}/{DEPLOYMENT}")
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        return UUID(self._call("POST", f"/deployments/{deployment['id']}/create_flow_run", body)["id"])

    def _artifacts(self, flow_run_id: UUID) -> dict[str, Any]:
        """Return the data of a run's artifacts by key: of several with one key, after a restart, the newest."""
        query = {"artifacts": {"flow_run_id": {"any_": [str(flow_run_id)]}}, "sort": "CREATED_DESC", "limit": 50}
        found = cast("list[dict[str, Any]]", self._call("POST", "/artifacts/filter", query))
        return {str(artifact["key"]): artifact["data"] for artifact in reversed(found)}

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        try:
            response = self._send(method, path, body)
        except httpx.HTTPError as exc:
            msg = f"Prefect does not answer at {self._url} ({exc}). Start it: `python -m flows.server`."
            raise RunsError(msg) from exc
        if response.status_code == 404 and path.startswith("/deployments/name/"):
            msg = "Nobody serves the flows. Start them: `python -m flows serve`."
            raise RunsError(msg)
        if response.is_error:
            msg = f"Prefect answered {response.status_code} to {path}: {response.text[:300]}"
            raise RunsError(msg)
        return cast("dict[str, Any]", response.json())

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> httpx.Response:
        """Send a request, again when Prefect's database is busy, as while it starts: then nothing was done."""
        response = self._http.request(method, f"{self._url}{path}", json=body)
        for pause in _PAUSES:
            if response.status_code != 503:
                break
            time.sleep(pause)
            response = self._http.request(method, f"{self._url}{path}", json=body)
        return response


def start_upload(api_url: str, source: str, options: UploadOptions | None = None) -> UUID:
    """Start a bulk upload; `Runs.start_upload` for one call."""
    with Runs(api_url) as runs:
        return runs.start_upload(source, options)


def run_status(api_url: str, flow_run_id: UUID) -> RunStatus:
    """Return where a run is; `Runs.run_status` for one call."""
    with Runs(api_url) as runs:
        return runs.run_status(flow_run_id)


def _table(data: object) -> list[dict[str, Any]]:
    rows: object = json.loads(data) if isinstance(data, str) else data
    return cast("list[dict[str, Any]]", rows) if isinstance(rows, list) else []
