"""The deployments of the file on the Prefect server: added, changed and removed as the file says."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import DeploymentSort
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.types.entrypoint import EntrypointType

from flows.deployments import AnyFlow, Entry

TAG = "carrel-deployments-file"
"""Marks what a file of deployments has registered, and so what goes when its entry does."""

_SLUG = "file"
_PAGE = 200

_one_at_a_time = asyncio.Lock()


async def register(entries: Sequence[Entry], *, runner: Runner, flows: Mapping[str, AnyFlow]) -> list[str]:
    """Make the server's deployments equal to the entries, run by the runner; return the names of removed ones.

    Schedules that people have paused or resumed stay so. Machines that share a Prefect server serve equal files: each
    removes deployments that its own file doesn't have.
    """
    async with _one_at_a_time, get_client() as client:
        kept = {await _register(entry, client, runner=runner, flow=flows[entry.flow]) for entry in entries}
        gone = [old for old in await _read_registered(client) if old.id not in kept]
        for old in gone:
            await client.delete_deployment(old.id)
    return [old.name for old in gone]


async def _register(entry: Entry, client: PrefectClient, *, runner: Runner, flow: AnyFlow) -> UUID:
    try:
        old = await client.read_deployment_by_name(f"{flow.name}/{entry.name}")
    except ObjectNotFound:
        old = None
    deployment = await flow.ato_deployment(
        entry.name,
        parameters=entry.parameters(flow),
        schedules=_schedules(entry, old),
        paused=entry.paused if old is None else old.paused,
        tags=[TAG],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    deployment_id = await runner.aadd_deployment(deployment)
    if old is not None and entry.cron is None:
        for schedule in old.schedules:
            await client.delete_deployment_schedule(deployment_id, schedule.id)
    return deployment_id


def _schedules(entry: Entry, old: DeploymentResponse | None) -> list[DeploymentScheduleCreate]:
    """Return the schedule of an entry; its slug makes a changed schedule replace the old one, and stay paused."""
    if entry.schedule is None:
        return []
    active = next((one.active for one in (old.schedules if old else ()) if one.slug == _SLUG), True)
    return [DeploymentScheduleCreate(schedule=entry.schedule, slug=_SLUG, active=active)]


async def _read_registered(client: PrefectClient) -> list[DeploymentResponse]:
    found: list[DeploymentResponse] = []
    tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    while page := await client.read_deployments(
        deployment_filter=tagged, sort=DeploymentSort.NAME_ASC, limit=_PAGE, offset=len(found)
    ):
        found += page
    return found
