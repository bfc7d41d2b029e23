"""Making blocks from table rows: each row names the columns, to be understandable alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from service.text.extraction.blocks import Box
from service.text.extraction.building import BlockBuilder, one_line

_NUMBER = re.compile(r"[-+(]?[\d.,:/%€$£ ()-]{1,40}")
_LONGEST_HEADER = 120
MOST_SPANNED = 50  # limit on the columns and rows a cell may span


@dataclass(frozen=True, slots=True)
class _Row:
    values: list[str]
    number: int
    page: int | None
    box: Box | None


class TableWriter:
    """Adds the rows of a table in order. The header is the row marked by the caller, or the first row of two or more
    cells, all words, with rows below. Earlier single cells (captions) are paragraphs. Several marked rows are joined,
    and so is a first row of a few cells over several columns. A `numbered` table numbers rows as programs do."""

    def __init__(self, builder: BlockBuilder, *, page: int | None = None, numbered: bool = False) -> None:
        self._builder = builder
        self._page = page
        self._numbered = numbered
        self._number = 0
        self._header: list[str] | None = None
        self._named: set[int] = set()
        self._candidate: _Row | None = None
        self._groups: _Row | None = None

    def row(
        self,
        cells: Sequence[str],
        *,
        header: bool = False,
        page: int | None = None,
        box: Box | None = None,
        number: int | None = None,
    ) -> None:
        """Add a row of cells; the default `number` is the next. `header`: the file marks the row as a header."""
        self._number = self._number + 1 if number is None else number
        row = _Row([one_line(cell) for cell in cells], self._number, self._page if page is None else page, box)
        if not any(row.values):
            return
        if self._candidate is not None and header:
            self._candidate = replace(row, values=_join_headers(self._candidate.values, row.values))
            return
        if self._candidate is not None:
            self._header, self._candidate = self._candidate.values, None
        if self._header is not None:
            self._write(row)
            return
        names = row.values if self._groups is None else _join_headers(_fill(self._groups.values), row.values)
        if header or _looks_like_header(names):
            self._candidate, self._groups = replace(row, values=names), None
            return
        groups, self._groups = self._groups, None
        if groups is not None:
            self._write(groups)
        if _looks_like_groups(row.values):
            self._groups = row
        elif sum(map(bool, row.values)) == 1:
            self._builder.paragraph("".join(row.values), page=row.page, box=box)
        else:
            self._header = []
            self._write(row)

    def close(self) -> None:
        """End the table, adding a presumed header without rows, and column names without values."""
        pending = self._candidate or self._groups
        if pending is not None:
            self._header = []
            self._write(pending)
        unused = [name for column, name in enumerate(self._header or ()) if name and column not in self._named]
        self._builder.table_row(" | ".join(unused), page=self._page)

    def _write(self, row: _Row) -> None:
        header, values = self._header or [], row.values
        # A table over several pages repeats its header on each page.
        if values == header:
            return
        # A merged cell repeats its value; keep it once when it exceeds the header.
        while header and len(values) > len(header) and values[-1] == values[-2]:
            values = values[:-1]
        self._named.update(column for column, value in enumerate(values) if value)
        parts = [
            f"{header[column]}: {value}" if column < len(header) and header[column] else value
            for column, value in enumerate(values)
            if value
        ]
        rows = (row.number, row.number) if self._numbered else None
        self._builder.table_row(" | ".join(parts), page=row.page, rows=rows, box=row.box)


def _looks_like_header(values: Sequence[str]) -> bool:
    filled = [value for value in values if value]
    return (
        len(filled) >= 2
        and len(filled) * 2 >= len(values)
        and len(set(filled)) == len(filled)
        # A cell that ends with a colon names the value beside it, not the values below.
        and not any(len(value) > _LONGEST_HEADER or value.endswith(":") or _NUMBER.fullmatch(value) for value in filled)
    )


def _looks_like_groups(values: Sequence[str]) -> bool:
    """Return whether a row may name groups of columns: several spaced cells, fewer than half of the columns."""
    filled = [column for column, value in enumerate(values) if value]
    return len(filled) >= 2 and all(after - before > 1 for before, after in pairwise(filled))


def _fill(values: Sequence[str]) -> list[str]:
    return list(accumulate(values, lambda before, value: value or before))


def _join_headers(above: Sequence[str], below: Sequence[str]) -> list[str]:
    """Return column names from two header rows, each once; the last name above also applies to later columns."""
    names: list[str] = []
    for column in range(max(len(above), len(below))):
        upper = above[min(column, len(above) - 1)] if above else ""
        lower = below[column] if column < len(below) else ""
        names.append(upper if lower in {"", upper} else f"{upper} {lower}".strip())
    return names


class Spans:
    """Repeats cells spanning several columns or rows of a table in each of them."""

    def __init__(self) -> None:
        self._below: dict[int, tuple[str, int]] = {}

    def place(self, cells: Sequence[tuple[str, int, int]]) -> list[str]:
        """Return the texts of the next row from cells (text, columns, rows). A cell filling its row appears once."""
        if len(cells) == 1 and not self._below:
            return [cells[0][0]]
        row: list[str] = []
        waiting = [(text, min(columns, MOST_SPANNED), rows) for text, columns, rows in reversed(cells)]
        below: dict[int, tuple[str, int]] = {}
        while waiting or len(row) in self._below:
            if len(row) in self._below:
                text, rows = self._below[len(row)]
                found = [(text, rows)]
            else:
                text, columns, rows = waiting.pop()
                found = [(text, rows)] * columns
            for text, rows in found:
                if rows > 1:
                    below[len(row)] = text, rows - 1
                row.append(text)
        self._below = below
        return row
