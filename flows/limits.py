"""How many batches are on their way at a time, over all runs and machines that share a Prefect server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.asyncio import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from flows.settings import FlowSettings

BATCHES = "carrel-batches"
_LEASE_SECONDS = 60.0  # the shortest there is: a killed batch gives its slot back after so long


async def set_limits(settings: FlowSettings) -> None:
    """Bring the limit on the server to what the settings say."""
    async with get_client() as client:
        await client.upsert_global_concurrency_limit_by_name(BATCHES, settings.flows_batches_at_once)


async def ensure_limits(settings: FlowSettings) -> None:
    """Make the limit if it isn't there, and leave it as it is if it is: a single run doesn't know better."""
    async with get_client() as client:
        try:
            await client.read_global_concurrency_limit_by_name(BATCHES)
        except ObjectNotFound:
            with suppress(ObjectAlreadyExists):  # another run has been quicker
                new = GlobalConcurrencyLimitCreate(name=BATCHES, limit=settings.flows_batches_at_once)
                await client.create_global_concurrency_limit(new)


@asynccontextmanager
async def one_of_the_batches() -> AsyncGenerator[None]:
    """Wait until a batch may begin. Raises when the limit isn't there: without it nothing would be limited.

    A server that goes away meanwhile doesn't stop the batch.
    """
    async with concurrency(BATCHES, strict=True, lease_duration=_LEASE_SECONDS, raise_on_lease_renewal_failure=False):
        yield
