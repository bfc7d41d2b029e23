"""More uploads than can be indexed: memory stays bounded, everyone gets turns, and no upload is lost. The embedder is
as slow as on a small machine, without using the processor."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from service.index.terms import weigh_chunks
from service.platform.postgres.server import SUPERUSER
from tests.faults.loading import metric
from tests.harness.databases import connect
from tests.harness.documents import get_document, list_documents, ok, refused, upload
from tests.harness.embeddings_server import embeddings_server
from tests.harness.jobs import until
from tests.harness.loops import going_on
from tests.harness.processes import ServiceProcess
from tests.harness.services import MakeService, RunningService
from tests.service.directory import another_organization

SECONDS_A_TEXT = 0.02
# What one organization has at work at most, and what requests that come at the same moment may add.
MOST_AT_WORK = 18 + 5
UPLOADERS, SEARCHERS = 6, 64


class SlowEmbedder:
    def __init__(self) -> None:
        self.seconds_a_text = SECONDS_A_TEXT

    async def embed(self, texts: Sequence[str], **_: bool) -> NDArray[np.float32]:
        for _ in texts:
            await asyncio.sleep(self.seconds_a_text)
        return np.full((len(texts), 384), 384**-0.5, np.float32)


@pytest.fixture
def slow(make_service: MakeService, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowEmbedder]:
    """Every service's embedder, made slow; without delay after the test."""
    del make_service
    embedder = SlowEmbedder()
    slowly = lambda _, texts, **how: embedder.embed(texts, **how)  # noqa: E731
    monkeypatch.setattr("service.text.embedding.local.LocalEmbedder.embed", slowly)
    yield embedder
    embedder.seconds_a_text = 0


def long_text(number: int, *, kilobytes: int = 120) -> str:
    """Return text with words unique to the number."""
    lines = (f"Ferry {number} writes line {line} of its log: tide, wind and crew." for line in range(kilobytes * 17))
    return "\n\n".join(lines)[: kilobytes * 1000]


def send_logs(threads: ThreadPoolExecutor, service: RunningService, count: int) -> "list[Future[httpx.Response]]":
    return [
        threads.submit(upload, service, f"log-{number}", long_text(number, kilobytes=20)) for number in range(count)
    ]


def wait_for(service: RunningService, document_id: str, *, seconds: float = 60) -> None:
    until(lambda: get_document(service, document_id)["indexedIn"][0]["status"] == "DONE", seconds)


def count_claims(service: RunningService) -> int:
    statement = (
        "SELECT count(*) FROM space_documents WHERE indexed_version IS DISTINCT FROM version AND claimed_until > now()"
    )
    with service.owner_connection() as connection:
        [number] = connection.execute(statement).fetchone() or [0]
    return int(number)


@pytest.mark.slow
def test_what_is_at_work_is_bounded(make_service: MakeService, slow: SlowEmbedder) -> None:
    """Of 60 documents at once a few are claimed, in memory and on connections; all are indexed in the end."""
    service = make_service(inline_indexing_seconds=0, sweep_seconds=3600)
    slow.seconds_a_text = 1
    with ThreadPoolExecutor(UPLOADERS) as threads:
        sent = send_logs(threads, service, 60)
        ids = [ok(each.result())["documentId"] for each in sent]
    assert 0 < count_claims(service) <= MOST_AT_WORK
    assert 0 < metric(service, "carrel_indexing_running") <= MOST_AT_WORK
    until(lambda: metric(service, "carrel_indexing_waiting") > MOST_AT_WORK)
    assert metric(service, "carrel_indexing_chunks_per_second") > 0
    slow.seconds_a_text = 0
    for document_id in ids:
        wait_for(service, document_id)
    assert metric(service, "carrel_indexing_running") == 0


@pytest.mark.slow
@pytest.mark.usefixtures("slow")
def test_large_documents_go_on_while_small_ones_keep_coming(make_service: MakeService) -> None:
    service = make_service(inline_indexing_seconds=0, sweep_seconds=3600)
    large = [ok(upload(service, f"log-{number}", long_text(number)))["documentId"] for number in range(10)]
    small: list[str] = []

    def send_another() -> None:
        small.append(ok(upload(service, f"note-{len(small)}", f"Note {len(small)} of the day."))["documentId"])

    with going_on(send_another):
        wait_for(service, large[0])
    assert get_document(service, large[-1])["indexedIn"][0]["status"] == "RUNNING"
    for document_id in small:
        wait_for(service, document_id, seconds=20)
    assert get_document(service, large[-1])["indexedIn"][0]["status"] == "RUNNING"


