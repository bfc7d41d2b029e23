"""Rebuilds with concurrent operations: each test stops a transaction, and lets a second pass."""

from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import AsyncMock
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.agents.answering import retrieval
from service.domains.documents.catalog import writing as uploads
from service.domains.documents.rebuilds import service as rules
from service.domains.search import pipeline
from service.domains.search import queries as search_queries
from service.index import queries as index_queries
from service.index.ingestion import indexing
from service.index.rebuilds import queries, running
from service.index.rebuilds.queries import RunningRebuild
from service.index.spaces.queries import SearchedSpace
from service.runtime import Runtime
from tests.answering.asking import Library
from tests.harness.cases import statement
from tests.harness.documents import add_to_collection, chunks, ok, refused, upload, uploaded
from tests.harness.embeddings import MODEL
from tests.harness.services import RunningService
from tests.service.directory import on_rows, organization_id
from tests.service.races import Race
from tests.service.rebuilds import LOCAL, TEXTS, Shelf, a_shelf, let_time_pass, places, wait_blocked


def ready(shelf: Shelf) -> RunningRebuild:
    shelf.start()
    runtime, organization = shelf.service.runtime, organization_id(shelf.service)

    async def work() -> RunningRebuild:
        rebuild = await the_rebuild(runtime, organization)
        await running.know_from_now(runtime.indexer, organization, rebuild)
        while await running.copy_batch(runtime.indexer, organization, rebuild):
            pass
        while await running._index_batch(runtime.indexer, organization, rebuild):
            pass
        return await the_rebuild(runtime, organization)

    return shelf.service.run(work())


async def the_rebuild(runtime: Runtime, organization: UUID) -> RunningRebuild:
    async with runtime.database.transaction(organization) as connection:
        [rebuild] = await queries.list_running(connection, organization)
    return rebuild


def swap(service: RunningService, rebuild: RunningRebuild) -> Coroutine[Any, Any, bool]:
    return running.try_swap(service.runtime.indexer, organization_id(service), rebuild)


def test_an_upload_that_is_in_the_middle_of_it_is_in_the_new_index(shelf: Shelf, race: Race) -> None:
    rebuild = ready(shelf)
    race.stop_behind(uploads, "_write_document")
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
    rebuild = ready(shelf)
    race.stop_before(indexing.Work, "_embed_chunks")
    adding = race.begin(shelf.add, "gull", "The gull follows the boat.")
    # Its words can be found in the old index already.
    assert not shelf.service.run(swap(shelf.service, rebuild))
    race.release()
    adding.result(60)
    shelf.finish()
    assert shelf.model() == MODEL
    assert shelf.search("gull boat")[0] == "gull.txt"


def test_a_version_that_is_being_indexed_in_the_old_index_alone_holds_the_swap_back(shelf: Shelf, race: Race) -> None:
    rebuild = ready(shelf)
    race.stop_behind(index_queries, "write_words")
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


@pytest.mark.parametrize(
    ("place", "name"), [(pipeline, "embed"), (search_queries, "find_candidates")], ids=["before", "within"]
)
def test_a_search_that_an_index_is_replaced_under_is_whole(shelf: Shelf, race: Race, place: object, name: str) -> None:
    ready(shelf)
    race.stop_behind(place, name)
    searching = race.begin(shelf.search, "the lamp at dusk")
    shelf.finish()
    if name == "embed":
        let_time_pass(shelf.service, "30 minutes")
        shelf.take_all_steps()
    race.release()
    found = searching.result(60)
    assert (found[0], sorted(found)) == ("lamp.txt", ["crew.txt", "ferry.txt", "lamp.txt"])


def test_an_agent_finds_passages_in_the_index_that_is_searched_by_then(paused: RunningService, race: Race) -> None:
    shelf = a_shelf(paused, *TEXTS)
    ready(shelf)
    race.stop_behind(pipeline, "embed")
    collection = str(shelf.collection_id)
    asked = retrieval.retrieve(
        paused.runtime,
        Library(paused, collection).caller(),
        collection_ids=[UUID(collection)],
        lookup=retrieval.Lookup("the lamp at dusk", 3),
    )
    retrieving = race.begin(paused.run, asked)
    shelf.finish()
    let_time_pass(paused, "30 minutes")
    shelf.take_all_steps()
    race.release()
    names = [passage.document_name for passage in retrieving.result(60).passages]
    assert (names[0], len(names)) == ("lamp.txt", 3)


