"""How long `python -m service` takes to be ready: on an empty data folder, and on one that exists.

Goal: at most 5 s on an existing folder. Run: `python -m bench.start`.
"""

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

import httpx

from bench.report import report

STARTS = 3
PATIENCE_SECONDS = 120.0


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def seconds_until_ready(data_dir: Path) -> float:
    """Start the service on `data_dir`, wait for /readyz, stop it, and return the seconds until it was ready."""
    port = free_port()
    environment = os.environ | {
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
        return time.perf_counter() - began
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)


def ready(port: int) -> bool:
    """Tell whether the service on `port` says it can serve."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=1).status_code == 200
    except httpx.TransportError:
        return False


def main() -> None:
    """Measure, print, and write bench/results/start.json."""
    data_dir = Path(tempfile.mkdtemp(prefix="carrel-bench-start-"))
    try:
        first = seconds_until_ready(data_dir)
        again = sorted(seconds_until_ready(data_dir) for _ in range(STARTS))
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
    median = again[len(again) // 2]
    report(
        "start",
        [
            {"what": "empty data folder, seconds", "value": round(first, 2), "goal": ""},
            {"what": "existing data folder, seconds (median)", "value": round(median, 2), "goal": "<= 5"},
        ],
    )


if __name__ == "__main__":
    main()
