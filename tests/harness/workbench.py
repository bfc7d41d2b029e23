"""The workbench as a separate process, in front of any service, registered there as an application."""

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.logs import logs_of_processes
from tests.harness.processes import environment_without_settings, free_port, wait_until_answering
from tests.harness.services import RunningService
from tests.harness.stack import ROOT
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
        kept = environment_without_settings("PREFECT_")
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app"], cwd=ROOT, env=kept | settings | environment, stdout=output, stderr=output
            )
        logs_of_processes[f"workbench at {self.url}"] = self.folder / "output"
        wait_until_answering(f"{self.url}/_stcore/health", self._process, output=self.folder / "output")
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
