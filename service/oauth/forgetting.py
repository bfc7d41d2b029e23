"""Removing codes, tokens, sessions and failed attempts when they have long expired."""

import asyncio
from datetime import timedelta

from service.ingestion.queries import organization_ids
from service.logs import logger
from service.oauth import queries
from service.runtime import Runtime
from service.signin import queries as sign_in_queries

EVERY_SECONDS = 3600
# So long what has expired is still known for what it is, and using it a second time noticed.
KEPT = timedelta(days=1)


async def keep_forgetting(runtime: Runtime) -> None:
    """Forget at once and then every hour, until cancelled; a failure is logged, and the next hour tries again."""
    while True:
        try:
            await forget(runtime)
        except Exception:  # noqa: BLE001 - the database may be restarting
            logger.exception("forgetting_failed")
        await asyncio.sleep(EVERY_SECONDS)


async def forget(runtime: Runtime) -> None:
    """Remove what expired more than a day ago, in every organization."""
    async with runtime.database.transaction(None, read_only=True) as connection:
        organizations = await organization_ids(connection)
    for organization_id in organizations:
        async with runtime.database.transaction(organization_id) as connection:
            now = await runtime.clock.now(connection)
            await queries.forget_expired(connection, organization_id, now=now, kept=KEPT)
            await sign_in_queries.forget_expired(connection, organization_id, now=now)
