"""Formatting of sizes, times and untrusted text for people."""

import html
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from flows.operations.formatting import count_text

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# Joiners shape letters and emoji; other characters of these categories are invisible, or change how text is read.
_JOINERS, _UNSEEN = frozenset("\u200c\u200d"), frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_TURNS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))
_UNITS = ((365 * _DAY, "year"), (30 * _DAY, "month"), (_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"))


def one_line(text: str) -> str:
    """Return untrusted text without line breaks, control characters, and marks that reverse direction."""
    kept = (char if char in _JOINERS or unicodedata.category(char) not in _UNSEEN else " " for char in text)
    return " ".join("".join(kept).split())


def count_of(part: int, whole: int, noun: str) -> str:
    """Return a part of a number in words: 1 of 3 documents; if complete: 3 documents."""
    return count_text(whole, noun) if part == whole else f"{part:,} of {count_text(whole, noun)}"


def escape(text: str) -> str:
    """Return untrusted text as HTML, without direction marks that affect the following text."""
    return html.escape(text.translate(_TURNS))


def isolate(text: str) -> str:
    """Return text as HTML for a line shared with texts of another direction."""
    is_turned = any(unicodedata.bidirectional(char) in {"R", "AL"} for char in text)
    return f"<bdi>{escape(text)}</bdi>" if is_turned else escape(text)


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} …"


def browser_zone() -> ZoneInfo:
    """Return the time zone of the person's browser, used for counting days; UTC if the zone is missing or unknown."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return ZoneInfo("UTC")


def days_back(days: int, *, monday: bool = False) -> datetime:
    """Return the browser's midnight at the start of the last `days` days with today, or of the Monday before."""
    today = datetime.now(browser_zone()).replace(hour=0, minute=0, second=0, microsecond=0)
    begin = today - timedelta(days=days - 1)
    return begin - timedelta(days=begin.weekday()) if monday else begin


def moment(at: datetime | None) -> str:
    """Return a time to the minute, by the clock of the browser's time zone; empty for None."""
    return "" if at is None else f"{at.astimezone(browser_zone()):%d %b %Y, %H:%M %Z}"


def ago(at: datetime | None, *, now: datetime | None = None) -> str:
    """Return the time since a moment, or until it: 3 hours ago, in 2 days, just now; for None: never."""
    if at is None:
        return "never"
    apart = at - (now or datetime.now(UTC))
    # Round times ahead to the nearest unit, so that a new expiry in 30 days isn't shown as 29; round past times down.
    distance = _span(apart, as_int=round) if apart > timedelta(0) else _span(-apart, as_int=int)
    if distance is None:
        return "just now"
    return f"in {distance}" if apart > timedelta(0) else f"{distance} ago"


def size(count: int) -> str:
    """Return a number of bytes: 12 KiB, 3.4 MiB."""
    if count < 1024:
        return count_text(count, "byte")
    amount = count / 1024
    for unit in ("KiB", "MiB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _span(apart: timedelta, *, as_int: Callable[[float], int]) -> str | None:
    seconds = apart.total_seconds()
    for unit, name in _UNITS:
        if seconds >= unit:
            return count_text(as_int(seconds / unit), name)
    return None
