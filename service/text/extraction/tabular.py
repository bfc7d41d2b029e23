"""Making blocks of table rows: each names its columns, so that it can be understood alone."""

import re
from collections.abc import Sequence

from service.text.extraction.building import BlockBuilder, one_line

_NUMBER = re.compile(r"[-+(]?[\d.,:/%€$£ ()-]{1,40}")
_LONGEST_HEADER = 120


class TableWriter:
    """Adds the rows of one table to a builder, in order.

    The header is the first row with at least two cells that is all words and has rows below it, or the row that the
    caller marks. A row of one cell before it (a caption) is a paragraph. A `numbered` table tells the number of each
    row, as programs show it: the caller adds the empty rows, too.
    """

    def __init__(self, builder: BlockBuilder, *, page: int | None = None, numbered: bool = False) -> None:
        self._builder = builder
        self._page = page
        self._numbered = numbered
        self._number = 0
        self._header: list[str] | None = None
        self._candidate: list[str] | None = None
        self._candidate_number = 0

    def row(self, cells: Sequence[str], *, header: bool = False) -> None:
        """Add the next row; `header` when the file itself marks it as one."""
        self._number += 1
        values = [one_line(cell) for cell in cells]
        if not any(values):
            return
        if self._candidate is not None:
            self._header, self._candidate = self._candidate, None
        if self._header is not None:
            self._write(values, self._number)
        elif header or _looks_like_header(values):
            self._candidate, self._candidate_number = values, self._number
        elif sum(map(bool, values)) == 1:
            self._builder.paragraph("".join(values), page=self._page)
        else:
            self._header = []
            self._write(values, self._number)

    def close(self) -> None:
        """End the table; a presumed header without rows below it is added as a row."""
        if self._candidate is not None:
            self._header, row = [], self._candidate
            self._write(row, self._candidate_number)

    def _write(self, values: Sequence[str], number: int) -> None:
        header = self._header or []
        parts = [
            f"{header[column]}: {value}" if column < len(header) and header[column] else value
            for column, value in enumerate(values)
            if value
        ]
        rows = (number, number) if self._numbered else None
        self._builder.table_row(" | ".join(parts), page=self._page, rows=rows)


def _looks_like_header(values: Sequence[str]) -> bool:
    filled = [value for value in values if value]
    return (
        len(filled) >= 2
        and len(filled) * 2 >= len(values)
        and len(set(filled)) == len(filled)
        and all(len(value) <= _LONGEST_HEADER and not _NUMBER.fullmatch(value) for value in filled)
    )
