"""Whether a cluster's server runs: known for certain, or not at all.

A process file that is taken away from a living server makes PostgreSQL shut itself down, and two servers on one cluster
destroy it. So only "no such file" and "no such process" mean that a server is gone. Whatever else keeps the answer away
(no descriptor left, no permission) is an UnknownServerError, upon which nothing may be touched.
"""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from service.platform.postgres.host import DatabaseServerError

PID_FILE = "postmaster.pid"
SERVER = "postgres"
# What a server calls its folder whose parents only root may enter; a process can always go where it works already.
WORKING_FOLDER = "/proc/self/cwd"
LARGEST_PID = 2**31 - 1
LONGEST_SOCKET_PATH = 107  # bytes
DEFAULT_PORT = "5432"
SOCKET_SECONDS = 1.0


class UnknownServerError(DatabaseServerError):
    """Whether the cluster's server runs can't be told at the moment, so nothing of the cluster may be touched."""


def find_server(folder: Path) -> psutil.Process | None:
    """Return the main process of the server on the cluster in `folder`; None when that is certainly gone.

    Raises UnknownServerError: it can't be told.
    """
    with _certainty(folder):
        pid = _recorded_pid(read_pid_file(folder))
        return None if pid is None else _find(pid, folder)


def read_pid_file(folder: Path) -> list[str]:
    """Return the lines of the server's process file; none when there is certainly no such file.

    Raises UnknownServerError: it can't be read.
    """
    with _certainty(folder):
        try:
            text = (folder / PID_FILE).read_text(errors="replace")
        except FileNotFoundError:
            return []
        return [line.strip() for line in text.splitlines()]


def socket_folder(folder: Path) -> str:
    """Return the folder of the socket at which the cluster's server answers."""
    lines = read_pid_file(folder)
    named = lines[4] if len(lines) > 4 else ""
    return named if named and named != WORKING_FOLDER else str(folder)


def remove_stale_file(folder: Path) -> None:
    """Remove the process file of a server that is certainly gone, where PostgreSQL would take it for a living one's.

    PostgreSQL overwrites the file of a process that is gone, unless connections' processes of that server are still
    at work. What is left is a file whose process id is somebody else's by now, or can't be read. It goes when no
    process works in the folder, and nothing listens at the socket (of a container that shares the folder, perhaps).

    Raises:
        UnknownServerError: the server may live, or it can't be told.
    """
    with _certainty(folder):
        path = folder / PID_FILE
        if not path.exists() or _is_free(_recorded_pid(read_pid_file(folder))):
            return
        if _is_worked_in(folder) or _is_listened_to(folder):
            msg = f"Processes of a PostgreSQL still work in {folder}. They end by themselves, or have to be ended."
            raise UnknownServerError(msg)
        path.unlink(missing_ok=True)


@contextmanager
def _certainty(folder: Path) -> Generator[None]:
    try:
        yield
    except (OSError, psutil.Error) as exc:
        msg = f"Whether the PostgreSQL in {folder} runs can't be told at the moment: {exc}. Nothing of it was touched."
        raise UnknownServerError(msg) from exc


def _recorded_pid(lines: list[str]) -> int | None:
    try:
        pid = abs(int(lines[0]))
    except (IndexError, ValueError):
        return None
    return pid if 0 < pid <= LARGEST_PID else None


def _find(pid: int, folder: Path) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            # Servers are handed to a container's first process: that is the service, which must let them go.
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            return None
        return process if _works_in(process, folder) else None
    except psutil.NoSuchProcess:
        return None


def _is_free(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _works_in(process: psutil.Process, folder: Path) -> bool:
    """Tell whether a process is one of a server on the cluster: its user's, and at work in its folder.

    When a process was started says nothing: the clock may have been set since.
    """
    if process.name() != SERVER or process.uids().effective != folder.stat().st_uid:
        return False
    try:
        return Path(process.cwd()).samefile(folder)
    except FileNotFoundError:
        return False
    except psutil.AccessDenied:
        return True  # it can't be told from the cluster's server, so it is taken for that


def _is_worked_in(folder: Path) -> bool:
    for process in psutil.process_iter():
        # A process of the folder's user can be looked at, so one that can't is another's.
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.status() != psutil.STATUS_ZOMBIE and _works_in(process, folder):
                return True
    return False


def _is_listened_to(folder: Path) -> bool:
    lines = read_pid_file(folder)
    port = lines[3] if len(lines) > 3 else DEFAULT_PORT
    path = f"{socket_folder(folder)}/.s.PGSQL.{port}"
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        return False
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SOCKET_SECONDS)
        try:
            client.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
    return True
