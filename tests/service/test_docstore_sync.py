"""A collection follows a document database: each run copies the changes, and no run destroys data."""

from datetime import UTC, datetime, timedelta
from unittest.mock import AsyncMock

import pytest
from bson import Int64, ObjectId

from service.domains.documents.docstore.mongodb import MongoSource
from tests.service.directory import a_user, code, document, done, entries, on_rows
from tests.service.directory import readers as readers_of
from tests.service.docstore import FIELDS, START, Syncing, a_thing, counts


def test_a_first_run_brings_everything(syncing: Syncing) -> None:
    keys: list = [ObjectId(), 7, Int64(2**40), "plain", {"a": 1, "b": "x"}]
    things = [a_thing(number, _id=key, url=f"https://things.test/{number}") for number, key in enumerate(keys)]
    syncing.mongo.collection.insert_many(things)
    syncing.mongo.misbehave(disconnect_times=3)
    sync = syncing.first_run()
    assert sync["status"] == "COMPLETED", sync
    assert counts(sync, "read", "created", "updated", "unchanged", "failed") == (5, 5, 0, 0, 0)
    assert sync["documentCount"] == 5
    assert syncing.documents().keys() == {syncing.external_id(key) for key in keys}
    document_id = syncing.documents()[syncing.external_id("plain")]["documentId"]
    shown = done(syncing.service.call("catalog/getDocument", {"documentId": document_id}))
    assert shown["documentName"] == "Thing 3"
    assert shown["documentExternalUrl"] == "https://things.test/3"
    assert shown["sourceSystemUpdated"] == "2026-01-01T00:03:00Z"
    question = {"documentCollectionId": syncing.collection_id, "searchQuery": "lamp of thing 3"}
    found = done(syncing.service.call("search/searchDocumentCollection", question))
    assert found["results"][0]["documentId"] == document_id


def test_a_next_run_brings_what_changed(syncing: Syncing) -> None:
    things = syncing.filled(30)
    syncing.first_run()
    later = START + timedelta(days=1)
    things.update_one({"_id": "thing-0007"}, {"$set": {"content.text": "It was moved.", "updatedAt": later}})
    things.insert_one(a_thing(900, updatedAt=later))
    overlapped = {"content.text": "By a slower clock, it was moved.", "updatedAt": START + timedelta(minutes=28)}
    things.update_one({"_id": "thing-0001"}, {"$set": overlapped})
    sync = syncing.run()
    assert counts(sync, "created", "updated", "deleted") == (1, 2, 0)
    assert counts(sync, "read")[0] < 20, "more than the overlap of five minutes was read"
    assert {name for name, version in syncing.versions().items() if version > 1} == {"Thing 1", "Thing 7"}


def test_without_times_everything_is_read_and_nothing_written(syncing: Syncing) -> None:
    syncing.filled(10)
    syncing.first_run(sourceFields=FIELDS)
    syncing.mongo.collection.update_one({"_id": "thing-0003"}, {"$set": {"title": "Another"}})
    assert counts(syncing.run(), "read", "created", "updated", "unchanged") == (10, 0, 1, 9)
    assert "Another" in syncing.names()


def test_documents_without_a_time_and_late_ones_are_found(syncing: Syncing) -> None:
    things = syncing.filled(5)
    things.insert_one(a_thing(50, updatedAt="soon"))
    syncing.first_run()
    things.update_one({"_id": "thing-0050"}, {"$set": {"title": "Changed without a time"}})
    things.insert_one(a_thing(60, updatedAt=START - timedelta(days=400)))
    syncing.run()
    assert {"Changed without a time", "Thing 60"} <= syncing.names()


def test_a_time_in_the_future_hides_no_change(syncing: Syncing) -> None:
    things = syncing.filled(5)
    things.insert_one(a_thing(9, updatedAt=datetime.now(UTC) + timedelta(days=3000)))
    syncing.first_run()
    for text in ("It was moved.", "It was moved again."):
        change = {"content.text": text, "updatedAt": datetime.now(UTC)}
        things.update_one({"_id": "thing-0003"}, {"$set": change})
        assert counts(syncing.run(), "updated") == (1,)


