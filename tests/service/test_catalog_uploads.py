"""catalog/uploadFile: what an upload makes of a document, and who may do it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from service.index.ingestion.indexer import Indexer
from tests import made_files
from tests.harness.documents import (
    add_group,
    add_to_collection,
    add_users,
    assert_nothing_stored,
    chunks,
    create_collection,
    embedded,
    get_document,
    list_documents,
    ok,
    refused,
    stored_files,
    upload,
    uploaded,
)
from tests.harness.services import RunningService, ServiceHarness

ANN, BEN, CY = "ann@example.test", "ben@example.test", "cy@example.test"


def test_a_new_document_is_created_indexed_and_shown(service: RunningService) -> None:
    """The answer says CREATED and DONE, and every part sent is shown by getDocument."""
    answer = uploaded(
        service,
        "notes/1",
        "# Ferries\n\nThe ferry leaves at noon.",
        file_name="notes.md",
        documentName="Ferry notes",
        documentExternalUrl="https://example.test/notes/1",
        customMetadata='{"team": "harbour"}',
        sourceSystemUpdated="2026-01-31T09:00:00+01:00",
        resourceId="page-1",
        resourceType="NOTION_PAGE",
        fingerprint="f1",
    )
    assert answer == {**answer, "documentVersion": 1, "status": "CREATED", "indexing": "DONE"}
    document = get_document(service, answer["documentId"])
    assert document["documentName"] == "Ferry notes"
    assert document["documentExternalUrl"] == "https://example.test/notes/1"
    assert document["customMetadata"] == {"team": "harbour"}
    assert document["sourceSystemUpdated"] == "2026-01-31T08:00:00Z"
    assert document["resource"] == {"resourceId": "page-1", "resourceType": "NOTION_PAGE"}
    assert document["fingerprint"] == "f1"
    assert document["owner"]["email"] == service.admin_email
    assert [version["documentVersion"] for version in document["versions"]] == [1]
    assert document["indexedIn"][0]["status"] == "DONE"
    assert "noon" in " ".join(chunks(service, answer["documentId"]))


def test_a_document_without_a_source_identity_is_an_uploaded_document(service: RunningService) -> None:
    """Without resourceId and resourceType it is (documentId, UPLOADED_DOCUMENT), and called as its file."""
    document_id = uploaded(service, "a")["documentId"]
    document = get_document(service, document_id)
    assert document["resource"] == {"resourceId": document_id, "resourceType": "UPLOADED_DOCUMENT"}
    assert document["documentName"] == "notes.txt"


def test_the_same_bytes_again_change_extract_and_embed_nothing(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second upload is UNCHANGED, leaves the version alone, and reaches neither extractor nor embedder."""
    first = uploaded(service, "a")
    before = embedded(service)
    monkeypatch.setattr(service.runtime.extractor, "extract", None)
    second = uploaded(service, "a")
    assert second == {**first, "status": "UNCHANGED"}
    assert embedded(service) == before


def test_other_bytes_make_a_new_version_that_takes_the_place_of_the_old(service: RunningService) -> None:
    """An update's text is what is indexed afterwards, and nothing of the old one."""
    uploaded(service, "a", "The ferry leaves at noon.")
    answer = uploaded(service, "a", "The train leaves at dusk.")
    assert (answer["documentVersion"], answer["status"]) == (2, "UPDATED")
    assert chunks(service, answer["documentId"]) == ["The train leaves at dusk."]


def test_an_edit_of_one_paragraph_embeds_only_what_changed(service: RunningService) -> None:
    """Of a long document with one paragraph changed, at most three chunks are embedded."""
    paragraphs = [f"Paragraph {number}. " + f"It tells of harbour {number} at length. " * 14 for number in range(40)]
    document_id = uploaded(service, "a", "\n\n".join(paragraphs), file_name="long.md")["documentId"]
    before = embedded(service)
    assert len(chunks(service, document_id)) > 30
    uploaded(service, "a", "\n\n".join([*paragraphs[:20], "Something else.", *paragraphs[21:]]), file_name="long.md")
    assert embedded(service) - before <= 3


def test_another_name_is_an_update_that_embeds_nothing(service: RunningService) -> None:
    """The name is searched too, so it is indexed again; its contents keep their vectors."""
    uploaded(service, "a", documentName="First")
    before = embedded(service)
    answer = uploaded(service, "a", documentName="Second")
    assert answer["status"] == "UPDATED"
    assert get_document(service, answer["documentId"])["documentName"] == "Second"
    assert embedded(service) == before


