"""A run's report of failed documents, and count of existing documents."""

from datetime import timedelta

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from service.domains.documents.docstore.running import task
from service.platform.errors import InsufficientStorage
from service.platform.files import FileStore
from service.runtime.jobs import running
from tests.service.directory import done
from tests.service.docstore import DATED, FIELDS, LOOPBACK, START, Syncing, a_thing, counts

WRONG = {**DATED, "sourceName": "heading"}


@pytest.mark.parametrize("fields", [WRONG, {**FIELDS, "sourceName": "heading"}])
def test_a_run_that_could_take_nothing_failed(syncing: Syncing, fields: dict[str, str]) -> None:
    syncing.filled(10)
    for again in (syncing.first_run(sourceFields=fields), syncing.run()):
        assert (again["status"], again["lastError"]["code"]) == ("FAILED", "source_not_mapped"), again
        message = again["lastError"]["message"]
        assert "None of the 10 documents" in message
        assert "sourceName: the document has no value in heading (10 documents, such as " in message
        assert "Correct sourceFields" in message
        assert (again["documentCount"], again["counts"]["failed"]) == (0, 10)
    listed = done(syncing.call("listDocstoreSyncs", {"documentCollectionId": syncing.collection_id}))
    assert [one["documentCount"] for one in listed["docstoreSyncs"]] == [0]


def test_a_run_whose_documents_are_all_too_large_says_so(make_service, mongo) -> None:
    syncing = Syncing(make_service(docstore_allowed_hosts=LOOPBACK, max_upload_bytes=10), mongo)
    mongo.collection.insert_many([a_thing(number) for number in range(3)])
    error = syncing.first_run()["lastError"]
    assert error["code"] == "documents_not_taken"
    assert "None of the 3 documents" in error["message"]
    assert "larger than 10 bytes" in error["message"]
    assert "sourceFields" not in error["message"]


def test_a_bucket_without_room_fails_the_run(syncing: Syncing, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service's own disks have space, so no later run would be started: the error gives the reason."""

    async def put(*_: object) -> None:
        raise InsufficientStorage("The bucket is full.")

    syncing.mongo.collection.insert_one(a_thing(1))
    with monkeypatch.context() as full:
        full.setattr(FileStore, "put", put)
        sync = syncing.first_run()
    assert (sync["status"], sync["lastError"]["code"]) == ("FAILED", "storage_full")
    assert sync["lastError"]["message"] == "The bucket is full."
    assert syncing.run()["status"] == "COMPLETED"


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OperationalError("SELECT", None, psycopg.OperationalError("gone")), "database_unavailable"),
        (InsufficientStorage("The disk is full."), "storage_full"),
    ],
)
def test_a_run_that_is_not_taken_up_again_says_why(syncing, monkeypatch, failure, code) -> None:
    """After the last attempt the sync must not appear active."""
    attempts: list[bool] = []

    async def put(*_: object) -> None:
        attempts.append(running.is_last_attempt())
        raise failure

    async def run_short(_: object) -> bool:
        return True

    syncing.mongo.collection.insert_one(a_thing(1))
    with monkeypatch.context() as away:
        away.setattr(running, "RETRY_SECONDS", 0)
        away.setattr(running, "MOST_ATTEMPTS", 3)
        away.setattr(task, "_runs_short", run_short)
        away.setattr(FileStore, "put", put)
        sync = syncing.first_run()
    assert (sync["status"], sync["lastError"]["code"]) == ("FAILED", code)
    assert attempts == [False, False, True]
    assert syncing.run()["status"] == "COMPLETED"


