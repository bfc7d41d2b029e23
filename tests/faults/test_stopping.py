"""The end of `make up`: by Ctrl-C, with its terminal, with what started it, and with one of its parts."""

import fcntl
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.harness.jobs import until

ROOT = Path(__file__).parents[2]
SLOW = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(8), print("ended in its own time", flush=True), sys.exit(0)))
print("started", flush=True)
time.sleep(60)
"""
# Leaves a program running in a session of its own, as the service does with PostgreSQL when it is killed.
LEAVING = "sh -c 'setsid sleep 987 & echo started; exec sleep 988'"
SERVICE = """
import json, sys
for event, trace in ("one", ""), ("two", "Traceback (most recent call last):\\n  File x\\nValueError: odd"):
    print(json.dumps({"event": event, "level": "warning"} | ({"exception": trace} if trace else {})), flush=True)
trace = "Traceback (most recent call last):\\n"
cause = "\\nThe above exception was the direct cause of the following exception:\\n\\n"
print(f"{trace}KeyError: 'z'\\n{cause}{trace}  File y\\nOSError: gone\\nstarted", flush=True)
import time; time.sleep(60)
"""


def prepare() -> None:
    """Let Ctrl-C end background tests; a session's leader has the terminal, and hears of its end."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if os.getsid(0) == os.getpid():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def start(folder: Path, output: int, *, new_session: bool = False, **environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "scripts.up", "--app-root", str(folder), "start"],
        env=os.environ | {"CARREL_DATA_DIR": str(folder), "PYTHONPATH": str(ROOT)} | environment,
        stdin=output,
        stdout=output,
        stderr=output,
        preexec_fn=prepare,  # noqa: PLW1509 - it takes no lock
        start_new_session=new_session,
    )


def left(folder: Path) -> list[str]:
    """Return the command lines of processes that were started in the folder and run."""
    found: list[str] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("CARREL_DATA_DIR") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found


@pytest.mark.slow
def test_process_that_needs_longer_to_stop_is_waited_for(tmp_path: Path) -> None:
    """What takes eight seconds to finish after Ctrl-C ends by itself and is not killed, and nothing has failed."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "Procfile").write_text(
        f"slow: exec {sys.executable} {tmp_path}/slow.py\nquick: sh -c 'echo Carrel is up.; sleep 60'\n"
    )
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = start(tmp_path, file.fileno())
    until(lambda: "started\n" in output.read_text() and "Carrel is up" in output.read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait(40) == 0
    assert "ended in its own time" in output.read_text()


ENDS: dict[str, Callable[["subprocess.Popen[bytes]", int], None]] = {
    "the terminal closes": lambda _, master: os.close(master),
    "the starter is killed": lambda process, _: process.kill(),
    "Ctrl-C": lambda process, _: process.send_signal(signal.SIGINT),
}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_running(tmp_path: Path, end: str) -> None:
    """Neither the parts nor what they left, which would keep ports and the data folder from the next start."""
    (tmp_path / "Procfile").write_text(f"part: {LEAVING}\n")
    master, terminal = pty.openpty()
    process = start(tmp_path, terminal, new_session=True)
    os.close(terminal)
    until(lambda: {"sleep 987", "sleep 988"} <= set(left(tmp_path)))
    ENDS[end](process, master)
    process.wait(20)
    until(lambda: not left(tmp_path))


def test_lines_are_for_people_on_a_terminal(tmp_path: Path) -> None:
    """One line for each event; a traceback is in the file that its line names; with DEBUG, it is shown."""
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "Procfile").write_text(f"part: {sys.executable} {tmp_path}/service.py\n")
    shown: dict[str, str] = {}
    for level in ("WARNING", "DEBUG"):
        master, terminal = pty.openpty()
        process = start(tmp_path, terminal, CARREL_LOG_LEVEL=level)
        os.close(terminal)
        shown[level] = ""
        while "started" not in shown[level]:
            shown[level] += os.read(master, 65536).decode()
        process.send_signal(signal.SIGTERM)
        with suppress(OSError):
            while os.read(master, 65536):
                pass
        process.wait(20)
        os.close(master)
    named = f"(details in {tmp_path}/make-up.log)"
    for line in ("warning: One\r\n", f"warning: Two (ValueError: odd) {named}\r\n", f"OSError: gone {named}\r\n"):
        assert line in shown["WARNING"]
    assert "Traceback" not in shown["WARNING"]
    assert shown["DEBUG"].count("Traceback") == 3
    kept = (tmp_path / "make-up.log").read_text()
    assert "File x" in kept
    assert "KeyError: 'z'" in kept


@pytest.mark.parametrize(
    ("command", "folder", "status", "words"),
    [
        ("sh -c 'exit 3'", "", 3, "second ended with status 3. Its lines above say why."),
        ("not-a-program", "", 127, "not-a-program can't be started: No such file or directory"),
        ("sleep 60", "Procfile", 1, "Procfile can't be used: File exists. Set CARREL_DATA_DIR in .env to another."),
    ],
)
def test_what_ends_a_start_is_named_and_ends_all(tmp_path, command, folder, status, words) -> None:
    (tmp_path / "Procfile").write_text(f"first: sleep 60\nsecond: {command}\n")
    with (tmp_path / "output").open("wb") as file:
        assert start(tmp_path, file.fileno(), CARREL_DATA_DIR=f"{tmp_path}/{folder}").wait(20) == status
    assert words in (tmp_path / "output").read_text()


def test_silence_is_broken_while_parts_start(tmp_path: Path) -> None:
    (tmp_path / "Procfile").write_text("service: sleep 60\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = start(tmp_path, file.fileno(), CARREL_PORT=str(port))
    until(lambda: "Not ready yet: service." in output.read_text())
    with socket.create_server(("127.0.0.1", port)):
        until(lambda: "service answers after" in output.read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
