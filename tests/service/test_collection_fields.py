"""The fields of a collection with documents are planned and changed."""

from concurrent.futures import ThreadPoolExecutor

from tests.harness.documents import add_to_collection, add_users, create_collection, ok, refused, upload, uploaded
from tests.harness.services import RunningService
from tests.service.directory import collection as resource_of
from tests.service.directory import entries, grant, user, walk

PLAN, CHANGE, MEMBERS, LIST = (
    f"documentCollections/{name}"
    for name in ("planFieldChanges", "changeFields", "listDocumentsInCollection", "listDocumentCollections")
)
ANN = "ann@example.test"
PAGES = {"a": "12", "b": "1,5", "c": "abc", "d": ""}


def shelf(service: RunningService, **values: str) -> tuple[str, dict[str, str]]:
    """Create a collection of documents that Ann, an admin, may read; return its id and the documents' ids."""
    ok(service.call("admin/users/upsert", {"users": [{"email": ANN, "isAdmin": True}]}))
    collection_id = create_collection(service, "Shelf", pages="STRING", city="STRING")
    ids = {name: uploaded(service, name, documentName=name, internalPublic="true")["documentId"] for name in values}
    for name, document_id in ids.items():
        held = {"city": "Oslo"} | ({"pages": values[name]} if values[name] else {})
        ok(add_to_collection(service, document_id, collection_id, customMetadata=held))
    return collection_id, ids


def body(collection_id: str, *changes: dict, **more: object) -> dict:
    return {"documentCollectionId": collection_id, "userEmail": ANN, "changes": list(changes), **more}


def held_in(service: RunningService, collection_id: str) -> dict[str, dict[str, str]]:
    listed = walk(service, MEMBERS, {"documentCollectionId": collection_id})
    return {one["documentExternalId"]: one["customMetadata"] for one in listed}


def effects_of(plan: dict) -> dict[tuple[str, str], tuple[int, list[tuple[str, str, str]]]]:
    return {
        (one["field"], one["effect"]): (
            one["count"],
            sorted((each["documentName"], each["before"], each["after"]) for each in one["examples"]),
        )
        for one in plan["effects"]
    }


def test_a_plan_has_the_effects_and_a_change_saves_them_together(service: RunningService) -> None:
    collection_id, ids = shelf(service, **PAGES)
    changes = (
        {"field": "pages", "name": "length", "type": "DOUBLE", "emptyUnfit": True},
        {"field": "city", "remove": True},
        {"name": "city", "type": "BOOLEAN", "value": "yes", "required": True},
    )
    plan = ok(service.call(PLAN, body(collection_id, *changes)))
    removed, filled = ([(name, *pair) for name in PAGES] for pair in (("Oslo", ""), ("", "true")))
    assert effects_of(plan) == {
        ("pages", "KEPT"): (1, [("a", "12", "12")]),
        ("pages", "CONVERTED"): (1, [("b", "1,5", "1.5")]),
        ("pages", "UNFIT"): (1, [("c", "abc", "")]),
        ("city", "REMOVED"): (4, removed),
        ("city", "FILLED"): (4, filled),
    }
    assert [one["name"] for one in plan["fields"]] == ["pages", "city"]
    assert held_in(service, collection_id)["b"] == {"pages": "1,5", "city": "Oslo"}
    asked = body(collection_id, *changes, version=plan["version"]), {"Idempotency-Key": "once"}
    changed, again = [ok(service.call(CHANGE, asked[0], headers=asked[1])) for _ in range(2)]
    assert again == changed
    fields = [{"name": "length", "type": "DOUBLE"}, {"name": "city", "type": "BOOLEAN", "required": True}]
    assert changed["fields"] == fields
    [listed] = ok(service.call(LIST, {}))["documentCollections"]
    assert listed["customMetadataSchema"]["fields"] == fields
    assert held_in(service, collection_id) == {
        "a": {"length": "12", "city": "true"}, "b": {"length": "1.5", "city": "true"},
        "c": {"city": "true"}, "d": {"city": "true"},
    }  # fmt: skip
    condition = {"field": "length", "operator": "<", "value": "2"}
    found = walk(service, MEMBERS, {"documentCollectionId": collection_id, "metadataFilters": [condition]})
    assert [one["documentId"] for one in found] == [ids["b"]]


def test_the_owner_swaps_the_names_of_two_fields(service: RunningService) -> None:
    collection_id, _ = shelf(service, a="12")
    swapped = {"field": "pages", "name": "city"}, {"field": "city", "name": "pages"}
    asked = body(collection_id, *swapped)
    del asked["userEmail"]
    ok(service.call(CHANGE, asked))
    assert held_in(service, collection_id) == {"a": {"city": "12", "pages": "Oslo"}}


