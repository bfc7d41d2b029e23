"""What can't be taken: each answer says why, and nothing of it is stored."""

import socket
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests import made_files
from tests.harness.documents import (
    assert_nothing_stored,
    get_document,
    list_documents,
    ok,
    refused,
    stored_files,
    upload,
    uploaded,
)
from tests.harness.services import RunningService

PDF = made_files.pdf([("Some words about pears", 12)])
WORDS = made_files.word(paragraphs=[("Normal", "some words")])


@pytest.mark.parametrize(
    ("file_name", "content", "status", "code"),
    [
        ("a.txt", b"", 400, "file_empty"),
        ("a.txt", b" \n\n ", 400, "file_without_text"),
        ("a.pdf", made_files.picture_pdf(), 400, "file_without_text"),
        ("a.pdf", made_files.encrypted_pdf(), 400, "file_encrypted"),
        ("a.pdf", PDF[: len(PDF) // 2], 400, "file_corrupt"),
        ("a.docx", WORDS[: len(WORDS) // 2], 400, "file_corrupt"),
        ("a.docx", PDF, 415, "file_type_mismatch"),
        ("a.pdf", WORDS, 415, "file_type_mismatch"),
        ("a.png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100), 400, "file_corrupt"),
        ("a.exe", b"MZ\x90" + bytes(100), 415, "file_type_unsupported"),
    ],
)
def test_a_file_that_cant_be_read_is_refused_and_not_kept(
    service: RunningService, file_name: str, content: bytes, status: int, code: str
) -> None:
    """Empty, text-less, encrypted, truncated, mislabelled, of no known type."""
    refused(upload(service, "a", content, file_name=file_name), status, code)
    assert_nothing_stored(service)


def test_a_file_over_the_limit_is_refused_by_its_declared_and_its_real_size(
    make_service: Callable[..., RunningService],
) -> None:
    """300 MB are refused before they are sent; a body that doesn't declare its length as soon as it is too long."""
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

    def undeclared() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        for _ in range(40):
            yield b"words " * 1000

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = service.http.post("/api/v0/catalog/uploadFile", headers=headers, content=undeclared())
    refused(answer, 413, "file_too_large")
    assert_nothing_stored(service)


@pytest.mark.parametrize(
    ("file_name", "name"),
    [
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\notes\\a.txt", "a.txt"),
        ("⛴ ferry.txt", "⛴ ferry.txt"),
        ("notes\u202etxt.exe.txt", "notestxt.exe.txt"),
        ("קו.txt", "קו.txt"),
    ],
)
def test_odd_file_names_are_made_safe(service: RunningService, file_name: str, name: str) -> None:
    """Folders and marks that turn the reading direction are dropped; everything else is kept."""
    document_id = uploaded(service, "a", file_name=file_name)["documentId"]
    assert get_document(service, document_id)["documentName"] == name
    disposition = service.call("catalog/downloadDocument", {"documentId": document_id}).headers["Content-Disposition"]
    assert disposition.isascii()
    assert "/" not in disposition
    assert "\\" not in disposition


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"documentName": "nul \0"}, "documentName"),
        ({"documentName": "x" * 1001}, "documentName"),
        ({"documentExternalId": ""}, "documentExternalId"),
        ({"collectionId": "not-a-uuid"}, "collectionId"),
        ({"customMetadata": "{"}, "customMetadata"),
        ({"customMetadata": '{"a": 1}'}, "customMetadata.a"),
        ({"customMetadata": "[" * 100_000}, "customMetadata"),
        ({"allowedGroupIds": "x"}, "allowedGroupIds.0"),
        ({"allowedUsersEmailAddresses": "[1]"}, "allowedUsersEmailAddresses.0"),
        ({"internalPublic": "yes"}, "internalPublic"),
        ({"forceUpdate": "1"}, "forceUpdate"),
        ({"sourceSystemUpdated": "yesterday"}, "sourceSystemUpdated"),
        ({"documentExternalUrl": "javascript:alert(1)"}, "documentExternalUrl"),
        ({"resourceType": "FLOPPY", "resourceId": "1"}, "resourceType"),
        ({"fingerprint": "x" * 129}, "fingerprint"),
        ({"unknownPart": "x"}, "unknownPart"),
        ({"resourceId": "1"}, ""),
    ],
)
def test_a_wrong_part_is_named(service: RunningService, parts: dict[str, str], field: str) -> None:
    """400 with the part's name, and nothing stored."""
    answer = service.http.post(
        "/api/v0/catalog/uploadFile",
        data={"documentExternalId": "a", **parts},
        files={"file": ("a.txt", b"Some words.")},
    )
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["details"][0]["field"] == field
    assert_nothing_stored(service)


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
def test_a_malformed_form_is_a_400(service: RunningService, body: bytes) -> None:
    """Empty, no form, cut off, not UTF-8, no file, NUL or no UTF-8 in its name, two files."""
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = service.http.post("/api/v0/catalog/uploadFile", content=body, headers=headers)
    assert answer.status_code == 400, answer.text
    assert_nothing_stored(service)


def test_json_where_a_form_is_wanted_is_a_415(service: RunningService) -> None:
    """The wrong content type is told as that."""
    assert service.call("catalog/uploadFile", {"documentExternalId": "a"}).status_code == 415


def test_without_a_credential_nothing_of_an_upload_is_read(service: RunningService) -> None:
    """401 comes before any 400."""
    del service.http.headers["Authorization"]
    refused(service.http.post("/api/v0/catalog/uploadFile", content=b"x"), 401, "missing_credential")


def test_an_upload_for_a_user_who_doesnt_exist_stores_nothing(service: RunningService) -> None:
    """400 saying so."""
    refused(upload(service, "a", as_user="nobody@example.test"), 400, "unknown_user")
    assert_nothing_stored(service)


def test_a_bomb_costs_one_refusal(service: RunningService) -> None:
    """A .docx that unpacks to far more than it is, and a PDF of 10,000 pages; the next file is read as ever."""
    bomb = made_files.with_part(WORDS, "word/document.xml", b"<w:document>" + b" " * 400_000_000)
    assert upload(service, "a", bomb, file_name="a.docx").status_code == 400
    assert_nothing_stored(service)
    assert uploaded(service, "b")["status"] == "CREATED"
    assert list_documents(service) == ["b"]


def test_a_retried_deprecated_upload_creates_one_document(service: RunningService) -> None:
    """With an Idempotency-Key the same upload again is the same document; other bytes under it are 409."""

    def send(content: bytes) -> httpx.Response:
        return service.http.post(
            "/api/v0/catalog/uploadDocumentFile",
            files={"document": ("a.txt", content)},
            headers={"Idempotency-Key": "k1"},
        )

    first, second = send(b"Some words."), send(b"Some words.")
    assert ok(first)["documentId"] == ok(second)["documentId"]
    assert second.headers["Idempotent-Replayed"] == "true"
    refused(send(b"Other words."), 409, "idempotency_key_reused")
    assert len(stored_files(service)) == 1
