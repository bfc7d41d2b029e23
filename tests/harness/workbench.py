"""The workbench as a separate process, in front of any service, registered there as an application."""

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.harness.logs import logs_of_processes
from tests.harness.services import RunningService
from tests.harness.stack import ROOT, free_port
from tests.oauth.flow import EVERY_SCOPE, an_app


class Workbench:
    """Starts `python -m app`; the output and the sessions are in `folder`."""

    def __init__(self, service: RunningService, folder: Path, *, port: int | None = None) -> None:
        self.service = service
        self.folder = folder
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._app = an_app(service, f"{self.url}/oauth/callback", scopes=EVERY_SCOPE)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")

    def start(self, **environment: str) -> "Workbench":
        settings = {
            "CARREL_BASE_URL": self.service.base_url,
            "CARREL_CLIENT_ID": self._app.client_id,
            "CARREL_CLIENT_SECRET": self._app.client_secret,
            "CARREL_APP_PORT": str(self.port),
            "CARREL_APP_DIR": str(self.folder / "workbench"),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CARREL_", "PREFECT_"))}
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app"], cwd=ROOT, env=kept | settings | environment, stdout=output, stderr=output
            )
        logs_of_processes[f"workbench at {self.url}"] = self.folder / "output"
        deadline = time.monotonic() + 120.0
        while not self._answers():
            assert self._process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        logs_of_processes.pop(f"workbench at {self.url}", None)
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/_stcore/health", timeout=2).is_success
        except httpx.TransportError:
            return False
