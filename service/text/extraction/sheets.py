"""Workbooks, read row by row: values as last calculated, never formulas, never linked workbooks.

Of Excel's own format, what is kept beside the cells follows each sheet: comments, text boxes, charts, and what is
printed above and below.
"""

import datetime as dt
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any

from openpyxl import load_workbook
from openpyxl.packaging.relationship import get_dependents
from openpyxl.utils.exceptions import InvalidFileException
from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum

from carrel.wire.formats import NotReadKind
from service.text.extraction import drawings
from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.excel97 import add_beside_cells_97
from service.text.extraction.failures import corrupt_file, damaged_file, encrypted_file
from service.text.extraction.opendocument import add_beside_cells
from service.text.extraction.packages import as_document, note_entry
from service.text.extraction.tabular import TableWriter

# Errors of XML parsers are SyntaxErrors.
_BROKEN = (KeyError, ValueError, TypeError, AttributeError, IndexError, SyntaxError, InvalidFileException)
# Excel allows 31; what a file claims is shortened.
_NAME_CHARACTERS = 100
_MIDNIGHT = dt.time()
# Headers and footers stand at the end of a sheet's part, with codes for fonts, dates and page numbers.
_TAIL = 65_536
_PRINTED = re.compile(rb"<(?:\w+:)?((?:odd|even|first)(?:Header|Footer))(?: [^>]*)?>([^<]+)<")
_UNREAD_SHEET = re.compile(r"xl/(?:macrosheets|dialogsheets)/[^/]+\.xml")
_UNREAD_KINDS = (SheetTypeEnum.MacroSheet, SheetTypeEnum.DialogSheet, SheetTypeEnum.Vba)


def parse_xlsx(path: Path, builder: BlockBuilder) -> str | None:
    """Add a workbook's sheets, each under its name."""
    # Given a path, openpyxl would judge it by its suffix.
    with as_document(path) as file:
        try:
            workbook = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        except (*_BROKEN, zipfile.BadZipFile) as error:
            refusal = damaged_file("an Excel workbook", error)
            if refusal.code != "file_corrupt":
                raise refusal from error
            return _add_cells_alone(path, builder)
        try:
            for number, sheet in enumerate(workbook.worksheets, start=1):
                # A declared size is a claim: one stray cell would otherwise pad every row to 16,384.
                sheet.reset_dimensions()
                _add_sheet(str(sheet.title), sheet.iter_rows(values_only=True), builder)
                _add_beside(workbook, sheet, builder, f"sheet {number}")
        except (*_BROKEN, zipfile.BadZipFile) as error:
            raise damaged_file("an Excel workbook", error) from error
        _leave_out_sheets(path, builder)
        return workbook.properties.title


def _add_cells_alone(path: Path, builder: BlockBuilder) -> None:
    """Add the cells of a workbook of which the rest can't be read, such as styles that no program but its own knows."""
    parse_other_sheets("an Excel workbook")(path, builder)
    builder.tells_rest = False


def _leave_out_sheets(path: Path, builder: BlockBuilder) -> None:
    with zipfile.ZipFile(path) as archive:
        builder.leave_out(NotReadKind.SHEET, count=sum(map(bool, map(_UNREAD_SHEET.fullmatch, archive.namelist()))))


def parse_other_sheets(kind: str) -> Callable[[Path, BlockBuilder], None]:
    """Return a reader of workbooks of an older or another program, which errors call `kind`; they have no title."""

    def parse(path: Path, builder: BlockBuilder) -> None:
        try:
            with CalamineWorkbook.from_path(str(path)) as workbook:  # pyright: ignore[reportUnknownMemberType]
                for number, sheet in enumerate(workbook.sheets_metadata):
                    if sheet.typ == SheetTypeEnum.WorkSheet:
                        _add_sheet(sheet.name, workbook.get_sheet_by_index(number).iter_rows(), builder)
                    elif sheet.typ in _UNREAD_KINDS:
                        builder.leave_out(NotReadKind.SHEET)
        except PasswordError as error:
            raise encrypted_file(kind) from error
        except (CalamineError, OSError, ValueError) as error:
            raise corrupt_file(kind) from error
        if kind == "OpenDocument sheets":
            with zipfile.ZipFile(path) as archive:
                add_beside_cells(archive, builder)
        elif kind == "Excel 97":
            add_beside_cells_97(path, builder)

    return parse


