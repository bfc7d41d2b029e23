"""A deleted document can't be found or read; its owner and admins restore it, with previous rights at most."""

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from io import BytesIO
from uuid import UUID
from zipfile import ZipFile

import pytest

from service.domains.documents.catalog.trash import service as trash
from service.domains.documents.catalog.trash.service import purge
from service.domains.documents.files.collecting import collect_files
from service.domains.oversight.owners import transferring
from tests.harness import documents
from tests.harness.documents import add_group, add_users, get_document, list_documents, ok, refused, search, uploaded
from tests.harness.jobs import until
from tests.harness.services import MakeService, RunningService
from tests.service.directory import entries
from tests.service.races import Race
from tests.service.test_collections_membership import members

ANN, BEN = "ann@example.test", "ben@example.test"


def delete(service: RunningService, document_id: str) -> str:
    return ok(service.call("catalog/deleteDocument", {"documentId": document_id}))["trashedDocumentId"]


def acting(user: str | None, **body) -> dict:
    return body | ({} if user is None else {"userEmail": user})


def listed(service: RunningService, *, as_user: str | None = None, **filters) -> list[str]:
    page = ok(service.call("catalog/listTrashedDocuments", acting(as_user, **filters)))
    return [one["documentExternalId"] for one in page["documents"]]


def restore(service: RunningService, trashed: str, *, as_user: str | None = None):
    return service.call("catalog/restoreDocument", acting(as_user, trashedDocumentId=trashed))


def erase(service: RunningService, *trashed: str, as_user: str | None = None):
    return service.call("catalog/deleteTrashedDocuments", acting(as_user, trashedDocumentIds=list(trashed)))


def let_days_pass(service: RunningService, days: int) -> None:
    service.execute("UPDATE trashed_documents SET deleted_at = deleted_at - make_interval(days => %s)", [days])


def of_document(document_id: str) -> dict:
    return {"resource": {"resourceType": "UPLOADED_DOCUMENT", "resourceId": document_id}}


def grants(service: RunningService, document_id: str) -> set[tuple[str, str]]:
    found = ok(service.call("admin/grants/list", of_document(document_id)))
    everyone = {("all", "VIEWER")} if found["organizationWide"] else set()
    return {(one["principal"]["name"], one["role"]) for one in found["grants"]} | everyone


def test_a_restored_document_is_what_it_was(service: RunningService) -> None:
    add_users(service, ANN, BEN)
    crew = add_group(service, "Crew", BEN)
    collection = documents.create_collection(service, "Notes", place="STRING")
    given = {"documentName": "Log", "customMetadata": '{"year": "2026"}', "allowedGroupIds": crew}
    document_id = uploaded(service, "a/log", "The ferry leaves.", as_user=ANN, internalPublic="true", **given)[
        "documentId"
    ]
    uploaded(service, "a/log", "The barge leaves.", as_user=ANN, fingerprint="g")
    ok(documents.add_to_collection(service, document_id, collection, customMetadata={"place": "pier"}))
    before, held, [entry] = (
        get_document(service, document_id),
        grants(service, document_id),
        members(service, collection),
    )
    trashed = delete(service, document_id)
    assert search(service, "barge", as_user=ANN) == list_documents(service) == members(service, collection) == []
    assert listed(service) == listed(service, as_user=ANN, documentName="A/LO") == ["a/log"]
    assert listed(service, documentName="boat") == listed(service, as_user=BEN) == []
    back = ok(restore(service, trashed, as_user=ANN))
    names = {"documentId": document_id, "documentName": "Log", "documentExternalId": "a/log"}
    # Ann may not add documents to the admin's collection, nor know of it.
    assert (back, members(service, collection)) == ({**names, "documentVersion": 3}, [])
    assert ok(restore(service, delete(service, document_id)))["documentVersion"] == 4
    ok(documents.add_to_collection(service, document_id, collection, customMetadata={"place": "pier"}))
    assert ok(restore(service, delete(service, document_id)))["documentVersion"] == 5
    until(lambda: search(service, "barge", as_user=BEN) == ["Log"])
    until(lambda: {one["status"] for one in get_document(service, document_id)["indexedIn"]} == {"DONE"})
    after = get_document(service, document_id)
    changed = dict.fromkeys(("documentVersion", "updatedAt", "versions", "indexedIn"))
    assert {**after, **changed} == {**before, **changed}
    assert [one["documentVersion"] for one in after["versions"]] == [5, 4, 3, 2, 1]
    assert after["versions"][3:] == before["versions"]
    assert grants(service, document_id) == held == {("Crew", "VIEWER"), ("all", "VIEWER")}
    assert documents.chunks(service, document_id, collection) == ["The barge leaves."]
    assert [one["customMetadata"] for one in members(service, collection)] == [entry["customMetadata"]]
    old = service.call("catalog/downloadDocument", {"documentId": document_id, "documentVersion": 1, "userEmail": BEN})
    assert old.content == b"The ferry leaves."
    assert listed(service) == []
    [change, *_] = entries(service, action="document.restore")
    assert (change["target"]["name"], crew in change["details"]["viewers"]) == ("Log", True)


