"""Jobs survive faults of their process and database: kill -9, a stop, a freeze, a killed PostgreSQL."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import psutil
import pytest
from sqlalchemy import URL

from service.platform.database import Database
from service.runtime.jobs.models import Task
from service.runtime.jobs.queue import Jobs
from tests.harness import jobs
from tests.harness.cases import script
from tests.harness.databases import TestDatabases, connect
from tests.harness.loops import LoopThread
from tests.harness.processes import ServiceProcess

# The service, with one more task on the agents' queue: it writes down which process begins a thing, waits for a file
# `open`, and writes down that it ended. A worker is taken for dead after so many seconds without a sign of life.
SERVICE_WITH_TASK = script("jobs_killed_task.txt")


async def _elsewhere(*_: object, **__: object) -> None:
    raise AssertionError


TASK = Task("tests.work", _elsewhere)
# Within which a worker shows life, however busy the machine is; and what it misses when it has ended.
NEVER_STALLED, STALLED = 3600.0, 4.0
# Within which a job is done, however busy the machine is.
SECONDS = 240


class Deployment:
    """Services with the task above, sharing a database and a folder, and the task's records."""

    def __init__(self, folder: Path, loop: LoopThread) -> None:
        self.folder = folder
        self.processes: list[ServiceProcess] = []
        self._loop = loop

    def prepare(self, *, stalled: float = NEVER_STALLED, **environment: str) -> ServiceProcess:
        process = ServiceProcess(CARREL_WORKERS="1", **environment)
        process.program = ("-c", SERVICE_WITH_TASK, str(self.folder), str(stalled))
        self.processes.append(process)
        return process

    def start(self, **options) -> ServiceProcess:
        process = self.prepare(**options)
        process.start()
        return process

    def open(self) -> None:
        (self.folder / "open").touch()

    def lines(self, name: str) -> list[tuple[str, int]]:
        path = self.folder / name
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(thing, int(pid)) for thing, pid in rows]

    def things(self, name: str) -> list[str]:
        return [thing for thing, _ in self.lines(name)]

    def enqueue(self, url: URL, *, count: int = 1) -> list[str]:
        with connect(url.set(username="postgres")) as connection:
            row = connection.execute("SELECT organization_id FROM organizations").fetchone()
        assert row is not None
        things = [uuid4() for _ in range(count)]
        self._loop.run(_enqueue(url, row[0], things))
        return [str(thing) for thing in things]

    def close(self) -> None:
        for process in self.processes:
            if process.process is not None and process.process.poll() is None:
                for worker in process.parts("worker"):
                    worker.resume()
            process.close()


async def _enqueue(url: URL, organization_id: UUID, things: list[UUID]) -> None:
    database = Database(url)
    try:
        async with database.transaction(organization_id) as connection:
            for thing_id in things:
                await Jobs().enqueue(connection, TASK, organization_id=organization_id, thing_id=thing_id)
    finally:
        await database.close()


@pytest.fixture
def site(tmp_path: Path, harness_loop: LoopThread) -> Iterator[Deployment]:
    site = Deployment(tmp_path, harness_loop)
    yield site
    site.close()


@pytest.fixture
def outside(databases: TestDatabases) -> Iterator[URL]:
    """A database outside the services, shared by two of them."""
    name = databases.empty()
    yield databases.owner_url(name)
    databases.drop(name)


until = partial(jobs.until, seconds=SECONDS)


def queued(url: URL) -> int:
    with connect(url.set(username="postgres")) as connection:
        row = connection.execute("SELECT count(*) FROM procrastinate_jobs").fetchone()
    assert row is not None
    return int(row[0])


def replica(site: Deployment, url: URL, **environment: str) -> ServiceProcess:
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return site.start(stalled=10.0, CARREL_DATABASE_URL=address, CARREL_SECRET_KEY="k" * 32, **environment)


def pid(process: ServiceProcess) -> int:
    return process.parts("worker")[0].pid


