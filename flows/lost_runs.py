"""Marking runs as crashed when their process or machine has died, so that they send no heartbeat."""

from datetime import timedelta

from prefect.automations import Automation
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

NAME = "carrel: end runs that have gone silent"
SILENCE = timedelta(seconds=120)  # four heartbeats
# An event is named after its state; those that flows of ours end with are named in flows.running.
_ENDS = ("Completed", "CompletedWithQuarantine", "CompletedWithProblems", "Failed", "Cancelled", "Crashed")


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


def _automation(silence: timedelta) -> Automation:
    message = f"The run has sent no heartbeat for {silence.total_seconds():.0f} seconds."
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
