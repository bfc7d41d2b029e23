"""Where passages stand: told by the readers, joined by chunks, and named in words."""

import datetime as dt
import io
import zipfile
from pathlib import Path

import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from carrel.wire.places import Box, PageBox, PassagePlace, Rows, describe_place
from service.text.chunking import chunk_blocks
from service.text.embedding.tokenizer import WordPieces
from service.text.embedding.weights import locate
from service.text.extraction.blocks import Block, cut_block, pack_blocks, unpack_blocks
from service.text.extraction.building import BlockBuilder, Limits
from service.text.extraction.pages import render_page
from service.text.extraction.parsing import parse_file
from service.text.extraction.pdf_layout import Line, add_pages
from service.text.places import join_places
from tests import made_files

TOKENIZER = WordPieces(locate().tokenizer)
CSV = b'Item,Price\nApple,3\n\n"Pear\nripe",4\n'
MAILBOX = b"".join(
    b"From a Mon Jan  5 10:00:00 2026\nFrom: ann@example.test\nSubject: %s\n\nThe harbour opens.\n\n" % subject
    for subject in (b"One", b"Two")
)
SHEETS = {"Costs": [["Item", "Price"], ["Apple", 3], [None, None], ["Pear", 4]], "Empty": [], "Notes": [["One cell"]]}


def open_sheets(**sheets: made_files.Rows) -> bytes:
    """Return OpenDocument sheets."""
    odf = "urn:oasis:names:tc:opendocument:xmlns:"
    spaces = " ".join(f'xmlns:{name}="{odf}{name}:1.0"' for name in ("office", "table", "text"))
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    tables = ""
    for name, rows in sheets.items():
        lines = ("".join(cell.format(value) for value in row) for row in rows)
        inside = "".join(f"<table:table-row>{line}</table:table-row>" for line in lines)
        tables += f'<table:table table:name="{name}">{inside}</table:table>'
    body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", f"<office:document-content {spaces}>{body}</office:document-content>")
        archive.writestr("META-INF/manifest.xml", f'<m:manifest xmlns:m="{odf}manifest:1.0"/>')
    return buffer.getvalue()


def places_in(folder: Path, name: str, content: bytes) -> dict[str, PassagePlace | None]:
    """The place of each block of a file alone, by the block's text."""
    extraction = parse_file(made_files.saved(folder, name, content), name, Limits())
    return {
        block.text: join_places([block], starts=[0], media_type=extraction.media_type) for block in extraction.blocks
    }


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.pptx",
            made_files.slides(),
            {"Pick in May": PassagePlace(slide=1), "Field: North | Tons: 12": PassagePlace(slide=2)},
        ),
        ("a.mbox", MAILBOX, {"One": PassagePlace(message=1), "Two": PassagePlace(message=2)}),
        (
            "a.csv",
            CSV,
            {
                "Item: Apple | Price: 3": PassagePlace(rows=Rows(first=2, last=2)),
                "Item: Pear ripe | Price: 4": PassagePlace(rows=Rows(first=4, last=4)),
            },
        ),
        (
            "a.xlsx",
            made_files.workbook(**SHEETS),
            {
                "Costs": PassagePlace(sheet="Costs"),
                "Item: Pear | Price: 4": PassagePlace(sheet="Costs", rows=Rows(first=4, last=4)),
                "One cell": PassagePlace(sheet="Notes"),
            },
        ),
        (
            "a.ods",
            open_sheets(Costs=[["Item", "Price"], [], ["Apple", 3]], Notes=[["Who", "When"], ["Ann", "May"]]),
            {
                "Item: Apple | Price: 3": PassagePlace(sheet="Costs", rows=Rows(first=3, last=3)),
                "Who: Ann | When: May": PassagePlace(sheet="Notes", rows=Rows(first=2, last=2)),
            },
        ),
        (
            "a.xls",
            made_files.old_workbook(**SHEETS, Dates=[["Day", "Took"], [dt.date(2026, 5, 3), dt.time(12, 30)]]),
            {
                "Costs": PassagePlace(sheet="Costs"),
                "Item: Pear | Price: 4": PassagePlace(sheet="Costs", rows=Rows(first=4, last=4)),
                "One cell": PassagePlace(sheet="Notes"),
                "Day: 2026-05-03 | Took: 12:30:00": PassagePlace(sheet="Dates", rows=Rows(first=2, last=2)),
            },
        ),
        ("a.md", b"# Pears\n\nThey ripen.", {"Pears": None, "They ripen.": None}),
    ],
)
def test_readers_tell_where_blocks_stand(
    tmp_path: Path, name: str, content: bytes, expected: dict[str, PassagePlace | None]
) -> None:
    """Slides, messages, sheets and rows have the numbers that programs show; plain text has no place."""
    assert expected.items() <= places_in(tmp_path, name, content).items()


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_boxes_are_of_pages_as_people_see_them(tmp_path: Path, turned: int, cut: bool) -> None:
    """The box of a line is where it is shown, also on a page that is turned, or of which the upper half is visible.

    And where its letters are in the picture of the page.
    """
    [page] = pypdf.PdfReader(io.BytesIO(made_files.pdf([("Pear", 12)]))).pages
    left, top, right, bottom = 0.0524, 0.0336, 0.095, 0.0502
    if cut:
        page.cropbox.lower_left = (0, page.mediabox.height / 2)
        top, bottom = top * 2, bottom * 2
    writer = pypdf.PdfWriter()
    writer.add_page(page.rotate(turned))
    buffer = io.BytesIO()
    writer.write(buffer)
    place = places_in(tmp_path, "a.pdf", buffer.getvalue())["Pear"]
    shown = {
        0: (left, top, right, bottom),
        90: (1 - bottom, left, 1 - top, right),
        180: (1 - right, 1 - bottom, 1 - left, 1 - top),
        270: (top, 1 - right, bottom, 1 - left),
    }
    assert place is not None
    assert place.box is not None
    assert (place.page, tuple(place.box.model_dump().values())) == (1, pytest.approx(shown[turned], abs=0.001))
    rendered = render_page(tmp_path / "a.pdf", media_type="application/pdf", page=1, pixels=0)
    with Image.open(io.BytesIO(rendered.jpeg)) as picture:
        letters = ImageOps.invert(picture.convert("L")).point([0] * 60 + [255] * 196).getbbox()
        width, height = picture.size
    assert letters is not None
    edges = (place.box.left * width, place.box.top * height, place.box.right * width, place.box.bottom * height)
    assert all(edge - 1 <= letter for edge, letter in zip(edges[:2], letters[:2], strict=True))
    assert all(letter <= edge + 1 for edge, letter in zip(edges[2:], letters[2:], strict=True))


