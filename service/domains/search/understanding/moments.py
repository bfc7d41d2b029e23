"""Periods named in a question ("since March 2024", "last year"), as days in UTC."""

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple

from carrel.wire.search import FilterOperator
from service.domains.search.understanding.folding import PATTERNS, WORDS

_MONTHS, _WORDS = WORDS["others"]["months"].split(), WORDS["others"]["numbers"].split()
_NAMES = {name[:length]: number for number, name in enumerate(_MONTHS, 1) for length in (3, len(name))} | {"sept": 9}
_NUMBERS = {name: number for number, name in enumerate(_WORDS, 1)}
_MONTH = "|".join(sorted(_NAMES, key=len, reverse=True))
_COUNT = rf"(?:\d{{1,3}}|{'|'.join(_NUMBERS)})"
_YEAR = r"(?:19|20)\d\d"
_UNIT = r"(?:day|week|month|year)"

_PARTS = {"month": _MONTH, "count": _COUNT, "year": _YEAR, "unit": _UNIT, "until": "(?:to|until|till|through)"}
POINT = PATTERNS["point"] % _PARTS  # a point in time, in a line of folded words
MONTH_OR_DAY = PATTERNS["month_or_day"] % _PARTS
"""Pattern of a point in time that takes its year from another: "January" of "between January and March 2025"."""
PERIOD = PATTERNS["period"] % {**_PARTS, "point": POINT, "month_or_day": MONTH_OR_DAY}
"""Pattern of a period, in a line of folded words."""

_BARE = re.compile(r"today|yesterday|last |this |the |past ")


class Period(NamedTuple):
    """From a day (inclusive) until another (exclusive); None means open."""

    start: date | None
    end: date | None

    def bounds(self) -> list[tuple[FilterOperator, date]]:
        bounds = [(FilterOperator.GREATER_OR_EQUAL, self.start), (FilterOperator.LESS, self.end)]
        return [(operator, day) for operator, day in bounds if day is not None]


def read_period(match: re.Match[str], *, today: date) -> Period | None:
    """Read a match of PERIOD; None for an impossible day, an empty period, or words without a period."""
    try:
        period = _read(match.groupdict(), today)
    except (ValueError, OverflowError):
        return None
    if period is None or (period.start and period.end and period.start >= period.end):
        return None
    return period


def _read(groups: dict[str, str | None], today: date) -> Period | None:
    if groups["age"]:
        return Period(None, _count_back(groups["age"], today))
    if first := groups["first"] or groups["begin"]:
        last = groups["last"] or groups["finish"] or ""
        if re.fullmatch(MONTH_OR_DAY, first):  # "March to May 2024": the year is of both
            first = f"{first} {last.split()[-1]}"
        return Period(_point(first, today).start, _point(last, today).end)
    relation, named = groups["relation"], groups["point"] or ""
    point = _point(named, today)
    if relation is None and not _BARE.match(named):
        return None
    return _relate("since" if groups["onward"] else relation, point)


def _relate(relation: str | None, point: Period) -> Period | None:
    match relation:
        case "since" | "on or after":
            return Period(point.start, None)
        case "after" | "later than" | "newer than":
            return Period(point.end, None) if point.end else None
        case "before" | "earlier than" | "older than" | "prior to":
            return Period(None, point.start)
        case "until" | "up to" | "on or before":
            return Period(None, point.end) if point.end else None
        case _:
            return point


def _point(text: str, today: date) -> Period:
    """Read a point in time: a day, week, month, quarter or year, or the last number of them until now."""
    words = text.replace(" ,", "").removeprefix("the ").split()
    if words[0] in {"last", "past"} and (len(words) == 3 or text.startswith("the ")):
        return Period(_count_back(" ".join(words[1:]), today), None)
    if words[0] in {"last", "this"}:
        return _read_calendar_unit(words[1], today, before=words[0] == "last")
    if words[0] in {"today", "yesterday"}:
        return _day(today - timedelta(days=words[0] == "yesterday"))
    return _read_date(words)


def _read_date(words: Sequence[str]) -> Period:
    if "-" in words[0]:
        return _day(date.fromisoformat(words[0]))
    year = int(words[-1])
    if words[0] == "q":
        return _months(year, 3 * int(words[1]) - 2, 3)
    month = next((_NAMES[word] for word in words if word in _NAMES), None)
    if month is None:
        return _months(year, 1, 12)
    number = next((int(word) for word in words[:-1] if word.isdigit()), None)
    return _months(year, month, 1) if number is None else _day(date(year, month, number))


def _day(day: date) -> Period:
    return Period(day, day + timedelta(days=1))


def _months(year: int, month: int, count: int) -> Period:
    return Period(date(year, month, 1), _add_months(date(year, month, 1), count))


def _add_months(day: date, months: int) -> date:
    years, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    first = date(years, month + 1, 1)
    following = date(years + (month == 11), (month + 1) % 12 + 1, 1)
    return min(first + timedelta(days=day.day - 1), following - timedelta(days=1))


def _read_calendar_unit(unit: str, today: date, *, before: bool) -> Period:
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * before)
        return Period(monday, monday + timedelta(days=7))
    length = {"month": 1, "quarter": 3, "year": 12}[unit]
    first = date(today.year, (today.month - 1) // length * length + 1, 1)
    start = _add_months(first, -length * before)
    return Period(start, _add_months(start, length))


def _count_back(text: str, today: date) -> date:
    *number, unit = text.split()
    count = 1 if not number else _NUMBERS.get(number[0]) or int(number[0])
    unit = unit.removesuffix("s")
    if unit in {"day", "week"}:
        return today - timedelta(days=count * (7 if unit == "week" else 1))
    return _add_months(today, -count * (12 if unit == "year" else 1))
