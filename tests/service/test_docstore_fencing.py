"""A run without its place stops writing, also in the middle of a page."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from carrel.wire.docstore import DocstoreConfig
from carrel.wire.oversight import StorageLevel
from service.domains.documents.docstore import queries
from service.domains.documents.docstore.mongodb import MongoSource, open_mongodb
from service.domains.documents.docstore.running import applying
from service.domains.documents.docstore.running.run import OvertakenError, Run
from service.domains.documents.docstore.sources import Page
from service.platform.disk import FileSystem
from service.platform.networks import AllowedHosts
from tests.service.directory import done, on_rows, organization_id
from tests.service.docstore import LOOPBACK, Syncing, a_thing


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
    syncing.service.run(begin(syncing, organization_id(syncing.service)))


@pytest.mark.parametrize("overtake", [update, launch, take_up, delete])
def test_a_run_that_was_overtaken_brings_nothing_more(syncing, overtake, monkeypatch) -> None:
    runtime, organization = syncing.service.runtime, organization_id(syncing.service)
    upload = applying._upload_and_wait  # pyright: ignore[reportPrivateUsage] - where a run is while it brings a document

    async def upload_and_overtake(*arguments: object) -> object:
        status = await upload(*arguments)  # type: ignore[arg-type]
        await asyncio.to_thread(overtake, syncing)
        return status

    monkeypatch.setattr(applying, "AT_ONCE", 1)
    monkeypatch.setattr(applying, "_upload_and_wait", upload_and_overtake)
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
    """While a disk is LOW the run sends signs of life."""
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
