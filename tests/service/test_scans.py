"""Scanned pages and pictures: accepted at once, read afterwards, and found by their text."""

import asyncio
import errno
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from unittest.mock import AsyncMock
from uuid import UUID

import pytest

from carrel.wire.catalog import Document, GetDocumentResponse
from carrel.wire.places import PassagePlace, describe_place
from service.domains.documents.recognition.jobs import read_pages, sweep
from service.runtime.jobs import running
from service.text.extraction.blocks import Block
from service.text.reading import PageReader, ReadingInterrupted
from tests import made_files
from tests.harness.documents import chunks, create_collection, get_document, ok, refused, search, upload, uploaded
from tests.harness.jobs import until
from tests.harness.services import MakeService, RunningService
from tests.service.directory import on_rows
from tests.service.directory import organization_id as organization_of

LANTERN = "The lantern room is painted every spring"
NONE = {"pictures": 0, "picturesRead": 0, "picturesFailed": 0}
KEEPER = "The keeper feeds seventeen grey geese"
JOBS = "procrastinate_jobs WHERE queue_name = 'ocr' AND args ->> 'document_id' = %s"


@pytest.fixture
def reading(make_service: MakeService) -> RunningService:
    return make_service(ocr_workers=1, ocr_pages=2)


def read_out(service: RunningService, document_id: str) -> dict:
    def is_read() -> bool:
        found = get_document(service, document_id)
        return found["textRecognition"]["status"] == "DONE" and found["indexing"] == "DONE"

    until(is_read)
    return get_document(service, document_id)


def test_scans_and_pictures_are_taken_at_once_and_found_once_they_are_read(reading: RunningService) -> None:
    pages = made_files.scan(LANTERN), made_files.scan(KEEPER)
    content = made_files.scanned(*pages, kind="PDF")
    pdf = uploaded(reading, "scan", content, file_name="scan.pdf")
    assert pdf["textRecognition"] == {"status": "RUNNING", "pages": 2, "pagesRead": 0, "pagesFailed": 0} | NONE
    assert pdf["notRead"] == [{"kind": "page", "count": 2, "where": ["page 1", "page 2"]}]
    tiff = uploaded(reading, "tiff", made_files.scanned(*pages, pages[0], kind="TIFF"), file_name="a.tif")
    blank = uploaded(reading, "blank", made_files.scanned(made_files.scan(), kind="PNG"), file_name="blank.png")
    found = read_out(reading, pdf["documentId"])
    assert (found["textRecognition"]["pagesRead"], found["notRead"]) == (2, [])
    assert "lantern" in chunks(reading, pdf["documentId"])[0]
    assert "geese" in chunks(reading, pdf["documentId"])[-1]
    assert ok(upload(reading, "scan", content, file_name="scan.pdf"))["notRead"] == []
    assert "scan.pdf" in search(reading, "seventeen geese")
    [first, *_] = ok(reading.call("documentCollections/getDocumentChunks", {"documentId": pdf["documentId"]}))["chunks"]
    place = PassagePlace.model_validate(first["place"])
    assert (place.page, place.last_page) == (1, None)
    assert ", read by machine (" in describe_place(place)
    assert 0.8 < (place.confidence or 0) <= 1
    partly = read_out(reading, tiff["documentId"])
    error = "At most 2 pages of a document are read by machine."
    counts = {"pages": 3, "pagesRead": 2, "pagesFailed": 1}
    assert partly["textRecognition"] == {"status": "DONE", "error": error} | counts | NONE
    assert partly["notRead"] == [{"kind": "page", "count": 1, "where": ["page 3"]}]
    empty = read_out(reading, blank["documentId"])
    assert (empty["notRead"], chunks(reading, blank["documentId"])) == ([], [])
    listed = ok(reading.call("catalog/listDocuments", {}))["documents"]
    counted = {one["documentExternalId"]: one["chunkCount"] for one in listed}
    without = [each.document_external_id for one in listed if (each := Document.model_validate(one)).has_no_text]
    assert without == ["blank"]
    assert (counted["blank"], empty["chunkCount"]) == (0, 0)
    assert counted["scan"] == found["chunkCount"] > 0
    refused(upload(reading, "bad", b"\x89PNG\r\n\x1a\n" + bytes(100), file_name="bad.png"), 400, "file_corrupt")


