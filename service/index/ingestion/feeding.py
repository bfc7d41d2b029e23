"""Feeding the indexer: claiming waiting documents when room is free, also after a crash or a failure."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from service.index.ingestion.backlog.queries import (
    LEASE,
    PendingWork,
    claim_pending,
    has_waiting,
    list_pending,
    measure_backlog,
    renew_claims,
)
from service.index.ingestion.indexer import MOST_OF_LANE, Indexer
from service.index.ingestion.queries import IndexingWork, find_work
from service.index.ingestion.turns import Lane
from service.index.progress import Half
from service.platform.background import Background, for_each_organization, log_trouble
from service.platform.disk import DiskGuard

WATCH_SECONDS = 1.0
# Vectors are made first for documents that searches found, then for the newest. Every fourth claim takes the oldest
# documents, so that each gets its turn.
CLAIM_OF_OLDEST = 4
# The pause after a failed claim, even if documents arrive.
REST_SECONDS = 2.0
ANSWERED_SECONDS = 2.0
# A claim outlives a failed renewal (`INDEXING_WAIT_SECONDS`) and the wait of the next.
RENEWED_SECONDS = LEASE.total_seconds() / 10
# The longest measurement of the backlog may take a tenth of the time.
MEASURED_SECONDS, MEASURED_SHARE = 2.0, 10


async def feed(indexer: Indexer, organization_ids: Iterable[UUID] | None = None) -> int:
    """Claim waiting documents as room allows, and return the number. Looks for documents of `organization_ids`; None:
    takes organizations with a known backlog, the least busy first. A failed claim is retried, and the error raised."""
    taken, is_looked_for = 0, organization_ids is not None
    if organization_ids is None:
        organization_ids = sorted(indexer.backlogged, key=lambda each: len(indexer.jobs_of(each)))

    async def feed_if_waiting(organization_id: UUID) -> None:
        nonlocal taken
        # Only one claim at a time: two would each fill all the room.
        async with indexer.feeding:
            if is_looked_for:
                async with indexer.database.transaction(organization_id, read_only=True) as connection:
                    if await has_waiting(connection, organization_id, half=indexer.half):
                        indexer.note_backlog(organization_id, *MOST_OF_LANE)
            if organization_id not in indexer.resting:
                taken += await _feed_organization(indexer, organization_id)

    await for_each_organization(organization_ids, feed_if_waiting)
    return taken


def _rest(indexer: Indexer, organization_id: UUID) -> None:
    def wake() -> None:
        indexer.resting.discard(organization_id)
        indexer.changed.set()

    indexer.resting.add(organization_id)
    asyncio.get_running_loop().call_later(REST_SECONDS, wake)


async def _feed_organization(indexer: Indexer, organization_id: UUID) -> int:
    taken = 0
    lanes = indexer.backlogged.get(organization_id, set[Lane]())
    for lane in [each for each in MOST_OF_LANE if each in lanes]:
        room = indexer.room(organization_id, lane)
        if room and indexer.is_worth_a_claim(organization_id, lane, room):
            # Before the claim, so that a request during the claim adds the lane again.
            lanes.discard(lane)
            taken += await _feed_lane(indexer, organization_id, lane, room)
    if not lanes and indexer.backlogged.get(organization_id) is lanes:
        del indexer.backlogged[organization_id]
    return taken


async def _feed_lane(indexer: Indexer, organization_id: UUID, lane: Lane, room: int) -> int:
    is_empty = False
    indexer.claims[organization_id, lane] += 1
    newest_first = indexer.half is Half.MEANING and indexer.claims[organization_id, lane] % CLAIM_OF_OLDEST != 0
    try:
        async with indexer.database.transaction(organization_id) as connection:
            how: dict[str, Any] = {"lane": lane, "half": indexer.half, "newest_first": newest_first}
            claimed = list[PendingWork]()
            if newest_first and (found := indexer.found.pop((organization_id, lane), None)):
                claimed = await claim_pending(connection, organization_id, limit=room, **how, document_ids=found)
            left = room - sum(len(each.space_ids) for each in claimed)
            if left:
                claimed += await claim_pending(connection, organization_id, limit=left, **how)
        known = await _read_together(indexer, organization_id, claimed if lane is Lane.SMALL else ())
        for each in claimed:
            indexer.take_up(organization_id, each, known=known.get(each.document_id))
        is_empty = sum(len(each.space_ids) for each in claimed) < room
        return len(claimed)
    except Exception:
        _rest(indexer, organization_id)
        raise
    finally:
        if not is_empty:
            indexer.backlogged.setdefault(organization_id, set()).add(lane)


async def _read_together(
    indexer: Indexer, organization_id: UUID, claimed: Sequence[PendingWork]
) -> dict[UUID, dict[int, IndexingWork]]:
    """Read the work of claimed documents at once; nothing after a failure: then each is read, and fails, alone."""
    known: dict[UUID, dict[int, IndexingWork]] = {}
    if not claimed:
        return known
    places = {space_id for each in claimed for space_id in each.space_ids}
    ids = [each.document_id for each in claimed]
    try:
        # After the claim's transaction, so that no upload waits for its locks while texts are read.
        async with indexer.database.transaction(organization_id) as connection:
            for work in await find_work(connection, organization_id, document_ids=ids, space_ids=[*places]):
                known.setdefault(work.document_id, {})[work.space_id] = work
    except Exception as error:  # noqa: BLE001 - each document is read alone then, and its failure noted
        log_trouble("indexing_not_read_together", error, documents=len(ids))
    return known


def keep_indexing(indexer: Indexer, disk: DiskGuard, background: Background) -> None:
    """Start the background tasks: feeding and measuring the indexer's parts, and answering waiting requests."""
    for part in indexer.parts:
        background.repeat(f"{part.half}-feed", partial(_feed_when_changed, part, disk), every=0)
        background.repeat(f"{part.half}-pace", _make_sampler(part), every=WATCH_SECONDS)
        background.repeat(f"{part.half}-backlog", partial(_measure_seldom, part), every=MEASURED_SECONDS)
        background.repeat(f"{part.half}-answers", partial(answer_waiting, part), every=ANSWERED_SECONDS)
        background.repeat(f"{part.half}-claims", partial(renew, part), every=RENEWED_SECONDS)