def block(number: int, page: int | None, edge: float, *, is_row: bool) -> Block:
    """A block whose text tells its number."""
    rows = (number, number) if is_row else None
    box = None if page is None else (edge, edge, edge + 0.5, edge + 0.5)
    text = f"number{number}"
    return Block(
        "table_row" if is_row else "paragraph", text, page=page, sheet="S" if is_row else None, rows=rows, box=box
    )


BLOCKS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(1, 4)), st.floats(0, 0.5), st.booleans(), st.integers(1, 60)),
    max_size=30,
)


@given(members=BLOCKS)
@settings(max_examples=60, deadline=None)
def test_a_chunk_stands_where_its_blocks_do(members: list[tuple[int | None, float, bool, int]]) -> None:
    """From the first page and row of the blocks whose words it has to the last, in the rectangle around them.

    Several boxes cover what the blocks do, page by page, and tell where the text of each begins.
    """
    blocks = [
        Block(made.kind, f"{made.text} " * times, 0, made.page, made.sheet, made.rows, made.box)
        for number, (page, edge, is_row, times) in enumerate(members)
        for made in [block(number, page, edge, is_row=is_row)]
    ]
    for chunk in chunk_blocks(blocks, title="", tokenizer=TOKENIZER, media_type="application/pdf"):
        inside = [each for number, each in enumerate(blocks) if f"number{number}" in chunk.text.split()]
        pages = sorted({each.page for each in inside if each.page is not None})
        rows = [each.rows for each in inside if each.rows is not None]
        boxes = [each.box for each in inside if each.box is not None]
        place = chunk.place or PassagePlace()
        assert (place.page, place.last_page) == ((pages or [None])[0], pages[-1] if len(pages) > 1 else None)
        assert place.rows == (Rows(first=rows[0][0], last=rows[-1][1]) if rows else None)
        if len(pages) == 1 and len(boxes) == len(inside):
            least, most = min(box[0] for box in boxes), max(box[2] for box in boxes)
            assert place.box == Box(left=least, top=least, right=most, bottom=most)
        else:
            assert place.box is None
        if place.boxes is None:
            assert len(pages) < 2 or len(boxes) < len(inside)
            continue
        assert sorted({box.page for box in place.boxes}) == pages
        assert all(chunk.text.startswith("number", box.start) for box in place.boxes)
        assert sorted({box.start for box in place.boxes}) == [box.start for box in place.boxes]
        for each in inside:
            edge = each.box[0] if each.box else 0
            assert any(box.page == each.page and box.left <= edge <= box.right - 0.499 for box in place.boxes)


