"""Find tables on a PDF page by aligned columns; lengths are points from the upper left corner as shown."""

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from service.text.extraction.blocks import Box, surround

_FEWEST_ROWS = 3
# A line closer to the previous line than this part of the usual row distance continues the row.
_SAME_ROW = 0.75
# The usual row distance is this quantile of distances: lines inside a row are closer.
_USUAL = 0.8
# In line heights: words of a cell are closer; a longer cell is prose; no row has a wider gap.
_WORD_GAP, _LONG_CELL, _FURTHEST = 0.8, 30, 6
# Columns whose lines are mostly full contain prose, unless the lines are short.
_FILLED, _SHORT_LINE = 0.85, 8
_NARROW = 3
_TOUCHING = 0.3
# A cell takes less than this part of its table's width.
_NARROW_PART = 0.75
# The share of filled cells in a table, of which half have fewer words than this.
_DENSE, _WORDY = 0.55, 4
# Beginnings of list entries, and leaders to the page numbers of contents; few rows of tables have these.
_MARK, _LEADER = re.compile(r"[•◦▪‣·●○■–—*-]|\(?(?:\d{1,3}|[a-zA-Z])[.)]"), re.compile(r"(?:\. ?){4}")  # noqa: RUF001 - bullets
_MARKED = 0.2
# PDFium writes one of these for a hyphen at the end of a line.
_DIVISION = re.compile("[\ufffe\x02\u00ad] ?")
# In points: the largest shift of the columns' edges of a table that continues on the next page.
_SHIFT = 6


@dataclass(frozen=True, slots=True)
class TableArea:
    """A table on a page: the rectangles of its rows, the left and right edges of its columns, and its rectangle."""

    rows: list[Box]
    columns: list[tuple[float, float]]
    box: Box

    def continues_on(self, other: "TableArea") -> bool:
        """Return whether another table, on the next page, has the same columns."""
        edges = zip(self.columns, other.columns, strict=False)
        return len(self.columns) == len(other.columns) and all(
            min(abs(left[0] - right[0]), abs(left[1] - right[1])) <= _SHIFT for left, right in edges
        )

    def fill(self, words: Iterable[tuple[str, Box]]) -> list[list[str]]:
        """Return the texts of the cells by rows, with each word in the row and column nearest to its middle."""
        below = [(above[3] + row[1]) / 2 for above, row in pairwise(self.rows)]
        beside = [(left[1] + right[0]) / 2 for left, right in pairwise(self.columns)]
        cells: list[list[list[str]]] = [[[] for _ in self.columns] for _ in self.rows]
        for word, box in words:
            row, column = bisect(below, _middle(box)), bisect(beside, (box[0] + box[2]) / 2)
            cells[row][column].append(word)
        return [[join_lines(cell) for cell in row] for row in cells]


def find_tables(pieces: Sequence[Box]) -> list[TableArea]:
    """Return the tables formed by pieces of lines, from top to bottom; the cost is that of sorting the pieces."""
    tables: list[TableArea] = []
    run: list[list[Box]] = []
    before: list[Box] = []
    for line in [*_gather_lines(pieces), []]:
        if line and run and (_is_inside(run, line) if len(line) == 1 else not _is_far(run, line)):
            run.append(line)
        else:
            tables += _find_table(run)
            run = [*([before] if before and _touches(before, line) else []), line] if len(line) >= 2 else []
        before = line
    return tables


def reads_as_table(cells: Sequence[Sequence[str]]) -> bool:
    """Return whether texts in rows and columns are a table: short, mostly filled, no list, contents or prose."""
    texts = [text for row in cells for text in row if text]
    if len(texts) < _DENSE * sum(len(row) for row in cells):
        return False
    phrases = [text for text in texts if " " in text]
    if 2 * len(phrases) > len(texts) and 2 * sum(text[0].islower() for text in phrases) > len(phrases):
        return False
    marked = sum(any(_MARK.fullmatch(text) or _LEADER.search(text) for text in row) for row in cells)
    return marked <= _MARKED * len(cells) and median(len(text.split()) for text in texts) < _WORDY


def join_lines(lines: Iterable[str]) -> str:
    """Join lines, or words, into a single line, and rejoin words divided at a line end."""
    return _DIVISION.sub("", " ".join(lines)).strip()


def _gather_lines(pieces: Sequence[Box]) -> list[list[Box]]:
    """Gather pieces at equal height into lines, from top to bottom, and merge words near each other."""
    lines: list[list[Box]] = []
    for piece in sorted(pieces, key=_middle):
        if lines and abs(_middle(lines[-1][0]) - _middle(piece)) < _height(piece) * 0.5:
            lines[-1].append(piece)
        else:
            lines.append([piece])
    return [_join_words(line) for line in lines]


def _join_words(line: list[Box]) -> list[Box]:
    joined: list[Box] = []
    for piece in sorted(line):
        if joined and piece[0] - joined[-1][2] < _WORD_GAP * max(_height(piece), _height(joined[-1])):
            joined[-1] = surround([joined[-1], piece])
        else:
            joined.append(piece)
    return joined


