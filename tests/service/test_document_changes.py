"""catalog/startDocumentChange: all documents that match are changed once, each with the caller's rights at the time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from psycopg.errors import AdminShutdown

from service.domains.oversight.changes import changing
from tests.harness.documents import add_to_collection, add_users, create_collection, ok, refused, uploaded
from tests.harness.jobs import until
from tests.harness.services import RunningService
from tests.service.directory import collection, document, entries, grant, user, walk
from tests.service.test_collections_membership import members

ANN, BEN = "ann@example.test", "ben@example.test"
START, ACCESS, GET = (f"catalog/{name}" for name in ("startDocumentChange", "startAccessChange", "getDocumentChange"))


@pytest.fixture(autouse=True)
def _two_at_once(monkeypatch) -> None:
    monkeypatch.setattr(changing, "AT_ONCE", 2)
    monkeypatch.setattr(changing, "PAUSE", None)


def load(service: RunningService, *names: str, **options: Any) -> list[str]:
    return [uploaded(service, name, f"Words of {name}.", **options)["documentId"] for name in names]


def finished(service: RunningService, start: str, *, by: str | None = None, **body: Any) -> dict:
    acting = {"userEmail": by} if by else {}
    named = {"documentChangeId": ok(service.call(start, {**acting, **body}))["documentChangeId"], **acting}
    until(lambda: ok(service.call(GET, named))["status"] != "RUNNING")
    return ok(service.call(GET, named))


def counts(change: dict) -> tuple[str, int, int]:
    return change["status"], change["doneCount"], change["failedCount"]


def listed(service: RunningService) -> list[str]:
    return sorted(one["documentExternalId"] for one in walk(service, "catalog/listDocuments"))


def before_batch(monkeypatch, work: Callable[[], object], number: int = 1) -> None:
    reload, batches = changing.reload_caller, iter(range(100))

    async def reload_later(*args: Any, **options: Any) -> Any:
        if next(batches) == number:
            await asyncio.to_thread(work)
        return await reload(*args, **options)

    monkeypatch.setattr(changing, "reload_caller", reload_later)


def test_it_counts_first_and_then_changes_what_matched_at_its_start_once(service: RunningService, monkeypatch) -> None:
    load(service, "a/1", "a/2", "a/3", "a/4", "a/5", "b/1")
    before_batch(monkeypatch, lambda: load(service, "a/new"), number=0)
    body: dict[str, Any] = {"change": "DELETE", "folder": "a"}
    planned = {"status": "PLANNED", "documentCount": 5, "doneCount": 0, "failedCount": 0}
    assert ok(service.call(START, body)) == planned
    refused(service.call(START, {**body, "expectedCount": 4}), 409, "count_changed")
    assert len(listed(service)) == 6
    once = {"Idempotency-Key": "once"}
    sent = [ok(service.call(START, {**body, "expectedCount": 5}, headers=once)) for _ in range(2)]
    assert sent[0] == sent[1]
    named = {"documentChangeId": sent[0]["documentChangeId"]}
    until(lambda: ok(service.call(GET, named))["status"] == "DONE")
    assert ok(service.call(GET, named)) == {**planned, **named, "status": "DONE", "doneCount": 5}
    assert listed(service) == ["a/new", "b/1"]
    recorded = [len(entries(service, action=f"document.{one}")) for one in ("delete", "change_all")]
    assert recorded == [5, 1]
    assert len(ok(service.call("catalog/listTrashedDocuments"))["documents"]) == 5
    ended = finished(service, START, change="DELETE", folder="none", expectedCount=0)
    assert (ended["documentCount"], counts(ended)) == (0, ("DONE", 0, 0))


def test_a_document_that_no_longer_matches_stays(service: RunningService, monkeypatch) -> None:
    add_users(service, ANN, BEN)
    several = load(service, "1", "2", "3", as_user=ANN)
    given = {"resources": [document(max(several))], "newOwner": user(BEN)}
    before_batch(monkeypatch, lambda: ok(service.call("admin/owners/transfer", given)))
    ended = finished(service, START, change="DELETE", ownerEmail=ANN, expectedCount=3)
    assert (ended["documentCount"], counts(ended), len(listed(service))) == (3, ("DONE", 2, 0), 1)


def test_what_a_person_may_not_change_is_named_and_what_they_may_not_read_is_not(
    service: RunningService, monkeypatch
) -> None:
    add_users(service, ANN, BEN)
    load(service, "hers/1", "hers/2", "hers/3", as_user=ANN)
    [read, _] = load(service, "read", "hidden")
    grant(service, document(read), user(ANN))
    assert ok(service.call(START, {"change": "DELETE", "userEmail": ANN}))["documentCount"] == 4

    def promote(is_admin: bool = True) -> None:
        ok(service.call("admin/users/upsert", {"users": [{"email": ANN, "isAdmin": is_admin}]}))

    before_batch(monkeypatch, promote, number=0)  # later than the request, so the change gets no more rights
    ended = finished(service, START, by=ANN, change="DELETE", expectedCount=4)
    assert counts(ended) == ("DONE", 3, 1)
    assert ended["failures"] == [
        {"documentId": read, "message": "Only the document's owner or an admin may delete it. Ask one of them."}
    ]
    assert listed(service) == ["hidden", "read"]
    promote(is_admin=False)
    named = {"documentChangeId": ended["documentChangeId"]}
    for other in ({}, {"userEmail": BEN}):
        refused(service.call(GET, named | other), 404, "document_change_not_found")
    hers: dict[str, Any] = {"change": "DELETE", "readableBy": user(BEN), "userEmail": ANN}
    refused(service.call(START, hers), 403, "admin_only")


def test_rights_lost_half_way_end_it(service: RunningService, monkeypatch) -> None:
    add_users(service, ANN)
    load(service, "1", "2", "3", "4", internalPublic="true")
    where = create_collection(service, "Notes")
    into: dict[str, Any] = {"change": "ADD_TO_COLLECTION", "targetCollectionId": where, "expectedCount": 4}
    refused(service.call(START, {"change": "ADD_TO_COLLECTION"}), 400, "invalid_request")
    refused(service.call(START, {**into, "userEmail": ANN}), 404, "collection_not_found")
    grant(service, collection(where), user(ANN), role="EDITOR")
    with monkeypatch.context() as patch:
        before_batch(patch, lambda: grant(service, collection(where), user(ANN), role="VIEWER"))
        ended = finished(service, START, by=ANN, **into)
    assert (counts(ended), "EDITOR" in ended["error"], len(values_in(service, where))) == (("STOPPED", 2, 0), True, 2)
    grant(service, collection(where), user(ANN), role="EDITOR")
    leave = {"users": [{"email": ANN, "name": "Ann", "active": False}]}
    before_batch(monkeypatch, lambda: ok(service.call("admin/users/upsert", leave)))
    begun = ok(service.call(START, {**into, "change": "REMOVE_FROM_COLLECTION", "userEmail": ANN}))
    statement = "SELECT state FROM document_changes WHERE document_change_id = %s"

    def state() -> dict:
        return service.execute(statement, [begun["documentChangeId"]])[0][0]

    until(lambda: state()["status"] == "STOPPED")
    assert (state()["doneCount"], state()["error"]) == (2, changing.INACTIVE)


def values_in(service: RunningService, where: str) -> dict[str, dict[str, str]]:
    return {one["documentId"]: one["customMetadata"] for one in members(service, where)}


def test_documents_get_values_in_a_collection_and_others_are_no_failure(service: RunningService) -> None:
    [first, second, third] = load(service, "1", "2", "3")
    where = create_collection(service, "Notes", place="STRING", year="INT")
    ok(add_to_collection(service, first, where, customMetadata={"place": "Bergen", "year": "1999"}))
    into: dict[str, Any] = {"targetCollectionId": where, "expectedCount": 3}
    ended = finished(service, START, change="SET_VALUES", customMetadata={"year": "2026"}, **into)
    assert (counts(ended), {one["documentId"] for one in ended["failures"]}) == (("DONE", 1, 2), {second, third})
    wrong = {"change": "SET_VALUES", "customMetadata": {"year": "soon"}, **into}
    refused(service.call(START, wrong), 400, "invalid_metadata")
    added = finished(service, START, change="ADD_TO_COLLECTION", customMetadata={"place": "Oslo"}, **into)
    new = {"place": "Oslo"}
    assert (counts(added), values_in(service, where)) == (
        ("DONE", 3, 0),
        {first: {"place": "Bergen", "year": "2026"}, second: new, third: new},
    )
    finished(service, START, change="SET_VALUES", customMetadata={"place": ""}, documentCollectionId=where, **into)
    assert values_in(service, where) == {first: {"year": "2026"}, second: {}, third: {}}
    for _ in range(2):
        assert counts(finished(service, START, change="REMOVE_FROM_COLLECTION", **into)) == ("DONE", 3, 0)
    assert not values_in(service, where)
    assert len(entries(service, action="collection.remove_document")) == 3


def test_admins_give_and_take_access_and_ownership(service: RunningService, monkeypatch) -> None:
    add_users(service, ANN, BEN)
    [first, second, third] = load(service, "1", "2", "3", as_user=BEN)
    grant(service, document(first), user(ANN))
    body: dict[str, Any] = {"principal": user(ANN), "expectedCount": 3}

    def roles() -> list[list[str]]:
        held = (ok(service.call("admin/grants/list", {"resource": document(one)})) for one in (first, second, third))
        return [[each["role"] for each in one["grants"]] for one in held]

    refused(service.call(ACCESS, body, api_key=service.new_user("cid@example.test")), 403, "admin_only")
    nobody = user("nobody@example.test")
    refused(service.call(ACCESS, {**body, "role": "EDITOR", "principal": nobody}), 400, "unknown_principal")
    before = len(entries(service, action="grants.set"))
    for role, after in (("EDITOR", ["EDITOR"]), ("VIEWER", ["VIEWER"]), (None, [])):
        for _ in range(2):
            given = {"role": role} if role else {}
            assert counts(finished(service, ACCESS, **body, **given)) == ("DONE", 3, 0)
        assert roles() == [after] * 3
    assert len(entries(service, action="grants.set")) - before == 9, "and nothing for what was so before"
    finished(service, ACCESS, **body, role="OWNER")
    assert {one["owner"]["email"] for one in walk(service, "catalog/listDocuments")} == {ANN}
    assert len(entries(service, action="owner.set")) == 3
    admin = service.new_user("eve@example.test", is_admin=True)
    demote = {"users": [{"email": "eve@example.test", "isAdmin": False}]}
    before_batch(monkeypatch, lambda: ok(service.call("admin/users/upsert", demote)))
    named = {"documentChangeId": ok(service.call(ACCESS, {**body, "role": "OWNER"}, api_key=admin))["documentChangeId"]}
    until(lambda: ok(service.call(GET, named, api_key=admin))["status"] == "STOPPED")
    state = ok(service.call(GET, named, api_key=admin))
    assert (state["doneCount"], state["error"]) == (2, "Only an admin may do this. Ask an admin to do it.")


def test_a_killed_batch_is_repeated_whole_and_an_error_ends_it(service: RunningService, monkeypatch) -> None:
    load(service, "1", "2", "3", "4", "5")
    change, tried = changing.change_document, list[object]()

    async def die_once(*args: Any) -> None:
        tried.append(args[-1])
        await change(*args)
        if len(tried) == 4:
            raise AdminShutdown

    monkeypatch.setattr(changing, "change_document", die_once)
    assert finished(service, START, change="REINDEX", expectedCount=5)["doneCount"] == 5
    assert (len(tried), len(set(tried)), len(entries(service, action="document.reindex"))) == (7, 5, 5)

    async def fail(*_: Any) -> None:
        raise ArithmeticError

    monkeypatch.setattr(changing, "change_document", fail)
    ended = finished(service, START, change="REINDEX", expectedCount=5)
    assert (counts(ended), ended["error"]) == (("STOPPED", 0, 0), changing.FAILED)
