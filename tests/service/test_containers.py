"""Archives and mails: the contained files are separate documents with the container's readers."""

import asyncio
import gzip
import os
import signal
from collections.abc import Mapping
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from itertools import count

import pytest

from service.domains.documents.catalog import unpacking
from service.domains.documents.catalog.writing import SavedUpload
from service.platform.errors import InsufficientStorage
from service.platform.identifiers import document_id_for
from service.text.extraction.failures import Unreadable
from service.text.reading import ContainedFile, UnreadableFile
from tests import made_files
from tests.harness import documents
from tests.harness.documents import add_to_collection, chunks, get_document, list_documents, ok, refused, search, upload
from tests.harness.jobs import readers_of, until
from tests.harness.messages import messages_of
from tests.harness.services import RunningService
from tests.made_files import archive
from tests.service.directory import document as resource_of
from tests.service.directory import entries, grant, on_rows, organization_id, user, walk

ANN, BEN, CY = "ann@example.test", "ben@example.test", "cy@example.test"
NAMES = ("same.txt", "other.txt", "new.txt")


def mail(attachments: Mapping[str, bytes | str], *forwarded: EmailMessage) -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"] = "Harbour", ANN
    message.set_content("See the attached.")
    for name, content in attachments.items():
        data = content.encode() if isinstance(content, str) else content
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    for each in forwarded:
        message.add_attachment(each)
    return message.as_bytes()


def brought(service: RunningService, external_id: str, content: bytes, **options) -> dict:
    options.setdefault("file_name", external_id.rpartition("/")[2])
    answer = ok(upload(service, external_id, content, **options))
    document_id = answer["documentId"]
    # What is in the files is not known before they are read.
    assert answer.get("filesDone") != 0 or answer.get("notRead") != []
    until(lambda: is_done(get_document(service, document_id)))
    document = get_document(service, document_id)
    assert document.get("fileCount") == answer.get("fileCount")
    return document


def is_done(document: dict) -> bool:
    return document.get("filesDone") == document.get("fileCount")


def files_in(service: RunningService, document: dict, **options) -> dict[str, str]:
    listed = walk(service, "catalog/listDocuments", {"parentDocumentId": document["documentId"]} | options)
    assert all(one["parentDocumentId"] == document["documentId"] for one in listed)
    return {one["documentExternalId"]: one["documentId"] for one in listed}


def logged(service: RunningService, **query) -> list[tuple[str, dict]]:
    found = [one for one in entries(service, **query) if one["action"].startswith("document.")]
    for one in found:
        one["details"].pop("viewers", None)
    return [(one["action"].removeprefix("document."), one["details"]) for one in found]


def left_out(service: RunningService, document: dict, **options) -> list[tuple[str | None, int, str]]:
    found = walk(service, "catalog/listLeftOutFiles", {"documentId": document["documentId"]} | options, page_size=1)
    assert all(one["message"] for one in found)
    return [(one.get("path"), one["number"], one["code"]) for one in found]


FILES: dict[str, bytes | str] = {
    "notes/ferry.txt": "The ferry leaves at noon.",
    "table.csv": "Port,Depth\nKiel,9\n",
    "plan.docx": made_files.word(paragraphs=[("Normal", "The tram leaves at dawn.")]),
    "broken.pdf": b"%PDF-1.7 and no more",
    "tool.exe": b"MZ\x90\x00\x03\x00\x00\x00\x04",
    "empty.txt": "",
    **dict.fromkeys(["__MACOSX/notes/._ferry.txt", "notes/~$plan.docx", "Icon\r", "ferry.tmp"], b"\x00\x05\x16\x07"),
}


def test_the_file_in_a_gzip_file_is_a_document(service: RunningService) -> None:
    document = brought(service, "log.txt.gz", gzip.compress(b"The ferry leaves at dusk."))
    assert list(files_in(service, document)) == ["log.txt.gz!/log.txt"]
    until(lambda: search(service, "leaves at dusk")[:1] == ["log.txt"])


