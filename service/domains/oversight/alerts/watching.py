"""Looking for reports that didn't come, and removing what is old, as long as the service runs."""

import time
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.alerting import queries
from service.alerting.sending import queries as sending_queries
from service.domains.oversight.alerts.reports import AGAIN_SECONDS
from service.identity.queries import organization_ids
from service.platform.background import for_each_organization
from service.runtime import Runtime

EVERY_SECONDS = 30
PURGE_SECONDS = 3600
# After a while in which nobody could report, since the service or its database was away, everybody gets so long.
_PATIENCE_SECONDS = 2.5 * AGAIN_SECONDS
_GAP_SECONDS = 3 * EVERY_SECONDS

Check = Callable[[Runtime, AsyncConnection, UUID], Awaitable[None]]
"""Begins an organization's alerts for what should have been reported by now, or sends what should have been sent."""


class Watch:
    """Makes checks in every organization, once the service has been there long enough for reports to come."""

    def __init__(self, runtime: Runtime, *, checks: Sequence[Check]) -> None:
        self._runtime = runtime
        self._checks = checks
        self._looked_at = self._since = time.monotonic()

    async def look(self) -> None:
        """Make the checks once."""
        runtime = self._runtime

        async def look_in(organization_id: UUID) -> None:
            for check in self._checks:
                async with runtime.database.transaction(organization_id) as connection:
                    await check(runtime, connection, organization_id)

        ids = await organization_ids(runtime.database)
        now = time.monotonic()
        if now - self._looked_at > _GAP_SECONDS:
            self._since = now
        self._looked_at = now
        if now - self._since >= _PATIENCE_SECONDS:
            await for_each_organization(ids, look_in)


async def purge(runtime: Runtime) -> None:
    """Delete alerts that ended more than 30 days ago, and deliveries as old, in every organization."""

    async def purge_one(organization_id: UUID) -> None:
        async with runtime.database.transaction(organization_id) as connection:
            await sending_queries.delete_old_deliveries(connection, organization_id)
            await queries.delete_old(connection, organization_id)

    await for_each_organization(await organization_ids(runtime.database), purge_one)
