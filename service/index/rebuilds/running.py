"""Finish rebuilds, in every replica: copy requests, index, compare and swap, empty the old space; all resumable."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.audit.service import Change, record_unattended
from service.identity.queries import organization_ids
from service.index.ingestion.backlog.queries import claim_pending
from service.index.ingestion.indexer import Indexer
from service.index.ingestion.indexing import pack_chunks
from service.index.queries import IndexEntry, list_chunks
from service.index.rebuilds import queries
from service.index.rebuilds.queries import RetiredSpace, RunningRebuild
from service.index.spaces.queries import SearchedSpace, lock_space, lock_spaces, stands_for
from service.index.statistics.queries import try_lock_statistics
from service.permissions.queries import lock_objects
from service.platform.background import for_each_organization
from service.platform.disk import DiskGuard
from service.platform.identifiers import NIL, uuid7
from service.platform.logs import logger

COPIED_AT_ONCE = 200
EMPTIED_AT_ONCE = 200
INDEXED_AT_ONCE = 8
# A step waits this long for other transactions; then the next round tries again.
OLDER_SECONDS = 1.0
PAUSE_SECONDS = 0.02


async def rebuild_all(indexer: Indexer, disk: DiskGuard) -> None:
    """Take steps of every organization's rebuilds until none is left; errors are raised at the end."""
    going_on = True

    async def take_turns() -> AsyncGenerator[UUID]:
        nonlocal going_on
        while going_on:
            going_on = False
            for each in await organization_ids(indexer.database):
                yield each

    async def take_steps(organization_id: UUID) -> None:
        nonlocal going_on
        await disk.wait_for_room()
        going_on |= await rebuild_organization(indexer, organization_id)

    await for_each_organization(take_turns(), take_steps)


async def rebuild_organization(indexer: Indexer, organization_id: UUID) -> bool:
    """Take a step of each rebuild of an organization, and of emptying retired spaces; False without any step."""
    async with indexer.database.transaction(organization_id, read_only=True) as connection:
        rebuilds = await queries.list_running(connection, organization_id)
        retired = await queries.list_retired(connection, organization_id)
    progressed = [await _advance(indexer, organization_id, rebuild) for rebuild in rebuilds]
    progressed += [await _empty(indexer, organization_id, space) for space in retired]
    return any(progressed)


async def _advance(indexer: Indexer, organization_id: UUID, rebuild: RunningRebuild) -> bool:
    """Index or copy some documents, else try to swap; False if nothing was done."""
    await know_from_now(indexer, organization_id, rebuild)
    # Indexing first, so that few documents wait in the new space, however many the old one has.
    return (
        await _index_batch(indexer, organization_id, rebuild)
        or await copy_batch(indexer, organization_id, rebuild)
        or await try_swap(indexer, organization_id, rebuild)
    )


async def copy_batch(indexer: Indexer, organization_id: UUID, rebuild: RunningRebuild) -> bool:
    """Copy the next entries, by id, that the new space lacks; False at the end. The next call begins at the first."""
    spaces = {"old_id": rebuild.replaces_space_id, "new_id": rebuild.space_id}
    after = indexer.rebuilds_copied_to.pop(rebuild.rebuild_id, NIL)
    async with indexer.database.transaction(organization_id) as connection:
        missing = await queries.list_missing_entries(
            connection, organization_id, **spaces, after=after, limit=COPIED_AT_ONCE
        )
        if not missing:
            return False
        await lock_objects(connection, organization_id, object_ids=missing)
        await lock_spaces(connection, organization_id, stands_for(rebuild.replaces_space_id))
        by_callers = await queries.copy_entries(connection, organization_id, **spaces, document_ids=missing)
        await _copy_chunks(connection, organization_id, rebuild, by_callers)
    indexer.rebuilds_copied_to[rebuild.rebuild_id] = missing[-1]
    return True


async def _copy_chunks(
    connection: Connection, organization_id: UUID, rebuild: RunningRebuild, document_ids: Sequence[UUID]
) -> None:
    """Copy callers' waiting chunks to the new space; for documents without any, the old space's texts wait there."""
    if not document_ids:
        return
    old_id, new_id = rebuild.replaces_space_id, rebuild.space_id
    waiting = await queries.copy_waiting_chunks(
        connection, organization_id, old_id=old_id, new_id=new_id, document_ids=document_ids
    )
    for document_id in document_ids:
        if document_id not in waiting:
            entry = IndexEntry(organization_id, old_id, document_id, rebuild.replaced_dimensions)
            texts = [row.text for row in await list_chunks(connection, entry)]
            await queries.keep_chunks(
                connection,
                organization_id,
                document_id=document_id,
                space_id=new_id,
                batch_id=uuid7(),
                chunks=await asyncio.to_thread(pack_chunks, texts),
            )