def test_only_the_owner_and_admins_know_of_a_deleted_document(service: RunningService) -> None:
    add_users(service, ANN, BEN)
    document_id = uploaded(service, "a", as_user=ANN)["documentId"]
    granted = [{"principal": {"type": "user", "email": BEN}, "role": "EDITOR"}]
    ok(service.call("admin/grants/set", {**of_document(document_id), "grants": granted}))
    trashed = delete(service, document_id)
    for refusal in (restore(service, trashed, as_user=BEN), erase(service, trashed, as_user=BEN)):
        refused(refusal, 404, "trashed_document_not_found")
    for operation in ("getDocument", "downloadDocument"):
        refused(service.call(f"catalog/{operation}", {"documentId": trashed}), 404, "document_not_found")
        refused(service.call(f"catalog/{operation}", {"documentId": document_id}), 404, "document_not_found")
    [shown] = ok(service.call("catalog/listTrashedDocuments", {"userEmail": ANN}))["documents"]
    assert (shown["owner"]["email"], shown["deletedBy"]["email"]) == (ANN, service.admin_email)
    ok(restore(service, trashed, as_user=ANN))
    assert grants(service, document_id) == {(BEN, "EDITOR")}


def test_rights_that_are_no_more_are_left_out_and_named(service: RunningService) -> None:
    crew = add_group(service, "Crew")
    gone, chunked = documents.create_collection(service, "Gone"), documents.create_collection(service, "Chunked")
    document_id = uploaded(service, "a", allowedGroupIds=crew)["documentId"]
    ok(documents.add_to_collection(service, document_id, gone))
    kept = documents.create_collection(service, "Kept", team="STRING", pages="STRING", pay="STRING")
    values = {"team": "harbour", "pages": "twelve", "pay": "5000"}
    ok(documents.add_to_collection(service, document_id, kept, customMetadata=values))
    sent = {"documentId": document_id, "documentCollectionId": chunked, "customMetadata": {}}
    ok(service.call("documentCollections/addDocumentChunksToCollection", {**sent, "chunks": ["One."]}))
    trashed = delete(service, document_id)
    ok(service.call("admin/groups/delete", {"groupId": crew}))
    ok(service.call("documentCollections/deleteDocumentCollection", {"documentCollectionId": gone}))
    changes = [{"field": "pages", "type": "INT"}, {"field": "pay", "remove": True}]
    ok(service.call("documentCollections/changeFields", {"documentCollectionId": kept, "changes": changes}))
    back = ok(restore(service, trashed))
    assert sorted(back["valuesLeftOut"]) == ["Kept: pages", "Kept: pay"]
    assert [one["customMetadata"] for one in members(service, kept)] == [{"team": "harbour"}]
    assert (back["readersLeftOut"], back["collectionsLeftOut"]) == (["Crew"], ["Chunked", "Gone"])
    assert (grants(service, document_id), members(service, chunked)) == (set(), [])


def test_an_owner_learns_how_many_readers_are_no_more_not_whom_an_admin_let_read(service: RunningService) -> None:
    add_users(service, ANN)
    groups = [add_group(service, name) for name in ("Crew", "Guests", "Pilots")]
    document_id = uploaded(service, "a", as_user=ANN)["documentId"]
    for some, said in ((groups[:2], "2 readers"), (groups[2:], "1 reader")):
        granted = [{"principal": {"type": "group", "id": group}, "role": "VIEWER"} for group in some]
        ok(service.call("admin/grants/set", of_document(document_id) | {"grants": granted}))
        trashed = delete(service, document_id)
        for group in some:
            ok(service.call("admin/groups/delete", {"groupId": group}))
        assert ok(restore(service, trashed, as_user=ANN))["readersLeftOut"] == [said]


def test_a_taken_source_identity_keeps_a_document_in_the_trash(service: RunningService) -> None:
    """Its error names this operation's own way out."""
    source = {"resourceType": "BOX_FILE", "resourceId": "1"}
    trashed = delete(service, uploaded(service, "a", **source)["documentId"])
    other = uploaded(service, "b", **source)["documentId"]
    assert "Delete that document first" in refused(restore(service, trashed), 409, "resource_taken")["message"]
    delete(service, other)
    ok(restore(service, trashed))


