"""Pictures in Word documents of before 2007 ([MS-DOC]): those that stand in the text, and those laid over it."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.text.extraction import officeart
from service.text.extraction.building import BlockBuilder

PICTURES = "Data"
_MAIN = "WordDocument"
# Kinds of pictures: two of shapes, the second with the name of a file before it; all others are drawings of Windows.
_SHAPE, _LINKED_SHAPE = 0x64, 0x66
_AFTER_ALL = 1 << 32


@dataclass(slots=True)
class Pictures:
    """The pictures of a document, which are noted after the paragraphs that they stand in. `drawings` are begin and
    size, in the stream `table`, of drawings laid over the text. `places` pair a picture's character with its place in
    its stream, in order."""

    streams: Mapping[str, bytes]
    table: str
    drawings: tuple[int, int]
    places: Sequence[tuple[int, int]]
    builder: BlockBuilder
    _next: int = 0
    _noted: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    def note_until(self, end: int) -> None:
        """Note the pictures in the text before this character that were not noted yet."""
        while self._next < len(self.places) and self.places[self._next][0] < end:
            self._note(self.places[self._next][1])
            self._next += 1

    def note_rest(self) -> None:
        """Note the pictures in what stands beside the body, and those that are laid over the text."""
        self.note_until(_AFTER_ALL)
        start, size = self.drawings
        data = self.streams.get(self.table, b"")
        for kind, _, first, last in officeart.walk(data, start, start + size):
            if kind == officeart.STORE:
                for inside, place in officeart.find_stored(data, first, last):
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
            for _, found in officeart.find_stored(data, first, end):
                self._add(PICTURES, found)
        else:
            self.builder.preview(data[first:end])

    def _add(self, stream: str, place: int) -> None:
        is_new = (stream, place) not in self._noted
        self._noted.add((stream, place))
        if is_new and (content := officeart.read_picture(self.streams.get(stream, b""), place)):
            self.builder.picture(f"{stream}/{place}", content)
