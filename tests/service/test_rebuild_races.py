"""Rebuilds beside everything else: each test stops one in the middle of its transaction, and lets another come by."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from fastapi import Request
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.auth.callers import Caller
from service.domains.answering import retrieval
from service.domains.catalog import uploads
from service.domains.rebuilds import service as rules
from service.domains.search import queries as search_queries
from service.domains.search.searching import Search
from service.index.ingestion import indexing, writing
from service.index.rebuilds import queries, running
from service.index.rebuilds.comparison import queries as comparison
from service.index.rebuilds.queries import RunningRebuild
from service.web.dependencies import current_caller
from tests.harness.documents import add_to_collection, chunks, ok, refused, upload, uploaded
from tests.harness.embeddings import MODEL, EmbeddingsEndpoint
from tests.harness.services import RunningService
from tests.service.races import Race, race_with
from tests.service.rebuilds import LOCAL, TEXTS, Shelf, a_shelf, let_time_pass, places, wait_blocked


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Iterator[Race]:
    """A race that is over at the end of the test."""
    with race_with(monkeypatch) as race:
        yield race


@pytest.fixture
def quiet(make_service: Callable[..., RunningService], monkeypatch: pytest.MonkeyPatch) -> RunningService:
    """A service whose rebuilds take no step of themselves."""

    async def nothing(*_: object) -> None:
        """Leave it to the test."""

    monkeypatch.setattr(rules, "_run_now", nothing)
    return make_service(sweep_seconds=3600, database_pool_size=10)


@pytest.fixture(params=["collection", "catalog"])
def shelf(request: pytest.FixtureRequest, quiet: RunningService, embeddings: EmbeddingsEndpoint) -> Shelf:
    """Three documents in a collection, or in the catalog alone."""
    del embeddings
    shelf = a_shelf(quiet) if request.param == "collection" else Shelf(quiet, None)
    for name in TEXTS:
        shelf.add(name)
    return shelf


def ready(shelf: Shelf) -> RunningRebuild:
    """Start a rebuild, take every step but the swap, and return it; the swap waits for nobody who begins later."""
    shelf.start()

    async def work() -> None:
        runtime = shelf.service.runtime
        [organization_id] = await running.organization_ids(runtime.database)
        rebuild = await the_rebuild(shelf.service)
        await running.know_from_now(runtime.indexer, organization_id, rebuild)
        while await running.copy_batch(runtime.indexer, organization_id, rebuild):
            pass
        while await running._index_batch(runtime.indexer, organization_id, rebuild):
            pass

    shelf.service.run(work())
    return shelf.service.run(the_rebuild(shelf.service))


async def swap(service: RunningService, rebuild: RunningRebuild) -> bool:
    """Try to swap, whatever else there may be to do."""
    [organization_id] = await running.organization_ids(service.runtime.database)
    return await running.try_swap(service.runtime.indexer, organization_id, rebuild)


def the_admin(service: RunningService) -> Caller:
    """The admin, as queries know them."""
    request = Request(
        {
            "type": "http",
            "path": "/api/v0/",
            "client": ("127.0.0.1", 1),
            "headers": [(b"authorization", f"Bearer {service.api_key}".encode())],
        }
    )
    return service.run(current_caller(request, service.runtime))


async def the_rebuild(service: RunningService) -> RunningRebuild:
    """The one that runs."""
    [organization_id] = await running.organization_ids(service.runtime.database)
    async with service.runtime.database.transaction(organization_id) as connection:
        [rebuild] = await queries.list_running(connection, organization_id)
    return rebuild


def test_an_upload_that_is_in_the_middle_of_it_is_in_the_new_index(shelf: Shelf, race: Race) -> None:
    """The swap waits for its transaction; the upload then waits for the index that is searched by that time."""
    rebuild = ready(shelf)
    race.stop_behind(uploads, "_write")
    adding = race.begin(shelf.add, "gull", "The gull follows the boat.")
    swapping = race.begin_blocked(shelf.service, shelf.service.run, swap(shelf.service, rebuild))
    assert shelf.model() == LOCAL
    race.release()
    document_id = adding.result(60)
    swapping.result(60)
    shelf.finish()
    assert shelf.search("gull boat")[0] == "gull.txt"
    assert chunks(shelf.service, document_id, shelf.collection_id) == ["The gull follows the boat."]


def test_an_upload_that_an_index_is_replaced_under_is_found_when_it_says_so(shelf: Shelf, race: Race) -> None:
    """It was to be indexed in the old one; by its answer it is searchable in the new one."""
    rebuild = ready(shelf)
    race.stop_before(indexing.Work, "_embed_chunks")
    adding = race.begin(shelf.add, "gull", "The gull follows the boat.")
    assert shelf.service.run(swap(shelf.service, rebuild))
    assert shelf.model() == MODEL
    race.release()
    adding.result(60)
    assert shelf.search("gull boat")[0] == "gull.txt"


def test_a_version_that_is_being_indexed_in_the_old_index_alone_holds_the_swap_back(shelf: Shelf, race: Race) -> None:
    """Whoever has been told that it is searchable finds it, before and after the swap."""
    rebuild = ready(shelf)
    race.stop_behind(writing, "write_index")
    changing = race.begin(shelf.add, "ferry", "The ferry leaves at one now.")
    swapping = race.beside(shelf.service.run, swap(shelf.service, rebuild))
    if shelf.collection_id is None:
        # What has stopped writes into the catalog's index; the collection's waits for nobody.
        wait_blocked(shelf.service)
    race.release()
    changing.result(60)
    if shelf.collection_id is None:
        assert swapping.result(60) is False
    else:
        swapping.result(60)
    assert shelf.search("ferry at one now")[0] == "ferry.txt"
    shelf.finish()
    document_id = shelf.add("ferry", "The ferry leaves at one now.")
    assert chunks(shelf.service, document_id, shelf.collection_id) == ["The ferry leaves at one now."]


def test_a_search_that_an_index_is_replaced_under_answers_from_the_new_one(shelf: Shelf, race: Race) -> None:
    """Its query was embedded for an index that is gone by the time of its snapshot: it is embedded again."""
    ready(shelf)
    race.stop_behind(Search, "prepare")
    searching = race.begin(shelf.search, "the lamp at dusk")
    shelf.finish()
    let_time_pass(shelf.service, "30 minutes")
    shelf.take_all_steps()
    race.release()
    found = searching.result(60)
    assert (found[0], sorted(found)) == ("lamp.txt", ["crew.txt", "ferry.txt", "lamp.txt"])


def test_a_search_that_has_its_snapshot_reads_the_old_index_to_its_end(shelf: Shelf, race: Race) -> None:
    """Between its legs and its texts the index is replaced: the answer is whole all the same."""
    ready(shelf)
    race.stop_behind(search_queries, "find_candidates")
    searching = race.begin(shelf.search, "the lamp at dusk")
    shelf.finish()
    race.release()
    found = searching.result(60)
    assert (found[0], sorted(found)) == ("lamp.txt", ["crew.txt", "ferry.txt", "lamp.txt"])


def test_an_agent_finds_passages_in_the_index_that_is_searched_by_then(
    quiet: RunningService,
    embeddings: EmbeddingsEndpoint,
    race: Race,
) -> None:
    """Retrieval embeds its query again too when the index is replaced under it."""
    del embeddings
    shelf = a_shelf(quiet, *TEXTS)
    ready(shelf)
    race.stop_behind(retrieval, "_prepare_query")
    caller = the_admin(quiet)
    asked = retrieval.retrieve(
        quiet.runtime,
        caller,
        collection_ids=[UUID(str(shelf.collection_id))],
        lookup=retrieval.Lookup("the lamp at dusk", 3),
    )
    retrieving = race.begin(quiet.run, asked)
    shelf.finish()
    let_time_pass(quiet, "30 minutes")
    shelf.take_all_steps()
    race.release()
    passages = retrieving.result(60).passages
    names = [passage.document_name for passage in passages]
    assert (names[0], len(names)) == ("lamp.txt", 3)


@pytest.mark.usefixtures("embeddings")
@pytest.mark.parametrize("operation", ["removeDocumentFromCollection", "deleteDocument"])
def test_a_document_that_goes_while_it_is_copied_is_in_neither_index(
    quiet: RunningService,
    race: Race,
    operation: str,
) -> None:
    """Its place in the new index is there before the removal goes on, which waits for the copy."""
    shelf = a_shelf(quiet, "ferry", "lamp")
    document_id = shelf.add("gull", "The gull follows the boat.")
    shelf.start()
    race.stop_behind(running, "_copy_chunks")
    copying = race.begin(shelf.take_all_steps)

    def remove() -> Any:
        if operation == "deleteDocument":
            return quiet.call("catalog/deleteDocument", {"documentId": document_id})
        return add_to_collection(quiet, document_id, str(shelf.collection_id), operation=operation)

    removing = race.begin_blocked(quiet, remove)
    race.release()
    ok(removing.result(60))
    copying.result(60)
    shelf.finish()
    assert not [key for key in places(quiet) if key[0] == "gull.txt"]
    assert "gull.txt" not in shelf.search("gull boat")


def test_a_cancel_comes_too_late_for_a_swap_that_has_begun(shelf: Shelf, race: Race) -> None:
    """It waits for the swap, and says then that the rebuild is over."""
    ready(shelf)
    race.stop_behind(queries, "swap")
    swapping = race.begin(shelf.take_all_steps)
    cancelling = race.begin_blocked(shelf.service, shelf.call, "cancel")
    race.release()
    refused(cancelling.result(60), 409, "rebuild_over")
    swapping.result(60)
    assert (shelf.model(), shelf.state()["status"]) == (MODEL, "COMPLETED")


def test_a_swap_comes_too_late_for_a_cancel_that_has_begun(shelf: Shelf, race: Race) -> None:
    """It waits for the cancel, and leaves the index as it is."""
    rebuild = ready(shelf)
    race.stop_behind(rules, "_record")
    cancelling = race.begin(shelf.call, "cancel")
    swapping = race.begin_blocked(shelf.service, shelf.service.run, swap(shelf.service, rebuild))
    race.release()
    ok(cancelling.result(60))
    swapping.result(60)
    assert (shelf.model(), shelf.state()["status"]) == (LOCAL, "CANCELLED")


def test_a_collection_that_is_deleted_while_its_index_is_swapped_is_gone(
    quiet: RunningService,
    embeddings: EmbeddingsEndpoint,
    race: Race,
) -> None:
    """The deletion waits for the swap and removes what is searched by then; of the rest nothing stays."""
    del embeddings
    shelf = a_shelf(quiet, "ferry", "lamp")
    ready(shelf)
    race.stop_behind(queries, "swap")
    swapping = race.begin(shelf.take_all_steps)
    body = {"documentCollectionId": shelf.collection_id}
    deleting = race.begin_blocked(quiet, quiet.call, "documentCollections/deleteDocumentCollection", body)
    race.release()
    ok(deleting.result(60))
    swapping.result(60)
    let_time_pass(quiet)
    shelf.take_all_steps()
    assert places(quiet) == {}
    with quiet.owner_connection() as connection:
        assert connection.execute("SELECT count(*) FROM spaces WHERE NOT is_catalog").fetchone() == (0,)


def test_an_editor_that_waits_for_a_swap_adds_to_the_new_index(
    quiet: RunningService,
    embeddings: EmbeddingsEndpoint,
    race: Race,
) -> None:
    """The collection is found, though its space is another one than when the editor began to wait."""
    del embeddings
    shelf = a_shelf(quiet, "ferry")
    document_id = ok(upload(quiet, "gull", "The gull follows the boat.", file_name="gull.txt"))["documentId"]
    ready(shelf)
    race.stop_behind(queries, "swap")
    swapping = race.begin(shelf.take_all_steps)
    adding = race.begin_blocked(quiet, add_to_collection, quiet, document_id, str(shelf.collection_id))
    race.release()
    assert ok(adding.result(60))["status"] == "INDEXED"
    swapping.result(60)
    assert shelf.search("gull boat")[0] == "gull.txt"


def test_what_a_transaction_of_before_the_rebuild_adds_is_in_the_new_index(
    quiet: RunningService, embeddings: EmbeddingsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows of the old index alone. The swap waits for it, copies what it has added, and waits for nobody later."""
    del embeddings
    shelf = a_shelf(quiet, "ferry")
    document_id = uploaded(quiet, "gull", "The gull follows the boat.", file_name="gull.txt")["documentId"]
    monkeypatch.setattr(running, "OLDER_SECONDS", 0)
    entry = """
    INSERT INTO space_documents (document_id, space_id, organization_id, version)
    SELECT %s, c.space_id, c.organization_id, 1 FROM collections c WHERE c.collection_id = %s
    """
    with quiet.owner_connection() as later, later.transaction():
        with quiet.owner_connection() as connection, connection.transaction():
            connection.execute("SELECT pg_current_xact_id()")
            shelf.start()
            shelf.take_all_steps()
            assert (shelf.model(), shelf.state()["indexedCount"]) == (LOCAL, 1)
            later.execute("SELECT pg_current_xact_id()")
            connection.execute(entry, [document_id, shelf.collection_id])
        shelf.finish()
    assert shelf.search("gull boat")[0] == "gull.txt"


