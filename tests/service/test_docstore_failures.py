"""What a run says of documents that it could not take, and that a run which has lost its place writes nothing more."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from carrel.wire.docstore import DocstoreConfig
from carrel.wire.oversight import StorageLevel
from service.domains.documents.docstore import queries
from service.domains.documents.docstore.mongodb import MongoSource, open_mongodb
from service.domains.documents.docstore.running import applying, task
from service.domains.documents.docstore.running.run import OvertakenError, Run
from service.domains.documents.docstore.sources import Page
from service.platform.disk import FileSystem
from service.platform.errors import InsufficientStorage
from service.platform.files import FileStore
from service.platform.networks import AllowedHosts
from service.runtime.jobs import running
from tests.service.directory import done, on_rows, organization_id
from tests.service.docstore import DATED, FIELDS, LOOPBACK, START, Syncing, a_thing, counts

WRONG = {**DATED, "sourceName": "heading"}


@pytest.mark.parametrize("fields", [WRONG, {**FIELDS, "sourceName": "heading"}])
def test_a_run_that_could_take_nothing_failed(syncing: Syncing, fields: dict[str, str]) -> None:
    syncing.filled(10)
    for again in (syncing.first_run(sourceFields=fields), syncing.run()):
        assert (again["status"], again["lastError"]["code"]) == ("FAILED", "source_not_mapped"), again
        message = again["lastError"]["message"]
        assert "None of the 10 documents" in message
        assert "sourceName: the document has nothing in heading (10 documents, such as " in message
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
    """The service's own disks have room, so that nothing would take the run up again: it says why it ended."""

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
    """After the last attempt nobody is at work, and the sync doesn't say that somebody is."""
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
    done(syncing.update())
    healed = syncing.ended()
    assert (healed["status"], healed["documentCount"], healed["counts"]["failed"]) == ("COMPLETED", 6, 0)
    assert {"warning", "lastError"}.isdisjoint(healed)
    done(syncing.update(sourceFields=WRONG, deleteLimitPercent=100))
    broken = syncing.ended()
    assert (broken["status"], broken["documentCount"], broken["counts"]["failed"]) == ("FAILED", 6, 6)
    assert counts(broken, "deleted") == (0,)
    assert len(syncing.documents()) == 6


def alerts(syncing: Syncing) -> dict[str, int | None]:
    """The open alerts about the sync, each with its number of documents that could not be taken."""
    found = done(syncing.service.call("admin/alerts/list", {"onlyOpen": True, "pageSize": 1000}))["alerts"]
    return {one["kind"]: one.get("quarantinedCount") for one in found if one.get("syncId") == syncing.sync_id}


def test_a_run_that_could_not_take_some_warns(syncing: Syncing) -> None:
    """The alert about these documents outlasts a run that fails, and ends when all are taken."""
    things = syncing.filled(20)
    things.insert_many([a_thing(number, title=None) for number in range(50, 55)])
    things.insert_one(a_thing(60, content=None))
    for again in (syncing.first_run(), syncing.run()):
        assert (again["status"], again["warning"]["code"]) == ("COMPLETED", "documents_failed"), again
        message = again["warning"]["message"]
        assert message.startswith("6 of 26 documents could not be taken: sourceName: "), message
        assert '(5 documents, such as "thing-005' in message
        assert '(1 document, "thing-0060")' in message
        assert again["documentCount"] == 20
        assert alerts(syncing) == {"RUN_QUARANTINE": 6}
    done(syncing.update(uri="mongodb://127.0.0.1:1/shop"))
    assert syncing.ended()["status"] == "FAILED"
    assert alerts(syncing) == {"RUN_QUARANTINE": 6, "SYNC_BEHIND": None}
    assert done(syncing.service.call("admin/status/get"))["syncs"]["refusedDocuments"] >= 6
    done(syncing.update(uri=syncing.mongo.uri))
    syncing.ended()
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
    """A run that reads nothing else, for nothing else has changed, is COMPLETED: the others are there."""
    things = syncing.filled(3)
    things.insert_one(a_thing(9, title=None, updatedAt=START + timedelta(days=1)))
    syncing.first_run()
    sync = syncing.run()
    assert counts(sync, "created", "updated", "unchanged") == (0, 0, 0), "the run read only what fails"
    assert (sync["status"], sync["warning"]["code"]) == ("COMPLETED", "documents_failed")


