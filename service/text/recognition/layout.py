"""Making blocks from recognized lines: reading order, rows, paragraphs, headings. Lengths are pixels from above."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import atan2, cos, sin
from statistics import median

from service.text.extraction.blocks import Block, BlockKind, Box
from service.text.extraction.building import pieces

_BULLET = re.compile(r"(?:[•◦▪‣·●○■–—*-]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s")  # noqa: RUF001 - bullets as pages have them
_CELLS = " | "
_BLOCK_CHARACTERS = 8_000
# In usual line heights: the narrowest gap between columns, between cells of a table, and between paragraphs.
_COLUMN_GAP = 1.0
_CELL_GAP = 1.2
_PARAGRAPH_GAP = 0.9
_OTHER_SIZE = 1.35
_TITLE_SIZE = 1.9
_HEADING_CHARACTERS = 120
# A part of a page is a column of text if it has this many lines with this many characters on average.
_COLUMN_LINES = 3
_COLUMN_CHARACTERS = 20
# The most times that a page is divided into smaller parts.
_DEPTH = 40


@dataclass(frozen=True, slots=True)
class RecognizedLine:
    """A line of text, the certainty of its reading from 0 to 1, and its corners: upper left first, then upper right."""

    text: str
    confidence: float
    corners: tuple[tuple[float, float], ...]

    @property
    def left(self) -> float:
        return min(x for x, _ in self.corners)

    @property
    def right(self) -> float:
        return max(x for x, _ in self.corners)

    @property
    def top(self) -> float:
        return min(y for _, y in self.corners)

    @property
    def bottom(self) -> float:
        return max(y for _, y in self.corners)

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def is_upright(self) -> bool:
        """Whether the line is wider than high, unlike text lying on its side."""
        return self.right - self.left >= self.height


@dataclass(frozen=True, slots=True)
class PageView:
    """A page's view during reading: width and height after rotation, and the number of quarter turns to the left."""

    size: tuple[int, int]
    quarters: int = 0

    def to_parts(self, lines: Iterable[RecognizedLine]) -> Box:
        """Return the rectangle around lines, as fractions of the page as shown in its file."""
        points = [point for line in lines for point in line.corners]
        width, height = self.size
        across = [min(max(x / width, 0.0), 1.0) for x, _ in points]
        down = [min(max(y / height, 0.0), 1.0) for _, y in points]
        box = min(across), min(down), max(across), max(down)
        for _ in range(self.quarters):
            left, top, right, bottom = box
            box = 1 - bottom, left, 1 - top, right
        left, top, right, bottom = (round(edge, 4) for edge in box)
        return left, top, right, bottom


Row = Sequence[RecognizedLine]  # lines side by side, from left to right: the cells of a table, or a single line


def make_blocks(lines: Sequence[RecognizedLine], *, view: PageView, page: int | None) -> list[Block]:
    if not lines:
        return []
    angle = _slant(lines)
    straight = [_turn(line, -angle) for line in lines]
    usual = median(line.height for line in straight)
    blocks: list[Block] = []
    for rows in _gather_paragraphs(_reading_order(straight, usual), usual):
        cells = [line for row in rows for line in row]
        box = view.to_parts(_turn(line, angle) for line in cells)
        kind, level, text = _compose_block(rows, usual)
        confidence = round(_certainty(cells), 3)
        texts = pieces(text, _BLOCK_CHARACTERS)
        blocks += [Block(kind, each, level, page, box=box, confidence=confidence) for each in texts]
    return blocks


