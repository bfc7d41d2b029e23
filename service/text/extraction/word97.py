"""Word documents from before 2007 ([MS-DOC]): headings, paragraphs, lists, tables; notes and boxes at the end."""

import re
import struct
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from carrel.wire.formats import NotReadKind
from service.text.extraction import list_numbers
from service.text.extraction.building import BlockBuilder
from service.text.extraction.compound import PICTURES, Pictures, read_compound, refuse_damaged
from service.text.extraction.decoding import detect_encoding, join_halves
from service.text.extraction.failures import corrupt_file, encrypted_file
from service.text.extraction.tabular import TableWriter

# Positions in the main stream that give the places of styles, lists and uses of lists in the table stream.
_STYLES, _LISTS, _USES = 0xA2, 0x2E2, 0x2EA
LIST, LIST_LEVEL = 0x460B, 0x260A
"""The operations for a paragraph's use of a list, from 1, and its level, from 0."""
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_FORMS = {number: form for form, number in _TABLE["forms"].items()}
_NUMBERS = {number: f"%{number + 1}" for number in range(list_numbers.DEEPEST)}
_IS_LEGAL, _RESTARTS_LATE, _IS_SIMPLE, _STARTS, _IS_CHANGED = 0x4, 0x8, 0x1, 0x10, 0x20
_NO_STYLE, _OF_PARAGRAPHS, _LAST_USE = 0xFFF, 1, 0x7FE


class Lists:
    """The lists of a document, counted paragraph by paragraph; damaged lists get no numbers."""

    def __init__(self, main: bytes, table: bytes) -> None:
        self._uses: list[list_numbers.Use] = []
        self._styles: dict[int, tuple[int, bytes]] = {}
        with suppress(struct.error, IndexError):
            self._uses = _read_uses(table, _offset(main, _USES), _read_lists(table, _offset(main, _LISTS)))
            self._styles = _read_styles(table, _offset(main, _STYLES))

    def count(self, style: int, operations: Mapping[int, bytes]) -> str:
        """Count a paragraph, by style and own operations; return the text before the paragraph if in a list."""
        use, level = (operations.get(code) for code in (LIST, LIST_LEVEL))
        for _ in range(list_numbers.MOST_STYLES):
            if use is not None and level is not None:
                break
            style, said = self._styles.get(style, (_NO_STYLE, b""))
            of_style = dict(_find_operand(said, code) for code in (LIST, LIST_LEVEL))
            use = of_style[LIST] if use is None else use
            level = of_style[LIST_LEVEL] if level is None else level
        number = int.from_bytes(use or b"", "little")
        if not 0 < number <= _LAST_USE:
            return ""
        if number > len(self._uses):
            return list_numbers.BULLET
        return list_numbers.count_item(self._uses[number - 1], min((level or b"\0")[0], list_numbers.DEEPEST - 1))


def _offset(main: bytes, place: int) -> int:
    return int(struct.unpack_from("<I", main, place)[0])


def _find_operand(operations: bytes, code: int) -> tuple[int, bytes | None]:
    """Return an operation's code and operand in a style; the operand is None if absent."""
    place = operations.find(code.to_bytes(2, "little"))
    size = 2 if code == LIST else 1
    return code, operations[place + 2 : place + 2 + size] if place >= 0 else None


def _read_styles(table: bytes, place: int) -> dict[int, tuple[int, bytes]]:
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


def _read_lists(table: bytes, place: int) -> dict[int, list_numbers.NumberedList]:
    (count,) = struct.unpack_from("<H", table, place)
    heads = range(place + 2, place + 2 + 28 * count, 28)
    place += 2 + 28 * count
    found: dict[int, list_numbers.NumberedList] = {}
    for head in heads:
        levels: dict[int, list_numbers.Level] = {}
        for number in range(1 if table[head + 26] & _IS_SIMPLE else list_numbers.DEEPEST):
            levels[number], place = _read_level(table, place)
        found[struct.unpack_from("<i", table, head)[0]] = list_numbers.NumberedList(levels)
    return found


