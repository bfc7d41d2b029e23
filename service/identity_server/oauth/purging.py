"""Purging codes, tokens, sessions and failed attempts that nothing depends on any more."""

from datetime import timedelta
from uuid import UUID

from service.identity.queries import organization_ids
from service.identity_server.oauth import queries
from service.identity_server.signin import queries as sign_in_queries
from service.platform.background import for_each_organization
from service.runtime import Runtime

EVERY_SECONDS = 3600
# So long what has expired is still known for what it is.
KEPT = timedelta(days=1)


async def purge(runtime: Runtime) -> None:
    """Delete what expired more than a day ago and no longer proves a theft, in every organization."""

    async def purge_one(organization_id: UUID) -> None:
        async with runtime.database.transaction(organization_id) as connection:
            now = await runtime.clock.now(connection)
            await queries.delete_expired(connection, organization_id, now=now, kept=KEPT)
            await sign_in_queries.delete_expired(connection, organization_id, now=now)

    await for_each_organization(await organization_ids(runtime.database), purge_one)