def test_reading_goes_on_where_it_was_cut_off(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    runtime, organization_id = service.runtime, organization_of(service)
    read_one = PageReader.read

    async def read_one_and_die(reader: PageReader, *args, page: int, **options):
        if read == [1]:
            read.append(0)
            raise asyncio.CancelledError
        read.append(page)
        return await read_one(reader, *args, page=page, **options)

    monkeypatch.setattr(PageReader, "read", read_one_and_die)
    content = made_files.scanned(made_files.scan(LANTERN), made_files.scan(KEEPER), kind="TIFF")
    document = uploaded(service, "a", content, file_name="a.tif")["documentId"]
    with pytest.raises((asyncio.CancelledError, CancelledError)):
        service.run(read_pages(runtime, organization_id=organization_id, document_id=document))
    service.run(read_pages(runtime, organization_id=organization_id, document_id=document))
    assert read == [1, 0, 2]
    until(lambda: "geese" in " ".join(chunks(service, document)))
    assert "lantern" in chunks(service, document)[0]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), BrokenProcessPool("All workers expired")]
)
def test_pages_wait_while_none_can_be_read(service, monkeypatch, error) -> None:
    monkeypatch.setattr(PageReader, "read", AsyncMock(side_effect=error))
    document = uploaded(service, "a", made_files.scanned(made_files.scan(LANTERN), kind="PNG"), file_name="a.png")
    document_id = document["documentId"]
    service.run(read_pages(service.runtime, organization_id=organization_of(service), document_id=document_id))
    until(lambda: get_document(service, document_id)["indexing"] == "DONE")
    found = get_document(service, document_id)
    assert found["textRecognition"] == document["textRecognition"]
    [listed] = ok(service.call("catalog/listDocuments", {}))["documents"]
    for waiting in (Document.model_validate(listed), GetDocumentResponse.model_validate(found)):
        assert (waiting.chunk_count, waiting.has_no_text_yet, waiting.has_no_text) == (0, True, False)
    jobs = service.execute(f"SELECT scheduled_at FROM {JOBS}", [document_id])  # noqa: S608
    assert sorted(when is None for (when,) in jobs) == [False, True]
    assert ok(service.call("admin/status/get"))["pagesWaiting"] == 1
    ok(service.call("catalog/deleteDocument", {"documentId": document_id}))
    assert ok(service.call("admin/status/get"))["pagesWaiting"] == 0


def test_a_page_that_is_always_interrupted_is_given_up_alone(service, monkeypatch) -> None:
    read: list[int] = []

    async def read_one(*_, page: int, **__) -> list[Block]:
        read.append(page)
        if page == 1:
            raise ReadingInterrupted("The reader was killed.")
        return [Block("paragraph", KEEPER, page=page)]

    monkeypatch.setattr(PageReader, "read", staticmethod(read_one))
    content = made_files.scanned(made_files.scan(), made_files.scan(), kind="TIFF")
    document = uploaded(service, "a", content, file_name="a.tif")["documentId"]
    until(lambda: get_document(service, document)["indexing"] == "DONE")
    for _ in range(4):
        service.run(read_pages(service.runtime, organization_id=organization_of(service), document_id=document))
    assert read == [1, 2, 1, 1, 1]
    told = get_document(service, document)
    assert told["textRecognition"]["error"] == "The reader was killed. It was tried 4 times."
    assert (told["textRecognition"]["pagesRead"], told["notRead"][0]["where"]) == (1, ["page 1"])


