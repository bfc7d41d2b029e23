"""Taking up what was left: work that a crash, a full queue or a failing embedder kept from being done."""

import asyncio
from functools import partial
from uuid import UUID

from service.housekeeping import keep_doing, organization_ids
from service.indexing.service import fold_statistics
from service.ingestion import queries
from service.ingestion.indexing import index_everywhere
from service.ingestion.queries import PendingWork
from service.runtime import Runtime

# So many documents at once: enough to fill the embedder's batches, few enough to leave room for new uploads.
AT_ONCE = 8


async def sweep(runtime: Runtime) -> int:
    """Index whatever is wanted and nobody works on, in every organization; returns how many documents were taken up.

    Folds the term statistics' deltas as well.
    """
    taken = 0
    for organization_id in await organization_ids(runtime.database):
        taken += await _sweep_organization(runtime, organization_id)
        async with runtime.database.transaction(organization_id) as connection:
            await fold_statistics(connection, organization_id)
    return taken


async def keep_sweeping(runtime: Runtime) -> None:
    """Sweep at once and then every `sweep_seconds`, until cancelled."""
    await keep_doing(partial(sweep, runtime), every=runtime.settings.sweep_seconds, failure="sweep_failed")


async def release_claims(runtime: Runtime) -> None:
    """Give up all claims on work, in every organization; only where no other process can be at it."""
    for organization_id in await organization_ids(runtime.database):
        async with runtime.database.transaction(organization_id) as connection:
            await queries.release_claims(connection, organization_id)


async def _sweep_organization(runtime: Runtime, organization_id: UUID) -> int:
    taken = 0
    while batch := await _claim(runtime, organization_id):
        await asyncio.gather(
            *(
                index_everywhere(runtime, organization_id, document_id=work.document_id, space_ids=work.space_ids)
                for work in batch
            )
        )
        taken += len(batch)
    return taken


async def _claim(runtime: Runtime, organization_id: UUID) -> list[PendingWork]:
    async with runtime.database.transaction(organization_id) as connection:
        return await queries.claim_pending(connection, organization_id, limit=AT_ONCE)
