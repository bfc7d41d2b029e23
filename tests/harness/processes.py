"""`python -m service` as a process of its own, on an embedded PostgreSQL and a folder that is removed afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from service.embedded import EmbeddedPostgres
from tests.harness.services import ADMIN_EMAIL, ADMIN_PASSWORD, API_KEY

READY_SECONDS = 60


class ServiceProcess:
    """A started process; `start` it again on the same folder to see what it kept."""

    def __init__(self, **environment: str) -> None:
        self.data_dir = Path(tempfile.mkdtemp(prefix="carrel-process-"))
        self.data_dir.chmod(0o711)
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self._environment = environment
        self.process: subprocess.Popen[bytes] | None = None
        self.log = self.data_dir / "test.log"
        self.http = httpx.Client(base_url=self.base_url, headers={"Authorization": f"Bearer {API_KEY}"}, timeout=60)

    def start(self, *, wait: bool = True) -> float:
        """Start the process; returns after how many seconds it could serve."""
        began = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "service"], env=self._variables(), stderr=log)
        if wait:
            self.wait_ready()
        return time.monotonic() - began

    def wait_ready(self) -> None:
        """Wait until the service answers that it can serve."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, f"the service ended:\n{self.log.read_text()[-4000:]}"
            try:
                if self.http.get("/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"not ready after {READY_SECONDS} s:\n{self.log.read_text()[-4000:]}")

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send the process a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> int:
        """Stop as an operator does; returns the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        """Kill as the kernel does when memory is short."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def database_server(self) -> EmbeddedPostgres:
        """Return the supervisor of the process's database."""
        return EmbeddedPostgres(self.data_dir)

    def close(self) -> None:
        """End everything and remove the folder."""
        self.http.close()
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if (self.data_dir / "postgres").exists():
            self.database_server().stop()
        shutil.rmtree(self.data_dir)

    def _variables(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CARREL_")}
        own: dict[str, Any] = {
            "CARREL_DATA_DIR": str(self.data_dir),
            "CARREL_PORT": str(self.port),
            "CARREL_BOOTSTRAP_ADMIN_EMAIL": ADMIN_EMAIL,
            "CARREL_BOOTSTRAP_ADMIN_PASSWORD": ADMIN_PASSWORD,
            "CARREL_BOOTSTRAP_API_KEY": API_KEY,
            "CARREL_EXTRACTION_WORKERS": "1",
        }
        return kept | own | self._environment


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
