"""Adding what was read of scanned pages to their document's contents, and having it indexed again."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.catalog import IndexingStatus
from service.domains.documents.recognition import queries
from service.domains.documents.recognition.queries import PageText
from service.domains.documents.recognition.unread import replace_unread, take_pictures
from service.index.ingestion.backlog.queries import read_text_status, request_again
from service.permissions.queries import lock_resource
from service.text.reading import MOST_PLACES, Block, pack_blocks, unpack_blocks


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of the texts of pages: whether none is left to merge, and whether the contents have changed.

    `has_failed`: what is left waits for the indexing of the document, which has failed.
    """

    is_done: bool
    has_failed: bool = False
    has_text: bool = False


async def merge_texts(connection: AsyncConnection, organization_id: UUID, *, document_id: UUID) -> Merged:
    """Add the pages that were read to the document's contents, and request its indexing again.

    Nothing is done while an earlier text of the document is being indexed: written later, it would count as the newer.
    """
    own = {"document_id": document_id}
    if await lock_resource(connection, organization_id, document_id) is None:
        return Merged(is_done=True)
    status = await read_text_status(connection, organization_id, **own)
    if status is not IndexingStatus.DONE:
        return Merged(is_done=False, has_failed=status is IndexingStatus.FAILED)
    contents = await queries.read_contents(connection, organization_id, **own)
    if contents is None:
        return Merged(is_done=True)
    texts = await queries.take_texts(connection, organization_id, **own)
    unread, places = await queries.list_unread(connection, organization_id, most=MOST_PLACES, **own)
    blocks = await asyncio.to_thread(_merge, contents.blocks, texts) if texts else None
    await queries.save_contents(
        connection,
        organization_id,
        document_id=document_id,
        version=contents.version,
        blocks=blocks,
        not_read=_tell_unread(contents.not_read, unread, places, pictures=sum(text.number < 0 for text in texts)),
    )
    if blocks is not None:
        await request_again(connection, organization_id, document_id=document_id, version=contents.version)
    return Merged(is_done=True, has_text=blocks is not None)


def _merge(packed: bytes, texts: Sequence[PageText]) -> bytes | None:
    """Return packed blocks with those of pages after the blocks that each page had before; None when they add none."""
    unpacked = [(text.after, unpack_blocks(text.blocks)) for text in texts]
    pages = [block for after, blocks in unpacked for block in blocks if after is None]
    placed = [(after, blocks) for after, blocks in unpacked if after is not None and blocks]
    if not pages and not placed:
        return None
    merged: list[Block] = [*unpack_blocks(packed), *pages]
    if pages:
        merged.sort(key=lambda block: block.page or 0)
    return pack_blocks(_insert(merged, placed))


def _insert(blocks: Sequence[Block], placed: Sequence[tuple[int, Sequence[Block]]]) -> Iterator[Block]:
    """Yield blocks with others, each after so many that no machine read and after those that it read there before."""
    waiting = sorted(placed, key=itemgetter(0))
    own = position = 0
    for block in blocks:
        if block.confidence is None:
            while position < len(waiting) and waiting[position][0] <= own:
                yield from waiting[position][1]
                position += 1
            own += 1
        yield block
    for _, rest in waiting[position:]:
        yield from rest


def _tell_unread(
    not_read: Sequence[Mapping[str, Any]] | None, pages: int, places: Sequence[int], *, pictures: int
) -> Sequence[Mapping[str, Any]] | None:
    """Return what is still not read of a file when so many pages are left and so many pictures were read just now."""
    return None if not_read is None else take_pictures(replace_unread(not_read, pages, places), pictures)
