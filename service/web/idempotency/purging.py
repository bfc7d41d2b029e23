"""Purging stored responses after their 24 hours."""

from service.identity.queries import organization_ids
from service.runtime import Runtime
from service.web.idempotency import queries

EVERY_SECONDS = 3600


async def purge(runtime: Runtime) -> None:
    """Delete responses stored for more than 24 hours, in every organization."""
    for organization_id in await organization_ids(runtime.database):
        async with runtime.database.transaction(organization_id) as connection:
            await queries.delete_old(connection, organization_id)
