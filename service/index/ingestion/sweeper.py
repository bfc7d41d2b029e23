"""Sweeping: finding documents left unindexed by a crash, another process's end or a failing embedder."""

from uuid import UUID

from service.identity.queries import organization_ids
from service.index.ingestion.backlog import queries
from service.index.ingestion.feeding import feed
from service.index.ingestion.indexer import Indexer
from service.index.service import fold_statistics
from service.platform.background import for_each_organization
from service.platform.database import Database
from service.platform.disk import DiskGuard


async def sweep(indexer: Indexer, disk: DiskGuard) -> int:
    """Claim abandoned documents as room allows, and return the number; a part's error is raised at the end."""
    await disk.wait_for_room()
    organizations = await organization_ids(indexer.database)
    taken, failures = 0, list[ExceptionGroup[Exception]]()
    for part in indexer.parts:
        try:
            taken += await feed(part, organizations)
        except ExceptionGroup as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup("sweeping has failed in part", failures)
    return taken


async def fold_all(database: Database) -> None:
    async def fold(organization_id: UUID) -> None:
        folded = True
        while folded:
            async with database.transaction(organization_id) as connection:
                folded = bool(await fold_statistics(connection, organization_id))

    await for_each_organization(await organization_ids(database), fold)


async def release_claims(database: Database) -> None:
    """Release all claims on documents, in every organization. Call only when no other process can be indexing."""

    async def release(organization_id: UUID) -> None:
        async with database.transaction(organization_id) as connection:
            await queries.release_claims(connection, organization_id)

    await for_each_organization(await organization_ids(database), release)
