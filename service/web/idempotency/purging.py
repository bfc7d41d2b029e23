"""Purging stored responses after their 24 hours."""

from uuid import UUID

from service.identity.queries import organization_ids
from service.platform.background import for_each_organization
from service.runtime import Runtime
from service.web.idempotency import queries

EVERY_SECONDS = 3600


async def purge(runtime: Runtime) -> None:
    """Delete responses stored for more than 24 hours, in every organization."""

    async def purge_one(organization_id: UUID) -> None:
        async with runtime.database.transaction(organization_id) as connection:
            await queries.delete_old(connection, organization_id)

    await for_each_organization(await organization_ids(runtime.database), purge_one)
