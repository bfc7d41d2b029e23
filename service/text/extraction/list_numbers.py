"""Lists whose numbers a program counts and the file doesn't hold: how they are written, and how far they are."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_SHOWN_LEVEL = re.compile("%([1-9])")
DEEPEST, LONGEST, HIGHEST, MOST_STYLES = 9, 100, 1_000_000, 20
"""The most levels of a list, characters before an item, number of a first item, and styles based on each other."""
_ROMAN = tuple(
    zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"),
        strict=True,
    )
)
BULLET = "-"


@dataclass(frozen=True, slots=True)
class Level:
    """How a level's numbers are written, what stands around them, and after which levels above it begins again."""

    form: str = "decimal"
    text: str = ""
    start: int = 0
    restarts_after: int = DEEPEST
    is_legal: bool = False


@dataclass(slots=True)
class NumberedList:
    """A list as it is defined: its levels, those that styles are bound to, and how far each has been counted."""

    levels: dict[int, Level]
    styles: dict[str, int] = field(default_factory=dict[str, int])
    counts: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class Use:
    """A use of a list, which may begin again: the numbers with which levels begin at its first paragraph."""

    list: NumberedList
    starts: dict[int, int]

    @classmethod
    def of(cls, used: NumberedList, *, changed: Mapping[int, Level], starts: dict[int, int]) -> "Use":
        """Return a use that changes levels: uses of one list count on from each other, however they write numbers."""
        return cls(NumberedList({**used.levels, **changed}, used.styles, used.counts) if changed else used, starts)


def count_item(use: Use, place: int) -> str:
    """Count an item on a level of a list, from 0; return what stands before it: `4.2`, or a hyphen for a bullet."""
    counted = use.list
    if place in use.starts:
        counted.counts[place] = use.starts.pop(place) - 1
    level = counted.levels.get(place, Level())
    counted.counts[place] = counted.counts.get(place, level.start - 1) + 1
    for deeper in [each for each in counted.counts if each > place]:
        if place < counted.levels.get(deeper, Level()).restarts_after:
            del counted.counts[deeper]
    if level.form == "bullet":
        return BULLET

    def write(match: re.Match[str]) -> str:
        number = int(match[1]) - 1
        other = counted.levels.get(number, Level())
        form = _FORMS.get("decimal" if level.is_legal else other.form, str)
        return form(counted.counts.setdefault(number, other.start))

    return _SHOWN_LEVEL.sub(write, level.text).strip()[:LONGEST]


def _letters(number: int) -> str:
    return chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, 20) if number > 0 else str(number)


def _roman(number: int) -> str:
    if not 0 < number < 4_000:
        return str(number)
    text = ""
    for value, letters in _ROMAN:
        text += letters * (number // value)
        number %= value
    return text


def _ordinal(number: int) -> str:
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in {11, 12, 13} else last}"


_FORMS: Mapping[str, Callable[[int], str]] = {
    "lowerLetter": _letters,
    "upperLetter": lambda number: _letters(number).upper(),
    "lowerRoman": _roman,
    "upperRoman": lambda number: _roman(number).upper(),
    "decimalZero": lambda number: f"{number:02}",
    "ordinal": _ordinal,
    "none": lambda _: "",
}
