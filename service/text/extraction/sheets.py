# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# lxml has no types of its own.
"""Workbooks as shown, row by row, as last calculated, without linked workbooks; Excel's comments and charts follow."""

import io
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from html import unescape as unescape_markup
from pathlib import Path
from typing import Any

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]
from openpyxl.formula.translate import Translator
from openpyxl.styles.numbers import BUILTIN_FORMATS
from openpyxl.utils.cell import column_index_from_string
from openpyxl.utils.escape import unescape

from carrel.wire.formats import NotReadKind
from service.text.extraction import drawings, packages
from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.cells import GENERAL, show_number, show_text
from service.text.extraction.failures import corrupt_file
from service.text.extraction.tabular import TableWriter

# Excel allows 31 characters; longer names are shortened.
_NAME_CHARACTERS = 100
MOST_COLUMNS = 16_384
_ERROR_NAMES = ["#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA"]
ERRORS: Mapping[int, str] = dict(zip((0, 7, 15, 23, 29, 36, 42, 43), _ERROR_NAMES, strict=True))
"""The errors shown in cells, by number."""
# A sheet's part ends with headers and footers, which contain codes for fonts, dates and page numbers.
_TAIL = 65_536
_PRINTED = re.compile(rb"<(?:\w+:)?((?:odd|even|first)(?:Header|Footer))(?: [^>]*)?>([^<]+)<")
_UNREAD_SHEET = re.compile(r"xl/(?:macrosheets|dialogsheets)/[^/]+\.xml")
_SHEET_PART = re.compile(r"xl/worksheets/[^/]+\.xml")
_PLACE = re.compile(r"([A-Za-z]{1,3})(\d+)")


@dataclass(frozen=True, slots=True)
class _Book:
    """The data behind a workbook's cells: texts, the number format of each style, and the day 0."""

    texts: list[str]
    forms: list[str]
    is_1904: bool


def parse_xlsx(path: Path, builder: BlockBuilder) -> str | None:
    with packages.open_archive(path) as archive:
        main = packages.find_main_part(archive)
        root = packages.read_damaged(packages.read_undamaged(archive, main))
        relations = {identity: (kind, name) for identity, kind, name in packages.related(archive, main)}
        named = dict(relations.values())
        dates = [] if root is None else [each.get("date1904") for each in root.iter("{*}workbookPr")]
        book = _Book([], [], is_1904=not {"1", "true"}.isdisjoint(dates))
        with builder.refinement("shared texts of the workbook"):
            part = named.get("sharedStrings", "xl/sharedStrings.xml")
            book.texts.extend(map(_join_parts, _iterate(archive, part, "si", builder, "rest of the shared texts")))
        with builder.refinement("styles of the workbook"):
            book.forms.extend(_read_forms(archive, named.get("styles", "xl/styles.xml")))
        sheets = [
            (each.get("name") or "", *relations.get(_identity(each), ("", "")))
            for each in ([] if root is None else root.iter("{*}sheet"))
        ]
        if not any(part for _, _, part in sheets):
            found = filter(_SHEET_PART.fullmatch, archive.namelist())
            sheets = [(Path(part).stem, "worksheet", part) for part in sorted(found)]
        sheets = [each for each in sheets if each[1] in {"worksheet", "chartsheet", ""}]
        for number, (name, _, part) in enumerate(sheets, start=1):
            label = f"sheet {number}"
            with builder.refinement(label):
                add_sheet(name, _read_rows(archive, part, book, builder, label), builder)
            _add_beside(archive, part, builder, label)
        if not sheets:
            raise corrupt_file("an Excel workbook")
        for _, _, part in () if builder.has_contents else sheets:
            with builder.refinement("sheets of the workbook"):
                drawings.read_part(packages.read_undamaged(archive, part))
        builder.leave_out(NotReadKind.SHEET, count=sum(map(bool, map(_UNREAD_SHEET.fullmatch, archive.namelist()))))
        return packages.read_title(archive)


def add_sheet(name: str, rows: Iterable[tuple[int, Mapping[int, str]]], builder: BlockBuilder) -> None:
    """Add the rows of a sheet under its name; each row has a number, from 1, and cells by column, from 0."""
    builder.sheet = one_line(name)[:_NAME_CHARACTERS]
    table = TableWriter(builder, numbered=True)
    named = False
    for number, cells in rows:
        filled = [column for column, text in cells.items() if text and column < MOST_COLUMNS]
        if filled and not named:
            builder.heading(name, 1)
            named = True
        table.row([cells.get(column, "") for column in range(max(filled, default=-1) + 1)], number=number)
    table.close()


