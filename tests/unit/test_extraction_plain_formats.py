"""XML, TeX, mailboxes, presentations and variants of Office files are read completely, within limits."""

import io
import json
import re
import zipfile
from pathlib import Path

import pytest

from bench.extraction import OFFICE
from tests import made_files
from tests.harness.cases import cases, document
from tests.unit.test_extraction_formats import BLOCKS, shown

MAIL = made_files.mail()
MAILBOX = (
    b"From ann@garden.example Mon Jan  1 09:00:00 2024\nFrom: ann@garden.example\nSubject: Pears\n\n"
    b"Prune them.\n\nFrom here on it snows.\n>From what I heard.\n\n"
    b"From bob@garden.example Mon Jan  1 10:00:00 2024\nFrom: bob@garden.example\nSubject: Apples\n\nNot yet.\n"
)
LINE = b"From ann@garden.example Mon Jan  1 09:00:00 2024\n"
TEX = document("pruning.tex")
XML = document("stock.xml")


OUTER = b"""<!DOCTYPE a SYSTEM "a.dtd" [
<!ENTITY firm "Orchard &#38;#233; Co"><!ENTITY one "Ann"><!ENTITY two "&one;s">
]>"""
CELL = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
TABLE = made_files.open_table([("Field", "Tons"), ("North", "12")])


def frame(text: str, kind: str = "outline") -> str:
    box = f"<draw:text-box><text:p>{text}</text:p></draw:text-box>"
    return f'<draw:frame presentation:class="{kind}">{box}</draw:frame>'


ODP = made_files.opendocument(
    "presentation",
    '<presentation:footer-decl presentation:name="f">Confidential</presentation:footer-decl>'
    f"<draw:page>{frame('Pick in <text:span>Ma</text:span>y')}{frame('Harvest plan', 'title')}"
    f"<presentation:notes>{frame('Mention the weather')}</presentation:notes></draw:page>"
    f"<draw:page>{frame('Yields', 'title')}<draw:frame>{TABLE}</draw:frame>"
    '<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame></draw:page>',
    **{"Object 1/content.xml": f"<text:p>Chart of fields</text:p>{TABLE}", "meta.xml": "<dc:title>The plan</dc:title>"},
)


def test_xml_records_name_their_fields_and_marked_up_text_is_a_paragraph(extract):
    extraction = extract("a.xml", XML)
    assert extraction.media_type == "application/xml"
    assert extraction.title == "Harvest"
    assert shown(extraction) == BLOCKS["stock.xml"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("feed", XML),
        ("a.xml", '<?xml version="1.0" encoding="UTF-16"?><a>Größe</a>'.encode("utf-16")),
        ("a.xml", '<?xml version="1.0" encoding="ISO-8859-1"?><a>Größe</a>'.encode("latin-1")),
        ("a.xml", b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a>Gr&ouml;&szlig;e</a>'),
    ],
)
def test_xml_is_told_by_its_content_and_read_in_its_encoding(extract, name, content):
    extraction = extract(name, content)
    assert extraction.media_type == "application/xml"
    assert re.search("Größe|Orchard Limited", " ".join(block.text for block in extraction.blocks))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (OUTER + b"<a>&one; of &firm;, &two;&eacute;</a>", ["Ann of , \u00e9"]),
        (b'<p>By <n id="7"><first>Ann</first><last>Smith</last></n>, <b id="7">wa</b>ter</p>',
         ["By Ann Smith, water", "id: 7"]),
        (b"\xef\xbb\xbf\r\n <?xml version='1.0'?><a>P\xc3\xa4rs</a>", ["P\u00e4rs"]),
    ],
)  # fmt: skip
def test_nothing_of_xml_is_lost(texts, content, expected):
    assert texts("a.xml", content) == expected


def test_what_only_begins_like_xml_is_text(extract):
    extraction = extract("build", b"<?xml version='1.0'?>\n<a>Pears\nDone.")
    assert extraction.media_type == "text/plain"
    assert "Done." in extraction.blocks[-1].text


def test_tex_has_its_title_headings_lists_tables_and_code(extract):
    extraction = extract("a.tex", TEX)
    assert extraction.title == "Pruning of pears"
    assert shown(extraction) == BLOCKS["pruning.tex"]


@pytest.mark.parametrize(("content", "expected"), cases("tex_commands_leave_their_words"))
def test_tex_commands_leave_their_words(texts, content, expected):
    assert texts("a.tex", content.encode()) == expected


