"""Values of fields by type: `fits` checks the stored form, `read_value` also reads people's unambiguous notations."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_INT = re.compile(r"[+-]?[0-9]{1,19}")
_DOUBLE = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
_DATETIME = re.compile(f"{_DAY}({_TIME})?")
_LARGEST_INT = 2**63
_SHOWN = 20
BETWEEN = "; "
"""Between the items of a LIST."""


def _is_datetime(value: str) -> bool:
    if _DATETIME.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value.upper())
    except ValueError:
        return False
    return True


# PostgreSQL can cast each valid value (bigint, double precision, timestamptz, boolean), for filters.
_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "STRING": lambda value: "\0" not in value,
    "INT": lambda value: _INT.fullmatch(value) is not None and -_LARGEST_INT <= int(value) < _LARGEST_INT,
    "DOUBLE": lambda value: _DOUBLE.fullmatch(value) is not None and math.isfinite(float(value)),
    "DATETIME": _is_datetime,
    "BOOLEAN": lambda value: value in {"true", "false"},
    "LIST": lambda value: "\0" not in value,
}
_EXPECTED: Final[Mapping[str, str]] = {
    "STRING": "The field is text: write it without NUL characters.",
    "INT": "The field is a whole number: write it like 1200, within 64 bits.",
    "DOUBLE": "The field is a number: write it like 1200.5.",
    "DATETIME": "The field is a date and time: write it like 2025-03-04 or 2025-03-04T09:30:00Z.",
    "BOOLEAN": "The field is yes or no: write yes or no.",
    "LIST": "The field is a list of texts: write it like red; green, without NUL characters.",
}
_FLAGS = {"yes": "true", "true": "true", "1": "true", "no": "false", "false": "false", "0": "false"}


def fits(kind: str, value: str) -> bool:
    """Return whether a text is the stored form of a value of this metadata type."""
    return _CHECKS[kind](value)


def read_value(kind: str, text: str, choices: Sequence[str] | None = None) -> str | None:
    """Return a text as a value of this metadata type, and one of the choices if any; None if invalid or ambiguous."""
    if kind == "LIST":
        given = {item.casefold(): item for item in map(str.strip, text.split(";")) if item}
        items = [read_value("STRING", item, choices) for item in given.values()]
        return None if None in items else BETWEEN.join(filter(None, items))
    value = text.strip() if choices or kind != "STRING" else text
    if not fits(kind, value):
        readings = _find_meanings(kind, value)
        value = readings.pop() if len(readings) == 1 else None
    return _spellings(tuple(choices)).get(value.casefold()) if value and choices else value


@lru_cache(1000)
def _spellings(choices: tuple[str, ...]) -> Mapping[str, str]:
    return {choice.casefold(): choice for choice in reversed(choices)}


def expectation(kind: str, text: str = "", choices: Sequence[str] | None = None) -> str:
    """Return a sentence with the accepted texts of a metadata type, or the possible meanings of an ambiguous text."""
    if choices:
        words = "these values, with ; between them" if kind == "LIST" else "one of these values"
        return f"The field takes {words}: {', '.join(choices[:_SHOWN])}{', …' if choices[_SHOWN:] else '.'}"
    readings = sorted(_find_meanings(kind, text.strip()))
    return f"“{text}” can mean {' or '.join(readings)}: write one of these." if readings[1:] else _EXPECTED[kind]


def _find_meanings(kind: str, text: str) -> set[str]:
    match kind:
        case "DOUBLE":
            return _numbers(text)
        case "INT":
            whole = (number.partition(".") for number in _numbers(text))
            return {digits for digits, _, decimals in whole if not decimals.strip("0") and fits("INT", digits)}
        case "DATETIME":
            return _dates(text)
        case "BOOLEAN" if text.casefold() in _FLAGS:
            return {_FLAGS[text.casefold()]}
        case _:
            return set()


_GROUPED = re.compile(r"([+-]?)([1-9][0-9]{0,2}([,.' ])[0-9]{3}(?:\3[0-9]{3})*)(?:([,.])([0-9]*))?")
_DECIMAL = re.compile(r"([+-]?[0-9]+)[,.]([0-9]+)")
_MARKS = str.maketrans({"\u2212": "-", "\u2019": "'", "\u00a0": " ", "\u202f": " ", "\u2009": " "})


def _numbers(text: str) -> set[str]:
    """Return all possible numbers of a text: with thousands separators, and with a decimal comma or point."""
    text = text.translate(_MARKS)
    found = {text}
    if (match := _GROUPED.fullmatch(text)) and match[3] != match[4]:
        found.add(f"{match[1]}{match[2].replace(match[3], '')}.{match[5] or ''}".rstrip("."))
    if match := _DECIMAL.fullmatch(text):
        found = {number for number in found if number != text} | {f"{match[1]}.{match[2].rstrip('0')}".rstrip(".")}
    return {number for number in found if fits("DOUBLE", number)}


_DATE = re.compile(
    r"(?:(?P<year>[0-9]{4})(?P<between>[-/.])(?P<month>[0-9]{1,2})(?P=between)(?P<day>[0-9]{1,2})"
    r"|(?P<first>[0-9]{1,2})(?P<mark>[-/.]) ?(?P<second>[0-9]{1,2})(?P=mark) ?(?P<last>[0-9]{4}))"
    rf"(?P<time>{_TIME})?"
)
_NAMED = ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y")


def _dates(text: str) -> set[str]:
    """Return all possible moments of a text. With points the day is first; with other marks it may be the month."""
    if (match := _DATE.fullmatch(text)) is None:
        words = " ".join(re.split(r"[,.\s]+", text))
        return {day for form in _NAMED if (day := _day(words, form))}
    orders = [(match["year"], match["month"], match["day"])]
    if match["first"]:
        orders = [(match["last"], match["second"], match["first"])]
        orders += [] if match["mark"] == "." else [(match["last"], match["first"], match["second"])]
    days = (_day("-".join(order), "%Y-%m-%d") for order in orders)
    return {moment for day in days if day and fits("DATETIME", moment := f"{day}{match['time'] or ''}")}


def _day(text: str, form: str) -> str | None:
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).date().isoformat()
    except ValueError:
        return None
