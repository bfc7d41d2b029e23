"""Pictures in Word documents of before 2007 ([MS-DOC]): those that stand in the text, and those laid over it."""

import struct
from collections.abc import Mapping, Sequence

from service.text.extraction import officeart
from service.text.extraction.building import BlockBuilder

PICTURES = "Data"
_MAIN = "WordDocument"
# Kinds of pictures: two of shapes, the second with the name of a file before it; all others are drawings of Windows.
_SHAPE, _LINKED_SHAPE = 0x64, 0x66
_AFTER_ALL = 1 << 32


class Pictures:
    """The pictures of a document, which are noted after the paragraphs that they stand in."""

    def __init__(
        self,
        streams: Mapping[str, bytes],
        table: str,
        drawings: tuple[int, int],
        places: Sequence[tuple[int, int]],
        builder: BlockBuilder,
    ) -> None:
        """`drawings` are begin and size, in the stream `table`, of drawings laid over the text. `places` pair a
        picture's character with its place in its stream, in order."""
        self._streams = streams
        self._table = table
        self._drawings = drawings
        self._places = places
        self._builder = builder
        self._next = 0
        self._noted: set[tuple[str, int]] = set()

    def note_until(self, end: int) -> None:
        """Note the pictures in the text before this character that were not noted yet."""
        while self._next < len(self._places) and self._places[self._next][0] < end:
            self._note(self._places[self._next][1])
            self._next += 1

    def note_rest(self) -> None:
        """Note the pictures in what stands beside the body, and those that are laid over the text."""
        self.note_until(_AFTER_ALL)
        start, size = self._drawings
        data = self._streams.get(self._table, b"")
        for kind, _, first, last in officeart.walk(data, start, start + size):
            if kind == officeart.STORE:
                for inside, place in officeart.find_stored(data, first, last):
                    self._add(self._table if inside else _MAIN, place)
                return

    def _note(self, place: int) -> None:
        data = self._streams.get(PICTURES, b"")
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
            self._builder.preview(data[first:end])

    def _add(self, stream: str, place: int) -> None:
        is_new = (stream, place) not in self._noted
        self._noted.add((stream, place))
        if is_new and (content := officeart.read_picture(self._streams.get(stream, b""), place)):
            self._builder.picture(f"{stream}/{place}", content)
