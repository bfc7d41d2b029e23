"""The embedded PostgreSQL under its supervisor, without harm to living servers, and the end of `make up`."""

import asyncio
import fcntl
import os
import pty
import resource
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from service.operate.startup import open_runtime
from service.platform.postgres import server as embedded
from service.platform.postgres.host import DatabaseServerError
from service.platform.postgres.process import PID_FILE, UnknownServerError
from service.platform.postgres.server import EmbeddedPostgres
from tests.harness.cases import cases
from tests.harness.databases import PARAMETERS
from tests.harness.first_start import bring_database
from tests.harness.jobs import until
from tests.harness.processes import ServiceProcess, limiting
from tests.harness.services import settings_for_test

Start = Callable[..., ServiceProcess]
NO_DESCRIPTORS = 3
ORGANIZATION = "/api/v0/admin/organization/get"

without_descriptors = partial(limiting, resource.RLIMIT_NOFILE, NO_DESCRIPTORS)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    tmp_path.chmod(0o711)
    bring_database(tmp_path)
    server = EmbeddedPostgres(tmp_path, parameters=PARAMETERS)
    server.start()
    yield server
    server.stop()


def test_a_service_that_can_open_nothing_leaves_its_database_alone(service_process: Start) -> None:
    service = service_process()
    before = service.database_server().process()
    assert before is not None
    assert service.process is not None
    pid_file = service.data_dir / "postgres" / PID_FILE
    recorded = pid_file.read_text()
    with without_descriptors(service.process.pid):
        time.sleep(2.5)  # some looks of the supervisor, one a second
        assert pid_file.exists()
        assert pid_file.read_text() == recorded
    until(lambda: service.http.post(ORGANIZATION, json={}).status_code == 200)
    assert service.database_server().process() == before
    # Each look has failed alike, and it is said once a minute.
    assert service.log.read_text().count("background_work_failed") == 1
    # The supervisor is at work as before.
    service.kill_database()
    until(lambda: service.http.post(ORGANIZATION, json={}).status_code == 200)


def test_who_can_open_nothing_knows_of_no_server(server: EmbeddedPostgres, tmp_path: Path) -> None:
    """The answer is unknown, neither yes nor no; no server is started or removed because of it."""
    with without_descriptors(os.getpid()):
        for look in (server.process, server.start, server.restart):
            with pytest.raises(UnknownServerError, match="It is unknown whether"):
                look()
    assert (tmp_path / "postgres" / PID_FILE).exists()
    assert server.process() is not None


def test_another_clusters_server_is_not_ones_own(server, tmp_path, databases) -> None:
    pid_file = tmp_path / "postgres" / PID_FILE
    other = EmbeddedPostgres(databases.folder).process()
    assert other is not None
    for pid in (other.pid, os.getpid(), 2**40):
        recorded = pid_file.read_text()
        server.stop()
        pid_file.write_text("\n".join([str(pid), *recorded.splitlines()[1:]]))
        assert server.process() is None
        server.start()
        assert server.process() is not None
    assert other.is_running()


def test_an_emptied_process_file_is_no_proof(server: EmbeddedPostgres, tmp_path: Path) -> None:
    pid_file = tmp_path / "postgres" / PID_FILE
    living, recorded = server.process(), pid_file.read_text()
    assert living is not None
    pid_file.write_text("")
    with pytest.raises(UnknownServerError, match="still run"):
        server.start()
    assert pid_file.exists()
    assert living.is_running()
    pid_file.write_text(recorded)
    server.stop()
    pid_file.write_text("")
    server.start()
    assert server.process() is not None


def test_a_cluster_that_has_gone_is_not_made_anew(server: EmbeddedPostgres, tmp_path: Path) -> None:
    server.stop()
    (tmp_path / "postgres").rename(tmp_path / "elsewhere")
    with pytest.raises((DatabaseServerError, FileNotFoundError)):
        server.restart()
    assert not (tmp_path / "postgres").exists()


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "postgres").symlink_to(tmp_path / "unmounted" / "postgres")
    with pytest.raises(DatabaseServerError, match="Mount or restore"):
        EmbeddedPostgres(tmp_path)
    assert not (tmp_path / "unmounted").exists()


def test_a_first_start_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o711)
    (tmp_path / "postgres.0123abcd").mkdir()
    (tmp_path / "postgres.old").mkdir()
    monkeypatch.setattr(embedded, "SUPERUSER", "pg_refused")
    with pytest.raises(DatabaseServerError, match='superuser name "pg_refused" is disallowed'):
        EmbeddedPostgres(tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["postgres.old"]


def test_a_start_that_fails_behind_its_server_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o711)
    bring_database(tmp_path)
    monkeypatch.setattr(embedded, "SERVICE_ROLE", "pg_refused")
    started = open_runtime(settings_for_test(tmp_path, None))
    with pytest.raises(DatabaseServerError, match='role name "pg_refused" is reserved'):
        asyncio.run(AsyncExitStack().enter_async_context(started))
    assert EmbeddedPostgres(tmp_path).process() is None


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
def test_roots_cluster_lies_in_a_folder_only_root_may_enter(tmp_path: Path) -> None:
    """A private data folder contains the cluster; no permission is widened."""
    tmp_path.chmod(0o700)
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    server = EmbeddedPostgres(data_dir, parameters=PARAMETERS)
    try:
        server.start()
        process = server.process()
        assert process is not None
        assert process.uids().effective != 0
        assert Path(process.cwd()) == data_dir / "postgres"
        again = EmbeddedPostgres(data_dir)
        assert again.process() == process
        with again.connect("carrel") as connection:
            assert connection.execute("SELECT pg_reload_conf()").fetchone() == (True,)
        process.kill()
        until(lambda: server.process() is None)
        server.restart()
    finally:
        server.stop()
    assert server.process() is None
    assert tmp_path.stat().st_mode & 0o777 == 0o700


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
    found: list[str] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("CARREL_DATA_DIR") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found


@pytest.mark.slow
def test_process_that_needs_longer_to_stop_is_waited_for(tmp_path: Path) -> None:
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
    (tmp_path / "Procfile").write_text(f"part: {LEAVING}\n")
    master, terminal = pty.openpty()
    process = start(tmp_path, terminal, new_session=True)
    os.close(terminal)
    until(lambda: {"sleep 987", "sleep 988"} <= set(left(tmp_path)))
    ENDS[end](process, master)
    process.wait(20)
    until(lambda: not left(tmp_path))


def test_lines_are_for_people_on_a_terminal(tmp_path: Path) -> None:
    """Each event is a single line; a traceback is in the file named by its line, and shown with DEBUG."""
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


@pytest.mark.parametrize(("command", "folder", "status", "words"), cases("what_ends_a_start_is_named_and_ends_all"))
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
