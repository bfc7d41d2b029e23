"""`python -m sample.ports`: say which of the ports that `make up` needs are taken, before anything is started."""

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit


def find_taken_ports(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each port that somebody listens on already, with the settings that name another."""
    prefect = urlsplit(environment.get("PREFECT_API_URL", "")).port
    wanted = (
        ("the service", environment.get("CARREL_PORT", 8000), "CARREL_PORT and CARREL_BASE_URL"),
        ("Prefect", prefect or 4200, "PREFECT_API_URL"),
        ("the workbench", environment.get("CARREL_APP_PORT", 8501), "CARREL_APP_PORT and CARREL_WORKBENCH_URL"),
    )
    for who, port, settings in wanted:
        if not _is_free(int(port)):
            yield f"Port {port}, for {who}, is taken. Stop what listens there, or set {settings} in .env."


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def main() -> int:
    """Print the ports that are taken; return 1 when there are any."""
    taken = list(find_taken_ports(os.environ))
    sys.stderr.writelines(f"{line}\n" for line in taken)
    return 1 if taken else 0


if __name__ == "__main__":
    sys.exit(main())
