"""Variants of Office files and converted formats are read, and hostile ones are refused within the limits."""

import io
import json
import re
import zipfile

import pytest

from bench.extraction import OFFICE
from service.text.extraction import Extraction
from service.text.extraction.building import Limits
from service.text.extraction.failures import Unreadable
from service.text.extraction.parsing import parse_file
from tests import made_files

OPEN = b"application/vnd.openxmlformats-officedocument."
MAIN = {
    "word": OPEN + b"wordprocessingml.document.main+xml",
    "slides": OPEN + b"presentationml.presentation.main+xml",
    "sheet": OPEN + b"spreadsheetml.sheet.main+xml",
}
FILES = {
    "word": made_files.word(paragraphs=[("Heading 1", "Care"), ("Normal", "Water often")]),
    "slides": made_files.slides(),
    "sheet": made_files.workbook(Stock=[["Tree", "Tons"], ["Pear", 3]]),
}
ODF = "urn:oasis:names:tc:opendocument:xmlns:"
RTF = rb"{\rtf1\ansi\deff0{\info{\title Pruning}}Die B\'e4ume \b now\b0\par Second one\par}"
ENTITY = b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4_000)


@pytest.fixture
def extract(tmp_path):
    """Parse the content under a name."""

    def run(name: str, content: bytes, limits: Limits | None = None) -> Extraction:
        return parse_file(made_files.saved(tmp_path, "file", content), name, limits or Limits())

    return run


def packed(parts: dict[str, str | bytes]) -> bytes:
    """Return an archive of these parts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def rewritten(package: bytes, old: bytes, new: bytes) -> bytes:
    """Return an archive with a pattern replaced in all its parts."""
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        return packed({name: re.sub(old, new, archive.read(name)) for name in archive.namelist()})


def opendocument(kind: str, body: str, manifest: str = "") -> bytes:
    """Return an OpenDocument file of a kind with this body."""
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    names = " ".join(f'xmlns:{name}="{ODF}{name}:1.0"' for name in ("office", "text", "table"))
    root = f'<office:document-content {names} office:version="1.2">'
    return packed(
        {
            "mimetype": media_type,
            "content.xml": f"{root}<office:body>{body}</office:body></office:document-content>",
            "META-INF/manifest.xml": f'<m:manifest xmlns:m="{ODF}manifest:1.0">{manifest}</m:manifest>',
        }
    )


def book(page: str) -> bytes:
    """Return an e-book of one page, which names its type."""
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles><rootfile '
        'full-path="o.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="i"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Orchards</dc:title>'
        '<dc:identifier id="i">1</dc:identifier></metadata><manifest>'
        '<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/>'
        "</manifest><spine>"
        '<itemref idref="c"/></spine></package>'
    )
    return packed(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "o.opf": package,
            "c.xhtml": f'<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body>{page}</body></html>',
        }
    )


TEXT = opendocument(
    "text", '<office:text><text:h text:outline-level="1">Care</text:h><text:p>Water often</text:p></office:text>'
)
_CELL = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
CELLS = "".join(
    f"<table:table-row>{''.join(_CELL.format(cell) for cell in row)}</table:table-row>"
    for row in (("Tree", "Month"), ("Pear", "May"))
)
SHEET = opendocument(
    "spreadsheet",
    f'<office:spreadsheet><table:table table:name="Stock">{CELLS}</table:table></office:spreadsheet>',
)
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["# Yields\n", "by field"]},
            {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": ["total = 3"], "outputs": []},
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
).encode()


@pytest.mark.parametrize(
    ("kind", "suffix", "content_type"),
    [
        ("word", "docm", b"application/vnd.ms-word.document.macroEnabled.main+xml"),
        ("word", "dotx", OPEN + b"wordprocessingml.template.main+xml"),
        ("word", "dotm", b"application/vnd.ms-word.template.macroEnabledTemplate.main+xml"),
        ("slides", "pptm", b"application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml"),
        ("slides", "ppsx", OPEN + b"presentationml.slideshow.main+xml"),
        ("slides", "ppsm", b"application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml"),
        ("slides", "potx", OPEN + b"presentationml.template.main+xml"),
        ("slides", "potm", b"application/vnd.ms-powerpoint.template.macroEnabled.main+xml"),
        ("sheet", "xlsm", b"application/vnd.ms-excel.sheet.macroEnabled.main+xml"),
        ("sheet", "xltx", OPEN + b"spreadsheetml.template.main+xml"),
        ("sheet", "xltm", b"application/vnd.ms-excel.template.macroEnabled.main+xml"),
    ],
)
def test_templates_shows_and_macros_say_the_same(extract, kind, suffix, content_type):
    """A variant of an Office file has the blocks of the plain file."""
    content = rewritten(FILES[kind], re.escape(MAIN[kind]), content_type)
    assert content_type in zipfile.ZipFile(io.BytesIO(content)).read("[Content_Types].xml")
    assert extract(f"a.{suffix}", content).blocks == extract("a", FILES[kind]).blocks


@pytest.mark.parametrize(("kind", "suffix"), [("word", "docx"), ("slides", "pptx"), ("sheet", "xlsx")])
def test_strict_open_xml_says_the_same(extract, kind, suffix):
    """The strict form of the standard has other names for everything, and the same blocks."""
    schemas = rb"http://schemas\.openxmlformats\.org/(officeDocument|\w+ml)/2006/"
    content = rewritten(FILES[kind], schemas, rb"http://purl.oclc.org/ooxml/\1/")
    assert content != FILES[kind]
    assert extract(f"a.{suffix}", content).blocks == extract("a", FILES[kind]).blocks


@pytest.mark.parametrize(
    ("name", "content", "title", "texts"),
    [
        ("a.rtf", RTF, "Pruning", ["Die Bäume now", "Second one"]),
        ("a.odt", TEXT, "Care", ["Care", "Water often"]),
        ("a.epub", book("<h1>Pears</h1><p>They ripen late.</p>"), "Orchards", ["Pears", "They ripen late."]),
        ("a.ipynb", NOTEBOOK, "Yields", ["Yields", "by field", "total = 3"]),
        ("a.org", b"#+TITLE: Trees\n* Pears\nThey /ripen/ late.\n", "Trees", ["Pears", "They ripen late."]),
        ("a.rst", b"Pears\n=====\n\nThey *ripen* late.\n", "Pears", ["Pears", "They ripen late."]),
    ],
)
def test_converted_formats_have_their_headings_and_paragraphs(extract, name, content, title, texts):
    """Headings, paragraphs and the file's own title are there, in order."""
    extraction = extract(name, content)
    assert extraction.title == title
    assert [block.text for block in extraction.blocks][-len(texts) :] == texts


