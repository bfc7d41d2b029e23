"""Refused and continuing work without disk space, as set in the service or reported by its database."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from service.index.ingestion.indexer import Indexer
from service.index.ingestion.sweeper import release_claims, sweep
from service.platform.disk import BYTES_PER_BODY_BYTE, MEBIBYTE, FileSystem
from tests.harness.documents import get_document, ok, refused, upload
from tests.harness.jobs import until
from tests.harness.services import RunningService
from tests.service.directory import on_rows

pytestmark = pytest.mark.own_service

# More than any disk has.
ALWAYS = 1 << 60


@contextmanager
def no_room_for(service: RunningService, table: str) -> Iterator[None]:
    with service.owner_connection() as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION refuse_for_room() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$"
        )
        connection.execute(
            f"CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION refuse_for_room()"
        )
        yield
        connection.execute(f"DROP TRIGGER no_room ON {table}")


@pytest.fixture
def full(make_service: Callable[..., RunningService]) -> RunningService:
    return make_service(storage_low_bytes=ALWAYS)


def search(service: RunningService) -> int:
    return len(ok(service.call("search/searchDocumentCatalog", {"searchQuery": "ferry"}))["results"])


def logged(service: RunningService) -> int:
    return len(ok(service.call("admin/searchLog/query"))["searches"])


def test_a_search_goes_on_when_its_log_finds_no_room(full: RunningService) -> None:
    assert search(full) == 0
    with no_room_for(full, "searches"):
        assert search(full) == 0
    assert logged(full) == 1


def test_what_the_database_has_no_room_for_is_a_507(service: RunningService) -> None:
    with no_room_for(service, "principals"):
        answer = service.call("admin/users/upsert", {"users": [{"email": "ada@example.test", "name": "Ada"}]})
    refused(answer, 507, "storage_full")
    assert int(answer.headers["Retry-After"]) > 0


def test_a_credential_works_when_its_use_can_not_be_noted(service: RunningService) -> None:
    key = service.new_user("ada@example.test")
    with no_room_for(service, "api_keys"):
        assert service.call("search/searchDocumentCatalog", {"searchQuery": "ferry"}, api_key=key).status_code == 200


def test_a_full_disk_uses_up_no_attempt_of_indexing(service: RunningService) -> None:
    with no_room_for(service, "chunks_384"):
        answer = ok(upload(service, "a", "The ferry leaves at noon."))
    assert answer["indexing"] == "RUNNING"
    assert on_rows(service, "SELECT attempts, error FROM space_documents") == [(0, None)]
    service.run(release_claims(service.runtime.database))
    service.run(sweep(service.runtime.indexer, service.runtime.disk))
    until(lambda: get_document(service, answer["documentId"])["indexedIn"][0]["status"] == "DONE")


def test_a_body_is_not_read_for_which_there_is_no_room(full: RunningService) -> None:
    """Only permitted uploaders learn of the full disk."""
    assert upload(full, "a", "x").status_code == 507
    assert full.call("catalog/uploadFile", "not even a form").status_code == 507
    assert full.call("catalog/uploadFile", api_key="svc_key_" + "0" * 40).status_code == 401
    assert full.http.get("/readyz").json() == {"status": "ready", "storage": "full"}


def in_pieces(body: bytes) -> Iterator[bytes]:
    yield from (body[start : start + 65536] for start in range(0, len(body), 65536))


def test_a_body_of_unknown_length_is_refused_where_a_declared_one_is(service, monkeypatch) -> None:
    room = 2 * BYTES_PER_BODY_BYTE * MEBIBYTE
    monkeypatch.setattr(FileSystem, "look", lambda self: self.measure(1 << 40, self.low + room))
    service.run(asyncio.to_thread(service.runtime.disk.look))
    for mebibytes, length, status in ((1, False, 200), (3, True, 507), (3, False, 507)):
        # Most of it is a comment, which takes no time to index.
        page = b"<p>The ferry.</p><!-- %s -->" % (b"x" * (mebibytes * MEBIBYTE))
        parts = {"data": {"documentExternalId": f"{mebibytes}"}, "files": {"file": ("a.html", page)}}
        form = httpx.Request("POST", "http://localhost", **parts)
        body = form.read()
        answer = service.http.post(
            "/api/v0/catalog/uploadFile",
            content=body if length else in_pieces(body),
            headers={"Content-Type": form.headers["Content-Type"]},
        )
        assert answer.status_code == status, answer.text
    monkeypatch.setattr(FileSystem, "look", lambda self: self.measure(1 << 40, self.low + 1000))
    service.run(asyncio.to_thread(service.runtime.disk.look))
    collection = json.dumps({"name": "Timetables", "description": "d" * 300}).encode()
    for content in (collection, in_pieces(collection)):
        answer = service.http.post(
            "/api/v0/documentCollections/createDocumentCollection",
            content=content,
            headers={"Content-Type": "application/json"},
        )
        refused(answer, 507, "storage_full")
    assert all(disk.promised == 0 for disk in service.runtime.disk.file_systems)


def test_an_upload_that_waits_for_its_index_keeps_no_room(service, monkeypatch) -> None:
    disks, promised = service.runtime.disk.file_systems, list[list[int]]()
    folder, files = service.settings.uploads_dir, list[list[Path]]()

    async def wait(*_: object, **__: object) -> None:
        promised.append([disk.promised for disk in disks])
        files.append(list(folder.iterdir()))

    monkeypatch.setattr(Indexer, "wait", wait)
    assert ok(upload(service, "a", "The ferry leaves at noon."))["indexing"] == "RUNNING"
    assert disks
    assert promised == [[0] * len(disks)]
    assert files == [[]], "the file that was received is not kept beside the stored one"
    assert all(disk.promised == 0 for disk in disks)
