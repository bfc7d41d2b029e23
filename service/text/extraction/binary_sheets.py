"""Binary workbooks ([MS-XLSB]): cells and their formats, from records."""

import struct
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from openpyxl.styles.numbers import BUILTIN_FORMATS

from carrel.wire.formats import NotReadKind
from service.text.extraction.archives import open_archive
from service.text.extraction.building import BlockBuilder
from service.text.extraction.cells import GENERAL, show_number, show_text
from service.text.extraction.failures import corrupt_file
from service.text.extraction.packages import find_main_part, read_title, read_undamaged, related
from service.text.extraction.sheets import ERRORS, add_sheet

_SHEET, _PROPERTIES, _SHARED, _FORMAT, _STYLE, _STYLES, _ROW, _BEGIN, _END = 156, 153, 19, 44, 47, 617, 0, 129, 130
_RK, _ERROR, _BOOL, _REAL, _TEXT, _SHARED_TEXT, _RICH = 2, 3, 4, 5, 6, 7, 62
# The values that formulas had when they were last calculated.
_FORMULAS = {8: _TEXT, 9: _REAL, 10: _BOOL, 11: _ERROR}
_UNREAD = ("xlMacrosheet", "xlIntlMacrosheet", "dialogsheet")


def parse_xlsb(path: Path, builder: BlockBuilder) -> str | None:
    """Add the sheets of a binary workbook, each under its name."""
    with open_archive(path) as archive:
        main = find_main_part(archive)
        parts = {identity: (kind, name) for identity, kind, name in related(archive, main)}
        named = dict(parts.values())

        def read(part: str, what: str) -> bytes:
            return read_undamaged(archive, part, tell=partial(builder.skip, what))

        texts, forms = list[str](), list[str]()
        with builder.refinement("shared texts of the workbook"):
            shared = read(named.get("sharedStrings", ""), "rest of the shared texts")
            texts.extend(_text(record, 1)[0] for kind, record in _records(shared) if kind == _SHARED)
        with builder.refinement("styles of the workbook"):
            forms = _read_forms(read(named.get("styles", ""), "rest of the styles"))
        is_1904, number = False, 0
        for kind, record in _records(read(main, "rest of the workbook")):
            if kind == _PROPERTIES:
                is_1904 = bool(record[0] & 1)
            elif kind == _SHEET:
                identity, end = _text(record, 8)
                kind_of_sheet, part = parts.get(identity, ("", ""))
                if kind_of_sheet in _UNREAD:
                    builder.leave_out(NotReadKind.SHEET)
                    continue
                number += 1
                with builder.refinement(f"rest of sheet {number}"):
                    damage = list[Exception]()
                    content = read_undamaged(archive, part, tell=damage.append)
                    add_sheet(_text(record, end)[0], _read_rows(content, texts, forms, is_1904=is_1904), builder)
                    kinds = {kind for kind, _ in _records(content)}
                    if damage or (_BEGIN in kinds) != (_END in kinds) or kinds.isdisjoint({_BEGIN, _ROW}):
                        raise corrupt_file("a sheet") from next(iter(damage), None)
        return read_title(archive)


def _read_forms(data: bytes) -> list[str]:
    forms: dict[int, str] = dict(BUILTIN_FORMATS)
    used: list[str] = []
    for kind, record in _records(data):
        if kind == _FORMAT:
            forms[int.from_bytes(record[:2], "little")] = _text(record, 2)[0]
        elif kind == _STYLES:
            used.clear()
        elif kind == _STYLE:
            used.append(forms.get(int.from_bytes(record[2:4], "little"), GENERAL))
    return used


def _read_rows(
    data: bytes, texts: list[str], forms: list[str], *, is_1904: bool
) -> Iterator[tuple[int, Mapping[int, str]]]:
    """Yield the number of each row, from 1, and its cells by their columns, from 0."""
    row, cells = 0, dict[int, str]()
    for kind, record in _records(data):
        if kind == _ROW:
            yield row, cells
            row, cells = int.from_bytes(record[:4], "little") + 1, {}
        elif (_RK <= kind <= max(_FORMULAS) or kind == _RICH) and len(record) > 8:
            column, style = struct.unpack_from("<2I", record)
            style &= 0xFFFFFF
            form = forms[style] if style < len(forms) else GENERAL
            value = _read_value(_FORMULAS.get(kind, kind), record[8:], texts)
            is_text = isinstance(value, str)
            cells[column] = show_text(value, form) if is_text else show_number(value, form, is_1904=is_1904)
    yield row, cells


def _read_value(kind: int, value: bytes, texts: list[str]) -> float | str:
    number = int.from_bytes(value[:4], "little")
    if kind in {_REAL, _RK}:
        return float(struct.unpack_from("<d", value)[0]) if kind == _REAL else _unpack_rk(number)
    if kind in {_BOOL, _ERROR}:
        return ERRORS.get(value[0], "") if kind == _ERROR else str(bool(value[0])).upper()
    if kind == _SHARED_TEXT:
        return texts[number] if number < len(texts) else ""
    return _text(value, 1 if kind == _RICH else 0)[0]


def _unpack_rk(number: int) -> float:
    """Return a number in 30 bits: a whole number, or the upper half of a float, and perhaps times 100."""
    whole = (number >> 2) - (1 << 30 if number >> 31 else 0)
    value = float(whole) if number & 2 else struct.unpack("<d", ((number & ~3) << 32).to_bytes(8, "little"))[0]
    return value / 100 if number & 1 else value


def _text(record: bytes, place: int) -> tuple[str, int]:
    end = place + 4 + 2 * int.from_bytes(record[place : place + 4], "little")
    return record[place + 4 : end].decode("utf-16-le", "replace"), end


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the content of each record; both kind and size are written in groups of seven bits."""
    place = 0
    while place < len(data):
        numbers = [0, 0]
        for each, most in enumerate((2, 4)):
            for shift in range(0, 7 * most, 7):
                part = data[place] if place < len(data) else 0
                place += 1
                numbers[each] |= (part & 0x7F) << shift
                if part < 0x80:
                    break
        kind, size = numbers
        yield kind, data[place : place + size]
        place += size
