"""A run that has lost its place writes nothing more, in the middle of a page as well."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from carrel.wire.docstore import DocstoreConfig
from carrel.wire.oversight import StorageLevel
from service.domains.docstore.mongodb import open_mongodb
from service.domains.docstore.running import applying, queries
from service.domains.docstore.running.run import OvertakenError, Run
from service.domains.docstore.sources import Page, Source
from service.platform.disk import FileSystem
from service.platform.networks import AllowedHosts
from tests.harness.jobs import organization_of
from tests.harness.mongo.processes import MongoServer
from tests.harness.services import RunningService
from tests.service.directory import done
from tests.service.docstore import Syncing, a_thing

LOOPBACK = ("127.0.0.1",)


@pytest.fixture
def syncing(make_service: Callable[..., RunningService], mongo: MongoServer) -> Syncing:
    """A service whose syncs wait for another replica, and five things."""
    mongo.collection.insert_many([a_thing(number) for number in range(5)])
    return Syncing(make_service(docstore_workers=0, docstore_allowed_hosts=LOOPBACK), mongo)


def update(syncing: Syncing) -> None:
    """Give the sync another config."""
    done(syncing.update(internalPublic=True))


def launch(syncing: Syncing) -> None:
    """Launch the sync, whose run has told nothing for long."""
    long_ago = datetime.now(UTC) - timedelta(minutes=16)
    with syncing.service.owner_connection() as connection:
        connection.execute("UPDATE docstore_syncs SET progress_at = %s, updated_at = %s", [long_ago, long_ago])
    assert done(syncing.call("launchDocstoreSync", syncing.named))["syncLaunched"]


def delete(syncing: Syncing) -> None:
    """Delete the sync."""
    done(syncing.call("deleteDocstoreSync", syncing.named))


def take_up(syncing: Syncing) -> None:
    """Begin the run again, as another worker does that takes this one for dead."""
    service = syncing.service
    organization_id = organization_of(service)

    async def begin() -> None:
        async with service.runtime.database.transaction(organization_id) as connection:
            assert await queries.begin_run(connection, organization_id, sync_id=UUID(syncing.sync_id))

    service.run(begin())


@pytest.mark.parametrize("overtake", [update, launch, take_up, delete])
def test_a_run_that_was_overtaken_brings_nothing_more(
    syncing: Syncing, overtake: Callable[[Syncing], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed, launched or begun anew when it was taken for lost, or deleted: the document in hand is the last one."""
    done(syncing.create())
    runtime, organization_id = syncing.service.runtime, organization_of(syncing.service)
    upload = applying._upload  # pyright: ignore[reportPrivateUsage] - where a run is while it brings a document

    async def upload_and_overtake(*arguments: object) -> object:
        status = await upload(*arguments)  # type: ignore[arg-type]
        await asyncio.to_thread(overtake, syncing)
        return status

    monkeypatch.setattr(applying, "AT_ONCE", 1)
    monkeypatch.setattr(applying, "_upload", upload_and_overtake)
    config = DocstoreConfig.model_validate(syncing.config())

    async def run_a_page() -> None:
        async with runtime.database.transaction(organization_id) as connection:
            sync = await queries.begin_run(connection, organization_id, sync_id=UUID(syncing.sync_id))
        assert sync is not None
        uri, allowed = SecretStr(syncing.mongo.uri), AllowedHosts.of(LOOPBACK)
        async with open_mongodb(uri, config, allowed=allowed, seconds=10, connect_seconds=2) as source:
            run = Run(runtime, organization_id, sync, config, source, is_new=True)
            pages: list[Page] = [page async for page in source.snapshot(None)]
            await applying.apply_documents(run, pages[0].documents, cursor={"phase": "snapshot"})

    with pytest.raises(OvertakenError):
        syncing.service.run(run_a_page())
    assert syncing.names() == {"Thing 0"}
    if overtake is not delete:
        assert "cursor" not in done(syncing.call("getDocstoreSync", syncing.named))


def test_a_run_that_waits_for_room_is_not_taken_for_lost(syncing: Syncing, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a disk is LOW it says that it goes on, so that no launch takes its place."""
    done(syncing.create())
    service, organization_id = syncing.service, organization_of(syncing.service)
    runtime, disk = service.runtime, service.runtime.disk.file_systems[0]

    def look(_: FileSystem) -> None:
        """See what was seen before."""

    monkeypatch.setattr(FileSystem, "look", look)

    async def progress_at() -> datetime:
        async with runtime.database.transaction(organization_id) as connection:
            return (await connection.execute(text("SELECT progress_at FROM docstore_syncs"))).scalar_one()

    async def wait_for_room() -> None:
        async with runtime.database.transaction(organization_id) as connection:
            sync = await queries.begin_run(connection, organization_id, sync_id=UUID(syncing.sync_id))
        assert sync is not None
        config = DocstoreConfig.model_validate(sync.config)
        run = Run(runtime, organization_id, sync, config, source=cast("Source", None), is_new=True)
        before, disk.level = await progress_at(), StorageLevel.LOW
        waiting = asyncio.create_task(run.report_alive())
        async with asyncio.timeout(30):
            while await progress_at() == before:  # noqa: ASYNC110 - it happens in the database
                await asyncio.sleep(0.05)
        assert not waiting.done()
        disk.level = StorageLevel.OK
        await asyncio.wait_for(waiting, 30)

    service.run(wait_for_room())
