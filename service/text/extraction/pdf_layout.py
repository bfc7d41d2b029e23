"""Building headings and paragraphs from a PDF's lines, by size and distance, without running heads."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import NamedTuple

from service.text.extraction.blocks import Area, Block, Box, cut_block, join_boxes
from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.pdf_tables import TableArea, join_lines
from service.text.extraction.tabular import TableWriter

_NUMBER = re.compile(r"[0-9]{1,6}")
_BULLET = re.compile(r"(?:[•◦▪‣·●○■–—*-]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s")  # noqa: RUF001 - bullets as PDFs have them
_SENTENCE_ENDS = (".", "!", "?", ":", ";", "…")
_CLOSED = frozenset({*_SENTENCE_ENDS, '"', "”", "»", ")", ""})
_SENTENCE_END = re.compile(r"[.!?…][\"”»)]*\s+(?=[^\W_a-z])")
_HEADING_RATIO = 1.15
# The ratio of sizes of equal lines in points: fonts differ in the height of their em boxes.
_SAME_SIZE = 1.2
_HEADING_CHARACTERS = 200
_EDGE_LINES = 2
_MIDDLE = 0.5
_FEWEST_PAGES = 4
_FEWEST_LINES = 5
_AREA_LINES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table on a page: the texts of its cells by rows, each row's part of the page, and the table's area."""

    cells: list[list[str]]
    boxes: list[Box]
    area: TableArea


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line of a page: bottom and top in points from the lower edge (0 if unknown), and its box."""

    text: str
    bottom: float = 0.0
    top: float = 0.0
    box: Box | None = None
    table: Table | None = None

    @property
    def size(self) -> float:
        return round((self.top - self.bottom) * 2) / 2


def add_pages(pages: Sequence[Sequence[Line]], builder: BlockBuilder) -> None:
    """Add all pages as headings, paragraphs and tables; a page whose layout fails, as its lines."""
    kept, levels = pages, dict[float, int]()
    with builder.refinement("layout"):
        kept = _without_running_lines(pages)
        levels = _heading_levels(kept)
    tables = _Tables(builder)
    for number, page in enumerate(kept, start=1):
        before = len(builder.blocks)
        with builder.refinement(f"layout of page {number}"):
            _add_page(page, number, levels, tables, builder)
            continue
        del builder.blocks[before:]
        builder.lines("\n".join(line.text for line in page), page=number)
    with builder.refinement("last table"):
        tables.close()


def _add_page(
    page: Sequence[Line], number: int, levels: dict[float, int], tables: "_Tables", builder: BlockBuilder
) -> None:
    line_before = None
    for table, lines in groupby(page, key=lambda line: line.table):
        if table is not None:
            tables.add(table, number)
            line_before = ""
            continue
        others = list(lines)
        tables.pass_over(len(others))
        for level, text, box, areas in _paragraphs(others, levels):
            if level:
                builder.heading(text, level, page=number, box=box)
            else:
                block = Block("paragraph", one_line(text), page=number, box=box, areas=areas)
                builder.add(_end_sentence(builder, block) if line_before is None else block)
            line_before = text


def _end_sentence(builder: BlockBuilder, block: Block) -> Block:
    """Add a page's first words to the previous page's open sentence; return the rest."""
    for place in range(len(builder.blocks) - 1, max(len(builder.blocks) - 1 - _EDGE_LINES, -1), -1):
        last = builder.blocks[place]
        is_open = last.kind == "paragraph" and last.page == (block.page or 0) - 1 and last.text[-1:] not in _CLOSED
        if is_open and (block.text[:1].islower() or last.text.endswith((",", "-"))):
            end = _SENTENCE_END.search(block.text)
            tail = block.text[: end.end()] if end else block.text
            joined = join_lines([last.text, tail.rstrip()])
            if len(joined) <= builder.limits.block_characters:
                builder.blocks[place] = replace(last, text=joined)
                rest = block.text[len(tail) :]
                return cut_block(block, rest, len(tail)) if rest else replace(block, text="")
    return block


class _Tables:
    """Adds tables, each once; a table continued on the next page, across page edges only, is a single table."""

    def __init__(self, builder: BlockBuilder) -> None:
        self._builder = builder
        self._writer: TableWriter | None = None
        self._last: tuple[int, Table] | None = None
        self._added: set[Table] = set()
        self._lines_since = 0

    def add(self, table: Table, page: int) -> None:
        if table in self._added:
            return
        self._added.add(table)
        if self._last is not None:
            last_page, last = self._last
            is_near = last_page + 1 == page and self._lines_since <= 2 * _EDGE_LINES
            if not (is_near and last.area.continues_on(table.area)):
                self.close()
        self._writer = self._writer or TableWriter(self._builder)
        self._last, self._lines_since = (page, table), 0
        for cells, box in zip(table.cells, table.boxes, strict=True):
            self._writer.row(cells, page=page, box=box)

    def pass_over(self, lines: int) -> None:
        self._lines_since += lines

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = self._last = None


def _without_running_lines(pages: Sequence[Sequence[Line]]) -> Sequence[Sequence[Line]]:
    """Leave out running heads and feet: page numbers always, words after their first page, so that no text is lost."""
    if len(pages) < 2:
        return pages
    seen: Counter[str] = Counter()
    for number, page in enumerate(pages):
        seen.update({key for line in _find_edge_lines(page) for key in _keys(line, number)})
    fewest = len(pages) if len(pages) < _FEWEST_PAGES else len(pages) // 2 + 1
    running = {key for key, count in seen.items() if count >= fewest}
    shown: set[str] = set()
    return [_keep_lines(page, number, running, shown) for number, page in enumerate(pages)]


def _keep_lines(page: Sequence[Line], number: int, running: set[str], shown: set[str]) -> list[Line]:
    """Return a page without running lines `shown` before, and note the lines shown now."""
    edge = {line for line in _find_edge_lines(page) if not running.isdisjoint(_keys(line, number))}
    words = {word for line in edge for word in line.text.split()}
    kept: list[Line] = []
    for line in page:
        found = running.intersection(_keys(line, number)) if line in edge else set[str]()
        outside = _take_out(line, words, is_counted=found > {line.text} or line.text not in found) if found else line
        if not found or found == {line.text} - shown or outside.table is not None:
            kept.append(outside)
        shown |= found
    return kept


def _take_out(line: Line, words: set[str], *, is_counted: bool) -> Line:
    """Detach a running line from a table and delete the row there; a possible row of columns stays. Return the line."""
    table, box = line.table, line.box
    if table is None or box is None:
        return line
    middle = (box[1] + box[3]) / 2
    for number, row in enumerate(table.boxes):
        cells = [cell for cell in table.cells[number] if cell]
        is_full = len(cells) == len(table.cells[number])
        is_row = is_full and not is_counted and (middle > _MIDDLE or not any(map(str.isdigit, line.text)))
        if row[1] <= middle <= row[3] and not is_row and words.issuperset(" ".join(cells).split()):
            del table.cells[number], table.boxes[number]
            break
    else:
        # The row was removed with an adjacent line, or has more than running lines.
        return line if any(row[1] <= middle <= row[3] for row in table.boxes) else replace(line, table=None)
    return replace(line, table=None)


def _find_edge_lines(page: Sequence[Line]) -> list[Line]:
    if len(page) < _FEWEST_LINES:
        return []
    if any(line.box is None for line in page):
        return [*page[:_EDGE_LINES], *page[-_EDGE_LINES:]]
    tops = sorted({round(line.box[1], 2) for line in page if line.box})
    heights = {*tops[:_EDGE_LINES], *tops[-_EDGE_LINES:]}
    return [line for line in page if line.box and round(line.box[1], 2) in heights]


def _keys(line: Line, number: int) -> tuple[str, ...]:
    """Return a running line's features common to several pages: the words, or a page-counting number."""
    digits = _NUMBER.search(line.text)
    if digits is None:
        return (line.text,)
    return line.text, f"{_NUMBER.sub('#', line.text)} from {int(digits[0]) - number}"


