"""catalog/startDocumentChange: all documents that match are changed once, each with the caller's rights at the time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from psycopg.errors import AdminShutdown

from service.domains.documents.changes import service as changes
from tests.harness.documents import add_to_collection, add_users, create_collection, ok, refused, uploaded
from tests.harness.jobs import until
from tests.harness.services import RunningService
from tests.service.directory import collection, document, entries, grant, user, walk
from tests.service.test_collections_membership import members

ANN, BEN = "ann@example.test", "ben@example.test"


@pytest.fixture(autouse=True)
def _two_at_once(monkeypatch) -> None:
    monkeypatch.setattr(changes, "AT_ONCE", 2)
    monkeypatch.setattr(changes, "PAUSE", None)


def load(service: RunningService, *names: str, **options: Any) -> list[str]:
    return [uploaded(service, name, f"Words of {name}.", **options)["documentId"] for name in names]


def start(service: RunningService, change: str, **body: Any) -> dict:
    return ok(service.call("catalog/startDocumentChange", {"change": change, **body}))


def finished(service: RunningService, change: str, *, user_email: str | None = None, **body: Any) -> dict:
    acting = {"userEmail": user_email} if user_email else {}
    begun = {"documentChangeId": start(service, change, **acting, **body)["documentChangeId"], **acting}
    until(lambda: ok(service.call("catalog/getDocumentChange", begun))["status"] != "RUNNING")
    return ok(service.call("catalog/getDocumentChange", begun))


def listed(service: RunningService) -> list[str]:
    return sorted(one["documentExternalId"] for one in walk(service, "catalog/listDocuments"))


def before_second_batch(monkeypatch, work: Callable[[], object]) -> None:
    reload, batches = changes.reload_caller, iter(range(100))

    async def reload_later(*args: Any, **options: Any) -> Any:
        if next(batches) == 1:
            await asyncio.to_thread(work)
        return await reload(*args, **options)

    monkeypatch.setattr(changes, "reload_caller", reload_later)


def test_it_counts_first_and_then_changes_what_matched_at_its_start_once(service: RunningService, monkeypatch) -> None:
    load(service, "a/1", "a/2", "a/3", "a/4", "a/5", "b/1")
    before_second_batch(monkeypatch, lambda: load(service, "a/new"))
    assert start(service, "DELETE", folder="a") == {
        "status": "PLANNED",
        "documentCount": 5,
        "doneCount": 0,
        "failedCount": 0,
    }
    body = {"change": "DELETE", "folder": "a", "expectedCount": 4}
    refused(service.call("catalog/startDocumentChange", body), 409, "count_changed")
    assert len(listed(service)) == 6
    body["expectedCount"], once = 5, {"Idempotency-Key": "once"}
    sent = [ok(service.call("catalog/startDocumentChange", body, headers=once)) for _ in range(2)]
    assert sent[0] == sent[1]
    which = {"documentChangeId": sent[0]["documentChangeId"]}
    until(lambda: ok(service.call("catalog/getDocumentChange", which))["status"] == "DONE")
    assert ok(service.call("catalog/getDocumentChange", which))["doneCount"] == 5
    assert listed(service) == ["a/new", "b/1"]
    assert (len(entries(service, action="document.delete")), len(entries(service, action="document.change_all"))) == (
        5,
        1,
    )
    assert len(ok(service.call("catalog/listTrashedDocuments"))["documents"]) == 5


def test_what_a_person_may_not_change_is_named_and_what_they_may_not_read_is_not(service: RunningService) -> None:
    add_users(service, ANN, BEN)
    load(service, "hers/1", "hers/2", "hers/3", as_user=ANN)
    [read, _] = load(service, "read", "hidden")
    grant(service, document(read), user(ANN))
    assert start(service, "DELETE", userEmail=ANN)["documentCount"] == 4
    ended = finished(service, "DELETE", user_email=ANN, expectedCount=4)
    assert (ended["status"], ended["doneCount"], ended["failedCount"]) == ("DONE", 3, 1)
    assert ended["failures"] == [
        {"documentId": read, "message": "Only the document's owner or an admin may delete it."}
    ]
    assert listed(service) == ["hidden", "read"]
    which = {"documentChangeId": ended["documentChangeId"]}
    for other in ({}, {"userEmail": BEN}):
        refused(service.call("catalog/getDocumentChange", which | other), 404, "document_change_not_found")
    refused(
        service.call("catalog/startDocumentChange", {"change": "DELETE", "readableBy": user(BEN), "userEmail": ANN}),
        403,
        "admin_only",
    )


def test_rights_lost_half_way_end_it_or_are_told_by_document(service: RunningService, monkeypatch) -> None:
    add_users(service, ANN)
    several = load(service, "1", "2", "3", "4", internalPublic="true")
    where = create_collection(service, "Notes")
    into = {"targetCollectionId": where, "expectedCount": 4, "user_email": ANN}
    refused(service.call("catalog/startDocumentChange", {"change": "ADD_TO_COLLECTION"}), 400, "invalid_request")
    body = {"change": "ADD_TO_COLLECTION", "targetCollectionId": where, "userEmail": ANN}
    refused(service.call("catalog/startDocumentChange", body), 404, "collection_not_found")
    grant(service, collection(where), user(ANN), role="EDITOR")
    with monkeypatch.context() as patch:
        before_second_batch(patch, lambda: grant(service, collection(where), user(ANN), role="VIEWER"))
        ended = finished(service, "ADD_TO_COLLECTION", **into)
    assert (ended["status"], ended["doneCount"], ended["failedCount"]) == ("DONE", 2, 2)
    assert {one["documentId"] for one in ended["failures"]} == set(several) - inside(service, where)
    grant(service, collection(where), user(ANN), role="EDITOR")
    leave = {"users": [{"email": ANN, "name": "Ann", "active": False}]}
    before_second_batch(monkeypatch, lambda: ok(service.call("admin/users/upsert", leave)))
    begun = start(service, "REMOVE_FROM_COLLECTION", targetCollectionId=where, expectedCount=4, userEmail=ANN)
    until(lambda: state_of(service, begun)["status"] == "STOPPED")
    state = state_of(service, begun)
    assert (state["doneCount"], state["error"]) == (2, changes.INACTIVE)


def inside(service: RunningService, where: str) -> set[str]:
    return {one["documentId"] for one in members(service, where)}


def state_of(service: RunningService, begun: dict) -> dict:
    statement = "SELECT state FROM document_changes WHERE document_change_id = %s"
    return service.execute(statement, [begun["documentChangeId"]])[0][0]


def test_documents_in_a_collection_keep_their_values_and_others_are_no_failure(service: RunningService) -> None:
    [first, _, _] = load(service, "1", "2", "3")
    where = create_collection(service, "Notes", place="STRING")
    ok(add_to_collection(service, first, where, customMetadata={"place": "Bergen"}))
    into: dict[str, Any] = {"targetCollectionId": where, "expectedCount": 3}
    assert finished(service, "ADD_TO_COLLECTION", **into)["doneCount"] == 3
    values = {one["documentId"]: one["customMetadata"] for one in members(service, where)}
    assert (len(values), values[first]) == (3, {"place": "Bergen"})
    for _ in range(2):
        ended = finished(service, "REMOVE_FROM_COLLECTION", **into)
        assert (ended["doneCount"], ended["failedCount"]) == (3, 0)
    assert not inside(service, where)
    assert len(entries(service, action="collection.remove_document")) == 3


def test_a_killed_batch_is_repeated_whole_and_an_error_ends_it(service: RunningService, monkeypatch) -> None:
    load(service, "1", "2", "3", "4", "5")
    change, tried = changes._change, list[object]()

    async def die_once(*args: Any) -> None:
        tried.append(args[-1])
        await change(*args)
        if len(tried) == 4:
            raise AdminShutdown

    monkeypatch.setattr(changes, "_change", die_once)
    assert finished(service, "REINDEX", expectedCount=5)["doneCount"] == 5
    assert (len(tried), len(set(tried)), len(entries(service, action="document.reindex"))) == (7, 5, 5)

    async def fail(*_: Any) -> None:
        raise ArithmeticError

    monkeypatch.setattr(changes, "_change", fail)
    ended = finished(service, "REINDEX", expectedCount=5)
    assert (ended["status"], ended["doneCount"], ended["error"]) == ("STOPPED", 0, changes.FAILED)
