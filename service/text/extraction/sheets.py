"""Excel workbooks, read row by row: values as last calculated, never formulas, never linked workbooks."""

import datetime as dt
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

# Decided here and not by whether defusedxml happens to be installed: archives.py refuses declarations already, expat
# bounds expansion by itself, and defusedxml's parser in Python takes three times as long.
os.environ.setdefault("OPENPYXL_DEFUSEDXML", "False")

from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import damaged_file
from service.text.extraction.office import usable_title
from service.text.extraction.tabular import TableWriter

_BROKEN = (KeyError, ValueError, TypeError, AttributeError, IndexError, ParseError, InvalidFileException)
_MIDNIGHT = dt.time()


def parse_xlsx(path: Path, builder: BlockBuilder) -> str | None:
    """Add a workbook's sheets, each under its name."""
    # Given a path, openpyxl would judge it by its suffix.
    with path.open("rb") as file:
        try:
            workbook = load_workbook(file, read_only=True, data_only=True, keep_links=False)
            for sheet in workbook.worksheets:
                _add_sheet(sheet, builder)
        except (*_BROKEN, zipfile.BadZipFile) as error:
            raise damaged_file("an Excel workbook", error) from error
        return usable_title(workbook.properties.title)


def _add_sheet(sheet: Any, builder: BlockBuilder) -> None:
    # A declared size is a claim: one stray cell would otherwise pad every row to 16,384.
    sheet.reset_dimensions()
    table = TableWriter(builder)
    named = False
    for row in sheet.iter_rows(values_only=True):
        cells = _trim(row)
        if cells and not named:
            builder.heading(str(sheet.title), 1)
            named = True
        table.row(cells)
    table.close()


def _trim(row: Sequence[Any]) -> list[str]:
    last = next((column for column in range(len(row), 0, -1) if row[column - 1] is not None), 0)
    return [_text(value) for value in row[:last]]


def _text(value: Any) -> str:
    """Return a cell's value as people read it: 3 for 3.0, a date for midnight of that day."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == _MIDNIGHT else value.isoformat(" ", "minutes")
    return str(value)