def test_force_update_extracts_again_though_the_bytes_are_the_same(service: RunningService) -> None:
    """It makes a new version, whose texts are known and not embedded again."""
    uploaded(service, "a")
    before = embedded(service)
    answer = uploaded(service, "a", forceUpdate="true")
    assert (answer["documentVersion"], answer["status"]) == (2, "UPDATED")
    assert embedded(service) == before


def test_parts_left_out_on_an_update_stay_as_they_were(service: RunningService) -> None:
    """Name, URL, metadata, source identity and access of before hold on."""
    add_users(service, ANN)
    given = {"documentName": "Kept", "documentExternalUrl": "https://example.test/x", "customMetadata": '{"a": "b"}'}
    uploaded(service, "a", **given, resourceId="1", resourceType="BOX_FILE", allowedUsersEmailAddresses=ANN)
    answer = uploaded(service, "a", "Other words.")
    document = get_document(service, answer["documentId"], as_user=ANN)
    assert (document["documentName"], document["documentExternalUrl"]) == ("Kept", "https://example.test/x")
    assert document["customMetadata"] == {"a": "b"}
    assert document["resource"]["resourceId"] == "1"


def test_without_access_parts_only_the_uploader_reads(service: RunningService) -> None:
    """No access information never means everybody."""
    add_users(service, ANN, BEN)
    answer = uploaded(service, "a", as_user=ANN)
    assert list_documents(service, as_user=ANN) == ["a"]
    assert list_documents(service, as_user=BEN) == []
    refused(
        service.call("catalog/getDocument", {"documentId": answer["documentId"], "userEmail": BEN}),
        404,
        "document_not_found",
    )


@pytest.mark.parametrize("form", ["json", "commas"])
def test_access_parts_say_who_reads_and_replace_each_other(service: RunningService, form: str) -> None:
    """Users, groups and everyone read as given, in either notation, and an update that gives some replaces them all."""
    add_users(service, ANN, BEN, CY)
    group = add_group(service, "harbour", CY)
    one = f'["{ANN}"]' if form == "json" else f"{ANN}, "
    uploaded(service, "a", allowedUsersEmailAddresses=one, allowedGroupIds=group)
    assert [list_documents(service, as_user=user) for user in (ANN, BEN, CY)] == [["a"], [], ["a"]]
    answer = uploaded(service, "a", internalPublic="true")
    assert answer["status"] == "UPDATED"
    assert [list_documents(service, as_user=user) for user in (ANN, BEN, CY)] == [["a"]] * 3
    uploaded(service, "a", allowedUsersEmailAddresses="[]")
    assert [list_documents(service, as_user=user) for user in (ANN, BEN, CY)] == [[]] * 3


def test_unknown_readers_are_refused_by_name_and_nothing_is_stored(service: RunningService) -> None:
    """A typo in an address must not quietly keep somebody out."""
    error = refused(upload(service, "a", allowedUsersEmailAddresses="nobody@example.test"), 400, "unknown_principal")
    assert error["details"][0]["field"] == "allowedUsersEmailAddresses"
    assert_nothing_stored(service)


def test_anothers_external_id_is_refused(service: RunningService) -> None:
    """Neither a reader nor a stranger updates it; the document stays as it was."""
    add_users(service, ANN, BEN)
    answer = uploaded(service, "a", as_user=ANN, allowedUsersEmailAddresses=BEN)
    for intruder in (BEN, service.admin_email):
        refused(upload(service, "a", "Mine now.", as_user=intruder), 403, "external_id_taken")
    assert get_document(service, answer["documentId"], as_user=ANN)["documentVersion"] == 1


def test_an_editor_updates_contents_but_not_who_reads(service: RunningService) -> None:
    """The EDITOR role covers contents; access is the owner's and the admins'."""
    add_users(service, ANN, BEN, CY)
    answer = uploaded(service, "a", as_user=ANN)
    resource = {"resourceId": answer["documentId"], "resourceType": "UPLOADED_DOCUMENT"}
    grants = [{"principal": {"type": "user", "email": BEN}, "role": "EDITOR"}]
    ok(service.call("admin/grants/set", {"resource": resource, "grants": grants}))
    assert uploaded(service, "a", "By Ben.", as_user=BEN)["status"] == "UPDATED"
    refused(upload(service, "a", "By Ben.", as_user=BEN, allowedUsersEmailAddresses=CY), 403, "owner_required")
    assert list_documents(service, as_user=CY) == []
    document = get_document(service, answer["documentId"], as_user=ANN)
    assert document["owner"]["email"] == ANN
    assert [version["createdBy"]["email"] for version in document["versions"]] == [BEN, ANN]


