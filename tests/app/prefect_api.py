"""What the flows leave on a Prefect server, put there over its API: the workbench reads nothing else."""

import json
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import httpx

from flows.operations.summary import Summary
from flows.runs import COUNTS, DEPLOYMENT, FAILURES, PLAN


class PrefectServer:
    """A real Prefect server, on which runs are moved by hand."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=30)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def deploy(self) -> str:
        """Offer the upload flow, as `python -m flows serve` does; returns the deployment's id."""
        flow = self._call("POST", "/flows/", {"name": "bulk-upload"})
        made = self._call("POST", "/deployments/", {"name": DEPLOYMENT, "flow_id": flow["id"]})
        return str(made["id"])

    def withdraw(self, deployment: str) -> None:
        """Offer it no more."""
        self._request("DELETE", f"/deployments/{deployment}")

    def runs_of(self, deployment: str) -> list[dict[str, Any]]:
        """The runs started of a deployment."""
        query = {"deployments": {"id": {"any_": [deployment]}}}
        return list(self._call("POST", "/flow_runs/filter", query))

    def move(self, run: UUID | str, state: str, message: str = "") -> None:
        """Bring a run into a state."""
        body = {"state": {"type": state, "message": message}, "force": True}
        self._call("POST", f"/flow_runs/{run}/set_state", body)

    def tell(
        self, run: UUID | str, summary: Summary, *, phase: str, failures: Sequence[Any] = (), plan: str = ""
    ) -> None:
        """Publish a run's artifacts, as flows.progress does."""
        counts = {**summary.as_json(), "phase": phase, "seconds": 3.0, "documentsPerSecond": 12.5}
        self._artifact(run, COUNTS, "table", json.dumps([counts]))
        if failures:
            self._artifact(run, FAILURES, "table", json.dumps(list(failures)))
        if plan:
            self._artifact(run, PLAN, "markdown", plan)

    def _artifact(self, run: UUID | str, key: str, kind: str, data: str) -> None:
        self._call("POST", "/artifacts/", {"key": key, "type": kind, "data": data, "flow_run_id": str(run)})

    def _call(self, method: str, path: str, body: object) -> Any:
        return self._request(method, path, body).json()

    def _request(self, method: str, path: str, body: object = None) -> httpx.Response:
        deadline = time.monotonic() + 60
        # Prefect answers 503 while another of its own tasks holds its SQLite file.
        while (response := self._http.request(method, path, json=body)).status_code == 503:
            assert time.monotonic() < deadline, response.text
            time.sleep(0.2)
        assert response.is_success, response.text
        return response
