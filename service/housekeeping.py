"""What is done again and again beside the requests, for one organization after the other."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from service.database import Database
from service.identity.queries import list_organizations
from service.logs import logger

LOG_EVERY_SECONDS = 60.0


async def keep_doing(work: Callable[[], Awaitable[object]], *, every: float, failure: str) -> None:
    """Do `work` at once and then every so many seconds, until cancelled.

    A failure is logged as the event `failure` and never the end: the database may be restarting, and the next time
    finds the same work. A failure like the one before is logged once a minute. Only what fails while it is cancelled
    has been cancelled.
    """
    doing = asyncio.current_task()
    failures = _Failures(failure)
    while True:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - see above
            failures.log(error)
            if doing is not None and doing.cancelling():
                raise asyncio.CancelledError from None
        else:
            failures.forget()
        await asyncio.sleep(every)


class _Failures:
    """Logs failures in a row: the first of a kind at once, those that follow once a minute, with their number."""

    def __init__(self, event: str) -> None:
        self._event = event
        self.forget()

    def log(self, error: Exception) -> None:
        self._count += 1
        now = time.monotonic()
        if type(error) is self._kind and now - self._logged_at < LOG_EVERY_SECONDS:
            return
        self._kind, self._logged_at = type(error), now
        logger.error(self._event, failures_in_a_row=self._count, exc_info=error)

    def forget(self) -> None:
        self._count = 0
        self._kind: type[Exception] | None = None
        self._logged_at = 0.0


async def organization_ids(database: Database) -> Sequence[UUID]:
    """Every organization there is, each to be visited in a transaction of its own."""
    async with database.transaction(None, read_only=True) as connection:
        return [row.organization_id for row in await list_organizations(connection)]
