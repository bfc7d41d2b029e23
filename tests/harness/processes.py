"""`python -m service` as a separate process, on an embedded PostgreSQL and a temporary folder."""

import atexit
import itertools
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import httpx
import psutil
from sqlalchemy.engine import URL

from service.platform.database import driver_url
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres
from tests.harness.cases import script
from tests.harness.first_start import CLUSTER, bring_database, bring_model, folder_of_run
from tests.harness.forking import ForkedProgram, ForkServer
from tests.harness.jobs import until
from tests.harness.logs import read_log
from tests.harness.services import ADMIN_EMAIL, ADMIN_PASSWORD, API_KEY, AUTHORITIES

READY_SECONDS = 240
KILLED_SECONDS = 60
# Within which workers notice that what started them was killed, and end, while other tests keep every core busy.
LET_GO_SECONDS = 10
COMMAND_SECONDS = 120
# What Python may be told to run for a program to be forked; with other switches first, it is started anew.
FORKED = ("-m", "-c")
# Runs the command that its further arguments are, and kills itself where it would call the function named first.
KILLED_AT = script("processes_killed_at.txt")


class ByTurns(httpx.BaseTransport):
    """Sends each request by the next of several kept connections."""

    def __init__(self, number: int) -> None:
        stays = httpx.Limits(keepalive_expiry=None)
        self._transports = [httpx.HTTPTransport(verify=AUTHORITIES, limits=stays) for _ in range(number)]
        self._turns = itertools.cycle(self._transports)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return next(self._turns).handle_request(request)

    def close(self) -> None:
        for transport in self._transports:
            transport.close()