def test_what_vanishes_or_leaves_the_filter_is_removed(syncing: Syncing) -> None:
    things = syncing.filled(10, state="published")
    syncing.first_run(filterExpression={"state": "published"})
    before = syncing.documents()
    things.delete_one({"_id": "thing-0001"})
    things.update_one({"_id": "thing-0002"}, {"$set": {"state": "draft"}})
    sync = syncing.run()
    assert counts(sync, "deleted") == (2,)
    assert "warning" not in sync
    gone = {syncing.external_id("thing-0001"), syncing.external_id("thing-0002")}
    assert before.keys() - syncing.documents().keys() == gone
    for external_id in gone:
        answer = syncing.service.call("catalog/getDocument", {"documentId": before[external_id]["documentId"]})
        assert answer.status_code == 404
    syncing.updated(filterExpression={"state": "published"}, deleteMissing=False)
    things.delete_one({"_id": "thing-0003"})
    assert "warning" not in syncing.run()
    assert len(syncing.documents()) == 8, "with deleteMissing false, all stay"


@pytest.mark.parametrize("left", [0, 1, 7])
def test_a_source_that_lost_too_much_deletes_nothing(syncing: Syncing, left: int) -> None:
    things = syncing.filled(10)
    syncing.first_run(deleteLimitPercent=0)
    things.delete_many({"_id": {"$gte": f"thing-{left:04}"}})
    sync = syncing.run()
    assert sync["status"] == "COMPLETED"
    assert sync["warning"]["code"] == ("deletion_limit" if left else "listing_empty")
    assert counts(sync, "deleted") == (0,)
    assert len(syncing.documents()) == 10
    assert "approve the removal" in sync["warning"]["message"]
    held = {one["documentName"]: one for one in syncing.held()}
    assert held.keys() == {f"Thing {number}" for number in range(left, 10)}
    things.insert_one(a_thing(9, updatedAt=datetime.now(UTC)))
    approved = [one["documentId"] for name, one in held.items() if name != "Thing 8"]
    done(syncing.call("launchDocstoreSync", {**syncing.named, "approvedRemovals": approved}))
    sync = syncing.ended()
    stays = {f"Thing {number}" for number in (*range(left), 8, 9)}
    assert (syncing.names(), counts(sync, "deleted")) == (stays, (8 - left,))
    assert sync["warning"]["code"] == "deletion_limit"
    things.delete_one({"_id": "thing-0009"})
    assert counts(syncing.run(), "deleted") == (0,), "an approval ends when the document is in the source again"
    assert [(one["documentName"], one["approved"]) for one in syncing.held()] == [
        ("Thing 8", False),
        ("Thing 9", False),
    ]
    runs = done(syncing.call("listDocstoreRuns", syncing.named))["runs"]
    assert [run["counts"]["deleted"] for run in runs] == [0, 8 - left, 0, 0]
    on_rows(syncing.service, "UPDATE docstore_syncs SET runs = jsonb_build_array(" + "runs->0, " * 59 + "runs->0)")
    assert counts(syncing.updated(deleteLimitPercent=100), "deleted") == ((2,) if left else (0,))
    assert len(done(syncing.call("listDocstoreRuns", syncing.named))["runs"]) == 50


