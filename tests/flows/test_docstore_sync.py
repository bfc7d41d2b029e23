"""The flow for syncs, run by Prefect."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.docstore_sync import docstore_sync
from flows.errors import NameUnknownError, StorageFullError, SyncFailedError
from tests.flows.serving import state_of, status_of
from tests.harness.services import RunningService
from tests.service.directory import done
from tests.service.docstore import DATED, Syncing, a_thing

DISK_BYTES = 1 << 20


@pytest.fixture
def overrides() -> dict[str, Any]:
    return {}


@pytest.fixture
def service(make_service: Callable[..., RunningService], overrides: dict[str, Any]) -> RunningService:
    return make_service(docstore_allowed_hosts=("127.0.0.1",), **overrides)


@pytest.fixture
def small_disk(tmp_path: Path, overrides: dict[str, Any]) -> Iterator[Path]:
    """A separate disk for the files of the service, with unwatched free space."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["/bin/mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system")
    overrides.update(files_url=(disk / "files").as_uri(), storage_low_bytes=0)
    yield disk
    subprocess.run(["/bin/umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def syncing(service: RunningService, mongo) -> Syncing:
    syncing = Syncing(service, mongo)
    syncing.filled(20)
    syncing.first_run()
    return syncing


@pytest.mark.usefixtures("flow_settings")
async def test_the_flow_tells_of_the_run(prefect_api: str, syncing: Syncing) -> None:
    """Counts and failures are artifacts and the result; the state names left-out documents and undone work."""
    things = syncing.mongo.collection
    things.insert_one(a_thing(30))
    clean = await state_of(docstore_sync, "things")
    assert (clean.type.value, clean.name) == ("COMPLETED", "Completed")
    things.insert_one(a_thing(31, title=None))
    quarantined = await state_of(docstore_sync, syncing.sync_id)
    assert quarantined.name == "CompletedWithQuarantine"
    things.delete_many({"_id": {"$lt": "thing-0010"}})
    held = await state_of(docstore_sync, "things")
    assert held.name == "CompletedWithProblems"
    assert "were not removed" in str(held.message)
    result = await held.aresult()
    assert (result["deleted"], result["failed"], result["warning"]["code"]) == (0, 1, "deletion_limit")
    status = await status_of(prefect_api, quarantined)
    assert (status.phase, status.progress, status.counts.failed) == ("done", 100.0, 1)
    assert [(row["place"], row["code"]) for row in status.failures] == [("thing-0031", "missing_value")]
    assert "changes since the last run" in status.plan


@pytest.mark.usefixtures("prefect_api", "flow_settings")
async def test_a_run_that_failed_fails_the_flow(syncing: Syncing) -> None:
    """With the service's message; an unknown sync is named."""
    syncing.mongo.misbehave(find_code=13, find_times=1)
    with pytest.raises(SyncFailedError, match="source_refused"):
        await docstore_sync("things")
    with pytest.raises(NameUnknownError, match="elsewhere"):
        await docstore_sync("elsewhere")
    done(syncing.call("deleteDocstoreSync", syncing.named))
    with pytest.raises(NameUnknownError):
        await docstore_sync(syncing.sync_id)


@pytest.mark.usefixtures("prefect_api", "flow_settings")
@pytest.mark.parametrize(
    ("overrides", "members", "code"),
    [
        ({}, {"sourceFields": {**DATED, "sourceName": "heading"}}, "source_not_mapped"),
        ({"max_upload_bytes": 10}, {}, "documents_not_taken"),
    ],
)
async def test_a_run_that_could_take_nothing_fails_the_flow(service, mongo, members, code) -> None:
    """The cause is the config or the documents, so the message must not report an outage."""
    syncing = Syncing(service, mongo)
    syncing.filled(3)
    syncing.first_run(**members)
    with pytest.raises(SyncFailedError, match=rf"{code}.*None of the 3 documents"):
        await docstore_sync("things")


@pytest.mark.usefixtures("prefect_api", "small_disk", "flow_settings")
async def test_a_run_without_room_for_its_files_fails_the_flow(small_disk, service, mongo) -> None:
    """The message asks for disk space; the next run copies everything."""
    (small_disk / "filler").write_bytes(bytes(DISK_BYTES))
    syncing = Syncing(service, mongo)
    syncing.filled(3)
    assert syncing.first_run()["lastError"]["code"] == "storage_full"
    with pytest.raises(StorageFullError, match="storage_full"):
        await docstore_sync("things")
    (small_disk / "filler").unlink()
    assert ((await state_of(docstore_sync, "things")).name, len(syncing.documents())) == ("Completed", 3)
