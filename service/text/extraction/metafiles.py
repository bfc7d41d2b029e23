"""Windows drawings, WMF ([MS-WMF]) and EMF ([MS-EMF], [MS-EMFPLUS]): texts and largest bitmap of Office objects."""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from service.text.extraction import symbols
from service.text.extraction.decoding import FONT_CODE_PAGES

_PLACEABLE, _PLACEABLE_SIZE = b"\xd7\xcd\xc6\x9a", 22
_PACKED = b"\x1f\x8b"
_EMF_MARK = b" EMF"
# Real drawings have some thousands of texts; a drawing with more has no readable text.
_MOST_TEXTS = 20_000
# Each text is one line. All texts of a record may refer to the same bytes.
_LONGEST_TEXT = 1_000
_MOST_RECORDS, _MOST_OBJECTS = 1_000_000, 1_000
_MOST_BYTES = 64 << 20
_SYMBOL_SET = 2
# Options of a text: glyph numbers instead of characters; a rectangle; pairs of distances; no rectangle; bytes.
_GLYPHS, _RECTANGLE, _PAIRS, _NO_RECTANGLE, _SMALL = 0x10, 0x6, 0x2000, 0x100, 0x200
_AT_PEN = 1
# Texts closer than this part of a character's size belong to one word.
_GAP, _WIDEST_GAP = 0.35, 4
_Matrix = tuple[float, float, float, float, float, float]
_UNCHANGED: _Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
_BITMAP_HEADERS = frozenset({40, 52, 56, 64, 108, 124})


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing: text lines from top to bottom, the largest bitmap (empty if none), and the number of other bitmaps."""

    lines: tuple[str, ...]
    bitmap: bytes
    others: int = 0


@dataclass(frozen=True, slots=True)
class _Font:
    characters: int = 0
    name: str = ""
    height: int = 0


@dataclass(frozen=True, slots=True)
class _Text:
    """A text: start, width, the width of a character, and whether the text continues the previous text."""

    text: str
    x: float
    y: float
    width: float
    size: float
    follows: bool = False


@dataclass(slots=True)
class _Found:
    texts: list[_Text] = field(default_factory=list[_Text])
    others: list[_Text] = field(default_factory=list[_Text])
    bitmap: bytes = b""

    def add_bitmap(self, content: bytes) -> None:
        if len(content) > len(self.bitmap):
            self.bitmap = content


def read_metafile(content: bytes) -> Drawing | None:
    """Return a drawing's content; None unless WMF or EMF. A truncated drawing gives the content read so far."""
    if content.startswith(_PACKED):
        with suppress(zlib.error):
            content = zlib.decompressobj(31).decompress(content, _MOST_BYTES)
    if content[40:44] == _EMF_MARK:
        read: Callable[[bytes, _Found], None] = _read_emf
    elif content.startswith((_PLACEABLE, b"\x01\x00\x09\x00", b"\x02\x00\x09\x00")):
        read = _read_wmf
    else:
        return None
    found = _Found()
    with suppress(struct.error, IndexError):
        read(content, found)
    lines = (" ".join(line.split()) for line in _lines(found.texts or found.others))
    return Drawing(tuple(line for line in lines if line), found.bitmap)


def with_header(bitmap: bytes) -> bytes:
    """Return a Windows bitmap (DIB) with the header of a bitmap file; empty for other bytes and for 12-byte headers."""
    if len(bitmap) < 40:
        return b""
    size, bits, compression, colours = (
        int.from_bytes(bitmap[place : place + length], "little")
        for place, length in ((0, 4), (14, 2), (16, 4), (32, 4))
    )
    if size not in _BITMAP_HEADERS:
        return b""
    palette = 4 * (colours or (1 << bits if bits <= 8 else 0)) + (12 if compression == 3 and size == 40 else 0)
    if palette > len(bitmap):
        return b""
    return b"BM" + struct.pack("<I4xI", 14 + len(bitmap), 14 + size + palette) + bitmap


def _lines(texts: list[_Text]) -> Iterator[str]:
    """Yield lines: texts that are close on a line or follow each other, joined. The first may be empty."""
    line, end = "", 0.0
    for before, each in pairwise([_Text("", 0, 0, 0, 0), *texts]):
        gap = each.x - end
        end = each.width + (end if each.follows else each.x)
        size = max(before.size, each.size)
        is_close = abs(each.y - before.y) <= size and -size <= gap <= _WIDEST_GAP * size
        if not each.follows and not is_close:
            yield line
            line = ""
        line += f" {each.text}" if is_close and not each.follows and gap > _GAP * size else each.text
    yield line


def _to_text(text: str, x: float, y: float, width: float, height: float, *, follows: bool = False) -> _Text:
    width = width or len(text) * height / 2
    return _Text(text, x, y, width, width / max(len(text), 1), follows)


def _read_emf(data: bytes, found: _Found) -> None:
    reader, place = _EmfReader(found), 0
    for _ in range(_MOST_RECORDS):
        kind, size = struct.unpack_from("<2I", data, place)
        if size < 8 or len(found.texts) >= _MOST_TEXTS:
            return
        reader.read(kind, data[place : place + size])
        place += size


