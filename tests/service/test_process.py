"""`python -m service` as a process: starting, stopping, being killed, and losing its database."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager

import httpx
import pytest

from service.migrations import HEAD
from service.platform.postgres.host import DatabaseServerError
from service.platform.postgres.server import DATABASE, EmbeddedPostgres, remove_cluster
from service.platform.version import VERSION
from tests.harness.cases import cases, script
from tests.harness.first_start import bring_database
from tests.harness.jobs import until
from tests.harness.processes import ServiceProcess, environment_without_settings, run_command
from tests.harness.services import ADMIN_PASSWORD, API_KEY
from tests.service.conversations import in_background

Start = Callable[..., ServiceProcess]
# Orphans become its children, as they do of a container's first process; it takes no child's status.
ADOPTING = script("process_adopting.txt")
ORGANIZATION = "/api/v0/admin/organization/get"
SECONDS = 30


def rename(service: ServiceProcess, name: str) -> None:
    service.http.post("/api/v0/admin/organization/update", json={"name": name}).raise_for_status()


def name(service: ServiceProcess) -> str:
    return str(service.http.post(ORGANIZATION, json={}).raise_for_status().json()["name"])


def run(**settings: str) -> "subprocess.CompletedProcess[str]":
    return run_command(environment_without_settings() | settings)


@pytest.fixture(scope="module")
def standing() -> Iterator[ServiceProcess]:
    """A shared service left running by every test; use `running`."""
    process = ServiceProcess()
    yield process
    process.close()


@pytest.fixture
def running(standing: ServiceProcess) -> ServiceProcess:
    """The shared service, restarted if a test failed between stop and start."""
    if standing.process is None or standing.process.poll() is not None:
        standing.start()
    standing.wait_ready()
    return standing


@contextmanager
def waiting(service: ServiceProcess, path: str, body: dict[str, str]) -> Iterator["Future[httpx.Response]"]:
    lock = "LOCK TABLE organizations IN ACCESS EXCLUSIVE MODE"
    # Not what the service does beside: it is the request that looks for the caller.
    blocked = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%api_keys%'"
    database = service.database_server()
    with closing(database.connect("carrel")) as holding, closing(database.connect("carrel")) as watching:
        holding.execute("BEGIN")
        holding.execute(lock)
        request = in_background(lambda: service.http.post(path, json=body))
        until(lambda: watching.execute(blocked).rowcount > 0)
        yield request


def test_it_stops_cleanly_and_keeps_everything(service_process: Start) -> None:
    """SIGTERM: status 0, database ended; a restart has all data; no secret is logged. The first start has no data."""
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


def test_in_flight_requests_finish(running: ServiceProcess) -> None:
    assert running.process is not None
    stops = len(running.events("Shutting down"))
    with waiting(running, "/api/v0/admin/organization/update", {"name": "In flight"}) as request:
        running.signal(signal.SIGTERM)
        until(lambda: len(running.events("Shutting down")) > stops)
        assert running.process.poll() is None
    assert request.result(SECONDS).status_code == 200
    assert running.process.wait(SECONDS) == 0
    running.start()
    assert name(running) == "In flight"


def test_what_was_acknowledged_outlives_kills(running: ServiceProcess) -> None:
    rename(running, "Acknowledged")
    running.kill()
    assert running.database_server().process() is not None
    uploads = running.data_dir / "uploads"
    uploads.mkdir(exist_ok=True)
    (uploads / "upload-half").write_bytes(b"half a file")
    running.start()
    assert name(running) == "Acknowledged"
    assert list(uploads.iterdir()) == []
    rename(running, "Acknowledged again")
    database = running.database_server().process()
    assert database is not None
    running.kill()
    database.kill()
    running.start()
    assert name(running) == "Acknowledged again"


def test_a_second_service_on_the_same_folder_is_refused(running: ServiceProcess) -> None:
    assert running.process is not None
    second = run(CARREL_DATA_DIR=str(running.data_dir), CARREL_PORT="0")
    assert second.returncode == 1
    assert f"Another Carrel service (process {running.process.pid})" in second.stderr
    assert "CARREL_DATA_DIR" in second.stderr
    assert "Traceback" not in second.stderr
    assert name(running)


def test_a_taken_port_is_named(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run(CARREL_DATA_DIR=str(tmp_path), CARREL_PORT=port)
    assert ended.returncode == 1
    assert f"127.0.0.1:{port}. Change CARREL_HOST or CARREL_PORT" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_database_that_goes_away_is_503_until_it_is_back(running: ServiceProcess) -> None:
    """While PostgreSQL is away every answer is 503 with Retry-After. Connections' processes are killed too, as they
    still answer; the restarting process is delayed until the first request."""
    running.signal(signal.SIGSTOP)
    running.kill_database()
    statuses: set[int] = set()

    def recovered() -> bool:
        response = running.http.post(ORGANIZATION, json={})
        statuses.add(response.status_code)
        if response.status_code == 503:
            assert int(response.headers["Retry-After"]) >= 1
            assert response.json()["error"]["code"] == "database_unavailable"
        return response.status_code == 200

    try:
        assert not recovered()
    finally:
        running.signal(signal.SIGCONT)
    until(recovered)
    assert statuses == {200, 503}


def test_a_database_restarted_mid_request_is_503(running: ServiceProcess) -> None:
    database = running.database_server()
    with waiting(running, ORGANIZATION, {}) as request:
        database.stop()
        database.start()
    assert request.result(SECONDS).status_code in {200, 503}
    assert name(running)
    assert running.http.get("/readyz").status_code == 200


@pytest.mark.parametrize("wrong", cases("wrong_settings"), ids=["each", "address", "no_server"])
def test_wrong_settings_are_named(tmp_path, wrong: dict[str, str]) -> None:
    ended = run(CARREL_DATA_DIR=str(tmp_path), **wrong)
    assert ended.returncode == 1
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert {line.partition(" ")[0].rstrip(":") for line in lines} == wrong.keys()
    assert ("CARREL_SECRET_KEY: must have at least 32 characters" in lines) == ("CARREL_SECRET_KEY" in wrong)
    for hidden in ("Value error", "secret-1", "Traceback"):
        assert hidden not in ended.stderr


@pytest.mark.parametrize("name", ['$HOME`id`" é', "a,\nb"])
def test_a_data_folder_may_have_any_name(tmp_path, name: str) -> None:
    """No shell parses the name; clients that would split the name get a different folder for the socket."""
    tmp_path.chmod(0o711)
    data = tmp_path / name
    data.mkdir(mode=0o711)
    bring_database(data)
    server = EmbeddedPostgres(data)
    server.start()
    with closing(server.connect(DATABASE)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    server.stop()


def test_a_user_without_an_entry_is_told(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(DatabaseServerError, match=r"no user with the id 54321.*/etc/passwd"):
        EmbeddedPostgres(tmp_path)


def test_a_newer_versions_database_is_refused_in_a_sentence(databases, tmp_path) -> None:
    name = databases.clone()
    with databases.connect(name) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999', usable_from = '9998'")
    address = databases.owner_url(name).set(drivername="postgresql").render_as_string(hide_password=False)
    folder = str(tmp_path)
    ended = run(CARREL_DATABASE_URL=address, CARREL_DATA_DIR=folder, CARREL_PORT="0", CARREL_SECRET_KEY="k" * 32)
    databases.drop(name)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    [said] = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert f"its schema is 9999, and this release ({VERSION}) knows schemas up to {HEAD}" in said
    assert "Start the newer release, or restore a backup" in said


def test_a_killed_database_comes_back_though_nobody_took_its_status(tmp_path) -> None:
    """In a container the service is the first process, and a killed database becomes a zombie."""
    tmp_path.chmod(0o711)
    command = [sys.executable, "-c", ADOPTING, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    remove_cluster(tmp_path)
    assert ended.returncode == 0, ended.stderr