def test_files_of_an_archive_are_documents_of_their_own(service: RunningService) -> None:
    documents.add_users(service, ANN, BEN, CY)
    document = brought(service, "box/all.zip", archive(FILES), as_user=ANN, allowedUsersEmailAddresses=BEN)
    codes = {"broken.pdf": "file_corrupt", "tool.exe": "file_type_unsupported", "empty.txt": "file_empty"}
    missing = [(path, number, code) for number, (path, code) in enumerate(codes.items(), start=4)]
    assert left_out(service, document, userEmail=BEN) == missing
    refused(service.call("catalog/listLeftOutFiles", {"documentId": document["documentId"]}), 404, "document_not_found")
    until(lambda: not get_document(service, document["documentId"])["containedFiles"]["indexing"])
    assert get_document(service, document["documentId"])["containedFiles"] == {
        "files": 6,
        "waiting": 0,
        "documents": 3,
        "indexing": 0,
        "indexingFailed": 0,
        "leftOut": dict.fromkeys(codes.values(), 1),
    }
    assert (document["fileCount"], document["mediaType"]) == (6, "application/zip")
    assert document["notRead"] == [{"kind": "embedded", "count": 3, "where": ["file 4", "file 5", "file 6"]}]
    inside = files_in(service, document)
    assert sorted(inside) == [f"box/all.zip!/{path}" for path in ("notes/ferry.txt", "plan.docx", "table.csv")]
    child = get_document(service, inside["box/all.zip!/notes/ferry.txt"], as_user=BEN)
    assert (child["documentName"], child["owner"]["email"]) == ("ferry.txt", ANN)
    assert child["parentDocumentId"] == document["documentId"]
    assert search(service, "leaves at noon", as_user=BEN)[0] == "ferry.txt"
    body = {"searchQuery": "leaves at noon", "userEmail": BEN}
    [found, *_] = ok(service.call("search/searchDocumentCatalog", body))["results"]
    assert found["parentDocumentId"] == document["documentId"]
    assert "all.zip" in search(service, "tool.exe", as_user=BEN)
    for contained, wanted in ((False, {"box/all.zip"}), (True, set(inside)), (None, {"box/all.zip", *inside})):
        assert set(list_documents(service, as_user=ANN, contained=contained)) == wanted
    assert list_documents(service, as_user=CY) == search(service, "noon", as_user=CY) == []


def test_another_version_adds_changes_and_deletes(service: RunningService) -> None:
    before = files_in(service, brought(service, "a.zip", archive({"same.txt": "A", "other.txt": "B", "gone.txt": "C"})))
    again = brought(service, "a.zip", archive({"same.txt": "A", "other.txt": "changed", "new.txt": "D"}))
    after = files_in(service, again)
    assert sorted(after) == ["a.zip!/new.txt", "a.zip!/other.txt", "a.zip!/same.txt"]
    versions = {name: get_document(service, after[f"a.zip!/{name}"])["documentVersion"] for name in NAMES}
    assert versions == {"same.txt": 1, "other.txt": 2, "new.txt": 1}
    refused(service.call("catalog/getDocument", {"documentId": before["a.zip!/gone.txt"]}), 404, "document_not_found")
    summed_up = logged(service, contained=False, targetId=again["documentId"])
    assert [action for action, _ in summed_up] == ["unpack", "update", "unpack", "create"]
    assert summed_up[0] == ("unpack", {"version": 2, "files": 3, "leftOut": 0, "deleted": 1})
    assert summed_up[2] == ("unpack", {"version": 1, "files": 3, "leftOut": 0, "deleted": 0})
    each = ["create", "create", "create", "create", "delete", "update"]
    assert sorted(action for action, _ in logged(service, containerId=again["documentId"])) == each
    assert logged(service, containerId=before["a.zip!/gone.txt"]) == []
    ok(upload(service, "a.zip", archive({"same.txt": "A", "other.txt": "changed", "new.txt": "D"}), file_name="a.zip"))
    assert logged(service, contained=False, targetId=again["documentId"]) == summed_up
    ok(upload(service, "a.zip", "Not an archive.", file_name="a.txt"))
    until(lambda: list_documents(service) == ["a.zip"])