def test_documents_that_failed_make_no_loss_smaller(syncing: Syncing) -> None:
    """All that exist vanish, and many that never could be taken stay: nothing is deleted."""
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


@pytest.fixture
def syncing(quiet: Syncing) -> Syncing:
    quiet.mongo.collection.insert_many([a_thing(number) for number in range(5)])
    done(quiet.create())
    return quiet


def update(syncing: Syncing) -> None:
    done(syncing.update(internalPublic=True))


def launch(syncing: Syncing) -> None:
    long_ago = datetime.now(UTC) - timedelta(minutes=16)
    on_rows(syncing.service, "UPDATE docstore_syncs SET progress_at = %s, updated_at = %s", long_ago, long_ago)
    assert done(syncing.call("launchDocstoreSync", syncing.named))["syncLaunched"]


def delete(syncing: Syncing) -> None:
    done(syncing.call("deleteDocstoreSync", syncing.named))


async def begin(syncing: Syncing, organization: UUID) -> Any:
    async with syncing.service.runtime.database.transaction(organization) as connection:
        sync = await queries.begin_run(connection, queries.SyncKey(organization, UUID(syncing.sync_id)))
    assert sync is not None
    return sync


def take_up(syncing: Syncing) -> None:
    """Begin the run again, as another worker does that takes this one for dead."""
    syncing.service.run(begin(syncing, organization_id(syncing.service)))


@pytest.mark.parametrize("overtake", [update, launch, take_up, delete])
def test_a_run_that_was_overtaken_brings_nothing_more(syncing, overtake, monkeypatch) -> None:
    runtime, organization = syncing.service.runtime, organization_id(syncing.service)
    upload = applying._upload  # pyright: ignore[reportPrivateUsage] - where a run is while it brings a document

    async def upload_and_overtake(*arguments: object) -> object:
        status = await upload(*arguments)  # type: ignore[arg-type]
        await asyncio.to_thread(overtake, syncing)
        return status

    monkeypatch.setattr(applying, "AT_ONCE", 1)
    monkeypatch.setattr(applying, "_upload", upload_and_overtake)
    config = DocstoreConfig.model_validate(syncing.config())

    async def run_a_page() -> None:
        sync = await begin(syncing, organization)
        uri, allowed = SecretStr(syncing.mongo.uri), AllowedHosts.of(LOOPBACK)
        async with open_mongodb(uri, config, allowed=allowed, seconds=10, connect_seconds=2) as source:
            run = Run(runtime, organization, sync, config, source, is_new=True)
            pages: list[Page] = [page async for page in source.snapshot(None)]
            await applying.apply_documents(run, pages[0].documents, cursor={"phase": "snapshot"})

    with pytest.raises(OvertakenError):
        syncing.service.run(run_a_page())
    assert syncing.names() == {"Thing 0"}
    if overtake is not delete:
        assert "cursor" not in done(syncing.call("getDocstoreSync", syncing.named))


def test_a_run_that_waits_for_room_is_not_taken_for_lost(syncing: Syncing, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a disk is LOW it says that it goes on, so that no launch takes its place."""
    service, organization = syncing.service, organization_id(syncing.service)
    runtime, disk = service.runtime, service.runtime.disk.file_systems[0]
    monkeypatch.setattr(FileSystem, "look", lambda _: None)  # it sees what was seen before

    async def progress_at() -> datetime:
        async with runtime.database.transaction(organization) as connection:
            return (await connection.execute(text("SELECT progress_at FROM docstore_syncs"))).scalar_one()

    async def wait_for_room() -> None:
        sync = await begin(syncing, organization)
        config = DocstoreConfig.model_validate(sync.config)
        run = Run(runtime, organization, sync, config, source=cast("MongoSource", None), is_new=True)
        before, disk.level = await progress_at(), StorageLevel.LOW
        waiting = asyncio.create_task(run.report_alive())
        async with asyncio.timeout(30):
            while await progress_at() == before:  # noqa: ASYNC110 - it happens in the database
                await asyncio.sleep(0.05)
        assert not waiting.done()
        disk.level = StorageLevel.OK
        await asyncio.wait_for(waiting, 30)

    service.run(wait_for_room())
