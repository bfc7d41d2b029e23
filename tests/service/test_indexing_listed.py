"""Lists of documents with indexing status, filtered by done, running or failed."""

from typing import Any
from uuid import UUID

import pytest

from service.index.progress import FAILED_AFTER
from tests.harness.documents import create_collection, uploaded
from tests.harness.services import RunningService
from tests.service.directory import code, done, user, walk

DOCUMENTS, MEMBERS = "catalog/listDocuments", "documentCollections/listDocumentsInCollection"
REINDEX = "catalog/reindexDocument"
STATUSES = ["DONE", "RUNNING", "FAILED"]


def left_behind(service: RunningService, document: str, *, in_catalog: bool, attempts: int) -> None:
    service.execute(
        "UPDATE space_documents SET indexed_version = NULL, attempts = %s, claimed_until = now() + interval '1 day'"
        " FROM spaces WHERE spaces.space_id = space_documents.space_id AND document_id = %s AND is_catalog = %s",
        (attempts, UUID(document), in_catalog),
    )


def statuses(service: RunningService, operation: str, **body: Any) -> dict[str, str]:
    return {row["documentName"]: row["indexing"] for row in walk(service, operation, body, page_size=1)}


def a_collection(service: RunningService) -> str:
    """Make four documents in a collection, each with a different pair of statuses in catalog and collection."""
    collection = create_collection(service, "Logs")
    states = {"a": (0, None), "b": (FAILED_AFTER - 1, FAILED_AFTER), "c": (FAILED_AFTER, 0), "d": (None, None)}
    for name, (catalog, there) in states.items():
        document = uploaded(service, name, f"The log of {name}.", documentName=name, collectionId=collection)
        for in_catalog, attempts in ((True, catalog), (False, there)):
            if attempts is not None:
                left_behind(service, document["documentId"], in_catalog=in_catalog, attempts=attempts)
    return collection


@pytest.fixture(scope="module")
def collection(module_service: RunningService) -> str:
    return a_collection(module_service)


def test_each_document_says_how_far_it_is(module_service: RunningService, collection: str) -> None:
    assert statuses(module_service, DOCUMENTS) == {"a": "RUNNING", "b": "RUNNING", "c": "FAILED", "d": "DONE"}
    there = statuses(module_service, MEMBERS, documentCollectionId=collection)
    assert there == {"a": "DONE", "b": "FAILED", "c": "RUNNING", "d": "DONE"}
    for row in walk(module_service, DOCUMENTS, {}, page_size=10):
        one = done(module_service.call("catalog/getDocument", {"documentId": row["documentId"]}))
        assert one["indexing"] == row["indexing"]


@pytest.mark.parametrize("status", STATUSES)
def test_lists_are_narrowed_to_a_status(module_service: RunningService, collection: str, status: str) -> None:
    for operation, body in ((DOCUMENTS, {}), (MEMBERS, {"documentCollectionId": collection})):
        expected = [row for row in walk(module_service, operation, body, page_size=10) if row["indexing"] == status]
        assert expected
        assert walk(module_service, operation, {**body, "indexing": status}, page_size=1) == expected
    narrowed = statuses(module_service, DOCUMENTS, indexing=status, documentName="d")
    assert narrowed == ({"d": "DONE"} if status == "DONE" else {})


def test_a_status_opens_nothing(module_service: RunningService, collection: str) -> None:
    member = module_service.new_user("member@example.test")
    for status in STATUSES:
        assert walk(module_service, DOCUMENTS, {"indexing": status}, page_size=10, api_key=member) == []
    for operation, body in ((DOCUMENTS, {}), (MEMBERS, {"documentCollectionId": collection})):
        assert module_service.call(operation, {**body, "indexing": "LOST"}).status_code == 400


def test_a_document_that_failed_is_indexed_again_at_once(service: RunningService) -> None:
    collection = a_collection(service)
    editor, reader, stranger = (service.new_user(f"{name}@example.test") for name in ("ed", "ann", "ben"))
    [failed] = walk(service, DOCUMENTS, {"indexing": "FAILED"}, page_size=10)
    held = {"ed@example.test": "EDITOR", "ann@example.test": "VIEWER"}
    grants = [{"principal": user(email), "role": role} for email, role in held.items()]
    done(service.call("admin/grants/set", {"resource": failed["resource"], "grants": grants}))
    body = {"documentId": failed["documentId"]}
    assert code(service.call(REINDEX, body, api_key=reader)) == (403, "document_editor_required")
    assert code(service.call(REINDEX, body, api_key=stranger)) == (404, "document_not_found")
    assert statuses(service, DOCUMENTS)["c"] == "FAILED"
    expected = {**body, "documentVersion": 1, "indexing": "DONE"}
    assert done(service.call(REINDEX, body, api_key=editor)) == expected
    assert statuses(service, DOCUMENTS)["c"] == "DONE"
    assert statuses(service, MEMBERS, documentCollectionId=collection)["c"] == "RUNNING"
    assert done(service.call(REINDEX, body)) == expected  # what is done is done anew
    entries = done(service.call("admin/auditLog/query", {"targetId": failed["documentId"]}))["entries"]
    assert [one["action"] for one in entries[:2]] == ["document.reindex"] * 2


@pytest.mark.usefixtures("collection")
def test_documents_are_found_by_their_external_ids(module_service: RunningService) -> None:
    wanted = {"documentExternalIds": ["a", "c", "c", "A", "nowhere"]}
    assert statuses(module_service, DOCUMENTS, **wanted) == {"a": "RUNNING", "c": "FAILED"}
    assert statuses(module_service, DOCUMENTS, **wanted, indexing="FAILED") == {"c": "FAILED"}
    member = module_service.new_user("member@example.test")
    assert walk(module_service, DOCUMENTS, wanted, page_size=10, api_key=member) == []
    for wrong in ([], ["x"] * 1001, [""]):
        assert module_service.call(DOCUMENTS, {"documentExternalIds": wrong}).status_code == 400
