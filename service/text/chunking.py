"""Split blocks into chunks: the texts read by the embedding model and found by searches. A chunk with its document's
title has at most 254 word pieces. Packing keeps sentences, table rows and code lines whole, and a heading with the text
below. A chunk without a heading begins with its path of headings if short. Packing restarts at headings, at long
paragraphs and at `_anchors`, so an edit changes few chunks. Packing takes linear time: run it in a thread."""

import hashlib
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from carrel.wire.places import PassagePlace
from service.text.embedding.models import MAX_PIECES, WordPieces
from service.text.extraction.blocks import Block, cut_block
from service.text.places import join_places
from service.text.sentences import Span, cut_lines, cut_sentences, cut_windows

TITLE_PIECES = 32
PATH_PIECES = 32  # longest path of headings, in pieces; a longer path is shortened from its outer end

LONG_PARAGRAPH_PIECES = 96  # a paragraph of at least this many pieces begins a new chunk

ANCHOR_PIECES = 192  # an anchor is the best place to begin a chunk within this many pieces before and after

SENTENCE_ENDS = (".", "!", "?", "…", ":", '"', "”", "»", ")", "。", "！", "？")  # noqa: RUF001 - as texts have them
"""Text ending differently may continue on the next page."""

FULL = 0.67  # a chunk is full enough at this share of the room, and ends at the best place after

LONGEST_SPAN = 2000
"""In characters; longer sentences are cut, because a word of any length may be a single unknown piece."""

_CHARACTERS_A_PIECE = 24
"""A span counts at least a piece per this many characters, to bound a chunk's length. English has four or five."""

PATH_SEPARATOR = " > "

_FRESH, _PARAGRAPH, _SENTENCE, _NEVER = range(4)
"""How willingly a chunk begins at a span: always, at a paragraph, at a sentence, never between heading and text."""

_Key = tuple[int, int, int]
"""The rank of a place to begin a chunk, lowest best: the constant above, the hash of the text, the number."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document: searches show `text`, the model embeds `dense_text`, and `hash` finds stored vectors."""

    text: str
    dense_text: str
    hash: bytes
    place: PassagePlace | None = None


@dataclass(frozen=True, slots=True)
class _Path:
    """The headings above a text as a single line, and the number of pieces (0 for no headings)."""

    text: str = ""
    pieces: int = 0


@dataclass(slots=True)
class _WholeSpan:
    """An undivided span, with the preceding white space, the headings above, and the part of the block."""

    text: str
    pieces: int
    gap: str
    begins: int
    path: _Path
    block: Block


@dataclass(slots=True)
class _Passage:
    block: Block
    spans: list[Span]
    pieces: list[int] = field(default_factory=list[int])


def chunk_blocks(
    blocks: Iterable[Block], *, title: str, tokenizer: WordPieces, media_type: str = "text/plain"
) -> list[Chunk]:
    """Cut a document into chunks in reading order, without white space; `media_type` defines the meaning of a page."""
    title, budget = _cut_title(title, tokenizer)
    return [
        _chunk(title, text, join_places([unit.block for unit in packed], starts=starts, media_type=media_type))
        for text, packed, starts in _pack(_make_units(_make_passages(blocks, budget, tokenizer), title), budget)
    ]


def caller_chunks(texts: Sequence[str], *, title: str, tokenizer: WordPieces) -> list[Chunk]:
    """Make chunks from a caller's texts. Only the first 254 pieces of a text, including the title, are embedded."""
    title, budget = _cut_title(title, tokenizer)
    return [_chunk(title, text, cut=tokenizer.cut(text, budget)) for text in texts]


def restore_chunks(texts: Sequence[str], *, title: str, tokenizer: WordPieces) -> list[Chunk]:
    """Make chunks again from texts cut by `chunk_blocks` with an equal title, without positions."""
    title, _ = _cut_title(title, tokenizer)
    return [_chunk(title, text) for text in texts]


def _cut_title(title: str, tokenizer: WordPieces) -> tuple[str, int]:
    cut = tokenizer.cut(title.strip(), TITLE_PIECES)
    return cut, MAX_PIECES - tokenizer.count([cut])[0]