def test_a_database_is_looked_at_before_a_sync_is_saved(syncing: Syncing, monkeypatch: pytest.MonkeyPatch) -> None:
    syncing.filled(7)
    syncing.mongo.collection.insert_one(a_thing(0, _id="first", title=None, tags=[{"name": "x"}]))
    asked = {"documentCollectionId": syncing.collection_id, "config": syncing.config()}
    shown = done(syncing.call("previewDocstoreSync", {**asked, "docstoreURI": syncing.mongo.uri}))
    assert shown["documentCount"] == 8
    assert {"_id", "title", "content.text", "tags.name", "updatedAt"} <= set(shown["fields"])
    first, second, *_ = shown["documents"]
    assert (first["sourceId"], first["problem"]) == ("first", "sourceName: the document has no value in title.")
    assert (second["name"], second["text"]) == ("Thing 0", "The lamp of thing 0 is lit at dusk.")
    away = {**asked, "docstoreURI": "mongodb://127.0.0.1:1/things"}
    for request, problem in ((asked, "docstore_uri_missing"), (away, "source_unreachable")):
        assert done(syncing.call("previewDocstoreSync", request))["problem"]["code"] == problem
    before = syncing.first_run()
    with monkeypatch.context() as patch:
        patch.setattr(MongoSource, "count", AsyncMock(side_effect=TimeoutError))
        without_count = {name: value for name, value in shown.items() if name != "documentCount"}
        assert done(syncing.call("previewDocstoreSync", {**asked, **syncing.named})) == without_count
    tested = entries(syncing.service, action="docstore.preview_sync")
    assert [one["target"]["type"] for one in tested] == ["docstoreSync", "collection", "collection"]
    other = {**syncing.named, "config": syncing.config(collectionName="payroll")}
    for operation, more in (("previewDocstoreSync", asked), ("updateDocstoreSync", {})):
        assert code(syncing.call(operation, {**more, **other})) == (400, "docstore_uri_required")
    assert syncing.updated(syncName="other")["cursor"]["after"]["_id"] == before["cursor"]["after"]["_id"]
    assert counts(syncing.updated(filterExpression={"title": "Thing 1"}), "read") == (1,)


