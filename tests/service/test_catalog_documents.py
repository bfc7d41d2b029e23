"""planUpload, getDocument, listDocuments, downloadDocument, downloadDocumentPage, deleteDocument."""

from uuid import uuid4

from service.platform.files import FileStore
from tests import made_files
from tests.harness import documents as catalog
from tests.harness.databases import TestDatabases, connect
from tests.harness.documents import ok, refused, uploaded
from tests.harness.messages import messages_of
from tests.harness.services import MakeService, RunningService

ANN, BEN = "ann@example.test", "ben@example.test"


def plan(service: RunningService, *planned: tuple[str, str], **members: str) -> list[str]:
    documents = [{"documentExternalId": external_id, "fingerprint": mark} for external_id, mark in planned]
    answer = ok(service.call("catalog/planUpload", {"documents": documents, **members}))
    assert [each["documentExternalId"] for each in answer["documents"]] == [external_id for external_id, _ in planned]
    return [each["action"] for each in answer["documents"]]


def test_a_plan_tells_what_uploads_would_do(service: RunningService) -> None:
    catalog.add_users(service, ANN)
    uploaded(service, "mine", fingerprint="1")
    uploaded(service, "hers", fingerprint="1", as_user=ANN)
    asked = (("new", "1"), ("mine", "2"), ("mine", "1"), ("hers", "1"))
    assert plan(service, *asked) == ["CREATE", "UPDATE", "UNCHANGED", "FORBIDDEN"]
    assert plan(service, ("hers", "1"), uploadAsUserEmail=ANN) == ["UNCHANGED"]
    assert plan(service, *((f"n{number}", "1") for number in range(1000))) == ["CREATE"] * 1000
    documents = [{"documentExternalId": "a", "fingerprint": "1"}] * 1001
    refused(service.call("catalog/planUpload", {"documents": documents}), 400, "invalid_request")


def test_a_fingerprint_holds_only_while_what_it_stands_for_is_true(service: RunningService) -> None:
    uploaded(service, "a", fingerprint="1")
    uploaded(service, "a")
    assert plan(service, ("a", "1")) == ["UNCHANGED"]
    uploaded(service, "a", "Other words.")
    assert plan(service, ("a", "1")) == ["UPDATE"]
    assert uploaded(service, "a", "Other words.", fingerprint="2")["status"] == "UNCHANGED"
    assert plan(service, ("a", "2")) == ["UNCHANGED"]


def test_an_admin_sees_every_documents_name_and_none_of_its_contents(service: RunningService) -> None:
    catalog.add_users(service, ANN)
    document_id = uploaded(service, "a", as_user=ANN)["documentId"]
    assert catalog.list_documents(service) == ["a"]
    assert catalog.get_document(service, document_id)["owner"]["email"] == ANN
    for operation, members in (
        ("catalog/downloadDocument", {}),
        ("catalog/downloadDocumentPage", {"page": 1}),
        ("documentCollections/getDocumentChunks", {}),
    ):
        refused(service.call(operation, {"documentId": document_id, **members}), 404, "document_not_found")


def test_anothers_document_and_none_take_the_same_path(make_service: MakeService) -> None:
    """Equal queries in equal order, for equal response times."""
    service = make_service(sweep_seconds=3600)
    catalog.add_users(service, ANN, BEN)
    hers = uploaded(service, "hers", as_user=ANN)["documentId"]
    place = {"documentCollectionId": catalog.create_collection(service, "Ben's", as_user=BEN), "customMetadata": {}}
    for operation, members in (
        ("catalog/getDocument", {}),
        ("catalog/deleteDocument", {}),
        ("documentCollections/addDocumentToCollection", place),
    ):
        paths = list[list[str]]()
        for asked in (str(uuid4()), hers, str(uuid4())):  # the first one prepares
            with messages_of(service) as messages:
                service.call(operation, {"documentId": asked, "userEmail": BEN, **members})
            paths.append(messages)
        assert paths[1] == paths[2], operation
        assert len(paths[1]) > 2


