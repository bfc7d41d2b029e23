# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# lxml has no types of its own.
"""The numbers and bullets of lists in Word documents, which the program counts and the file doesn't hold."""

from typing import Any

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from service.text.extraction import list_numbers
from service.text.extraction.drawings import FALLBACK

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_VALUE, _LEVEL, _NUMBER = _WORD + "val", _WORD + "ilvl", _WORD + "numId"
_PROPERTIES, _TEXT = _WORD + "pPr", _WORD + "t"
_PLACES_ABOVE = frozenset("012345678")


def mark_list_items(body: Any, numbering: Any, styles: Any) -> None:
    """Write each list item's number as Word shows it, or a hyphen for a bullet, into `body`, by the other two parts."""
    lists = _Lists(numbering, styles)
    # The second copy of a text box is for old programs.
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
            # A list may be that of a style, which names the use of another list.
            style = self._styles.get(_value(each, "numStyleLink"))
            use = used.get(_value(style, "pPr", "numPr", "numId")) if style is not None else None
            if use is not None:
                lists[identity] = lists.get(_value(use, "abstractNumId"), lists[identity])
        self._uses = {
            number: _read_use(each, lists[_value(each, "abstractNumId")])
            for number, each in used.items()
            if _value(each, "abstractNumId") in lists
        }

    def count(self, paragraph: Any) -> str:
        properties = paragraph.find(_PROPERTIES)
        if properties is None:
            return ""
        style = _value(properties, "pStyle")
        number, level = _value(properties, "numPr", "numId"), _value(properties, "numPr", "ilvl")
        if not number:
            number, level = self._of_style(style)
        use = self._uses.get(number)
        if use is None:
            return ""
        place = int(level) if level.isdecimal() and len(level) == 1 else use.list.styles.get(style, 0)
        return list_numbers.count_item(use, min(place, list_numbers.DEEPEST - 1))

    def _of_style(self, name: str) -> tuple[str, str]:
        for _ in range(list_numbers.MOST_STYLES):
            style = self._styles.get(name)
            if style is None:
                break
            if number := _value(style, "pPr", "numPr", "numId"):
                use = self._uses.get(number)
                bound = None if use is None else use.list.styles.get(name)
                return number, _value(style, "pPr", "numPr", "ilvl") if bound is None else str(bound)
            name = _value(style, "basedOn")
        return "", ""


def _read_list(defined: Any) -> list_numbers.NumberedList:
    found = list_numbers.NumberedList({})
    for each in defined.iterchildren(_WORD + "lvl"):
        place = _level(each)
        found.levels[place] = _read_level(each)
        if style := _value(each, "pStyle"):
            found.styles[style] = place
    return found


def _read_level(each: Any) -> list_numbers.Level:
    is_legal = each.find(_WORD + "isLgl") is not None
    restarts_after = _value(each, "lvlRestart")
    return list_numbers.Level(
        _value(each, "numFmt") or "decimal",
        _value(each, "lvlText")[: list_numbers.LONGEST],
        _start(each, "start"),
        int(restarts_after) if restarts_after in _PLACES_ABOVE else list_numbers.DEEPEST,
        is_legal,
    )


def _read_use(use: Any, used: list_numbers.NumberedList) -> list_numbers.Use:
    starts: dict[int, int] = {}
    changed: dict[int, list_numbers.Level] = {}
    for each in use.iterchildren(_WORD + "lvlOverride"):
        place = _level(each)
        if each.find(_WORD + "startOverride") is not None:
            starts[place] = _start(each, "startOverride")
        if (level := each.find(_WORD + "lvl")) is not None:
            changed[place] = _read_level(level)
    return list_numbers.Use.of(used, changed=changed, starts=starts)


def _level(element: Any) -> int:
    said = element.get(_LEVEL) or ""
    return int(said) if said.isdecimal() and len(said) == 1 else 0


def _start(element: Any, name: str) -> int:
    said = _value(element, name)
    return min(int(said), list_numbers.HIGHEST) if said.isdecimal() and len(said) < 10 else 0


def _value(element: Any, *path: str) -> str:
    for name in path:
        element = element.find(_WORD + name)
        if element is None:
            return ""
    return element.get(_VALUE) or ""