def test_a_silent_source_is_told_while_it_is_asked(syncing: Syncing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.domains.documents.docstore.asking.SILENT_SECONDS", 0.05)
    syncing.filled(1)
    syncing.mongo.misbehave(disconnect_times=2)
    done(syncing.create())
    while (sync := done(syncing.call("getDocstoreSync", syncing.named)))["status"] != "COMPLETED":
        if "warning" in sync:
            break
    assert (sync["status"], sync["warning"]["code"]) == ("RUNNING", "source_silent")
    assert "warning" not in syncing.ended()


def test_what_is_new_makes_no_loss_smaller(syncing: Syncing) -> None:
    """Replacing all documents by new documents is a loss of all, however many are new."""
    things = syncing.filled(5)
    syncing.first_run(deleteLimitPercent=60)
    things.delete_many({})
    things.insert_many([a_thing(number, updatedAt=datetime.now(UTC)) for number in range(10, 20)])
    things.insert_one(a_thing(30, title=None))
    sync = syncing.run()
    assert counts(sync, "created", "failed", "deleted") == (10, 1, 0)
    assert sync["warning"]["code"] == "deletion_limit"
    assert "5 of 5 documents" in sync["warning"]["message"]
    assert len(syncing.documents()) == 15


def test_a_listing_that_is_cut_deletes_nothing(syncing: Syncing) -> None:
    """A source listing 10 % of the count is not trusted, whatever the limit."""
    syncing.filled(10)
    syncing.first_run(deleteLimitPercent=100)
    syncing.mongo.misbehave(listed_at_most=1)
    sync = syncing.run()
    assert sync["warning"]["code"] == "listing_incomplete"
    assert "counts 10 documents and listed 1" in sync["warning"]["message"]
    assert len(syncing.documents()) == 10


def test_what_cannot_be_mapped_is_listed_with_its_reason(syncing: Syncing) -> None:
    things = syncing.mongo.collection
    things.insert_many([a_thing(number) for number in range(900, 910)])
    title, url, text = ["a", "b"], "javascript:alert(1)", {"text": "\0 binary \0"}
    things.insert_many([a_thing(100, content=None), a_thing(101, title=title), a_thing(102, url=url)])
    things.insert_many([a_thing(103, title="n" * 1001), a_thing(104, content=text)])
    sync = syncing.first_run()
    assert sync["status"] == "COMPLETED"
    assert counts(sync, "created", "failed") == (10, 5)
    failures = syncing.failures()
    assert failures.keys() == {f"thing-{number:04}" for number in range(100, 105)}
    assert failures["thing-0100"] == "missing_value"
    assert failures["thing-0101"] == "wrong_type"
    things.update_one({"_id": "thing-0100"}, {"$set": {"content": {"text": "Mended, at an old time."}}})
    things.delete_one({"_id": "thing-0101"})
    later = {"content": {"text": ""}, "updatedAt": START + timedelta(days=1)}
    things.update_one({"_id": "thing-0900"}, {"$set": later})
    sync = syncing.run()
    assert counts(sync, "created", "failed", "deleted") == (1, 4, 0)
    assert syncing.failures().keys() == {"thing-0102", "thing-0103", "thing-0104", "thing-0900"}
    assert len(syncing.documents()) == 11


def test_an_id_of_any_characters_is_kept_as_a_place_to_go_on_from(syncing: Syncing) -> None:
    """PostgreSQL's text and JSON have no NUL."""
    things = [a_thing(number, _id=f"{number}\0\x7f") for number in range(3)]
    syncing.mongo.collection.insert_many([*things, a_thing(3, _id="9\0", title=None)])
    for _ in range(2):
        sync = syncing.first_run() if not syncing.sync_id else syncing.run()
        assert sync["status"] == "COMPLETED", sync
        assert (sync["documentCount"], sync["counts"]["failed"]) == (3, 1)
    assert syncing.names() == {f"Thing {number}" for number in range(3)}


def test_access_is_what_the_config_says(syncing: Syncing) -> None:
    a_user(syncing.service, "ada@example.test")
    syncing.filled(3)
    syncing.first_run()
    assert readers(syncing) == {syncing.service.admin_email}
    syncing.updated(allowedUsersEmailAddresses=["ada@example.test"])
    assert readers(syncing) == {syncing.service.admin_email, "ada@example.test"}
    syncing.updated()
    assert readers(syncing) == {syncing.service.admin_email}
    syncing.updated(internalPublic=True)
    assert readers(syncing) == {syncing.service.admin_email, "ada@example.test"}
    assert set(syncing.versions().values()) == {1}, "nothing but the access changed"


def readers(syncing: Syncing) -> set[str]:
    document_id = syncing.documents()[syncing.external_id("thing-0000")]["documentId"]
    return {*readers_of(syncing.service, document(document_id))}


def test_what_was_removed_by_hand_comes_back(syncing: Syncing) -> None:
    syncing.filled(4)
    syncing.first_run(sourceFields=FIELDS)
    documents = syncing.documents()
    first, second = (documents[syncing.external_id(f"thing-000{number}")]["documentId"] for number in (0, 1))
    done(syncing.service.call("catalog/deleteDocument", {"documentId": first}))
    assert done(syncing.call("getDocstoreSync", syncing.named))["documentCount"] == 3
    place = {"documentId": second, "documentCollectionId": syncing.collection_id}
    done(syncing.service.call("documentCollections/removeDocumentFromCollection", place))
    assert syncing.run()["documentCount"] == 4
    assert syncing.names() == {f"Thing {number}" for number in range(4)}


def test_a_run_that_fails_says_why_and_goes_on_later(syncing: Syncing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.domains.documents.docstore.mongodb.PAGE_DOCUMENTS", 20)
    things = syncing.filled(22)
    things.insert_one(a_thing(0, _id="thing", title=None))
    syncing.mongo.misbehave(find_code=50, find_after=4, find_times=1)
    sync = syncing.first_run()
    assert (sync["status"], sync["lastError"]["code"]) == ("FAILED", "source_too_slow")
    assert counts(sync, "created", "failed") == (19, 1)
    things.update_one({"_id": "thing"}, {"$set": {"title": "Mended"}})
    sync = syncing.run()
    assert (sync["status"], len(syncing.documents())) == ("COMPLETED", 23)
    assert counts(sync, "read", "created", "failed") == (4, 4, 0), "what was brought is not read again"
    assert "lastError" not in sync