async def _index_batch(indexer: Indexer, organization_id: UUID, rebuild: RunningRebuild) -> bool:
    async with indexer.rebuilding:
        async with indexer.database.transaction(organization_id) as connection:
            claimed = await claim_pending(connection, organization_id, limit=INDEXED_AT_ONCE, space_id=rebuild.space_id)
        await indexer.index_now(organization_id, claimed)
    return bool(claimed)


async def try_swap(indexer: Indexer, organization_id: UUID, rebuild: RunningRebuild) -> bool:
    """Replace the old space by the new space if complete; return whether it was replaced. Entries are compared before
    the lock, when every transaction knows the new space, so the locked time covers only pending work."""
    key: dict[str, Any] = {"old_id": rebuild.replaces_space_id, "new_id": rebuild.space_id, "forced": rebuild.forced}
    if not await _wait_for_older_transactions(indexer, organization_id, rebuild):
        return False
    async with indexer.database.transaction(organization_id, read_only=True) as connection:
        if (await queries.count_unready(connection, organization_id, **key)).blocking:
            return False
    async with indexer.database.transaction(organization_id) as connection:
        old = await _lock(connection, organization_id, rebuild)
        if old is None:
            return False
        unready = await queries.count_unready(connection, organization_id, **key, only_pending=True)
        if unready.blocking:
            return False
        new_id = rebuild.space_id
        await queries.swap(connection, organization_id, old=old, new_id=new_id, collection_id=rebuild.collection_id)
        await queries.finish_rebuild(
            connection, organization_id, rebuild_id=rebuild.rebuild_id, status="COMPLETED", left_count=unready.documents
        )
        details = {"model": rebuild.model, "left": unready.documents} | (
            {} if rebuild.collection_id is None else {"collectionId": str(rebuild.collection_id)}
        )
        change = Change(
            "index.rebuild_complete", target_type="indexRebuild", target_id=rebuild.rebuild_id, details=details
        )
        await record_unattended(connection, organization_id, change=change)
    indexer.rebuilds_known_from.pop(rebuild.rebuild_id, None)
    logger.info("index_rebuilt", collection_id=str(rebuild.collection_id), model=rebuild.model)
    return True


async def know_from_now(indexer: Indexer, organization_id: UUID, rebuild: RunningRebuild) -> int:
    """Return the number of a transaction when the process first saw the rebuild; later transactions know it."""
    if rebuild.rebuild_id not in indexer.rebuilds_known_from:
        async with indexer.database.transaction(organization_id) as connection:
            number = await queries.number_transaction(connection)
        indexer.rebuilds_known_from.setdefault(rebuild.rebuild_id, number)
    return indexer.rebuilds_known_from[rebuild.rebuild_id]


async def _wait_for_older_transactions(indexer: Indexer, organization_id: UUID, rebuild: RunningRebuild) -> bool:
    """Wait a moment for transactions without knowledge of the new space; False if some are still running."""
    before = await know_from_now(indexer, organization_id, rebuild)
    deadline = time.monotonic() + OLDER_SECONDS
    while True:
        async with indexer.database.transaction(organization_id, read_only=True) as connection:
            if await queries.have_ended(connection, before=before):
                return True
        if time.monotonic() >= deadline:
            logger.warning("index_rebuild_waits_for_transactions", collection_id=str(rebuild.collection_id))
            return False
        await asyncio.sleep(PAUSE_SECONDS)


async def _lock(connection: Connection, organization_id: UUID, rebuild: RunningRebuild) -> SearchedSpace | None:
    """Lock a rebuild's collection or catalog, and return the old space; None when the rebuild has ended."""
    if rebuild.collection_id is not None:
        await queries.lock_collection(connection, organization_id, collection_id=rebuild.collection_id)
    old = await lock_space(connection, organization_id, space_id=rebuild.replaces_space_id)
    now = await queries.find_newest_rebuild(connection, organization_id, collection_id=rebuild.collection_id)
    runs = now is not None and (now.rebuild_id, now.status) == (rebuild.rebuild_id, "RUNNING")
    return old if runs else None


async def _empty(indexer: Indexer, organization_id: UUID, space: RetiredSpace) -> bool:
    """Remove a part of a retired space, at last the row; False if already empty."""
    space_id = space.space_id
    async with indexer.database.transaction(organization_id) as connection:
        some = await queries.list_some_documents(connection, organization_id, space_id=space_id, limit=EMPTIED_AT_ONCE)
        if some:
            await lock_objects(connection, organization_id, object_ids=some)
            await queries.clear_entries(connection, organization_id, space=space, document_ids=some)
            return True
        # Folding deltas also writes this space's statistics.
        if not await try_lock_statistics(connection, organization_id):
            return False
        had_terms = await queries.delete_statistics(connection, organization_id, space_id=space_id)
        if space.done:
            await queries.delete_row(connection, organization_id, space_id=space_id)
    return had_terms or space.done
