"""Deployments on the session's Prefect server, and `python -m flows serve`, which carries out started runs."""

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import State
from prefect.runner import Runner

from flows.bulk_upload import bulk_upload
from flows.deployments import Entry, register
from flows.runs import Runs, RunStatus
from flows.schedules import Schedule, list_schedules
from tests.flows.processes import SERVE, running, said


@contextmanager
def serving(prefect_api: str, file: Path, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    settings = {
        "PREFECT_API_URL": prefect_api,
        "CARREL_FLOWS_DEPLOYMENTS": str(file),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        **settings,
    }
    with running(*SERVE, **settings) as process:
        said(process, "Serving the flows")
        yield process


async def register_entries(entries: Sequence[Entry]) -> list[str]:
    return await register(entries, runner=Runner(pause_on_shutdown=False))


async def deploy(name: str, *, tags: Sequence[str] = ()) -> UUID:
    deployment = await bulk_upload.ato_deployment(name, tags=[*tags])
    return await Runner(pause_on_shutdown=False).aadd_deployment(deployment)


def schedule_named(runs: Runs, name: str = "Handbook") -> Schedule:
    (found,) = [one for one in list_schedules(runs) if one.name == name]
    return found


def waiting_runs(runs: Runs, schedule: Schedule) -> list[object]:
    states = {"state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}}}
    chosen = {"created_by": {"id_": [schedule.key]}, **states}
    return list(runs.rows("/flow_runs/filter", {"flow_runs": chosen}))


async def state_of(flow: Any, *arguments: Any) -> State[Any]:
    return await flow(*arguments, return_state=True)


async def status_of(prefect_api: str, ended: State[Any]) -> RunStatus:
    """Return the status of a run that the list of runs shows."""
    flow_run_id = ended.state_details.flow_run_id
    assert flow_run_id is not None
    with Runs(prefect_api) as runs:
        newest = await asyncio.to_thread(runs.page)
        assert flow_run_id in {one.flow_run_id for one in newest.runs}
        return await asyncio.to_thread(runs.run_status, flow_run_id)


def artifacts_of(prefect_api: str, ended: State[Any]) -> dict[str, str]:
    flow_run_id = ended.state_details.flow_run_id
    assert flow_run_id is not None
    with Runs(prefect_api) as runs:
        return {key: str(data) for key, data in runs.artifacts([flow_run_id])[str(flow_run_id)].items()}
