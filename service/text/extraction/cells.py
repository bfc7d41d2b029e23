# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# xlfmt and openpyxl are typed in part.
"""The text shown in a workbook's cell, by its number format, followed by the stored value."""

import datetime as dt
import re
from functools import lru_cache

from openpyxl.styles.numbers import is_date_format, is_timedelta_format
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel
from xlfmt import format_value

GENERAL = "General"
_LONGEST_FORMAT = 255
_DOT = re.compile(r'"[^"]*"|\\.|(\.)(?!0)')
_LAST_ZEROS = re.compile(r"(\.\d*?)0+$")


@lru_cache(maxsize=10_000)
def show_number(value: float, form: str = GENERAL, *, is_1904: bool = False) -> str:
    """Return a number as formatted and, if different, the number or ISO date in brackets."""
    stored = f"{value:.15g}"
    try:
        is_date = is_date_format(form)
        # The library drops dots in dates unless they are marked as text.
        code = _DOT.sub(lambda match: "\\." if match[1] else match[0], form) if is_date else form
        shown = " ".join(str(format_value(value, code[:_LONGEST_FORMAT], date1904=is_1904)).split())
        if is_timedelta_format(form):
            return shown
        if is_date:
            epoch = CALENDAR_MAC_1904 if is_1904 else CALENDAR_WINDOWS_1900
            stored = _moment(from_excel(value, epoch)) if value >= 0 else stored
    except Exception:  # noqa: BLE001 - the number says what the cell says
        return stored
    if form == GENERAL and "E" not in shown:
        return shown
    return with_stored("" if shown.startswith("###") else shown, stored)


def with_stored(shown: str, stored: str) -> str:
    first = _LAST_ZEROS.sub(r"\1", shown.partition(" ")[0]).rstrip(".")
    says_it = stored in {"", shown, first} or shown.startswith((f"{stored} ", f"{stored}:"))
    return shown if says_it else f"{shown} ({stored})".strip()


def show_text(text: str, form: str) -> str:
    """Return a text as formatted; the format may add words around it."""
    if "@" not in form or form == "@":
        return text
    try:
        return str(format_value(text, form[:_LONGEST_FORMAT]))
    except Exception:  # noqa: BLE001 - the text says what the cell says
        return text


def _moment(moment: dt.datetime | dt.date | dt.time | dt.timedelta | None) -> str:
    if isinstance(moment, dt.datetime):
        day = moment.time() == dt.time()
        return moment.date().isoformat() if day else moment.isoformat(" ", "seconds" if moment.second else "minutes")
    return "" if moment is None else str(moment)
