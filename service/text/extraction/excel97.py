"""The texts outside a workbook's cells before 2007 ([MS-XLS]): comments, text boxes, chart titles, headers."""

import io
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import xlrd

from carrel.wire.formats import NotReadKind
from service.text.extraction import compound
from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.cells import GENERAL, show_number, show_text
from service.text.extraction.compound import read_compound
from service.text.extraction.drawings import without_print_codes
from service.text.extraction.failures import corrupt_file, encrypted_file
from service.text.extraction.sheets import ERRORS, add_sheet

_SHEET, _HEADER, _FOOTER, _CONTINUE, _BOX, _CHART_TEXT = 0x85, 0x14, 0x15, 0x3C, 0x1B6, 0x100D
# Macro sheets and Visual Basic modules.
_UNREAD = (b"\x01", b"\x06")
# The records of all pictures and of a sheet's drawings.
_STORE, _DRAWN, _BEGIN, _END = 0xEB, 0xEC, 0x809, 0xA
_WIDE, _RICH, _EXTENDED = 0x1, 0x8, 0x4


def parse_xls(path: Path, builder: BlockBuilder) -> None:
    try:
        book = xlrd.open_workbook(
            str(path),
            logfile=io.StringIO(),
            formatting_info=True,
            on_demand=True,
            # Omits empty cells up to the last column with a format.
            ragged_rows=True,
            ignore_workbook_corruption=True,
        )
    except Exception as error:
        is_encrypted = "encrypted" in str(error).lower()
        raise (encrypted_file if is_encrypted else corrupt_file)("an Excel 97 workbook") from error
    for number, name in enumerate(book.sheet_names(), start=1):
        with builder.refinement(f"sheet {number}"):
            sheet = book.sheet_by_index(number - 1)
            rows = (enumerate(sheet.row(row)) for row in range(sheet.nrows))
            texts = ({column: _show(book, cell) for column, cell in row} for row in rows)
            add_sheet(name, enumerate(texts, start=1), builder)
            book.unload_sheet(number - 1)
    with builder.refinement("comments, headers and pictures of the workbook"):
        _add_beside_cells(path, builder)


def _show(book: Any, cell: Any) -> str:
    style = book.xf_list[cell.xf_index] if cell.xf_index is not None and cell.xf_index < len(book.xf_list) else None
    form = book.format_map.get(style.format_key) if style is not None else None
    code = form.format_str if form is not None else GENERAL
    if cell.ctype in {xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE}:
        return show_number(cell.value, code, is_1904=bool(book.datemode))
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    if cell.ctype == xlrd.XL_CELL_ERROR:
        return ERRORS.get(cell.value, "")
    # Some old files claim one byte a character and store two.
    return show_text(cell.value.replace("\0", ""), code)


def _add_beside_cells(path: Path, builder: BlockBuilder) -> None:
    """Add the texts outside the cells of each sheet, each text once. Workbooks from before Excel 97 have none."""
    file = read_compound(path, "Workbook")
    data = file.streams.get("Workbook", b"")
    sheets: dict[int, str] = {}
    found: dict[tuple[str | None, str], None] = {}
    sheet, rest = None, 0
    for place, kind, record in _read_records(data):
        sheet = sheets.get(place, sheet)
        if kind == _SHEET:
            builder.leave_out(NotReadKind.SHEET, count=record[5:6] in _UNREAD)
            sheets[int.from_bytes(record[:4], "little")] = one_line(_read_string(record[6:7] + b"\0" + record[7:]))
        elif kind in {_HEADER, _FOOTER}:
            found[sheet, without_print_codes(_read_string(record))] = None
        elif kind == _CHART_TEXT:
            found[sheet, _read_string(record[2:3] + b"\0" + record[3:])] = None
        elif kind == _CONTINUE and rest:
            found[sheet, _read_string(rest.to_bytes(2, "little") + record)] = None
        rest = int.from_bytes(record[10:12], "little") if kind == _BOX else 0
    for builder.sheet, text in found:
        builder.paragraph(text)
    builder.sheet = None
    _note_pictures(data, sheets, builder)
    objects = sum(len(folder) == 1 and folder[0].startswith("MBD") for folder in file.folders)
    builder.leave_out(NotReadKind.EMBEDDED, count=objects)


def read_stored_picture(path: Path, place: str) -> bytes:
    data = read_compound(path, "Workbook").streams["Workbook"]
    return compound.read_picture(_join_records(data, _STORE).get(0, b""), int(place))


def _note_pictures(data: bytes, sheets: Mapping[int, str], builder: BlockBuilder) -> None:
    store = b"".join(_join_records(data, _STORE).values())
    places = [
        place
        for kind, _, start, end in compound.walk(store, 0, len(store))
        if kind == compound.STORE
        for _, place in compound.find_stored(store, start, end)
    ]
    noted: set[int] = set()
    for begin, drawn in _join_records(data, _DRAWN).items() if places else ():
        builder.sheet = sheets.get(begin)
        for kind, count, start, _ in compound.walk(drawn, 0, len(drawn)):
            shown = compound.find_shown(drawn, start, count) if kind == compound.OPTIONS else 0
            if 0 < shown <= len(places) and shown not in noted:
                noted.add(shown)
                place = places[shown - 1]
                builder.picture(str(place), compound.read_picture(store, place))
    builder.sheet = None


def _join_records(data: bytes, wanted: int) -> dict[int, bytes]:
    """Return the joined records of a kind, for the workbook (key 0) and each sheet (key: its start position)."""
    parts: dict[int, list[bytes]] = {}
    begin = before = depth = 0
    for place, kind, record in _read_records(data):
        # Charts in a sheet are streams inside a stream.
        depth += (kind == _BEGIN) - (kind == _END)
        begin = place if kind == _BEGIN and depth == 1 else begin
        if kind == wanted or (kind == _CONTINUE and before == wanted):
            parts.setdefault(begin, []).append(record)
            before = wanted
        else:
            before = kind
    return {place: b"".join(each) for place, each in parts.items()}


def _read_records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    place = 0
    while place + 4 <= len(data):
        kind, size = struct.unpack_from("<2H", data, place)
        yield place, kind, data[place + 4 : place + 4 + size]
        place += 4 + size


def _read_string(data: bytes) -> str:
    if len(data) < 4:
        return ""
    count, form = struct.unpack_from("<HB", data)
    start = 3 + (2 if form & _RICH else 0) + (4 if form & _EXTENDED else 0)
    if form & _WIDE:
        return data[start : start + 2 * count].decode("utf-16-le", "replace")
    return data[start : start + count].decode("latin-1")
