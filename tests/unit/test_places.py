"""Places of passages: from the readers, joined by chunks, and described in words."""

import datetime as dt
import io

import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from carrel.wire.places import Box, PageBox, PassagePlace, Rows, describe_place
from service.text.chunking import chunk_blocks
from service.text.embedding.models import WordPieces
from service.text.embedding.weights import locate
from service.text.extraction.blocks import Block, cut_block, pack_blocks, unpack_blocks
from service.text.extraction.building import BlockBuilder, Limits
from service.text.extraction.pages import render_page
from service.text.extraction.pdf_layout import Line, add_pages
from service.text.places import join_places
from tests import made_files
from tests.harness.cases import cases

TOKENIZER = WordPieces(locate().tokenizer)
CSV = b'Item,Price\nApple,3\n\n"Pear\nripe",4\n'
MAILBOX = b"".join(
    b"From a Mon Jan  5 10:00:00 2026\nFrom: ann@example.test\nSubject: %s\n\nThe harbour opens.\n\n" % subject
    for subject in (b"One", b"Two")
)
COLUMNS = cases("lines_in_columns")
BLOCKS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(1, 4)), st.floats(0, 0.5), st.booleans(), st.integers(1, 60)),
    max_size=30,
)


def place(**members: object) -> PassagePlace:
    if row := members.pop("row", None):
        members["rows"] = Rows(first=row, last=row)
    return PassagePlace(**members)


SHEETS = {"Costs": [["Item", "Price"], ["Apple", 3], [None, None], ["Pear", 4]], "Empty": [], "Notes": [["One cell"]]}
IN_SHEETS = {
    "Costs": place(sheet="Costs"),
    "Item: Pear | Price: 4": place(sheet="Costs", row=4),
    "One cell": place(sheet="Notes"),
}


@pytest.fixture
def places_in(extract):

    def run(name: str, content: bytes) -> dict[str, PassagePlace | None]:
        found = extract(name, content)
        return {each.text: join_places([each], starts=[0], media_type=found.media_type) for each in found.blocks}

    return run


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.pptx", made_files.slides(), {"Pick in May": place(slide=1), "Field: North | Tons: 12": place(slide=2)}),
        ("a.mbox", MAILBOX, {"One": place(message=1), "Two": place(message=2)}),
        ("a.csv", CSV, {"Item: Apple | Price: 3": place(row=2), "Item: Pear ripe | Price: 4": place(row=4)}),
        ("a.xlsx", made_files.workbook(**SHEETS), IN_SHEETS),
        (
            "a.ods",
            made_files.open_sheets(
                Costs=[["Item", "Price"], [], ["Apple", 3]], Notes=[["Who", "When"], ["Ann", "May"]]
            ),
            {
                "Item: Apple | Price: 3": place(sheet="Costs", row=3),
                "Who: Ann | When: May": place(sheet="Notes", row=2),
            },
        ),
        (
            "a.xls",
            made_files.old_workbook(**SHEETS, Dates=[["Day", "Took"], [dt.date(2026, 5, 3), dt.time(12, 30)]]),
            IN_SHEETS | {"Day: 2026-05-03 | Took: 12:30 (12:30:00)": place(sheet="Dates", row=2)},
        ),
        ("a.md", b"# Pears\n\nThey ripen.", {"Pears": None, "They ripen.": None}),
    ],
)
def test_readers_tell_where_blocks_stand(places_in, name, content, expected):
    assert expected.items() <= places_in(name, content).items()


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_boxes_are_of_pages_as_people_see_them(places_in, tmp_path, turned, cut):
    [page] = pypdf.PdfReader(io.BytesIO(made_files.pdf([("Pear", 12)]))).pages
    left, top, right, bottom = 0.0524, 0.0336, 0.095, 0.0502
    if cut:
        page.cropbox.lower_left = (0, page.mediabox.height / 2)
        top, bottom = top * 2, bottom * 2
    writer = pypdf.PdfWriter()
    writer.add_page(page.rotate(turned))
    found = places_in("a.pdf", made_files.bytes_of(writer))["Pear"]
    shown = {
        0: (left, top, right, bottom),
        90: (1 - bottom, left, 1 - top, right),
        180: (1 - right, 1 - bottom, 1 - left, 1 - top),
        270: (top, 1 - right, bottom, 1 - left),
    }
    box = tuple(found.box.model_dump().values())
    assert (found.page, box) == (1, pytest.approx(shown[turned], abs=0.001))
    rendered = render_page(tmp_path / "file", media_type="application/pdf", page=1, pixels=0)
    with Image.open(io.BytesIO(rendered.jpeg)) as picture:
        letters = ImageOps.invert(picture.convert("L")).point([0] * 60 + [255] * 196).getbbox()
        edges = [edge * size for edge, size in zip(box, picture.size * 2, strict=True)]
    assert all(edge - 1 <= letter for edge, letter in zip(edges[:2], letters[:2], strict=True))
    assert all(letter <= edge + 1 for edge, letter in zip(edges[2:], letters[2:], strict=True))


