"""Starting and following runs from elsewhere (the workbench, a script), through Prefect's HTTP API.

It needs httpx alone, so that who only starts runs need not install or import Prefect. The runs themselves are made by
whoever serves the deployments: `python -m flows serve`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx

from flows.operations.options import CollectionOptions, ReindexOptions, UploadOptions
from flows.prefect_api import NotServedError, PrefectApi, PrefectAwayError, RunsError, UnknownError
from flows.run_status import (
    COUNTS,
    DEPLOYMENT,
    FAILURES,
    PERSON,
    PLAN,
    PLANNED,
    PROGRESS,
    RunStatus,
    status_of,
)

__all__ = [
    "COUNTS",
    "DEPLOYMENT",
    "FAILURES",
    "FLOWS",
    "PLAN",
    "PLANNED",
    "PROGRESS",
    "NotServedError",
    "PrefectAwayError",
    "RunStatus",
    "Runs",
    "RunsError",
    "RunsPage",
    "UnknownError",
    "run_status",
    "start_upload",
]

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


class Runs(PrefectApi):
    """The runs on a Prefect server. Methods that start a run return the flow run's id and raise RunsError.

    `person` is who starts it, for others to see; starts with one `key` and equal parameters return the run of the
    first one. Sources are as the serving process sees them.
    """

    def __init__(self, api_url: str, *, http_client: httpx.Client | None = None) -> None:
        super().__init__(api_url, http_client=http_client)
        self._flows: Mapping[str, str] = {}

    def start_upload(
        self, source: str, options: UploadOptions | None = None, *, person: str = "", key: str | None = None
    ) -> UUID:
        """Start a bulk upload of a folder, glob, manifest or object store."""
        parameters = {"source": source, "options": (options or UploadOptions()).model_dump()}
        return self.start("bulk-upload", parameters, person=person, key=key)

    def start_plan(
        self, source: str, options: UploadOptions | None = None, *, person: str = "", key: str | None = None
    ) -> UUID:
        """Start a dry run of `start_upload`, which sends and deletes nothing."""
        parameters = {"source": source, "options": (options or UploadOptions()).model_dump(), "dry_run": True}
        return self.start("bulk-upload", parameters, person=person, key=key)

    def start_collection_add(
        self, source: str, options: CollectionOptions, *, person: str = "", key: str | None = None
    ) -> UUID:
        """Start adding what the source names to a collection."""
        parameters = {"source": source, "options": options.model_dump()}
        return self.start("collection-add", parameters, person=person, key=key)

    def start_reindex(self, source: str, options: ReindexOptions, *, person: str = "", key: str | None = None) -> UUID:
        """Start indexing a collection (its name or id), or the catalog, again."""
        parameters = {"source": source, "options": options.model_dump()}
        return self.start("reindex", parameters, person=person, key=key)

    def start_retry(
        self, ledger: str, loaded_from: str, *, names: Sequence[str] = (), person: str = "", key: str | None = None
    ) -> UUID:
        """Start sending what of a source is in quarantine again, or what has one of these names.

        `loaded_from` tells people what its ledger is of.
        """
        parameters: dict[str, Any] = {"source": ledger, "loaded_from": loaded_from}
        if names:
            parameters["names"] = list(names)
        return self.start("quarantine-retry", parameters, person=person, key=key)

    def start_again(self, run: RunStatus, *, person: str = "", key: str | None = None) -> UUID:
        """Start a flow again with the parameters of a run."""
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

    def start_deployment(
        self,
        deployment_id: UUID,
        parameters: Mapping[str, Any],
        *,
        person: str = "",
        key: str | None = None,
        tags: Sequence[str] = (),
    ) -> UUID:
        """Start a deployment; `parameters` replace its own."""
        body: dict[str, Any] = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        body["tags"] = [*tags, *([f"{PERSON}{person}"] if person else [])]
        if key is not None:
            given = json.dumps(parameters, sort_keys=True, default=str)
            body["idempotency_key"] = f"{key}-{hashlib.sha256(given.encode()).hexdigest()}"
        return UUID(self.call("POST", f"/deployments/{deployment_id}/create_flow_run", body)["id"])

    def run_status(self, flow_run_id: UUID) -> RunStatus:
        """Return the status of a run. Raises RunsError; UnknownError for an unknown run."""
        run = self.call("GET", f"/flow_runs/{flow_run_id}")
        artifacts = self.artifacts([flow_run_id]).get(str(flow_run_id), {})
        return status_of(run, artifacts, flow=self.flow_of(run))

    def page(self, *, number: int = 0, size: int = 20, flows: Iterable[str] = FLOWS) -> RunsPage:
        """Return a page of the runs that were due by now; `number` counts from 0. Raises RunsError."""
        query = {
            "flows": {"name": {"any_": list(flows)}},
            "flow_runs": {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}},
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

    def recent(self, *, limit: int = 20) -> list[UUID]:
        """Return the ids of the newest runs, newest first. Raises RunsError."""
        query = {"flows": {"name": {"any_": list(FLOWS)}}, "sort": "START_TIME_DESC", "limit": limit}
        return [UUID(run["id"]) for run in self.rows("/flow_runs/filter", query)]

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


def start_upload(api_url: str, source: str, options: UploadOptions | None = None) -> UUID:
    """Start a bulk upload; `Runs.start_upload` for one call."""
    with Runs(api_url) as runs:
        return runs.start_upload(source, options)


def run_status(api_url: str, flow_run_id: UUID) -> RunStatus:
    """Return the status of a run; `Runs.run_status` for one call."""
    with Runs(api_url) as runs:
        return runs.run_status(flow_run_id)
