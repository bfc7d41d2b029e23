"""`python -m flows.server`: Prefect's own server, with its state in Carrel's data folder."""

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from flows.settings import FlowSettings, prefect_environment


def main() -> None:
    """Become `prefect server start`, listening where PREFECT_API_URL says (by default on this machine alone)."""
    for name, value in prefect_environment(FlowSettings()).items():
        os.environ.setdefault(name, value)
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
    address = urlsplit(os.environ.get("PREFECT_API_URL", "http://127.0.0.1:4200/api"))
    command = Path(sys.executable).with_name("prefect")
    listen = ["--host", address.hostname or "127.0.0.1", "--port", str(address.port or 4200)]
    os.execv(command, [str(command), "server", "start", *listen])  # noqa: S606 - replaces this process, no shell


if __name__ == "__main__":
    main()