def _slant(lines: Sequence[RecognizedLine]) -> float:
    """Return the angle of most lines, for a page scanned askew."""
    angles = [atan2(line.corners[1][1] - line.corners[0][1], line.corners[1][0] - line.corners[0][0]) for line in lines]
    upright = sorted(angle for angle, line in zip(angles, lines, strict=True) if line.is_upright)
    return upright[len(upright) // 2] if upright else 0.0


def _turn(line: RecognizedLine, angle: float) -> RecognizedLine:
    across, down = cos(angle), sin(angle)
    return replace(line, corners=tuple((x * across - y * down, x * down + y * across) for x, y in line.corners))


def _certainty(lines: Sequence[RecognizedLine]) -> float:
    return sum(len(line.text) * line.confidence for line in lines) / sum(len(line.text) for line in lines)


def _reading_order(lines: Sequence[RecognizedLine], usual: float, depth: int = 0) -> Iterator[Row]:
    """Yield the rows of a part of a page: by column if there are columns of text, otherwise from the top down."""
    edge = _column_edge(lines, usual)
    if edge is not None:
        yield from _reading_order([line for line in lines if line.left < edge], usual, depth)
        yield from _reading_order([line for line in lines if line.left >= edge], usual, depth)
        return
    rows = _gather_rows(lines, usual)
    if depth >= _DEPTH or len(rows) <= _COLUMN_LINES:
        yield from rows
        return
    bottoms = [max(line.bottom for line in row) for row in rows]
    gaps = [min(line.top for line in row) - bottom for bottom, row in zip(bottoms, rows[1:], strict=False)]
    widest = gaps.index(max(gaps)) + 1
    for part in (rows[:widest], rows[widest:]):
        yield from _reading_order([line for row in part for line in row], usual, depth + 1)


def _column_edge(lines: Sequence[RecognizedLine], usual: float) -> float | None:
    """Return the left edge of a second column of text; None without a second column, as in a table with short cells."""
    ordered = sorted(lines, key=lambda line: line.left)
    reached = float("-inf")
    for number, line in enumerate(ordered):
        is_gap = number >= _COLUMN_LINES and line.left - reached >= _COLUMN_GAP * usual
        if is_gap and _is_column(ordered[:number]) and _is_column(ordered[number:]):
            return line.left
        reached = max(reached, line.right)
    return None


def _is_column(lines: Sequence[RecognizedLine]) -> bool:
    enough = len(lines) >= _COLUMN_LINES
    return enough and sum(len(line.text) for line in lines) >= _COLUMN_CHARACTERS * len(lines)


def _gather_rows(lines: Sequence[RecognizedLine], usual: float) -> list[Row]:
    rows: list[list[RecognizedLine]] = []
    for line in sorted(lines, key=lambda line: line.top + line.bottom):
        middle = (line.top + line.bottom) / 2
        if rows and middle < rows[-1][0].bottom - rows[-1][0].height / 4:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [_join_close(sorted(row, key=lambda line: line.left), usual) for row in rows]


def _join_close(row: Sequence[RecognizedLine], usual: float) -> Row:
    joined: list[RecognizedLine] = []
    for line in row:
        if joined and line.left - joined[-1].right < _CELL_GAP * usual:
            parts = (joined.pop(), line)
            corners = tuple(corner for part in parts for corner in part.corners)
            joined.append(RecognizedLine(" ".join(part.text for part in parts), _certainty(parts), corners))
        else:
            joined.append(line)
    return joined


def _gather_paragraphs(rows: Iterable[Row], usual: float) -> Iterator[list[Row]]:
    run: list[Row] = []
    for row in rows:
        if run and _begins_another(run, row, usual):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _begins_another(run: Sequence[Row], row: Row, usual: float) -> bool:
    last, first = run[-1][0], row[0]
    if (len(run[-1]) > 1) != (len(row) > 1) or _BULLET.match(first.text):
        return True
    if max(first.height, last.height) > _OTHER_SIZE * min(first.height, last.height):
        return True
    # A line above the last line begins the next column.
    return first.top < last.top or first.top - last.bottom > _PARAGRAPH_GAP * usual


def _compose_block(rows: Sequence[Row], usual: float) -> tuple[BlockKind, int, str]:
    if any(len(row) > 1 for row in rows):
        return "paragraph", 0, "\n".join(_CELLS.join(line.text for line in row) for row in rows)
    lines = [row[0].text for row in rows]
    text = "".join(_end_line(line, after) for line, after in pairwise([*lines, ""]))
    height = median(row[0].height for row in rows)
    if height < _OTHER_SIZE * usual or len(text) > _HEADING_CHARACTERS:
        return "paragraph", 0, text
    return "heading", 1 if height >= _TITLE_SIZE * usual else 2, text


def _end_line(line: str, after: str) -> str:
    """Return a line for joining with the next, rejoining a word divided at its end."""
    if line.endswith("-") and line[-2:-1].isalpha() and after[:1].islower():
        return line[:-1]
    return f"{line} " if after else line
