"""Every long-running task of the service is restarted after any end."""

import ast
import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg.errors import ConnectionTimeout
from psycopg_pool import PoolTimeout
from sqlalchemy.exc import DataError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

import service as package
from service.domains.agents.conversations.jobs import expire_turns
from service.domains.oversight.audit_log.erasure import erase_before
from service.identity.queries import in_each_organization, organization_ids
from service.identity_server.interface import purge_tokens
from service.index.ingestion.sweeper import release_claims
from service.index.progress import Half
from service.main import JOBS
from service.platform.background import Background, _log_failure, for_each_organization, run_every
from service.platform.disk import FileSystem
from service.runtime import Runtime
from service.web.metrics import Metrics
from tests.harness.cases import cases
from tests.harness.documents import uploaded
from tests.harness.jobs import until
from tests.harness.parsing import parse_python
from tests.harness.services import RunningService
from tests.service.directory import another_organization

SECONDS = 60
WORKERS = {JOBS}
# Looks at disks, and never at the database.
DISKS = {"storage", "broken-off-uploads"}
# Where a task may be made that nobody starts again: it ends with the work that made it.
OWN_TASKS = cases("tasks_of_their_own")
ONE_OFF_WORK = {
    "domains/documents/rebuilds/service.py": "a rebuild's first step, found again by the next look",
    "operate/startup.py": "warming up, which the first file would do as well",
}


# Whether what runs is the work that a test has called, and not a task of the service.
in_hand: ContextVar[bool] = ContextVar("in_hand", default=False)


