"""catalog/uploadFile: the resulting document, rights, and refusals."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from carrel import AsyncCarrel
from carrel.errors import PayloadTooLargeError
from service.index.ingestion.indexer import Indexer
from tests import made_files
from tests.harness import documents
from tests.harness.cases import cases
from tests.harness.documents import add_users, assert_nothing_stored, create_collection, ok, refused, upload, uploaded
from tests.harness.services import MakeService, RunningService, ServiceHarness
from tests.service.directory import collection, document, grant, user, walk

MEMBERS = "documentCollections/listDocumentsInCollection"
ANN, BEN, CY = "ann@example.test", "ben@example.test", "cy@example.test"


def test_a_new_document_is_created_indexed_and_shown(service) -> None:
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
    """UPLOADED_DOCUMENT names a document only by id, to prevent squatting."""
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
    """The answer says that the index is pending, long before the stop would cut the connection."""
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


PDF = made_files.pdf([("Some words about pears", 12)])
WORDS = made_files.word(paragraphs=[("Normal", "some words")])


@pytest.fixture(scope="module")
def storing_nothing(service_harness: ServiceHarness) -> Iterator[RunningService]:
    with service_harness.running() as service:
        yield service


@pytest.fixture
def empty(storing_nothing: RunningService) -> Iterator[RunningService]:
    with storing_nothing.new_organization() as organization:
        yield organization


@pytest.mark.parametrize(
    ("file_name", "content", "status", "code"),
    [
        ("a.txt", b"", 400, "file_empty"),
        ("a.txt", b" \n\n ", 400, "file_without_text"),
        ("a.pdf", made_files.picture_pdf(), 400, "file_without_text"),
        ("a.pdf", made_files.encrypted_pdf(), 400, "file_encrypted"),
        ("a.pdf", PDF[:20], 400, "file_corrupt"),
        ("a.docx", WORDS[: len(WORDS) // 2], 400, "file_corrupt"),
        ("a.docx", PDF, 415, "file_type_mismatch"),
        ("a.pdf", WORDS, 415, "file_type_mismatch"),
        ("a.png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100), 400, "file_corrupt"),
        ("a.exe", b"MZ\x90" + bytes(100), 415, "file_type_unsupported"),
    ],
)
def test_a_file_that_cant_be_read_is_refused_and_not_kept(empty, file_name, content, status, code) -> None:
    refused(upload(empty, "a", content, file_name=file_name), status, code)
    assert_nothing_stored(empty)


def test_a_file_over_the_limit_is_refused_by_its_declared_and_its_real_size(make_service: MakeService) -> None:
    service = make_service(max_upload_bytes=100_000)
    host, port = service.base_url.removeprefix("http://").split(":")
    credential = f"Authorization: Bearer {service.api_key}\r\n"
    head = (
        f"POST /api/v0/catalog/uploadFile HTTP/1.1\r\nHost: {host}\r\n{credential}"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {300 * 1024 * 1024}\r\n\r\n--b\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    refused(upload(service, "a", b"words " * 20_000), 413, "file_too_large")

    async def upload_asynchronously() -> None:
        async with AsyncCarrel(service.api_key, service.base_url) as client:
            await client.catalog.upload_file(b"words " * 10_000_000, document_external_id="a")

    with pytest.raises(PayloadTooLargeError, match="file_too_large"):
        asyncio.run(upload_asynchronously())

    def undeclared() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        for _ in range(40):
            yield b"words " * 1000

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = service.http.post("/api/v0/catalog/uploadFile", headers=headers, content=undeclared())
    refused(answer, 413, "file_too_large")
    assert_nothing_stored(service)


@pytest.mark.parametrize(("file_name", "name"), cases("odd_file_names_are_made_safe"))
def test_odd_file_names_are_made_safe(module_service: RunningService, file_name: str, name: str) -> None:
    document_id = uploaded(module_service, name, file_name=file_name)["documentId"]
    assert documents.get_document(module_service, document_id)["documentName"] == name
    answer = module_service.call("catalog/downloadDocument", {"documentId": document_id})
    disposition = answer.headers["Content-Disposition"]
    assert disposition.isascii()
    assert "/" not in disposition
    assert "\\" not in disposition


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        *cases("wrong_parts"),
        ({"documentName": "x" * 1001}, "documentName"),
        ({"customMetadata": "[" * 100_000}, "customMetadata"),
        ({"fingerprint": "x" * 129}, "fingerprint"),
    ],
)
def test_a_wrong_part_is_named(empty: RunningService, parts: dict[str, str], field: str) -> None:
    answer = upload(empty, **{"external_id": "a", **parts})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["details"][0]["field"] == field
    assert_nothing_stored(empty)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not multipart at all",
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nSome words.\r\n',
        b'--b\r\nContent-Disposition: form-data; name="documentExternalId"\r\n\r\n\xff\xfe\r\n--b--\r\n',
        b'--b\r\nContent-Disposition: form-data; name="documentExternalId"\r\n\r\na\r\n--b--\r\n',
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a\0.txt"\r\n\r\nSome words.\r\n--b--\r\n',
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="\xff.txt"\r\n\r\nSome words.\r\n--b--\r\n',
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nOne.\r\n' * 2 + b"--b--\r\n",
    ],
)
def test_a_malformed_form_is_a_400(empty: RunningService, body: bytes) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = empty.http.post("/api/v0/catalog/uploadFile", content=body, headers=headers)
    assert answer.status_code == 400, answer.text
    assert_nothing_stored(empty)


def test_who_and_what_is_unknown_is_named_and_stores_nothing(empty: RunningService) -> None:
    """A typo in an address must not silently exclude a reader."""
    fields = {"collectionId": create_collection(empty, "Notes", count="INT")}
    unknown: list[tuple[dict, str, str]] = [
        ({"as_user": "nobody@example.test"}, "unknown_user", "uploadAsUserEmail"),
        ({"allowedUsersEmailAddresses": "nobody@example.test"}, "unknown_principal", "allowedUsersEmailAddresses"),
        ({**fields, "customMetadata": '{"colour": "red"}'}, "invalid_metadata", "customMetadata.colour"),
        ({**fields, "customMetadata": '{"count": "many"}'}, "invalid_metadata", "customMetadata.count"),
    ]
    for parts, code, field in unknown:
        assert refused(upload(empty, "a", **parts), 400, code)["details"][0]["field"] == field
    documents = [{"documentExternalId": "a", "fingerprint": "1"}]
    planned = {"documents": documents, "uploadAsUserEmail": "nobody@example.test"}
    error = refused(empty.call("catalog/planUpload", planned), 400, "unknown_user")
    assert error["details"][0]["field"] == "uploadAsUserEmail"
    assert_nothing_stored(empty)


def test_a_collection_the_uploader_may_not_fill_stores_nothing(empty: RunningService) -> None:
    """Unknown and another's collections are both 404, so answers don't reveal which; with only VIEWER it is 403."""
    add_users(empty, "ann@example.test", "ben@example.test")
    collection_id = create_collection(empty, "Ann's", as_user="ann@example.test")
    for target in (collection_id, "00000000-0000-7000-8000-000000000000"):
        answer = upload(empty, "a", as_user="ben@example.test", collectionId=target)
        refused(answer, 404, "collection_not_found")
    grant(empty, collection(collection_id), user("ben@example.test"))
    answer = upload(empty, "a", as_user="ben@example.test", collectionId=collection_id)
    refused(answer, 403, "collection_editor_required")
    assert_nothing_stored(empty)


def test_a_retried_deprecated_upload_creates_one_document(own_service: RunningService) -> None:
    def send(content: bytes, **headers: str) -> httpx.Response:
        files = {"document": ("a.txt", content)}
        return own_service.http.post("/api/v0/catalog/uploadDocumentFile", files=files, headers=headers)

    key = {"Idempotency-Key": "k1"}
    first, second = send(b"Some words.", **key), send(b"Some words.", **key)
    assert ok(first)["documentId"] == ok(second)["documentId"]
    assert second.headers["Idempotent-Replayed"] == "true"
    refused(send(b"Other words.", **key), 409, "idempotency_key_reused")
    assert len(documents.stored_files(own_service)) == 1
    other = send(b"Some words.")
    assert ok(other)["documentId"] != ok(first)["documentId"]
    assert other.headers["Deprecation"].startswith("@")
