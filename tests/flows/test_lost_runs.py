"""Runs whose process or machine has died are marked, and started again by whoever serves their deployment."""

import os
import subprocess
import sys
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import PrefectClient, get_client
from prefect.runner import Runner
from prefect.states import Crashed, Running

from flows import lost_runs
from flows.bulk_upload import bulk_upload
from flows.scheduling import TAG

SILENT = "The run has sent no heartbeat for 120 seconds."


@pytest.fixture
async def client(prefect_api: str) -> Any:
    """A client of the session's Prefect server."""
    assert prefect_api
    async with get_client() as client:
        yield client


async def test_lost_runs_are_watched_for_by_one_automation(client: PrefectClient) -> None:
    """It is made once; one of an earlier version is replaced, not joined by another."""
    await lost_runs.watch_for_lost_runs(silence=lost_runs.SILENCE * 2)
    await lost_runs.watch_for_lost_runs()
    (one,) = await client.read_automations_by_name(lost_runs.NAME)
    assert one.trigger.within == lost_runs.SILENCE
    assert {"prefect.flow-run.CompletedWithQuarantine", "prefect.flow-run.Completed"} <= one.trigger.expect
    await lost_runs.watch_for_lost_runs()
    assert [known.id for known in await client.read_automations_by_name(lost_runs.NAME)] == [one.id]


async def test_a_lost_run_is_started_again_a_few_times(client: PrefectClient) -> None:
    """Not one that ended otherwise, nor one that no deployment starts, nor one of another project's deployment."""
    deployment_id = await deploy("lost", tags=[TAG])
    foreign_id = await deploy("of-another-project", tags=[])
    foreign = await client.create_flow_run_from_deployment(foreign_id, parameters={"source": "x"})
    await client.set_flow_run_state(foreign.id, Crashed(message=SILENT))
    run = await client.create_flow_run_from_deployment(deployment_id, parameters={"source": "x"})
    by_hand = await client.create_flow_run(bulk_upload, parameters={"source": "x"})
    await client.set_flow_run_state(by_hand.id, Crashed(message=SILENT))
    for _ in range(lost_runs.MOST_STARTS - 1):
        await client.set_flow_run_state(run.id, Running(), force=True)
        await client.set_flow_run_state(run.id, Crashed(message=SILENT))
        assert await lost_runs.take_over(client) == [run.name]
        assert (await client.read_flow_run(run.id)).state_name == "AwaitingRetry"
        assert await lost_runs.take_over(client) == []
    await client.set_flow_run_state(run.id, Running(), force=True)
    await client.set_flow_run_state(run.id, Crashed(message=SILENT))
    other = await client.create_flow_run_from_deployment(deployment_id, parameters={"source": "x"})
    await client.set_flow_run_state(other.id, Crashed(message="Flow run process exited with status code -9."))
    assert await lost_runs.take_over(client) == []
    await client.delete_deployment(deployment_id)
    await client.delete_deployment(foreign_id)


async def test_a_silent_run_whose_process_lives_here_is_left_alone(client: PrefectClient) -> None:
    """It was suspended with its machine, or cut off from Prefect; a second process would do the same work beside it."""
    deployment_id = await deploy("cut-off", tags=[TAG])
    run = await client.create_flow_run_from_deployment(deployment_id, parameters={"source": "x"})
    await client.set_flow_run_state(run.id, Crashed(message=SILENT))
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(  # noqa: ASYNC220 - it starts at once
        waits, stdin=subprocess.PIPE, env=os.environ | {"PREFECT__FLOW_RUN_ID": str(run.id)}
    ):
        assert await lost_runs.take_over(client) == []
    assert await lost_runs.take_over(client) == [run.name]
    await client.delete_deployment(deployment_id)


async def deploy(name: str, *, tags: list[str]) -> UUID:
    """Register a deployment with tags on the Prefect server; its id."""
    return await Runner(pause_on_shutdown=False).aadd_deployment(await bulk_upload.ato_deployment(name, tags=tags))