def test_tex_columns_that_a_cell_claims_are_bounded(texts):
    content = r"\begin{tabular}{l}" + (r"\multicolumn{9999}{c}{x} & " * 10_000) + r"1 \\ 2 & 3\end{tabular}"
    assert texts("a.tex", content.encode())[-1] == "2 | 3"


def test_mailboxes_hold_every_message_in_order(extract):
    extraction = extract("a.mbox", MAILBOX)
    assert (extraction.media_type, extraction.title) == ("application/mbox", None)
    assert [text for kind, text in shown(extraction) if kind == "heading"] == ["Pears", "Apples"]
    body = "Prune them.", "From here on it snows.\nFrom what I heard."
    assert [text for _, text in shown(extraction)] == [
        "Pears", "From: ann@garden.example", *body, "Apples", "From: bob@garden.example", "Not yet.",
    ]  # fmt: skip
    # A message says in a mailbox what it says alone, also behind a message without a text.
    line = b"From a@b.example Mon Jan  1 09:00:00 2024\r\n"
    mailbox = line + b"Date: x\r\n\r\n\r\n" + line + MAIL.replace(b"\n", b"\r\n") + b"\r\n"
    assert shown(extract("a.mbox", mailbox))[2:] == shown(extract("a.eml", MAIL))


@pytest.mark.parametrize(
    ("mailbox", "expected"),
    [
        (b"\xef\xbb\xbf\r\n" + LINE + b"Subject: A\n\nPears\n", ["A", "Pears"]),
        (LINE + b">From ann Mon Jan  1 08:00 2024 remote from b\nSubject: A\n\nPears\n", ["A", "Pears"]),
        (LINE + b"Subject: A\n\nHello.\n\nFrom the minutes\nAgenda: x\n",
         ["A", "Hello.", "From the minutes\nAgenda: x"]),
        (LINE + b"Subject: A\n\nPears\n--A--\n" + LINE + b"To: b@x\nDate: \n\nPlums\n",
         ["A", "Pears\n--A--", "Message 2", "To: b@x\nDate:", "Plums"]),
        (LINE + b"Subject: A\n\nPears\n" + LINE + b"Agenda: x\n\n\xfc\n",
         ["A", "Pears", "Message 2", "Agenda: x", "\ufffd"]),
        (LINE + b"Subject: A\n\n" + b"From " + b"00:00 " * 200_000 + b"\nTo: b", None),
    ],
)  # fmt: skip
def test_messages_begin_at_dated_lines_alone(texts, mailbox, expected):
    found = texts("a.mbox", mailbox)
    assert expected is None or found == expected


def test_opendocument_slides_have_their_titles_tables_charts_and_notes(extract):
    extraction = extract("a.odp", ODP)
    assert extraction.title == "Harvest plan"
    assert [(block.text, block.page) for block in extraction.blocks] == BLOCKS["plan.odp"]


def test_opendocument_cells_stay_in_their_columns(texts):
    covered = "<table:covered-table-cell/>"
    many = '<table:table-cell table:number-columns-repeated="{}">{}</table:table-cell>'
    empty, three = many.format(2, ""), many.format(2, "<text:p>3</text:p>")
    rows = (
        "".join(map(CELL.format, ("Field", "Tons", "Price", "Note"))),
        CELL.format("North") + covered + empty.replace("2", "1") + CELL.format("cold"),
        CELL.format("South") + three + many.format(9_000_000, ""),
        CELL.format("East") + empty + CELL.format("new") + many.format("-1", ""),
    )
    table = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    last = f'<table:table-row table:number-rows-repeated="9000000">{CELL.format("West")}</table:table-row>'
    slide = f"<draw:page><table:table>{table}{last}</table:table></draw:page>"
    found = texts("a.odp", made_files.opendocument("presentation", slide))
    expected = ["Field: North | Note: cold", "Field: South | Tons: 3 | Price: 3", "Field: East | Note: new"]
    assert found == expected + ["Field: West"] * 100


OPEN = b"application/vnd.openxmlformats-officedocument."
MAIN = {
    "word": OPEN + b"wordprocessingml.document.main+xml",
    "slides": OPEN + b"presentationml.presentation.main+xml",
    "sheet": OPEN + b"spreadsheetml.sheet.main+xml",
}
STRICT = (rb"http://schemas\.openxmlformats\.org/(officeDocument|\w+ml)/2006/", rb"http://purl.oclc.org/ooxml/\1/")
FILES = {
    "word": made_files.word(paragraphs=[("Heading 1", "Care"), ("Normal", "Water often")]),
    "slides": made_files.slides(),
    "sheet": made_files.workbook(Stock=[["Tree", "Tons"], ["Pear", 3]]),
}
RTF = rb"{\rtf1\ansi\deff0{\info{\title Pruning}}Die B\'e4ume \b now\b0\par Second one\par}"


