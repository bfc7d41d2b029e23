"""Searches are read from standbys of the database, and none of them shows what the primary no longer would."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from service.domains.search import queries
from service.runtime.standbys import standby as standbys
from service.runtime.standbys.queries import Position, Progress
from service.runtime.standbys.standby import Standby
from tests.harness.documents import add_users, ok, uploaded
from tests.harness.replication import Server, replicated
from tests.harness.services import RunningService, ServiceHarness

READER = "reader@example.test"
PAIRS = 12
SECONDS = 30
number = count(1)


@pytest.fixture(scope="module")
def servers(service_harness: ServiceHarness) -> Iterator[tuple[Server, Server]]:
    """A primary and a standby of it."""
    with replicated(1) as (primary, [standby]):
        yield primary, standby
        service_harness.close()


@pytest.fixture
def service(servers: tuple[Server, Server], make_service: Callable[..., RunningService]) -> RunningService:
    """A service on both, whose standby serves; its housekeeping has begun."""
    return started(make_service, *servers)


def started(make_service: Callable[..., RunningService], primary: Server, *others: Server) -> RunningService:
    """Start a service that is told of these standbys."""
    urls = tuple(other.address() for other in others)
    service = make_service(
        database_url=primary.address(), database_replica_urls=urls, database=f"none_{next(number)}", sweep_seconds=5
    )
    add_users(service, READER)
    return service


def the_standby(service: RunningService) -> Standby:
    """The first standby."""
    return service.runtime.standbys.all[0]


def until(claim: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + SECONDS
    while not claim():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


def be(service: RunningService, state: str) -> None:
    """Wait until the standby is in a state."""
    until(lambda: the_standby(service).state == state)


def a_document(service: RunningService) -> str:
    """Upload a document of its own words; return its id."""
    answer = uploaded(service, f"log {next(number)}", "The harbour saw a quinquereme come in.")
    return str(answer["documentId"])


def grant(service: RunningService, document_id: str, *emails: str) -> None:
    """Let these people, and nobody else but the owner, read a document."""
    resource = {"resourceId": document_id, "resourceType": "UPLOADED_DOCUMENT"}
    grants = [{"principal": {"type": "user", "email": email}, "role": "VIEWER"} for email in emails]
    ok(service.call("admin/grants/set", {"resource": resource, "grants": grants}))


def found(service: RunningService, **members: str) -> set[str]:
    """The ids of the documents that a search finds."""
    answer = ok(service.call("search/searchDocumentCatalog", {"searchQuery": "quinquereme", **members}))
    return {result["documentId"] for result in answer["results"]}


def finds(service: RunningService, document_id: str) -> bool:
    """Whether the reader finds a document."""
    return document_id in found(service, userEmail=READER)


def test_a_search_shows_each_change_of_rights_that_was_answered_before(service: RunningService) -> None:
    """Revoke, search, grant, search, and so on: by the standby, and by the primary while the standby is late."""
    document_id = a_document(service)
    be(service, "SERVING")
    began = the_standby(service).reads
    for _ in range(PAIRS):
        grant(service, document_id, READER)
        assert finds(service, document_id)
        grant(service, document_id)
        assert not finds(service, document_id)
    assert the_standby(service).reads > began + PAIRS / 2


def test_a_standby_that_is_late_is_left_out_until_it_has_caught_up(
    service: RunningService, servers: tuple[Server, Server]
) -> None:
    """What it has not replayed yet, a revocation, is answered by the primary; afterwards it serves again."""
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
        assert the_standby(service).reads == reads
        be(service, "LATE")
        status = the_standby(service).describe()
        assert status.lag_bytes
    finally:
        servers[1].execute("SELECT pg_wal_replay_resume()")
    be(service, "SERVING")
    assert not finds(service, document_id)


def test_what_is_read_from_a_standby_is_logged_and_judged_as_any_other_search(service: RunningService) -> None:
    """The log of searches has it, and it takes feedback."""
    document_id = a_document(service)
    be(service, "SERVING")
    reads = the_standby(service).reads
    until(lambda: bool(found(service)) and the_standby(service).reads > reads)
    answer = ok(service.call("search/searchDocumentCatalog", {"searchQuery": "what the harbour saw"}))
    body = {"searchId": answer["searchId"], "feedback": "THUMBS_UP", "documentId": document_id}
    ok(service.call("search/submitSearchFeedback", body))
    log = ok(service.call("admin/searchLog/query", {"ids": [answer["searchId"]]}))
    assert [each["query"] for each in log["searches"]] == ["what the harbour saw"]


def test_a_standby_that_ends_half_way_through_a_search_is_replaced_by_the_primary(
    service: RunningService, servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is answered all the same, and whole."""
    document_id = a_document(service)
    be(service, "SERVING")
    score_near, ended = queries.score_near, list[object]()

    async def after_its_end(*args: Any, **options: Any) -> Any:
        if not ended:
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'carrel'"
            ended.extend(servers[1].execute(end))
        return await score_near(*args, **options)

    monkeypatch.setattr(queries, "score_near", after_its_end)
    before = service.runtime.standbys.primary_reads
    assert document_id in found(service)
    assert ended
    assert service.runtime.standbys.primary_reads == before + 1
    be(service, "SERVING")


def test_a_standby_that_no_longer_answers_holds_up_nobody(
    service: RunningService, servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the midst of things, or killed: the primary answers; it serves again when it is back."""
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


def test_only_a_standby_of_this_primary_is_read_from(
    servers: tuple[Server, Server], make_service: Callable[..., RunningService]
) -> None:
    """Not the primary itself under a second address, and not a standby that has become a primary."""
    primary, other = servers
    service = started(make_service, primary, primary)
    document_id = a_document(service)
    be(service, "NOT_A_STANDBY")
    assert document_id in found(service)
    assert the_standby(service).reads == 0
    service = started(make_service, primary, other)
    be(service, "SERVING")
    other.execute("SELECT pg_promote()")
    be(service, "NOT_A_STANDBY")
    grant(service, document_id, READER)
    assert finds(service, document_id)


MARK, OLDER, OTHERS = (UUID(int=each) for each in range(3))
NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("position", "progress", "reaches"),
    [
        (Position(10, MARK, NOW, is_marked=True), Progress(True, [MARK, OLDER], NOW, 10), True),
        (Position(10, OLDER, NOW, is_marked=True), Progress(True, [MARK, OLDER], NOW, 11), True),
        (Position(10, MARK, NOW, is_marked=True), Progress(True, [MARK, OLDER], NOW, 9), False),
        # It follows another server, which has got further.
        (Position(10, MARK, NOW, is_marked=True), Progress(True, [OTHERS, OLDER], NOW, 99), False),
        # The primary was promoted a moment ago: a standby of the one before may have what this one has not.
        (Position(10, MARK, NOW, is_marked=False), Progress(True, [MARK, OLDER], NOW, 99), False),
        (Position(10, MARK, NOW, is_marked=True), Progress(False, [MARK, OLDER], NOW, 99), False),
        (Position(None, MARK, NOW, is_marked=False), Progress(True, [MARK, OLDER], NOW, 99), False),
    ],
)
def test_a_standby_confirms_by_position_and_mark(position: Position, progress: Progress, reaches: bool) -> None:
    """It has replayed as much, and the log it has replayed is the primary's."""
    assert progress.reaches(position) is reaches
