"""Pictures as documents: each page waits for text recognition, because reading a page takes seconds."""

from pathlib import Path
from typing import IO

from pi_heif import options, register_heif_opener  # pyright: ignore[reportUnknownVariableType] - partly untyped
from PIL import Image, UnidentifiedImageError

from carrel.wire.formats import NotReadKind
from service.text.extraction.building import BlockBuilder
from service.text.extraction.failures import Unreadable, corrupt_file, too_complex
from service.text.extraction.markup import local_name, parse_markup
from service.text.extraction.metafiles import Drawing
from service.text.extraction.plain import refuse_size
from service.text.extraction.svg import read_drawing, to_drawing

# Formats whose frames are pages; frames of other formats are an animation.
_PAGED = ("TIFF",)
# Threads of its own would use up the limit of processor time.
register_heif_opener()
options.DECODE_THREADS = 1


def parse_picture(path: Path, builder: BlockBuilder) -> None:
    """Record a picture's pages as scanned. Raises Unreadable for damage, size, or if pictures aren't read."""
    if not builder.limits.reads_scans:
        raise Unreadable(
            "file_type_unsupported",
            "The file is a picture, and this service doesn't read text in pictures. Send the text itself, or ask an "
            "operator to turn text recognition on (CARREL_OCR).",
        )
    try:
        with open_picture(path, pixels=builder.limits.pixels) as picture:
            pages = count_frames(picture)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise corrupt_file("a picture") from error
    if pages > builder.limits.pages:
        raise too_complex(f"The picture has {pages:,} pages; at most {builder.limits.pages:,} are read.")
    for number in range(1, pages + 1):
        builder.scan(number)


def count_frames(picture: Image.Image) -> int:
    return getattr(picture, "n_frames", 1) if picture.format in _PAGED else 1


def parse_svg(data: bytes, builder: BlockBuilder) -> None:
    """Add the texts of an SVG drawing; its largest picture waits for text recognition, if enabled."""
    refuse_size(data, builder)
    root = parse_markup(data)
    if local_name(root) != "svg":
        raise corrupt_file("an SVG drawing")
    _add_drawing(to_drawing(root), builder)


def parse_metafile(data: bytes, builder: BlockBuilder) -> None:
    """Add the texts of a Windows metafile; its largest picture waits for text recognition, if enabled."""
    drawing = read_drawing(data)
    if drawing is None:
        raise corrupt_file("a metafile")
    _add_drawing(drawing, builder)


def _add_drawing(drawing: Drawing, builder: BlockBuilder) -> None:
    builder.lines("\n".join(drawing.lines))
    builder.leave_out(NotReadKind.PICTURE, count=drawing.others)
    if drawing.bitmap:
        builder.picture("", drawing.bitmap)


def open_picture(path: Path | IO[bytes], *, pixels: int) -> Image.Image:
    """Open a picture without decoding. Raises Unreadable if its first page has more than `pixels` pixels."""
    Image.MAX_IMAGE_PIXELS = None
    picture = Image.open(path)
    try:
        check_pixels(picture, pixels=pixels)
    except Unreadable:
        picture.close()
        raise
    return picture


def check_pixels(picture: Image.Image, *, pixels: int) -> None:
    """Raise Unreadable if the picture's current page has more than `pixels` pixels."""
    width, height = picture.size
    if width * height > pixels:
        raise too_complex(
            f"The picture has {width:,} × {height:,} pixels; at most {pixels:,} are read."  # noqa: RUF001 - the sign of multiplication
        )
