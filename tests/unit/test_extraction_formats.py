"""Every format gives headings, paragraphs and rows, in order, under the right title."""

import json
import zlib
from pathlib import Path

import pytest

from bench.extraction import FILES, MAKERS, goal, measure, read_file
from carrel.wire.formats import BY_NAME, FORMATS, in_words
from service.text.extraction.building import BlockBuilder, Limits
from service.text.extraction.parsing import READERS
from service.text.extraction.pdf_layout import Line, add_pages
from service.text.reading import Block, Extraction, are_short, iterate_blocks, pack_blocks, unpack_blocks
from tests import made_files
from tests.harness.cases import cases, document

BLOCKS = {name: list(map(tuple, blocks)) for name, blocks in cases("blocks_of_documents").items()}


def shown(extraction: Extraction) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in extraction.blocks]


def test_every_format_has_a_reader_and_is_named_to_newcomers():
    assert READERS.keys() == BY_NAME.keys()
    suffixes = [suffix for each in FORMATS for suffix in each.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert f"**Loads** {in_words()}:" in (Path(__file__).parents[2] / "README.md").read_text()


def test_blocks_survive_packing():
    blocks = (
        Block("heading", "Über 🍐", 3, quoted=True),
        Block("table_row", "a: b", page=7, sheet="Costs", rows=(2, 5)),
        Block("paragraph", "a", page=1, box=(0.1, 0.25, 0.5, 1.0), confidence=0.75),
        Block("code", "x\n\ty"),
        # Rows and characters of several bytes may be cut anywhere.
        *(Block("table_row", "Ü🍐x" * length, rows=(length, length)) for length in (1, 200_000, 3, 90_000)),
    )
    packed = pack_blocks(blocks * 2)
    assert unpack_blocks(packed) == blocks * 2
    assert unpack_blocks(pack_blocks(())) == ()
    with pytest.raises(ValueError, match="cut off"):
        unpack_blocks(packed[:-2000])
    with pytest.raises(ValueError, match="format version"):
        unpack_blocks(b"\x03" + packed[1:])
    of_version_1 = b"\x01" + zlib.compress(json.dumps([[0, "Über", 3, None], [2, "a: b", 0, 7]]).encode())
    assert unpack_blocks(of_version_1) == (Block("heading", "Über", 3), Block("table_row", "a: b", page=7))


def test_the_first_blocks_are_unpacked_without_the_others():
    packed = pack_blocks(Block("table_row", str(number)) for number in range(60_000))
    assert next(iterate_blocks(packed[: len(packed) // 2])) == Block("table_row", "0")
    alike = pack_blocks([Block("table_row", "x")] * 10_000)
    assert len(alike) < 2_000
    assert not are_short(alike)
    assert are_short(pack_blocks([Block("table_row", "x")] * 100))


def test_pdf_headings_come_from_size_and_pages_are_numbered(extract):
    body = "The pear tree wants sun. It is pruned in winter and watered in summer, and bears after four years. " * 3
    extraction = extract(
        "a.pdf",
        made_files.pdf(
            [("Orchard manual", 24), ("Pears", 16), (body, 11)], [("Apples", 16), (body, 11)], title="The manual"
        ),
    )
    headings = [(block.text, block.level, block.page) for block in extraction.blocks if block.kind == "heading"]
    assert headings == [("Orchard manual", 1, 1), ("Pears", 2, 1), ("Apples", 2, 2)]
    paragraphs = [block for block in extraction.blocks if block.kind == "paragraph"]
    assert [(block.text, block.page) for block in paragraphs] == [
        *((body.strip(), 1), (body.strip(), 2)),
        ("The manual", None),
    ]
    assert extraction.title == "Orchard manual"


def test_pdf_lines_are_joined_to_paragraphs():
    spaced = [Line(f"line {place}", bottom=place, top=place + 11) for place in [700, 676, 652, 600, 576]]
    divided = [Line("the or\ufffe", 20, 31), Line("chard grows", 8, 19)]
    builder = BlockBuilder(Limits())
    add_pages([spaced], builder)
    add_pages([divided], builder)
    paragraphs = ["line 700 line 676 line 652", "line 600 line 576", "the orchard grows"]
    assert [block.text for block in builder.blocks] == paragraphs


def test_pdf_running_heads_and_page_numbers_are_left_out(texts):
    pages = [
        [
            ("Orchard Ltd, internal", 9),
            (f"Number {word} is about {word} trees.", 11),
            (f"It says where a {word} grows.", 11),
            (f"It says when a {word} is picked.", 11),
            (f"Page {number}", 9),
        ]
        for number, word in enumerate(["pear", "apple", "plum", "cherry", "quince"], start=1)
    ]
    text = " ".join(texts("a.pdf", made_files.pdf(*pages)))
    assert text.count("Orchard Ltd") == 1
    assert "Page" not in text
    assert "Number quince is about quince trees." in text


def test_pdf_lines_that_only_look_alike_are_kept(texts):
    words = [(word, 12) for word in ("One.", "Two.", "Three.", "Four.")]
    pages = [[*words, (f"Sum {7 * number % 5}", 12)] for number in range(5)]
    text = " ".join(texts("a.pdf", made_files.pdf(*pages)))
    assert [f"Sum {number}" in text for number in range(5)] == [True] * 5
    assert text.count("Three.") == 5


def test_word_headings_lists_and_tables(extract):
    content = made_files.word(
        title="Care guide",
        paragraphs=[
            ("Title", "Care"),
            ("Heading 1", "Watering"),
            ("Normal", "Water  in\tthe evening."),
            ("List Bullet", "Not at noon"),
            ("Heading 2", "Amounts"),
        ],
        table=[("Tree", "Litres"), ("Pear", 20), ("Plum", 15)],
    )
    extraction = extract("guide.docx", content)
    assert extraction.title == "Care"
    assert [(block.kind, block.text, block.level) for block in extraction.blocks] == BLOCKS["guide.docx"]
    untitled = made_files.word(title="Untitled", paragraphs=[("Heading 1", "Real title"), ("Normal", "x")])
    assert extract("a.docx", untitled).title == "Real title"


def test_word_text_boxes_insertions_and_footnotes_are_read_once(extract):
    names = (
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    )
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    body = (
        f"<w:document {names}><w:body><w:p><w:r><w:t>before</w:t></w:r><w:r><mc:AlternateContent>"
        f'<mc:Choice Requires="wps">{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r></w:p>'
        "<w:sdt><w:sdtContent><w:p><w:ins><w:r><w:t>added</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p></w:sdtContent></w:sdt></w:body></w:document>"
    )
    content = made_files.with_part(made_files.word(), "word/document.xml", body.encode())
    assert shown(extract("a.docx", content)) == [("paragraph", "before boxed"), ("paragraph", "added")]


def test_slides_keep_their_number_tables_and_notes(extract):
    extraction = extract("plan.pptx", made_files.slides())
    assert [(block.kind, block.text, block.page) for block in extraction.blocks] == BLOCKS["plan.pptx"]
    assert extraction.title == "Harvest plan"


def test_workbook_rows_name_their_columns(extract):
    extraction = extract(
        "stock.xlsx",
        made_files.workbook(
            Stock=[["Stock in spring"], [None], ["Item", "Amount", "Price"], ["Crate", 3.0, 1.5], ["Box", None, 2]],
            Notes=[["Only one line"]],
            Empty=[],
        ),
    )
    assert shown(extraction) == BLOCKS["stock.xlsx"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_separated_values_with_any_delimiter(extract, delimiter):
    lines = [["city", "pears, sold"], ["Bern", "1"], ['"two\nlines"', "2"]]
    lines[0][1] = '"pears, sold"'
    text = "\n".join(delimiter.join(line) for line in lines)
    assert shown(extract("a.csv", text.encode())) == [
        ("table_row", "city: Bern | pears, sold: 1"),
        ("table_row", "city: two lines | pears, sold: 2"),
    ]


@pytest.mark.parametrize(("why", "name", "content", "expected"), cases("small_files_say_what_they_hold"))
def test_small_files_say_what_they_hold(extract, why, name, content, expected):
    assert list(map(list, shown(extract(name, content.encode())))) == expected, why


@pytest.mark.parametrize("name", ["pruning.html", "picking.md", "stock.json"])
def test_title_and_blocks_of_a_page_markdown_and_json(extract, name):
    """A page comes without its chrome; JSON's flat objects are rows, and the rest has its path."""
    extraction = extract(name, document(name))
    assert extraction.title == name.partition(".")[0].capitalize()
    assert shown(extraction) == BLOCKS[name]


@pytest.mark.parametrize(("html_only", "body"), [(False, "Come on Friday."), (True, "The pears are ripe.")])
def test_mail_has_headers_body_and_names_of_attachments(extract, html_only, body):
    extraction = extract("a.eml", made_files.mail(html_only=html_only))
    assert extraction.title == "Grüße from the orchard"
    assert extraction.blocks[0] == Block("heading", "Grüße from the orchard", 1)
    assert "From: Ada <ada@orchard.example>" in extraction.blocks[1].text
    assert extraction.blocks[-2].text == body
    assert extraction.blocks[-1].text == "Attachments: prices.bin"
    assert "alert" not in str(extraction.blocks)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "mac_roman", "cp1251", "shift_jis"])
def test_text_in_older_encodings(extract, encoding):
    samples = {
        "cp1251": "Груши поспели в саду, и мы собираем их каждое утро. " * 5,
        "shift_jis": "梨は秋に実ります。毎朝収穫して市場へ運びます。" * 5,
    }
    text = samples.get(encoding, "Die süßen Äpfel müssen früh gepflückt werden, bevor die Wespen kommen. " * 5)
    assert extract("a.txt", text.encode(encoding)).blocks[0].text == text.strip()


@pytest.mark.parametrize(("encodings", "rows"), cases("short_tables_in_older_encodings"))
@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_a_short_table_has_the_encoding_that_gives_it_words(texts, encodings, rows, end):
    names, *values = [row.split(";") for row in rows]
    for encoding in encodings:
        expected = [" | ".join(f"{name}: {value}" for name, value in zip(names, row, strict=True)) for row in values]
        assert texts("a.csv", end.join(rows).encode(encoding)) == expected


def test_one_wrong_byte_does_not_turn_utf8_into_nonsense(extract):
    data = ("Äpfel und Birnen. " * 50).encode()
    text = extract("a.txt", data + b"\xff" + data).blocks[0].text
    assert text.startswith("Äpfel und Birnen.")
    assert text.count("\ufffd") == 1


def test_long_text_is_cut_into_blocks_at_spaces(extract):
    blocks = extract("a.txt", b"pear " * 10_000).blocks
    assert max(len(block.text) for block in blocks) <= Limits().block_characters
    assert {word for block in blocks for word in block.text.split()} == {"pear"}
    assert sum(len(block.text.split()) for block in blocks) == 10_000


def test_a_file_without_a_suffix_is_judged_by_its_content(extract):
    word = made_files.word(paragraphs=[("Normal", "words")])
    found = [extract("a", content).media_type for content in (word, b"<!DOCTYPE html><p>hi", b'{"a": 1}', b"words")]
    assert found == [BY_NAME["Word"].media_type, "text/html", "application/json", "text/plain"]


@pytest.mark.parametrize("name", [*MAKERS, *FILES])
def test_words_that_were_put_into_a_file_are_read(name: str) -> None:
    share, missing = measure(name)
    assert share >= goal(name), missing


@pytest.mark.parametrize("name", [name for name, (_, said) in FILES.items() if said == "document"])
def test_structure_and_changes_survive_a_word_processor(name: str) -> None:
    blocks = read_file(name).blocks
    assert [block.text for block in blocks if block.kind == "heading"] == ["Handbook of the fleet", "Berths and ports"]
    assert "Vessel: Blue Crane | Home port: Narvik | Berths: 126" in [block.text for block in blocks]
    assert not any("withdrawn" in block.text for block in blocks)