@pytest.mark.parametrize("operation", ["removeDocumentFromCollection", "deleteDocument"])
def test_a_document_that_goes_while_it_is_copied_is_in_neither_index(paused, race, operation) -> None:
    shelf = a_shelf(paused, "ferry", "lamp")
    document_id = shelf.add("gull", "The gull follows the boat.")
    shelf.start()
    race.stop_behind(running, "_copy_chunks")
    copying = race.begin(shelf.take_all_steps)

    def remove() -> Any:
        if operation == "deleteDocument":
            return paused.call("catalog/deleteDocument", {"documentId": document_id})
        return add_to_collection(paused, document_id, str(shelf.collection_id), operation=operation)

    removing = race.begin_blocked(paused, remove)
    race.release()
    ok(removing.result(60))
    copying.result(60)
    shelf.finish()
    assert not [key for key in places(paused) if key[0] == "gull.txt"]
    assert "gull.txt" not in shelf.search("gull boat")


def beside_a_swap(shelf: Shelf, race: Race, work: Callable[..., Any], *args: Any) -> Any:
    ready(shelf)
    race.stop_behind(queries, "swap")
    swapping = race.begin(shelf.take_all_steps)
    waiting = race.begin_blocked(shelf.service, work, *args)
    race.release()
    swapping.result(60)
    return waiting.result(60)


def test_a_cancel_comes_too_late_for_a_swap_that_has_begun(shelf: Shelf, race: Race) -> None:
    refused(beside_a_swap(shelf, race, shelf.call, "cancel"), 409, "rebuild_over")
    assert (shelf.model(), shelf.state()["status"]) == (MODEL, "COMPLETED")


def test_a_swap_comes_too_late_for_a_cancel_that_has_begun(shelf: Shelf, race: Race) -> None:
    rebuild = ready(shelf)
    race.stop_behind(rules, "_record")
    cancelling = race.begin(shelf.call, "cancel")
    swapping = race.begin_blocked(shelf.service, shelf.service.run, swap(shelf.service, rebuild))
    race.release()
    ok(cancelling.result(60))
    swapping.result(60)
    assert (shelf.model(), shelf.state()["status"]) == (LOCAL, "CANCELLED")


def test_a_collection_that_is_deleted_while_its_index_is_swapped_is_gone(paused: RunningService, race: Race) -> None:
    shelf = a_shelf(paused, "ferry", "lamp")
    body = {"documentCollectionId": shelf.collection_id}
    ok(beside_a_swap(shelf, race, paused.call, "documentCollections/deleteDocumentCollection", body))
    let_time_pass(paused)
    shelf.take_all_steps()
    assert places(paused) == {}
    assert on_rows(paused, "SELECT count(*) FROM spaces", more="AND NOT is_catalog") == [(0,)]


def test_an_editor_that_waits_for_a_swap_adds_to_the_new_index(paused: RunningService, race: Race) -> None:
    shelf = a_shelf(paused, "ferry")
    document_id = ok(upload(paused, "gull", "The gull follows the boat.", file_name="gull.txt"))["documentId"]
    adding = beside_a_swap(shelf, race, add_to_collection, paused, document_id, str(shelf.collection_id))
    assert ok(adding)["status"] == "INDEXED"
    assert shelf.search("gull boat")[0] == "gull.txt"


def test_what_a_transaction_of_before_the_rebuild_adds_is_in_the_new_index(paused, monkeypatch) -> None:
    shelf = a_shelf(paused, "ferry")
    document_id = uploaded(paused, "gull", "The gull follows the boat.", file_name="gull.txt")["documentId"]
    monkeypatch.setattr(running, "OLDER_SECONDS", 0)
    entry = """
    INSERT INTO space_documents (document_id, space_id, organization_id, version)
    SELECT %s, c.space_id, c.organization_id, 1 FROM collections c WHERE c.collection_id = %s
    """
    with paused.owner_connection() as later, later.transaction():
        with paused.owner_connection() as connection, connection.transaction():
            connection.execute("SELECT pg_current_xact_id()")
            shelf.start()
            shelf.take_all_steps()
            assert (shelf.model(), shelf.state()["indexedCount"]) == (LOCAL, 1)
            later.execute("SELECT pg_current_xact_id()")
            connection.execute(entry, [document_id, shelf.collection_id])
        shelf.finish()
    assert shelf.search("gull boat")[0] == "gull.txt"


