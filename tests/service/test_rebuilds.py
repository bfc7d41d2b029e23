"""An index is rebuilt with another model next to the searched index, and swapped in at once."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from service.index.ingestion.sweeper import sweep
from service.index.rebuilds import queries, running
from tests.harness.documents import add_to_collection, chunks, create_collection, get_document, ok, refused, uploaded
from tests.harness.embeddings import MODEL, EmbeddingsEndpoint
from tests.service.directory import collection, document, grant, on_rows, organization_id, user
from tests.service.rebuilds import LOCAL, TEXTS, Shelf, a_shelf, let_time_pass, places
from tests.service.test_ingestion_recovery import wait_until


def test_a_rebuilt_index_finds_the_same_documents_by_another_model(shelf, embeddings) -> None:
    """The new model's vectors have other dimensions."""
    assert shelf.search("the lamp at dusk")[0] == "lamp.txt"
    started = shelf.start()
    models = started["embeddingsModel"], started["previousEmbeddingsModel"]
    assert (started["status"], *models) == ("RUNNING", MODEL, LOCAL)
    assert (started["documentCount"], started["indexedCount"], started["failedCount"]) == (3, 0, 0)
    assert shelf.model() == LOCAL
    assert sorted(shelf.search("lamp")) == ["crew.txt", "ferry.txt", "lamp.txt"]
    assert "documentCount" not in shelf.finish()
    assert shelf.model() == MODEL
    embeddings.texts.clear()
    assert shelf.search("the lamp at dusk")[0] == "lamp.txt"
    assert embeddings.texts == ["the lamp at dusk"]
    assert sorted(shelf.search("lamp")) == ["crew.txt", "ferry.txt", "lamp.txt"]


def test_documents_are_counted_and_listed_once_while_two_indexes_are_there(shelf: Shelf) -> None:
    service, document_id = shelf.service, shelf.add("ferry")

    def shown() -> list[Any]:
        listed = [ok(service.call("documentCollections/listDocumentCollections", {}))]
        if shelf.collection_id is not None:
            body = {"documentCollectionId": shelf.collection_id}
            listed.append(ok(service.call("documentCollections/listDocumentsInCollection", body)))
        return [*listed, get_document(service, document_id)["indexedIn"], chunks(service, document_id)]

    before = shown()
    shelf.start()
    assert shown() == before
    shelf.take_all_steps()
    after = shown()
    if shelf.collection_id is not None:
        assert after[0]["documentCollections"][0].pop("embeddingsModel") == MODEL
        assert before[0]["documentCollections"][0].pop("embeddingsModel") == LOCAL
    assert after == before


def test_an_upload_answers_done_though_the_new_index_waits(shelf: Shelf, embeddings: EmbeddingsEndpoint) -> None:
    shelf.start()
    embeddings.refuse("The")
    shelf.take_all_steps()
    shelf.add("gull", "The gull follows the boat.")
    shelf.add("ferry", "The ferry leaves at one now.")
    assert shelf.search("gull boat")[0] == "gull.txt"
    again = uploaded(shelf.service, "gull", "The gull follows the boat.", file_name="gull.txt")
    assert (again["status"], again["indexing"]) == ("UNCHANGED", "DONE")