class ServiceProcess:
    """A started process; `start` again keeps the folder. Unless `from_nothing`, the first start finds database and
    model made (tests.harness.first_start) and modules imported. Forks share a hash seed, like a service's workers;
    `from_nothing` has a new seed at each start."""

    program: tuple[str, ...] = ("-m", "service")
    folder: Path | None = None

    def __init__(self, *, from_nothing: bool = False, **environment: str) -> None:
        self._from_nothing = from_nothing
        self.data_dir = Path(tempfile.mkdtemp(prefix="carrel-process-"))
        self.data_dir.chmod(0o711)
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self._environment = environment
        self.process: subprocess.Popen[bytes] | ForkedProgram | None = None
        self._starts_before = 0
        self.log = self.data_dir / "test.log"
        self.http = httpx.Client(base_url=self.base_url, headers={"Authorization": f"Bearer {API_KEY}"}, timeout=60)

    def call(self, operation: str, body: object = None, *, api_key: str | None = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {api_key or API_KEY}"}
        return self.http.post(f"/api/v0/{operation}", json=body if body is not None else {}, headers=headers)

    def ask_by_turns(self) -> None:
        workers = self.parts("worker")
        headers = {"Authorization": f"Bearer {API_KEY}"}
        while not all(map(_connections_to, workers)):
            self.http.close()
            turns = ByTurns(len(workers))
            self.http = httpx.Client(base_url=self.base_url, headers=headers, timeout=60, transport=turns)
            for _ in workers:
                self.http.get("/healthz")

    def command(
        self, *arguments: str, typed: str = "", killed_at: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return run_command(self._variables(), *arguments, typed=typed, killed_at=killed_at)

    def start(self, *, wait: bool = True) -> float:
        if not self._from_nothing:
            self._bring_what_is_made()
        if self.process is not None:
            self._wait_until_let_go()
        began = time.monotonic()
        self.log.touch()
        self._starts_before = len(self.events("listening"))
        with self.log.open("ab") as log:
            if self._from_nothing or self.program[0] not in FORKED:
                self.process = subprocess.Popen(
                    [sys.executable, *self.program], cwd=self.folder, env=self._variables(), stderr=log
                )
            else:
                streams = [0, 1, log.fileno()]
                self.process = fork_server().start(*self.program, environment=self._variables(), streams=streams)
        if wait:
            self.wait_ready()
        return time.monotonic() - began

    def _wait_until_let_go(self) -> None:
        deadline = time.monotonic() + LET_GO_SECONDS
        while True:
            try:
                socket.create_server(("127.0.0.1", self.port)).close()
            except OSError:
                still = f"workers listen {LET_GO_SECONDS} s after what started them was killed"
                assert time.monotonic() < deadline, f"{still}:\n{read_log(self.log)}"
                time.sleep(0.02)
            else:
                return

    def _bring_what_is_made(self) -> None:
        bring_model(self.data_dir)
        if "CARREL_DATABASE_URL" not in self._environment and not (self.data_dir / CLUSTER).exists():
            bring_database(self.data_dir)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, f"the service ended:\n{read_log(self.log)}"
            try:
                if self.http.get("/readyz").status_code == 200 and len(self.events("listening")) > self._starts_before:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"not ready after {READY_SECONDS} s:\n{read_log(self.log)}")

    def signal(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def parts(self, name: str) -> list[psutil.Process]:
        """Return the service's processes with this name (`worker-0`, `embedding`) or prefix."""
        assert self.process is not None
        living = {child.pid: child for child in psutil.Process(self.process.pid).children()}
        started = [event for event in self.events("process_started") if str(event["process"]).startswith(name)]
        return [living[int(str(event["pid"]))] for event in started if event["pid"] in living]

    def events(self, name: str) -> list[dict[str, object]]:
        whole, _, _ = self.log.read_text().rpartition("\n")  # the last line may be half written
        lines = [line for line in whole.splitlines() if line.startswith("{")]
        return [event for event in map(json.loads, lines) if event.get("event") == name]

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def kill_database(self) -> None:
        """Kill PostgreSQL, which the service restarts; call `wait_ready` before reading the database directly."""
        database = self.database_server().process()
        assert database is not None
        killed = [database, *database.children()]
        for one in killed:
            with suppress(psutil.NoSuchProcess):  # it went with the first
                one.kill()
        _, alive = psutil.wait_procs(killed, timeout=KILLED_SECONDS)
        assert not alive, alive

    def database_server(self) -> EmbeddedPostgres:
        return EmbeddedPostgres(self.data_dir)

    def owner_url(self) -> URL:
        address = self._environment.get("CARREL_DATABASE_URL")
        return self.database_server().url(user=SUPERUSER) if address is None else driver_url(address)

    def close(self) -> None:
        self.http.close()
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if (self.data_dir / CLUSTER).exists():
            self.database_server().stop()
        shutil.rmtree(self.data_dir)

    def _variables(self) -> dict[str, str]:
        kept = environment_without_settings()
        own: dict = {
            "CARREL_DATA_DIR": str(self.data_dir),
            "CARREL_PORT": str(self.port),
            "CARREL_BOOTSTRAP_ADMIN_EMAIL": ADMIN_EMAIL,
            "CARREL_BOOTSTRAP_ADMIN_PASSWORD": ADMIN_PASSWORD,
            "CARREL_BOOTSTRAP_API_KEY": API_KEY,
            "CARREL_EXTRACTION_WORKERS": "1",
            "CARREL_EMBEDDINGS_PRECISION": "int8",
            "CARREL_WORKERS": "2",
        }
        return kept | own | self._environment


@cache
def fork_server() -> ForkServer:
    # Which metrics there are is decided where they are imported: those that several processes add to.
    metrics = folder_of_run() / f"metrics-{os.getpid()}"
    metrics.mkdir()
    environment = environment_without_settings() | {"PROMETHEUS_MULTIPROC_DIR": str(metrics)}
    server = ForkServer("service.supervisor", "service.operate.commands", environment=environment)
    atexit.register(server.close)
    return server


def environment_without_settings(*others: str) -> dict[str, str]:
    """Return the environment without variables that begin with CARREL_ or one of the `others`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("CARREL_", *others))}


@contextmanager
def limiting(of: int, most: int, pid: int = 0) -> Generator[None]:
    """Limit a resource of a process, by default of this process, by the system, for any user of the tests."""
    soft, hard = resource.prlimit(pid, of)
    resource.prlimit(pid, of, (most, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, of, (soft, hard))


def wait_until_answering(url: str, process: "subprocess.Popen[bytes]", *, output: Path) -> None:
    """Wait until a started server answers; a process that ends instead fails the test with its output."""

    def is_answering() -> bool:
        assert process.poll() is None, read_log(output)
        with suppress(httpx.TransportError):
            return httpx.get(url, timeout=2).is_success
        return False

    until(is_answering, READY_SECONDS, told=lambda: read_log(output), pause=0.1)


def run_command(
    environment: dict[str, str], *arguments: str, typed: str = "", killed_at: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run `python -m service ARGUMENTS` to the end, or kill -9 it at the call `killed_at` ("module:name")."""
    start = ["-m", "service"] if killed_at is None else ["-c", KILLED_AT, killed_at]
    ended = fork_server().run(*start, *arguments, environment=environment, typed=typed, timeout=COMMAND_SECONDS)
    assert (ended.returncode == -signal.SIGKILL) == (killed_at is not None), ended
    return ended


def _connections_to(worker: psutil.Process) -> int:
    own = worker.net_connections("tcp4")
    ports = {each.laddr.port for each in own if each.status == psutil.CONN_LISTEN}
    return sum(each.laddr.port in ports for each in own if each.status == psutil.CONN_ESTABLISHED)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