def _identity(sheet: Any) -> str:
    return next((value for key, value in sheet.items() if key.endswith("}id")), "")


def _read_forms(archive: zipfile.ZipFile, part: str) -> Iterator[str]:
    root = packages.read_damaged(packages.read_undamaged(archive, part))
    if root is None:
        return
    forms = {str(number): form for number, form in BUILTIN_FORMATS.items()}
    forms |= {each.get("numFmtId"): each.get("formatCode") or GENERAL for each in root.iter("{*}numFmt")}
    for used in root.iterchildren("{*}cellXfs"):
        for each in used.iterchildren("{*}xf"):
            yield forms.get(each.get("numFmtId"), GENERAL)


def _join_parts(item: Any) -> str:
    parts = item.iterfind(".//{*}t")
    return unescape("".join(part.text or "" for part in parts if not part.getparent().tag.endswith("}rPh")))


def _iterate(archive: zipfile.ZipFile, part: str, name: str, builder: BlockBuilder, what: str) -> Iterator[Any]:
    """Yield elements of a part in order, up to any damage; each is freed when the next is read."""
    source = io.BytesIO(packages.read_main(archive, part, builder, what, name.encode()) or b"<nothing/>")
    options: Any = {"resolve_entities": False, "no_network": True, "recover": True}
    for _, element in etree.iterparse(source, tag=f"{{*}}{name}", **options):
        yield element
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]


def _read_rows(
    archive: zipfile.ZipFile, part: str, book: _Book, builder: BlockBuilder, label: str
) -> Iterator[tuple[int, Mapping[int, str]]]:
    shared: dict[str | None, tuple[str, str]] = {}
    number = 0
    for row in _iterate(archive, part, "row", builder, f"rest of {label}"):
        said = row.get("r") or ""
        number = int(said) if said.isdecimal() and len(said) < 8 else number + 1
        cells: dict[int, str] = {}
        for cell in row.iterchildren("{*}c"):
            place = _PLACE.fullmatch(cell.get("r") or "")
            column = column_index_from_string(place[1]) - 1 if place else max(cells, default=-1) + 1
            text = _show(cell, book)
            if text is None and (formula := cell.find("{*}f")) is not None:
                text = _formula(cell, formula, shared)
                builder.leave_out(NotReadKind.FORMULA, label)
            elif text is None and cell.get("t") == "s":
                builder.leave_out(NotReadKind.DETAIL, f"texts of {label}")
            cells[column] = text or ""
        yield number, cells


def _show(cell: Any, book: _Book) -> str | None:
    """Return a cell's text as shown, with the stored number; None without a value or its shared text."""
    kind, value, style = cell.get("t") or "n", cell.findtext("{*}v"), cell.get("s") or ""
    form = book.forms[int(style)] if style.isdecimal() and int(style) < len(book.forms) else GENERAL
    if kind == "inlineStr":
        return show_text("".join(map(_join_parts, cell.iterchildren("{*}is"))), form)
    if kind == "s":
        number = int(value) if value and value.isdecimal() else len(book.texts)
        return show_text(book.texts[number], form) if number < len(book.texts) else None
    if kind == "str" and value is not None:
        return show_text(unescape(value), form)
    if value and kind == "n":
        with suppress(ValueError):
            return show_number(float(value), form, is_1904=book.is_1904)
    names = {"b": {"1": "TRUE", "0": "FALSE"}}.get(kind, {})
    return names.get(value, value.replace("T", " ") if kind == "d" else value) if value else None


def _formula(cell: Any, formula: Any, shared: dict[str | None, tuple[str, str]]) -> str:
    """Return an uncalculated formula; only the first cell of a shared formula contains it."""
    place, text = cell.get("r") or "A1", f"={unescape(formula.text or '')}"
    if formula.get("t") == "shared":
        if formula.text:
            shared[formula.get("si")] = place, text
        elif formula.get("si") in shared:
            origin, text = shared[formula.get("si")]
            text = str(Translator(text, origin).translate_formula(place))
    return text