def kill_service(process: ServiceProcess) -> None:
    """Kill only the service; wait until the worker, able to continue the job, has ended."""
    workers = process.parts("worker")
    process.kill()
    _, alive = psutil.wait_procs(workers, timeout=SECONDS)
    assert not alive


def kill_both(process: ServiceProcess) -> None:
    kill_service(process)
    process.kill_database()


@pytest.mark.parametrize("kill", [kill_service, pytest.param(kill_both, marks=pytest.mark.long)])
def test_a_job_whose_process_was_killed_is_done_after_the_next_start(site, kill) -> None:
    process = site.start(CARREL_AGENT_WORKERS="1")
    url = process.database_server().url()
    things = site.enqueue(url, count=2)
    until(lambda: site.things("begun") == things[:1])
    kill(process)
    assert site.things("ended") == []
    site.open()
    process.start()
    until(lambda: site.things("ended") == things)
    until(lambda: not queued(url))
    assert site.things("begun") == [things[0], *things]


def test_a_stop_puts_a_job_back_for_the_next_start(site: Deployment) -> None:
    process = site.start()
    url = process.database_server().url()
    things = site.enqueue(url)
    until(lambda: site.things("begun") == things)
    assert process.stop() == 0
    assert "Traceback" not in process.log.read_text()
    site.open()
    process.start()
    until(lambda: site.things("ended") == things)
    until(lambda: not queued(url))
    assert site.things("begun") == things * 2


def test_the_worker_outlives_its_database(site: Deployment) -> None:
    process = site.start(stalled=STALLED)
    url = process.database_server().url()
    things = site.enqueue(url)
    until(lambda: site.things("begun") == things)
    process.kill_database()
    site.open()
    process.wait_ready()
    until(lambda: not queued(url))
    assert set(site.things("ended")) == set(things)
    process.kill_database()
    process.wait_ready()
    more = site.enqueue(url, count=3)
    until(lambda: set(site.things("ended")) == {*things, *more})
    until(lambda: not queued(url))
    assert process.stop() == 0


@pytest.mark.long
def test_another_replica_takes_over_from_one_that_was_killed(site: Deployment, outside: URL) -> None:
    dead = replica(site, outside)
    things = site.enqueue(outside)
    until(lambda: site.things("begun") == things)
    survivor = replica(site, outside)
    dead.kill()
    site.open()
    until(lambda: site.lines("ended") == [(things[0], pid(survivor))])
    until(lambda: not queued(outside))


@pytest.mark.long
def test_a_replica_that_froze_and_comes_back_does_no_harm(site: Deployment, outside: URL) -> None:
    frozen = replica(site, outside, CARREL_AGENT_WORKERS="1")
    things = site.enqueue(outside)
    until(lambda: site.things("begun") == things)
    frozen.parts("worker")[0].suspend()
    other = replica(site, outside, CARREL_AGENT_WORKERS="1")
    until(lambda: site.lines("begun")[1:] == [(things[0], pid(other))])
    site.open()
    until(lambda: site.lines("ended") == [(things[0], pid(other))])
    frozen.parts("worker")[0].resume()
    until(lambda: site.lines("ended")[1:] == [(things[0], pid(frozen))])
    assert other.stop() == 0
    more = site.enqueue(outside, count=3)
    until(lambda: {thing for thing, by in site.lines("ended")[2:] if by == pid(frozen)} == set(more))
    until(lambda: not queued(outside))


@pytest.mark.long
def test_a_restored_deployment_takes_up_what_waited(site: Deployment, tmp_path: Path) -> None:
    process = site.start(CARREL_AGENT_WORKERS="1")
    things = site.enqueue(process.database_server().url(), count=2)
    until(lambda: site.things("begun") == things[:1])
    assert process.command("backup", str(tmp_path / "carrel.tar.gz")).returncode == 0
    process.kill()
    restored = site.prepare()
    assert restored.command("restore", str(tmp_path / "carrel.tar.gz")).returncode == 0
    site.open()
    restored.start()
    until(lambda: sorted(site.lines("ended")) == sorted((thing, pid(restored)) for thing in things))
    until(lambda: not queued(restored.database_server().url()))
