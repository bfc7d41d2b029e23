"""The embedded PostgreSQL under its supervisor: nothing of a server that may live is touched, come what may."""

import asyncio
import os
import resource
import shutil
import time
from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from service.operate.startup import open_runtime
from service.platform.postgres import host as embedded_host
from service.platform.postgres import server as embedded
from service.platform.postgres.host import DatabaseServerError, warn_of_lost_clusters
from service.platform.postgres.process import PID_FILE, UnknownServerError
from service.platform.postgres.server import EmbeddedPostgres
from tests.harness.databases import PARAMETERS
from tests.harness.first_start import bring_database
from tests.harness.jobs import until
from tests.harness.processes import ServiceProcess
from tests.harness.services import settings_for_test

Start = Callable[..., ServiceProcess]
NO_DESCRIPTORS = 3
ORGANIZATION = "/api/v0/admin/organization/get"


@contextmanager
def without_descriptors(pid: int) -> Generator[None]:
    """Have a process open nothing more, as when all its descriptors are in use."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (NO_DESCRIPTORS, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    tmp_path.chmod(0o711)
    bring_database(tmp_path)
    server = EmbeddedPostgres(tmp_path, parameters=PARAMETERS)
    server.start()
    yield server
    server.stop()


def test_a_service_that_can_open_nothing_leaves_its_database_alone(service_process: Start) -> None:
    """Without a descriptor left, the server isn't taken for gone: it goes on, and so does the service afterwards."""
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
    """Whether it runs can't be told, which is neither yes nor no; nothing is started or removed upon it."""
    with without_descriptors(os.getpid()):
        for look in (server.process, server.start, server.restart):
            with pytest.raises(UnknownServerError, match="can't be told"):
                look()
    assert (tmp_path / "postgres" / PID_FILE).exists()
    assert server.process() is not None


def test_another_clusters_server_is_not_ones_own(server, tmp_path, databases) -> None:
    """A process id that is by now of another PostgreSQL, or of anything else, doesn't keep a server from starting."""
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
    """Where the file says nothing, a server that works in the folder is left alone; without one, it starts."""
    pid_file = tmp_path / "postgres" / PID_FILE
    living, recorded = server.process(), pid_file.read_text()
    assert living is not None
    pid_file.write_text("")
    with pytest.raises(UnknownServerError, match="still work"):
        server.start()
    assert pid_file.exists()
    assert living.is_running()
    pid_file.write_text(recorded)
    server.stop()
    pid_file.write_text("")
    server.start()
    assert server.process() is not None


def test_a_cluster_that_has_gone_is_not_made_anew(server: EmbeddedPostgres, tmp_path: Path) -> None:
    """A disk that was taken away under a running service isn't replaced by an empty database."""
    server.stop()
    (tmp_path / "postgres").rename(tmp_path / "elsewhere")
    with pytest.raises((DatabaseServerError, FileNotFoundError)):
        server.restart()
    assert not (tmp_path / "postgres").exists()


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    """A link to a disk that isn't mounted gets no empty database in its place; it is said what to do."""
    (tmp_path / "postgres").symlink_to(tmp_path / "unmounted" / "postgres")
    with pytest.raises(DatabaseServerError, match="Mount or restore"):
        EmbeddedPostgres(tmp_path)
    assert not (tmp_path / "unmounted").exists()


def test_a_first_start_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun to become a cluster goes, with what earlier starts left of theirs; what is an operator's stays."""
    tmp_path.chmod(0o711)
    (tmp_path / "postgres.0123abcd").mkdir()
    (tmp_path / "postgres.old").mkdir()
    monkeypatch.setattr(embedded, "SUPERUSER", "pg_refused")
    with pytest.raises(DatabaseServerError, match='superuser name "pg_refused" is disallowed'):
        EmbeddedPostgres(tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["postgres.old"]


def test_a_start_that_fails_behind_its_server_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts the service is told why in words, and no PostgreSQL runs on without it."""
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
    """A private data folder has its cluster in it, which goes with the folder; no permission is widened."""
    tmp_path.chmod(0o700)
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    clusters = embedded_host.CLUSTERS_FOLDER
    before = list(clusters.glob("*"))
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
    assert list(clusters.glob("*")) == before


def test_a_lost_cluster_is_told_of_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier version's cluster whose data folder is gone is named with the command for it; others are not."""
    clusters, data, other = tmp_path / "clusters", tmp_path / "disk" / "data", tmp_path / "other"
    cluster, unknown = clusters / "1" / "postgres", clusters / "2" / "postgres"
    monkeypatch.setattr(embedded_host, "CLUSTERS_FOLDER", clusters)
    for folder in (cluster, unknown, data, other):
        folder.mkdir(parents=True)
    (data / "postgres").symlink_to(cluster)

    def warnings(data_dir: Path) -> list[MutableMapping[str, Any]]:
        with capture_logs() as logs:
            warn_of_lost_clusters(data_dir)
        return logs

    assert warnings(data) == warnings(other) == []
    shutil.rmtree(data)
    (cluster / PID_FILE).touch()
    assert warnings(other) == []
    (cluster / PID_FILE).unlink()
    [warning] = warnings(other)
    assert warning["missing"] == [str(data / "postgres")]
    assert "Mount the data folder's disk again" in warning["hint"]
    assert warning["hint"].endswith(f"rm -r {cluster.parent}")
    data.parent.rmdir()
    assert warnings(other) == []
    assert cluster.exists()