def test_a_taken_external_id_keeps_a_document_in_the_trash(service: RunningService) -> None:
    """The error names the document with the id only to its readers."""
    add_users(service, ANN, BEN)
    document_id = uploaded(service, "a", "Ann's words.", as_user=ANN, internalPublic="true")["documentId"]
    created_at = get_document(service, document_id)["createdAt"]
    trashed = delete(service, document_id)
    assert uploaded(service, "a", "Ben's words.", as_user=BEN, documentName="Bens")["documentVersion"] == 2
    assert [one["documentVersion"] for one in get_document(service, document_id)["versions"]] == [2]
    assert "Bens (documentId" in refused(restore(service, trashed), 409, "external_id_in_use")["message"]
    assert "Bens" not in refused(restore(service, trashed, as_user=ANN), 409, "external_id_in_use")["message"]
    newer = delete(service, document_id)
    assert ok(restore(service, trashed, as_user=ANN))["documentVersion"] == 3
    assert get_document(service, document_id)["createdAt"] == created_at
    until(lambda: documents.chunks(service, document_id) == ["Ann's words."])
    assert listed(service, as_user=BEN) == ["a"]
    delete(service, document_id)
    assert ok(restore(service, newer, as_user=BEN))["documentVersion"] == 4
    assert [one["documentVersion"] for one in get_document(service, document_id)["versions"]] == [4, 2]


def test_two_who_restore_at_once_restore_once(service: RunningService) -> None:
    document_id = uploaded(service, "a")["documentId"]
    trashed = delete(service, document_id)
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda _: restore(service, trashed), range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 404, 404, 404]
    assert get_document(service, document_id)["documentVersion"] == 2


def test_deleted_for_good_is_gone(service: RunningService) -> None:
    """All rows of the document are gone, and other documents stay."""
    ids = [uploaded(service, name)["documentId"] for name in "ab"]
    first, second = (delete(service, one) for one in ids)
    uploaded(service, "a", documentName="Another")
    assert ok(erase(service, first)) == {"trashedDocumentIds": [first]}
    [entry] = entries(service, action="document.erase")
    assert (entry["target"]["id"], entry["target"]["name"]) == (first, "notes.txt")
    assert entry["details"] == {"documentId": ids[0], "version": 1}
    refused(restore(service, first), 404, "trashed_document_not_found")
    refused(erase(service, first), 404, "trashed_document_not_found")
    assert listed(service) == ["b"]
    for table in ("documents", "document_versions", "document_contents"):
        found = f"SELECT count(*) FROM {table} WHERE document_id = ANY(%s::uuid[])"  # noqa: S608
        assert service.execute(found, [[first, second]]) == [(1,)]
    ok(restore(service, second))


def test_the_collector_keeps_the_file_of_a_deleted_document_until_its_time_is_over(make_service: MakeService) -> None:
    service = make_service(file_grace_hours=0, sweep_seconds=3600)
    beside = service.runtime.beside_requests()
    trashed = [delete(service, uploaded(service, name, f"Of {name}.")["documentId"]) for name in "abc"]
    ok(erase(service, trashed[0]))
    let_days_pass(service, 6)
    service.run(purge(beside.database, days=7))
    service.run(collect_files(beside))
    assert {path.name for path in documents.stored_files(service)} == {
        sha256(f"Of {name}.".encode()).hexdigest() for name in "bc"
    }
    ok(restore(service, trashed[1]))
    let_days_pass(service, 1)
    assert listed(service) == []
    refused(restore(service, trashed[2]), 404, "trashed_document_not_found")
    service.run(purge(beside.database, days=7))
    service.run(collect_files(beside))
    assert [path.name for path in documents.stored_files(service)] == [sha256(b"Of b.").hexdigest()]
    assert service.execute("SELECT count(*) FROM trashed_documents") == [(0,)]
    assert service.execute("SELECT count(*) FROM document_versions") == [(2,)]


def test_old_documents_are_erased_in_several_transactions(service: RunningService, monkeypatch) -> None:
    """Those erased before a failure stay erased."""
    trashed = [delete(service, uploaded(service, name)["documentId"]) for name in "abc"]
    let_days_pass(service, 7)
    erase_kept, erased = trash.queries.erase_kept, list[str]()

    async def fail_at_last(*args, ids) -> None:
        erased.extend(one for one in trashed if UUID(one) in ids)
        assert len(erased) < len(trashed), "out of order"
        await erase_kept(*args, ids=ids)

    monkeypatch.setattr(trash, "ERASED_AT_ONCE", 1)
    monkeypatch.setattr(trash.queries, "erase_kept", fail_at_last)
    with pytest.raises(ExceptionGroup, match="organizations"):
        service.run(purge(service.runtime.database, days=7))
    left = "SELECT count(*) FROM trashed_documents WHERE trashed_document_id = ANY(%s::uuid[])"
    assert service.execute(left, [trashed]) == [(1,)]


