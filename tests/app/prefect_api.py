"""The flows' data on a Prefect server, written by API."""

import json
import time
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import httpx

from flows.operations.summary import Summary
from flows.runs import COUNTS, CSV, DEPLOYMENT, FAILURES, NAMES, PLAN, PLANNED


class PrefectServer:
    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=30)

    def close(self) -> None:
        self._http.close()

    def deploy(self, flow: str = "bulk-upload", *, name: str = DEPLOYMENT, **members: Any) -> str:
        made = self._call("POST", "/flows/", {"name": flow})
        return str(self._call("POST", "/deployments/", {"name": name, "flow_id": made["id"], **members})["id"])

    def deployment(self, deployment: str) -> dict[str, Any]:
        return dict(self._request("GET", f"/deployments/{deployment}").json())

    def start(self, deployment: str, parameters: Mapping[str, Any]) -> str:
        body = {"parameters": dict(parameters), "state": {"type": "SCHEDULED"}}
        return str(self._call("POST", f"/deployments/{deployment}/create_flow_run", body)["id"])

    def withdraw(self, deployment: str) -> None:
        self._request("DELETE", f"/deployments/{deployment}")

    def runs_of(self, deployment: str) -> list[dict[str, Any]]:
        return list(self._call("POST", "/flow_runs/filter", {"deployments": {"id": {"any_": [deployment]}}}))

    def move(self, run: UUID | str, state: str, message: str = "", **members: str) -> None:
        body = {"state": {"type": state, "message": message, **members}, "force": True}
        self._call("POST", f"/flow_runs/{run}/set_state", body)

    def forget(self, run: UUID | str) -> None:
        self._request("DELETE", f"/flow_runs/{run}")

    def state_of(self, run: UUID | str) -> str:
        return str(self._request("GET", f"/flow_runs/{run}").json()["state_type"])

    def tell(
        self,
        run: UUID | str,
        summary: Summary,
        *,
        phase: str,
        failures: Sequence[Any] = (),
        plan: str = "",
        planned: Mapping[str, int] | None = None,
        waiting_for: str = "",
        names: Sequence[Mapping[str, str]] = (),
        **figures: str,
    ) -> None:
        counts = {**summary.as_json(), "phase": phase, "seconds": 3.0, "documentsPerSecond": 12.5}
        counts |= {"waitingFor": waiting_for, **figures}
        self._artifact(run, COUNTS, "table", json.dumps([counts]))
        if failures:
            self._artifact(run, FAILURES, "table", json.dumps(list(failures)))
        if names:
            self._artifact(run, NAMES, "table", json.dumps(list(names)))
            rows = "\n".join([",".join(names[0]), *(",".join(one.values()) for one in names)])
            self._artifact(run, CSV, "text", b64encode(zlib.compress(rows.encode())).decode())
        if plan:
            self._artifact(run, PLAN, "markdown", plan)
        if planned:
            self._artifact(run, PLANNED, "table", json.dumps([planned]))

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