def test_what_happens_during_a_rebuild_is_in_the_new_index(paused) -> None:
    shelf = Shelf(paused, create_collection(paused, "Shelf", team="STRING"))
    ids = {
        name: shelf.add(name, f"The {name} of old.")
        for name in ("kept", "changed", "moved", "cut", "removed", "deleted")
    }
    rounds: list[Callable[[], Any]] = [shelf.start, lambda: copy(shelf), lambda: None]
    for number, before in enumerate(rounds):
        before()
        shelf.add(f"new-{number}", f"The newcomer of round {number}.")
        shelf.add("changed", f"The changed of round {number}.")
        metadata = {"team": f"team {number}"}
        ok(add_to_collection(paused, ids["moved"], str(shelf.collection_id), customMetadata=metadata))
        shelf.add_chunks(ids["cut"], f"first of round {number}", "second")
        for operation, name in (("remove", "removed"), ("delete", "deleted")):
            here = shelf.add(f"{name}-{number}", f"The {name} of round {number}.")
            body = {"documentId": here}
            if operation == "remove":
                ok(add_to_collection(paused, here, str(shelf.collection_id), operation="removeDocumentFromCollection"))
            else:
                ok(paused.call("catalog/deleteDocument", body))
    ok(add_to_collection(paused, ids["removed"], str(shelf.collection_id), operation="removeDocumentFromCollection"))
    ok(paused.call("catalog/deleteDocument", {"documentId": ids["deleted"]}))
    shelf.finish()
    body = {"documentCollectionId": shelf.collection_id, "pageSize": 100}
    listed = ok(paused.call("documentCollections/listDocumentsInCollection", body))["documents"]
    found = {each["documentName"]: each for each in listed}
    assert found.keys() == {f"{name}.txt" for name in ("kept", "changed", "moved", "cut", "new-0", "new-1", "new-2")}
    assert not any(each["stale"] for each in listed)
    assert found["moved.txt"]["customMetadata"] == {"team": "team 2"}
    assert chunks(paused, ids["changed"], shelf.collection_id) == ["The changed of round 2."]
    assert chunks(paused, ids["cut"], shelf.collection_id) == ["first of round 2", "second"]
    assert sorted(shelf.search("of")) == sorted(found)


def copy(shelf: Shelf) -> None:
    runtime, organization = shelf.service.runtime, organization_id(shelf.service)

    async def work() -> None:
        async with runtime.database.transaction(organization) as connection:
            [rebuild] = await queries.list_running(connection, organization)
        while await running.copy_batch(runtime.indexer, organization, rebuild):
            pass

    shelf.service.run(work())


def test_chunks_of_a_callers_making_come_along_as_they_are(paused) -> None:
    shelf = a_shelf(paused, "ferry")
    document_id = uploaded(paused, "log", "A log.", file_name="log.txt")["documentId"]
    shelf.add_chunks(document_id, "the first anchor", "the second buoy")
    for model in (MODEL, LOCAL):
        shelf.start(model)
        shelf.finish()
        assert chunks(paused, document_id, shelf.collection_id) == ["the first anchor", "the second buoy"]
        assert shelf.search("second buoy")[0] == "log.txt"


def test_documents_that_fail_hold_the_swap_back_and_are_named(shelf: Shelf, embeddings: EmbeddingsEndpoint) -> None:
    embeddings.refuse("lamp")
    shelf.start()
    shelf.take_all_steps()
    state = shelf.state()
    assert (state["status"], state["indexedCount"], state["failedCount"]) == ("RUNNING", 2, 1)
    for _ in range(4):
        let_time_pass(shelf.service)
        shelf.take_all_steps()
    assert shelf.state()["status"] == "HELD"
    [failure] = shelf.failures()
    assert (failure["documentName"], failure["documentExternalId"], failure["attempts"]) == ("lamp.txt", "lamp", 5)
    assert "embeddings endpoint" in failure["error"]
    assert shelf.model() == LOCAL
    assert shelf.search("the lamp at dusk")[0] == "lamp.txt"
    embeddings.behave()
    assert shelf.start()["status"] == "RUNNING"
    shelf.finish()
    assert shelf.failures() == []


def test_a_forced_rebuild_goes_without_what_fails(shelf: Shelf, embeddings: EmbeddingsEndpoint) -> None:
    embeddings.refuse("lamp")
    shelf.start()
    shelf.take_all_steps()
    shelf.start(force=True)
    assert shelf.finish()["leftCount"] == 1
    assert sorted(shelf.search("harbour deck")) == ["crew.txt", "ferry.txt"]
    embeddings.behave()
    let_time_pass(shelf.service)
    shelf.service.run(sweep(shelf.service.runtime.indexer, shelf.service.runtime.disk))
    wait_until(lambda: shelf.search("the lamp at dusk")[0] == "lamp.txt")


def test_a_forced_rebuild_waits_for_what_was_not_tried_yet(shelf: Shelf, embeddings: EmbeddingsEndpoint) -> None:
    shelf.start(force=True)
    assert shelf.finish()["leftCount"] == 0
    assert len(embeddings.texts) == 3


