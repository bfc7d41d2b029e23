"""Serving the flows: deployments that others can start, run as processes of this machine."""

import asyncio
import tempfile
import time
import warnings
from datetime import timedelta
from pathlib import Path

from prefect import aserve
from prefect.automations import Automation
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.types.entrypoint import EntrypointType

from flows.bulk_upload import bulk_upload
from flows.collection_add import collection_add
from flows.errors import FlowError
from flows.runs import DEPLOYMENT

_LOST = "carrel: end runs that have gone silent"
_STARTING = timedelta(seconds=120)
_SILENCE = timedelta(seconds=120)  # four heartbeats


async def serve_flows(folder: Path, *, limit: int = 4) -> None:
    """Offer both flows as deployments named `carrel` and run what is started, at most `limit` at a time, until stopped.

    Runs on different sources go side by side; a second one on the same source stops at once and says why. Temporary
    files go into `folder`.
    """
    _write_into(folder)
    # Prefect 3.8's handler of SIGTERM makes this coroutine, forgets it and exits, which is all that is wanted.
    warnings.filterwarnings("ignore", message="coroutine 'Runner.astop' was never awaited", category=RuntimeWarning)
    await _prefect_answers()
    await _watch_for_lost_runs()
    deployments = [
        await flow.ato_deployment(DEPLOYMENT, entrypoint_type=EntrypointType.MODULE_PATH)
        for flow in (bulk_upload, collection_add)
    ]
    # Pausing them at the end would wait for a server that may be stopping too; what is started meanwhile is run later.
    await aserve(*deployments, limit=limit, print_starting_message=False, pause_on_shutdown=False)


def _write_into(folder: Path) -> None:
    """Prefect's runner has one folder for all users under the system's, which only the first of them can write to."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tempfile.tempdir = str(folder)


async def _prefect_answers() -> None:
    """Wait for Prefect's server, which may be starting beside this process; its last error when it stays away."""
    deadline = time.monotonic() + _STARTING.total_seconds()
    async with get_client() as client:
        while (error := await client.api_healthcheck()) is not None:
            if time.monotonic() > deadline:
                msg = f"Prefect does not answer at {client.api_url}. Start it: `python -m flows.server`."
                raise FlowError(msg) from error
            await asyncio.sleep(0.5)


async def _watch_for_lost_runs() -> None:
    """A run whose machine died sends no heartbeat any more; it is then marked crashed, and not shown as running."""
    async with get_client() as client:
        if await client.read_automations_by_name(_LOST):
            return
    crash = ChangeFlowRunState(
        name=None, state=StateType.CRASHED, message="The run has sent no heartbeat for two minutes.", force=False
    )
    ends = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
    await Automation(
        name=_LOST,
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", "prefect.flow-run.CompletedWithQuarantine", *ends},
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=_SILENCE,
        ),
        actions=[crash],
    ).acreate()
