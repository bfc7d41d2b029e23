"""The flow that launches a sync and watches its run, as Prefect runs it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from prefect.client.schemas.objects import State

from flows.docstore_sync import docstore_sync
from flows.errors import NameUnknownError, SyncFailedError
from flows.runs import Runs
from flows.settings import FlowSettings
from tests.harness.mongo.processes import MongoServer
from tests.harness.services import RunningService
from tests.service.directory import done
from tests.service.docstore import Syncing, a_thing


@pytest.fixture
def service(make_service: Callable[..., RunningService]) -> RunningService:
    """A service that may connect to loopback."""
    return make_service(docstore_allowed_hosts=("127.0.0.1",))


@pytest.fixture
def syncing(service: RunningService, mongo: MongoServer) -> Syncing:
    """A collection that is synced with twenty things."""
    mongo.collection.insert_many([a_thing(number) for number in range(20)])
    syncing = Syncing(service, mongo)
    syncing.first_run()
    return syncing


async def state_of(*arguments: Any) -> State[Any]:
    """How the flow ended."""
    return await docstore_sync(*arguments, return_state=True)


async def test_the_flow_tells_of_the_run(prefect_api: str, syncing: Syncing, flow_settings: FlowSettings) -> None:
    """Counts and failures are its artifacts and its result; its state says what was left out, and left undone."""
    del flow_settings
    things = syncing.mongo.collection
    things.insert_one(a_thing(30))
    clean = await state_of("things")
    assert (clean.type.value, clean.name) == ("COMPLETED", "Completed")
    things.insert_one(a_thing(31, title=None))
    quarantined = await state_of(syncing.sync_id)
    assert quarantined.name == "CompletedWithQuarantine"
    things.delete_many({"_id": {"$lt": "thing-0010"}})
    held = await state_of("things")
    assert held.name == "CompletedWithProblems"
    assert "nothing was removed" in str(held.message)
    result = await held.aresult()
    assert (result["deleted"], result["failed"], result["warning"]["code"]) == (0, 1, "deletion_limit")
    flow_run_id = quarantined.state_details.flow_run_id
    assert flow_run_id is not None
    with Runs(prefect_api) as runs:
        status = await asyncio.to_thread(runs.run_status, flow_run_id)
        assert flow_run_id in await asyncio.to_thread(runs.recent)
    assert (status.phase, status.progress, status.counts.failed) == ("done", 100.0, 1)
    assert [(row["place"], row["code"]) for row in status.failures] == [("thing-0031", "missing_value")]
    assert "what changed since the last run" in status.plan


@pytest.mark.usefixtures("prefect_api", "flow_settings")
async def test_a_run_that_failed_fails_the_flow(syncing: Syncing) -> None:
    """In the service's words; a sync that isn't there is named."""
    syncing.mongo.misbehave(find_code=13, find_times=1)
    with pytest.raises(SyncFailedError, match="source_refused"):
        await docstore_sync("things")
    with pytest.raises(NameUnknownError, match="elsewhere"):
        await docstore_sync("elsewhere")
    done(syncing.call("deleteDocstoreSync", syncing.named))
    with pytest.raises(NameUnknownError):
        await docstore_sync(syncing.sync_id)
