"""Prefect's HTTP API, for programs that start and watch runs (the workbench, scripts) without importing Prefect."""

import json
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast

import httpx

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


class PrefectApi:
    """A Prefect server; `api_url` such as http://127.0.0.1:4200/api. Safe to share between threads."""

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

    def call(self, method: str, path: str, body: Body = None) -> Any:
        """Return what Prefect answers, decoded. Raises RunsError."""
        try:
            response = self._send(method, path, body)
        except httpx.HTTPError as exc:
            msg = f"Prefect does not answer at {self._url} ({exc}). Start it: `python -m flows.server`."
            raise PrefectAwayError(msg) from exc
        if response.status_code == 404 and path.startswith("/deployments/name/"):
            msg = "Nobody serves the flows. Start them: `python -m flows serve`."
            raise NotServedError(msg)
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


def table(data: object) -> list[dict[str, Any]]:
    """Return the rows of a table artifact's data; none of what is no table."""
    rows: object = json.loads(data) if isinstance(data, str) else data
    return cast("list[dict[str, Any]]", rows) if isinstance(rows, list) else []