def test_a_taken_source_identity_is_a_conflict(service: RunningService) -> None:
    """At most one document of the organization has a resourceId and resourceType, new or updated."""
    uploaded(service, "a", resourceId="1", resourceType="BOX_FILE")
    refused(upload(service, "b", "Other.", resourceId="1", resourceType="BOX_FILE"), 409, "resource_taken")
    assert list_documents(service) == ["a"]
    uploaded(service, "b", "Other.", resourceId="2", resourceType="BOX_FILE")
    refused(upload(service, "b", "Other.", resourceId="1", resourceType="BOX_FILE"), 409, "resource_taken")
    assert uploaded(service, "b", "Other.", resourceId="3", resourceType="BOX_FILE")["status"] == "UPDATED"


def test_another_documents_own_identity_cant_be_claimed(service: RunningService) -> None:
    """UPLOADED_DOCUMENT names a document by its id; nobody squats on one."""
    document_id = uploaded(service, "a")["documentId"]
    refused(upload(service, "b", resourceId=document_id, resourceType="UPLOADED_DOCUMENT"), 400, "invalid_request")
    refused(upload(service, "b", resourceId="x", resourceType="AGENT"), 400, "invalid_request")


def test_an_upload_into_a_collection_is_searchable_there(service: RunningService) -> None:
    """collectionId adds the document, its metadata checked and kept there."""
    collection = create_collection(service, "Notes", topic="STRING")
    answer = uploaded(service, "a", collectionId=collection, customMetadata='{"topic": "ferries"}')
    assert answer["indexing"] == "DONE"
    members = ok(service.call("documentCollections/listDocumentsInCollection", {"documentCollectionId": collection}))
    assert members["documents"][0]["customMetadata"] == {"topic": "ferries"}
    assert chunks(service, answer["documentId"], collection) == chunks(service, answer["documentId"])


@pytest.mark.parametrize(
    ("metadata", "field"),
    [('{"colour": "red"}', "customMetadata.colour"), ('{"count": "many"}', "customMetadata.count")],
)
def test_metadata_that_doesnt_fit_the_collection_stores_nothing(
    service: RunningService, metadata: str, field: str
) -> None:
    """A key that is no field and a value not of its type are 400 naming the field."""
    collection = create_collection(service, "Notes", count="INT")
    error = refused(upload(service, "a", collectionId=collection, customMetadata=metadata), 400, "invalid_metadata")
    assert error["details"][0]["field"] == field
    assert_nothing_stored(service)


def test_a_collection_the_uploader_may_not_fill_stores_nothing(service: RunningService) -> None:
    """Unknown, another's (404 both, so that neither is told apart) or only viewed (403)."""
    add_users(service, ANN, BEN)
    collection = create_collection(service, "Notes", as_user=ANN)
    unknown = "00000000-0000-7000-8000-000000000000"
    for target in (collection, unknown):
        refused(upload(service, "a", as_user=BEN, collectionId=target), 404, "collection_not_found")
    resource = {"resourceId": collection, "resourceType": "DOCUMENT_COLLECTION"}
    grants = [{"principal": {"type": "user", "email": BEN}, "role": "VIEWER"}]
    ok(service.call("admin/grants/set", {"resource": resource, "grants": grants}))
    refused(upload(service, "a", as_user=BEN, collectionId=collection), 403, "collection_editor_required")
    assert_nothing_stored(service)


@pytest.mark.parametrize(("reindex", "stale"), [("true", False), ("false", True)])
def test_changed_contents_reach_collections_unless_asked_not_to(
    service: RunningService, reindex: str, stale: bool
) -> None:
    """reindexCollections=false leaves the old chunks there and says so."""
    collection = create_collection(service, "Notes")
    document_id = uploaded(service, "a", "The ferry leaves at noon.", collectionId=collection)["documentId"]
    uploaded(service, "a", "The train leaves at dusk.", reindexCollections=reindex)
    members = ok(service.call("documentCollections/listDocumentsInCollection", {"documentCollectionId": collection}))
    assert members["documents"][0]["stale"] is stale
    assert chunks(service, document_id, collection) == [
        "The ferry leaves at noon." if stale else "The train leaves at dusk."
    ]
    if stale:
        ok(add_to_collection(service, document_id, collection, operation="reindexDocumentInCollection"))
        assert chunks(service, document_id, collection) == ["The train leaves at dusk."]