def test_a_time_at_the_calendars_edge_can_be_listed(make_service: MakeService, databases: TestDatabases) -> None:
    """Times are read in UTC, whatever the database's time zone; elsewhere year 1 might not have begun."""
    database = databases.clone()
    with connect(databases.owner_url(database)) as connection:
        connection.execute(f"ALTER DATABASE \"{database}\" SET timezone TO 'America/New_York'")
    service = make_service(database=database)
    for year in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        uploaded(service, year, sourceSystemUpdated=year)
        assert ok(service.call("catalog/listDocuments", {"pageSize": 1}))["documents"][0]["sourceSystemUpdated"] == year


def test_a_walk_sees_each_document_once_whatever_is_updated_meanwhile(service: RunningService) -> None:
    for number in range(5):
        uploaded(service, f"d{number}", f"Words {number}.")
    first = ok(service.call("catalog/listDocuments", {"pageSize": 2}))
    uploaded(service, "d0", "Updated.")
    uploaded(service, "d4", "Updated.")
    second = ok(service.call("catalog/listDocuments", {"pageSize": 3, "pageToken": first["nextPageToken"]}))
    seen = [document["documentExternalId"] for page in (first, second) for document in page["documents"]]
    assert seen == ["d4", "d3", "d2", "d1", "d0"]
    assert "nextPageToken" not in second
    other = {"pageToken": first["nextPageToken"], "documentName": "x"}
    refused(service.call("catalog/listDocuments", other), 400, "invalid_page_token")


def test_lists_narrow_by_name_owner_type_and_time(service: RunningService) -> None:
    catalog.add_users(service, ANN)
    uploaded(service, "a", documentName="100% ferry", resourceId="1", resourceType="BOX_FILE")
    uploaded(service, "b", documentName="Train", as_user=ANN)
    assert catalog.list_documents(service, documentName="0% F") == ["a"]
    assert catalog.list_documents(service, documentName="%") == ["a"]
    assert catalog.list_documents(service, ownerEmail=ANN.upper()) == ["b"]
    assert catalog.list_documents(service, resourceTypes=["BOX_FILE"]) == ["a"]
    assert catalog.list_documents(service, mediaTypes=["text/plain"]) == ["b", "a"]
    assert catalog.list_documents(service, mediaTypes=["application/pdf"]) == []
    assert catalog.list_documents(service, updatedFrom="2099-01-01T00:00:00Z") == []
    assert catalog.list_documents(service, updatedTo="2099-01-01T00:00:00Z", documentName="train") == ["b"]


def test_shared_with_me_leaves_out_own_documents_and_what_everyone_may_read(service: RunningService) -> None:
    catalog.add_users(service, ANN, BEN)
    crew = catalog.add_group(service, "Crew", ANN)
    uploaded(service, "own", as_user=ANN)
    uploaded(service, "open", internalPublic=True)
    uploaded(service, "named", allowedUsersEmailAddresses=[ANN])
    uploaded(service, "of a group", allowedGroupIds=[crew])
    uploaded(service, "of others", allowedUsersEmailAddresses=[BEN])
    assert catalog.list_documents(service, as_user=ANN, sharedWithMe=True) == ["of a group", "named"]
    assert catalog.list_documents(service, as_user=ANN, sharedWithMe=False) == ["open", "own"]
    assert catalog.list_documents(service, sharedWithMe=True) == []


def test_a_download_is_an_attachment_a_browser_wont_run(service: RunningService) -> None:
    name = 'ferry "⛴" \u202egpj.html'
    content = b"<h1>Ferries</h1><p>At noon.</p>"
    document_id = uploaded(service, "a", content, file_name=name)["documentId"]
    answer = service.call("catalog/downloadDocument", {"documentId": document_id})
    assert answer.content == content
    assert answer.headers["Content-Disposition"] == (
        "attachment; filename=\"ferry ___ gpj.html\"; filename*=UTF-8''ferry%20%22%E2%9B%B4%22%20gpj.html"
    )
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"].startswith("sandbox")
    assert int(answer.headers["Content-Length"]) == len(content)