def test_a_page_whose_job_ends_the_service_each_time_is_given_up_alone(service, monkeypatch) -> None:
    monkeypatch.setattr(PageReader, "read", AsyncMock(return_value=[Block("paragraph", KEEPER, page=2)]))
    content = made_files.scanned(made_files.scan(), made_files.scan(), kind="TIFF")
    document = uploaded(service, "a", content, file_name="a.tif")["documentId"]
    until(lambda: get_document(service, document)["indexing"] == "DONE")

    organization_id = organization_of(service)

    async def run(attempts: int) -> None:
        running._attempts.set(attempts)
        await read_pages(service.runtime, organization_id=organization_id, document_id=document)

    service.run(run(running.MOST_ATTEMPTS))
    service.run(run(0))
    told = get_document(service, document)["textRecognition"]
    assert ("ended 10 times" in told["error"], told["pagesRead"], told["pagesFailed"]) == (True, 1, 1)


def test_pages_without_a_job_are_taken_up_again(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PageReader, "read", AsyncMock(return_value=[Block("paragraph", LANTERN)]))
    collection = create_collection(service, "Scans")
    content = made_files.scanned(made_files.scan(LANTERN), kind="PNG")
    document = uploaded(service, "a", content, file_name="a.png", collectionId=collection)["documentId"]
    renamed = {"documentName": "The lantern", "reindexCollections": "false"}
    uploaded(service, "a", content, file_name="a.png", **renamed)
    organization = organization_of(service)
    with service.owner_connection() as connection:

        def count_jobs() -> int:
            return connection.execute(f"SELECT FROM {JOBS}", [document]).rowcount

        service.run(sweep(service.runtime))
        assert count_jobs() == 1
        connection.execute(f"DELETE FROM {JOBS}", [document])  # noqa: S608
        on_rows(service, "UPDATE space_documents SET indexed_version = NULL, attempts = 5, claimed_until = 'infinity'")
        service.run(read_pages(service.runtime, organization_id=organization, document_id=UUID(document)))
        service.run(sweep(service.runtime))
        assert count_jobs() == 0
        on_rows(service, "UPDATE space_documents SET indexed_version = version, attempts = 0, claimed_until = NULL")
        for _ in range(2):
            service.run(sweep(service.runtime))
        assert count_jobs() == 1
        # In the trash they wait.
        trashed = ok(service.call("catalog/deleteDocument", {"documentId": document}))["trashedDocumentId"]
        service.run(sweep(service.runtime))
        assert connection.execute(f"SELECT FROM {JOBS}", [trashed]).rowcount == 0
        connection.execute(f"DELETE FROM {JOBS}", [document])  # noqa: S608
        ok(service.call("catalog/restoreDocument", {"trashedDocumentId": trashed}))
        assert count_jobs() == 1
    service.run(read_pages(service.runtime, organization_id=organization, document_id=UUID(document)))
    until(lambda: LANTERN in " ".join(chunks(service, document, collection)))


def test_pictures_within_documents_are_read_where_that_is_asked(reading: RunningService) -> None:
    content = made_files.slides_of_pictures(made_files.scan(LANTERN), made_files.scan(KEEPER))
    unasked = uploaded(reading, "plain", content, file_name="a.pptx")
    assert unasked.get("textRecognition") is None
    assert unasked["notRead"] == [{"kind": "picture", "count": 6, "where": ["slide 1", "slide 2", "slide 3"]}]
    asked = uploaded(reading, "plain", content, file_name="a.pptx", readPictures="true")
    assert (asked["status"], asked["documentVersion"]) == ("UPDATED", 2)
    assert asked["textRecognition"]["pictures"] == 2
    found = read_out(reading, asked["documentId"])
    assert (found["textRecognition"]["picturesRead"], found["notRead"]) == (2, [])

    def tell() -> list[dict]:
        return ok(reading.call("documentCollections/getDocumentChunks", {"documentId": found["documentId"]}))["chunks"]

    until(lambda: "geese" in str(tell()))
    told = tell()
    text = "\n".join(each["text"] for each in told)
    order = [text.index(word) for word in ("Slide one", "lantern", "Slide two", "geese", "Slide three")]
    assert order == sorted(order)
    assert max(each["place"]["confidence"] for each in told if "lantern" in each["text"]) > 0.5
    assert "Slide one" in search(reading, "seventeen geese")
    again = uploaded(reading, "plain", content, file_name="a.pptx", readPictures="true")
    assert (again["status"], again["documentVersion"]) == ("UNCHANGED", 2)
