# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# lxml has no types of its own.
"""Automatically numbered lists, whose numbers are not in the file: formats, counts, and Word's definitions."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from service.text.extraction.drawings import FALLBACK

_SHOWN_LEVEL = re.compile("%([1-9])")
DEEPEST, LONGEST, HIGHEST, MOST_STYLES = 9, 100, 1_000_000, 20
"""The most levels of a list, characters before an item, number of a first item, and styles based on each other."""
_ROMAN = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
_ROMAN_LETTERS = ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i")
BULLET = "-"


@dataclass(frozen=True, slots=True)
class Level:
    """The format of a level's numbers, the text around the numbers, and the levels above at which counting restarts."""

    form: str = "decimal"
    text: str = ""
    start: int = 0
    restarts_after: int = DEEPEST
    is_legal: bool = False


@dataclass(slots=True)
class NumberedList:
    """A list's definition: its levels, the levels bound to styles, and the current counts."""

    levels: dict[int, Level]
    styles: dict[str, int] = field(default_factory=dict[str, int])
    counts: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class Use:
    """A use of a list, possibly restarted: the numbers to restart levels with at the first paragraph."""

    list: NumberedList
    starts: dict[int, int]

    @classmethod
    def of(cls, used: NumberedList, *, changed: Mapping[int, Level], starts: dict[int, int]) -> "Use":
        """Return a use with changed levels. Uses of a list continue each other's count, even in different formats."""
        return cls(NumberedList({**used.levels, **changed}, used.styles, used.counts) if changed else used, starts)


def count_item(use: Use, place: int) -> str:
    """Count an item on a level, from 0; return the text before it: `4.2`, or a hyphen for a bullet."""
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
    for value, letters in zip(_ROMAN, _ROMAN_LETTERS, strict=True):
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


_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_VALUE, _LEVEL, _NUMBER = _WORD + "val", _WORD + "ilvl", _WORD + "numId"
_PROPERTIES, _TEXT = _WORD + "pPr", _WORD + "t"
_PLACES_ABOVE = frozenset("012345678")


def mark_list_items(body: Any, numbering: Any, styles: Any) -> None:
    """Write the number shown by Word, or a hyphen for a bullet, into each list item of `body`."""
    lists = _Lists(numbering, styles)
    # The second copy of a text box is for older programs.
    copies = {paragraph for copy in body.iter(FALLBACK) for paragraph in copy.iter(_WORD + "p")}
    for paragraph in body.iter(_WORD + "p"):
        text = "".join(paragraph.itertext(_TEXT, with_tail=False))
        if paragraph not in copies and (marker := lists.count(paragraph)) and text.strip():
            run = etree.Element(_WORD + "r")
            etree.SubElement(run, _TEXT).text = f"{marker} "
            properties = paragraph.find(_PROPERTIES)
            paragraph.insert(0 if properties is None else paragraph.index(properties) + 1, run)


class _Lists:
    def __init__(self, numbering: Any, styles: Any) -> None:
        self._styles = {each.get(_WORD + "styleId") or "": each for each in styles.iter(_WORD + "style")}
        defined = {each.get(_WORD + "abstractNumId"): each for each in numbering.iter(_WORD + "abstractNum")}
        used = {each.get(_NUMBER) or "": each for each in numbering.iter(_WORD + "num")}
        lists = {identity: _read_list(each) for identity, each in defined.items()}
        for identity, each in defined.items():
            # A list may refer to a style, which refers to the use of another list.
            style = self._styles.get(find_value(each, "numStyleLink"))
            use = used.get(find_value(style, "pPr", "numPr", "numId")) if style is not None else None
            if use is not None:
                lists[identity] = lists.get(find_value(use, "abstractNumId"), lists[identity])
        self._uses = {
            number: _read_use(each, lists[find_value(each, "abstractNumId")])
            for number, each in used.items()
            if find_value(each, "abstractNumId") in lists
        }

    def count(self, paragraph: Any) -> str:
        """Count a paragraph, and return the text before it; empty outside lists."""
        properties = paragraph.find(_PROPERTIES)
        if properties is None:
            return ""
        style = find_value(properties, "pStyle")
        number, level = find_value(properties, "numPr", "numId"), find_value(properties, "numPr", "ilvl")
        if not number:
            number, level = self._find_in_style(style)
        use = self._uses.get(number)
        if use is None:
            return ""
        place = int(level) if level.isdecimal() and len(level) == 1 else use.list.styles.get(style, 0)
        return count_item(use, min(place, DEEPEST - 1))

    def _find_in_style(self, name: str) -> tuple[str, str]:
        """Return the list and level of a style, or of a style below; empty strings without any."""
        for _ in range(MOST_STYLES):
            style = self._styles.get(name)
            if style is None:
                break
            if number := find_value(style, "pPr", "numPr", "numId"):
                use = self._uses.get(number)
                bound = None if use is None else use.list.styles.get(name)
                return number, find_value(style, "pPr", "numPr", "ilvl") if bound is None else str(bound)
            name = find_value(style, "basedOn")
        return "", ""


def _read_list(defined: Any) -> NumberedList:
    found = NumberedList({})
    for each in defined.iterchildren(_WORD + "lvl"):
        place = _level(each)
        found.levels[place] = _read_level(each)
        if style := find_value(each, "pStyle"):
            found.styles[style] = place
    return found


def _read_level(each: Any) -> Level:
    is_legal = each.find(_WORD + "isLgl") is not None
    restarts_after = find_value(each, "lvlRestart")
    return Level(
        find_value(each, "numFmt") or "decimal",
        find_value(each, "lvlText")[:LONGEST],
        _start(each, "start"),
        int(restarts_after) if restarts_after in _PLACES_ABOVE else DEEPEST,
        is_legal,
    )


def _read_use(use: Any, used: NumberedList) -> Use:
    starts: dict[int, int] = {}
    changed: dict[int, Level] = {}
    for each in use.iterchildren(_WORD + "lvlOverride"):
        place = _level(each)
        if each.find(_WORD + "startOverride") is not None:
            starts[place] = _start(each, "startOverride")
        if (level := each.find(_WORD + "lvl")) is not None:
            changed[place] = _read_level(level)
    return Use.of(used, changed=changed, starts=starts)


def _level(element: Any) -> int:
    said = element.get(_LEVEL) or ""
    return int(said) if said.isdecimal() and len(said) == 1 else 0


def _start(element: Any, name: str) -> int:
    said = find_value(element, name)
    return min(int(said), HIGHEST) if said.isdecimal() and len(said) < 10 else 0


def find_value(element: Any, *path: str) -> str:
    """Return the value of the element at a path of names below an element; empty if missing."""
    found = element.find("/".join(_WORD + name for name in path))
    return "" if found is None else found.get(_VALUE) or ""