def block(number: int, page: int | None, edge: float, is_row: bool, times: int) -> Block:
    box = None if page is None else (edge, edge, edge + 0.5, edge + 0.5)
    text = f"number{number} " * times
    if is_row:
        return Block("table_row", text, page=page, sheet="S", rows=(number, number), box=box)
    return Block("paragraph", text, page=page, box=box)


@given(members=BLOCKS)
@settings(max_examples=60, deadline=None)
def test_a_chunk_stands_where_its_blocks_do(members):
    blocks = [block(number, *member) for number, member in enumerate(members)]
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


def joined(*lines: Line) -> Block:
    builder = BlockBuilder(Limits())
    add_pages([lines], builder)
    [block] = builder.blocks
    return block


def place_of(block: Block, part: str) -> PassagePlace:
    return join_places([cut_block(block, part, block.text.index(part))], starts=[0], media_type="application/pdf")


def test_a_passage_in_two_columns_is_marked_in_each():
    block = joined(
        *(
            Line(text, bottom, bottom + 12, box=(left / 600, 1 - bottom / 800, left / 600 + 0.4, 1.02 - bottom / 800))
            for text, bottom, left in COLUMNS
        )
    )
    assert unpack_blocks(pack_blocks([block])) == (block,)
    [chunk] = chunk_blocks([block], title="", tokenizer=TOKENIZER, media_type="application/pdf")
    boxes = chunk.place.boxes
    assert [chunk.text[box.start :][:7] for box in boxes] == ["The her", "servoir"]
    assert [box.left for box in boxes] == pytest.approx([50 / 600, 320 / 600])
    # A passage that ends in the first column has nothing in the second.
    for part, box in zip((block.text.partition(". ")[0], "In winter they leave."), boxes, strict=True):
        assert place_of(block, part) == PassagePlace(page=1, box=Box.model_validate(box.model_dump()))


def test_a_passage_of_a_long_paragraph_is_marked_alone():
    block = joined(
        *(
            Line(f"Buoy {n} is painted.", 800 - 15 * n, 812 - 15 * n, box=(0.1, 0.02 * n, 0.5, 0.02 * n + 0.02))
            for n in range(40)
        )
    )
    box = place_of(block, "Buoy 20 is painted. Buoy 21 is painted.").box
    # The two lines, and up to two lines before and after them.
    assert 0.34 <= box.top <= 0.4
    assert 0.44 <= box.bottom <= 0.5


def test_a_place_of_what_a_machine_read() -> None:
    box = (0.1, 0.1, 0.5, 0.2)
    shown = join_places([Block("paragraph", "a", box=box, confidence=0.9)], starts=[0], media_type="image/png")
    assert shown.page is None
    assert shown.list_boxes() == [PageBox(page=1, left=0.1, top=0.1, right=0.5, bottom=0.2)]
    blocks = [Block("paragraph", "a", page=1, confidence=certainty) for certainty in (0.9, None, 0.6)]
    assert join_places(blocks, starts=[0, 1, 2], media_type="application/pdf") == place(page=1, confidence=0.6)


@pytest.mark.parametrize(("members", "words"), cases("places_in_words"))
def test_places_are_named_in_words(members, words):
    assert describe_place(None if members is None else place(**members)) == words
