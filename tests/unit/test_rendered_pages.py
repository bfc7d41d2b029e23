"""Pages of PDF files and pictures as JPEGs: bounded, numbered, and refused in words."""

import io

import pypdf
import pytest
from PIL import Image, ImageChops

from service.text.extraction.failures import Unreadable
from service.text.extraction.pages import open_page, render_page
from tests import made_files

PDF, TIFF, PNG = "application/pdf", "image/tiff", "image/png"
SMALL, LARGE = made_files.scan("Pear"), Image.new("L", (5_000, 100), 250)


def sized(width: float, height: float) -> bytes:
    writer = pypdf.PdfWriter()
    writer.add_blank_page(width, height)
    return made_files.bytes_of(writer)


@pytest.mark.parametrize(
    ("content", "media_type", "page", "shown"),
    [
        (made_files.pdf([("One", 12)], [("Two", 12)]), PDF, 2, ((1241, 1754), 2)),
        (made_files.pdf([("One", 12)]), PDF, 2, (None, 1)),
        (made_files.scanned(SMALL, LARGE, kind="TIFF"), TIFF, 2, ((2000, 40), 2)),
        (made_files.scanned(SMALL, kind="TIFF"), TIFF, 2, (None, 1)),
        (made_files.scanned(SMALL, kind="PNG"), PNG, 1, (SMALL.size, 1)),
        (sized(14_400, 14_400), PDF, 1, ((2000, 2000), 1)),
        (sized(1e9, 1e-9), PDF, 1, ((2000, 1), 1)),
    ],
)
def test_a_page_is_a_picture_within_bounds(tmp_path, content, media_type, page, shown):
    rendered = render_page(made_files.saved(tmp_path, "file", content), media_type=media_type, page=page, pixels=10**7)
    size, count = shown
    assert rendered.page_count == count
    if size is None:
        assert not rendered.jpeg
        return
    with Image.open(io.BytesIO(rendered.jpeg)) as picture:
        assert (picture.format, picture.size) == ("JPEG", size)


@pytest.mark.parametrize(
    ("content", "media_type", "code"),
    [
        (b"%PDF-1.7 nothing", PDF, "file_corrupt"),
        (made_files.encrypted_pdf(), PDF, "file_encrypted"),
        (made_files.scanned(LARGE, kind="PNG"), PNG, "file_too_complex"),
    ],
)
def test_what_cannot_be_shown_is_refused(tmp_path, content, media_type, code):
    path = made_files.saved(tmp_path, "file", content)
    with pytest.raises(Unreadable) as caught:
        render_page(path, media_type=media_type, page=1, pixels=1_000)
    assert caught.value.code == code


@pytest.mark.parametrize(("dots", "width"), [(200, 1654), (150, 1240), (96, 793)])
def test_a_page_that_is_one_picture_is_recognized_in_the_pixels_of_its_scan(tmp_path, dots, width):
    """Spread over other pixels, letters are soft, and their words are read run together."""
    picture = Image.effect_noise((width, 200), 128).convert("1")
    path = tmp_path / "scan.pdf"
    picture.save(path, resolution=dots)
    shown, _ = open_page(path, media_type=PDF, page=1, pixels=10**8)
    assert ImageChops.difference(shown, picture.convert("RGB")).getbbox() is None
    assert shown.size == picture.size