@pytest.mark.slow
def test_one_organizations_backlog_holds_no_other_back(make_service: MakeService, slow: SlowEmbedder) -> None:
    service = make_service(inline_indexing_seconds=40, sweep_seconds=3600, indexing_backlog_seconds=1)
    other = another_organization(service)
    slow.seconds_a_text = 0.1
    with ThreadPoolExecutor(60) as threads:
        sent = send_logs(threads, service, 60)
        until(lambda: count_claims(service) >= 2)
        began = time.monotonic()
        answer = ok(upload(service, "note", api_key=other, awaitVectorStoreSync="true"))
        took = time.monotonic() - began
        slow.seconds_a_text = 0
        for each in sent:
            ok(each.result())
    assert answer["indexing"] == "DONE"
    assert took < 15


def test_a_sweep_keeps_nobody_from_beginning(make_service: MakeService) -> None:
    service = make_service(sweep_seconds=0.2)
    for number in range(5):
        another_organization(service, admin_email=f"admin@other-{number}.test")
    indexer = service.runtime.indexer

    async def look() -> set[UUID]:
        noted, ends = set[UUID](), time.monotonic() + 1.5
        while time.monotonic() < ends:
            noted |= indexer.backlogged.keys()
            await asyncio.sleep(0)
        return noted

    assert service.run(look()) == set()


@pytest.mark.slow
def test_an_upload_beyond_the_backlog_is_refused_early_and_taken_later(make_service, slow, monkeypatch) -> None:
    service = make_service(inline_indexing_seconds=0, sweep_seconds=3600, indexing_backlog_seconds=5)
    big = "The tide is written down every hour. " * 40_000
    ok(upload(service, "big", big))
    assert "uploadsRefusedSeconds" not in ok(service.call("admin/status/get"))["indexing"]
    slow.seconds_a_text = 1

    def weigh_slowly(texts: Sequence[str], **how: Any) -> Any:
        time.sleep(slow.seconds_a_text / 20 * len(texts))
        return weigh_chunks(texts, **how)

    monkeypatch.setattr("service.index.service.weigh_chunks", weigh_slowly)
    answers = (upload(service, f"log-{number}", long_text(number, kilobytes=20)) for number in range(200))
    taken: list[Any] = []
    for answer in answers:
        if answer.status_code != 200:
            break
        taken.append(ok(answer))
    else:
        pytest.fail("nothing was refused")
    assert "documents of your organization wait" in refused(answer, 503, "indexing_backlog")["message"]
    seconds = int(answer.headers["Retry-After"])
    assert 1 <= seconds <= 120
    name = f"log-{len(taken)}"
    assert name not in list_documents(service)
    assert not [path for path in service.settings.uploads_dir.rglob("*") if path.is_file()]
    state = ok(service.call("admin/status/get"))["indexing"]
    assert state["waitingDocuments"] >= 16
    assert state["waitingChunks"] > 0
    assert state["chunksPerSecond"] > 0
    assert 1 <= state["uploadsRefusedSeconds"] <= 120
    assert ok(upload(service, "log-0", long_text(0, kilobytes=20)))["status"] == "UNCHANGED"
    assert ok(upload(service, "big", big))["status"] == "UNCHANGED"
    large = refused(upload(service, "large", long_text(0, kilobytes=1200)), 503, "indexing_backlog")
    assert "Try again in" in large["message"]
    slow.seconds_a_text = 0.001
    time.sleep(min(seconds, 20))
    until(lambda: upload(service, name, "The ferry leaves at noon.").status_code == 200, 30)
    assert name in list_documents(service)


@pytest.mark.slow
def test_an_upload_waits_for_an_index_without_a_connection(make_service: MakeService, slow: SlowEmbedder) -> None:
    service = make_service(inline_indexing_seconds=20, database_pool_size=2, sweep_seconds=3600)
    slow.seconds_a_text = 2
    with ThreadPoolExecutor(80) as threads:
        sent = send_logs(threads, service, 40)
        until(lambda: len(list_documents(service)) == len(sent))
        body = {"searchQuery": "tide"}
        searches = [threads.submit(service.call, "search/searchDocumentCatalog", body) for _ in range(40)]
        assert {each.result().status_code for each in searches} == {200}
        slow.seconds_a_text = 0
        for each in sent:
            ok(each.result())