def _add_sheet(name: str, rows: Iterable[Sequence[Any]], builder: BlockBuilder) -> None:
    builder.sheet = one_line(name)[:_NAME_CHARACTERS]
    table = TableWriter(builder, numbered=True)
    named = False
    for row in rows:
        cells = _trim(row)
        if cells and not named:
            builder.heading(name, 1)
            named = True
        table.row(cells)
    table.close()


def _add_beside(workbook: Any, sheet: Any, builder: BlockBuilder, where: str) -> None:
    """Add a sheet's comments, text boxes, charts, diagrams, headers and footers."""
    # openpyxl doesn't read them when it reads row by row; it keeps the archive and the part's name.
    archive, part = workbook._archive, sheet._worksheet_path  # noqa: SLF001
    relations = [*_related(archive, part)]
    for _, kind, target in relations:
        if kind in {"comments", "threadedComment"}:
            for text in drawings.comment_texts(drawings.read_part(archive.read(target))):
                builder.paragraph(text)
        elif kind == "drawing":
            _add_drawing(archive, target, builder, where)
        elif kind == "vmlDrawing":
            for _, inner, picture in _related(archive, target):
                if inner == "image":
                    note_entry(archive, picture, builder, where, is_preview=True)
    drawings.leave_out_related((each[1:] for each in relations), builder, where)
    printed = (
        drawings.without_print_codes(unescape(text.decode(errors="replace"))) for text in _printed(archive, part)
    )
    for text in dict.fromkeys(printed):
        builder.paragraph(text)


def _add_drawing(archive: zipfile.ZipFile, part: str, builder: BlockBuilder, where: str) -> None:
    root = drawings.read_part(archive.read(part))
    for text in drawings.paragraph_texts(root):
        builder.paragraph(text)
    relations = [*_related(archive, part)]
    parts = {identity: target for identity, _, target in relations}
    drawings.note_pictures(root, builder, where, archive=archive, names=parts.get, known=set())
    drawings.leave_out_related((each[1:] for each in relations), builder, where)
    for identity in drawings.graphics(root):
        if identity in parts:
            drawings.add_graphic(archive.read(parts[identity]), builder)


def _related(archive: zipfile.ZipFile, part: str) -> Iterator[tuple[str, str, str]]:
    """Yield identity, kind and name of each part of the archive that a part refers to."""
    names = frozenset(archive.namelist())
    folder, _, name = part.rpartition("/")
    relations = f"{folder.lstrip('/')}/_rels/{name}.rels"
    if relations not in names:
        return
    for relation in get_dependents(archive, relations):
        if relation.Id and relation.TargetMode != "External" and relation.Target in names:
            yield relation.Id, relation.Type.rpartition("/")[2], relation.Target


def _printed(archive: zipfile.ZipFile, part: str) -> list[bytes]:
    tail = b""
    with archive.open(part) as file:
        while data := file.read(_TAIL):
            tail = (tail + data)[-_TAIL:]
    return [text for _, text in _PRINTED.findall(tail)]


def _trim(row: Sequence[Any]) -> list[str]:
    last = next((column for column in range(len(row), 0, -1) if row[column - 1] not in {None, ""}), 0)
    return [_text(value) for value in row[:last]]


def _text(value: Any) -> str:
    """Return a cell's value as people read it: 3 for 3.0, a date for midnight of that day, 30:00:00 for 30 hours."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, dt.datetime):
        day = value.time() == _MIDNIGHT
        return value.date().isoformat() if day else value.isoformat(" ", "seconds" if value.second else "minutes")
    if isinstance(value, dt.timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    # Some old files say that a character has one byte and store two.
    return str(value).replace("\0", "")
