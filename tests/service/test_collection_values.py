"""Documents of a collection by the values of their fields: filtered, sorted, counted and changed."""

import pytest

from tests.harness.cases import cases
from tests.harness.documents import add_to_collection, add_users, create_collection, ok, refused, uploaded
from tests.harness.services import RunningService
from tests.service.directory import collection as resource_of
from tests.service.directory import grant, user, walk

MEMBERS, COUNT, CHANGE = (
    f"documentCollections/{name}" for name in ("listDocumentsInCollection", "countValues", "changeValues")
)
ANN = "ann@example.test"
VALUES = cases("values_of_a_collection")


@pytest.fixture(scope="module")
def shelf(module_service: RunningService) -> str:
    """A collection of documents that Ann may read, except one, and that she may search."""
    service = module_service
    add_users(service, ANN)
    collection_id = create_collection(service, "Shelf", city="STRING", pages="INT")
    for name, values in VALUES.items():
        document_id = uploaded(service, name, internalPublic=str(name != "secret").lower())["documentId"]
        ok(add_to_collection(service, document_id, collection_id, customMetadata=values))
    grant(service, resource_of(collection_id), user(ANN))
    return collection_id


def listed(service: RunningService, shelf: str, *, page_size: int = 1000, **body) -> str:
    body = {"documentCollectionId": shelf, "userEmail": ANN, **body}
    return " ".join(one["documentExternalId"] for one in walk(service, MEMBERS, body, page_size=page_size))


@pytest.mark.parametrize("page_size", [1, 1000])
def test_documents_are_sorted_by_a_field_those_without_a_value_last(module_service, shelf: str, page_size: int) -> None:
    def in_order(**body) -> str:
        return listed(module_service, shelf, page_size=page_size, **body)

    by_id = in_order()
    first, second = (sorted(names, key=by_id.index) for names in ("ab", "ad"))
    assert in_order(orderBy="city") == " ".join(["e", "c", *first, "d"])
    assert in_order(orderBy="city", descending=True) == " ".join([*reversed(first), "c", "e", "d"])
    assert in_order(orderBy="pages") == " ".join(["c", *second, "b", "e"])
    assert in_order(orderBy="pages", descending=True) == " ".join(["b", *reversed(second), "c", "e"])
    assert len(by_id.split()) == 5


def test_a_list_goes_on_after_a_long_text(service: RunningService) -> None:
    collection_id = create_collection(service, "Long", text="STRING")
    values = {"a": "Ж" * 600 + "a", "b": "ж" * 600 + "B", "c": "я"}
    ids = {}
    for name, text in values.items():
        ids[name] = uploaded(service, name)["documentId"]
        ok(add_to_collection(service, ids[name], collection_id, customMetadata={"text": text}))
    body = {"documentCollectionId": collection_id, "orderBy": "text"}
    found = [one["documentExternalId"] for one in walk(service, MEMBERS, body, page_size=1)]
    assert found == [*sorted("ab", key=ids.__getitem__), "c"]
    counted = ok(service.call(COUNT, {"documentCollectionId": collection_id}))["values"]
    assert [one["value"] for one in counted] == ["я"]


def test_documents_are_filtered_by_values(module_service: RunningService, shelf: str) -> None:
    def which(*filters: tuple[str, str, str], **body) -> str:
        given = [dict(zip(("field", "operator", "value"), one, strict=True)) for one in filters]
        return listed(module_service, shelf, **body, metadataFilters=given)

    assert set(which(("city", "==", "Oslo")).split()) == {"a", "b"}
    assert which(("city", "==", "Oslo"), ("pages", ">", "9"), orderBy="pages") == "b"
    assert which(("city", "==", "Secret")) == ""
    body = {"documentCollectionId": shelf, "metadataFilters": [{"field": "pages", "operator": "==", "value": "x"}]}
    refused(module_service.call(MEMBERS, body), 400, "invalid_filter")
    refused(module_service.call(MEMBERS, {"documentCollectionId": shelf, "orderBy": "size"}), 400, "invalid_order")


def test_values_are_counted_in_readable_documents_alone(module_service: RunningService, shelf: str) -> None:
    body = {"documentCollectionId": shelf, "userEmail": ANN}
    answer = ok(module_service.call(COUNT, body))
    counted = [(one["field"], one["value"].lower(), one["count"]) for one in answer["values"]]
    cities = [("city", "oslo", 2), ("city", "arendal", 1), ("city", "bergen", 1)]
    assert counted == [*cities, ("pages", "9", 2), ("pages", "-1", 1), ("pages", "10", 1)]


def test_values_change_together_unless_somebody_else_was_first(service: RunningService) -> None:
    collection_id = create_collection(service, "Shelf", city="STRING", pages="INT")
    ids = [uploaded(service, name)["documentId"] for name in "abc"]
    for document_id in ids[:2]:
        ok(add_to_collection(service, document_id, collection_id, customMetadata={"city": "Oslo", "pages": "1"}))
    body = {"documentCollectionId": collection_id}
    before = {one["documentId"]: one for one in walk(service, MEMBERS, body)}
    ok(add_to_collection(service, ids[1], collection_id, customMetadata={"city": "Hamar"}))
    changes = [
        {"documentId": one, "customMetadata": {"city": "", "pages": "1,200"}, "version": before[one]["version"]}
        for one in ids[:2]
    ]
    changes.append({"documentId": ids[2], "customMetadata": {"city": "Bergen"}})
    first, second, third = ok(service.call(CHANGE, {**body, "changes": changes}))["results"]
    assert (first["status"], first["customMetadata"]) == ("CHANGED", {"pages": "1200"})
    assert (second["status"], second["customMetadata"]) == ("CHANGED_MEANWHILE", {"city": "Hamar"})
    assert third["status"] == "NOT_FOUND"
    now = {one["documentId"]: one for one in walk(service, MEMBERS, body)}
    assert (now[ids[0]]["version"], now[ids[1]]["version"]) == (first["version"], second["version"])
    assert ok(service.call(CHANGE, {**body, "changes": changes[:1]}))["results"][0]["status"] == "UNCHANGED"
    [entry] = ok(service.call("admin/auditLog/query", {"action": "collection.change_values"}))["entries"]
    assert entry["target"]["id"] == ids[0]
    changes[1] = {"documentId": ids[1], "customMetadata": {"pages": "many"}}
    error = refused(service.call(CHANGE, {**body, "changes": changes}), 400, "invalid_metadata")
    assert error["details"][0]["field"] == "changes.1.customMetadata.pages"
    assert "write it like 1200" in error["message"]


def test_a_reader_of_a_collection_changes_no_values(module_service: RunningService, shelf: str) -> None:
    [first, *_] = walk(module_service, MEMBERS, {"documentCollectionId": shelf})
    change = {"documentId": first["documentId"], "customMetadata": {"city": "Bodø"}}
    body = {"documentCollectionId": shelf, "userEmail": ANN, "changes": [change]}
    refused(module_service.call(CHANGE, body), 403, "collection_editor_required")
    grant(module_service, resource_of(shelf), user(ANN), role="EDITOR")
    listed_whole = walk(module_service, MEMBERS, {"documentCollectionId": shelf})
    [hidden] = [one for one in listed_whole if one["documentExternalId"] == "secret"]
    body["changes"] = [change | {"documentId": hidden["documentId"]}]
    assert ok(module_service.call(CHANGE, body))["results"][0]["status"] == "NOT_FOUND"