def _touches(above: Sequence[Box], line: Sequence[Box]) -> bool:
    """Return whether `above`, a single piece close to `line`, begins a tall cell with neighbours centred vertically."""
    return len(above) == 1 and line[0][1] - above[0][3] < _TOUCHING * _height(line[0])


def _is_far(run: Sequence[Sequence[Box]], line: Sequence[Box]) -> bool:
    return line[0][1] - run[-1][0][3] > _FURTHEST * _height(line[0])


def _is_inside(run: Sequence[Sequence[Box]], line: Sequence[Box]) -> bool:
    """Return whether a piece alone on its line continues a cell of the line above and is no wider than the table."""
    near = line[0][1] - run[-1][0][3] <= 1.5 * _height(line[0])
    row = next((above for above in reversed(run) if len(above) >= 2), run[0])
    left, right = min(piece[0] for piece in row), max(piece[2] for piece in row)
    narrow = line[0][2] - line[0][0] < (right - left) * _NARROW_PART
    return near and narrow and left - _SHIFT <= line[0][0] and line[0][2] <= right + _SHIFT


def _find_table(lines: Sequence[list[Box]]) -> Iterator[TableArea]:
    if sum(len(line) >= 2 for line in lines) < _FEWEST_ROWS:
        return
    columns = _find_columns(lines)
    while lines and _is_across(lines[0], columns):
        lines = lines[1:]
    if len(lines) < _FEWEST_ROWS or len(columns) < 2 or _is_prose(lines, columns):
        return
    rows = [surround(row) for row in _gather_rows(lines, columns)]
    if len(rows) >= _FEWEST_ROWS:
        yield TableArea(rows, columns, surround(rows))


def _find_columns(lines: Sequence[Sequence[Box]]) -> list[tuple[float, float]]:
    """Return columns' edges, aligned in the lines with most pieces: no heading over several columns is among them."""
    most = sorted(len(line) for line in lines)[len(lines) * 3 // 4]
    pieces = [piece for line in lines for piece in line]
    columns = _merge((piece[0], piece[2]) for line in lines if len(line) >= most for piece in line)
    beside = [piece for piece in pieces if not any(_overlaps(piece, column) for column in columns)]
    return _widen(_merge([*columns, *((piece[0], piece[2]) for piece in beside)]), pieces)


def _merge(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for left, right in sorted(spans):
        if merged and left < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], right)
        else:
            merged.append((left, right))
    return merged


def _widen(columns: Sequence[tuple[float, float]], pieces: Sequence[Box]) -> list[tuple[float, float]]:
    widened = list(columns)
    for piece in pieces:
        over = [number for number, column in enumerate(columns) if _overlaps(piece, column)]
        if len(over) == 1:
            left, right = widened[over[0]]
            widened[over[0]] = min(left, piece[0]), max(right, piece[2])
    return widened


def _is_across(line: Sequence[Box], columns: Sequence[tuple[float, float]]) -> bool:
    """Return whether a line spans the columns instead of fitting in, as a note above a table does."""
    across = [piece for piece in line if sum(_overlaps(piece, column) for column in columns) > 1]
    return 2 * len(across) >= len(line)


def _is_prose(lines: Sequence[Sequence[Box]], columns: Sequence[tuple[float, float]]) -> bool:
    pieces = [piece for line in lines for piece in line]
    if not pieces:
        return True
    first = columns[0][1] - columns[0][0]
    # The numbers or bullets of a list.
    if len(columns) == 2 and first < _NARROW * median(_height(piece) for piece in pieces):
        return True
    lengths = [(right - left) / max(bottom - top, 1.0) for left, top, right, bottom in pieces]
    if median(lengths) > _LONG_CELL:
        return True
    widths = [
        max((right - left for left, right in columns if _overlaps(piece, (left, right))), default=0.0)
        for piece in pieces
    ]
    filled = sum(piece[2] - piece[0] >= _FILLED * width for piece, width in zip(pieces, widths, strict=True) if width)
    return filled > 0.6 * len(pieces) and median(lengths) > _SHORT_LINE


def _gather_rows(lines: Sequence[list[Box]], columns: Sequence[tuple[float, float]]) -> list[list[Box]]:
    """Join the lines of each row: lines near each other, if either lacks words in a column."""
    distances = sorted(_middle(after[0]) - _middle(before[0]) for before, after in pairwise(lines))
    usual = distances[int((len(distances) - 1) * _USUAL)]
    rows: list[list[Box]] = []
    last: list[Box] = []
    for line in lines:
        near = bool(last) and _middle(line[0]) - _middle(last[0]) < usual * _SAME_ROW
        if near and min(len(line), len(last)) < len(columns):
            rows[-1] += line
        else:
            rows.append(list(line))
        last = line
    return rows


def _overlaps(piece: Box, column: tuple[float, float]) -> bool:
    return piece[0] < column[1] and column[0] < piece[2]


def _middle(piece: Box) -> float:
    return (piece[1] + piece[3]) / 2


def _height(piece: Box) -> float:
    return max(piece[3] - piece[1], 1.0)
