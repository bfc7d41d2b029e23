"""What is done again and again beside the requests, for one organization after the other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from service.database import Database
from service.identity.queries import list_organizations
from service.logs import logger


async def keep_doing(work: Callable[[], Awaitable[object]], *, every: float, failure: str) -> None:
    """Do `work` at once and then every so many seconds, until cancelled.

    A failure is logged as the event `failure` and never the end: the database may be restarting, and the next time
    finds the same work. Only what fails while it is cancelled has been cancelled.
    """
    doing = asyncio.current_task()
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001 - see above
            logger.exception(failure)
            if doing is not None and doing.cancelling():
                raise asyncio.CancelledError from None
        await asyncio.sleep(every)


async def organization_ids(database: Database) -> Sequence[UUID]:
    """Every organization there is, each to be visited in a transaction of its own."""
    async with database.transaction(None, read_only=True) as connection:
        return [row.organization_id for row in await list_organizations(connection)]