def test_a_config_that_is_corrected_heals_the_sync(syncing: Syncing) -> None:
    syncing.filled(6)
    syncing.first_run(sourceFields=WRONG)
    healed = syncing.updated()
    assert (healed["status"], healed["documentCount"], healed["counts"]["failed"]) == ("COMPLETED", 6, 0)
    assert {"warning", "lastError"}.isdisjoint(healed)
    broken = syncing.updated(sourceFields=WRONG, deleteLimitPercent=100)
    assert (broken["status"], broken["documentCount"], broken["counts"]["failed"]) == ("FAILED", 6, 6)
    assert counts(broken, "deleted") == (0,)
    assert len(syncing.documents()) == 6


def alerts(syncing: Syncing) -> dict[str, int | None]:
    found = done(syncing.service.call("admin/alerts/list", {"onlyOpen": True, "pageSize": 1000}))["alerts"]
    return {one["kind"]: one.get("quarantinedCount") for one in found if one.get("syncId") == syncing.sync_id}


def test_a_run_that_could_not_take_some_warns(syncing: Syncing) -> None:
    things = syncing.filled(20)
    things.insert_many([a_thing(number, title=None) for number in range(50, 55)])
    things.insert_one(a_thing(60, content=None))
    for again in (syncing.first_run(), syncing.run()):
        assert (again["status"], again["warning"]["code"]) == ("COMPLETED", "documents_failed"), again
        message = again["warning"]["message"]
        assert message.startswith("6 of 26 documents could not be loaded: sourceName: "), message
        assert '(5 documents, such as "thing-005' in message
        assert '(1 document, "thing-0060")' in message
        assert again["documentCount"] == 20
        assert alerts(syncing) == {"RUN_QUARANTINE": 6}
    assert syncing.updated(uri="mongodb://127.0.0.1:1/shop")["status"] == "FAILED"
    assert alerts(syncing) == {"RUN_QUARANTINE": 6, "SYNC_BEHIND": None}
    assert done(syncing.service.call("admin/status/get"))["syncs"]["refusedDocuments"] >= 6
    syncing.updated(uri=syncing.mongo.uri)
    later = START + timedelta(days=1)
    things.update_many({"_id": {"$gte": "thing-0050"}}, {"$set": {"title": "Mended", "content.text": "It is."}})
    things.update_one({"_id": "thing-0060"}, {"$set": {"content": {"text": "Mended."}, "updatedAt": later}})
    mended = syncing.run()
    assert (mended["documentCount"], mended["counts"]["failed"]) == (26, 0)
    assert "warning" not in mended
    assert alerts(syncing) == {}
    things.insert_one(a_thing(70, title=None))
    syncing.run()
    assert alerts(syncing) == {"RUN_QUARANTINE": 1}
    done(syncing.call("deleteDocstoreSync", syncing.named))
    assert alerts(syncing) == {}


def test_one_that_fails_again_fails_no_run(syncing: Syncing) -> None:
    things = syncing.filled(3)
    things.insert_one(a_thing(9, title=None, updatedAt=START + timedelta(days=1)))
    syncing.first_run()
    sync = syncing.run()
    assert counts(sync, "created", "updated", "unchanged") == (0, 0, 0), "the run read only what fails"
    assert (sync["status"], sync["warning"]["code"]) == ("COMPLETED", "documents_failed")


def test_documents_that_failed_make_no_loss_smaller(syncing: Syncing) -> None:
    things, good = syncing.mongo.collection, [a_thing(number) for number in range(4)]
    things.insert_many([*good, *(a_thing(number, title=None) for number in range(20, 40))])
    syncing.first_run()
    things.delete_many({"_id": {"$lt": "thing-0004"}})
    sync = syncing.run()
    assert counts(sync, "deleted", "failed") == (0, 20)
    assert len(syncing.documents()) == 4
    assert "4 of 4 documents are no longer listed" in (sync.get("warning") or sync["lastError"])["message"]
    things.delete_many({})
    things.insert_many(good)
    sync = syncing.run()
    assert (sync["status"], sync["documentCount"], sync["counts"]["failed"]) == ("COMPLETED", 4, 0)
    assert counts(sync, "deleted") == (0,)
    assert "warning" not in sync
