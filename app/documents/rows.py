"""Passages of sheets and tables as small tables: each numbered row under the names of the columns."""

import html
from collections.abc import Sequence

from app.ui.passages import words_like
from carrel.wire.places import PassagePlace, Rows

_MOST_COLUMNS = 30
_BETWEEN, _NAMED = " | ", ": "


def rows_html(
    text: str, place: PassagePlace | None, *, marked: Sequence[str] | None = None, marks_all: bool = True
) -> str:
    """Return an HTML table, "" for other text. Rows with most `marked` words are marked, all only with `marks_all`."""
    if place is None or place.rows is None:
        return ""
    above, lines = _split_rows(text.splitlines(), place.rows)
    cells = [_cells_of(line) for line in lines]
    names = list(dict.fromkeys(name for row in cells for name in row))
    if not lines or not 1 <= len(names) <= _MOST_COLUMNS:
        return ""
    chosen = _choose_marked(lines, marked)
    chosen = chosen if marks_all or len(chosen) < len(lines) else frozenset[int]()
    # The text leaves out a sheet's empty rows.
    is_whole = len(lines) == place.rows.last - place.rows.first + 1
    numbers = [f"{place.rows.first + index:,}" if is_whole else "" for index in range(len(lines))]
    heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in ("Row" if is_whole else "", *names))
    body = "".join(
        _row_html(number, [row.get(name, "") for name in names], is_marked=index in chosen)
        for index, (number, row) in enumerate(zip(numbers, cells, strict=True))
    )
    told = "".join(f"<p>{html.escape(line)}</p>" for line in above)
    table = f'<table class="carrel-table"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f'{told}<div class="carrel-sheet">{table}</div>'


def _split_rows(lines: Sequence[str], rows: Rows) -> tuple[Sequence[str], Sequence[str]]:
    most = rows.last - rows.first + 1
    start = max(len(lines) - most, 0)
    while start < len(lines) and _NAMED not in lines[start]:
        start += 1
    return lines[:start], lines[start:]


def _cells_of(line: str) -> dict[str, str]:
    cells: dict[str, str] = {}
    for part in line.split(_BETWEEN):
        name, is_named, value = part.partition(_NAMED)
        name, value = (name, value) if is_named else ("", part)
        cells[name] = f"{cells[name]}{_BETWEEN}{value}" if name in cells else value
    return cells


def _choose_marked(lines: Sequence[str], marked: Sequence[str] | None) -> frozenset[int]:
    if marked is None:
        return frozenset()
    counts = [sum(bool(words_like(line, [word])) for word in marked) for line in lines]
    return frozenset(index for index, count in enumerate(counts) if count == max(counts))


def _row_html(number: str, cells: Sequence[str], *, is_marked: bool) -> str:
    bodies = (html.escape(cell) for cell in cells)
    shown = "".join(f"<td>{f'<mark>{body}</mark>' if is_marked and body else body}</td>" for body in bodies)
    return f'<tr><th scope="row">{number}</th>{shown}</tr>'
