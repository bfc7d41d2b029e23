"""Determine for certain whether a cluster's server runs. Removing the process file of a living server shuts it down,
and two servers destroy a cluster. So only "no such file" and "no such process" mean gone. Any other error (no
descriptor left, no permission) is an UnknownServerError: leave the cluster untouched."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from service.platform.postgres.host import DatabaseServerError

PID_FILE = "postmaster.pid"
SERVER = "postgres"
# The server's name for its folder if only root may enter the parents; a process can always enter its working folder.
WORKING_FOLDER = "/proc/self/cwd"
LARGEST_PID = 2**31 - 1
LONGEST_SOCKET_PATH = 107  # bytes
DEFAULT_PORT = "5432"
SOCKET_SECONDS = 1.0


class UnknownServerError(DatabaseServerError):
    """Whether the cluster's server runs is currently unknown, so the cluster must not be touched."""


def find_server(folder: Path) -> psutil.Process | None:
    """Return the main process of the server on `folder`, or None if it is certainly gone. Raises UnknownServerError."""
    with _unknown_on_error(folder):
        pid = _recorded_pid(read_pid_file(folder))
        return None if pid is None else _find_process(pid, folder)


def read_pid_file(folder: Path) -> list[str]:
    """Return the lines of the server's process file; empty without a file. Raises UnknownServerError."""
    with _unknown_on_error(folder):
        try:
            text = (folder / PID_FILE).read_text(errors="replace")
        except FileNotFoundError:
            return []
        return [line.strip() for line in text.splitlines()]


def socket_folder(folder: Path) -> str:
    """Return the folder of a cluster's socket, as its process file names it; by default the cluster's own."""
    lines = read_pid_file(folder)
    named = lines[4] if len(lines) > 4 else ""
    return named if named and named != WORKING_FOLDER else str(folder)


def remove_stale_file(folder: Path) -> None:
    """Remove a dead server's process file, because PostgreSQL refuses to start if the file is unreadable or its process
    id was reused. Raises UnknownServerError if a process still works in the folder, or listens on the socket (perhaps
    in another container)."""
    with _unknown_on_error(folder):
        path = folder / PID_FILE
        if not path.exists() or _is_gone(_recorded_pid(read_pid_file(folder))):
            return
        if _is_worked_in(folder) or _is_listened_to(folder):
            msg = f"Processes of a PostgreSQL still run in {folder}. Wait until they end, or end them."
            raise UnknownServerError(msg)
        path.unlink(missing_ok=True)


@contextmanager
def _unknown_on_error(folder: Path) -> Generator[None]:
    try:
        yield
    except (OSError, psutil.Error) as exc:
        msg = f"It is unknown whether the PostgreSQL in {folder} runs: {exc}. Nothing was changed."
        raise UnknownServerError(msg) from exc


def _recorded_pid(lines: list[str]) -> int | None:
    try:
        pid = abs(int(lines[0]))
    except (IndexError, ValueError):
        return None
    return pid if 0 < pid <= LARGEST_PID else None


def _find_process(pid: int, folder: Path) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            # Orphaned servers become children of a container's first process, the service, which must wait for them.
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            return None
        return process if _works_in(process, folder) else None
    except psutil.NoSuchProcess:
        return None


def _is_gone(pid: int | None) -> bool:
    if pid is None:  # the file is unreadable
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _works_in(process: psutil.Process, folder: Path) -> bool:
    """Whether a process is the cluster's server, by user and working folder, not start time: clocks may be set."""
    if process.name() != SERVER or process.uids().effective != folder.stat().st_uid:
        return False
    try:
        return Path(process.cwd()).samefile(folder)
    except FileNotFoundError:
        return False
    except psutil.AccessDenied:
        return True  # this process may be the cluster's server, so count it as such


def _is_worked_in(folder: Path) -> bool:
    for process in psutil.process_iter():
        # An unreadable process belongs to another user, because a process of the folder's user is readable.
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
