# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# olefile is typed in part.
"""Compound files (OLE), as of Word, Excel and PowerPoint before 2007, and their pictures ([MS-ODRAW])."""

import struct
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import olefile

from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import corrupt_file
from service.text.extraction.metafiles import with_header

_BROKEN = (OSError, struct.error, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError)
_UTF_7 = 65_000


@contextmanager
def refuse_damaged(kind: str) -> Generator[None]:
    """Turn the errors of byte readers on a damaged file into the refusal for this kind of file."""
    try:
        yield
    except _BROKEN as error:
        raise corrupt_file(kind) from error


@dataclass(frozen=True, slots=True)
class Compound:
    """The content of a compound file: streams by name, the paths of all folders, and the title."""

    streams: Mapping[str, bytes]
    folders: Sequence[Sequence[str]]
    title: str | None


def read_compound(path: Path, *names: str) -> Compound:
    """Read a compound file with the named streams, if present, ignoring case."""
    with olefile.OleFileIO(str(path)) as file:
        streams = {name: file.openstream(name).read() for name in names if file.exists(name)}
        return Compound(streams, file.listdir(streams=False, storages=True), _title_of(file))


def _title_of(file: "olefile.OleFileIO[str]") -> str | None:
    try:
        metadata = file.get_metadata()
        page = int(metadata.codepage or 1252)
        return bytes(metadata.title or b"").decode(f"cp{page}" if 0 < page < _UTF_7 else "utf-8", "replace")
    except (*_BROKEN, LookupError):
        return None


_EMF, _WMF, _PICT = 0xF01A, 0xF01B, 0xF01C
_JPEG, _PNG, _DIB, _TIFF, _JPEG_CMYK = 0xF01D, 0xF01E, 0xF01F, 0xF029, 0xF02A
_DRAWINGS = frozenset({_EMF, _WMF, _PICT})
_PICTURES = frozenset({*_DRAWINGS, _JPEG, _PNG, _DIB, _TIFF, _JPEG_CMYK})
_MOST_BYTES = 64 << 20
# A picture's entry in the file's store: the position in it that names another stream, and the size of the entry.
STORE, ENTRY = 0xF001, 0xF007
_PLACE, _ENTRY_SIZE = 28, 36
OPTIONS = 0xF00B
_SHOWN_PICTURE = 0x4104


def read_picture(data: bytes, place: int) -> bytes:
    """Return the picture in the record at a position; empty when missing or damaged."""
    if not 0 <= place <= len(data) - 8:
        return b""
    form, kind, size = struct.unpack_from("<2HI", data, place)
    if kind not in _PICTURES:
        return b""
    # The lowest bit of the record's kind: the picture has two ids of 16 bytes instead of one.
    start = place + 8 + (32 if form >> 4 & 1 else 16)
    content = data[start : place + 8 + size]
    if kind in _DRAWINGS:
        packed, content = content[32:33] == b"\0", content[34:]
        try:
            return zlib.decompressobj().decompress(content, _MOST_BYTES) if packed else content
        except zlib.error:
            return b""
    return with_header(content[1:]) if kind == _DIB else content[1:]


def find_stored(data: bytes, place: int, end: int) -> Iterator[tuple[bool, int]]:
    """Yield the pictures between two places of a store: whether in the store's own stream, and the position."""
    end = min(end, len(data))
    while place + 8 <= end:
        _, kind, size = struct.unpack_from("<2HI", data, place)
        place += 8
        if kind == ENTRY and place + _ENTRY_SIZE <= end:
            (delayed,) = struct.unpack_from("<I", data, place + _PLACE)
            inner = place + _ENTRY_SIZE + data[place + _PLACE + 5]
            yield (True, inner) if inner < place + size else (False, delayed)
        else:
            yield True, place - 8
        place += size


def walk(data: bytes, place: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield kind, number within its kind, begin and end of each record between two positions; nested records follow."""
    while place + 8 <= min(end, len(data)):
        form, kind, size = struct.unpack_from("<2HI", data, place)
        place += 8
        yield kind, form >> 4, place, min(place + size, len(data))
        place += 0 if form & 0xF == 0xF else size


def find_shown(data: bytes, start: int, count: int) -> int:
    """Return the number in the store, from 1, of a shape's picture, given the shape's options; 0 for none."""
    for place in range(start, min(start + 6 * count, len(data) - 5), 6):
        option, value = struct.unpack_from("<HI", data, place)
        if option == _SHOWN_PICTURE:
            return value
    return 0


PICTURES = "Data"
_MAIN = "WordDocument"
# Kinds of pictures: shapes, and shapes with a file name first; all other kinds are Windows drawings.
_SHAPE, _LINKED_SHAPE = 0x64, 0x66
_AFTER_ALL = 1 << 32


@dataclass(slots=True)
class Pictures:
    """A document's pictures, recorded after their paragraphs. `drawings`: begin and size, in the stream `table`, of
    drawings laid over the text. `places`: pairs of a picture's character and position in its stream, in order."""

    streams: Mapping[str, bytes]
    table: str
    drawings: tuple[int, int]
    places: Sequence[tuple[int, int]]
    builder: BlockBuilder
    _next: int = 0
    _noted: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    def note_until(self, end: int) -> None:
        while self._next < len(self.places) and self.places[self._next][0] < end:
            self._note(self.places[self._next][1])
            self._next += 1

    def note_rest(self) -> None:
        """Record the pictures outside the body, and those laid over the text."""
        self.note_until(_AFTER_ALL)
        start, size = self.drawings
        data = self.streams.get(self.table, b"")
        for kind, _, first, last in walk(data, start, start + size):
            if kind == STORE:
                for inside, place in find_stored(data, first, last):
                    self._add(self.table if inside else _MAIN, place)
                return

    def _note(self, place: int) -> None:
        data = self.streams.get(PICTURES, b"")
        if place + 8 > len(data) or (PICTURES, place) in self._noted:
            return
        self._noted.add((PICTURES, place))
        size, start, kind = struct.unpack_from("<IHH", data, place)
        first, end = place + start, min(place + size, len(data))
        if kind in {_SHAPE, _LINKED_SHAPE}:
            first += 1 + data[first] if kind == _LINKED_SHAPE and first < end else 0
            for _, found in find_stored(data, first, end):
                self._add(PICTURES, found)
        else:
            self.builder.preview(data[first:end])

    def _add(self, stream: str, place: int) -> None:
        is_new = (stream, place) not in self._noted
        self._noted.add((stream, place))
        if is_new and (content := read_picture(self.streams.get(stream, b""), place)):
            self.builder.picture(f"{stream}/{place}", content)