def test_without_a_trash_deletions_are_for_good(make_service: MakeService) -> None:
    service = make_service(trash_days=0)
    document_id = uploaded(service, "a")["documentId"]
    assert ok(service.call("catalog/deleteDocument", {"documentId": document_id})) == {"documentId": document_id}
    assert ok(service.call("catalog/listTrashedDocuments", {})) == {"documents": [], "trashDays": 0}
    assert service.execute("SELECT count(*) FROM document_versions") == [(0,)]


def test_an_archive_comes_back_with_its_files(service: RunningService) -> None:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("notes.txt", "The ferry leaves.")
    document_id = uploaded(service, "a.zip", packed.getvalue(), file_name="a.zip")["documentId"]
    until(lambda: sorted(list_documents(service)) == ["a.zip", "a.zip!/notes.txt"])
    inside = next(one for one in ok(service.call("catalog/listDocuments", {"contained": True}))["documents"])
    trashed = delete(service, document_id)
    assert (listed(service), list_documents(service)) == (["a.zip"], [])
    ok(restore(service, trashed))
    until(lambda: sorted(list_documents(service)) == ["a.zip", "a.zip!/notes.txt"])
    until(lambda: get_document(service, document_id)["containedFiles"]["indexing"] == 0)
    assert search(service, "ferry") == ["notes.txt", "a.zip"]
    alone = ok(service.call("catalog/deleteDocument", {"documentId": inside["documentId"]}))
    assert alone == {"documentId": inside["documentId"]}


def test_the_trash_is_walked_page_by_page(service: RunningService) -> None:
    for number in range(5):
        delete(service, uploaded(service, f"{number}")["documentId"])
    found, body = [], {"pageSize": 2}
    while True:
        page = ok(service.call("catalog/listTrashedDocuments", body))
        found.append([one["documentExternalId"] for one in page["documents"]])
        if "nextPageToken" not in page:
            break
        body = {**body, "pageToken": page["nextPageToken"]}
    assert found == [["4", "3"], ["2", "1"], ["0"]]


def test_who_takes_over_from_a_person_takes_over_their_trash(service: RunningService) -> None:
    add_users(service, ANN, BEN)
    trashed = delete(service, uploaded(service, "a", as_user=ANN)["documentId"])
    owner, new_owner = ({"type": "user", "email": one} for one in (ANN, BEN))
    refused(service.call("admin/users/offboard", {"email": ANN}), 400, "new_owner_required")
    done = ok(service.call("admin/owners/transfer", {"owner": owner, "newOwner": new_owner}))
    counts = [{"resourceType": "UPLOADED_DOCUMENT", "count": 1}]
    assert (done["transferred"], done["remaining"]) == (counts, [])
    assert (listed(service, as_user=ANN), listed(service, as_user=BEN)) == ([], ["a"])
    [entry] = entries(service, action="owner.set")
    assert (entry["target"]["id"], entry["target"]["name"]) == (trashed, "notes.txt")
    assert [list(entry["details"][when].values()) for when in ("before", "after")] == [["OWNER"], ["OWNER"]]
    assert entry["details"]["before"] != entry["details"]["after"]


def test_a_restore_beside_a_transfer_does_not_bring_the_owner_before_back(service: RunningService, race: Race) -> None:
    add_users(service, ANN, BEN)
    trashed = delete(service, uploaded(service, "a", as_user=ANN)["documentId"])
    owner, new_owner = ({"type": "user", "email": one} for one in (ANN, BEN))
    race.stop_before(transferring, "record")
    moving = race.begin(service.call, "admin/owners/transfer", {"owner": owner, "newOwner": new_owner})
    restoring = race.begin_blocked(service, lambda: restore(service, trashed, as_user=ANN))
    race.release()
    ok(moving.result())
    refused(restoring.result(), 404, "trashed_document_not_found")
    ok(restore(service, trashed, as_user=BEN))


def test_a_share_ends_with_the_deletion(service: RunningService) -> None:
    """The role that an admin gave the person comes back."""
    add_users(service, ANN, BEN)
    shared, both = (of_document(uploaded(service, name, as_user=ANN)["documentId"]) for name in ("memo", "plan"))
    roles = [[{"principal": {"type": "user", "email": BEN}, "role": role}] for role in ("VIEWER", "EDITOR")]
    ok(service.call("admin/grants/set", both | {"grants": roles[0]}))
    for one, given in ((shared, roles[0]), (both, roles[1])):
        ok(service.call("permissions/setShares", one | {"userEmail": ANN, "grants": given}))
    assert sorted(list_documents(service, as_user=BEN)) == ["memo", "plan"]
    for one in (shared, both):
        ok(restore(service, delete(service, one["resource"]["resourceId"])))
    assert [sorted(list_documents(service, as_user=person)) for person in (ANN, BEN)] == [["memo", "plan"], ["plan"]]
    assert grants(service, both["resource"]["resourceId"]) == {(BEN, "VIEWER")}