def test_a_cancelled_rebuild_leaves_the_index_as_it_is(shelf: Shelf) -> None:
    shelf.start()
    copy(shelf)
    assert ok(shelf.call("cancel"))["status"] == "CANCELLED"
    refused(shelf.call("cancel"), 409, "rebuild_over")
    shelf.take_all_steps()
    assert (shelf.model(), shelf.state()["status"]) == (LOCAL, "CANCELLED")
    let_time_pass(shelf.service)
    shelf.take_all_steps()
    assert {model for _, model in places(shelf.service)} <= {LOCAL}
    assert shelf.start()["status"] == "RUNNING"
    shelf.finish()


def test_what_was_replaced_is_emptied_after_a_while(shelf: Shelf) -> None:
    """Earlier requests have time to end."""
    shelf.start()
    shelf.finish()
    tables = ("space_documents", "chunks_384", "vectors_384", "code_pages_384", "term_statistics", "term_deltas")
    retired = "AND space_id IN (SELECT space_id FROM spaces WHERE retired_at IS NOT NULL)"

    def left() -> dict[str, int]:
        counting = {table: f"SELECT count(*) FROM {table}" for table in ("spaces", *tables)}  # noqa: S608
        return {table: on_rows(shelf.service, count, more=retired)[0][0] for table, count in counting.items()}

    assert left()["chunks_384"] == 3
    shelf.take_all_steps()
    assert left()["chunks_384"] == 3
    let_time_pass(shelf.service, "5 minutes")
    shelf.take_all_steps()
    assert left() == {"spaces": 1} | dict.fromkeys(tables, 0)
    let_time_pass(shelf.service)
    shelf.take_all_steps()
    assert left()["spaces"] == 0
    assert shelf.search("the lamp at dusk")[0] == "lamp.txt"


def test_access_moves_with_a_document_into_the_new_index(shelf: Shelf) -> None:
    service = shelf.service
    key = service.new_user("ann@example.test")
    ann = user("ann@example.test")
    readers = {"allowedUsersEmailAddresses": ann["email"]}
    document_id = uploaded(service, "secret", "The secret anchor.", **readers)["documentId"]
    if shelf.collection_id is not None:
        ok(add_to_collection(service, document_id, shelf.collection_id))
        grant(service, collection(shelf.collection_id), ann)
    shelf.start()
    copy(shelf)
    shelf.finish()

    def found() -> int:
        operation = "searchDocumentCatalog" if shelf.collection_id is None else "searchDocumentCollection"
        answer = service.call(f"search/{operation}", {"searchQuery": "secret anchor", **shelf.about}, api_key=key)
        return len(ok(answer)["results"])

    assert found() == 1
    grant(service, document(document_id))
    assert found() == 0


def test_who_may_rebuild_what(shelf: Shelf) -> None:
    service, key = shelf.service, shelf.service.new_user("ann@example.test")

    def ask(operation: str, **members: Any) -> Any:
        return service.call(f"documentCollections/{operation}", shelf.about | members, api_key=key)

    if shelf.collection_id is None:
        for operation in ("getIndexRebuild", "cancelIndexRebuild", "listIndexRebuildFailures"):
            refused(ask(operation), 403, "admin_only")
        refused(ask("startIndexRebuild", embeddingsModel=MODEL), 403, "admin_only")
        return
    refused(ask("startIndexRebuild", embeddingsModel=MODEL), 404, "collection_not_found")
    for role, expected in (("VIEWER", 403), ("EDITOR", 200)):
        grant(service, collection(shelf.collection_id), user("ann@example.test"), role=role)
        answer = ask("startIndexRebuild", embeddingsModel=MODEL)
        assert answer.status_code == expected
    assert answer.json()["documentCount"] == 0
    assert shelf.state()["documentCount"] == 3


def test_one_rebuild_at_a_time(shelf: Shelf) -> None:
    refused(shelf.call("get"), 409, "no_rebuild")
    refused(shelf.call("start", embeddingsModel="unheard-of"), 400, "unknown_model")
    refused(shelf.call("start", embeddingsModel=LOCAL), 409, "model_in_use")
    first = shelf.start()
    assert shelf.start()["indexRebuildId"] == first["indexRebuildId"]
    refused(shelf.call("start", embeddingsModel=LOCAL), 409, "rebuild_running")
    shelf.finish()
    again = shelf.start()
    assert (again["indexRebuildId"], again["status"]) == (first["indexRebuildId"], "COMPLETED")


