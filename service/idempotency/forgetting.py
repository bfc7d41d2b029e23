"""Removing kept responses when their day is over."""

from functools import partial

from service.housekeeping import keep_doing, organization_ids
from service.idempotency import queries
from service.runtime import Runtime

EVERY_SECONDS = 3600


async def keep_forgetting(runtime: Runtime) -> None:
    """Forget at once and then every hour, until cancelled."""
    await keep_doing(partial(forget, runtime), every=EVERY_SECONDS, failure="forgetting_failed")


async def forget(runtime: Runtime) -> None:
    """Remove what has been kept for 24 hours, in every organization."""
    for organization_id in await organization_ids(runtime.database):
        async with runtime.database.transaction(organization_id) as connection:
            await queries.forget_old(connection, organization_id)