def _read_level(table: bytes, place: int) -> tuple[list_numbers.Level, int]:
    start, form, flags = struct.unpack_from("<iBB", table, place)
    late, after = table[place + 26], place + 28 + table[place + 24] + table[place + 25]
    (length,) = struct.unpack_from("<H", table, after)
    text = table[after + 2 : after + 2 + 2 * length].decode("utf-16-le", "replace").translate(_NUMBERS)
    level = list_numbers.Level(
        _FORMS.get(form, "decimal"),
        text[: list_numbers.LONGEST],
        min(max(start, 0), list_numbers.HIGHEST),
        min(late, list_numbers.DEEPEST) if flags & _RESTARTS_LATE else list_numbers.DEEPEST,
        bool(flags & _IS_LEGAL),
    )
    return level, after + 2 + 2 * length


def _read_uses(table: bytes, place: int, lists: Mapping[int, list_numbers.NumberedList]) -> list[list_numbers.Use]:
    (count,) = struct.unpack_from("<I", table, place)
    heads = range(place + 4, min(place + 4 + 16 * count, len(table) - 15), 16)
    place += 4 + 16 * count
    uses: list[list_numbers.Use] = []
    for head in heads:
        used = lists.get(struct.unpack_from("<i", table, head)[0], list_numbers.NumberedList({}))
        starts: dict[int, int] = {}
        changed: dict[int, list_numbers.Level] = {}
        place += 4
        for _ in range(table[head + 12]):
            start, flags = struct.unpack_from("<iI", table, place)
            place += 8
            if flags & _IS_CHANGED:
                changed[flags & 0xF], place = _read_level(table, place)
                start = changed[flags & 0xF].start
            if flags & _STARTS:
                starts[flags & 0xF] = min(max(start, 0), list_numbers.HIGHEST)
        uses.append(list_numbers.Use.of(used, changed=changed, starts=starts))
    return uses


_KIND = "a Word 97 document"
_WORD_97, _WORD_6 = 0xA5EC, (0xA5DC, 0xA699)
_COMPLEX, _ENCRYPTED, _SECOND_TABLE = 0x4, 0x100, 0x200
_PAGE = 512
_CODE_PAGES = {language: page for page, languages in _TABLE["code_pages"].items() for language in languages}
_SAMPLE = 32_768
_NO_CONTROLS = b" " * 32 + bytes(range(32, 256))
_FIELD = re.compile("[\x13\x14\x15]")
_MARK = re.compile("[\r\x07\x0c]")
_OTHERS = str.maketrans({"\x0b": "\n", "\x0e": "\n", "\x1e": "-", "\x1f": None, "\x00": None})
# Operations on properties: text in a table, the end of a row, deleted text.
_IN_TABLE, _ROW_END, _DELETED = 0x2416, 0x2417, 0x0800
# The operation with the position of a character's picture, and the folder of other programs' objects.
_PICTURE, _OBJECTS = 0x6A03, "ObjectPool"
# The operation with its own length, in two bytes.
_TABLE_DEFINITION = 0xD608
_HEADINGS = range(1, 10)


@dataclass(frozen=True, slots=True)
class _Header:
    """The positions given by a document's main stream: lengths in characters, offsets and lengths in bytes."""

    is_old: bool
    lengths: tuple[int, ...]
    pieces: tuple[int, int]
    characters: tuple[int, int]
    paragraphs: tuple[int, int]
    text_start: int
    code_page: str
    is_complex: bool
    table: str
    drawings: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of the text: the first character, the position of the bytes, and the bytes per character."""

    start: int
    length: int
    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """A paragraph's format: style (1 to 9 are headings), whether in a table or ending a row, and the list marker."""

    style: int = 0
    in_table: bool = False
    ends_row: bool = False
    marker: str = ""