def test_older_versions_can_be_downloaded(service: RunningService) -> None:
    document_id = uploaded(service, "a", "First words.")["documentId"]
    uploaded(service, "a", "Second words.")
    body = {"documentId": document_id}
    assert service.call("catalog/downloadDocument", body).text == "Second words."
    assert service.call("catalog/downloadDocument", {**body, "documentVersion": 1}).text == "First words."
    refused(service.call("catalog/downloadDocument", {**body, "documentVersion": 3}), 404, "version_not_found")


def test_a_page_is_a_picture_of_the_version_that_is_asked_for(service, monkeypatch) -> None:
    one, two = made_files.pdf([("One", 12)]), made_files.pdf([("One", 12)], [("Two", 12)])
    catalog.add_users(service, BEN)
    document_id = uploaded(service, "a", one, file_name="fees ⛴.pdf", allowedUsersEmailAddresses=BEN)["documentId"]
    body = {"documentId": document_id, "page": 2}
    refusal = refused(service.call("catalog/downloadDocumentPage", body), 404, "page_not_found")
    assert refusal["message"] == "The document has no such page. Its last page is 1."
    uploaded(service, "a", two, file_name="fees ⛴.pdf")
    answer = service.call("catalog/downloadDocumentPage", body)
    assert (answer.headers["Content-Type"], answer.headers["Page-Count"]) == ("image/jpeg", "2")
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="fees _.pdf page 2.jpg"')
    assert answer.headers["Cache-Control"] == "private, no-store"
    assert answer.content.startswith(b"\xff\xd8")
    assert service.call("catalog/downloadDocumentPage", {**body, "userEmail": BEN}).content == answer.content
    # As with files in a store elsewhere: of a copy, which has no name in the folder.
    monkeypatch.setattr(FileStore, "find_path", lambda *_: None)
    assert service.call("catalog/downloadDocumentPage", body).content == answer.content
    assert service.call("catalog/downloadDocumentPage", {**body, "page": 1}).is_success
    assert list(service.settings.uploads_dir.iterdir()) == []
    uploaded(service, "a", two, file_name="fees ⛴.pdf", allowedUsersEmailAddresses="")
    refused(service.call("catalog/downloadDocumentPage", {**body, "userEmail": BEN}), 404, "document_not_found")
    refused(service.call("catalog/downloadDocumentPage", {**body, "documentVersion": 1}), 404, "page_not_found")
    refused(service.call("catalog/downloadDocumentPage", {**body, "page": 0}), 400, "invalid_request")
    uploaded(service, "a", "No pages.", file_name="a.txt")
    refused(service.call("catalog/downloadDocumentPage", body), 400, "document_without_pages")


def test_a_deleted_document_is_gone_everywhere_and_its_versions_are_not_used_again(service: RunningService) -> None:
    collection = catalog.create_collection(service, "Notes")
    uploaded(service, "a", "One.", collectionId=collection)
    document_id = uploaded(service, "a", "Two.")["documentId"]
    assert ok(service.call("catalog/deleteDocument", {"documentId": document_id}))["documentId"] == document_id
    assert catalog.list_documents(service) == []
    members = service.call("documentCollections/listDocumentsInCollection", {"documentCollectionId": collection})
    assert ok(members)["documents"] == []
    for operation in ("getDocument", "downloadDocument", "deleteDocument"):
        refused(service.call(f"catalog/{operation}", {"documentId": document_id}), 404, "document_not_found")
    refused(catalog.add_to_collection(service, document_id, collection), 404, "document_not_found")
    again = uploaded(service, "a", "One.")
    created = {"documentVersion": 3, "status": "CREATED", "indexing": "DONE", "wordsIndexed": True, "notRead": []}
    assert again == {"documentId": document_id, **created}
    assert catalog.chunks(service, document_id) == ["One."]
    assert [version["documentVersion"] for version in catalog.get_document(service, document_id)["versions"]] == [3]


