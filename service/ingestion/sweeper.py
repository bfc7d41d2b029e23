"""Finding what was left: work that a crash, another process's end or a failing embedder kept from being done."""

from functools import partial

from service.housekeeping import keep_doing, organization_ids
from service.indexing.service import fold_statistics
from service.ingestion.backlog import queries
from service.ingestion.feeding import feed
from service.runtime import Runtime


async def sweep(runtime: Runtime) -> int:
    """Take up what is wanted and nobody works on, in every organization; return how many documents were taken up.

    What there is no room for now is taken up later.
    """
    await runtime.disk.wait_for_room()
    return await feed(runtime.indexer, await organization_ids(runtime.database))


async def fold_all(runtime: Runtime) -> None:
    """Fold the deltas of every organization's term statistics."""
    for organization_id in await organization_ids(runtime.database):
        async with runtime.database.transaction(organization_id) as connection:
            await fold_statistics(connection, organization_id)


async def keep_folding(runtime: Runtime) -> None:
    """Fold statistics, at once and then every `sweep_seconds`, until cancelled."""
    await keep_doing(partial(fold_all, runtime), every=runtime.settings.sweep_seconds, failure="fold_failed")


async def keep_sweeping(runtime: Runtime) -> None:
    """Sweep, at once and then every `sweep_seconds`, until cancelled."""
    await keep_doing(partial(sweep, runtime), every=runtime.settings.sweep_seconds, failure="sweep_failed")


async def release_claims(runtime: Runtime) -> None:
    """Give up all claims on work, in every organization; only where no other process can be at it."""
    for organization_id in await organization_ids(runtime.database):
        async with runtime.database.transaction(organization_id) as connection:
            await queries.release_claims(connection, organization_id)