COLUMNS = [
    ("The herons stand in the reeds and wait for frogs, which are", 100, 50),
    ("numerous in spring. When the water sinks they go to the re\ufffe", 85, 50),
    ("servoir behind the dyke, where nobody is allowed to walk.", 700, 320),
    ("In winter they leave.", 685, 320),
]


def test_a_passage_in_two_columns_is_marked_in_each() -> None:
    """Not across the page: each box is a column's, and tells where its text begins, also within a divided word.

    A passage that ends in the first column has nothing in the second.
    """
    lines = [
        Line(
            text,
            bottom=bottom,
            top=bottom + 12,
            box=(left / 600, 1 - bottom / 800, left / 600 + 0.4, 1.02 - bottom / 800),
        )
        for text, bottom, left in COLUMNS
    ]
    builder = BlockBuilder(Limits())
    add_pages([lines], builder)
    [block] = unpack_blocks(pack_blocks(builder.blocks))
    assert [block] == builder.blocks
    [chunk] = chunk_blocks([block], title="", tokenizer=TOKENIZER, media_type="application/pdf")
    assert chunk.place is not None
    assert chunk.place.boxes is not None
    assert [(box.left, chunk.text[box.start :][:7]) for box in chunk.place.boxes] == [
        (pytest.approx(50 / 600), "The her"),
        (pytest.approx(320 / 600), "servoir"),
    ]
    sentence, *_, last = block.text.partition(". ")[0], block.text[block.text.index("In winter") :]
    first_only = join_places([cut_block(block, sentence, 0)], starts=[0], media_type="application/pdf")
    assert first_only == PassagePlace(page=1, box=Box.model_validate(chunk.place.boxes[0].model_dump()))
    last_only = join_places([cut_block(block, last, block.text.index(last))], starts=[0], media_type="application/pdf")
    assert last_only == PassagePlace(page=1, box=Box.model_validate(chunk.place.boxes[1].model_dump()))


def test_a_passage_of_a_long_paragraph_is_marked_alone() -> None:
    """A list without gaps is one paragraph; the mark of a passage of it covers little else."""
    lines = [
        Line(
            f"Buoy {number} is painted.",
            bottom=800 - 15 * number,
            top=812 - 15 * number,
            box=(0.1, 0.02 * number, 0.5, 0.02 * number + 0.02),
        )
        for number in range(40)
    ]
    builder = BlockBuilder(Limits())
    add_pages([lines], builder)
    [block] = builder.blocks
    text = "Buoy 20 is painted. Buoy 21 is painted."
    place = join_places([cut_block(block, text, block.text.index(text))], starts=[0], media_type="application/pdf")
    assert place is not None
    assert place.box is not None
    # The two lines, and up to two lines before and after them.
    assert 0.34 <= place.box.top <= 0.4
    assert 0.44 <= place.box.bottom <= 0.5


def test_a_picture_has_a_box_and_no_page() -> None:
    """One picture is one page, which has no number."""
    box = (0.1, 0.1, 0.5, 0.2)
    place = join_places([Block("paragraph", "a", box=box, confidence=0.9)], starts=[0], media_type="image/png")
    assert place is not None
    assert place.page is None
    assert place.list_boxes() == [PageBox(page=1, left=0.1, top=0.1, right=0.5, bottom=0.2)]


def test_a_chunk_is_as_certain_as_its_least_certain_block() -> None:
    """What a machine read is told with the least certainty; what it did not read doesn't count."""
    blocks = [Block("paragraph", "a", page=1, confidence=certainty) for certainty in (0.9, None, 0.6)]
    assert join_places(blocks, starts=[0, 1, 2], media_type="application/pdf") == PassagePlace(page=1, confidence=0.6)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (None, ""),
        (PassagePlace(), ""),
        (PassagePlace(page=3), "page 3"),
        (PassagePlace(page=3, last_page=1204), "pages 3–1,204"),  # noqa: RUF001 - as it is shown
        (PassagePlace(slide=2, last_slide=3), "slides 2–3"),  # noqa: RUF001 - as it is shown
        (PassagePlace(message=2), "message 2"),
        (PassagePlace(sheet="Costs\n2026", rows=Rows(first=12, last=18)), "sheet “Costs 2026”, rows 12–18"),  # noqa: RUF001 - likewise
        (PassagePlace(rows=Rows(first=4, last=4)), "row 4"),
    ],
)
def test_places_are_named_in_words(place: PassagePlace | None, words: str) -> None:
    """A few words, as people name a place; none where it is unknown."""
    assert describe_place(place) == words