class Fatal(BaseException):
    """An exception not caught by `except Exception`."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> RunningService:
    """A service with a separate database: tests look at all tasks, workers and organizations."""
    monkeypatch.setattr("service.runtime.jobs.worker.RESTART_SECONDS", 0.05)
    return request.getfixturevalue("own_service")


def test_whatever_ends_a_task_it_is_started_again(harness_loop) -> None:
    starts: dict[str, int] = {}

    async def end(how: str) -> None:
        if how == "cancels itself":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        elif how == "is cancelled within":
            raise asyncio.CancelledError
        elif how != "returns":
            raise {"fails": ValueError, "is fatal": Fatal, "exits": SystemExit}[how](how)

    async def run(how: str) -> None:
        starts[how] = starts.get(how, 0) + 1
        if starts[how] == 1:
            await end(how)
            return
        await asyncio.sleep(SECONDS)

    ways = ["returns", "fails", "is fatal", "exits", "cancels itself", "is cancelled within"]

    async def keep() -> Background:
        background = Background()
        for how in ways:
            background.keep(how, lambda how=how: run(how))
            background.kept[how].pause_seconds = 0.01
        return background

    with capture_logs() as logs:
        background = harness_loop.run(keep())
        until(lambda: starts == dict.fromkeys(ways, 2))
    assert {log["task"] for log in logs if log["event"] == "background_task_ended"} == set(ways)
    assert {log["log_level"] for log in logs} == {"error"}
    assert {task.restarts for task in background.kept.values()} == {1}
    harness_loop.run(background.close())
    assert all(task.running is None or task.running.done() for task in background.kept.values())


def test_a_task_that_fails_on_and_on_rests_longer_and_longer(harness_loop) -> None:
    began: list[float] = []

    async def fail() -> None:
        began.append(time.monotonic())
        raise ValueError

    async def keep() -> Background:
        background = Background()
        background.keep("failing", fail)
        background.kept["failing"].pause_seconds = 0.1
        return background

    background = harness_loop.run(keep())
    until(lambda: len(began) == 3)
    harness_loop.run(background.close())
    assert began[1] - began[0] > 0.09
    assert began[2] - began[1] > 0.19


def test_failures_in_a_row_are_logged_once_a_minute(harness_loop) -> None:
    outcomes = deque([ValueError(), ValueError(), ValueError(), KeyError(), None, KeyError()])

    ended = asyncio.Event()

    async def work() -> None:
        if not outcomes:
            ended.set()
        elif (outcome := outcomes.popleft()) is not None:
            raise outcome

    async def run() -> None:
        keeping = asyncio.create_task(run_every(work, every=0, name="work"))
        await ended.wait()
        keeping.cancel()

    with capture_logs() as logs:
        harness_loop.run(run())
    assert [log["failures_in_a_row"] for log in logs] == [1, 4, 1]


@pytest.mark.parametrize(
    "error", [PoolTimeoutError("10 s"), ExceptionGroup("all", [PoolTimeout("10 s"), ConnectionTimeout("10 s")])]
)
def test_work_that_waits_too_long_is_late(harness_loop, error: Exception) -> None:
    async def fail() -> None:
        raise error

    with capture_logs() as logs:
        harness_loop.run(_log_failure(fail()))
    [line] = logs
    assert (line["event"], line["log_level"], "exc_info" in line) == ("background_work_late", "warning", False)


def test_work_for_an_organization_is_given_up_after_its_first_failure(harness_loop) -> None:
    broken, other = UUID(int=1), UUID(int=2)
    visited: list[UUID] = []

    async def visit(organization_id: UUID) -> None:
        visited.append(organization_id)
        if organization_id == broken:
            raise ValueError("broken")

    with capture_logs() as logs, pytest.raises(ExceptionGroup) as told:
        harness_loop.run(for_each_organization([broken, other, broken, other], visit))
    assert visited == [broken, other, other]
    assert [log["organization_id"] for log in logs if log["event"] == "organization_failed"] == [str(broken)]
    assert [type(each) for each in told.value.exceptions] == [ValueError]


def test_work_for_organizations_that_is_cancelled_ends(harness_loop) -> None:
    """Some drivers raise a different error when a connection is cut off during cancellation."""
    visited: list[UUID] = []

    async def visit(organization_id: UUID) -> None:
        visited.append(organization_id)
        try:
            await asyncio.sleep(SECONDS)
        except asyncio.CancelledError:
            raise ValueError("cut off") from None

    async def run() -> None:
        working = asyncio.create_task(for_each_organization([UUID(int=1), UUID(int=2)], visit))
        for _ in range(10):
            await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(ValueError, match="cut off"):
            await working

    harness_loop.run(run())
    assert visited == [UUID(int=1)]


HOUSEKEEPING: dict[str, Callable[[Runtime], Awaitable[object]]] = {
    "sign-in and tokens": lambda runtime: in_each_organization(runtime.database, partial(purge_tokens, runtime)),
    "abandoned turns": expire_turns,
    "old texts": lambda runtime: erase_before(runtime.database, moment=datetime.now(UTC)),
    "claims": lambda runtime: release_claims(runtime.indexer.database),
}


@pytest.mark.parametrize("work", HOUSEKEEPING.values(), ids=HOUSEKEEPING.keys())
def test_housekeeping_goes_on_after_an_organization_that_fails(work, service, monkeypatch) -> None:
    another_organization(service)
    runtime, done = service.runtime, list[UUID]()
    broken, other = service.run(organization_ids(runtime.database))

    @asynccontextmanager
    async def fail_for_one(
        transaction: Callable[..., Any], organization_id: UUID | None, **options: Any
    ) -> AsyncGenerator[AsyncConnection]:
        async with transaction(organization_id, **options) as connection:
            if in_hand.get() and organization_id == broken:
                await connection.exec_driver_sql("SELECT 1 / 0")
            yield connection
        if in_hand.get() and organization_id is not None:
            done.append(organization_id)

    for database in (runtime.database, runtime.indexer.database):
        monkeypatch.setattr(database, "transaction", partial(fail_for_one, database.transaction))

    async def keep_house() -> None:
        in_hand.set(True)
        with pytest.raises(ExceptionGroup, match="work for some organizations failed") as told:
            await work(runtime)
        assert [type(each) for each in told.value.exceptions] == [DataError]

    service.run(keep_house())
    assert set(done) == {other}


async def test_a_task_that_loses_a_cancellation_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """`asyncio.wait_for` of Python 3.11 can lose one; the service's end must not hang."""
    monkeypatch.setattr("service.platform.background.CANCELLED_AGAIN_SECONDS", 0.01)
    background, lost = Background(), list[str]()

    async def lose_the_first() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        lost.append("one")
        await asyncio.Event().wait()

    background.keep("losing", lose_the_first)
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await background.close()
    assert lost == ["one"]