def parse_doc(path: Path, builder: BlockBuilder) -> str | None:
    """Add a Word 97, 6 or 95 document's text; tracked deletions are left out."""
    with refuse_damaged(_KIND):
        file = read_compound(path, "WordDocument", "0Table", "1Table", PICTURES)
        streams, main = file.streams, file.streams["WordDocument"]
        header = _read_header(main)
        table = main if header.is_old else streams[header.table]
        pieces = _read_pieces(main, table, header)
        marked = _Marked(main, table, pieces, header)
        text = _without_instructions(_blank_out(_read_text(main, pieces, header), marked.deleted))
        formats = _Formats(main, table, pieces, header)
    pictures = Pictures(streams, header.table, header.drawings, marked.pictures, builder)
    body, *others = _divide(text, header.lengths)
    _add_body(body, formats, pictures, builder)
    pictures.note_rest()
    objects = sum(len(folder) == 2 and folder[0] == _OBJECTS for folder in file.folders)
    builder.leave_out(NotReadKind.EMBEDDED, count=objects)
    builder.paragraphs(dict.fromkeys(_replace_controls(line).strip() for part in others for line in _MARK.split(part)))
    return file.title


def _read_header(main: bytes) -> _Header:
    """Read the positions of a document's parts. Raises Unreadable for another format or a password."""
    identity, language, flags = (struct.unpack_from("<H", main, place)[0] for place in (0, 6, 10))
    if identity not in {_WORD_97, *_WORD_6}:
        raise corrupt_file(_KIND)
    if flags & _ENCRYPTED:
        raise encrypted_file("Word 97")
    is_old = identity != _WORD_97
    start, end = struct.unpack_from("<2I", main, 0x18)
    pairs = (0x160, 0xB8, 0xC0) if is_old else (0x1A2, 0xFA, 0x102)
    places, characters, paragraphs = (struct.unpack_from("<2I", main, place) for place in pairs)
    drawings: tuple[int, int] = (0, 0) if is_old else struct.unpack_from("<2I", main, 0x22A)
    return _Header(
        is_old,
        struct.unpack_from("<8I", main, 0x34 if is_old else 0x4C),
        (places[0], places[1]),
        (characters[0], characters[1]),
        (paragraphs[0], paragraphs[1]),
        start,
        _CODE_PAGES.get(language & 0x3FF) or _find_code_page(main[start : min(end, start + _SAMPLE)]),
        bool(flags & _COMPLEX),
        "1Table" if flags & _SECOND_TABLE else "0Table",
        drawings,
    )


def _find_code_page(sample: bytes) -> str:
    """Return cp1252 text's real code page: a detected page if over a third of the bytes are 0xC0 or above."""
    letters = sample.translate(None, bytes(range(0xC0)))
    return detect_encoding(sample.translate(_NO_CONTROLS)) if len(letters) * 3 > len(sample) else "cp1252"


def _read_pieces(main: bytes, table: bytes, header: _Header) -> list[_Piece]:
    offset, size = header.pieces
    if not size or (header.is_old and not header.is_complex):
        return [_Piece(0, min(sum(header.lengths), len(main)), header.text_start, 1)]
    data = table[offset : offset + size]
    place = 0
    while data[place] == 1:
        place += 3 + struct.unpack_from("<H", data, place + 1)[0]
    count = (struct.unpack_from("<I", data, place + 1)[0] - 4) // 12
    starts = struct.unpack_from(f"<{count + 1}I", data, place + 5)
    place += 5 + 4 * (count + 1)
    pieces: list[_Piece] = []
    for number, (start, end) in enumerate(pairwise(starts)):
        offset = struct.unpack_from("<I", data, place + 8 * number + 2)[0]
        packed = header.is_old or bool(offset & 0x40000000)
        offset = offset if header.is_old else (offset & 0x3FFFFFFF) // (2 if packed else 1)
        pieces.append(_Piece(start, max(end - start, 0), offset, 1 if packed else 2))
    return pieces