def test_a_value_that_does_not_fit_refuses_the_whole_change(service: RunningService) -> None:
    collection_id, _ = shelf(service, **PAGES)
    before = held_in(service, collection_id)
    changes = {"field": "city", "name": "town"}, {"field": "pages", "type": "INT"}
    error = refused(service.call(CHANGE, body(collection_id, *changes)), 409, "unfit_values")
    assert "2 documents (such as " in error["message"]
    assert "have no value that fits the field “pages”." in error["message"]
    assert error["details"][0]["field"] == "changes.1.emptyUnfit"
    assert held_in(service, collection_id) == before
    missing = refused(
        service.call(CHANGE, body(collection_id, {"field": "pages", "required": True})), 409, "unfit_values"
    )
    assert "1 documents (such as d)" in missing["message"]


def test_a_plan_that_no_longer_holds_is_refused_with_the_fields_as_they_are(service: RunningService) -> None:
    collection_id, ids = shelf(service, a="12", b="5")
    number = {"field": "pages", "type": "INT", "emptyUnfit": True}
    plan = ok(service.call(PLAN, body(collection_id, number)))
    ok(add_to_collection(service, ids["b"], collection_id, customMetadata={"pages": "five"}))
    stale = body(collection_id, number, version=plan["version"])
    error = refused(service.call(CHANGE, stale), 409, "changed_meanwhile")
    assert effects_of(error["meanwhile"]["current"])["pages", "UNFIT"] == (1, [("b", "five", "")])
    asked = [body(collection_id, {"name": name, "type": "STRING"}) for name in ("one", "two")]
    asked = [{**one, "version": ok(service.call(PLAN, one))["version"]} for one in asked]
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda one: service.call(CHANGE, one), asked))
    won, lost = sorted(answers, key=lambda one: one.status_code)
    meanwhile = refused(lost, 409, "changed_meanwhile")["meanwhile"]
    assert meanwhile["current"]["fields"] == ok(won)["fields"]
    assert meanwhile["changedAt"] == entries(service, action="collection.change_fields")[0]["at"]


def test_values_for_the_former_fields_are_refused_with_the_fields_name(service: RunningService) -> None:
    collection_id, ids = shelf(service, a="12")
    town = {"field": "city", "name": "town", "required": True}
    ok(service.call(CHANGE, body(collection_id, town, {"field": "pages", "type": "INT"})))

    def refusal(held: str) -> list[str]:
        answer = upload(service, "new", collectionId=collection_id, customMetadata=held)
        details = refused(answer, 400, "invalid_metadata")["details"]
        return [f"{one['field']}: {one['message']}" for one in details]

    unknown = "customMetadata.city: The collection's schema has no such field; it has: pages, town. Add it first."
    required = "customMetadata.town: The field is required: give a value."
    assert refusal('{"city": "Oslo"}') == [unknown, required]
    assert refusal('{"town": "Oslo", "pages": "many"}')[0].startswith(
        "customMetadata.pages: The field is a whole number"
    )
    assert refused(upload(service, "new", collectionId=collection_id), 400, "invalid_metadata")
    emptied = {"documentId": ids["a"], "customMetadata": {"town": ""}}
    change = {"documentCollectionId": collection_id, "changes": [emptied]}
    refused(service.call("documentCollections/changeValues", change), 400, "invalid_metadata")
    again = "documentCollections/reindexDocumentInCollection"
    ok(service.call(again, {"documentId": ids["a"], "documentCollectionId": collection_id}))
    assert held_in(service, collection_id) == {"a": {"pages": "12", "town": "Oslo"}}
    error = refused(service.call(PLAN, body(collection_id, {"field": "city", "remove": True})), 400, "invalid_fields")
    assert "no field “city”. Its fields: pages, town." in error["message"]
    error = refused(
        service.call(PLAN, body(collection_id, town | {"field": "town"}, {"field": "town"})), 400, "invalid_fields"
    )
    assert "changes.1.field: Two changes are for the field “town”. Send one change for each field." in error["message"]
    taken = {"name": "town", "type": "INT"}, {"name": "x", "type": "INT", "value": "many"}, {"name": "y"}
    details = refused(service.call(PLAN, body(collection_id, *taken)), 400, "invalid_fields")["details"]
    assert [one["field"] for one in details] == ["changes.1.value", "changes.2", "changes"]


