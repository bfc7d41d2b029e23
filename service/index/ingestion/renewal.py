"""Renew indexes in the background while searches continue: terms from the stored texts, without reading or embedding
again; vectors move out of chunk rows. A transaction renews a slice; an interrupted document begins again."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.identity.queries import organization_ids
from service.index.ingestion import queries
from service.index.ingestion.queries import OldEntry
from service.index.queries import IndexedChunk, IndexEntry, list_chunks, lock_to_write
from service.index.service import count_deltas, title_of
from service.index.stemming import stemming_of
from service.index.terms import as_sparsevec, read_sparsevec, weigh_chunks
from service.platform.background import for_each_organization
from service.platform.database import Database
from service.platform.disk import DiskGuard
from service.platform.identifiers import NIL
from service.platform.logs import logger

RENEWED_EVERY = 3600.0  # seconds between two searches for documents written by an earlier version

LISTED_AT_ONCE = 64
SLICE = 64
# The share of its time that the renewing process works; the rest is left to people.
WORKING = 0.25


async def renew_all(database: Database, disk: DiskGuard) -> None:
    """Bring every organization's documents to the current rules; end if another process does so."""
    is_alone = True

    async def renew(organization_id: UUID) -> None:
        nonlocal is_alone
        after, count = (0, NIL), 0
        while is_alone and (entries := await _list_old(database, organization_id, after)):
            for entry in entries:
                await disk.wait_for_room()
                is_alone = await _renew_document(database, organization_id, entry)
                if not is_alone:
                    return
            after, count = (entries[-1].space_id, entries[-1].document_id), count + len(entries)
        if count:
            logger.info("word_forms_renewed", organization_id=str(organization_id), documents=count)

    await for_each_organization(await organization_ids(database), renew)


async def _list_old(database: Database, organization_id: UUID, after: tuple[int, UUID]) -> list[OldEntry]:
    async with database.transaction(organization_id, read_only=True) as connection:
        return await queries.list_old(connection, organization_id, after=after, limit=LISTED_AT_ONCE)


async def _renew_document(database: Database, organization_id: UUID, entry: OldEntry) -> bool:
    """Renew a document, with pauses; False when another process on any server is renewing."""
    async with database.transaction(None, read_only=True) as turn:
        if not await queries.try_lock_renewal(turn):
            return False
        first: int | None = 0
        while first is not None:
            began = time.monotonic()
            async with database.transaction(organization_id) as connection:
                first = await renew_slice(connection, organization_id, entry, first=first)
            await asyncio.sleep((time.monotonic() - began) * (1 / WORKING - 1))
    return True


async def renew_slice(connection: Connection, organization_id: UUID, entry: OldEntry, *, first: int) -> int | None:
    """Renew chunks from number `first` on; return the next number, None at the end or if changed since `entry`."""
    known = await lock_to_write(connection, organization_id, space_id=entry.space_id, document_ids=[entry.document_id])
    place = IndexEntry(organization_id, entry.space_id, entry.document_id, entry.dimensions)
    # Read with the lock held: terms of an earlier title would stay for good.
    if entry.document_id not in known or await queries.find_old(connection, place) != entry:
        return None
    chunks = await list_chunks(connection, place, first=first, limit=SLICE)
    stemming = stemming_of(known[entry.document_id].language, default=entry.language)
    title = title_of(entry.name, entry.title)
    terms, deltas = await asyncio.to_thread(_weigh_again, chunks, title=title, stemming=stemming)
    is_last = len(chunks) < SLICE
    await queries.renew_chunks(connection, place, terms=terms, deltas=deltas, is_last=is_last)
    return None if is_last else chunks[-1].chunk_no + 1


def _weigh_again(chunks: Sequence[IndexedChunk], *, title: str, stemming: str) -> tuple[dict[int, str], Counter[int]]:
    weighed = weigh_chunks([chunk.text for chunk in chunks], title=title, stemming=stemming)
    terms = {chunk.chunk_no: as_sparsevec(new) for chunk, new in zip(chunks, weighed, strict=True)}
    return terms, count_deltas(added=weighed, removed=[read_sparsevec(chunk.terms) for chunk in chunks])
