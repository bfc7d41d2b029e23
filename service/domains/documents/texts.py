"""The text of a document for those who read it in pieces: agents of elsewhere, and their models."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.auth.callers import Caller
from service.domains.documents.queries import StoredText, find_text
from service.domains.documents.rights import unknown_document
from service.text.extraction import Block, unpack_blocks

# Larger ones are unpacked in a thread, so that others' requests go on meanwhile.
INLINE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document with its whole text; headings are marked as in Markdown."""

    document_id: UUID
    name: str
    external_url: str | None
    custom_metadata: Mapping[str, str]
    updated_at: datetime
    version: int
    media_type: str
    text: str


async def read_text(connection: AsyncConnection, caller: Caller, *, document_id: UUID) -> StoredText:
    """Return a document that the caller may READ, with its packed text; 404 for others, admins too."""
    stored = await find_text(connection, caller, document_id=document_id)
    if stored is None:
        raise unknown_document()
    return stored


async def unpack_text(stored: StoredText) -> DocumentText:
    """Unpack the text of a document; no transaction has to wait for it."""
    packed = stored.blocks or b""
    text = _join(packed) if len(packed) <= INLINE_BYTES else await asyncio.to_thread(_join, packed)
    return DocumentText(
        document_id=stored.document_id,
        name=stored.name,
        external_url=stored.external_url,
        custom_metadata=stored.custom_metadata,
        updated_at=stored.updated_at,
        version=stored.version,
        media_type=stored.media_type,
        text=text,
    )


def _join(packed: bytes) -> str:
    """Return packed blocks as one text: rows of a table a line each, everything else a paragraph each."""
    pieces: list[str] = []
    before: Block | None = None
    for block in unpack_blocks(packed) if packed else ():
        if before is not None:
            pieces.append("\n" if block.kind == before.kind == "table_row" else "\n\n")
        pieces.append(f"{'#' * block.level} {block.text}" if block.kind == "heading" else block.text)
        before = block
    return "".join(pieces)