def _add_beside(archive: zipfile.ZipFile, part: str, builder: BlockBuilder, label: str) -> None:
    relations = [*packages.related(archive, part)]
    for _, kind, target in relations:
        with builder.refinement(f"comments and drawings of {label}"):
            if kind in {"comments", "threadedComment"}:
                root = drawings.read_part(packages.read_undamaged(archive, target))
                builder.paragraphs(drawings.comment_texts(root))
            elif kind == "drawing":
                _add_drawing(archive, target, builder, label)
            elif kind == "vmlDrawing":
                for _, inner, picture in packages.related(archive, target):
                    if inner == "image":
                        packages.note_entry(archive, picture, builder, label, is_preview=True)
    drawings.leave_out_related((each[1:] for each in relations), builder, label)
    printed = (
        drawings.without_print_codes(unescape_markup(text.decode(errors="replace"))) for text in _headers(archive, part)
    )
    builder.paragraphs(dict.fromkeys(printed))


def _add_drawing(archive: zipfile.ZipFile, part: str, builder: BlockBuilder, label: str) -> None:
    root = drawings.read_part(packages.read_undamaged(archive, part))
    builder.paragraphs(drawings.paragraph_texts(root))
    relations = [*packages.related(archive, part)]
    parts = {identity: target for identity, _, target in relations}
    drawings.note_pictures(root, builder, label, archive=archive, names=parts.get, known=set())
    drawings.leave_out_related((each[1:] for each in relations), builder, label)
    for identity in drawings.find_graphics(root):
        if identity in parts:
            drawings.add_graphic(packages.read_undamaged(archive, parts[identity]), builder)


def _headers(archive: zipfile.ZipFile, part: str) -> list[bytes]:
    tail = b""
    with suppress(*packages.DAMAGED, LookupError), archive.open(part) as file:
        while data := file.read(_TAIL):
            tail = (tail + data)[-_TAIL:]
    return [text for _, text in _PRINTED.findall(tail)]


_SHEET, _PROPERTIES, _SHARED, _FORMAT, _STYLE, _STYLES, _ROW, _BEGIN, _END = 156, 153, 19, 44, 47, 617, 0, 129, 130
_RK, _ERROR, _BOOL, _REAL, _TEXT, _SHARED_TEXT, _RICH = 2, 3, 4, 5, 6, 7, 62
# The last calculated values of formulas.
_FORMULAS = {8: _TEXT, 9: _REAL, 10: _BOOL, 11: _ERROR}
_UNREAD = ("xlMacrosheet", "xlIntlMacrosheet", "dialogsheet")


def parse_xlsb(path: Path, builder: BlockBuilder) -> str | None:
    with packages.open_archive(path) as archive:
        main = packages.find_main_part(archive)
        parts = {identity: (kind, name) for identity, kind, name in packages.related(archive, main)}
        named = dict(parts.values())

        def read(part: str, what: str) -> bytes:
            return packages.read_undamaged(archive, part, tell=partial(builder.skip, what))

        texts, forms = list[str](), list[str]()
        with builder.refinement("shared texts of the workbook"):
            shared = read(named.get("sharedStrings", ""), "rest of the shared texts")
            texts.extend(_text(record, 1)[0] for kind, record in _records(shared) if kind == _SHARED)
        with builder.refinement("styles of the workbook"):
            forms = _read_record_forms(read(named.get("styles", ""), "rest of the styles"))
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
                    content = packages.read_undamaged(archive, part, tell=damage.append)
                    add_sheet(_text(record, end)[0], _read_records(content, texts, forms, is_1904=is_1904), builder)
                    kinds = {kind for kind, _ in _records(content)}
                    if damage or (_BEGIN in kinds) != (_END in kinds) or kinds.isdisjoint({_BEGIN, _ROW}):
                        raise corrupt_file("a sheet") from next(iter(damage), None)
        return packages.read_title(archive)


def _read_record_forms(data: bytes) -> list[str]:
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


def _read_records(
    data: bytes, texts: list[str], forms: list[str], *, is_1904: bool
) -> Iterator[tuple[int, Mapping[int, str]]]:
    """Yield the number of each row, from 1, and its cells by column, from 0."""
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
    """Return a number in 30 bits: a whole number, or the upper half of a float, possibly times 100."""
    whole = (number >> 2) - (1 << 30 if number >> 31 else 0)
    value = float(whole) if number & 2 else struct.unpack("<d", ((number & ~3) << 32).to_bytes(8, "little"))[0]
    return value / 100 if number & 1 else value


def _text(record: bytes, place: int) -> tuple[str, int]:
    end = place + 4 + 2 * int.from_bytes(record[place : place + 4], "little")
    return record[place + 4 : end].decode("utf-16-le", "replace"), end


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
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
