"""Lists of Word 97 documents ([MS-DOC]): the numbers and bullets of their items, which the program counts."""

import struct
from collections.abc import Mapping
from contextlib import suppress

from service.text.extraction.list_numbers import (
    BULLET,
    DEEPEST,
    HIGHEST,
    LONGEST,
    MOST_STYLES,
    Level,
    NumberedList,
    Use,
    count_item,
)

# Where the main stream says where styles, lists and uses of lists are in the table stream.
_STYLES, _LISTS, _USES = 0xA2, 0x2E2, 0x2EA
LIST, LIST_LEVEL = 0x460B, 0x260A
"""The operations that say which use of a list a paragraph is in, from 1, and on which level, from 0."""
_FORMS = {
    0: "decimal",
    1: "upperRoman",
    2: "lowerRoman",
    3: "upperLetter",
    4: "lowerLetter",
    5: "ordinal",
    22: "decimalZero",
    23: "bullet",
    255: "none",
}
_NUMBERS = {number: f"%{number + 1}" for number in range(DEEPEST)}
_IS_LEGAL, _RESTARTS_LATE, _IS_SIMPLE, _STARTS, _IS_CHANGED = 0x4, 0x8, 0x1, 0x10, 0x20
_NO_STYLE, _OF_PARAGRAPHS, _LAST_USE = 0xFFF, 1, 0x7FE


class Lists:
    """The lists of a document, counted paragraph by paragraph; what is damaged of them is without numbers."""

    def __init__(self, main: bytes, table: bytes) -> None:
        self._uses: list[Use] = []
        self._styles: dict[int, tuple[int, bytes]] = {}
        with suppress(struct.error, IndexError):
            self._uses = _read_uses(table, _offset(main, _USES), _read_lists(table, _offset(main, _LISTS)))
            self._styles = _read_styles(table, _offset(main, _STYLES))

    def count(self, style: int, operations: Mapping[int, bytes]) -> str:
        """Count a paragraph, by its style and its own operations; return what stands before it, if it is in a list."""
        use, level = (operations.get(code) for code in (LIST, LIST_LEVEL))
        for _ in range(MOST_STYLES):
            if use is not None and level is not None:
                break
            style, said = self._styles.get(style, (_NO_STYLE, b""))
            of_style = dict(_find(said, code) for code in (LIST, LIST_LEVEL))
            use = of_style[LIST] if use is None else use
            level = of_style[LIST_LEVEL] if level is None else level
        number = int.from_bytes(use or b"", "little")
        if not 0 < number <= _LAST_USE:
            return ""
        if number > len(self._uses):
            return BULLET
        return count_item(self._uses[number - 1], min((level or b"\0")[0], DEEPEST - 1))


def _offset(main: bytes, place: int) -> int:
    return int(struct.unpack_from("<I", main, place)[0])


def _find(operations: bytes, code: int) -> tuple[int, bytes | None]:
    """Return the operand of an operation in a style, whose operations are few, or None."""
    place = operations.find(code.to_bytes(2, "little"))
    size = 2 if code == LIST else 1
    return code, operations[place + 2 : place + 2 + size] if place >= 0 else None


def _read_styles(table: bytes, place: int) -> dict[int, tuple[int, bytes]]:
    """Return of each style of paragraphs the one that it is based on, and its operations."""
    size, count, base = struct.unpack_from("<3H", table, place)
    place += 2 + size
    found: dict[int, tuple[int, bytes]] = {}
    for number in range(count):
        (size,) = struct.unpack_from("<H", table, place)
        style = table[place + 2 : place + 2 + size]
        place += 2 + size + size % 2
        if len(style) > base:
            (kind,) = struct.unpack_from("<H", style, 2)
            (name,) = struct.unpack_from("<H", style, base)
            start = base + 2 * name + 4
            if kind & 0xF == _OF_PARAGRAPHS and start + 2 <= len(style):
                (length,) = struct.unpack_from("<H", style, start)
                found[number] = kind >> 4, style[start + 4 : start + 2 + length]
    return found


def _read_lists(table: bytes, place: int) -> dict[int, NumberedList]:
    (count,) = struct.unpack_from("<H", table, place)
    heads = range(place + 2, place + 2 + 28 * count, 28)
    place += 2 + 28 * count
    found: dict[int, NumberedList] = {}
    for head in heads:
        levels: dict[int, Level] = {}
        for number in range(1 if table[head + 26] & _IS_SIMPLE else DEEPEST):
            levels[number], place = _read_level(table, place)
        found[struct.unpack_from("<i", table, head)[0]] = NumberedList(levels)
    return found


def _read_level(table: bytes, place: int) -> tuple[Level, int]:
    """Return a level, and where it ends."""
    start, form, flags = struct.unpack_from("<iBB", table, place)
    late, after = table[place + 26], place + 28 + table[place + 24] + table[place + 25]
    (length,) = struct.unpack_from("<H", table, after)
    text = table[after + 2 : after + 2 + 2 * length].decode("utf-16-le", "replace").translate(_NUMBERS)
    level = Level(
        _FORMS.get(form, "decimal"),
        text[:LONGEST],
        min(max(start, 0), HIGHEST),
        min(late, DEEPEST) if flags & _RESTARTS_LATE else DEEPEST,
        bool(flags & _IS_LEGAL),
    )
    return level, after + 2 + 2 * length


def _read_uses(table: bytes, place: int, lists: Mapping[int, NumberedList]) -> list[Use]:
    (count,) = struct.unpack_from("<I", table, place)
    heads = range(place + 4, min(place + 4 + 16 * count, len(table) - 15), 16)
    place += 4 + 16 * count
    uses: list[Use] = []
    for head in heads:
        used = lists.get(struct.unpack_from("<i", table, head)[0], NumberedList({}))
        starts: dict[int, int] = {}
        changed: dict[int, Level] = {}
        place += 4
        for _ in range(table[head + 12]):
            start, flags = struct.unpack_from("<iI", table, place)
            place += 8
            if flags & _IS_CHANGED:
                changed[flags & 0xF], place = _read_level(table, place)
                start = changed[flags & 0xF].start
            if flags & _STARTS:
                starts[flags & 0xF] = min(max(start, 0), HIGHEST)
        uses.append(Use.of(used, changed=changed, starts=starts))
    return uses