class _Pen:
    """The position of texts without a position of their own: the last move, or the end of the previous text."""

    def __init__(self) -> None:
        self._is_used = False
        self._moved: tuple[int, int] | None = None

    def align(self, mode: int) -> None:
        self._is_used = bool(mode & _AT_PEN)

    def move(self, x: int, y: int) -> None:
        self._moved = x, y

    def place(self, x: int, y: int) -> tuple[int, int, bool]:
        moved, self._moved = self._moved, None
        if not self._is_used:
            return x, y, False
        return (*moved, False) if moved else (x, y, True)


class _EmfReader:
    """Reads the records of an EMF: its pen and transformations give the position of texts."""

    def __init__(self, found: _Found) -> None:
        self._found = found
        self._pen = _Pen()
        self._matrix = _UNCHANGED
        self._saved: list[_Matrix] = []
        self._fonts: dict[int, _Font] = {}
        self._font = _Font()

    def read(self, kind: int, record: bytes) -> None:
        if kind in {83, 84}:
            self._add_text(record, 36, wide=kind == 84)
        elif kind in {96, 97}:
            (count,) = struct.unpack_from("<I", record, 36)
            for number in range(min(count, len(record) // 40, _MOST_TEXTS)):
                self._add_text(record, 40 + 40 * number, wide=kind == 97)
        elif kind == 108:
            self._add_small(record)
        elif kind in _BITMAPS:
            self._found.add_bitmap(_bitmap(record, *_BITMAPS[kind]))
        elif kind == 70 and record[12:16] == b"EMF+":
            _read_plus(record[16:], self._found)
        elif kind == 22:
            self._pen.align(record[8])
        elif kind == 27:
            self._pen.move(*struct.unpack_from("<2i", record, 8))
        else:
            self._transform(kind, record)
            self._choose_font(kind, record)

    def _transform(self, kind: int, record: bytes) -> None:
        if kind == 33:
            self._saved = [*self._saved[-100:], self._matrix]
        elif kind == 34 and self._saved:
            self._matrix = self._saved.pop()
        elif kind in {35, 36}:
            read: _Matrix = struct.unpack_from("<6f", record, 8)
            mode = 4 if kind == 35 else record[32]
            if mode == 1:
                self._matrix = _UNCHANGED
            elif mode == 4:
                self._matrix = read
            else:
                self._matrix = _product(read, self._matrix) if mode == 2 else _product(self._matrix, read)

    def _choose_font(self, kind: int, record: bytes) -> None:
        if kind == 82 and len(self._fonts) < _MOST_OBJECTS:
            number = int.from_bytes(record[8:12], "little")
            name = record[40:104].decode("utf-16-le", "replace").partition("\0")[0]
            self._fonts[number] = _Font(record[35], name, abs(struct.unpack_from("<i", record, 12)[0]))
        elif kind == 37:
            self._font = self._fonts.get(int.from_bytes(record[8:12], "little"), self._font)

    def _add_text(self, record: bytes, place: int, *, wide: bool) -> None:
        x, y, count, start, options = struct.unpack_from("<2i3I", record, place)
        if options & _GLYPHS:
            return
        count = min(count, _LONGEST_TEXT)
        (distances,) = struct.unpack_from("<I", record, place + 36)
        text = record[start : start + count * (2 if wide else 1)]
        step = 2 if options & _PAIRS else 1
        held = min(count, (len(record) - distances) // (4 * step)) if distances else 0
        width = sum(struct.unpack_from(f"<{held * step}i", record, distances)[::step]) if held > 0 else 0
        self._add(_decode(text, self._font, wide=wide), x, y, width)

    def _add_small(self, record: bytes) -> None:
        x, y, count, options = struct.unpack_from("<2i2I", record, 8)
        start = 36 + (0 if options & _NO_RECTANGLE else 16)
        if not options & _GLYPHS:
            wide = not options & _SMALL
            text = record[start : start + count * (2 if wide else 1)]
            self._add(_decode(text, self._font, wide=wide), x, y, 0)

    def _add(self, text: str, x: int, y: int, width: int) -> None:
        x, y, follows = self._pen.place(x, y)
        a, b, c, d, e, f = self._matrix
        left, top = a * x + c * y + e, b * x + d * y + f
        height = abs(d) * self._font.height
        self._found.texts.append(_to_text(text, left, top, abs(a) * width, height, follows=follows))


def _product(first: _Matrix, then: _Matrix) -> _Matrix:
    a, b, c, d, e, f = first
    g, h, i, j, k, m = then
    return (a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m)


# Where a record gives its bitmap's position: offset and size of the header, then of the pixels.
_BITMAPS: Mapping[int, tuple[int, int]] = {76: (84, 92), 77: (84, 92), 80: (48, 56), 81: (48, 56), 114: (84, 92)}


def _bitmap(record: bytes, header: int, pixels: int) -> bytes:
    (start, size), (first, length) = (struct.unpack_from("<2I", record, place) for place in (header, pixels))
    return with_header(record[start : start + size] + record[first : first + length]) if size and length else b""


def _read_plus(data: bytes, found: _Found) -> None:
    place = 0
    while place + 12 <= len(data) and len(found.others) < _MOST_TEXTS:
        kind, _, size, length = struct.unpack_from("<2H2I", data, place)
        record = data[place + 12 : place + 12 + length]
        if kind == 0x401C and length >= 28:
            (count,) = struct.unpack_from("<I", record, 8)
            left, top = struct.unpack_from("<2f", record, 12)
            found.others.append(_to_text(record[28 : 28 + 2 * count].decode("utf-16-le", "replace"), left, top, 0, 0))
        elif kind == 0x4036 and length >= 16 and record[4] & 1:
            (count,) = struct.unpack_from("<I", record, 12)
            text = record[16 : 16 + 2 * count].decode("utf-16-le", "replace")
            left, top = struct.unpack_from("<2f", record, 16 + 2 * count)
            found.others.append(_to_text(text, left, top, 0, 0))
        elif kind == 0x4008:
            found.add_bitmap(next((record[at:] for mark in _FILES if (at := record.find(mark, 0, 64)) >= 0), b""))
        if size < 12:
            return
        place += size


_FILES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\x00")


def _read_wmf(data: bytes, found: _Found) -> None:
    place = 18 + (_PLACEABLE_SIZE if data.startswith(_PLACEABLE) else 0)
    reader = _WmfReader(found)
    for _ in range(_MOST_RECORDS):
        size, kind = struct.unpack_from("<IH", data, place)
        if size < 3 or len(found.texts) >= _MOST_TEXTS:
            return
        reader.read(kind, data[place + 6 : place + 2 * size])
        place += 2 * size


class _WmfReader:
    """Reads the records of a WMF: the current font gives the code page of texts."""

    def __init__(self, found: _Found) -> None:
        self._found = found
        self._pen = _Pen()
        self._objects: dict[int, _Font | None] = {}
        self._font = _Font()

    def read(self, kind: int, record: bytes) -> None:
        if kind == 0x0A32:
            y, x, count, options = struct.unpack_from("<2h2H", record)
            start = 8 + (8 if options & _RECTANGLE else 0)
            after = start + count + count % 2
            held = min(count, (len(record) - after) // 2)
            width = sum(struct.unpack_from(f"<{held}h", record, after)) if held > 0 else 0
            if not options & _GLYPHS:
                self._add(record[start : start + count], x, y, width)
        elif kind == 0x0521:
            (count,) = struct.unpack_from("<H", record)
            y, x = struct.unpack_from("<2h", record, 2 + count + count % 2)
            self._add(record[2 : 2 + count], x, y, 0)
        elif kind == 0x012E:
            self._pen.align(record[0])
        elif kind == 0x0214:
            y, x = struct.unpack_from("<2h", record)
            self._pen.move(x, y)
        elif kind in _WMF_BITMAPS:
            self._found.add_bitmap(with_header(record[_WMF_BITMAPS[kind] :]))
        else:
            self._choose_font(kind, record)

    def _choose_font(self, kind: int, record: bytes) -> None:
        if kind in _CREATES and len(self._objects) < _MOST_OBJECTS:
            number = next(number for number in range(len(self._objects) + 1) if number not in self._objects)
            name = record[18:50].partition(b"\0")[0].decode("cp1252", "replace")
            height = abs(int.from_bytes(record[:2], "little", signed=True))
            self._objects[number] = _Font(record[13], name, height) if kind == 0x02FB else None
        elif kind == 0x01F0:
            self._objects.pop(int.from_bytes(record[:2], "little"), None)
        elif kind == 0x012D:
            self._font = self._objects.get(int.from_bytes(record[:2], "little")) or self._font

    def _add(self, text: bytes, x: int, y: int, width: int) -> None:
        x, y, follows = self._pen.place(x, y)
        shown = _decode(text, self._font, wide=False)
        self._found.texts.append(_to_text(shown, x, y, width, self._font.height, follows=follows))


_CREATES = frozenset({0x00F7, 0x0142, 0x01F9, 0x02FA, 0x02FB, 0x02FC, 0x06FF})
# Where a record's bitmap begins.
_WMF_BITMAPS = {0x0940: 16, 0x0B41: 20, 0x0F43: 22, 0x0D33: 18}


def _decode(text: bytes, font: _Font, *, wide: bool) -> str:
    """Return a text in a font; characters of symbol fonts are no text, except Greek letters."""
    code_page = FONT_CODE_PAGES.get(font.characters, "cp1252")
    is_symbols = font.characters == _SYMBOL_SET or symbols.is_known(font.name)
    read = text.decode("utf-16-le" if wide else "latin-1" if is_symbols else code_page, "replace")
    return "".join(symbols.show(ord(each), font.name) or " " for each in read) if is_symbols else read
