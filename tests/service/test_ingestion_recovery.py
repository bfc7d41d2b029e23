"""Acknowledged uploads are indexed despite faults of the process, and no partial state is visible."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.index.ingestion.sweeper import release_claims, sweep
from service.platform.errors import Unavailable
from tests.harness import documents
from tests.harness.cases import statement
from tests.harness.jobs import until as wait_until
from tests.harness.services import MakeService, RunningService
from tests.service.directory import on_rows

LONG = "\n\n".join(f"Harbour number {number}. " + "The tide is written down every hour. " * 30 for number in range(20))


def place(service: RunningService, document_id: str) -> dict:
    return documents.get_document(service, document_id)["indexedIn"][0]


def test_indexing_that_takes_long_goes_on_in_the_background(make_service: MakeService) -> None:
    """The upload answers RUNNING, and getDocument tells the end; the old version's words and vectors disappear
    together. The sweeper leaves other workers' claims; waiting has no limit."""
    service = make_service(inline_indexing_seconds=0, sweep_seconds=3600)
    document_id = documents.ok(documents.upload(service, "a", "The ferry leaves at noon."))["documentId"]
    wait_until(lambda: place(service, document_id)["status"] == "DONE")
    before, [vector] = documents.embedded(service), service.execute("SELECT embedding::text FROM vectors_384")
    assert documents.ok(documents.upload(service, "a", LONG))["indexing"] == "RUNNING"
    running = place(service, document_id)
    assert (running["documentVersion"], running["status"]) == (2, "RUNNING")
    assert service.execute(statement("parts_of_an_old_version"), vector) in ([(0, 0, 1)], [(1, 1, 1)])
    assert service.run(sweep(service.runtime.indexer, service.runtime.disk)) == 0
    wait_until(lambda: place(service, document_id)["status"] == "DONE")
    assert len(documents.chunks(service, document_id)) > 10
    assert documents.embedded(service) - before == len(set(documents.chunks(service, document_id)))
    assert documents.ok(documents.upload(service, "b", LONG, awaitVectorStoreSync="true"))["indexing"] == "DONE"


def test_a_document_tells_how_far_its_indexing_is(service: RunningService) -> None:
    document_id = documents.uploaded(service, "a")["documentId"]
    assert "chunksExpected" not in place(service, document_id)
    on_rows(
        service,
        "UPDATE space_documents SET indexed_version = NULL, claimed_until = now() + interval '1 hour',"
        " chunks_embedded = 3, chunks_expected = 10",
    )
    running = place(service, document_id)
    assert (running["status"], running["chunksEmbedded"], running["chunksExpected"]) == ("RUNNING", 3, 10)
    documents.uploaded(service, "a", "The ferry leaves at dusk.")
    assert "chunksExpected" not in place(service, document_id)


def test_what_an_embedder_refused_is_indexed_by_a_later_sweep(make_service, monkeypatch) -> None:
    service = make_service(sweep_seconds=3600)
    embedder = service.runtime.embedders.default

    async def refuse(_texts: object) -> None:
        raise Unavailable("The embeddings endpoint is away.")

    monkeypatch.setattr(type(embedder), "embed", lambda _self, texts, **_: refuse(texts))
    answer = documents.ok(documents.upload(service, "a"))
    assert answer["indexing"] == "RUNNING"
    wait_until(lambda: place(service, answer["documentId"]).get("error") == "The embeddings endpoint is away.")
    monkeypatch.undo()
    service.run(release_claims(service.runtime.database))
    assert service.run(sweep(service.runtime.indexer, service.runtime.disk)) == 1
    wait_until(lambda: place(service, answer["documentId"])["status"] == "DONE")
    assert documents.chunks(service, answer["documentId"]) == ["The ferry leaves at noon."]


@pytest.mark.parametrize("is_there", [False, True])
def test_uploads_of_one_document_at_once_are_done_one_after_the_other(service: RunningService, is_there: bool) -> None:
    if is_there:
        documents.uploaded(service, "a", "The very first words.")
    texts = [f"Words of writer {number}." for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        uploads = pool.map(lambda text: documents.upload(service, "a", text), texts)
        answers = [documents.ok(answer) for answer in uploads]
    first = 2 if is_there else 1
    assert sorted(answer["documentVersion"] for answer in answers) == list(range(first, first + 6))
    assert sorted(answer["status"] for answer in answers) == ["UPDATED" if is_there else "CREATED", *["UPDATED"] * 5]
    newest = texts[max(range(6), key=lambda number: answers[number]["documentVersion"])]
    [document_id] = {answer["documentId"] for answer in answers}
    wait_until(lambda: place(service, document_id)["status"] == "DONE")
    assert documents.chunks(service, document_id) == [newest]
    assert service.call("catalog/downloadDocument", {"documentId": document_id}).text == newest


def test_an_upload_waits_for_every_collection_it_reaches(service: RunningService) -> None:
    first, second = documents.create_collection(service, "One"), documents.create_collection(service, "Two")
    document_id = documents.uploaded(service, "a", "Old.", collectionId=first)["documentId"]
    documents.uploaded(service, "a", "Old.", collectionId=second)
    documents.uploaded(service, "a", "New.")
    assert [documents.chunks(service, document_id, place) for place in (None, first, second)] == [["New."]] * 3
    assert documents.list_documents(service) == ["a"]