def test_what_cannot_be_read_stays_as_it_was(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    brought(service, "a.zip", archive({"a.txt": "A", "b.txt": "B", "empty.txt": "C"}))
    document = brought(service, "a.zip", archive({"a.txt": "changed", "b.txt": bytes(range(256)), "empty.txt": ""}))
    assert document["notRead"] == [{"kind": "embedded", "count": 2, "where": ["file 2", "file 3"]}]
    assert left_out(service, document) == [("b.txt", 2, "file_type_mismatch"), ("empty.txt", 3, "file_empty")]
    inside = files_in(service, document)
    versions = {name: get_document(service, one)["documentVersion"] for name, one in inside.items()}
    assert versions == {"a.zip!/a.txt": 2, "a.zip!/b.txt": 1, "a.zip!/empty.txt": 1}

    async def fail(*_args, **_options) -> list[ContainedFile]:
        raise UnreadableFile(Unreadable("file_too_complex", "It takes too long."))

    monkeypatch.setattr(unpacking, "_read_next", fail)
    document = brought(service, "a.zip", archive({"a.txt": "changed again", "b.txt": "B"}))
    assert document["notRead"] == [{"kind": "embedded", "count": 2, "where": ["file 1", "file 2"]}]
    assert left_out(service, document) == [("a.txt", 1, "file_too_complex"), ("b.txt", 2, "file_too_complex")]
    assert files_in(service, document) == inside


def test_readers_and_owner_of_a_container_are_those_of_its_files(service: RunningService) -> None:
    documents.add_users(service, ANN, BEN, CY)
    inner = archive({"deep.txt": "The lighthouse is dark."})
    document = brought(service, "out.zip", archive({"in.zip": inner, "flat.txt": "Fog."}), as_user=ANN)
    until(lambda: len(list_documents(service)) == 4)
    everything = {"out.zip", "out.zip!/flat.txt", "out.zip!/in.zip", "out.zip!/in.zip!/deep.txt"}
    assert set(list_documents(service, as_user=ANN)) == everything
    grant(service, document["resource"], user(BEN), role="EDITOR")
    assert set(list_documents(service, as_user=BEN)) == everything
    assert search(service, "lighthouse", as_user=BEN)[0] == "deep.txt"
    child_id = files_in(service, document)["out.zip!/flat.txt"]
    child = resource_of(child_id)
    answer = service.call("admin/grants/set", {"resource": child, "grants": []})
    assert document["documentId"] in refused(answer, 409, "document_in_container")["message"]
    moving = {"newOwner": user(CY)}
    refused(service.call("admin/owners/transfer", moving | {"resources": [child]}), 409, "document_in_container")
    refused(upload(service, "out.zip!/flat.txt", "Mine.", as_user=BEN), 409, "document_in_container")
    refused(upload(service, "out.zip!/flat.txt", "Mine.", as_user=CY), 403, "external_id_taken")
    moved = ok(service.call("admin/owners/transfer", moving | {"owner": user(ANN)}))
    assert moved["transferred"] == [{"resourceType": "UPLOADED_DOCUMENT", "count": 1}]
    assert moved["remaining"] == []
    assert get_document(service, child_id)["owner"]["email"] == CY
    closed = {"file_name": "out.zip", "as_user": CY, "internalPublic": "false"}
    ok(upload(service, "out.zip", archive({"flat.txt": "Fog."}), **closed))
    assert list_documents(service, as_user=BEN) == search(service, "lighthouse", as_user=BEN) == []


def test_a_container_is_deleted_with_its_files(own_service: RunningService) -> None:
    service = own_service
    document = brought(service, "out.zip", archive({"in.zip": archive({"deep.txt": "Deep."}), "flat.txt": "Flat."}))
    until(lambda: len(list_documents(service)) == 4)
    ok(service.call("catalog/deleteDocument", {"documentId": files_in(service, document)["out.zip!/flat.txt"]}))
    assert len(list_documents(service)) == 3
    brought(service, "out.zip", archive({"flat.txt": "Flat.", "in.zip": archive({"deep.txt": "Deeper."})}))
    until(lambda: len(list_documents(service)) == 4)
    with messages_of(service) as sent:
        ok(service.call("catalog/deleteDocument", {"documentId": document["documentId"]}))
    assert list_documents(service) == search(service, "flat") == []
    many = brought(service, "many.zip", archive({f"{number}.txt": f"Number {number}." for number in range(20)}))
    with messages_of(service) as sent_for_many:
        ok(service.call("catalog/deleteDocument", {"documentId": many["documentId"]}))
    assert list_documents(service) == []
    # One level of containers less is to be locked; however many files there are.
    assert len(sent_for_many) < len(sent)


def test_hostile_archives_cost_only_themselves(service: RunningService) -> None:
    documents.add_users(service, ANN, BEN)
    bomb = archive({"zeros.txt": b"0" * (33 << 20)})
    refused(upload(service, "bomb.zip", bomb, file_name="bomb.zip"), 400, "file_too_complex")
    taken = ok(upload(service, "a.zip!/taken.txt", "Taken.", as_user=BEN, internalPublic="true"))["documentId"]
    deepest = archive({"4.txt": "Four."})
    files = {
        "bomb.zip": bomb,
        "../../etc/passwd.txt": "Up.",
        "C:\\temp\\b.txt": "Back.",
        "taken.txt": "Mine.",
        "x" * 2000 + "/c.txt": "Long.",
        "3.zip": archive({"2.zip": archive({"1.zip": deepest})}),
    }
    document = brought(service, "a.zip", archive(files), as_user=ANN)
    assert document["notRead"] == [{"kind": "embedded", "count": 2, "where": ["file 1", "file 4"]}]
    until(lambda: "a.zip!/3.zip!/2.zip!/1.zip" in list_documents(service))
    names = list_documents(service, as_user=ANN)
    long = next(name for name in names if "xxx" in name)
    assert len(long) == 1024
    assert sorted({*names} - {long, "a.zip", "a.zip!/taken.txt"}) == [
        "a.zip!/3.zip",
        "a.zip!/3.zip!/2.zip",
        "a.zip!/3.zip!/2.zip!/1.zip",
        "a.zip!/C:/temp/b.txt",
        "a.zip!/etc/passwd.txt",
    ]
    innermost = document_id_for(organization_id(service), "a.zip!/3.zip!/2.zip!/1.zip")
    until(lambda: is_done(get_document(service, str(innermost))))
    assert get_document(service, str(innermost))["notRead"] == [{"kind": "embedded", "count": 1, "where": ["file 1"]}]
    assert left_out(service, {"documentId": str(innermost)}, userEmail=ANN) == [("4.txt", 1, "archive_too_deep")]
    why = {"archive_too_deep": 1, "external_id_taken": 1, "file_too_complex": 1}
    everything = get_document(service, document["documentId"])["containedFiles"]
    # The archive's own six, and one in each of the three that are in each other there.
    assert (everything["files"], everything["documents"], everything["leftOut"]) == (9, 6, why)
    assert chunks(service, taken) == ["Taken."]


def test_an_interrupted_job_goes_on(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "READ_AT_ONCE", 2)
    save_files_done, told = unpacking.queries.save_files_done, list[int]()

    async def keep(*args, files_done: int, **options) -> bool:
        told.append(files_done)
        return await save_files_done(*args, files_done=files_done, **options)

    monkeypatch.setattr(unpacking.queries, "save_files_done", keep)
    monkeypatch.setattr("service.runtime.jobs.running.RETRY_SECONDS", 0)
    save, calls = unpacking.save_upload, count()

    async def fail_once(*args, **options) -> SavedUpload:
        if next(calls) == 1:
            raise InsufficientStorage("The disk is full.")
        return await save(*args, **options)

    monkeypatch.setattr(unpacking, "save_upload", fail_once)
    document = brought(service, "a.zip", archive({f"{number}.txt": f"Number {number}." for number in range(6)}))
    inside = files_in(service, document)
    assert len(inside) == 6
    assert {get_document(service, one)["documentVersion"] for one in inside.values()} == {1}
    assert next(calls) > 6
    assert told == [2, 4, 6]


@pytest.mark.parametrize("name", ["m.eml", "m.msg"])
def test_attachments_of_a_mail_are_documents(service: RunningService, name: str) -> None:
    forwarded = BytesParser(policy=policy.default).parsebytes(mail({"inner.txt": b"The inner harbour."}))
    collection = documents.create_collection(service, "Mails", team="STRING")
    carried = mail({"outer.txt": b"The outer harbour.", "tool.exe": FILES["tool.exe"]}, forwarded)
    carried = made_files.outlook(carried) if name == "m.msg" else carried
    document = brought(service, name, carried, collectionId=collection, customMetadata='{"team": "harbour"}')
    until(lambda: len(list_documents(service)) == 4)
    assert document["fileCount"] == 3
    assert document["notRead"] == [{"kind": "attachment", "count": 1, "where": ["file 2"]}]
    until(lambda: len(collected(service, collection)) == 4)
    there = collected(service, collection)
    inside = [f"{name}!/{path}" for path in ("Harbour.eml", "Harbour.eml!/inner.txt", "outer.txt")]
    assert sorted(there) == [name, *inside]
    assert list(there.values()) == [{"team": "harbour"}] * 4


def test_a_container_takes_its_files_to_a_collection_and_out_of_it(service: RunningService) -> None:
    inner = archive({"deep.txt": "The lighthouse is dark."})
    document = brought(service, "out.zip", archive({"in.zip": inner, "flat.txt": "Fog.", "own.txt": "Own."}))
    until(lambda: len(list_documents(service)) == 5)
    collection, metadata = documents.create_collection(service, "Boxes", team="STRING"), {"team": "harbour"}
    own = files_in(service, document)["out.zip!/own.txt"]
    members = {"chunks": ["Made by a caller."], "customMetadata": {}}
    ok(add_to_collection(service, own, collection, operation="addDocumentChunksToCollection", **members))
    ok(add_to_collection(service, document["documentId"], collection, customMetadata=metadata))
    names = {"out.zip", "out.zip!/flat.txt", "out.zip!/in.zip", "out.zip!/in.zip!/deep.txt"}
    assert collected(service, collection) == dict.fromkeys(names, metadata) | {"out.zip!/own.txt": {}}
    assert chunks(service, own, collection) == ["Made by a caller."]
    deep = str(document_id_for(organization_id(service), "out.zip!/in.zip!/deep.txt"))
    until(lambda: chunks(service, deep, collection) == ["The lighthouse is dark."])
    changed = {"team": "sea"}
    ok(add_to_collection(service, document["documentId"], collection, customMetadata=changed))
    assert collected(service, collection) == dict.fromkeys(names, changed) | {"out.zip!/own.txt": {}}
    wanted = {deep: {"team": "lost"}, document["documentId"]: {"team": "air"}, own: {"team": "own"}}
    changes = [{"documentId": one, "customMetadata": values} for one, values in wanted.items()]
    body = {"documentCollectionId": collection, "changes": changes}
    results = ok(service.call("documentCollections/changeValues", body))["results"]
    assert [one["status"] for one in results] == ["IN_CONTAINER", "CHANGED", "CHANGED"]
    assert results[0]["customMetadata"] == changed
    now = {name: {"team": "air"} for name in names}
    assert collected(service, collection) == now | {"out.zip!/own.txt": {"team": "own"}}
    ok(add_to_collection(service, document["documentId"], collection, operation="removeDocumentFromCollection"))
    assert collected(service, collection) == {}
    assert len(list_documents(service)) == 5
    told = on_rows(service, "SELECT action, count(*) FROM audit_entries", more="GROUP BY action ORDER BY action")
    assert [one for one in told if one[0].startswith("collection.") and one[0].endswith("_document")] == [
        ("collection.add_document", 8),
        ("collection.remove_document", 5),
    ]


def collected(service: RunningService, collection_id: str) -> dict[str, dict[str, str]]:
    listed = walk(service, "documentCollections/listDocumentsInCollection", {"documentCollectionId": collection_id})
    return {one["documentExternalId"]: one["customMetadata"] for one in listed}


def test_an_archive_arrives_whole_though_its_readers_are_killed(own_service: RunningService) -> None:
    files = {f"{number}.csv": "a,b\n" + f"{number},2\n" * 50_000 for number in range(6)}

    async def kill_readers() -> None:
        for _ in range(4):
            for pid in readers_of(own_service.runtime.extractor):
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(1)

    killing = own_service.loop.submit(kill_readers())
    document = brought(own_service, "files.zip", archive(files))
    killing.result(10)
    assert len(files_in(own_service, document)) == 6