def _heading_levels(pages: Sequence[Sequence[Line]]) -> dict[float, int]:
    weights: Counter[float] = Counter()
    for page in pages:
        for line in page:
            weights[line.size] += len(line.text)
    body = max(weights, key=lambda size: weights[size], default=0.0)
    larger = sorted((size for size in weights if body and size >= body * _HEADING_RATIO), reverse=True)
    return {size: min(level, 6) for level, size in enumerate(larger, start=1)}


class _Paragraph(NamedTuple):
    """A paragraph, or a heading if the level isn't 0, and its position (see `Block`)."""

    level: int
    text: str
    box: Box | None
    areas: tuple[Area, ...]


def _paragraphs(lines: Sequence[Line], levels: dict[float, int]) -> Iterator[_Paragraph]:
    pitch = _usual_pitch(lines)
    run: list[Line] = []
    for line in lines:
        if run and _begins_another(run, line, pitch, levels):
            yield _finish_paragraph(run, levels)
            run = []
        run.append(line)
    if run:
        yield _finish_paragraph(run, levels)


def _usual_pitch(lines: Sequence[Line]) -> float:
    pitches = sorted(
        above.bottom - line.bottom
        for above, line in pairwise(lines)
        if line.size == above.size and above.bottom > line.bottom
    )
    return pitches[len(pitches) // 4] if pitches else 0.0


def _finish_paragraph(run: Sequence[Line], levels: dict[float, int]) -> _Paragraph:
    text = join_lines([line.text for line in run])
    level = levels.get(run[0].size, 0) if len(text) <= _HEADING_CHARACTERS else 0
    box = join_boxes([line.box for line in run])
    return _Paragraph(level, text, box, () if box is None else _areas(run))


def _areas(run: Sequence[Line]) -> tuple[Area, ...]:
    """Return a paragraph's areas by column, long areas in parts for passages; empty if `box` is enough."""
    columns: list[list[Line]] = [[]]
    for number, line in enumerate(run):
        if number and (_went_up(run[number - 1], line) or len(columns[-1]) == _AREA_LINES):
            columns.append([])
        columns[-1].append(line)
    if len(run) <= 2 * _AREA_LINES and not any(_went_up(*pair) for pair in pairwise(run)):
        return ()
    areas: list[Area] = []
    start = 0
    for column, after in zip(columns, [*columns[1:], [Line("")]], strict=True):
        if (box := join_boxes([line.box for line in column])) is not None:
            areas.append((start, box))
        # Whether a hyphenated word continues depends on both lines.
        first = one_line(after[0].text)
        start += len(one_line(join_lines([*(line.text for line in column), first]))) - len(first)
    return tuple(areas)


def _went_up(last: Line, line: Line) -> bool:
    """Return whether a line is above the previous line, as at the start of the next column."""
    return line.bottom > last.top


def _begins_another(run: Sequence[Line], line: Line, pitch: float, levels: dict[float, int]) -> bool:
    last = run[-1]
    sizes = sorted((line.size, last.size))
    if levels.get(line.size) != levels.get(last.size) or sizes[1] > sizes[0] * _SAME_SIZE or _BULLET.match(line.text):
        return True
    # Up to double spacing, lines as close as the page's closest lines belong together.
    if last.bottom - line.bottom > max(line.size * 1.6, min(pitch * 1.2, line.size * 2.4)):
        return True
    ends = last.text.endswith(_SENTENCE_ENDS)
    longest = max(len(each.text) for each in run[-20:])
    return ends and (_went_up(last, line) or len(last.text) < longest * 0.75)