def test_opendocument_sheets_name_their_columns(extract):
    """A row of an OpenDocument sheet is found with its columns."""
    assert extract("a.ods", SHEET).blocks[-1].text == "Tree: Pear | Month: May"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.doc", RTF, "Die Bäume now"),
        ("a.doc", FILES["word"], "Water often"),
        ("a.xls", b"<html><table><tr><td>Pear</td></tr></table></html>", "Pear"),
        ("a.doc", b"<?xml version='1.0'?><w>Water often</w>", "Water often"),
        (
            "a.odt",
            made_files.with_part(TEXT, "Basic/script-lc.xml", b'<!DOCTYPE l PUBLIC "-//a" "l.dtd"><l/>'),
            "Water often",
        ),
    ],
)
def test_what_programs_open_is_read(extract, name, content, said):
    """Word and Excel open RTF, web pages and XML under their old suffixes; macros name a document type."""
    assert said in [block.text for block in extract(name, content).blocks]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (rb"{\rtf1\ansi\ansicpg1250{\fonttbl{\f0 A;}{\f1\fcharset128 B;}}\f0 \'e8l\'e1nek \f1 \'8c\'c3", "článek 古"),
        (rb"{\rtf1\ansi\uc2 a\u24565\'bf\'bfb \u-10240??\u-8386??c}", "a念b 𐌾c"),
        (rb"{\rtf1 kept{\deleted gone}{\*\unknown gone}{\field{\*\fldinst X}{\fldrslt shown}}}", "keptshown"),
        (rb"{\rtf1{\upr{old}{\*\ud new}}\bin3 }}}\'41}", "newA"),
        (rb"{\rtf1{\listtext\pard 4.2\tab}\pard\ls1 Tides}", "4.2 Tides"),
        (rb"{\rtf1{\listtext\pard\'b7\tab}\pard\ls1 Tides}", "- Tides"),
        (rb"{\rtf1{\pntext 1.\tab}\par{\pntext 2.\tab}Tides\par}", "2. Tides"),
    ],
)
def test_rtf_says_what_its_control_words_mean(extract, content, said):
    """Code pages by font, characters in Unicode, deletions, fields and bytes are read as Word reads them."""
    assert [block.text for block in extract("a.rtf", content).blocks] == [said]


