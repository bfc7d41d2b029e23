# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pypdfium2 is untyped.
"""Pages as pictures, for recognition and for people: PDF pages are rendered, pictures decoded and turned upright."""

import io
import re
from collections.abc import Collection, Sequence
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pypdfium2 as pdfium
from PIL import Image, ImageOps
from pypdfium2 import raw

from carrel.wire.formats import BY_NAME
from service.text.extraction.failures import corrupt_file
from service.text.extraction.pdf import open_pdf
from service.text.extraction.pictures import check_pixels, count_frames, open_picture
from service.text.extraction.within import read_picture

_PDF = BY_NAME["PDF"].media_type
_POINTS_AN_INCH = 72
# Makes letters of six points legible; pages larger than A3 have fewer dots per inch.
_DOTS_AN_INCH = 200
_LONGEST_SIDE = 3_400
# Just below the next whole pixel, because rounding up would stretch a scan by a pixel.
_LESS_THAN_ROUNDING = 1 - 1e-6
_WORD = re.compile(r"\w+")
# For people: text of ten points is sharp on a screen, and a page has some 200 KB.
_DOTS_SHOWN = 150
_SHOWN_SIDE = 2_000
_JPEG_QUALITY = 85


class RenderedPage(NamedTuple):
    """A page as a JPEG, and the file's number of pages; `jpeg` is empty for a page after the last."""

    jpeg: bytes
    page_count: int


def render_page(path: Path, *, media_type: str, page: int, pixels: int) -> RenderedPage:
    """Return a page (from 1) as a JPEG of at most 2000 pixels a side, empty if it is missing, and the count of pages.
    Raises Unreadable for a picture of more than `pixels` or a damaged file, and the libraries' own errors."""
    shown, count = _render_shown(path, page) if media_type == _PDF else _decode_frame(path, page, pixels=pixels)
    if shown is None:
        return RenderedPage(b"", count)
    buffer = io.BytesIO()
    shown.save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return RenderedPage(buffer.getvalue(), count)


def _render_shown(path: Path, page: int) -> tuple[Image.Image | None, int]:
    """Return a PDF's page with its notes and filled forms, None after the last page, and the number of pages."""
    try:
        # With a path, pypdfium2 checks the file's name, which a copy lacks.
        with path.open("rb") as file, open_pdf(file) as document:
            count = len(document)
            if page > count:
                return None, count
            if document.get_formtype() != raw.FORMTYPE_NONE:
                document.init_forms()
            shown = document[page - 1]
            scale = min(_DOTS_SHOWN / _POINTS_AN_INCH, _SHOWN_SIDE / max(*shown.get_size(), 1.0))
            picture: Image.Image = shown.render(scale=scale).to_pil()
            # Sides are rounded up to whole pixels.
            width, height = (min(side, _SHOWN_SIDE) for side in picture.size)
            return picture.convert("RGB").crop((0, 0, width, height)), count
    except pdfium.PdfiumError as error:
        raise corrupt_file("PDF") from error


def _decode_frame(path: Path, page: int, *, pixels: int) -> tuple[Image.Image | None, int]:
    with open_picture(path, pixels=pixels) as picture:
        count = count_frames(picture)
        if page > count:
            return None, count
        return _show_frame(picture, page - 1, pixels=pixels, side=_SHOWN_SIDE), count


def open_page(
    path: Path, *, media_type: str, page: int, pixels: int, address: str | None = None
) -> tuple[Image.Image, Collection[str]]:
    """Return a page, or the picture at `address` within the file, in RGB, with the words of its text layer. Raises
    Unreadable for too many pixels; OSError, ValueError and the libraries' own errors for a damaged file."""
    if media_type == _PDF:
        return _render(path, page, address)
    source = path if address is None else io.BytesIO(read_picture(path, media_type=media_type, address=address))
    with open_picture(source, pixels=pixels) as picture:
        return _show_frame(picture, page - 1 if address is None else 0, pixels=pixels, side=_LONGEST_SIDE), ()


def _show_frame(picture: Image.Image, number: int, *, pixels: int, side: int) -> Image.Image:
    picture.seek(number)
    check_pixels(picture, pixels=pixels)
    # A JPEG is decoded at a half, a fourth or an eighth of its size if that is enough.
    picture.draft("RGB", (side, side))
    picture.thumbnail((side, side))
    return _put_on_white(ImageOps.exif_transpose(picture))


def _render(path: Path, page: int, edges: str | None) -> tuple[Image.Image, Collection[str]]:
    """Return a page's picture, or only the picture within `edges`, and the words of the page's text layer."""
    with open_pdf(path) as document:
        shown = document[page - 1]
        text_page = shown.get_textpage()
        words = frozenset(_WORD.findall(text_page.get_text_range().lower()))
        scale = min(_DOTS_AN_INCH / _POINTS_AN_INCH, _LONGEST_SIDE / max(*shown.get_size(), 1.0), _own_scale(shown))
        scale *= _LESS_THAN_ROUNDING
        crop = (0.0, 0.0, 0.0, 0.0) if edges is None else _margins_around(edges, shown)
        picture: Image.Image = shown.render(scale=scale, crop=crop).to_pil()
        return picture.convert("RGB"), words


def _own_scale(page: Any) -> float:
    """Return the pixels per point of a single-picture page, at least 1, else infinity: enlarged, words run together."""
    objects = list(islice(page.get_objects(max_depth=1), 2))
    if len(objects) != 1 or objects[0].type != raw.FPDF_PAGEOBJ_IMAGE:
        return inf
    left, bottom, right, top = objects[0].get_bounds()
    return max(max(objects[0].get_px_size()) / max(right - left, top - bottom, 1.0), 1.0)


def _margins_around(edges: str, page: Any) -> Sequence[float]:
    """Return the margins of a page around a picture's edges, at the left, below, at the right and above, in points."""
    left, bottom, right, top = map(float, edges.split(","))
    page_left, page_bottom, page_right, page_top = page.get_bbox()
    cut = (left - page_left, bottom - page_bottom, page_right - right, page_top - top)
    # The page's rotation in quarters to the right.
    quarters = page.get_rotation() // 90
    return [max(each, 0.0) for each in (*cut[quarters:], *cut[:quarters])]


def _put_on_white(picture: Image.Image) -> Image.Image:
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    paper = Image.new("RGBA", picture.size, "white")
    paper.alpha_composite(picture.convert("RGBA"))
    return paper.convert("RGB")


def is_known(text: str, words: Collection[str]) -> bool:
    """Return whether the text layer already has a line: at least four fifths of its words."""
    own = _WORD.findall(text.lower())
    return bool(own) and sum(word in words for word in own) >= 0.8 * len(own)
