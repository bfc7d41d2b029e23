"""The service and a Prefect server as processes of their own, for benchmarks that go through both."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.start import free_port, processor_seconds, ready
from carrel import Carrel
from flows.settings import FlowSettings

PATIENCE_SECONDS = 180.0


@dataclass(frozen=True)
class Stack:
    """What a benchmark talks to: the settings of flows that use this service, and the data folder of both."""

    settings: FlowSettings
    service: subprocess.Popen[bytes]
    prefect: subprocess.Popen[bytes] | None

    def database_pid(self) -> int:
        """Return the process of the embedded PostgreSQL, which is no child of the service's."""
        return int(next(self.settings.data_dir.rglob("postmaster.pid")).read_text().split()[0])

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor seconds used so far: by this process, the service's, PostgreSQL's, Prefect's server."""
        server = 0.0 if self.prefect is None else processor_seconds(self.prefect.pid)
        database = processor_seconds(self.database_pid())
        service = processor_seconds(self.service.pid)
        return {"client": time.process_time(), "service": service, "database": database, "prefect": server}


@contextmanager
def run_stack(
    data_dir: Path, *, prefect: bool, environment: Mapping[str, str] | None = None, code: Path | None = None
) -> Iterator[Stack]:
    """Start the service, and a Prefect server if wanted, on a data folder; set this process's environment for flows.

    `environment` is settings beside those that a benchmark always has, such as the key of a folder that exists.
    `code` is a checkout whose code the service runs, instead of this one's.
    """
    port, key = free_port(), f"svc_key_{secrets.token_hex(24)}"
    ours = {
        "CARREL_DATA_DIR": str(data_dir),
        "CARREL_PORT": str(port),
        "CARREL_BASE_URL": f"http://127.0.0.1:{port}",
        "CARREL_API_KEY": key,
        "CARREL_BOOTSTRAP_ADMIN_EMAIL": "admin@bench.example",
        "CARREL_BOOTSTRAP_ADMIN_PASSWORD": secrets.token_urlsafe(16),
        "CARREL_BOOTSTRAP_API_KEY": key,
        "CARREL_RATE_LIMIT_REQUESTS": "0",
        "PREFECT_HOME": str(data_dir / "prefect"),
        "PREFECT_LOGGING_LEVEL": "ERROR",
    }
    if prefect:
        ours["PREFECT_API_URL"] = f"http://127.0.0.1:{free_port()}/api"
    ours |= environment or {}
    os.environ.update(ours)
    data_dir.mkdir(parents=True, exist_ok=True)
    with process_of("service", lambda: ready(port), log=data_dir / "service.log", code=code) as service:
        if not prefect:
            yield Stack(FlowSettings(), service, None)
            return
        api = ours["PREFECT_API_URL"]
        with process_of("flows.server", lambda: _answers(f"{api}/health"), log=data_dir / "prefect.log") as server:
            yield Stack(FlowSettings(), service, server)


@contextmanager
def run_client(name: str) -> Iterator[tuple[Carrel, Path]]:
    """Run a service of its own; yield a client of it, and a folder for files. Nothing of either is kept."""
    folder = Path(tempfile.mkdtemp(prefix=f"carrel-bench-{name}-"))
    try:
        with run_stack(folder / "data", prefect=False), Carrel(timeout=120) as client:
            yield client, folder / "files"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def process_of(
    module: str,
    is_ready: Callable[[], bool],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    code: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `python -m MODULE` with this process's environment and `environment`; it is ready when this is entered.

    `code` is a checkout to run the module of, instead of this one's.
    """
    variables = os.environ | (environment or {}) | ({} if code is None else import_from(code))
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], env=variables, stdout=file, stderr=file, cwd=code
        )
    try:
        began = time.perf_counter()
        while not is_ready():
            if process.poll() is not None or time.perf_counter() - began > PATIENCE_SECONDS:
                message = f"{module} was not ready (exit status {process.poll()}):\n{log.read_text()[-2000:]}"
                raise RuntimeError(message)
            time.sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)


def import_from(code: Path) -> dict[str, str]:
    """Return the variables by which a process in the folder of a checkout imports that checkout's code."""
    return {"PYTHONPATH": f"{code}{os.pathsep}{code / 'client'}"}


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).is_success
    except httpx.TransportError:
        return False


def words(number: int, *, seed: int) -> str:
    """Return so many words of an invented language, in sentences; the same for the same seed."""
    state, made = seed * 2654435761 % 2**32 or 1, list[str]()
    for position in range(number):
        state = (state * 1103515245 + 12345) % 2**31
        syllables = [_SYLLABLES[(state >> shift) % len(_SYLLABLES)] for shift in (3, 9, 15)[: 2 + state % 2]]
        made.append("".join(syllables) + ("." if position % 14 == 13 else ""))
    return " ".join(made)


_SYLLABLES = ("ka", "lo", "mi", "ter", "sun", "ve", "ra", "don", "pel", "shi", "fer", "ry", "an", "qui", "bo", "est")
