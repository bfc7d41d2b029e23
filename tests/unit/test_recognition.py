"""Pages: recognized text in order, and page pictures as JPEGs."""

import io
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from math import cos, radians, sin
from pathlib import Path

import pypdf
import pytest
from PIL import Image, ImageChops

from service.text.extraction.failures import Unreadable
from service.text.extraction.pages import open_page, render_page
from service.text.reading import PageReader, ReadingInterrupted, UnreadablePage
from service.text.recognition import workers
from service.text.recognition.layout import PageView, RecognizedLine, make_blocks
from tests import made_files

PAGE = PageView((1000, 1400))


def line(text: str, left: float, top: float, *, width: float = 400, height: float = 20, turn: float = 0):
    corners = ((left, top), (left + width, top), (left + width, top + height), (left, top + height))
    across, down = cos(radians(turn)), sin(radians(turn))
    return RecognizedLine(text, 0.9, tuple((x * across - y * down, x * down + y * across) for x, y in corners))


def texts(lines) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in make_blocks(lines, view=PAGE, page=1)]


@pytest.mark.parametrize("turn", [0, 2, -2])
def test_columns_are_read_one_after_the_other_and_rows_of_a_table_across(turn):
    title = line("The lighthouse", 50, 40, width=600, height=44, turn=turn)
    columns = [
        line(f"{side} column, its line with number {number}", left, 140 + 28 * number, turn=turn)
        for number in range(4)
        for side, left in (("Left", 50), ("Right", 550))
    ]
    assert texts([*columns, title]) == [
        ("heading", "The lighthouse"),
        ("paragraph", " ".join(f"Left column, its line with number {number}" for number in range(4))),
        ("paragraph", " ".join(f"Right column, its line with number {number}" for number in range(4))),
    ]
    cells = [
        line(text, left, 140 + 28 * number, width=80, turn=turn)
        for number in range(8)
        for text, left in ((f"boat {number}", 50), (str(number * 7), 400), ("noon", 800))
    ]
    assert texts(cells) == [("paragraph", "\n".join(f"boat {number} | {number * 7} | noon" for number in range(8)))]


def test_a_divided_word_is_made_whole_and_gaps_begin_paragraphs():
    lines = [line("The light-", 50, 100), line("house keeper", 50, 126), line("sleeps.", 50, 240, width=100)]
    first, second = make_blocks(lines, view=PAGE, page=3)
    assert (first.text, second.text) == ("The lighthouse keeper", "sleeps.")
    assert (first.page, first.confidence, second.box) == (3, 0.9, (0.05, 0.1714, 0.15, 0.1857))


@pytest.fixture(scope="module")
def reader() -> Iterator[PageReader]:
    with closing(PageReader(workers=1, seconds=60, memory_bytes=2 << 30, pixels=10**8)) as made:
        yield made


def as_png(picture) -> bytes:
    return made_files.scanned(picture, kind="PNG")


async def test_a_page_that_is_damaged_or_takes_too_long_is_told(tmp_path, monkeypatch, reader):
    page = made_files.saved(
        tmp_path, "page", as_png(made_files.scan(*["The lantern room is painted every spring"] * 20))
    )
    broken = made_files.saved(tmp_path, "broken", page.read_bytes()[:300])
    file = {"media_type": "image/png", "page": 1, "is_numbered": False}
    with pytest.raises(UnreadablePage, match="damaged"):
        await reader.read(broken, **file)
    monkeypatch.setattr(workers, "WAIT_FACTOR", 0.001)
    with pytest.raises(ReadingInterrupted, match=r"longer than 0\.06 s on a busy machine"):
        await reader.read(page, **file)
    monkeypatch.setattr(workers, "WAIT_FACTOR", 6_000)
    monkeypatch.setattr(reader, "_seconds", 0.01)
    with pytest.raises(UnreadablePage, match=r"longer than 0\.01 seconds"):
        await reader.read(page, **file)
    monkeypatch.undo()
    assert "lantern room" in (await reader.read(page, **file))[0].text


async def test_the_photograph_of_a_phone_is_read(extract, reader):
    path = Path(__file__).parent / "data" / "pears.heic"
    found = extract("IMG_1.HEIC", path.read_bytes(), reads_scans=True)
    assert (found.media_type, found.scanned) == ("image/heic", (1,))
    [block] = await reader.read(path, media_type="image/heic", page=1, is_numbered=False)
    assert block.text == "The pears ripen in autumn."
    assert render_page(path, media_type="image/heic", page=1, pixels=10**6).jpeg


async def test_boxes_are_of_the_page_as_its_file_shows_it(tmp_path, reader):
    """A page on the side or upside down is turned for reading only."""
    page = made_files.scan("The lantern room is painted every spring").crop((0, 0, 850, 300))

    async def read_turned(degrees: int) -> tuple[float, ...]:
        path = made_files.saved(tmp_path, f"{degrees}.png", as_png(page.rotate(degrees, expand=True)))
        [block] = await reader.read(path, media_type="image/png", page=1, is_numbered=True)
        assert "lantern room" in block.text
        return block.box or ()

    left, top, right, bottom = await read_turned(0)
    assert top < 0.25 < bottom < 0.5
    assert await read_turned(90) == pytest.approx((top, 1 - right, bottom, 1 - left), abs=0.02)
    assert await read_turned(180) == pytest.approx((1 - right, 1 - bottom, 1 - left, 1 - top), abs=0.02)
    assert await read_turned(270) == pytest.approx((1 - bottom, left, 1 - top, right), abs=0.02)


async def test_a_process_that_cannot_start_costs_no_page(tmp_path):
    path = made_files.saved(tmp_path, "page", as_png(made_files.scan("A")))
    with closing(PageReader(workers=1, seconds=60, memory_bytes=100 << 20, pixels=10**8)) as reader:
        for _ in range(2):
            with pytest.raises(BrokenProcessPool):
                await reader.read(path, media_type="image/png", page=1, is_numbered=False)


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
    """Resampled letters are soft, and words run together."""
    picture = Image.effect_noise((width, 200), 128).convert("1")
    path = tmp_path / "scan.pdf"
    picture.save(path, resolution=dots)
    shown, _ = open_page(path, media_type=PDF, page=1, pixels=10**8)
    assert ImageChops.difference(shown, picture.convert("RGB")).getbbox() is None
    assert shown.size == picture.size
