"""What search holds while the world changes, and how PostgreSQL answers it."""

import asyncio
import threading
from typing import Any

from psycopg import AsyncRawCursor
from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.search import queries
from service.permissions.access import Access
from service.platform.batches import Batch
from tests.harness.corpus import Corpus
from tests.harness.documents import ok

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
    [[plan]] = plans
    # To see whether much may be read, and to find the nearest.
    scans = [node for node in nodes(plan[0]["Plan"]) if node.get("Relation Name") == "code_pages_384"]
    assert len(scans) == 2
    for scan in scans:
        assert (scan["Node Type"], scan["Index Name"]) == ("Index Only Scan", "ix_code_pages_384_class")
        assert scan["Heap Fetches"] == 0
        assert "access_class" in scan["Index Cond"]


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes(child))]
