"""`python -m service` as a process: starting, stopping, being killed, and its database going away under it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from service.migrations import HEAD
from service.platform.postgres.server import remove_cluster
from service.platform.version import VERSION
from tests.harness.databases import TestDatabases
from tests.harness.processes import ServiceProcess
from tests.harness.services import ADMIN_PASSWORD, API_KEY

Start = Callable[..., ServiceProcess]
# Orphans become its children, as they do of a container's first process; it takes no child's status.
ADOPTING = """
import ctypes, sys
from pathlib import Path
from service.platform.postgres.server import EmbeddedPostgres

PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
killed = server.process()
killed.kill()
while killed.status() != "zombie":
    pass
server.start()
assert server.process() not in (None, killed)
server.stop()
"""
ORGANIZATION = "/api/v0/admin/organization/get"
SECONDS = 30


def rename(service: ServiceProcess, name: str) -> None:
    """Write something that must not be lost."""
    service.http.post("/api/v0/admin/organization/update", json={"name": name}).raise_for_status()


def name(service: ServiceProcess) -> str:
    """Read it back."""
    return str(service.http.post(ORGANIZATION, json={}).raise_for_status().json()["name"])


def eventually(claim: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + SECONDS
    while not claim():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


def run(environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a service that is expected to end by itself."""
    command = [sys.executable, "-m", "service"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_it_stops_cleanly_and_keeps_everything(service_process: Start) -> None:
    """SIGTERM ends the service with status 0, and its database; started again, all is there; no secret was logged.

    It begins with nothing, and makes the database and the model's graph that other tests find made.
    """
    service = service_process(from_nothing=True, CARREL_LOG_LEVEL="DEBUG")
    rename(service, "Kept")
    assert service.database_server().process() is not None
    assert service.stop() == 0
    assert service.database_server().process() is None
    assert not (service.data_dir / "postgres" / "postmaster.pid").exists()
    service.start()
    assert name(service) == "Kept"
    service.http.get("/healthz", headers={"X-Request-Id": API_KEY, "Authorization": f"Bearer {API_KEY}"})
    log = service.log.read_text() + (service.data_dir / "postgres" / "log").read_text()
    assert API_KEY not in log
    assert ADMIN_PASSWORD not in log
    assert '"event": "request"' in log


def test_uploads_that_a_crash_cut_off_are_cleared_away(service_process: Start) -> None:
    """What a killed service had half received is gone after the next start, and so is nothing else."""
    service = service_process()
    service.kill()
    uploads = service.data_dir / "uploads"
    uploads.mkdir(exist_ok=True)
    (uploads / "upload-half").write_bytes(b"half a file")
    service.start()
    assert list(uploads.iterdir()) == []
    assert name(service)


def test_in_flight_requests_finish(service_process: Start) -> None:
    """A request that is being answered when SIGTERM comes is answered, and what it wrote is there."""
    service = service_process()
    database = service.database_server()
    answers: list[httpx.Response] = []
    body = {"name": "In flight"}
    with database.connect("carrel") as connection, connection.transaction():
        connection.execute("LOCK TABLE organizations IN ACCESS EXCLUSIVE MODE")
        send = lambda: answers.append(service.http.post("/api/v0/admin/organization/update", json=body))  # noqa: E731
        request = threading.Thread(target=send)
        request.start()
        time.sleep(1)
        service.signal(signal.SIGTERM)
        time.sleep(1)
        assert service.process is not None
        assert service.process.poll() is None
    request.join(SECONDS)
    assert answers[0].status_code == 200
    assert service.process.wait(SECONDS) == 0
    service.start()
    assert name(service) == "In flight"


def test_a_killed_service_comes_back(service_process: Start) -> None:
    """After kill -9 the next start finds the database that still runs, and everything that was acknowledged."""
    service = service_process()
    rename(service, "Acknowledged")
    service.kill()
    assert service.database_server().process() is not None
    service.start()
    assert name(service) == "Acknowledged"
    assert service.stop() == 0
    assert service.database_server().process() is None


def test_a_service_and_database_killed_together_come_back(service_process: Start) -> None:
    """As after a power cut: the database recovers what was acknowledged."""
    service = service_process()
    rename(service, "Acknowledged")
    database = service.database_server().process()
    assert database is not None
    service.kill()
    database.kill()
    service.start()
    assert name(service) == "Acknowledged"


def test_a_second_service_on_the_same_folder_is_refused(service_process: Start) -> None:
    """It says who is there and what to do, and harms neither the first service nor its database."""
    service = service_process()
    environment = os.environ | {"CARREL_DATA_DIR": str(service.data_dir), "CARREL_PORT": "0"}
    second = run(environment)
    assert second.returncode == 1
    assert f"Another Carrel service (process {service.process.pid})" in second.stderr  # type: ignore[union-attr]
    assert "CARREL_DATA_DIR" in second.stderr
    assert "Traceback" not in second.stderr
    assert name(service) == "example.test"


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    """It says which address, and which settings name another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run(os.environ | {"CARREL_DATA_DIR": str(tmp_path), "CARREL_PORT": port})
    assert ended.returncode == 1
    assert f"127.0.0.1:{port}. Set CARREL_HOST and CARREL_PORT" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_database_that_goes_away_is_503_until_it_is_back(service_process: Start) -> None:
    """While PostgreSQL is away every answer is 503 with Retry-After; then the service recovers, whoever restarts it.

    Its connections' processes are killed with it: one that is alone answers on until it notices.
    """
    service = service_process()
    assert name(service) == "example.test"
    service.kill_database()
    statuses: set[int] = set()

    def recovered() -> bool:
        response = service.http.post(ORGANIZATION, json={})
        statuses.add(response.status_code)
        if response.status_code == 503:
            assert int(response.headers["Retry-After"]) >= 1
            assert response.json()["error"]["code"] == "database_unavailable"
        return response.status_code == 200

    assert not recovered()
    eventually(recovered)
    assert statuses == {200, 503}


def test_a_database_restarted_mid_request_is_503(service_process: Start) -> None:
    """The request that was waiting for the database gets 503; the next ones are served on new connections."""
    service = service_process()
    database = service.database_server()
    answers: list[int] = []
    connection = database.connect("carrel")
    connection.execute("BEGIN")
    connection.execute("LOCK TABLE organizations IN ACCESS EXCLUSIVE MODE")
    request = threading.Thread(target=lambda: answers.append(service.http.post(ORGANIZATION, json={}).status_code))
    request.start()
    time.sleep(1)
    database.stop()
    database.start()
    connection.close()
    request.join(SECONDS)
    assert answers == [503]
    assert name(service) == "example.test"
    assert service.http.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CARREL_PORT", "secret-1"), ("CARREL_DATABASE_URL", "mysql://u:secret-1@h/n"), ("CARREL_LOG_LEVEL", "secret-1")],
)
def test_a_wrong_setting_is_named(tmp_path: Path, variable: str, value: str) -> None:
    """It ends with status 1, one line that names the variable, and without repeating the value."""
    environment = os.environ | {"CARREL_DATA_DIR": str(tmp_path), "CARREL_PORT": "0", variable: value}
    ended = run(environment)
    assert ended.returncode == 1
    assert variable in ended.stderr
    assert "Value error" not in ended.stderr
    assert "secret-1" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_newer_versions_database_is_refused_in_a_sentence(databases: TestDatabases, tmp_path: Path) -> None:
    """An older service on it ends with status 1 and a sentence beside its log: both schemas, and what to do."""
    name = databases.clone()
    with databases.connect(name) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999', usable_from = '9998'")
    address = databases.owner_url(name).set(drivername="postgresql").render_as_string(hide_password=False)
    variables = {"CARREL_DATABASE_URL": address, "CARREL_DATA_DIR": str(tmp_path), "CARREL_PORT": "0"}
    ended = run(os.environ | variables | {"CARREL_SECRET_KEY": "k" * 32})
    databases.drop(name)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    [said] = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert f"its schema is 9999, and this release ({VERSION}) knows schemas up to {HEAD}" in said
    assert "Start the newer release again, or restore a backup" in said


def test_a_key_that_is_too_short_is_measured_in_characters(tmp_path: Path) -> None:
    """It is said what a key needs, in the words of who sets it."""
    ended = run(os.environ | {"CARREL_DATA_DIR": str(tmp_path), "CARREL_SECRET_KEY": "short"})
    assert (ended.returncode, ended.stderr) == (1, "CARREL_SECRET_KEY: must have at least 32 characters\n")


def test_a_killed_database_comes_back_though_nobody_took_its_status(tmp_path: Path) -> None:
    """Where the service is a container's first process, a database that was killed is its zombie, and no server."""
    tmp_path.chmod(0o711)
    command = [sys.executable, "-c", ADOPTING, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    remove_cluster(tmp_path)
    assert ended.returncode == 0, ended.stderr
