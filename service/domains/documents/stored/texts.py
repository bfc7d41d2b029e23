"""A document's text for readers in pieces: outside agents and their models."""

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.auth.callers import Caller
from service.domains.documents.stored.queries import StoredText, find_text
from service.permissions.rights import unknown_document
from service.platform.errors import require
from service.text.reading import Block, are_short, iterate_blocks

# The most text that most clients pass to their model at once.
MOST_CHARACTERS = 100_000


class TextPart(NamedTuple):
    """Up to MOST_CHARACTERS of a text, with Markdown headings; `next_start` is the next character (None: the end)."""

    text: str
    next_start: int | None


async def read_text(connection: Connection, caller: Caller, *, document_id: UUID) -> StoredText:
    """Return a document the caller may READ, with its packed text; 404 otherwise, also for admins."""
    return require(await find_text(connection, caller, document_id=document_id), unknown_document())


async def unpack_text(stored: StoredText, *, start: int, quoted_alone: bool = False) -> TextPart:
    """Unpack a text from `start`, or only its quoted text; long texts one at a time, in a separate thread."""
    packed = stored.blocks or b""
    unpack = partial(_unpack_part, packed, start, quoted_alone=quoted_alone)
    return unpack() if are_short(packed) else await asyncio.get_running_loop().run_in_executor(_executor(), unpack)


def _unpack_part(packed: bytes, start: int, *, quoted_alone: bool) -> TextPart:
    part: list[str] = []
    at, end = 0, start + MOST_CHARACTERS
    blocks = iterate_blocks(packed) if packed else ()
    for piece in _pieces(block for block in blocks if block.quoted or not quoted_alone):
        if at + len(piece) > start:
            part.append(piece[max(start - at, 0) : end - at])
        at += len(piece)
        if at > end:
            return TextPart("".join(part), end)
    return TextPart("".join(part), None)


def _pieces(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield blocks as pieces of a text: table rows as lines, other blocks as paragraphs."""
    before: Block | None = None
    for block in blocks:
        if before is not None:
            yield "\n" if block.kind == before.kind == "table_row" else "\n\n"
        yield f"{'#' * block.level} {block.text}" if block.kind == "heading" else block.text
        before = block


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="text")