def rewritten(package: bytes, old: bytes, new: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        parts = {name: re.subn(old, new, archive.read(name)) for name in archive.namelist()}
    assert any(count for _, count in parts.values())
    return made_files.archive({name: content for name, (content, _) in parts.items()})


TEXT = made_files.opendocument(
    "text", '<office:text><text:h text:outline-level="1">Care</text:h><text:p>Water often</text:p></office:text>'
)
NOTEBOOK = (
    b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": ['
    b'{"cell_type": "markdown", "metadata": {}, "source": ["# Yields\\n", "by field"]}, '
    b'{"cell_type": "code", "metadata": {}, "execution_count": 1, "source": ["total = 3"], "outputs": []}]}'
)


@pytest.mark.parametrize(
    # The strict form of the standard, without a type here, has other names for everything.
    ("kind", "suffix", "content_type"),
    json.loads(Path(__file__).with_name("data").joinpath("cells.json").read_text("utf-8"))["variants"],
)
def test_variants_of_office_files_say_the_same(extract, kind, suffix, content_type):
    old, new = (re.escape(MAIN[kind]), content_type.encode()) if content_type else STRICT
    assert extract(f"a.{suffix}", rewritten(FILES[kind], old, new)).blocks == extract("a", FILES[kind]).blocks


@pytest.mark.parametrize(
    ("name", "content", "title", "expected"),
    [
        ("a.rtf", RTF, "Pruning", ["Die Bäume now", "Second one"]),
        ("a.odt", TEXT, "Care", ["Care", "Water often"]),
        ("a.epub", made_files.e_book("<h1>Pears</h1><p>They ripen.</p>"), "Orchards", ["Pears", "They ripen."]),
        ("a.ipynb", NOTEBOOK, "Yields", ["Yields", "by field", "total = 3"]),
        ("a.org", b"#+TITLE: Trees\n* Pears\nThey /ripen/ late.\n", "Trees", ["Pears", "They ripen late."]),
        ("a.ods", made_files.open_sheets(A=[["Tree", "Month"], ["Pear", "May"]]), None, ["Tree: Pear | Month: May"]),
        ("a.rst", b"Pears\n=====\n\nThey *ripen* late.\n", "Pears", ["Pears", "They ripen late."]),
    ],
)
def test_converted_formats_have_their_headings_and_paragraphs(extract, name, content, title, expected):
    extraction = extract(name, content)
    assert extraction.title == title
    assert [block.text for block in extraction.blocks][-len(expected) :] == expected


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.doc", RTF, "Die Bäume now"),
        ("a.doc", FILES["word"], "Water often"),
        ("a.xls", b"<html><table><tr><td>Pear</td></tr></table></html>", "Pear"),
        ("a.doc", b"<?xml version='1.0'?><w>Water often</w>", "Water often"),
        ("a.odt", made_files.with_part(TEXT, "Basic/a.xml", b'<!DOCTYPE l PUBLIC "-//a" "l.dtd"><l/>'), "Water often"),
    ],
)
def test_what_programs_open_is_read(texts, name, content, said):
    """Word and Excel open RTF, web pages and XML under their old suffixes; macros name a document type."""
    assert said in texts(name, content)


@pytest.mark.parametrize(("content", "said"), cases("control_words_of_rtf"))
def test_rtf_says_what_its_control_words_mean(texts, content, said):
    assert texts("a.rtf", content.encode()) == [said]


def test_presentations_of_powerpoint_95_are_read(extract):
    """The text stored for searches is read; a combined file for PowerPoint 95 and 97 is read as PowerPoint 97."""
    of_95 = {"Text_Content": "Größe\r\rTides\x0bturn".encode("cp1252"), "PowerPoint Document": b"95"}
    extraction = extract("a.ppt", made_files.compound(of_95))
    assert ([block.text for block in extraction.blocks], extraction.not_read) == (["Größe", "Tides turn"], None)
    of_97 = (OFFICE / "fleet.ppt").read_bytes()
    both = of_95 | {f"PP97_DUALSTORAGE/{name}": content for name, content in made_files.streams(of_97).items()}
    extraction, expected = (extract("a.ppt", content) for content in (made_files.compound(both), of_97))
    assert extraction.blocks == expected.blocks
    assert extraction.not_read is not None