def test_a_rebuild_is_the_newest_whatever_a_replicas_clock_says(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow clock gives a lower id; the rebuild still runs, is shown, and ends."""
    shelf.start()
    shelf.finish()
    small = UUID(int=organization_id(shelf.service).int >> 64)
    monkeypatch.setattr("service.domains.documents.rebuilds.service.uuid7", lambda: small)
    again = shelf.start(LOCAL)
    assert (again["status"], again["embeddingsModel"]) == ("RUNNING", LOCAL)
    assert shelf.finish()["embeddingsModel"] == LOCAL
    assert shelf.model() == LOCAL


def test_what_is_to_be_copied_is_not_looked_for_with_every_document(shelf, monkeypatch) -> None:
    looked: list[tuple[UUID, Sequence[UUID]]] = []
    missing_places = queries.list_missing_entries

    async def counted(*arguments: Any, **options: Any) -> Any:
        found = await missing_places(*arguments, **options)
        looked.append((options["after"], found))
        return found

    monkeypatch.setattr(queries, "list_missing_entries", counted)
    monkeypatch.setattr(running, "INDEXED_AT_ONCE", 1)
    shelf.start()
    shelf.finish()
    [(begun, copied), (last, rest)] = looked
    assert (begun, last, rest) == (UUID(int=0), copied[-1], [])


def test_an_organization_whose_rebuild_fails_keeps_no_other_from_its_own(shelf, monkeypatch) -> None:
    broken = UUID(int=1)
    rebuild_organization, organization_ids = running.rebuild_organization, running.organization_ids

    async def visit(runtime: Any, organization_id: UUID) -> bool:
        if organization_id == broken:
            raise RuntimeError("broken")
        return await rebuild_organization(runtime, organization_id)

    async def with_broken(database: Any) -> list[UUID]:
        return [broken, *await organization_ids(database)]

    monkeypatch.setattr(running, "rebuild_organization", visit)
    monkeypatch.setattr(running, "organization_ids", with_broken)
    shelf.start()
    with pytest.raises(ExceptionGroup):
        shelf.take_all_steps()
    assert shelf.state()["status"] == "COMPLETED"


def test_an_empty_collection_is_rebuilt_at_once(paused) -> None:
    refused(Shelf(paused, None).call("start", embeddingsModel=MODEL), 409, "no_catalog")
    shelf = a_shelf(paused)
    shelf.start()
    shelf.finish()
    shelf.add("lamp")
    assert shelf.search("the lamp at dusk") == ["lamp.txt"]


def test_a_deleted_collection_takes_its_rebuild_along(paused) -> None:
    shelf = a_shelf(paused, "ferry", "lamp")
    shelf.start()
    copy(shelf)
    ok(paused.call("documentCollections/deleteDocumentCollection", {"documentCollectionId": shelf.collection_id}))
    let_time_pass(paused)
    shelf.take_all_steps()
    assert places(paused) == {}
    assert on_rows(paused, "SELECT count(*) FROM spaces", more="AND NOT is_catalog") == [(0,)]


def test_a_rebuild_is_on_the_audit_log(shelf: Shelf) -> None:
    shelf.start()
    shelf.finish()
    shelf.start(LOCAL)
    shelf.call("cancel")
    entries = ok(shelf.service.call("admin/auditLog/query", {"pageSize": 100}))["entries"]
    told = [(one["action"], one["details"]["model"], "actor" in one) for one in entries if "rebuild" in one["action"]]
    assert told[::-1] == [
        ("index.rebuild_start", MODEL, True),
        ("index.rebuild_complete", MODEL, False),
        ("index.rebuild_start", LOCAL, True),
        ("index.rebuild_cancel", LOCAL, True),
    ]


@pytest.mark.usefixtures("embeddings")
def test_a_rebuild_goes_on_of_itself(rebuilding_service) -> None:
    with rebuilding_service.new_organization() as organization:
        shelf = a_shelf(organization, *TEXTS)
        shelf.start()
        wait_until(lambda: shelf.state()["status"] == "COMPLETED")
        assert shelf.search("the lamp at dusk")[0] == "lamp.txt"
