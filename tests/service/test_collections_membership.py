"""documentCollections/*: collections, their documents and chunks."""

from concurrent.futures import ThreadPoolExecutor

from tests.harness.cases import cases
from tests.harness.documents import add_to_collection, add_users, chunks, create_collection, embedded, refused, uploaded
from tests.harness.services import RunningService
from tests.service.directory import collection as resource_of
from tests.service.directory import done, grant, user, walk
from tests.service.rebuilds import wait_blocked

MEMBERS = "documentCollections/listDocumentsInCollection"
ANN, BEN = "ann@example.test", "ben@example.test"


def members(service: RunningService, collection_id: str, **body) -> list[dict]:
    return done(service.call(MEMBERS, {"documentCollectionId": collection_id, **body}))["documents"]


def test_a_collection_is_created_with_defaults_and_says_it_is_deprecated(service: RunningService) -> None:
    answer = service.call("documentCollections/createDocumentCollection", {"collectionName": "Notes"})
    assert answer.headers["Deprecation"].startswith("@")
    listed = done(service.call("documentCollections/listDocumentCollections"))["documentCollections"]
    assert listed[0] == {
        **listed[0],
        "documentCollectionId": done(answer)["documentCollectionId"],
        "collectionName": "Notes",
        "embeddingsModel": "all-MiniLM-L6-v2",
        "distanceMetric": "COSINE",
        "customMetadataSchema": {"fields": []},
        "documentCount": 0,
        "role": "OWNER",
    }


def test_a_taken_name_is_a_conflict_and_an_unknown_model_lists_the_known(service: RunningService) -> None:
    create_collection(service, "Notes")
    create = "documentCollections/createDocumentCollection"
    refused(service.call(create, {"collectionName": "Notes"}), 409, "collection_name_taken")
    error = refused(service.call(create, {"collectionName": "New", "embeddingsModel": "gpt"}), 400, "unknown_model")
    assert "all-MiniLM-L6-v2" in error["message"]
    fields = [{"name": "a", "type": "INT"}, {"name": "a", "type": "STRING"}]
    twice = {"collectionName": "New", "customMetadataSchema": {"fields": fields}}
    refused(service.call(create, twice), 400, "invalid_request")
    assert len(done(service.call("documentCollections/listDocumentCollections"))["documentCollections"]) == 1


def test_a_second_collection_embeds_nothing(service: RunningService) -> None:
    """Vectors are stored by document, model and text: adding reuses the catalog's."""
    document_id = uploaded(service, "a")["documentId"]
    before = embedded(service)
    for name in ("One", "Two"):
        answer = done(add_to_collection(service, document_id, create_collection(service, name)))
        assert (answer["status"], answer["chunkCount"], answer["embeddedChunkCount"]) == ("INDEXED", 1, 0)
    assert embedded(service) == before


def test_adding_again_changes_nothing_and_other_metadata_replaces(service: RunningService) -> None:
    collection = create_collection(service, "Notes", topic="STRING")
    document_id = uploaded(service, "a")["documentId"]
    first = done(add_to_collection(service, document_id, collection, customMetadata={"topic": "x"}))
    again = done(add_to_collection(service, document_id, collection, customMetadata={"topic": "x"}))
    assert again == {**first, "status": "UNCHANGED"}
    changed = done(add_to_collection(service, document_id, collection, customMetadata={"topic": "y"}))
    assert (changed["status"], changed["embeddedChunkCount"]) == ("INDEXED", 0)
    assert members(service, collection)[0]["customMetadata"] == {"topic": "y"}
    reindex = "reindexDocumentInCollection"
    answer = done(add_to_collection(service, document_id, collection, operation=reindex))
    assert (answer["status"], answer["embeddedChunkCount"]) == ("INDEXED", 0)
    assert members(service, collection)[0]["customMetadata"] == {"topic": "y"}
    done(add_to_collection(service, document_id, collection, operation=reindex, customMetadata={}))
    assert members(service, collection)[0]["customMetadata"] == {}
    wrong = add_to_collection(service, document_id, collection, operation=reindex, customMetadata={"a": "b"})
    refused(wrong, 400, "invalid_metadata")


def test_a_list_of_ids_tells_which_documents_are_in_a_collection(service: RunningService) -> None:
    add_users(service, ANN)
    collection = create_collection(service, "Notes")
    grant(service, resource_of(collection), user(ANN))
    there = [uploaded(service, name)["documentId"] for name in ("a", "b", "c")]
    elsewhere = uploaded(service, "d")["documentId"]
    for document_id in there:
        done(add_to_collection(service, document_id, collection))
    asked = [*there[:2], elsewhere, collection]
    assert {one["documentId"] for one in members(service, collection, ids=asked)} == set(there[:2])
    assert members(service, collection, ids=[elsewhere]) == []
    first = done(service.call(MEMBERS, {"documentCollectionId": collection, "ids": there, "pageSize": 1}))
    other = {"documentCollectionId": collection, "ids": asked, "pageSize": 1, "pageToken": first["nextPageToken"]}
    refused(service.call(MEMBERS, other), 400, "invalid_page_token")
    refused(service.call(MEMBERS, {"documentCollectionId": collection, "ids": []}), 400, "invalid_request")
    assert members(service, collection, ids=asked, userEmail=ANN) == []


