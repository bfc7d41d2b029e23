"""The file's entries on the Prefect server: added, changed and removed as the file says."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.client.schemas.sorting import DeploymentSort
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.types.entrypoint import EntrypointType

from flows.deployments import Entry
from flows.schedule_labels import SLUG

TAG = "carrel-deployments-file"
"""Marks what a file of deployments has registered, and so what goes when its entry does."""

_PAGE = 200

_one_at_a_time = asyncio.Lock()


async def register(entries: Sequence[Entry], *, runner: Runner) -> list[str]:
    """Make the server's deployments equal to the entries, run by the runner; return the names of removed ones.

    Schedules that people have paused or resumed stay so, and those that people have made stay. Machines that share a
    Prefect server serve equal files: each removes deployments that its own file doesn't have.
    """
    async with _one_at_a_time, get_client() as client:
        kept = {await _register(entry, client, runner=runner) for entry in entries}
        gone = [old for old in await _read_registered(client) if old.id not in kept]
        for old in gone:
            await client.delete_deployment(old.id)
    return [old.name for old in gone]


async def _register(entry: Entry, client: PrefectClient, *, runner: Runner) -> UUID:
    try:
        old = await client.read_deployment_by_name(f"{entry.flow.name}/{entry.name}")
    except ObjectNotFound:
        old = None
    deployment = await entry.flow.ato_deployment(
        entry.name,
        parameters=entry.parameters,
        schedules=_schedules(entry, old),
        paused=entry.paused if old is None else old.paused,
        description=entry.description,
        tags=[TAG, *entry.tags],
        concurrency_limit=entry.concurrency_limit,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    deployment_id = await runner.aadd_deployment(deployment)
    wanted = {times.slug for times in entry.schedules}
    for schedule in (await client.read_deployment(deployment_id)).schedules:
        if schedule.slug not in wanted and not (schedule.slug or "").startswith(SLUG):
            await client.delete_deployment_schedule(deployment_id, schedule.id)
    return deployment_id


def _schedules(entry: Entry, old: DeploymentResponse | None) -> list[DeploymentScheduleCreate]:
    """Return the schedule of an entry; its slug makes a changed schedule replace the old one, and stay paused."""
    active = {one.slug: one.active for one in (old.schedules if old else ())}
    return [
        DeploymentScheduleCreate(
            schedule=CronSchedule(cron=times.cron, timezone=times.timezone),
            slug=times.slug,
            active=active.get(times.slug, times.active),
        )
        for times in entry.schedules
    ]


async def _read_registered(client: PrefectClient) -> list[DeploymentResponse]:
    found: list[DeploymentResponse] = []
    tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    while page := await client.read_deployments(
        deployment_filter=tagged, sort=DeploymentSort.NAME_ASC, limit=_PAGE, offset=len(found)
    ):
        found += page
    return found
