"""The ports that `make up` needs, and which of them are taken, before a part is started."""

import shlex
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from textwrap import shorten
from urllib.parse import urlsplit

LONGEST_COMMAND = 100
PARTS = {
    "service": ("the service", "CARREL_PORT and CARREL_BASE_URL"),
    "prefect": ("Prefect", "PREFECT_API_URL"),
    "workbench": ("the workbench", "CARREL_APP_PORT and CARREL_WORKBENCH_URL"),
}


def find_taken_ports(environment: Mapping[str, str], parts: Collection[str] = PARTS) -> Iterator[str]:
    """Yield a line for each port that a program listens on already, with the settings that name another."""
    for part, port in ports_of(environment).items():
        if part in parts and not _is_free(port):
            name, settings = PARTS[part]
            taken = f"Port {port}, for {name}, is taken{_name_holder(port)}."
            yield f"{taken} Stop that program, or set {settings} in .env."


def ports_of(environment: Mapping[str, str]) -> dict[str, int]:
    """Return the ports that the parts listen on, by the names of the Procfile."""
    return {
        "service": int(environment.get("CARREL_PORT") or 8000),
        "prefect": urlsplit(environment.get("PREFECT_API_URL", "")).port or 4200,
        "workbench": int(environment.get("CARREL_APP_PORT") or 8501),
    }


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _name_holder(port: int) -> str:
    """Return words that name the process at a port, where the system tells."""
    import psutil  # noqa: PLC0415 - a start on free ports needs none of it

    with suppress(psutil.Error, OSError):
        for each in psutil.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port and each.pid:
                command = shlex.join(psutil.Process(each.pid).cmdline()) or psutil.Process(each.pid).name()
                return f" by process {each.pid}: {shorten(command, LONGEST_COMMAND, placeholder=' …')}"
    return " by a process that this user may not see"