def test_a_rebuild_begins_though_its_documents_can_not_be_counted(paused, monkeypatch) -> None:
    """Counting may exceed the statement timeout; the answer then has no counts."""
    shelf = a_shelf(paused, "ferry")

    async def count(connection: AsyncConnection, *_: object, **__: object) -> None:
        await connection.execute(text("SELECT set_config('statement_timeout', '1', true)"))
        await connection.execute(text("SELECT pg_sleep(1)"))

    with monkeypatch.context() as patch:
        patch.setattr(queries, "count_progress", count)
        started = shelf.start()
    assert (started["status"], started.get("documentCount")) == ("RUNNING", None)
    shelf.finish()


def test_a_version_that_the_old_index_waits_for_is_in_the_new_one(paused: RunningService) -> None:
    """The old index is replaced, for example, because of a missing model."""
    shelf = a_shelf(paused, "ferry")
    ready(shelf)
    waits = """
    UPDATE space_documents SET indexed_version = NULL, claimed_until = now() + interval '1 hour'
    FROM collections WHERE collections.space_id = space_documents.space_id AND collection_id = %s
    """
    paused.execute(waits, [shelf.collection_id])
    changed = "The ferry leaves at one now."
    document_id = uploaded(paused, "ferry", changed, file_name="ferry.txt", reindexCollections="false")["documentId"]
    shelf.finish()
    assert chunks(paused, document_id, shelf.collection_id) == [changed]


FILL = statement("many_documents_of_a_collection")
READ = """
    SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')
"""


async def count_read(connection: AsyncConnection) -> int:
    return int((await connection.execute(text(READ))).scalar_one())


@pytest.mark.usefixtures("embeddings")
def test_the_swap_reads_nothing_that_has_not_changed(make_service, monkeypatch) -> None:
    monkeypatch.setattr(rules, "_run_now", AsyncMock())
    service = make_service(sweep_seconds=3600)
    rebuild = ready(a_shelf(service, "ferry"))
    service.execute(FILL)
    assert service.run(look_on(service, organization_id(service), rebuild)) < 500
    rows: list[int] = []
    lock, replace = running._lock, queries.swap

    async def count_and_lock(connection: AsyncConnection, *arguments: Any) -> SearchedSpace | None:
        rows.append(await count_read(connection))
        return await lock(connection, *arguments)

    async def swap_and_count(connection: AsyncConnection, *arguments: Any, **options: Any) -> None:
        await replace(connection, *arguments, **options)
        rows.append(await count_read(connection))

    monkeypatch.setattr(running, "_lock", count_and_lock)
    monkeypatch.setattr(queries, "swap", swap_and_count)
    assert service.run(swap(service, rebuild))
    before, after = rows
    assert 0 < after - before < 500


async def look_on(service: RunningService, organization: UUID, rebuild: RunningRebuild) -> int:
    some = "SELECT document_id FROM space_documents WHERE space_id = :old ORDER BY document_id OFFSET 19990 LIMIT 1"
    async with service.runtime.database.transaction(organization) as connection:
        after = (await connection.execute(text(some), {"old": rebuild.replaces_space_id})).scalar_one()
    async with service.runtime.database.transaction(organization) as connection:
        spaces = {"old_id": rebuild.replaces_space_id, "new_id": rebuild.space_id}
        before = await count_read(connection)
        assert not await queries.list_missing_entries(connection, organization, **spaces, after=after, limit=200)
        return await count_read(connection) - before


def test_starts_at_once_are_one_rebuild(shelf: Shelf, race: Race) -> None:
    answers = [each.result(60) for each in [race.beside(shelf.start) for _ in range(4)]]
    assert len({answer["indexRebuildId"] for answer in answers}) == 1
    shelf.finish()


def test_replicas_share_a_rebuild_and_do_nothing_twice(shelf, embeddings, race) -> None:
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
