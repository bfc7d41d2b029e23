"""Promises of search under changes, PostgreSQL's plans, and the number of messages of a search and an upload."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import AsyncRawCursor
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.search import SearchMode
from service.domains.search import queries, sql
from service.permissions.access import Access
from service.platform.batches import Batch
from service.platform.logs import request_id
from tests.harness.corpus import Corpus
from tests.harness.documents import create_collection, get_document, ok, uploaded
from tests.harness.messages import OURS, messages_of
from tests.harness.services import ADMIN_EMAIL, RunningService, ServiceHarness

SEARCH = "search/searchDocumentCatalog"


async def test_a_document_being_indexed_again_is_found_whole(service, corpus: Corpus) -> None:
    versions = [[f"ship number {number} of version {version}" for number in range(12)] for version in range(2)]
    document_id = await corpus.add("Ships", versions[0])
    stop = threading.Event()

    async def rewrite() -> int:
        version = 1
        while not stop.is_set():
            version += 1
            assert await corpus.rewrite(document_id, "Ships", versions[version % 2], wanted=version, version=version)
        return version

    def search() -> set[str]:
        seen: set[str] = set()
        for _ in range(40):
            answer = ok(service.call(SEARCH, {"searchQuery": "ship version 0 1", "searchOptions": {"maxResults": 5}}))
            [result] = answer["results"]
            seen.add(result["snippet"]["text"].rpartition(" ")[2])
        stop.set()
        return seen

    rewrites, seen = await asyncio.gather(rewrite(), asyncio.to_thread(search))
    assert rewrites > 5
    assert seen <= {"0", "1"}


async def test_one_search_reads_one_snapshot(service, corpus: Corpus, monkeypatch: Any) -> None:
    document_id = await corpus.add("Ships", ["the ship of old"])
    score_near = queries.score_near

    async def after_a_change(*args: Any, **options: Any) -> Any:
        await asyncio.to_thread(lambda: asyncio.run(change()))
        return await score_near(*args, **options)

    async def change() -> None:
        other = await Corpus.open(service)
        await other.rewrite(document_id, "Ships", ["the ship of new"])
        await other.close()

    monkeypatch.setattr(queries, "score_near", after_a_change)
    [result] = ok(service.call(SEARCH, {"searchQuery": "ship"}))["results"]
    assert result["snippet"]["text"] == "the ship of old"
    monkeypatch.undo()
    [result] = ok(service.call(SEARCH, {"searchQuery": "ship"}))["results"]
    assert result["snippet"]["text"] == "the ship of new"


async def test_a_long_document_leaves_room_for_others(service, corpus: Corpus) -> None:
    await corpus.add("Ships", [f"ship number {number}" for number in range(400)])
    for number in range(12):
        await corpus.add(f"Note {number}", [f"a ship in note {number}"])
    for mode in ("HYBRID", "LEXICAL"):
        options = {"maxResults": 10, "mode": mode}
        results = ok(service.call(SEARCH, {"searchQuery": "ship number", "searchOptions": options}))["results"]
        assert len({result["documentId"] for result in results}) == 10


async def test_the_first_pass_is_an_index_only_scan(service, corpus: Corpus, monkeypatch) -> None:
    """As the service's own role, under row-level security, the code pages are read from their index alone."""
    everyone = Access(owner_id=None, viewers=frozenset({corpus.organization_id}), editors=frozenset())
    for number in range(60):
        await corpus.add(f"Note {number}", [f"a ship in note {number}"], access=everyone)
    with service.owner_connection() as owner:
        # A row counts as seen by all once its commit has reached the disk, for which the harness doesn't wait.
        for _ in range(100):
            owner.execute("VACUUM (ANALYZE) code_pages_384")
            pages = "SELECT relallvisible = relpages FROM pg_class WHERE relname = 'code_pages_384'"
            if owner.execute(pages).fetchone() == (True,):
                break
            await asyncio.sleep(0.1)
        owner.execute("VACUUM ANALYZE")
    plans: list[Any] = []
    monkeypatch.setattr(sql, "FEW_CHUNKS", 1)
    sql.whether_small.cache_clear()

    run = Batch.run

    async def explain(batch: Batch, connection: AsyncConnection) -> None:
        for part in batch.parts:
            if "code_pages_384" in part.text:
                driver: Any = (await connection.get_raw_connection()).driver_connection
                cursor = AsyncRawCursor(driver)
                await cursor.execute("SET LOCAL enable_seqscan = off")  # sixty rows alone would not be worth an index
                await cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {part.text}", part.values)  # pyright: ignore[reportArgumentType] - built
                plans.append(await cursor.fetchone())
        await run(batch, connection)

    monkeypatch.setattr(Batch, "run", explain)
    ok(service.call(SEARCH, {"searchQuery": "ship"}))
    sql.whether_small.cache_clear()
    [[plan]] = plans
    [scan] = [node for node in nodes(plan[0]["Plan"]) if node.get("Relation Name") == "code_pages_384"]
    assert (scan["Node Type"], scan["Index Name"]) == ("Index Only Scan", "ix_code_pages_384_class")
    assert scan["Heap Fetches"] == 0
    assert "access_class" in scan["Index Cond"]


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes(child))]