@pytest.mark.slow
def test_every_task_of_a_service_works_again_after_it_was_cancelled(make_service, monkeypatch) -> None:
    service = make_service(text_retention_days=30)
    kept = service.runtime.background.kept
    until(lambda: kept.keys() >= WORKERS | DISKS)
    names = set(kept)
    indexing = {name for name in names if name.partition("-")[0] in set(Half)}
    assert len(indexing) == 5 * len(Half)
    until(lambda: len(worker_ids(service)) == len(WORKERS))
    before = worker_ids(service)
    at_work = record_work(service.runtime, monkeypatch)
    service.run(cancel([task.running for task in kept.values()]))
    until(lambda: at_work >= names - WORKERS - indexing)
    until(lambda: len(worker_ids(service) - before) == len(WORKERS))
    uploaded(service, "after-all-tasks-were-cancelled")
    assert all(task.running is not None and not task.running.done() for task in kept.values())
    metrics = service.http.get("/metrics").text
    for name in names:
        assert f'carrel_background_restarts_total{{task="{name}"}} 1.0' in metrics


def test_a_worker_that_lost_a_part_begins_anew(service: RunningService) -> None:
    async def parts(name: str) -> "list[asyncio.Task[Any]]":
        return [task for task in asyncio.all_tasks() if task.get_name() == name]

    for name in ("update_heartbeats", "listener", "worker loop"):
        # Another service in this process may have workers, too; they are replaced like these.
        until(lambda name=name: len(service.run(parts(name))) >= len(WORKERS))
        before = worker_ids(service)
        service.run(cancel(service.run(parts(name))))
        until(lambda before=before: len(worker_ids(service) - before) == len(WORKERS))


def test_no_task_of_the_service_is_made_without_a_supervisor() -> None:
    """A task made elsewhere must end with the work of its maker: the test lists all such places."""
    made, spawned = set[str](), set[str]()
    for path, called in calls(Path(package.__path__[0])):
        if called in {"create_task", "ensure_future", "TaskGroup"}:
            made.add(path)
        elif called == "spawn":
            spawned.add(path)
    assert made == set(OWN_TASKS)
    assert spawned == set(ONE_OFF_WORK)


def calls(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*.py"):
        for node in ast.walk(parse_python(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                yield str(path.relative_to(folder)), node.func.attr


def record_work(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Collect the names of kept tasks that end a transaction, look at disks or report figures, also nested."""
    names: set[str] = set()
    running: ContextVar[str] = ContextVar("running", default="")

    for task in runtime.background.kept.values():

        async def start(name: str = task.name, original: Callable[[], Coroutine[Any, Any, None]] = task.start) -> None:
            running.set(name)
            await original()

        monkeypatch.setattr(task, "start", start)

    for database in (runtime.database, runtime.indexer.database):

        @asynccontextmanager
        async def recorded(
            *arguments: Any, transaction: Callable[..., Any] = database.transaction, **options: Any
        ) -> AsyncGenerator[AsyncConnection]:
            async with transaction(*arguments, **options) as connection:
                yield connection
            names.add(running.get())

        monkeypatch.setattr(database, "transaction", recorded)

    def looked(self: FileSystem, total: int, free: int, measure: Callable[..., None] = FileSystem.measure) -> None:
        measure(self, total, free)
        names.add(running.get())

    def listed(self: Path, pattern: str, glob: Callable[..., Iterator[Path]] = Path.glob) -> Iterator[Path]:
        names.add(running.get())
        return glob(self, pattern)

    def told(self: Metrics, tell: Callable[[Metrics], None] = Metrics.tell) -> None:
        tell(self)
        names.add(running.get())

    monkeypatch.setattr(FileSystem, "measure", looked)
    monkeypatch.setattr(Metrics, "tell", told)
    monkeypatch.setattr(Path, "glob", listed)
    return names


async def cancel(tasks: "list[asyncio.Task[Any] | None] | list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        assert task is not None
        task.cancel()


def worker_ids(service: RunningService) -> set[int]:
    return {row[0] for row in service.execute("SELECT id FROM procrastinate_workers")}