def _read_text(main: bytes, pieces: list[_Piece], header: _Header) -> str:
    parts: list[str] = []
    size = 0
    for piece in pieces:
        data = main[piece.offset : piece.offset + piece.length * piece.width]
        size += piece.length
        if size > len(main) * 2:
            raise corrupt_file(_KIND)
        page = header.code_page if header.is_old else "cp1252"
        part = data.decode(page, "replace") if piece.width == 1 else _decode_with_halves(data)
        parts.append(part.ljust(piece.length, "\x00")[: piece.length])
    return "".join(parts)


def _decode_with_halves(data: bytes) -> str:
    wide = bytearray(len(data) // 2 * 4)
    wide[0::4], wide[1::4] = data[0 : len(data) // 2 * 2 : 2], data[1::2]
    return wide.decode("utf-32-le", "surrogatepass")


class _Marked:
    """The characters deleted with change tracking, the placeholders of pictures, and the pictures' positions."""

    def __init__(self, main: bytes, table: bytes, pieces: list[_Piece], header: _Header) -> None:
        self.deleted: list[tuple[int, int]] = []
        self.pictures: list[tuple[int, int]] = []
        runs = () if header.is_old else _runs(main, table, header.characters, _character_data)
        for start, end, data in runs:
            for code, value in _operations(data):
                if code == _DELETED and value[:1] == b"\x01":
                    self.deleted += _spans(start, end, pieces)
                elif code == _PICTURE:
                    place = int.from_bytes(value, "little")
                    self.pictures += [(begin, place) for begin, _ in _spans(start, end, pieces)]
        self.pictures.sort()


def _spans(start: int, end: int, pieces: list[_Piece]) -> Iterator[tuple[int, int]]:
    for piece in pieces:
        first = max(start, piece.offset)
        last = min(end, piece.offset + piece.length * piece.width)
        if first < last:
            yield (
                piece.start + (first - piece.offset) // piece.width,
                piece.start + (last - piece.offset) // piece.width,
            )


def _blank_out(text: str, spans: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    place = 0
    for begin, end in sorted(spans):
        parts += [text[place:begin], "\x00" * (end - max(begin, place))]
        place = max(place, end)
    return "".join((*parts, text[place:]))


def _without_instructions(text: str) -> str:
    """Return the text with NULs in place of field instructions; fields may be nested."""
    parts: list[str] = []
    hidden: list[bool] = []
    place = 0
    for mark in _FIELD.finditer(text):
        parts.append("\x00" * (mark.start() - place) if any(hidden) else text[place : mark.start()])
        parts.append("\x00")
        place = mark.end()
        if mark[0] == "\x13":
            hidden.append(True)
        elif hidden and mark[0] == "\x14":
            hidden[-1] = False
        elif hidden:
            hidden.pop()
    if hidden:
        return _FIELD.sub("\x00", text)
    return "".join((*parts, text[place:]))


class _Formats:
    def __init__(self, main: bytes, table: bytes, pieces: list[_Piece], header: _Header) -> None:
        self.known = not header.is_old
        self._lists = Lists(main, table) if self.known else None
        self._pieces = pieces
        self._starts = [piece.start for piece in pieces]
        runs = sorted(_runs(main, table, header.paragraphs, _paragraph_data)) if self.known else []
        self._ends = [(start, end) for start, end, _ in runs]
        self._data = [data for _, _, data in runs]

    def at(self, place: int) -> _Paragraph:
        """Return the format of the paragraph that ends at a character, counted in its list."""
        piece = self._pieces[max(bisect_right(self._starts, place) - 1, 0)]
        offset = piece.offset + (place - piece.start) * piece.width
        number = bisect_right(self._ends, (offset, 1 << 32)) - 1
        if number < 0 or not self._ends[number][0] <= offset < self._ends[number][1]:
            return _Paragraph()
        data = self._data[number]
        set_to = dict(_operations(data[2:]))
        in_table, ends_row = (any(set_to.get(code, b"")) for code in (_IN_TABLE, _ROW_END))
        style = int.from_bytes(data[:2], "little")
        return _Paragraph(style, in_table, ends_row, "" if self._lists is None else self._lists.count(style, set_to))


def _runs(
    main: bytes, table: bytes, extent: tuple[int, int], find: Callable[[bytes, int, int], bytes]
) -> Iterator[tuple[int, int, bytes]]:
    """Yield begin, end and format of each run of equally formatted bytes, from the format pages."""
    offset, size = extent
    count = max(size - 4, 0) // 8
    for number in struct.unpack_from(f"<{count}I", table, offset + 4 * (count + 1)) if count else ():
        page = main[number * _PAGE : (number + 1) * _PAGE]
        if len(page) < _PAGE:
            continue
        held = page[-1]
        places = struct.unpack_from(f"<{held + 1}I", page) if held < 102 else ()
        for index, (start, end) in enumerate(pairwise(places)):
            yield start, end, find(page, held, index)


def _character_data(page: bytes, held: int, index: int) -> bytes:
    place = page[4 * (held + 1) + index] * 2
    return page[place + 1 : place + 1 + page[place]] if place else b""


def _paragraph_data(page: bytes, held: int, index: int) -> bytes:
    place = page[4 * (held + 1) + 13 * index] * 2
    if not place:
        return b""
    size = page[place]
    return page[place + 2 : place + 2 + page[place + 1] * 2] if not size else page[place + 1 : place + size * 2]


def _operations(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the code and operand of each property operation, stopping at a truncated operation."""
    place = 0
    while place + 2 < len(data):
        code = int.from_bytes(data[place : place + 2], "little")
        place += 2
        size = (1, 1, 2, 4, 2, 2, 0, 3)[code >> 13]
        if not size:
            long = code == _TABLE_DEFINITION and place + 1 < len(data)
            size = 1 + int.from_bytes(data[place : place + 2], "little") if long else 1 + data[place]
        yield code, data[place : place + size]
        place += size


def _divide(text: str, lengths: Sequence[int]) -> Iterator[str]:
    """Yield the parts of a text: body, footnotes, headers, macros, comments, endnotes, and two kinds of boxes."""
    place = 0
    for length in lengths:
        yield text[place : place + length]
        place += length


def _add_body(body: str, formats: _Formats, pictures: Pictures, builder: BlockBuilder) -> None:
    table = _Table(builder)
    place = 0
    for mark in _MARK.finditer(body + "\r"):
        text = _replace_controls(body[place : mark.start()])
        kind = formats.at(mark.start())
        is_bullet = kind.marker == list_numbers.BULLET and kind.style in _HEADINGS
        text = f"{kind.marker} {text}" if kind.marker and text.strip() and not is_bullet else text
        place = mark.end()
        if mark[0] == "\x07":
            table.cell(text, ends_row=kind.ends_row or (not formats.known and not text))
        elif kind.in_table:
            table.add(text)
        else:
            table.close()
            if kind.style in _HEADINGS:
                builder.heading(text, kind.style)
            else:
                builder.paragraph(text)
        pictures.note_until(place)
    table.close()


class _Table:
    def __init__(self, builder: BlockBuilder) -> None:
        self._builder = builder
        self._writer: TableWriter | None = None
        self._cells: list[str] = []
        self._cell: list[str] = []

    def add(self, text: str) -> None:
        self._cell.append(text)

    def cell(self, text: str, *, ends_row: bool) -> None:
        self._writer = self._writer or TableWriter(self._builder)
        if ends_row:
            self._writer.row(self._cells)
            self._cells = []
        else:
            self._cells.append(" ".join((*self._cell, text)))
        self._cell = []

    def close(self) -> None:
        if self._cells or self._cell:
            self.cell("", ends_row=False)
            self.cell("", ends_row=True)
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _replace_controls(text: str) -> str:
    return join_halves(text.translate(_OTHERS))
