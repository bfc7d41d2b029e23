"""Adding what was read of scanned pages to their document's contents, and having it indexed again."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.catalog import IndexingStatus
from service.domains.recognition import queries
from service.domains.recognition.queries import PageText
from service.domains.recognition.unread import replace_unread
from service.index.ingestion.backlog.queries import read_text_status, request_again
from service.permissions.queries import lock_resource
from service.text.extraction import Block, pack_blocks, unpack_blocks
from service.text.extraction.building import MOST_PLACES


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
        not_read=replace_unread(contents.not_read or (), unread, places),
    )
    if blocks is not None:
        await request_again(connection, organization_id, document_id=document_id, version=contents.version)
    return Merged(is_done=True, has_text=blocks is not None)


def _merge(packed: bytes, texts: Sequence[PageText]) -> bytes | None:
    """Return packed blocks with those of pages after the blocks that each page had before; None when they add none."""
    added = [block for text in texts for block in unpack_blocks(text.blocks)]
    if not added:
        return None
    blocks: list[Block] = sorted([*unpack_blocks(packed), *added], key=lambda block: block.page or 0)
    return pack_blocks(blocks)