def test_the_deprecated_upload_works_and_says_that_it_is_deprecated(service: RunningService) -> None:
    """Part `document`, an external id of its own each time, and the Deprecation header."""
    answers = [
        service.http.post("/api/v0/catalog/uploadDocumentFile", files={"document": ("notes.txt", b"Some words.")})
        for _ in range(2)
    ]
    assert all(answer.headers["Deprecation"].startswith("@") for answer in answers)
    assert len({ok(answer)["documentId"] for answer in answers}) == 2


def test_a_user_who_is_unknown_is_named_by_the_part_that_says_so(service: RunningService) -> None:
    """The refusal's detail has the member's own name, in an upload and in its plan."""
    error = refused(upload(service, "a", as_user="nobody@example.test"), 400, "unknown_user")
    assert error["details"][0]["field"] == "uploadAsUserEmail"
    planned = {
        "documents": [{"documentExternalId": "a", "fingerprint": "1"}],
        "uploadAsUserEmail": "nobody@example.test",
    }
    error = refused(service.call("catalog/planUpload", planned), 400, "unknown_user")
    assert error["details"][0]["field"] == "uploadAsUserEmail"


def test_equal_files_are_stored_once(service: RunningService) -> None:
    """The store is addressed by content."""
    uploaded(service, "a")
    uploaded(service, "b")
    assert len(stored_files(service)) == 1


@pytest.fixture
def endless_wait(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """An index that is never there; whether somebody has begun to wait for it, and whether nobody does any more."""
    begun, ended = threading.Event(), threading.Event()

    async def wait(*_: object, **__: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(Indexer, "wait", wait)
    return begun, ended


def upload_and_wait(service: RunningService, *, seconds: float) -> httpx.Response:
    """Upload a document and wait for its index, for so many seconds."""
    return httpx.post(
        f"{service.base_url}/api/v0/catalog/uploadFile",
        data={"documentExternalId": "a", "awaitVectorStoreSync": "true"},
        files={"file": ("a.txt", b"The ferry leaves at noon.")},
        headers={"Authorization": f"Bearer {service.api_key}"},
        timeout=seconds,
    )


def test_a_wait_for_the_index_ends_with_its_client(
    service: RunningService, endless_wait: tuple[threading.Event, threading.Event]
) -> None:
    """Nobody is waited for who has hung up; what was uploaded is there."""
    with pytest.raises(httpx.ReadTimeout):
        upload_and_wait(service, seconds=3)
    assert endless_wait[1].wait(20)
    assert len(list_documents(service)) == 1


def test_a_wait_for_the_index_ends_when_the_service_stops(
    service_harness: ServiceHarness, endless_wait: tuple[threading.Event, threading.Event]
) -> None:
    """The answer says that the index isn't there yet, long before a stop would break the connection off."""
    service, stack = service_harness.start()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(upload_and_wait, service, seconds=20)
        assert endless_wait[0].wait(20)
        service_harness.stop(service, stack)
        assert ok(answer.result())["indexing"] == "RUNNING"


def test_what_was_not_read_is_told_wherever_the_document_is(service: RunningService) -> None:
    """The upload's answer, the document and the list tell it; it stays with the bytes, and goes with them."""
    mail = made_files.mailbox()
    told = [{"kind": "attachment", "count": 1, "where": ["message 1"]}]
    answer = uploaded(service, "mail/1", mail, file_name="a.mbox")
    assert answer["notRead"] == told
    assert get_document(service, answer["documentId"])["notRead"] == told
    listed = ok(service.http.post("/api/v0/catalog/listDocuments", json={}))["documents"]
    assert [document["notRead"] for document in listed] == [told]
    again = uploaded(service, "mail/1", mail, file_name="a.mbox")
    assert (again["status"], again["notRead"]) == ("UNCHANGED", told)
    renamed = uploaded(service, "mail/1", mail, file_name="a.mbox", documentName="Other")
    assert (renamed["documentVersion"], renamed["notRead"]) == (2, told)
    assert get_document(service, answer["documentId"])["notRead"] == told
    assert uploaded(service, "mail/1", "whole", file_name="a.txt")["notRead"] == []
    assert get_document(service, answer["documentId"])["notRead"] == []
