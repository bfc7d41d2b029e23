"""Pictures in Office files of before 2007 ([MS-ODRAW]): records, each of which holds one as the file that it was."""

import struct
import zlib
from collections.abc import Iterator

from service.text.extraction.metafiles import with_header

_EMF, _WMF, _PICT = 0xF01A, 0xF01B, 0xF01C
_JPEG, _PNG, _DIB, _TIFF, _JPEG_CMYK = 0xF01D, 0xF01E, 0xF01F, 0xF029, 0xF02A
_DRAWINGS = frozenset({_EMF, _WMF, _PICT})
_PICTURES = frozenset({*_DRAWINGS, _JPEG, _PNG, _DIB, _TIFF, _JPEG_CMYK})
_MOST_BYTES = 64 << 20
# A picture's entry in the store of a file, where it says that the picture is in another stream, and what follows it.
STORE, ENTRY = 0xF001, 0xF007
_PLACE, _ENTRY_SIZE = 28, 36
OPTIONS = 0xF00B
_SHOWN_PICTURE = 0x4104


def read_picture(data: bytes, place: int) -> bytes:
    """Return the picture in the record at a place; empty when none is there or it is damaged."""
    if not 0 <= place <= len(data) - 8:
        return b""
    form, kind, size = struct.unpack_from("<2HI", data, place)
    if kind not in _PICTURES:
        return b""
    # An odd number of its kind says that the picture has two names, of 16 bytes each.
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
    """Yield where each picture between two places of a store is, in order, and whether in the store's own stream."""
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
    """Yield kind, number among its kind, begin and end of each record between two places, those within others after."""
    while place + 8 <= min(end, len(data)):
        form, kind, size = struct.unpack_from("<2HI", data, place)
        place += 8
        yield kind, form >> 4, place, min(place + size, len(data))
        place += 0 if form & 0xF == 0xF else size


def find_shown(data: bytes, start: int, count: int) -> int:
    """Return the number in the store, from 1, of the picture that a shape shows, given its options; 0 for none."""
    for place in range(start, min(start + 6 * count, len(data) - 5), 6):
        option, value = struct.unpack_from("<HI", data, place)
        if option == _SHOWN_PICTURE:
            return value
    return 0