def _chunk(title: str, text: str, place: PassagePlace | None = None, *, cut: str | None = None) -> Chunk:
    dense = f"{title}\n" * bool(title) + (text if cut is None else cut)
    return Chunk(text, dense, hashlib.sha256(dense.encode()).digest(), place)


def _make_passages(blocks: Iterable[Block], budget: int, tokenizer: WordPieces) -> list[_Passage]:
    passages = [_Passage(block, list(_cut_spans(block))) for block in blocks if not block.quoted]
    counts = iter(_count_pieces([span.text for passage in passages for span in passage.spans], tokenizer))
    for passage in passages:
        passage.pieces = [next(counts) for _ in passage.spans]
        # A chunk has room for a path, a heading and a sentence, so that a heading never stands alone.
        longest = budget if passage.block.kind == "table_row" else budget - 2 * PATH_PIECES
        if any(pieces > longest for pieces in passage.pieces):
            _cut_long_spans(passage, longest, tokenizer)
    return [passage for passage in passages if passage.spans]


def _cut_spans(block: Block) -> Iterator[Span]:
    cut = {"paragraph": cut_sentences, "code": cut_lines}.get(block.kind)
    for span in cut(block.text) if cut else (Span("", block.text.strip()),):
        for part in cut_windows(span, LONGEST_SPAN):
            if part.text.strip():
                yield part


