"""The output of extraction: blocks in reading order, and their stored form."""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from carrel.wire.formats import NotReadKind

BlockKind = Literal["heading", "paragraph", "table_row", "code"]

_KINDS: tuple[BlockKind, ...] = ("heading", "paragraph", "table_row", "code")
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}
_VERSION = b"\x01"
# Level 1 is three times faster than the default on prose and 15 % larger.
_COMPRESSION = 1


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document that is never empty and holds no control characters but newline and tab.

    `level` is 1 (outermost) to 6 for headings and 0 otherwise; `page` counts from 1, for PDF pages and slides.
    A table row names its columns (`Header: value | …`), so that it means something alone.
    """

    kind: BlockKind
    text: str
    level: int = 0
    page: int | None = None


@dataclass(frozen=True, slots=True)
class NotRead:
    """Parts of one kind that a file holds and that were not read: how many, and where the first few are.

    `where` names pages, slides, sheets or messages by their numbers ("page 3"), as far as that can be told.
    """

    kind: NotReadKind
    count: int
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extraction:
    """The text of a file: its real media type, its own title if it has one, and at least one block.

    `not_read` tells the parts that the text leaves out, as far as their format shows them; None: the reader can't tell.

    `packed` is `pack_blocks(blocks)`, made in the worker already; it is empty in an Extraction made by hand.
    """

    media_type: str
    title: str | None
    blocks: tuple[Block, ...]
    not_read: tuple[NotRead, ...] | None = ()
    packed: bytes = field(default=b"", compare=False, repr=False)


def pack_blocks(blocks: Iterable[Block]) -> bytes:
    """Return the blocks as compact bytes: a version byte, then compressed JSON."""
    rows = [[_NUMBERS[block.kind], block.text, block.level, block.page] for block in blocks]
    return _VERSION + zlib.compress(json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode(), _COMPRESSION)


def unpack_blocks(data: bytes) -> tuple[Block, ...]:
    """Return the blocks that `pack_blocks` packed; ValueError if a newer version of it did."""
    if data[:1] != _VERSION:
        raise ValueError(f"Blocks of format version {data[:1].hex()!r} can't be read by this release.")
    rows: list[tuple[int, str, int, int | None]] = json.loads(zlib.decompress(data[1:]))
    return tuple(Block(_KINDS[kind], text, level, page) for kind, text, level, page in rows)