async def _feed_when_changed(indexer: Indexer, disk: DiskGuard) -> None:
    await indexer.changed.wait()
    indexer.changed.clear()
    await disk.wait_for_room()
    await feed(indexer)


def _make_sampler(indexer: Indexer) -> Callable[[], Awaitable[None]]:
    began = time.monotonic()

    async def sample() -> None:
        nonlocal began
        now = time.monotonic()
        indexer.deps.pace.sample(max(now - began, WATCH_SECONDS / 2), is_saturated=indexer.is_saturated)
        began = now

    return sample


async def _measure_seldom(indexer: Indexer) -> None:
    began = time.monotonic()
    await measure(indexer)
    await asyncio.sleep(MEASURED_SHARE * (time.monotonic() - began))


async def measure(indexer: Indexer) -> None:
    """Measure the backlog of each organization with a backlog; if measuring fails, the old value stays."""
    waiting = list(indexer.backlogged)
    found = indexer.pressure.last_measured(waiting)

    async def measure_organization(organization_id: UUID) -> None:
        async with indexer.database.transaction(organization_id, read_only=True) as connection:
            found[organization_id] = await measure_backlog(connection, organization_id, half=indexer.half)

    try:
        await for_each_organization(waiting, measure_organization)
    finally:
        indexer.pressure.measure(found)


async def answer_waiting(indexer: Indexer) -> None:
    """Answer requests for documents that another process has indexed, or deleted."""
    waiting = indexer.list_waiters()

    async def answer(organization_id: UUID) -> None:
        waiters = waiting[organization_id]
        document_ids = list({waiter.key[1] for waiter in waiters})
        async with indexer.database.transaction(organization_id, read_only=True) as connection:
            entries = await list_pending(connection, organization_id, document_ids=document_ids)
        # Answer only the listed waiters: newer requests are for other documents.
        indexer.answer(waiters, entries)

    await for_each_organization(waiting, answer)


async def renew(indexer: Indexer) -> None:
    """Renew the claims on all documents in work, and record their progress."""
    progress = indexer.progress()

    async def renew_organization(organization_id: UUID) -> None:
        async with indexer.database.transaction(organization_id) as connection:
            await renew_claims(connection, organization_id, progress=progress[organization_id], half=indexer.half)

    await for_each_organization(progress, renew_organization)