def test_only_the_owner_and_admins_delete(service: RunningService) -> None:
    catalog.add_users(service, ANN, BEN)
    document_id = uploaded(service, "a", as_user=ANN, allowedUsersEmailAddresses=BEN)["documentId"]
    asked = {"documentId": document_id, "userEmail": BEN}
    refused(service.call("catalog/deleteDocument", asked), 403, "owner_required")
    ok(service.call("catalog/deleteDocument", {**asked, "userEmail": ANN}))
    ok(service.call("catalog/deleteDocument", {"documentId": uploaded(service, "b", as_user=ANN)["documentId"]}))


def test_a_document_is_called_by_its_title_until_it_is_renamed(service: RunningService) -> None:
    """Loaders send the file's name as `documentName`, not a title."""
    catalog.add_users(service, ANN, BEN)

    def load(text: str, **parts: str) -> str:
        uploaded(service, "a/README.md", text, file_name="README.md", **parts)
        return catalog.get_document(service, document_id)["documentName"]

    first = uploaded(service, "a/README.md", "# Ferries", file_name="README.md", allowedUsersEmailAddresses=ANN)
    document_id = first["documentId"]
    names = [load("# Boats", documentName="README.md"), load("# Boats"), load("Boats.")]
    assert names == ["Boats", "Boats", "README.md"]
    assert [load("# Tugs", documentName="Given"), load("# Ships"), load("# Rafts", documentName="README.md")] == [
        *("Given", "Given"),
        "Rafts",
    ]
    service.execute("UPDATE documents SET named_by = NULL, name = 'Old'")
    assert load("# Rowing boats") == "Old"
    asked = {"documentId": document_id, "documentName": "Harbour"}
    refused(service.call("catalog/renameDocument", {**asked, "userEmail": BEN}), 404, "document_not_found")
    refused(service.call("catalog/renameDocument", {**asked, "userEmail": ANN}), 403, "document_editor_required")
    assert ok(service.call("catalog/renameDocument", asked))["documentVersion"] == 8
    assert ok(service.call("catalog/renameDocument", asked))["documentVersion"] == 8
    assert [load("# Canoes"), load("# Canoes", documentName="Given")] == ["Harbour", "Harbour"]
    assert catalog.search(service, "harbour") == ["Harbour"]
    assert catalog.list_documents(service, documentName="readme.m") == ["a/README.md"]
    [entry] = ok(service.call("admin/auditLog/query", {"action": "document.rename"}))["entries"]
    assert entry["details"] == {"version": 8}


def test_every_change_is_on_the_audit_log(service: RunningService) -> None:
    catalog.add_users(service, ANN)
    document_id = uploaded(service, "a", as_user=ANN)["documentId"]
    uploaded(service, "a", as_user=ANN)
    uploaded(service, "a", "Other.", as_user=ANN, internalPublic="true")
    ok(service.call("catalog/deleteDocument", {"documentId": document_id}))
    entries = ok(service.call("admin/auditLog/query", {"targetId": document_id}))["entries"]
    assert [entry["action"] for entry in entries] == ["document.delete", "document.update", "document.create"]
    assert set(entries[1]["details"]["changed"]) == {"contents", "access"}


def test_a_document_keeps_no_file_of_a_refused_update(service: RunningService) -> None:
    document_id = uploaded(service, "a", "First words.")["documentId"]
    files = catalog.stored_files(service)
    assert catalog.upload(service, "a", b"%PDF-1.7 broken", file_name="a.pdf").status_code in {400, 415}
    assert catalog.get_document(service, document_id)["documentVersion"] == 1
    assert catalog.chunks(service, document_id) == ["First words."]
    assert catalog.stored_files(service) == files
