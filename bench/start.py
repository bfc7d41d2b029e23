"""How long `python -m service` takes to be ready: on an empty data folder, and on one that exists.

The first start also compiles the modules, as the first one on any machine does; what it compiles goes to a folder of
the benchmark's own. Goal: at most 3 s on an existing folder. Run: `python -m bench.start`.
"""

import contextlib
import http.client
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bench.report import report

STARTS = 3
PATIENCE_SECONDS = 120.0


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def effort_until_ready(data_dir: Path, compiled: Path) -> tuple[float, float]:
    """Start the service on `data_dir` and stop it when it is ready; return the seconds, and those of processors.

    Of processors: what it and its processes took, without PostgreSQL. Modules are compiled into the folder `compiled`.
    """
    port = free_port()
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = ours | {
        "PYTHONPYCACHEPREFIX": str(compiled),
        "CARREL_DATA_DIR": str(data_dir),
        "CARREL_PORT": str(port),
        "CARREL_BOOTSTRAP_ADMIN_EMAIL": "admin@bench.example",
        "CARREL_BOOTSTRAP_ADMIN_PASSWORD": secrets.token_urlsafe(16),
        "CARREL_BOOTSTRAP_API_KEY": f"svc_key_{secrets.token_hex(24)}",
    }
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "service"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not ready(port):
            if process.poll() is not None or time.perf_counter() - began > PATIENCE_SECONDS:
                message = f"the service was not ready (exit status {process.poll()})"
                raise RuntimeError(message)
            time.sleep(0.02)
        return time.perf_counter() - began, processor_seconds(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)


def ready(port: int) -> bool:
    """Tell whether the service on `port` says it can serve; asking takes next to no processor time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def processor_seconds(pid: int) -> float:
    """Return the processor seconds that a process and those it has started have used so far."""
    parent = psutil.Process(pid)
    used = 0.0
    for process in (parent, *parent.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # It ended since the list was made.
            times = process.cpu_times()
            used += times.user + times.system
    return used


def main() -> None:
    """Measure, print, and write bench/results/start.json."""
    work = Path(tempfile.mkdtemp(prefix="carrel-bench-start-"))
    work.chmod(0o711)
    try:
        first = effort_until_ready(work / "data", work / "compiled")
        again = [effort_until_ready(work / "data", work / "compiled") for _ in range(STARTS)]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    seconds, processor = (sorted(each)[STARTS // 2] for each in zip(*again, strict=True))
    report(
        "start",
        [
            {"what": "empty data folder, seconds", "value": round(first[0], 2), "goal": ""},
            {"what": "existing data folder, seconds (median)", "value": round(seconds, 2), "goal": "<= 3"},
            {"what": "existing data folder, processor seconds (median)", "value": round(processor, 2), "goal": "<= 3"},
        ],
    )


if __name__ == "__main__":
    main()