def test_a_plan_neither_counts_nor_names_documents_that_its_reader_may_not_read(service: RunningService) -> None:
    collection_id, _ = shelf(service, a="12")
    secret = uploaded(service, "secret")["documentId"]
    ok(add_to_collection(service, secret, collection_id, customMetadata={"pages": "abc"}))
    guesses = [{"field": "pages", "choices": ["12", guess]} for guess in ("abc", "xyz")]
    assert all(ok(service.call(PLAN, body(collection_id, guess)))["hiddenUnfit"] for guess in guesses)
    number = {"field": "pages", "type": "INT"}
    plan = ok(service.call(PLAN, body(collection_id, number)))
    assert (list(effects_of(plan)), plan["hiddenUnfit"]) == ([("pages", "KEPT")], True)
    error = refused(service.call(CHANGE, body(collection_id, number)), 409, "unfit_values")
    assert "Documents that you may not read have no value that fits" in error["message"]
    ok(service.call(CHANGE, body(collection_id, number | {"emptyUnfit": True}, version=plan["version"])))
    assert held_in(service, collection_id) == {"a": {"pages": "12", "city": "Oslo"}, "secret": {}}


def test_only_the_owner_and_admins_plan_and_change_fields(service: RunningService) -> None:
    add_users(service, "ben@example.test")
    collection_id, _ = shelf(service)
    asked = body(collection_id, {"name": "x", "type": "INT"}) | {"userEmail": "ben@example.test"}
    for operation in (PLAN, CHANGE):
        refused(service.call(operation, asked), 404, "collection_not_found")
    grant(service, resource_of(collection_id), user("ben@example.test"), role="EDITOR")
    for operation in (PLAN, CHANGE):
        refused(service.call(operation, asked), 403, "collection_owner_required")


def test_a_list_takes_its_choices_and_is_found_by_each_item(service: RunningService) -> None:
    collection_id, ids = shelf(service, a=" sea;Air ;sea", b="AIR", c="fog", d="")
    choices = {"field": "pages", "type": "LIST", "choices": ["air", "sea"], "emptyUnfit": True}
    plan = ok(service.call(PLAN, body(collection_id, choices)))
    converted = [("a", " sea;Air ;sea", "sea; air"), ("b", "AIR", "air")]
    assert effects_of(plan) == {("pages", "CONVERTED"): (2, converted), ("pages", "UNFIT"): (1, [("c", "fog", "")])}
    city = {"field": "city", "choices": ["Bergen", "OSLO"]}
    changed = ok(service.call(CHANGE, body(collection_id, choices, city)))
    assert [one["choices"] for one in changed["fields"]] == [["air", "sea"], ["Bergen", "OSLO"]]
    wrong = add_to_collection(service, ids["c"], collection_id, customMetadata={"pages": "air; fog"})
    refusal = refused(wrong, 400, "invalid_metadata")
    assert "these values, with ; between them: air, sea." in refusal["message"]
    ok(add_to_collection(service, ids["c"], collection_id, customMetadata={"pages": "Sea", "city": "bergen"}))
    assert held_in(service, collection_id)["c"] == {"pages": "sea", "city": "Bergen"}
    for sign, value, found in (
        ("==", "AIR", "ab"),
        ("==", "air;sea", "a"),
        ("!=", "air", "cd"),
        ("contains", "ea", "ac"),
    ):
        only = {"metadataFilters": [{"field": "pages", "operator": sign, "value": value}]}
        listed = walk(service, MEMBERS, {"documentCollectionId": collection_id, **only})
        assert sorted(one["documentName"] for one in listed) == sorted(found), sign
    counted = ok(service.call("documentCollections/countValues", {"documentCollectionId": collection_id}))["values"]
    assert {one["value"]: one["count"] for one in counted if one["field"] == "pages"} == {"air": 2, "sea": 2}
    for wrong in ({"type": "INT"}, {"choices": ["a;b"]}, {"choices": ["A", "a"]}, {"type": "BOOLEAN"}):
        refused(service.call(PLAN, body(collection_id, {"field": "city", **wrong})), 400, "invalid_fields")
    ok(service.call(CHANGE, body(collection_id, {"field": "pages", "required": True, "emptyUnfit": True})))
    refused(add_to_collection(service, ids["b"], collection_id, customMetadata={"pages": ";"}), 400, "invalid_metadata")
    free = ok(service.call(CHANGE, body(collection_id, {"field": "city", "choices": []})))
    assert free["fields"][1] == {"name": "city", "type": "STRING"}