SLIDES_97 = made_files.streams((OFFICE / "fleet.ppt").read_bytes())


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        (
            {"Text_Content": "Größe\r\rTides\x0bturn".encode("cp1252"), "PowerPoint Document": b"95"},
            ["Größe", "Tides turn"],
        ),
        (
            {
                "Text_Content": b"Tides",
                "PowerPoint Document": b"95",
                **{f"PP97_DUALSTORAGE/{name}": content for name, content in SLIDES_97.items()},
            },
            None,
        ),
    ],
)
def test_presentations_of_powerpoint_95_are_read(extract, streams, said):
    """The text that it keeps for searches is read; a file for it and for PowerPoint 97 is read as one of the latter."""
    extraction = extract("a.ppt", made_files.compound(streams))
    texts = [block.text for block in extraction.blocks]
    assert texts == (said or [block.text for block in extract("b.ppt", (OFFICE / "fleet.ppt").read_bytes()).blocks])
    assert (extraction.not_read is None) == (said is not None)


def test_workbooks_with_odd_styles_have_their_cells(extract):
    """Of a workbook whose styles a library refuses, the cells are read, and the rest is unknown; others are refused."""
    book = made_files.workbook(Stock=[["Tree", "Tons"], ["Pear", 3]])
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        styles = archive.read("xl/styles.xml").replace(b"<cellStyle ", b'<cellStyle odd="1" ')
    extraction = extract("a.xlsx", made_files.with_part(book, "xl/styles.xml", styles))
    assert [block.text for block in extraction.blocks] == ["Stock", "Tree: Pear | Tons: 3"]
    assert extraction.not_read is None
    with pytest.raises(Unreadable, match="an Excel workbook"):
        extract("a.xlsx", made_files.with_part(book, "xl/workbook.xml", b"<workbook"))


@pytest.mark.parametrize(
    ("name", "content", "what", "suffix"),
    [
        ("a.doc", b"\xdb\xa5\x2d\x00" + bytes(40), "Word 2", ".docx"),
        ("a.xls", b"\x09\x04\x06\x00\x00\x00\x10\x00", "Excel 4", ".xlsx"),
        ("a.ppt", made_files.compound({"PP40": b"slides"}), "PowerPoint 4", ".pptx"),
    ],
)
def test_files_that_are_too_old_are_refused_by_name(extract, name, content, what, suffix):
    """The refusal says what the file is and what to save it as."""
    with pytest.raises(Unreadable) as caught:
        extract(name, content)
    assert caught.value.code == "file_type_unsupported"
    assert what in caught.value.message
    assert suffix in caught.value.message


def stream(name: str) -> bytes:
    """Return the beginning of a compound file whose directory names a stream, and nothing of the rest."""
    return COMPOUND + name.encode("utf-16-le") + bytes(400)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.doc", stream("WordDocument"), "file_corrupt"),
        ("a.xls", stream("Workbook"), "file_corrupt"),
        ("a.ppt", stream("PowerPoint Document"), "file_corrupt"),
        ("a.msg", stream("__properties_version1.0"), "file_corrupt"),
        ("a.doc", stream("Workbook"), "file_type_mismatch"),
        ("a.doc", COMPOUND, "file_type_unsupported"),
        ("a.odt", TEXT[:-40], "file_corrupt"),
        ("a.odt", opendocument("text", "", "<m:encryption-data/>"), "file_encrypted"),
        ("a.odt", opendocument("graphics", ""), "file_type_unsupported"),
        ("a.ods", TEXT, "file_type_mismatch"),
        (
            "a.odt",
            made_files.with_part(TEXT, "content.xml", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
            "file_too_complex",
        ),
        ("a.odt", made_files.with_part(TEXT, "bomb", bytes(300 << 20)), "file_too_complex"),
        ("a.epub", made_files.with_part(book(""), "c.xhtml", b"x" * (1 << 20), declared_size=10), "file_corrupt"),
        ("a.ipynb", b'{"cells": [', "file_corrupt"),
        ("a.ipynb", b'{"cells": ' + b"[" * 100_000, "file_corrupt"),
        ("a.rtf", b"{\\rtf1", "file_without_text"),
        ("a.rtf", b"{\\rtf1 " + b"{" * 200_000, "file_too_complex"),
    ],
)
def test_hostile_files_are_refused(extract, name, content, code):
    """Cut, mislabelled, encrypted, nested and expanding files are refused with their code."""
    with pytest.raises(Unreadable) as caught:
        extract(name, content)
    assert caught.value.code == code


def test_limits_hold_for_converted_formats(extract):
    """A file that says more than the limit is too complex."""
    with pytest.raises(Unreadable) as caught:
        extract("a.rtf", RTF, Limits(characters=10))
    assert caught.value.code == "file_too_complex"
