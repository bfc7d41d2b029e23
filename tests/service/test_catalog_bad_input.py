"""What can't be taken: each answer says why, and nothing of it is stored."""

import asyncio
import socket
from collections.abc import Iterator

import httpx
import pytest

from carrel import AsyncCarrel
from carrel.errors import PayloadTooLargeError
from tests import made_files
from tests.harness.cases import cases
from tests.harness.documents import (
    add_users,
    assert_nothing_stored,
    create_collection,
    get_document,
    list_documents,
    ok,
    refused,
    stored_files,
    upload,
    uploaded,
)
from tests.harness.services import MakeService, RunningService, ServiceHarness
from tests.service.directory import collection, grant, user

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
    assert get_document(module_service, document_id)["documentName"] == name
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
    """A typo in an address must not quietly keep somebody out."""
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
    """Unknown, another's (404 both, so that neither is told apart) or only viewed (403)."""
    add_users(empty, "ann@example.test", "ben@example.test")
    collection_id = create_collection(empty, "Ann's", as_user="ann@example.test")
    for target in (collection_id, "00000000-0000-7000-8000-000000000000"):
        answer = upload(empty, "a", as_user="ben@example.test", collectionId=target)
        refused(answer, 404, "collection_not_found")
    grant(empty, collection(collection_id), user("ben@example.test"))
    answer = upload(empty, "a", as_user="ben@example.test", collectionId=collection_id)
    refused(answer, 403, "collection_editor_required")
    assert_nothing_stored(empty)


def test_a_bomb_costs_one_refusal(own_service: RunningService) -> None:
    bomb = made_files.with_part(WORDS, "word/document.xml", b"<w:document>" + b" " * 400_000_000)
    assert upload(own_service, "a", bomb, file_name="a.docx").status_code == 400
    assert_nothing_stored(own_service)
    assert uploaded(own_service, "b")["status"] == "CREATED"
    assert list_documents(own_service) == ["b"]


def test_a_retried_deprecated_upload_creates_one_document(own_service: RunningService) -> None:
    """The same upload without a key creates another document."""

    def send(content: bytes, **headers: str) -> httpx.Response:
        files = {"document": ("a.txt", content)}
        return own_service.http.post("/api/v0/catalog/uploadDocumentFile", files=files, headers=headers)

    key = {"Idempotency-Key": "k1"}
    first, second = send(b"Some words.", **key), send(b"Some words.", **key)
    assert ok(first)["documentId"] == ok(second)["documentId"]
    assert second.headers["Idempotent-Replayed"] == "true"
    refused(send(b"Other words.", **key), 409, "idempotency_key_reused")
    assert len(stored_files(own_service)) == 1
    other = send(b"Some words.")
    assert ok(other)["documentId"] != ok(first)["documentId"]
    assert other.headers["Deprecation"].startswith("@")