METADATA = cases("metadata_is_checked_by_type")


def test_metadata_is_checked_by_type(service: RunningService) -> None:
    collection = create_collection(service, "Notes", **{f"of_{kind}": kind for kind in METADATA})
    document_id = uploaded(service, "a")["documentId"]
    for kind, (good, bad) in METADATA.items():
        for value in good:
            done(add_to_collection(service, document_id, collection, customMetadata={f"of_{kind}": value}))
            assert members(service, collection)[0]["customMetadata"] == {f"of_{kind}": value}
        for field, value in [*((f"of_{kind}", value) for value in bad), ("other", "x")]:
            answer = add_to_collection(service, document_id, collection, customMetadata={field: value})
            error = refused(answer, 400, "invalid_metadata")
            assert error["details"][0]["field"] == f"customMetadata.{field}", value
            assert field == "other" or kind not in error["details"][0]["message"], value
    done(add_to_collection(service, document_id, collection, customMetadata={"of_BOOLEAN": "Yes", "of_DOUBLE": "1,5"}))
    assert members(service, collection)[0]["customMetadata"] == {"of_BOOLEAN": "true", "of_DOUBLE": "1.5"}


def test_adding_needs_editor_on_the_collection_and_read_on_the_document(service: RunningService) -> None:
    add_users(service, ANN, BEN)
    collection = create_collection(service, "Notes")
    document_id = uploaded(service, "a", allowedUsersEmailAddresses=ANN)["documentId"]
    hidden = uploaded(service, "b")["documentId"]
    refused(add_to_collection(service, document_id, collection, as_user=ANN), 404, "collection_not_found")
    grant(service, resource_of(collection), user(ANN))
    refused(add_to_collection(service, document_id, collection, as_user=ANN), 403, "collection_editor_required")
    grant(service, resource_of(collection), user(ANN), role="EDITOR")
    done(add_to_collection(service, document_id, collection, as_user=ANN))
    refused(add_to_collection(service, hidden, collection, as_user=ANN), 404, "document_not_found")
    done(add_to_collection(service, hidden, collection))
    assert [each["documentExternalId"] for each in members(service, collection, userEmail=ANN)] == ["a"]
    listed = done(service.call("documentCollections/listDocumentCollections", {"userEmail": ANN}))
    assert listed["documentCollections"][0]["documentCount"] == 1
    assert listed["documentCollections"][0]["role"] == "EDITOR"
    body = {"documentId": hidden, "documentCollectionId": collection, "userEmail": ANN}
    refused(service.call("documentCollections/getDocumentChunks", body), 404, "document_not_found")


def test_removing_takes_a_document_out_and_leaves_it_in_the_catalog(service: RunningService) -> None:
    collection = create_collection(service, "Notes")
    document_id = uploaded(service, "a", collectionId=collection)["documentId"]
    remove = "removeDocumentFromCollection"
    done(add_to_collection(service, document_id, collection, operation=remove))
    assert members(service, collection) == []
    refused(add_to_collection(service, document_id, collection, operation=remove), 404, "document_not_in_collection")
    reindexed = add_to_collection(service, document_id, collection, operation="reindexDocumentInCollection")
    refused(reindexed, 404, "document_not_in_collection")
    assert chunks(service, document_id) == ["The ferry leaves at noon."]


def test_a_callers_chunks_are_indexed_as_given(service: RunningService) -> None:
    collection = create_collection(service, "Notes")
    document_id = uploaded(service, "a")["documentId"]
    add = "addDocumentChunksToCollection"
    given = ["Second thing.", "First thing.", "Second thing."]
    answer = done(add_to_collection(service, document_id, collection, operation=add, chunks=given, customMetadata={}))
    assert (answer["status"], answer["chunkCount"], answer["embeddedChunkCount"]) == ("INDEXED", 3, 2)
    assert chunks(service, document_id, collection) == given
    for operation in ("reindexDocumentInCollection", "addDocumentToCollection"):
        refused(add_to_collection(service, document_id, collection, operation=operation), 409, "caller_chunks")
    uploaded(service, "a", "Changed.")
    assert chunks(service, document_id, collection) == given
    assert members(service, collection)[0]["stale"] is True
    fewer = done(
        add_to_collection(service, document_id, collection, operation=add, chunks=given[:1], customMetadata={})
    )
    assert (fewer["chunkCount"], fewer["embeddedChunkCount"]) == (1, 0)
    assert chunks(service, document_id, collection) == given[:1]
    assert members(service, collection)[0]["stale"] is False
    for bad in ([], [""], ["x"] * 10_001, ["nul \0"]):
        wrong = add_to_collection(service, document_id, collection, operation=add, chunks=bad, customMetadata={})
        assert wrong.status_code == 400


