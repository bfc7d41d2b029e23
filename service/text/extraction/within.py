"""Pictures within files, by address: entries of archives, parts of mails, positions in a text."""

import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path

from carrel.wire.formats import BY_NAME
from service.text.extraction import compound
from service.text.extraction.building import BlockBuilder
from service.text.extraction.compound import read_compound
from service.text.extraction.excel97 import read_stored_picture
from service.text.extraction.failures import corrupt_file
from service.text.extraction.html_pages import find_data_uris, parse_html
from service.text.extraction.mail import pictures_of, read_mail
from service.text.extraction.outlook import read_with_pictures
from service.text.extraction.packages import open_archive
from service.text.extraction.rtf import read_rtf_picture
from service.text.extraction.svg import find_drawings, read_drawing

_MOST_BYTES = 64 << 20
_DRAWINGS = ("SVG", "Windows metafile", "enhanced metafile")
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, LookupError, StopIteration)


def read_picture(path: Path, *, media_type: str, address: str) -> bytes:
    """Return the bytes of a picture within a file. Raises Unreadable when missing or damaged."""
    read = _READERS.get(media_type, read_entry)
    try:
        content = read(path, address)
    except _BROKEN as error:
        raise corrupt_file("a picture") from error
    drawing = read_drawing(content)
    return content if drawing is None else drawing.bitmap


def parse_page(data: bytes, builder: BlockBuilder) -> str | None:
    """Add a web page, then the embedded pictures, reading drawings at once; return the <title>."""
    title = parse_html(data, builder)
    if builder.limits.finds_pictures:
        for number, found in enumerate(find_data_uris(data)):
            builder.picture(str(number), found())
    for drawing in find_drawings(data):
        builder.preview(drawing)
    return title


def read_entry(path: Path, name: str) -> bytes:
    """Return a picture's entry in an archive. Raises Unreadable beyond `_MOST_BYTES`."""
    with open_archive(path) as archive, archive.open(name) as entry:
        content = entry.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise corrupt_file("a picture")
    return content


def _read_part(path: Path, address: str, *, is_outlook: bool = False) -> bytes:
    status = path.stat()
    # These values distinguish a file from an earlier file at the same path.
    return _pictures(path, (status.st_ino, status.st_mtime_ns, status.st_size), is_outlook=is_outlook)[address]()


# The pictures of a message are requested one after another.
@lru_cache(maxsize=1)
def _pictures(path: Path, _stamp: tuple[int, ...], *, is_outlook: bool) -> Mapping[str, Callable[[], bytes]]:
    largest = _MOST_BYTES * 8
    return dict(pictures_of(read_with_pictures(path, largest=largest) if is_outlook else read_mail(path.read_bytes())))


def _read_record(path: Path, address: str) -> bytes:
    stream, _, place = address.rpartition("/")
    return compound.read_picture(read_compound(path, stream).streams[stream], int(place))


_READERS: Mapping[str, Callable[[Path, str], bytes]] = {
    **{BY_NAME[name].media_type: _read_part for name in ("mail", "Outlook attachments", "web archive")},
    BY_NAME["Outlook message"].media_type: partial(_read_part, is_outlook=True),
    BY_NAME["HTML"].media_type: lambda path, at: next(islice(find_data_uris(path.read_bytes()), int(at), None))(),
    BY_NAME["PowerPoint 97"].media_type: _read_record,
    BY_NAME["Word 97"].media_type: _read_record,
    BY_NAME["Excel 97"].media_type: read_stored_picture,
    BY_NAME["RTF"].media_type: read_rtf_picture,
    **{BY_NAME[name].media_type: lambda path, _: path.read_bytes() for name in _DRAWINGS},
}
