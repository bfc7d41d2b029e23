"""Removing kept responses when their day is over."""

import asyncio

from service.idempotency import queries
from service.ingestion.queries import organization_ids
from service.logs import logger
from service.runtime import Runtime

EVERY_SECONDS = 3600


async def keep_forgetting(runtime: Runtime) -> None:
    """Forget at once and then every hour, until cancelled; a failure is logged, and the next hour tries again."""
    while True:
        try:
            await forget(runtime)
        except Exception:  # noqa: BLE001 - the database may be restarting
            logger.exception("forgetting_failed")
        await asyncio.sleep(EVERY_SECONDS)


async def forget(runtime: Runtime) -> None:
    """Remove what has been kept for 24 hours, in every organization."""
    async with runtime.database.transaction(None, read_only=True) as connection:
        organizations = await organization_ids(connection)
    for organization_id in organizations:
        async with runtime.database.transaction(organization_id) as connection:
            await queries.forget_old(connection, organization_id)
