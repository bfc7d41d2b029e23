"""catalog/uploadFile: what an upload makes of a document, and who may do it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from service.index.ingestion.indexer import Indexer
from tests import made_files
from tests.harness import documents
from tests.service.directory import document, grant, user, walk

MEMBERS = "documentCollections/listDocumentsInCollection"
ANN, BEN, CY = "ann@example.test", "ben@example.test", "cy@example.test"


def test_a_new_document_is_created_indexed_and_shown(service) -> None:
    """And parts that an update leaves out stay as they were."""
    documents.add_users(service, ANN)
    answer = documents.uploaded(
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
        allowedUsersEmailAddresses=ANN,
    )
    assert answer == {**answer, "documentVersion": 1, "status": "CREATED", "indexing": "DONE"}
    shown = documents.get_document(service, answer["documentId"])
    assert shown["documentName"] == "Ferry notes"
    assert shown["documentExternalUrl"] == "https://example.test/notes/1"
    assert shown["customMetadata"] == {"team": "harbour"}
    assert shown["sourceSystemUpdated"] == "2026-01-31T08:00:00Z"
    assert shown["resource"] == {"resourceId": "page-1", "resourceType": "NOTION_PAGE"}
    assert shown["fingerprint"] == "f1"
    assert shown["owner"]["email"] == service.admin_email
    assert [version["documentVersion"] for version in shown["versions"]] == [1]
    assert shown["indexedIn"][0]["status"] == "DONE"
    assert "noon" in " ".join(documents.chunks(service, answer["documentId"]))
    documents.uploaded(service, "notes/1", "Other words.")
    kept = ("documentName", "documentExternalUrl", "customMetadata", "resource")
    after = documents.get_document(service, answer["documentId"], as_user=ANN)
    assert {name: after[name] for name in kept} == {name: shown[name] for name in kept}


def test_an_update_extracts_and_embeds_only_what_is_new(service, monkeypatch) -> None:
    first = documents.uploaded(service, "a", documentName="First")
    before = documents.embedded(service)
    forced = documents.uploaded(service, "a", forceUpdate="true")
    assert (forced["documentVersion"], forced["status"]) == (2, "UPDATED")
    with monkeypatch.context() as unread:
        unread.setattr(service.runtime.extractor, "extract", None)
        assert documents.uploaded(service, "a") == {**forced, "status": "UNCHANGED"}
        renamed = documents.uploaded(service, "a", documentName="Second")
    assert (renamed["documentVersion"], renamed["status"]) == (3, "UPDATED")
    assert documents.get_document(service, first["documentId"])["documentName"] == "Second"
    assert documents.embedded(service) == before
    changed = documents.uploaded(service, "a", "The train leaves at dusk.")
    assert (changed["documentVersion"], changed["status"]) == (4, "UPDATED")
    assert documents.chunks(service, changed["documentId"]) == ["The train leaves at dusk."]


def test_an_edit_of_one_paragraph_embeds_only_what_changed(service) -> None:
    paragraphs = [f"Paragraph {number}. " + f"It tells of harbour {number} at length. " * 14 for number in range(40)]
    document_id = documents.uploaded(service, "a", "\n\n".join(paragraphs), file_name="long.md")["documentId"]
    before = documents.embedded(service)
    assert len(documents.chunks(service, document_id)) > 30
    documents.uploaded(
        service, "a", "\n\n".join([*paragraphs[:20], "Something else.", *paragraphs[21:]]), file_name="long.md"
    )
    assert documents.embedded(service) - before <= 3


def test_without_parts_it_is_an_uploaded_document_that_only_the_uploader_reads(service) -> None:
    documents.add_users(service, ANN, BEN)
    document_id = documents.uploaded(service, "a", as_user=ANN)["documentId"]
    shown = documents.get_document(service, document_id, as_user=ANN)
    assert (shown["resource"], shown["documentName"]) == (document(document_id), "notes.txt")
    assert documents.list_documents(service, as_user=ANN) == ["a"]
    assert documents.list_documents(service, as_user=BEN) == []
    asked = {"documentId": document_id, "userEmail": BEN}
    documents.refused(service.call("catalog/getDocument", asked), 404, "document_not_found")


@pytest.mark.parametrize("form", ["json", "commas"])
def test_access_parts_say_who_reads_and_replace_each_other(service, form: str) -> None:
    documents.add_users(service, ANN, BEN, CY)
    group = documents.add_group(service, "harbour", CY)
    one = f'["{ANN}"]' if form == "json" else f"{ANN}, "
    documents.uploaded(service, "a", allowedUsersEmailAddresses=one, allowedGroupIds=group)
    assert [documents.list_documents(service, as_user=one) for one in (ANN, BEN, CY)] == [["a"], [], ["a"]]
    assert documents.uploaded(service, "a", internalPublic="true")["status"] == "UPDATED"
    assert [documents.list_documents(service, as_user=one) for one in (ANN, BEN, CY)] == [["a"]] * 3
    documents.uploaded(service, "a", allowedUsersEmailAddresses="[]")
    assert [documents.list_documents(service, as_user=one) for one in (ANN, BEN, CY)] == [[]] * 3


def test_anothers_external_id_is_refused(service) -> None:
    documents.add_users(service, ANN, BEN)
    answer = documents.uploaded(service, "a", as_user=ANN, allowedUsersEmailAddresses=BEN)
    for intruder in (BEN, service.admin_email):
        documents.refused(documents.upload(service, "a", "Mine now.", as_user=intruder), 403, "external_id_taken")
    assert documents.get_document(service, answer["documentId"], as_user=ANN)["documentVersion"] == 1


def test_an_editor_updates_contents_but_not_who_reads(service) -> None:
    documents.add_users(service, ANN, BEN, CY)
    answer = documents.uploaded(service, "a", as_user=ANN)
    grant(service, document(answer["documentId"]), user(BEN), role="EDITOR")
    assert documents.uploaded(service, "a", "By Ben.", as_user=BEN)["status"] == "UPDATED"
    documents.refused(
        documents.upload(service, "a", "By Ben.", as_user=BEN, allowedUsersEmailAddresses=CY), 403, "owner_required"
    )
    assert documents.list_documents(service, as_user=CY) == []
    shown = documents.get_document(service, answer["documentId"], as_user=ANN)
    assert shown["owner"]["email"] == ANN
    assert [version["createdBy"]["email"] for version in shown["versions"]] == [BEN, ANN]


def test_a_taken_source_identity_is_a_conflict(service) -> None:
    """New or updated; UPLOADED_DOCUMENT names a document by its id alone, so that nobody squats on one."""
    document_id = documents.uploaded(service, "a", resourceId="1", resourceType="BOX_FILE")["documentId"]
    documents.refused(
        documents.upload(service, "b", "Other.", resourceId="1", resourceType="BOX_FILE"), 409, "resource_taken"
    )
    assert documents.list_documents(service) == ["a"]
    documents.uploaded(service, "b", "Other.", resourceId="2", resourceType="BOX_FILE")
    documents.refused(
        documents.upload(service, "b", "Other.", resourceId="1", resourceType="BOX_FILE"), 409, "resource_taken"
    )
    assert documents.uploaded(service, "b", "Other.", resourceId="3", resourceType="BOX_FILE")["status"] == "UPDATED"
    documents.refused(
        documents.upload(service, "c", resourceId=document_id, resourceType="UPLOADED_DOCUMENT"), 400, "invalid_request"
    )
    documents.refused(documents.upload(service, "c", resourceId="x", resourceType="AGENT"), 400, "invalid_request")


@pytest.mark.parametrize(("reindex", "stale"), [("true", False), ("false", True)])
def test_contents_reach_a_collection_and_changes_unless_asked_not_to(service, reindex, stale) -> None:
    collection = documents.create_collection(service, "Notes", topic="STRING")
    there = {"collectionId": collection, "customMetadata": '{"topic": "ferries"}'}
    document_id = documents.uploaded(service, "a", "The ferry leaves at noon.", **there)["documentId"]
    assert documents.chunks(service, document_id, collection) == ["The ferry leaves at noon."]
    documents.uploaded(service, "a", "The train leaves at dusk.", reindexCollections=reindex)
    [member] = walk(service, MEMBERS, {"documentCollectionId": collection})
    assert (member["stale"], member["customMetadata"]) == (stale, {"topic": "ferries"})
    kept = "The ferry leaves at noon." if stale else "The train leaves at dusk."
    assert documents.chunks(service, document_id, collection) == [kept]
    if stale:
        documents.ok(
            documents.add_to_collection(service, document_id, collection, operation="reindexDocumentInCollection")
        )
        assert documents.chunks(service, document_id, collection) == ["The train leaves at dusk."]


def test_equal_files_are_stored_once(service) -> None:
    before = set(documents.stored_files(service))
    for name in ("a", "b"):
        documents.uploaded(service, name, "Bytes that no other test stores.")
    assert len({*documents.stored_files(service)} - before) == 1


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


UPLOAD: dict = {
    "data": {"documentExternalId": "a", "awaitVectorStoreSync": "true"},
    "files": {"file": ("a.txt", b"The ferry leaves at noon.")},
}


async def test_a_wait_for_the_index_ends_with_its_client(service, endless_wait) -> None:
    async with httpx.AsyncClient(base_url=service.base_url, headers=service.http.headers) as client:
        asking = asyncio.create_task(client.post("/api/v0/catalog/uploadFile", **UPLOAD))
        assert await asyncio.to_thread(endless_wait[0].wait, 20)
        asking.cancel()
        assert await asyncio.to_thread(endless_wait[1].wait, 20)
    assert len(documents.list_documents(service)) == 1


def test_a_wait_for_the_index_ends_when_the_service_stops(service_harness, endless_wait) -> None:
    """The answer says that the index isn't there yet, long before a stop would break the connection off."""
    service, stack = service_harness.start()
    with ThreadPoolExecutor(1) as pool:
        url, headers = f"{service.base_url}/api/v0/catalog/uploadFile", service.http.headers
        answer = pool.submit(httpx.post, url, headers=headers, timeout=60, **UPLOAD)
        assert endless_wait[0].wait(20)
        service_harness.stop(service, stack)
        assert documents.ok(answer.result())["indexing"] == "RUNNING"


def test_what_was_not_read_is_told_wherever_the_document_is(service) -> None:
    mail = made_files.mailbox()
    told = [{"kind": "attachment", "count": 1, "where": ["message 1"]}]
    answer = documents.uploaded(service, "mail/1", mail, file_name="a.mbox")
    assert answer["notRead"] == told
    assert documents.get_document(service, answer["documentId"])["notRead"] == told
    assert [one["notRead"] for one in documents.ok(service.call("catalog/listDocuments"))["documents"]] == [told]
    again = documents.uploaded(service, "mail/1", mail, file_name="a.mbox")
    assert (again["status"], again["notRead"]) == ("UNCHANGED", told)
    renamed = documents.uploaded(service, "mail/1", mail, file_name="a.mbox", documentName="Other")
    assert (renamed["documentVersion"], renamed["notRead"]) == (2, told)
    assert documents.get_document(service, answer["documentId"])["notRead"] == told
    assert documents.uploaded(service, "mail/1", "whole", file_name="a.txt")["notRead"] == []
    assert documents.get_document(service, answer["documentId"])["notRead"] == []
