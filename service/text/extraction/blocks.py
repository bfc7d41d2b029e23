"""The output of extraction: blocks in reading order, and their stored form."""

import codecs
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from carrel.wire.formats import NotReadKind

BlockKind = Literal["heading", "paragraph", "table_row", "code"]
Box = tuple[float, float, float, float]
"""Left, top, right and bottom of a rectangle, as fractions of the page from its upper left corner."""
Area = tuple[int, Box]
"""A part of a page, preceded by the index (from 0) of the first character of the text in the part."""

_KINDS: tuple[BlockKind, ...] = ("heading", "paragraph", "table_row", "code")
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}
# Version 1 had only the first four values of a row.
_VERSION, _VERSIONS = b"\x02", frozenset({b"\x01", b"\x02"})
# Level 1 is three times faster than the default on prose, and 15 % larger.
_COMPRESSION = 1
# The bytes that are decompressed at once, and the most that are unpacked on an event loop.
_PIECE_BYTES, _SHORT_BYTES = 256 * 1024, 32 * 1024
# Added to the level of a quoted block; earlier releases ignore this and index the block.
_QUOTED = 8
_decode_row = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document, never empty, without control characters except newline and tab. `level` is 1 (outermost)
    to 6 for headings, otherwise 0; `page` counts pages, slides or messages from 1. A table row names its columns
    (`Header: value | …`); `rows`, from 1, are its first and last row in the sheet. `confidence` (0 to 1) is set by OCR.
    `areas` are the parts of the page in order if the text continues in another column; otherwise `box` is all. `quoted`
    text, from an earlier mail, is shown and not indexed."""

    kind: BlockKind
    text: str
    level: int = 0
    page: int | None = None
    sheet: str | None = None
    rows: tuple[int, int] | None = None
    box: Box | None = None
    confidence: float | None = None
    areas: tuple[Area, ...] = ()
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class NotRead:
    """The number and first places of unread parts of a kind; `where` is like "page 3" or "tables of page 3"."""

    kind: NotReadKind
    count: int
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundPicture:
    """A picture for text recognition, `after` a number of blocks (None: the whole page); `within` reads `address`."""

    address: str
    page: int | None = None
    sheet: str | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """The text of a file: its real media type, its title if any, and at least one block or scanned page. `not_read`
    lists the parts missing from the text; None: the reader can't tell. Text recognition may read later: `scanned`, the
    numbers of pages that are pictures, and `pictures`, if looked for. `packed` is `pack_blocks(blocks)`, empty if made
    by hand. `file_count` counts files in an archive or mail; `causes` are traces of the first failed details."""

    media_type: str
    title: str | None
    blocks: tuple[Block, ...]
    not_read: tuple[NotRead, ...] | None = ()
    scanned: tuple[int, ...] = ()
    packed: bytes = field(default=b"", compare=False, repr=False)
    file_count: int = 0
    pictures: tuple[FoundPicture, ...] = ()
    causes: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ContainedFile:
    """A file within another, with its cleaned, unique path. If `content` is None, `code` and `message` say why."""

    path: str
    content: bytes | None
    code: str = ""
    message: str = ""


def join_boxes(boxes: Sequence[Box | None]) -> Box | None:
    """Return the smallest rectangle around all boxes of a page; None if a box is unknown."""
    known = [box for box in boxes if box is not None]
    return surround(known) if known and len(known) == len(boxes) else None


def surround(boxes: Iterable[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def cut_block(block: Block, text: str, start: int) -> Block:
    """Return a block with a part of the text, beginning at the character `start`, in the part's areas."""
    if text == block.text:
        return block
    if not block.areas:
        return replace(block, text=text)
    ends = [*(begin for begin, _ in block.areas[1:]), len(block.text)]
    areas = tuple(
        (max(begin - start, 0), box)
        for (begin, box), end in zip(block.areas, ends, strict=True)
        if begin < start + len(text) and end > start
    )
    return replace(block, text=text, box=join_boxes([box for _, box in areas]), areas=areas if len(areas) > 1 else ())


def pack_blocks(blocks: Iterable[Block]) -> bytes:
    """Return the blocks as compact bytes: a version byte, then compressed JSON."""
    rows = [_pack(block) for block in blocks]
    return _VERSION + zlib.compress(json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode(), _COMPRESSION)


def unpack_blocks(data: bytes) -> tuple[Block, ...]:
    """Return the blocks from `pack_blocks`, also of version 1. Raises ValueError for a newer version."""
    return tuple(iterate_blocks(data))


def iterate_blocks(data: bytes) -> Iterator[Block]:
    """Unpack blocks lazily, for other threads. Raises ValueError for a newer version or missing blocks."""
    if data[:1] not in _VERSIONS:
        raise ValueError(f"Blocks of format version {data[:1].hex()!r} can't be read by this release.")
    inflate, utf8 = zlib.decompressobj(), codecs.getincrementaldecoder("utf-8")()
    packed, text = data[1:], ""
    # Decompress at least as much as is waiting, so that a long block takes linear time.
    while piece := inflate.decompress(packed, max(_PIECE_BYTES, len(text))):
        packed = inflate.unconsumed_tail
        text += utf8.decode(piece)
        at = 0  # position of the bracket or comma before a row
        while (start := text.find("[", at + 1)) != -1:
            try:
                row, at = _decode_row(text, start)
            except json.JSONDecodeError:
                break  # the rest of the row is in the next piece
            yield _unpack(row)
        text = text[at:]
    if text not in {"]", "[]"}:
        raise ValueError("Blocks are cut off.")


def are_short(data: bytes) -> bool:
    """Return whether blocks are small unpacked. Packed size can't tell: repeated rows shrink to a hundredth."""
    return len(zlib.decompressobj().decompress(data[1:], _SHORT_BYTES + 1)) <= _SHORT_BYTES


def _pack(block: Block) -> list[Any]:
    row = [_NUMBERS[block.kind], block.text, block.level + _QUOTED * block.quoted, block.page]
    if block.sheet is block.rows is block.box is block.confidence is None:
        return row
    # Areas follow the box, where earlier releases ignore them.
    box = [*block.box, *block.areas] if block.box and block.areas else block.box
    return [*row, block.sheet, block.rows, box, block.confidence]


def _unpack(row: list[Any]) -> Block:
    kind, text, level, page = row[:4]
    sheet, rows, box, confidence = row[4:] or (None, None, None, None)
    return Block(
        _KINDS[int(kind)],
        text,
        level % _QUOTED,
        page,
        sheet,
        rows=None if rows is None else (rows[0], rows[1]),
        box=None if box is None else (box[0], box[1], box[2], box[3]),
        confidence=confidence,
        areas=tuple((start, tuple(area)) for start, area in box[4:]) if box else (),
        quoted=level >= _QUOTED,
    )
