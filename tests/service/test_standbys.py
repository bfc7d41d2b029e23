"""Searches and lists are read from standbys of the database, without stale rights."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from itertools import count, cycle
from unittest.mock import AsyncMock
from uuid import UUID

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from service.domains.documents.catalog import queries as catalog
from service.domains.search import pipeline, queries
from service.platform.batches import Batch
from service.runtime.standbys import Source
from service.runtime.standbys import queries as position_queries
from service.runtime.standbys import service as standbys
from service.runtime.standbys.queries import Position, Progress
from service.runtime.standbys.service import Standby
from tests.harness.documents import add_users, ok, uploaded
from tests.harness.jobs import until
from tests.harness.replication import Server, replicated
from tests.harness.services import MakeService, RunningService, ServiceHarness
from tests.service import directory

Servers = tuple[Server, Server]
READER = "reader@example.test"
PAIRS = 12
CHANGES = 10_000
TASKS = 4
number = count(1)
Write = Callable[..., Awaitable[None]]
Look = Callable[..., set[str]]


@pytest.fixture(scope="module")
def servers(service_harness: ServiceHarness) -> Iterator[Servers]:
    with replicated(1) as (primary, [standby]):
        yield primary, standby
        service_harness.close()


@pytest.fixture
def service(servers: Servers, make_service: MakeService) -> RunningService:
    return started(make_service, servers[0], servers[1].address())


def started(make_service: MakeService, primary: Server, *urls: SecretStr) -> RunningService:
    service = make_service(
        database_url=primary.address(), database_replica_urls=urls, database=f"none_{next(number)}", sweep_seconds=5
    )
    add_users(service, READER)
    return service


def the_standby(service: RunningService) -> Standby:
    return service.runtime.standbys.all[0]


def be(service: RunningService, state: str) -> None:
    until(lambda: the_standby(service).state == state)


def a_document(service: RunningService) -> str:
    return str(uploaded(service, f"log {next(number)}", "The harbour saw a quinquereme come in.")["documentId"])


def grant(service: RunningService, document_id: str, *emails: str) -> None:
    directory.grant(service, directory.document(document_id), *map(directory.user, emails))


def found(service: RunningService, **members: str) -> set[str]:
    answer = ok(service.call("search/searchDocumentCatalog", {"searchQuery": "quinquereme", **members}))
    return {result["documentId"] for result in answer["results"]}


def listed(service: RunningService, **members: str) -> set[str]:
    return {document["documentId"] for document in ok(service.call("catalog/listDocuments", members))["documents"]}


LOOKS = pytest.mark.parametrize("look", [found, listed])


def finds(service: RunningService, document_id: str) -> bool:
    return document_id in found(service, userEmail=READER)


@LOOKS
def test_each_change_of_rights_that_was_answered_before_shows(service: RunningService, look: Look) -> None:
    document_id = a_document(service)
    be(service, "SERVING")
    began = the_standby(service).reads
    for _ in range(PAIRS):
        grant(service, document_id, READER)
        assert document_id in look(service, userEmail=READER)
        grant(service, document_id)
        assert document_id not in look(service, userEmail=READER)
    assert the_standby(service).reads > began + PAIRS / 2


def test_a_standby_that_is_late_is_left_out_until_it_has_caught_up(service: RunningService, servers: Servers) -> None:
    document_id = a_document(service)
    grant(service, document_id, READER)
    be(service, "SERVING")
    until(lambda: finds(service, document_id))
    servers[1].execute("SELECT pg_wal_replay_pause()")
    try:
        grant(service, document_id)
        [[still]] = servers[1].execute("SELECT pg_is_wal_replay_paused()")
        assert still is True
        reads = the_standby(service).reads
        for _ in range(3):
            assert not finds(service, document_id)
            assert document_id not in listed(service, userEmail=READER)
        assert the_standby(service).reads == reads
        be(service, "LATE")
        [told] = ok(service.call("admin/status/get"))["standbys"]
        assert (told["number"], told["state"]) == (1, "LATE")
        assert told["lagBytes"] > 0
        assert 'carrel_standby_left_out{standby="1"} 1.0' in service.http.get("/metrics").text
    finally:
        servers[1].execute("SELECT pg_wal_replay_resume()")
    be(service, "SERVING")
    assert not finds(service, document_id)
    figures = service.http.get("/metrics").text
    assert 'carrel_standby_left_out{standby="1"} 0.0' in figures
    assert f'carrel_reads_total{{server="1"}} {the_standby(service).reads:.1f}' in figures


def test_what_is_read_from_a_standby_is_logged_and_judged_as_any_other_search(service: RunningService) -> None:
    document_id = a_document(service)
    be(service, "SERVING")
    reads = the_standby(service).reads
    until(lambda: bool(found(service)) and the_standby(service).reads > reads)
    answer = ok(service.call("search/searchDocumentCatalog", {"searchQuery": "what the harbour saw"}))
    body = {"searchId": answer["searchId"], "feedback": "THUMBS_UP", "documentId": document_id}
    ok(service.call("search/submitSearchFeedback", body))
    log = ok(service.call("admin/searchLog/query", {"ids": [answer["searchId"]]}))
    assert [each["query"] for each in log["searches"]] == ["what the harbour saw"]


@LOOKS
def test_a_standby_that_ends_half_way_through_is_replaced_by_the_primary(service, servers, monkeypatch, look) -> None:
    document_id = a_document(service)
    be(service, "SERVING")
    module, name = {found: (queries, "score_near"), listed: (catalog, "list_documents")}[look]
    read, ended = getattr(module, name), list[object]()

    async def after_its_end(*args, **options):
        if not ended:
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'carrel%'"
            ended.extend(servers[1].execute(end))
        return await read(*args, **options)

    monkeypatch.setattr(module, name, after_its_end)
    before = service.runtime.standbys.primary_reads
    assert document_id in look(service)
    assert ended
    assert service.runtime.standbys.primary_reads == before + 1
    be(service, "SERVING")


def test_a_standby_that_no_longer_answers_holds_up_nobody(service, servers, monkeypatch) -> None:
    monkeypatch.setattr(standbys, "ANSWER_SECONDS", 0.3)
    document_id = a_document(service)
    process = servers[1].process()
    assert process is not None
    frozen = [process, *process.children()]
    be(service, "SERVING")
    for each in frozen:
        os.kill(each.pid, signal.SIGSTOP)
    try:
        assert document_id in found(service)
        be(service, "AWAY")
    finally:
        for each in frozen:
            os.kill(each.pid, signal.SIGCONT)
    be(service, "SERVING")
    process.kill()
    assert document_id in found(service)
    be(service, "AWAY")
    servers[1].restart()
    be(service, "SERVING")
    assert document_id in found(service)


@pytest.mark.long
def test_each_change_that_was_answered_is_in_the_next_snapshot(service: RunningService, servers: Servers) -> None:
    be(service, "SERVING")
    runtime = service.runtime
    [[organization_id]] = service.execute("SELECT organization_id FROM organizations")
    add_users(service, *(f"writer{each}@example.test" for each in range(TASKS)))
    wrong: list[str] = []

    async def change_and_read(task: int) -> None:
        by_email = {"email": f"writer{task}@example.test"}
        write = text("UPDATE principals SET name = :name WHERE email = :email")
        read = text("SELECT name FROM principals WHERE email = :email")

        async def find(source: Source) -> str:
            async with source.snapshot(organization_id, first=Batch(), read_only=True) as connection:
                return str((await connection.execute(read, by_email)).scalar_one())

        for each in range(CHANGES // TASKS):
            async with runtime.database.transaction(organization_id) as connection:
                await connection.execute(write, by_email | {"name": str(each)})
            about = Batch()
            position = runtime.standbys.ask(about)
            await runtime.database.read(organization_id, about)
            found = await runtime.standbys.read(runtime.database, position, find)
            if found != str(each):
                wrong.append(f"{task}: {found} instead of {each}")

    async def pause_and_go_on() -> None:
        for pause in cycle((0.02, 0.2, 0.005)):
            await asyncio.to_thread(servers[1].execute, "SELECT pg_wal_replay_pause()")
            await asyncio.sleep(pause)
            await asyncio.to_thread(servers[1].execute, "SELECT pg_wal_replay_resume()")
            await asyncio.sleep(5 * pause)

    async def run() -> None:
        pausing = asyncio.create_task(pause_and_go_on())
        await asyncio.gather(*map(change_and_read, range(TASKS)))
        pausing.cancel()

    reads, others = the_standby(service).reads, runtime.standbys.primary_reads
    try:
        service.loop.submit(run()).result(3600)
    finally:
        servers[1].execute("SELECT pg_wal_replay_resume()")
    reads, others = the_standby(service).reads - reads, runtime.standbys.primary_reads - others
    print(f"{reads} read from the standby, {others} from the primary")  # noqa: T201 - what it is run for
    assert wrong == []
    assert min(reads, others) > CHANGES / 10


def test_marks_that_are_written_during_a_search_leave_no_standby_out(service, servers, monkeypatch) -> None:
    document_id = a_document(service)
    be(service, "SERVING")
    embed = pipeline.embed  # what a search waits for before it reads

    async def embed_slowly(plan, space):
        for _ in range(3):
            servers[0].execute("UPDATE deployment SET replication_marked_at = '-infinity'")
            await write_mark(service)
        return await embed(plan, space)

    reads = the_standby(service).reads
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "embed", embed_slowly)
        until(lambda: document_id in found(service) and the_standby(service).reads > reads)
    assert the_standby(service).state == "SERVING"


def test_a_mark_is_written_once_and_counts_until_the_next_start(service, servers, monkeypatch) -> None:
    no_mark = AsyncMock()
    be(service, "SERVING")
    monkeypatch.setattr(position_queries, "write_mark", no_mark)
    until(lambda: no_mark.await_count > 0)
    servers[0].execute("UPDATE deployment SET replication_marked_at = '-infinity'")
    before = service.run(ask_position(service)).mark
    service.run(write_two_marks(service))
    assert servers[0].execute("SELECT replication_marks[2] FROM deployment") == [(before,)]
    assert service.run(ask_position(service)).is_marked
    process = servers[0].process()
    assert process is not None
    process.kill()
    servers[0].restart()
    assert not service.run(ask_position(service)).is_marked
    reads = the_standby(service).reads
    found(service)
    assert (the_standby(service).reads, the_standby(service).state) == (reads, "SERVING")


async def ask_position(service: RunningService) -> Position:
    batch = Batch()
    answer = position_queries.ask_position(batch)
    await service.runtime.database.read(None, batch)
    return answer.rows[0]


async def write_mark(service: RunningService, *, after: float = 0, write: Write = position_queries.write_mark) -> None:
    async with service.runtime.database.transaction(None) as connection:
        await asyncio.sleep(after)
        await write(connection)


async def write_two_marks(service: RunningService) -> None:
    await asyncio.gather(write_mark(service, after=0.1), write_mark(service, after=0.02))


def test_a_standby_that_was_never_reached_is_logged(servers, make_service, service_logs) -> None:
    service = started(make_service, servers[0], SecretStr("postgresql://carrel:not-told@127.0.0.1:1/carrel"))
    until(lambda: "standby_left_out" in service_logs.getvalue())
    assert the_standby(service).state == "AWAY"
    assert "127.0.0.1:1" in service_logs.getvalue()
    assert "not-told" not in service_logs.getvalue()


def test_only_a_standby_of_this_primary_is_read_from(servers: Servers, make_service: MakeService) -> None:
    primary, other = servers
    service = started(make_service, primary, primary.address())
    document_id = a_document(service)
    be(service, "NOT_A_STANDBY")
    assert document_id in found(service)
    assert the_standby(service).reads == 0
    service = started(make_service, primary, other.address())
    be(service, "SERVING")
    other.execute("SELECT pg_promote()")
    be(service, "NOT_A_STANDBY")
    grant(service, document_id, READER)
    assert finds(service, document_id)


MARK = UUID(int=1)


@pytest.mark.parametrize(
    ("position", "progress", "reaches"),
    [
        (Position(10, MARK, is_marked=True), Progress(True, True, 10), True),
        (Position(10, MARK, is_marked=True), Progress(True, True, 9), False),
        # It follows another server, which has got further.
        (Position(10, MARK, is_marked=True), Progress(True, False, 99), False),
        # The primary was started or promoted a moment ago: another one's standby may have what this one has not.
        (Position(10, MARK, is_marked=False), Progress(True, True, 99), False),
        (Position(10, MARK, is_marked=True), Progress(False, True, 99), False),
        (Position(None, MARK, is_marked=False), Progress(True, True, 99), False),
    ],
)
def test_a_standby_confirms_by_position_and_mark(position: Position, progress: Progress, reaches: bool) -> None:
    assert progress.reaches(position) is reaches
