"""Jobs: enqueued in the caller's transaction, done once, in the order of the lock, by any replica."""

import asyncio
import re
import time
from functools import partial
from uuid import UUID, uuid4

import psycopg
import pytest
from procrastinate.exceptions import ConnectorException
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

from service.platform import traces
from service.platform.database import SERVICE_ROLE
from service.platform.logs import SANE_REQUEST_ID, begin_request, request_id
from service.runtime import Runtime
from service.runtime.jobs import queries, running, worker
from service.runtime.jobs.models import Queue, Task
from service.runtime.jobs.queue import split_request
from tests.harness.jobs import QUEUE, Workshop, enqueue, queued, stop, until, work
from tests.harness.services import MakeService, RunningService, ServiceHarness
from tests.service.directory import organization_id as organization_of

pytestmark = pytest.mark.own_service  # workers, queues and counts are all of its organizations'

Make = MakeService


COUNT = "SELECT count(*) FROM procrastinate_jobs"


def test_a_first_connection_may_take_its_time(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the wait is not logged as a failure."""
    connect = psycopg.AsyncConnection.connect

    async def connect_slowly(*args, **options):
        await asyncio.sleep(0.5)
        return await connect(*args, **options)

    monkeypatch.setattr(worker, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(psycopg.AsyncConnection, "connect", connect_slowly)
    workshop = Workshop()
    with capture_logs() as logged:
        work(service, workshop)
        enqueue(service, workshop.task)
        until(lambda: not queued(service))
    assert [one for one in logged if one["log_level"] in {"error", "warning"}] == []


def test_it_is_enqueued_with_its_transaction(service: RunningService) -> None:
    workshop = Workshop()
    organization_id = organization_of(service)
    work(service, workshop)

    async def regret(connection: AsyncConnection) -> None:
        await service.runtime.jobs.enqueue(connection, workshop.task, organization_id=organization_id, thing_id=uuid4())
        assert (await connection.exec_driver_sql(COUNT)).scalar_one() == 1
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        service.in_transaction(organization_id, regret)
    assert not queued(service)
    things = enqueue(service, workshop.task, count=3)
    until(lambda: not queued(service))
    assert workshop.begun == workshop.ended == things
    assert service.execute("SELECT count(*) FROM procrastinate_events") == [(0,)]


def test_jobs_of_one_lock_run_one_after_the_other(service: RunningService) -> None:
    workshop = Workshop(is_open=False)
    locked = enqueue(service, workshop.task, count=3, lock="one thing")
    free = enqueue(service, workshop.task, count=3)
    work(service, workshop, concurrency=6)
    until(lambda: len(workshop.begun) == 4)
    assert set(workshop.begun) == {locked[0], *free}
    assert [status for status, *_ in queued(service)] == ["doing", "todo", "todo", "doing", "doing", "doing"]
    workshop.is_open = True
    until(lambda: not queued(service))
    assert [thing for thing in workshop.begun if thing in locked] == locked
    assert sorted(workshop.ended) == sorted([*locked, *free])


def test_the_next_of_a_lock_begins_when_the_one_before_has_ended(service, monkeypatch) -> None:
    monkeypatch.setattr(worker, "LOOK_SECONDS", 3600)
    workshop = Workshop(is_open=False)
    things = enqueue(service, workshop.task, count=2, lock="one thing")
    work(service, workshop)
    until(lambda: workshop.begun == things[:1])
    time.sleep(1)  # until it has looked in vain, and listens
    workshop.is_open = True
    until(lambda: workshop.ended == things)


def test_no_more_run_than_may_at_a_time(service: RunningService) -> None:
    workshop = Workshop(is_open=False)
    enqueue(service, workshop.task, count=5)
    work(service, workshop, concurrency=2)
    until(lambda: len(workshop.begun) == 2)
    until(lambda: "carrel_jobs_waiting 3.0" in service.http.get("/metrics").text)
    assert "carrel_jobs_running 2.0" in service.http.get("/metrics").text
    workshop.is_open = True
    until(lambda: len(workshop.ended) == 5)
    until(lambda: 'carrel_jobs_done_total{task="tests.work"} 5.0' in service.http.get("/metrics").text)
    assert workshop.most_at_once == 2


def test_a_full_queue_delays_no_other_and_goes_on_when_it_has_room(service, monkeypatch) -> None:
    monkeypatch.setattr(worker, "LOOK_SECONDS", 3600)
    fetch, found = worker.FencedJobManager.fetch_job, list[object]()

    async def look(*given, **named):
        found.append(await fetch(*given, **named))
        return found[-1]

    monkeypatch.setattr(worker.FencedJobManager, "fetch_job", look)
    full, free = Workshop(is_open=False), Workshop()
    beside = Task("tests.beside", free.task.run, queue="beside")
    things = enqueue(service, full.task, count=2)
    work(service, full, Queue("beside", (beside,), 1), concurrency=1)
    until(lambda: full.begun == things[:1])
    others = enqueue(service, beside, count=3)
    until(lambda: free.ended == others and found[-1] is None)
    assert full.begun == things[:1]
    full.is_open = True
    until(lambda: full.ended == things)


def test_a_job_of_a_newer_release_is_left_to_it(service: RunningService) -> None:
    old, new = Workshop(), Workshop()
    newer = Task("tests.newer", new.task.run, queue=QUEUE)
    things, later = enqueue(service, newer, lock="one thing"), enqueue(service, old.task, lock="one thing")
    known = enqueue(service, old.task)
    worker = work(service, old)
    until(lambda: old.ended == known)
    stop(service, worker)
    assert [(status, attempts) for status, attempts, _ in queued(service)] == [("todo", 0), ("todo", 0)]
    # Nothing was written to leave it.
    assert service.execute("SELECT DISTINCT type::text FROM procrastinate_events") == [("deferred",)]
    work(service, newer)
    until(lambda: new.ended == things)
    work(service, old)
    until(lambda: old.ended == [*known, *later])


@pytest.mark.parametrize(
    ("failure", "times"),
    [
        (OperationalError("SELECT", None, psycopg.OperationalError("the server closed the connection")), 3),
        (asyncio.CancelledError(), 1),
        (ZeroDivisionError("of the task"), 1),
    ],
    ids=["database", "cancelled", "defect"],
)
def test_a_failing_job_is_logged_and_tried_again_where_the_database_failed_it(
    service: RunningService, monkeypatch: pytest.MonkeyPatch, failure: BaseException, times: int
) -> None:
    """After a delay, a limited number of times. Only a stopping service puts back a cancelled job."""
    monkeypatch.setattr(running, "RETRY_SECONDS", 0)
    monkeypatch.setattr(running, "MOST_ATTEMPTS", 3)
    failed = 'carrel_jobs_failed_total{{task="tests.work"}} {}.0'.format
    workshop = Workshop(failure=failure)
    work(service, workshop)
    until(lambda: failed(0) in service.http.get("/metrics").text)
    with capture_logs() as logged:
        things = enqueue(service, workshop.task)
        until(lambda: not queued(service))
    assert workshop.begun == things * times
    [entry] = [entry for entry in logged if "job" in entry["event"]]
    assert (entry["event"], entry["task"], entry["log_level"]) == ("job_failed", "tests.work", "error")
    assert entry["ids"]["thing_id"] == str(things[0])
    assert entry["exc_info"]
    workshop.failure = None
    more = enqueue(service, workshop.task)
    until(lambda: workshop.ended == more)
    assert failed(1) in service.http.get("/metrics").text


@pytest.mark.parametrize("trace", ["", f"00-{'a' * 32}-{'b' * 16}-01"])
def test_what_a_job_logs_carries_the_id_of_its_request(service, monkeypatch, trace) -> None:
    monkeypatch.setattr(traces, "traceparent", lambda: trace)
    seen: list[str] = []

    async def look(_runtime: Runtime, **_ids: UUID) -> None:
        seen.append(request_id())

    task = Task("tests.look", look, queue=QUEUE)
    organization_id = organization_of(service)

    async def ask(offered: str | None) -> None:
        if offered:
            begin_request(offered)
        async with service.runtime.database.transaction(organization_id) as connection:
            await service.runtime.jobs.enqueue(connection, task, organization_id=organization_id)

    service.run(ask("asked-here"))
    service.run(ask(None))
    for _, _, arguments in queued(service):
        assert arguments.keys() == {"organization_id", "request_id"}
        assert trace in arguments["request_id"]
        assert not trace or SANE_REQUEST_ID.fullmatch(arguments["request_id"])
    work(service, task)
    until(lambda: len(seen) == 2)
    assert seen[0] == "asked-here"
    assert re.fullmatch(r"[0-9a-f]{32}", seen[1])


def test_a_job_names_the_trace_that_it_is_a_part_of_or_comes_from() -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    assert split_request(f"asked.here.traceparent.{trace}") == ("asked.here", trace, "")
    assert split_request(f".tracelink.{trace}") == ("", "", trace)
    assert split_request("asked.traceparent.here") == ("asked.traceparent.here", "", "")


def test_an_organization_has_its_own_jobs_alone(service: RunningService) -> None:
    workshop, organization_id = Workshop(), organization_of(service)
    enqueue(service, workshop.task)
    (_, _, arguments) = queued(service)[0]
    assert arguments.keys() == {"organization_id", "request_id", "thing_id"}

    async def of_another(connection: AsyncConnection) -> tuple[int, int]:
        counted = (await connection.exec_driver_sql(COUNT)).scalar_one()
        return counted, (await connection.exec_driver_sql("DELETE FROM procrastinate_jobs")).rowcount

    assert service.in_transaction(uuid4(), of_another) == (0, 0)
    enqueue_here = partial(service.runtime.jobs.enqueue, task=workshop.task, organization_id=organization_id)
    with pytest.raises(ConnectorException) as caught:
        service.in_transaction(uuid4(), enqueue_here)
    assert isinstance(caught.value.__cause__, psycopg.errors.InsufficientPrivilege)
    assert len(queued(service)) == 1


def test_the_service_may_do_with_the_queue_what_it_must(service: RunningService) -> None:
    with service.owner_connection() as connection:
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        for statement in (
            "TRUNCATE procrastinate_jobs",
            "SELECT FROM procrastinate_events",
            "DELETE FROM procrastinate_events",
            "INSERT INTO procrastinate_periodic_defers (task_name) VALUES ('x')",
            "ALTER TABLE procrastinate_jobs DISABLE ROW LEVEL SECURITY",
            "DROP FUNCTION procrastinate_register_worker_v1",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def test_two_replicas_share_the_jobs(make_service: Make) -> None:
    one = make_service()
    other = make_service(database=one.database)
    workshops = [Workshop(is_open=False), Workshop(is_open=False)]
    for service, workshop in zip((one, other), workshops, strict=True):
        work(service, workshop, concurrency=2)
    things = enqueue(one, workshops[0].task, count=20)
    until(lambda: [len(workshop.begun) for workshop in workshops] == [2, 2])
    for workshop in workshops:
        workshop.is_open = True
    until(lambda: not queued(one))
    assert sorted(workshops[0].ended + workshops[1].ended) == sorted(things)


def test_a_stopped_worker_puts_back_what_it_had(make_service: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "GRACE_SECONDS", 0.2)
    one = make_service()
    other = make_service(database=one.database)
    workshop, successor = Workshop(is_open=False), Workshop()
    working = work(one, workshop)
    things = enqueue(one, workshop.task)
    until(lambda: workshop.begun == things)
    stop(one, working)
    assert workshop.ended == []
    assert [status for status, *_ in queued(one)] == ["todo"]
    work(other, successor)
    until(lambda: not queued(one))
    assert successor.ended == things


def test_a_stopping_worker_lets_a_job_end(service: RunningService) -> None:
    workshop = Workshop(is_open=False)
    working = work(service, workshop)
    things = enqueue(service, workshop.task)
    until(lambda: workshop.begun == things)

    async def open_later() -> None:
        await asyncio.sleep(0.3)
        workshop.is_open = True

    opening = service.loop.submit(open_later())
    stop(service, working)
    opening.result(5)
    assert workshop.ended == things
    assert not queued(service)


def test_a_worker_that_comes_back_ends_nothing_of_its_successor(make_service: Make) -> None:
    one = make_service()
    other = make_service(database=one.database)
    sleeper, successor = Workshop(is_open=False), Workshop(is_open=False)
    work(one, sleeper, concurrency=1)
    things = enqueue(one, sleeper.task)
    until(lambda: sleeper.begun == things)
    take_for_dead(one)
    work(other, successor, concurrency=1)
    until(lambda: successor.begun == things)
    sleeper.is_open = True
    until(lambda: sleeper.ended == things)
    # It has said so when it is at the next, and that the next has ended a moment after it has.
    more = enqueue(one, sleeper.task)
    until(lambda: sleeper.ended == things + more)
    until(lambda: [(status, attempts) for status, attempts, _ in queued(one)] == [("doing", 1)])
    successor.is_open = True
    until(lambda: not queued(one))
    assert successor.ended == things


def test_a_job_whose_worker_dies_each_time_is_ended(service: RunningService) -> None:
    begun: list[UUID] = []

    async def run(_runtime: Runtime, **ids: UUID) -> None:
        running.refuse_deadly()
        begun.append(ids["thing_id"])
        await asyncio.sleep(3600)

    task = Task("tests.work", run, queue=QUEUE)
    things = enqueue(service, task)
    work(service, task, concurrency=20)
    with capture_logs() as logged:
        for times in range(1, running.MOST_ATTEMPTS + 1):
            until(lambda times=times: len(begun) == times)
            take_for_dead(service)
        until(lambda: not queued(service))
    assert begun == things * running.MOST_ATTEMPTS
    [entry] = [entry for entry in logged if entry["event"] == "job_failed"]
    assert entry["ids"]["thing_id"] == str(things[0])


@pytest.mark.slow
def test_a_worker_can_be_stopped_while_the_database_is_away(service, databases, monkeypatch) -> None:
    monkeypatch.setattr(worker, "PATIENCE_SECONDS", 0.5)
    workshop = Workshop()
    working = work(service, workshop)
    enqueue(service, workshop.task)
    until(lambda: not queued(service))
    with capture_logs():  # of all that looks in vain
        databases.drop(service.database)
        stop(service, working)
    assert working.cancelled()


def test_a_stopped_service_leaves_nothing_behind(service_harness: ServiceHarness, databases) -> None:
    service, stack = service_harness.start()
    workshop = Workshop()
    work(service, workshop)
    things = enqueue(service, workshop.task)
    until(lambda: workshop.ended == things)
    with databases.connect(service.database) as connection:
        count = "SELECT count(*) FROM procrastinate_workers"
        # The service's own worker, which begins later than it, and the test's.
        until(lambda: connection.execute(count).fetchone() == (2,))
    service.http.close()
    service.run(stack.aclose())
    with databases.connect(service.database) as connection:
        connected = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
        until(lambda: connection.execute(connected, [service.database]).fetchone() == (0,))
        assert connection.execute(count).fetchone() == (0,)
    databases.drop(service.database)


def take_for_dead(service: RunningService) -> None:
    assert service.in_transaction(None, partial(queries.release_stalled, seconds=0)) == 1