def _count_pieces(texts: Sequence[str], tokenizer: WordPieces) -> list[int]:
    counts = tokenizer.count(texts)
    return [max(1, pieces, len(text) // _CHARACTERS_A_PIECE) for text, pieces in zip(texts, counts, strict=True)]


def _cut_long_spans(passage: _Passage, longest: int, tokenizer: WordPieces) -> None:
    spans: list[Span] = []
    for span, pieces in zip(passage.spans, passage.pieces, strict=True):
        if pieces <= longest:
            spans.append(span)
        elif "\n" in span.text:
            spans += cut_lines(span.text, gap=span.gap)
        else:
            spans += _between_words(span, longest, tokenizer)
    passage.spans, passage.pieces = spans, _count_pieces([span.text for span in spans], tokenizer)
    if any(pieces > longest for pieces in passage.pieces):
        _cut_long_spans(passage, longest, tokenizer)


def _between_words(span: Span, longest: int, tokenizer: WordPieces) -> Iterator[Span]:
    """Cut a span into parts of about `longest` pieces; inside a word only if the word itself is longer."""
    pieces = tokenizer.split([span.text])[0]
    gap, start, first = span.gap, 0, 0
    while first < len(pieces.ends):
        last = min(first + longest, len(pieces.ends))
        cut = last
        while cut < len(pieces.ends) and cut > first + 1 and pieces.words[cut] == pieces.words[cut - 1]:
            cut -= 1
        if cut == first + 1 and last > cut:
            cut = max(cut, (first + last) // 2)
        end = len(span.text) if cut == len(pieces.ends) else pieces.ends[cut - 1]
        part = span.text[start:end]
        yield Span(gap or part[: len(part) - len(part.lstrip())][:1], part.strip())
        gap, start, first = "", end, cut


def _make_units(passages: Sequence[_Passage], title: str) -> list[_WholeSpan]:
    units: list[_WholeSpan] = []
    headings: list[tuple[int, _Path]] = []
    path, below_heading = _Path(), False
    before: Block | None = None
    for passage in passages:
        heading = passage.block.kind == "heading"
        if heading:
            headings = [outer for outer in headings if outer[0] < passage.block.level]
            path = _join_path(headings)
        turns_page = before is not None and _turns_page(before, passage.block)
        is_fresh = heading or turns_page or sum(passage.pieces) >= LONG_PARAGRAPH_PIECES
        begins = _NEVER if below_heading else _FRESH if is_fresh else _PARAGRAPH
        before = passage.block
        at = 0
        for number, (span, pieces) in enumerate(zip(passage.spans, passage.pieces, strict=True)):
            first = number == 0
            gap, rank = ("\n", begins) if first else (span.gap, _SENTENCE)
            block = passage.block
            if block.areas:
                at = block.text.index(span.text, at)
                block = cut_block(block, span.text, at)
                at += len(span.text)
            units.append(_WholeSpan(span.text, pieces, gap, rank, path, block))
        if heading:
            headings.append((passage.block.level, _shown_heading(passage, title)))
            path = _join_path(headings)
        below_heading = heading
    return units


def _turns_page(before: Block, block: Block) -> bool:
    """Return whether a recognized block begins a new page, always a new chunk, without continuing a sentence."""
    if block.confidence is None or block.page == before.page:
        return False
    return before.text.rstrip().endswith(SENTENCE_ENDS) or not block.text[:1].islower()


def _shown_heading(passage: _Passage, title: str) -> _Path:
    text = passage.spans[0].text
    if len(passage.spans) > 1 or passage.pieces[0] > PATH_PIECES or text.casefold() == title.casefold():
        return _Path()
    return _Path(" ".join(text.split()), passage.pieces[0])


def _join_path(headings: Sequence[tuple[int, _Path]]) -> _Path:
    kept: list[str] = []
    total = 0
    for _, heading in reversed(headings):
        if not heading.pieces:
            continue
        more = heading.pieces + (1 if kept else 0)
        if total + more > PATH_PIECES:
            break
        kept.append(heading.text)
        total += more
    return _Path(PATH_SEPARATOR.join(reversed(kept)), total)


def _pack(units: Sequence[_WholeSpan], budget: int) -> Iterator[tuple[str, Sequence[_WholeSpan], Sequence[int]]]:
    """Pack units between restarts into texts, each with its units and the position of each unit's first character."""
    keys = [(unit.begins, zlib.crc32(unit.text.encode()), number) for number, unit in enumerate(units)]
    positions = list(accumulate((unit.pieces for unit in units), initial=0))
    fresh = _anchors(keys, positions)
    start = 0
    while start < len(units):
        first = units[start]
        path = first.path if first.path.pieces + first.pieces <= budget else _Path()
        end = _end(start, keys, positions, fresh, budget - path.pieces)
        packed = units[start:end]
        above = f"{path.text}\n" if path.pieces else ""
        parts = [above + first.text, *(unit.gap + unit.text for unit in packed[1:])]
        ends = accumulate(map(len, parts))
        starts = [last - len(unit.text) for last, unit in zip(ends, packed, strict=True)]
        yield "".join(parts), packed, starts
        start = end


def _end(start: int, keys: Sequence[_Key], positions: Sequence[int], fresh: Sequence[bool], room: int) -> int:
    """Return a chunk's end: a restart or the best late place, so packings with different starts soon agree again."""
    end = start + 1
    while end < len(keys) and not fresh[end] and positions[end + 1] - positions[start] <= room:
        end += 1
    if end == len(keys) or fresh[end]:
        return end
    full = positions[start] + room * FULL
    places = [place for place in range(start + 1, end + 1) if positions[place] >= full]
    return min(places, key=keys.__getitem__, default=end)


def _anchors(keys: Sequence[_Key], positions: Sequence[int]) -> list[bool]:
    """Return where packing restarts: at fixed places, and the lowest key within ANCHOR_PIECES, so edits stay local."""
    before = _find_least(keys, positions)
    after = _find_least(keys[::-1], [-position for position in positions[-2::-1]])[::-1]
    return [
        key[0] == _FRESH or (key[0] != _NEVER and least_before and least_after)
        for key, least_before, least_after in zip(keys, before, after, strict=True)
    ]


def _find_least(keys: Sequence[_Key], positions: Iterable[int]) -> list[bool]:
    """Return for each key whether it is below all preceding keys up to ANCHOR_PIECES away (a sliding minimum)."""
    least: list[bool] = []
    candidates: deque[tuple[int, _Key]] = deque()
    for key, position in zip(keys, positions, strict=False):
        while candidates and candidates[0][0] < position - ANCHOR_PIECES:
            candidates.popleft()
        least.append(not candidates or key < candidates[0][1])
        while candidates and candidates[-1][1] > key:
            candidates.pop()
        candidates.append((position, key))
    return least