CATALOG, COLLECTION = "search/searchDocumentCatalog", "search/searchDocumentCollection"
MOST = 7
COUNTED = "ReadyForQuery"


@pytest.fixture(scope="module")
def fleet(service_harness: ServiceHarness) -> Iterator[tuple[RunningService, str]]:
    with service_harness.running(sweep_seconds=3600) as service:
        collection_id = create_collection(service, "Fleet")
        for number in range(4):
            uploaded(service, f"ship-{number}", f"The ship {number} sails at noon.", collectionId=collection_id)
        yield service, collection_id


@pytest.fixture
def answers(fleet: tuple[RunningService, str], tmp_path) -> Iterator[Callable[[], int]]:
    engine = fleet[0].runtime.database._engine.sync_engine
    path = tmp_path / "messages"
    with path.open("wb") as file:

        def trace(pooled, *_) -> None:
            if request_id() == OURS:
                pooled.driver_connection.pgconn.trace(file.fileno())

        def untrace(pooled, *_) -> None:
            pooled.driver_connection.pgconn.untrace()

        def count() -> int:
            found = path.read_text(errors="replace").count(COUNTED)
            before, seen[0] = seen[0], found
            return found - before

        seen = [0]
        fleet[0].http.headers["X-Request-Id"] = OURS
        event.listen(engine, "checkout", trace)
        event.listen(engine, "checkin", untrace)
        yield count
        event.remove(engine, "checkout", trace)
        event.remove(engine, "checkin", untrace)


@pytest.mark.parametrize("mode", [mode.value for mode in SearchMode])
@pytest.mark.parametrize("user", [None, ADMIN_EMAIL])
def test_a_search_waits_for_seven_answers_at_most(fleet, answers, mode, user) -> None:
    """In every mode, of the catalog and of a collection, also for another person; authentication included."""
    service, collection_id = fleet
    options = {"searchQuery": "ship", "searchOptions": {"mode": mode}} | ({"userEmail": user} if user else {})
    for operation, place in ((CATALOG, {}), (COLLECTION, {"documentCollectionId": collection_id})):
        counted = 0
        for _ in range(2):  # connections are opened and a credential's last use is noted by the first
            answers()
            assert len(ok(service.call(operation, options | place))["results"]) == 4
            counted = answers()
        assert 0 < counted <= MOST, operation


def test_an_upload_sends_few_messages(service: RunningService) -> None:
    """The words of a new document take seven, and its vectors three; of a changed document ten and four, because
    earlier vectors are looked for. Related statements share a message."""
    uploaded(service, "first", "The first ferry leaves at noon.")
    with messages_of(service) as created:
        uploaded(service, "second", "The second ferry leaves at one.")
    with messages_of(service) as changed:
        assert uploaded(service, "second", "The second ferry leaves at two.")["status"] == "UPDATED"
    assert sum("INSERT INTO audit_entries" in message for message in created) == 1
    assert len(created) <= 7 + 3, created
    assert len(changed) <= 10 + 4, changed


def test_a_document_that_comes_back_has_the_next_version(service: RunningService) -> None:
    document_id = uploaded(service, "ferry", "The ferry leaves at noon.")["documentId"]
    uploaded(service, "ferry", "The ferry leaves at one.")
    ok(service.call("catalog/deleteDocument", {"documentId": document_id}))
    answer = uploaded(service, "ferry", "The ferry leaves at two.")
    assert (answer["status"], answer["documentVersion"]) == ("CREATED", 3)
    assert [each["documentVersion"] for each in get_document(service, document_id)["versions"]] == [3]
    entries = ok(service.call("admin/auditLog/query", {"action": "document.create"}))["entries"]
    assert [entry["details"]["version"] for entry in entries] == [3, 1]