def test_a_rebuild_begins_though_its_documents_can_not_be_counted(
    quiet: RunningService, embeddings: EmbeddingsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting may take longer than a statement may; the answer goes without the counts."""
    del embeddings
    shelf = a_shelf(quiet, "ferry")

    async def count(connection: AsyncConnection, *_: object, **__: object) -> None:
        await connection.execute(text("SELECT set_config('statement_timeout', '1', true)"))
        await connection.execute(text("SELECT pg_sleep(1)"))

    with monkeypatch.context() as patch:
        patch.setattr(comparison, "count_progress", count)
        started = shelf.start()
    assert (started["status"], started.get("documentCount")) == ("RUNNING", None)
    shelf.finish()


def test_a_version_that_the_old_index_waits_for_is_in_the_new_one(
    quiet: RunningService, embeddings: EmbeddingsEndpoint
) -> None:
    """The old index is replaced because its model is gone, say: it waits for a version, and the new one has it."""
    del embeddings
    shelf = a_shelf(quiet, "ferry")
    ready(shelf)
    waits = """
    UPDATE space_documents SET indexed_version = NULL, claimed_until = now() + interval '1 hour'
    FROM collections WHERE collections.space_id = space_documents.space_id
    """
    with quiet.owner_connection() as connection:
        connection.execute(waits)
    changed = "The ferry leaves at one now."
    document_id = uploaded(quiet, "ferry", changed, file_name="ferry.txt", reindexCollections="false")["documentId"]
    shelf.finish()
    assert chunks(quiet, document_id, shelf.collection_id) == [changed]


FILL = """
    SET session_replication_role = replica;
    CREATE TEMPORARY TABLE made AS SELECT gen_random_uuid() AS id FROM generate_series(1, 5000);
    INSERT INTO resources SELECT (json_populate_record(r, json_build_object('object_id', id, 'resource_id', id))).*
    FROM made, (SELECT r FROM resources r JOIN documents ON document_id = object_id LIMIT 1) AS one(r);
    INSERT INTO space_documents SELECT (json_populate_record(p, json_build_object('document_id', id))).*
    FROM made, space_documents p JOIN spaces USING (space_id) WHERE NOT is_catalog;
    ANALYZE resources, space_documents
"""
READ = """
    SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')
"""


async def count_read(connection: AsyncConnection) -> int:
    """How many rows and entries of indexes the transaction has read."""
    return int((await connection.execute(text(READ))).scalar_one())


def test_the_swap_reads_nothing_that_has_not_changed(
    quiet: RunningService, embeddings: EmbeddingsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait for its lock, so it reads few of the entries, and of no table all rows, however many there are.

    To look on for what is missing reads nothing of what was looked through before.
    """
    del embeddings
    shelf = a_shelf(quiet, "ferry")
    rebuild = ready(shelf)
    with quiet.owner_connection() as connection:
        connection.execute(FILL)
    assert quiet.run(look_on(quiet, rebuild)) < 500
    rows: list[int] = []
    replace = queries.swap

    async def swap_and_count(connection: AsyncConnection, *arguments: Any, **options: Any) -> None:
        await replace(connection, *arguments, **options)
        rows.append(await count_read(connection))

    monkeypatch.setattr(queries, "swap", swap_and_count)
    assert quiet.run(swap(quiet, rebuild))
    assert len(rows) == 1
    assert rows[0] < 500


async def look_on(service: RunningService, rebuild: RunningRebuild) -> int:
    """Look for what is missing after the first 4950 entries, which is nothing; return how much that read."""
    [organization_id] = await running.organization_ids(service.runtime.database)
    some = "SELECT document_id FROM space_documents WHERE space_id = :old ORDER BY document_id OFFSET 4950 LIMIT 1"
    async with service.runtime.database.transaction(organization_id) as connection:
        after = (await connection.execute(text(some), {"old": rebuild.replaces_space_id})).scalar_one()
    async with service.runtime.database.transaction(organization_id) as connection:
        spaces = {"old_id": rebuild.replaces_space_id, "new_id": rebuild.space_id}
        assert not await comparison.list_missing_entries(connection, organization_id, **spaces, after=after, limit=200)
        return await count_read(connection)


def test_starts_at_once_are_one_rebuild(shelf: Shelf, race: Race) -> None:
    """The second waits for the first and finds it running."""
    answers = [each.result(60) for each in [race.beside(shelf.start) for _ in range(4)]]
    assert len({answer["indexRebuildId"] for answer in answers}) == 1
    shelf.finish()


def test_replicas_share_a_rebuild_and_do_nothing_twice(
    shelf: Shelf, embeddings: EmbeddingsEndpoint, race: Race
) -> None:
    """Three go on with it at once: each document is embedded once, and the swap is made once."""
    for number in range(12):
        shelf.add(f"note-{number}", f"Note number {number} of the log.")
    shelf.start()
    embeddings.texts.clear()
    for each in [race.beside(shelf.take_all_steps) for _ in range(3)]:
        each.result(120)
    shelf.finish()
    assert len(embeddings.texts) == len(set(embeddings.texts)) == 15
    found = shelf.search("note", **({} if shelf.collection_id else {"searchOptions": {"maxResults": 100}}))
    assert len(found) == len(set(found))