def claim_for_an_hour(process: ServiceProcess) -> None:
    """Extend a killed process's claims beyond the test, unless released."""
    statement = (
        "UPDATE space_documents SET claimed_until = now() + interval '1 hour'"
        " WHERE indexed_version IS DISTINCT FROM version AND claimed_until > now()"
    )
    with connect(process.database_server().url(user=SUPERUSER)) as connection:
        assert connection.execute(statement).rowcount > 0


def test_a_kill_between_the_halves_loses_no_words_and_writes_nothing_twice(service_process) -> None:
    held = {"CARREL_INLINE_INDEXING_SECONDS": "20", "CARREL_SWEEP_SECONDS": "1"}
    with embeddings_server(seconds_a_text=0.2) as embeddings:
        process = service_process(**embeddings, **held)
        for number in range(6):
            assert ok(upload(process, f"log-{number}", long_text(number, kilobytes=8)))["wordsIndexed"]
        assert ok(process.call("admin/status/get"))["indexing"]["done"] < 6
        process.kill()
        process.start()
        options = {"mode": "LEXICAL", "maxResults": 9}
        body = {"searchQuery": "tide wind crew", "searchOptions": options}
        assert len(ok(process.call("search/searchDocumentCatalog", body))["results"]) == 6
        until(lambda: ok(process.call("admin/status/get"))["indexing"]["done"] == 6, 90)
        with connect(process.database_server().url(user=SUPERUSER)) as connection:
            counts = "SELECT (SELECT count(*) FROM chunks_384), (SELECT count(*) FROM vectors_384), sum(chunk_count)"
            [(chunks, vectors, counted)] = connection.execute(f"{counts} FROM space_documents").fetchall()
        assert chunks == vectors == counted > 6


def test_a_backlog_that_is_killed_is_indexed_by_the_next_process(service_process) -> None:
    with embeddings_server(seconds_a_text=0.02) as embeddings:
        process = service_process(**embeddings, CARREL_INLINE_INDEXING_SECONDS="0", CARREL_SWEEP_SECONDS="1")

        for number in range(6):
            ok(upload(process, f"log-{number}", long_text(number, kilobytes=20)))
        process.kill()
        claim_for_an_hour(process)
        process.start()
        until(lambda: ok(process.call("admin/status/get"))["indexing"]["done"] == 6, 90)


@pytest.mark.slow
def test_a_start_goes_on_when_an_organizations_claims_can_not_be_released(service_process) -> None:
    with embeddings_server() as embeddings:
        process = service_process(**embeddings)
        process.kill()
        with connect(process.database_server().url(user=SUPERUSER)) as connection:
            connection.execute("""
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON space_documents EXECUTE FUNCTION refuse();
""")
        process.start()
    assert "claims_not_released" in process.log.read_text()


@pytest.mark.long
def test_searches_are_answered_beside_uploads(service_process: Callable[..., ServiceProcess]) -> None:
    process = service_process(CARREL_INLINE_INDEXING_SECONDS="0", CARREL_RATE_LIMIT_REQUESTS="0")
    # However slow the machine is, all are answered in the end.
    process.http.timeout = 600
    ends = time.monotonic() + 30
    statuses: list[int] = []

    def keep_searching(number: int) -> None:
        while time.monotonic() < ends:
            answer = process.call("search/searchDocumentCatalog", {"searchQuery": f"tide and wind of ferry {number}"})
            statuses.append(answer.status_code)

    def keep_uploading(number: int) -> None:
        sent = 0
        while time.monotonic() < ends:
            answer = upload(process, f"log-{number}-{sent}", long_text(1000 * number + sent))
            assert answer.status_code in {200, 503}
            sent += 1

    with ThreadPoolExecutor(UPLOADERS + SEARCHERS) as threads:
        doing = [threads.submit(keep_uploading, number) for number in range(UPLOADERS)]
        doing += [threads.submit(keep_searching, number) for number in range(SEARCHERS)]
        for each in doing:
            each.result()
    assert set(statuses) == {200}
    assert len(statuses) > SEARCHERS
