"""The whole product as started by `make up`: the Procfile, on free ports and in a separate folder."""

import secrets
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.harness.first_start import bring_database, bring_model
from tests.harness.jobs import until
from tests.harness.logs import logs_of_processes, shorten_log
from tests.harness.processes import environment_without_settings, free_port

ROOT = Path(__file__).parents[2]
READY = "Carrel is up"
ADMIN = "admin@northlight.example"
PASSWORD = "only-for-this-test-run"
STARTING_SECONDS = 240.0
STOPPING_SECONDS = 60.0


@dataclass
class Stack:
    """Starts and stops the Procfile; the output goes to a file in `folder`."""

    folder: Path
    service_port: int = field(default_factory=free_port)
    prefect_port: int = field(default_factory=free_port)
    app_port: int = field(default_factory=free_port)
    api_key: str = field(default_factory=lambda: f"svc_key_{secrets.token_hex(24)}")
    process: subprocess.Popen[bytes] | None = None

    @property
    def workbench(self) -> str:
        return f"http://127.0.0.1:{self.app_port}"

    @property
    def service(self) -> str:
        return f"http://127.0.0.1:{self.service_port}"

    @property
    def output(self) -> str:
        path = self.folder / "output"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        data = self.folder / "data"
        if not data.exists():
            data.mkdir(mode=0o711)
            bring_database(data)
            bring_model(data)
        settings = self.folder / "env"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        logs_of_processes[f"everything at {self.workbench}"] = self.folder / "output"
        with (self.folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scripts.up", "--app-root", str(ROOT), "--env", str(settings), "start"],
                cwd=ROOT,
                env=environment_without_settings("PREFECT_"),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until(
            lambda: READY in self.output or self.process_ended(),
            STARTING_SECONDS,
            told=lambda: shorten_log(self.output),
        )
        assert READY in self.output, shorten_log(self.output)

    def interrupt(self) -> list[psutil.Process]:
        assert self.process is not None
        family = psutil.Process(self.process.pid).children(recursive=True) + self._database_processes()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(STOPPING_SECONDS)
        return psutil.wait_procs(family, timeout=5)[1]

    def close(self) -> None:
        logs_of_processes.pop(f"everything at {self.workbench}", None)
        if self.process is not None and self.process.poll() is None:
            for survivor in self.interrupt():
                survivor.kill()

    def process_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def _database_processes(self) -> list[psutil.Process]:
        found = psutil.process_iter(["cmdline"])
        return [process for process in found if str(self.folder) in " ".join(process.info["cmdline"] or ())]

    def _settings(self) -> dict[str, str]:
        return {
            "CARREL_BOOTSTRAP_ADMIN_EMAIL": ADMIN,
            "CARREL_BOOTSTRAP_ADMIN_PASSWORD": PASSWORD,
            "CARREL_SAMPLE_PASSWORD": PASSWORD,
            "CARREL_BOOTSTRAP_API_KEY": self.api_key,
            "CARREL_API_KEY": self.api_key,
            "CARREL_BASE_URL": self.service,
            "CARREL_PORT": str(self.service_port),
            "CARREL_APP_PORT": str(self.app_port),
            "CARREL_APP_DIR": str(self.folder / "workbench"),
            "CARREL_DATA_DIR": str(self.folder / "data"),
            "CARREL_WORKERS": "1",
            "CARREL_EXTRACTION_WORKERS": "1",
            "PREFECT_API_URL": f"http://127.0.0.1:{self.prefect_port}/api",
            "PREFECT_SERVER_UI_ENABLED": "false",
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        }
