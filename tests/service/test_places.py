"""Places of passages on the wire: in searches, lists of chunks and replies; stored, moved and repaired."""

from tests import made_files
from tests.harness.documents import add_to_collection, chunks, embedded, list_chunks, ok, search, uploaded
from tests.harness.services import RunningService
from tests.service.directory import on_rows

PRICES = [["Berth", "Fee in crowns"], *([f"Quay {number}", 70 + number] for number in range(1, 4))]


def places(service: RunningService, document_id: str, collection_id: str | None = None) -> list[dict | None]:
    return [chunk.get("place") for chunk in list_chunks(service, document_id, collection_id)]


def test_passages_say_where_they_stand(desk) -> None:
    service = desk.service
    options = {"internalPublic": "true", "file_name": "fees.xlsx"}
    uploaded(service, "fees", "The fees of before.", internalPublic="true")
    document_id = uploaded(service, "fees", made_files.workbook(Fees=PRICES), **options)["documentId"]
    ok(add_to_collection(service, document_id, desk.collection_id))
    place = {"sheet": "Fees", "rows": {"first": 2, "last": 4}}
    query = {"searchQuery": "What is the fee at Quay 2 in crowns?"}
    found = ok(service.call("search/searchDocumentCatalog", query))["results"]
    assert [(result["snippet"].get("place"), result["documentVersion"]) for result in found] == [(place, 2), (None, 1)]
    query["documentCollectionId"] = desk.collection_id
    found = ok(service.call("search/searchDocumentCollection", query))["results"]
    assert [chunk.get("place") for result in found for chunk in result["chunks"]] == [place, None]
    assert [result["documentVersion"] for result in found] == [2, 1]
    assert places(service, document_id) == places(service, document_id, desk.collection_id) == [place]
    reply = desk.ask(query["searchQuery"])
    assert "72" in reply["response"]["message"]
    expected = {"place": place, "documentCollectionId": desk.collection_id, "chunkIndex": 0, "documentVersion": 2}
    assert reply["referencedSources"][0].items() >= expected.items()
    in_context = {source["id"]: source.get("place") for source in reply["sourcesInDataContext"]}
    assert in_context == {document_id: place, desk.document_id: None}


def test_a_quote_from_a_joined_passage_says_where_it_stands(desk) -> None:
    service, rows = desk.service, [[f"Quay {number}", 70 + number, "Moor alongside"] for number in range(1, 90)]
    file = made_files.workbook(Fees=[["Berth", "Fee in crowns", "How"], *rows])
    document_id = uploaded(service, "fees", file, internalPublic="true", file_name="fees.xlsx")["documentId"]
    ok(add_to_collection(service, document_id, desk.collection_id))
    reply = desk.ask("What is the fee at Quay 57 in crowns?")
    [source, *_] = reply["referencedSources"]
    assert "Quay 57" in source["quote"]
    [chunk] = [each for each in list_chunks(service, document_id) if "Quay 57" in each["text"]]
    assert (source["chunkIndex"], source["place"]) == (chunk["chunkIndex"], chunk["place"])
    wholes = [each["quote"] for each in reply["sourcesInDataContext"]]
    assert any("Quay 57" in each and len(each) > 2 * len(chunk["text"]) for each in wholes)


def test_a_passage_that_was_found_is_listed_by_its_number(service: RunningService) -> None:
    lines = [f"Rule {number}: {'A rule of the harbour. ' * 60}\n\n" for number in range(4)]
    document_id = uploaded(service, "rules", "".join([*lines, "The heron sleeps on the quay."]))["documentId"]
    [found] = ok(service.call("search/searchDocumentCatalog", {"searchQuery": "heron"}))["results"]
    number = found["snippet"]["chunkIndex"]
    body = {"documentId": document_id, "firstChunkIndex": number, "pageSize": 1}
    [chunk] = ok(service.call("documentCollections/getDocumentChunks", body))["chunks"]
    assert number > 0
    assert chunk["chunkIndex"] == number
    assert "heron" in chunk["text"]


def test_a_thread_of_mails_is_found_where_it_says_something(service: RunningService) -> None:
    asked = "When does the dredger leave the lock?"
    uploaded(service, "1.eml", f"From: Ben <b@x.example>\nSubject: Dredger\n\n{asked}\n", file_name="1.eml")
    text = "From: a@x.example\nSubject: Re: Dredger\n\nAt nine, says {}.\n\nOn 5 Jan 2026 Ben wrote:\n> {}\n"
    named = {"file_name": "2.eml"}
    replies = [uploaded(service, f"{one}.eml", text.format(one, asked), **named)["documentId"] for one in ("Cy", "Dee")]
    assert search(service, '"leave the lock"') == ["Dredger"]
    assert search(service, '"says Dee"') == ["Re: Dredger"]
    page = ok(service.call("documentCollections/getDocumentChunks", {"documentId": replies[0]}))
    assert page["quotedText"] == f"On 5 Jan 2026 Ben wrote:\n> {asked}"
    assert not any("lock" in chunk["text"] for chunk in page["chunks"])


def test_places_follow_new_versions_and_come_to_chunks_of_before(service: RunningService) -> None:
    pages = [[(f"The rule of {name} has many words.", 12)] for name in ("anchors", "buoys")]
    document_id = uploaded(service, "rules", made_files.pdf(*pages), file_name="a.pdf")["documentId"]
    uploaded(service, "rules", made_files.pdf([("A page that was put in front.", 24)], *pages), file_name="a.pdf")
    moved = places(service, document_id)
    assert [place["page"] for place in moved if place] == [1]
    assert [place["lastPage"] for place in moved if place] == [3]
    before = embedded(service), chunks(service, document_id)
    on_rows(service, "UPDATE chunks_384 SET place = NULL")
    assert places(service, document_id) == [None]
    ok(service.call("catalog/reindexDocument", {"documentId": document_id}))
    assert places(service, document_id) == moved
    assert (embedded(service), chunks(service, document_id)) == before
