"""What a workbook of before 2007 ([MS-XLS]) keeps beside its cells: comments, text boxes, titles in charts, headers."""

import struct
from collections.abc import Iterator
from pathlib import Path

from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.compound import read_streams, refuse_damaged
from service.text.extraction.drawings import without_print_codes

_SHEET, _HEADER, _FOOTER, _CONTINUE, _BOX, _CHART_TEXT = 0x85, 0x14, 0x15, 0x3C, 0x1B6, 0x100D
_WIDE, _RICH, _EXTENDED = 0x1, 0x8, 0x4


def add_beside_cells_97(path: Path, builder: BlockBuilder) -> None:
    """Add the texts beside the cells of each sheet, each text once; a workbook of before Excel 97 has none here."""
    with refuse_damaged("an Excel 97 workbook"):
        data = read_streams(path, "Workbook")[0].get("Workbook", b"")
    sheets: dict[int, str] = {}
    found: dict[tuple[str | None, str], None] = {}
    sheet, rest = None, 0
    for place, kind, record in _records(data):
        sheet = sheets.get(place, sheet)
        if kind == _SHEET:
            sheets[int.from_bytes(record[:4], "little")] = one_line(_string(record[6:7] + b"\0" + record[7:]))
        elif kind in {_HEADER, _FOOTER}:
            found[sheet, without_print_codes(_string(record))] = None
        elif kind == _CHART_TEXT:
            found[sheet, _string(record[2:3] + b"\0" + record[3:])] = None
        elif kind == _CONTINUE and rest:
            found[sheet, _string(rest.to_bytes(2, "little") + record)] = None
        rest = int.from_bytes(record[10:12], "little") if kind == _BOX else 0
    for builder.sheet, text in found:
        builder.paragraph(text)
    builder.sheet = None


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the place, the kind and the content of each record."""
    place = 0
    while place + 4 <= len(data):
        kind, size = struct.unpack_from("<2H", data, place)
        yield place, kind, data[place + 4 : place + 4 + size]
        place += 4 + size


def _string(data: bytes) -> str:
    """Return a text that begins with its length, in two bytes, and how it is written, in one."""
    if len(data) < 4:
        return ""
    count, form = struct.unpack_from("<HB", data)
    start = 3 + (2 if form & _RICH else 0) + (4 if form & _EXTENDED else 0)
    return (
        data[start : start + 2 * count].decode("utf-16-le", "replace")
        if form & _WIDE
        else (data[start : start + count].decode("latin-1"))
    )
