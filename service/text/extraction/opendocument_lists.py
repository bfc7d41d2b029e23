# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# lxml has no types of its own.
"""The numbers and bullets of lists and headings in OpenDocument files, which programs count."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lxml import etree

from service.text.extraction.list_numbers import BULLET, DEEPEST, LONGEST, Level, NumberedList, Use, count_item

_NAMES = "{urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _STYLE = f"{_NAMES}text:1.0}}", f"{_NAMES}style:1.0}}"
_IDENTITY = "{http://www.w3.org/XML/1998/namespace}id"
_LIST, _ITEM, _HEADING, _PARAGRAPH = (_TEXT + name for name in ("list", "list-item", "h", "p"))
_FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_BULLETS = frozenset({_TEXT + "list-level-style-bullet", _TEXT + "list-level-style-image"})


def find_markers(content: Any, styles: Iterable[Any]) -> Mapping[Any, str]:
    """Return what stands before the first paragraph of each item of a list, and before numbered headings.

    `styles` are the roots of the parts that define lists.
    """
    finder = _Finder(styles)
    walk = etree.iterwalk(content, events=("start", "end"))
    for event, element in walk:
        if element.tag == _TEXT + "tracked-changes":
            if event == "start":
                walk.skip_subtree()
        elif event == "start":
            finder.begin(element)
        elif element.tag == _LIST:
            finder.end_list()
    return finder.markers


@dataclass(slots=True)
class _Open:
    """A list that is being read, in lists around it: its style, and whether an item has begun and has no marker yet."""

    style: str
    use: Use
    is_due: bool = False


class _Finder:
    """Counts the items of lists and the headings, as they come."""

    def __init__(self, styles: Iterable[Any]) -> None:
        self.markers: dict[Any, str] = {}
        self._levels: dict[str, dict[int, Level]] = {}
        self._outline = Use(NumberedList({}), {})
        self._unnumbered = set[str]()
        self._open: list[_Open] = []
        self._last: dict[str, Use] = {}
        self._known: dict[str, Use] = {}
        for root in styles:
            for each in root.iter(_TEXT + "list-style"):
                self._levels[each.get(_STYLE + "name") or ""] = _read_levels(each)
            for each in root.iter(_TEXT + "outline-style"):
                self._outline = Use(NumberedList(_read_levels(each)), {})
            # A style whose list has no name takes its headings out of the numbering of chapters.
            named = (each for each in root.iter(_STYLE + "style") if each.get(_STYLE + "list-style-name") == "")
            self._unnumbered.update(each.get(_STYLE + "name") or "" for each in named)

    def begin(self, element: Any) -> None:
        """Follow the beginning of an element."""
        if element.tag == _LIST:
            self._begin_list(element)
        elif element.tag == _ITEM and self._open:
            self._open[-1].is_due = True
            if (start := _number(element.get(_TEXT + "start-value"))) is not None:
                self._open[-1].use.starts[self._place()] = start
        elif element.tag in {_PARAGRAPH, _HEADING} and self._open:
            if self._open[-1].is_due:
                self._open[-1].is_due = False
                self.markers[element] = count_item(self._open[-1].use, self._place()) or BULLET
        elif element.tag == _HEADING and element.get(_TEXT + "style-name") not in self._unnumbered:
            self._count_heading(element)

    def end_list(self) -> None:
        """Follow the end of a list."""
        self._open.pop()

    def _place(self) -> int:
        return min(len(self._open), DEEPEST) - 1

    def _begin_list(self, element: Any) -> None:
        around = self._open[-1] if self._open else None
        style = element.get(_TEXT + "style-name") or ("" if around is None else around.style)
        if around is not None and style == around.style:
            use = around.use
        else:
            continued = self._known.get(element.get(_TEXT + "continue-list") or "")
            if element.get(_TEXT + "continue-numbering") == "true":
                continued = continued or self._last.get(style)
            use = continued or Use(NumberedList(self._levels.get(style, {})), {})
        self._open.append(_Open(style, use))
        self._last[style] = use
        if identity := element.get(_IDENTITY):
            self._known[identity] = use

    def _count_heading(self, element: Any) -> None:
        place = (_number(element.get(_TEXT + "outline-level")) or 1) - 1
        level = self._outline.list.levels.get(place)
        if level is None or not level.text or element.get(_TEXT + "is-list-header") == "true":
            return
        if (start := _number(element.get(_TEXT + "start-value"))) is not None:
            self._outline.starts[place] = start
        self.markers[element] = count_item(self._outline, place)


def _read_levels(style: Any) -> dict[int, Level]:
    levels: dict[int, Level] = {}
    for each in style:
        place = (_number(each.get(_TEXT + "level")) or 1) - 1
        if each.tag in _BULLETS:
            levels[place] = Level("bullet", BULLET)
        elif place < DEEPEST and (form := _FORMS.get(each.get(_STYLE + "num-format") or "")):
            shown = min(_number(each.get(_TEXT + "display-levels")) or 1, place + 1)
            # Levels without numbers are passed over.
            above = [number for number in range(place + 1 - shown, place) if number in levels]
            numbers = ".".join(f"%{number + 1}" for number in (*above, place))
            text = f"{each.get(_STYLE + 'num-prefix') or ''}{numbers}{each.get(_STYLE + 'num-suffix') or ''}"
            start = _number(each.get(_TEXT + "start-value"))
            levels[place] = Level(form, text[:LONGEST], 1 if start is None else start)
    return levels


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 7 else None