def test_deleting_a_collection_leaves_its_documents(service: RunningService) -> None:
    add_users(service, ANN, BEN)
    collection = create_collection(service, "Notes", as_user=ANN)
    document_id = uploaded(service, "a", as_user=ANN, collectionId=collection)["documentId"]
    delete = "documentCollections/deleteDocumentCollection"
    body = {"documentCollectionId": collection}
    refused(service.call(delete, {**body, "userEmail": BEN}), 404, "collection_not_found")
    grant(service, resource_of(collection), user(BEN), role="EDITOR")
    refused(service.call(delete, {**body, "userEmail": BEN}), 403, "collection_owner_required")
    done(service.call(delete, {**body, "userEmail": ANN}))
    refused(service.call(delete, body), 404, "collection_not_found")
    create_collection(service, "Notes")
    document = done(service.call("catalog/getDocument", {"documentId": document_id, "userEmail": ANN}))
    assert [place.get("documentCollectionId") for place in document["indexedIn"]] == [None]


def test_a_renamed_collection_is_found_by_its_former_name_too(service: RunningService) -> None:
    """Each name is unique, also for concurrent renames; another collection may take the former name."""
    add_users(service, ANN, BEN)
    collection = create_collection(service, "Field notes", as_user=ANN)
    uploaded(service, "a", as_user=ANN, collectionId=collection)
    rename, mine = "documentCollections/renameDocumentCollection", {"documentCollectionId": collection}
    refused(service.call(rename, {**mine, "collectionName": "Log", "userEmail": BEN}), 404, "collection_not_found")
    grant(service, resource_of(collection), user(BEN), role="EDITOR")
    asked = {**mine, "collectionName": "Log", "userEmail": BEN}
    refused(service.call(rename, asked), 403, "collection_owner_required")

    def read() -> dict:
        body = {"userEmail": ANN}
        return done(service.call("documentCollections/listDocumentCollections", body))["documentCollections"][0]

    assert "formerNames" not in read()
    done(service.call(rename, {**mine, "collectionName": "Log", "userEmail": ANN}))
    [entry] = done(service.call("admin/auditLog/query", {"action": "collection.rename"}))["entries"]
    assert "Field notes" not in str(entry["details"])
    assert entry["changes"]["collectionName"] == {"from": "Field notes", "to": "Log"}
    assert (read()["collectionName"], read()["formerNames"]) == ("Log", ["Field notes"])
    for query, count in (("in:log", 1), ('in:"field notes"', 1), ('in:"log field"', 0)):
        body = {"searchQuery": query, "userEmail": ANN}
        assert len(done(service.call("search/searchDocumentCatalog", body))["results"]) == count, query
    other = create_collection(service, "Field notes")
    for count in (1, 0):  # the new collection is hidden from Ann, then visible
        body = {"searchQuery": 'in:"field notes"', "userEmail": ANN}
        assert len(done(service.call("search/searchDocumentCatalog", body))["results"]) == count
        grant(service, resource_of(other), user(ANN))
    refused(service.call(rename, {**mine, "collectionName": "Field notes"}), 409, "collection_name_taken")
    bodies = ({"documentCollectionId": one, "collectionName": "Diary"} for one in (collection, other))
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda body: service.call(rename, body), bodies))
    assert sorted(one.status_code for one in answers) == [200, 409]


def test_deleting_a_collection_never_deadlocks_with_the_indexing_of_a_callers_chunks(own_service) -> None:
    """Both lock a document's place first, and waiting chunks afterwards."""
    document_id = uploaded(own_service, "a")["documentId"]
    collection = create_collection(own_service, "Notes")
    answer = add_to_collection(
        own_service, document_id, collection, operation="addDocumentChunksToCollection", chunks=["x"], customMetadata={}
    )
    assert done(answer)["status"] == "INDEXED"
    with ThreadPoolExecutor(1) as pool, own_service.owner_connection() as indexing:
        indexing.execute(
            "INSERT INTO caller_chunks SELECT document_id, space_id, organization_id, gen_random_uuid(), ''"
            " FROM space_documents WHERE caller_chunks"
        )
        indexing.execute("SET lock_timeout TO '5s'")
        with indexing.transaction():
            indexing.execute("SELECT FROM space_documents WHERE caller_chunks FOR UPDATE")
            body = {"documentCollectionId": collection}
            deletion = pool.submit(own_service.call, "documentCollections/deleteDocumentCollection", body)
            wait_blocked(own_service)
            assert indexing.execute("DELETE FROM caller_chunks").rowcount == 1
        assert deletion.result(30).status_code == 200


def test_collections_and_chunks_are_walked_page_by_page(service: RunningService) -> None:
    for number in range(3):
        create_collection(service, f"C{number}")
    listed = walk(service, "documentCollections/listDocumentCollections", page_size=2)
    assert [each["collectionName"] for each in listed] == ["C0", "C1", "C2"]
    text = "\n\n".join(f"# Part {number}\n\n" + "The tide is written down every hour. " * 20 for number in range(6))
    document_id = uploaded(service, "a", text, file_name="a.md")["documentId"]
    whole = chunks(service, document_id)
    assert len(whole) > 3
    seen = walk(service, "documentCollections/getDocumentChunks", {"documentId": document_id}, page_size=2)
    assert [each["text"] for each in seen] == whole
