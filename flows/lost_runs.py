"""Marking runs as crashed when their process or machine has died, so that they send no heartbeat; restarting them, and
runs that a process had taken when it ended."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from prefect.automations import Automation
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.states import AwaitingRetry

from flows.deployments import TAG
from flows.processes import is_living
from flows.runs import SKIPPED

NAME = "carrel: end runs that have gone silent"
SILENCE = timedelta(seconds=120)  # four heartbeats
# An event is named after its state; those that flows of ours end with are named in flows.running.
_ENDS = ("Completed", "CompletedWithQuarantine", "CompletedWithProblems", SKIPPED, "Failed", "Cancelled", "Crashed")
_SILENT = "The run has sent no heartbeat"
MOST_STARTS = 3
"""A run that ends its process each time, as one that takes all memory does, isn't started for ever."""
TAKEN_OVER_FOR = timedelta(hours=1)
"""What has been lost for longer stays so: the next run of its source does its work."""
_LOOKING = 10.0


async def watch_for_lost_runs(*, silence: timedelta = SILENCE) -> None:
    """Create the automation by which the server marks lost runs, in place of one of an earlier version."""
    wanted = _automation(silence)
    async with get_client() as client:
        known = await client.read_automations_by_name(NAME)
    if any(_same(one.trigger, wanted.trigger) for one in known):
        return
    for old in known:
        await Automation(**old.model_dump()).adelete()
    await wanted.acreate()


async def keep_taking_over(*, say: Callable[[str], None]) -> None:
    """Take over lost runs until cancelled; what goes wrong is said, once as long as it stays the same."""
    failed = ""
    while True:
        try:
            async with get_client() as client:
                for name in await take_over(client):
                    say(f"The run {name} was lost with its process, and is started again.")
            failed = ""
        except Exception as exc:  # noqa: BLE001 - the server is away: it is asked again
            if failed != repr(exc):
                failed = repr(exc)
                say(f"Lost runs could not be looked for ({failed}); that is tried again.")
        await asyncio.sleep(_LOOKING)


async def take_over(client: PrefectClient) -> list[str]:
    """Start lost runs again in a process that serves the file's deployments; return the names of the runs. A run whose
    process lives on this machine was only cut off, or suspended: it is left alone."""
    recently = {"after_": datetime.now(UTC) - TAKEN_OVER_FOR}
    lost = FlowRunFilter.model_validate({"state": _in_state(StateType.CRASHED), "end_time": recently})
    # A runner takes a run some seconds before it is due; when the runner ends then, nothing else would begin that run.
    taken = FlowRunFilter.model_validate({"state": _in_state(StateType.PENDING)})
    ours = DeploymentFilter.model_validate({"tags": {"all_": [TAG]}})
    silent = [await client.read_flow_runs(flow_run_filter=which, deployment_filter=ours) for which in (lost, taken)]
    found = [run for runs in silent for run in runs if _is_lost(run)]
    again = AwaitingRetry(message="The process of this run was lost; it continues in another one.")
    started: list[str] = []
    for run in found:
        if not await asyncio.to_thread(is_living, str(run.id)) and _is_lost(await client.read_flow_run(run.id)):
            answer = await client.set_flow_run_state(run.id, again)
            if answer.status.value == "ACCEPT":
                started.append(run.name)
    return started


def _in_state(state: StateType) -> dict[str, object]:
    return {"type": {"any_": [state]}}


def _is_lost(run: FlowRun) -> bool:
    if (state := run.state) is None or run.deployment_id is None or run.run_count >= MOST_STARTS:
        return False
    if state.is_pending():
        return SILENCE < datetime.now(UTC) - state.timestamp < TAKEN_OVER_FOR
    return state.is_crashed() and (state.message or "").startswith(_SILENT)


def _automation(silence: timedelta) -> Automation:
    message = f"{_SILENT} for {silence.total_seconds():.0f} seconds."
    return Automation(
        name=NAME,
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in _ENDS)},
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=silence,
        ),
        actions=[ChangeFlowRunState(name=None, state=StateType.CRASHED, message=message, force=False)],
    )


def _same(known: object, wanted: object) -> bool:
    return (
        isinstance(known, EventTrigger)
        and isinstance(wanted, EventTrigger)
        and (known.expect, known.after, known.within) == (wanted.expect, wanted.after, wanted.within)
    )
