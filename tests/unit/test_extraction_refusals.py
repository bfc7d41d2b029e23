"""Unreadable files are refused with a code and advice."""

import gzip

import pytest

from carrel.wire.formats import NotReadKind
from service.text.extraction.building import BlockBuilder, Limits
from service.text.extraction.failures import Unreadable, corrupt_file, too_complex
from service.text.reading import NotRead
from tests import made_files
from tests.harness.cases import cases
from tests.unit.test_extraction_plain_formats import MAILBOX, ODP, RTF, TEX, TEXT, XML

WORDS = made_files.word(paragraphs=[("Normal", "some words")])
SHEET = made_files.workbook(A=[["x", "y"], [1, 2]])
PDF = made_files.pdf([("Some words about pears", 12)])
# The first bytes of a compound file (MS-CFB), as Office wraps what it encrypts and as it wrote before 2007.
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4_000)
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100)
LAUGHS = f"{made_files.LAUGHS}<a>&k;</a>".encode()
ENTITY = b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
BOOK = made_files.e_book("")
TWO_PAGES = made_files.scanned(made_files.scan(), made_files.scan(), kind="TIFF")


def plain_zip(name: str = "a.txt", content: bytes = b"words") -> bytes:
    return made_files.archive({name: content}, packed=False)


def stream(name: str) -> bytes:
    """Return the beginning of a compound file whose directory names a stream, without the rest."""
    return COMPOUND + name.encode("utf-16-le") + bytes(400)


def test_a_pdf_is_told_by_its_mark_and_read_where_everybody_can_open_it(extract):
    """The mark may stand within the first 1,024 bytes, but not in words, nor in a file of another format."""
    assert extract("a.zip", plain_zip("a.pdf", PDF)).media_type == "application/zip"
    assert extract("a.md", b"A PDF begins with %PDF-1.7 and ends with %%EOF.").media_type == "text/markdown"
    assert extract("a.pdf", made_files.encrypted_pdf(asks=False)).blocks[0].text == "Private words"


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        *((name, content.encode(), code) for name, content, code in cases("unreadable_files")),
        ("a.pdf", made_files.picture_pdf(), "file_without_text"),
        ("a.pdf", made_files.scanned(made_files.scan("Words"), kind="PDF"), "file_without_text"),
        ("a.docx", made_files.word(), "file_without_text"),
        ("a.xlsx", made_files.workbook(A=[]), "file_without_text"),
        ("a.pdf", made_files.encrypted_pdf(), "file_encrypted"),
        ("a.xlsx", stream("EncryptedPackage"), "file_encrypted"),
        ("a.pdf", PDF[: len(PDF) // 3], "file_corrupt"),
        ("a.pdf", made_files.encrypted_pdf()[:-400], "file_corrupt"),
        ("a.pdf", b"%PDF-1.7\n" + bytes(200) + b"%%EOF", "file_corrupt"),
        ("a.docx", WORDS[: len(WORDS) // 2], "file_corrupt"),
        ("a.docx", made_files.with_part(WORDS, "word/document.xml", b"<w:document"), "file_corrupt"),
        ("a.xlsx", made_files.with_part(SHEET, "xl/worksheets/sheet1.xml", b"<nothing"), "file_corrupt"),
        ("a.pptx", made_files.slides()[:-60], "file_corrupt"),
        ("a.docx", PDF, "file_type_mismatch"),
        ("a.pdf", WORDS, "file_type_mismatch"),
        ("a.xlsx", WORDS, "file_type_mismatch"),
        ("a.md", PDF, "file_type_mismatch"),
        ("a.txt", bytes(range(256)) * 40, "file_type_mismatch"),
        ("a.doc", COMPOUND, "file_type_unsupported"),
        ("a.png", PNG, "file_type_unsupported"),
        ("a.pdf", PNG, "file_type_mismatch"),
        ("a.zip", plain_zip()[:-30], "file_corrupt"),
        ("a.zip", plain_zip("folder/"), "file_without_text"),
        ("a.zip", PDF, "file_type_mismatch"),
        ("a.docx", plain_zip(), "file_type_unsupported"),
        ("a.csv.gz", gzip.compress(b"pears,9\n" * 99, mtime=0)[:-12], "file_corrupt"),
        ("a.csv.gz", gzip.compress(bytes(40 << 20), mtime=0), "file_too_complex"),
        ("a.csv", gzip.compress(b"pears,9\n", mtime=0), "file_type_mismatch"),
        ("a.tar.gz", gzip.compress(bytes(257) + b"ustar" + bytes(250), mtime=0), "file_type_unsupported"),
        ("a.tgz", gzip.compress(b"pears", mtime=0), "file_type_unsupported"),
        ("a.unknown", bytes(100), "file_type_unsupported"),
        ("a.xml", LAUGHS, "file_too_complex"),
        ("a.xml", b"<a>" * 100_000, "file_too_complex"),
        ("a.xml", b"<a>" + b"x" * 11_000_000 + b"</a>", "file_too_complex"),
        ("a.xml", XML[:-20], "file_corrupt"),
        ("a.xml", bytes(5_000), "file_corrupt"),
        ("a.xml", PDF, "file_type_mismatch"),
        ("a.tex", b"\\section{" * 100_000, "file_without_text"),
        ("a.tex", bytes(5_000), "file_type_mismatch"),
        ("a.mbox", b"pears\n\n" + MAILBOX, "file_corrupt"),
        ("a.mbox", bytes(5_000), "file_corrupt"),
        ("a.odp", ODP[:-40], "file_corrupt"),
        ("a.odp", made_files.opendocument("presentation", "<draw:page/>"), "file_without_text"),
        ("a.odt", ODP, "file_type_mismatch"),
        ("a.odp", made_files.with_part(ODP, "content.xml", b"<office"), "file_corrupt"),
        ("a.odp", made_files.with_part(ODP, "content.xml", b"<a>" * 10_000), "file_corrupt"),
        ("a.odp", made_files.with_part(ODP, "content.xml", LAUGHS), "file_too_complex"),
        ("a.odp", made_files.with_part(ODP, "Pictures/a.png", b"", declared_size=300 << 20), "file_too_complex"),
        ("a.odp", made_files.with_part(ODP, "META-INF/manifest.xml", b"<m><encryption-data/></m>"), "file_encrypted"),
        ("a.doc", stream("WordDocument"), "file_corrupt"),
        ("a.xls", stream("Workbook"), "file_corrupt"),
        ("a.ppt", stream("PowerPoint Document"), "file_corrupt"),
        ("a.msg", stream("__properties_version1.0"), "file_corrupt"),
        ("a.doc", stream("Workbook"), "file_type_mismatch"),
        ("a.odt", TEXT[:-40], "file_corrupt"),
        ("a.odt", made_files.opendocument("text", "", manifest="<m:encryption-data/>"), "file_encrypted"),
        ("a.odt", made_files.opendocument("formula", ""), "file_type_unsupported"),
        ("a.ods", TEXT, "file_type_mismatch"),
        ("a.odt", made_files.with_part(TEXT, "content.xml", ENTITY), "file_too_complex"),
        ("a.epub", made_files.with_part(BOOK, "c.xhtml", b"x" * (1 << 20), declared_size=10), "file_corrupt"),
        ("a.ipynb", b'{"cells": ' + b"[" * 100_000, "file_corrupt"),
        ("a.rtf", b"{\\rtf1 " + b"{" * 200_000, "file_too_complex"),
    ],
)
def test_each_unreadable_file_has_its_code(extract, name, content, code):
    with pytest.raises(Unreadable) as caught:
        extract(name, content)
    assert caught.value.code == code
    assert caught.value.message.endswith(".")
    assert len(caught.value.message) > 40


@pytest.mark.parametrize(
    ("limits", "name", "content"),
    [
        ({"characters": 20}, "a.txt", b"pears and apples and plums"),
        ({"characters": 20}, "a.pdf", made_files.pdf([("pears and apples and plums", 12)])),
        ({"characters": 10}, "a.xml", XML),
        ({"characters": 10}, "a.tex", TEX),
        ({"characters": 10}, "a.mbox", MAILBOX),
        ({"characters": 10}, "a.odp", ODP),
        ({"characters": 10}, "a.rtf", RTF),
        ({"blocks": 3}, "a.csv", b"a,b\n" + b"1,2\n" * 9),
        ({"pages": 1}, "a.pdf", made_files.pdf([("one", 12)], [("two", 12)])),
        ({"pages": 1}, "a.pptx", made_files.slides()),
        ({"archive_entries": 3}, "a.docx", WORDS),
        ({"archive_bytes": 1_000}, "a.docx", WORDS),
        ({"entry_bytes": 100}, "a.xlsx", SHEET),
        ({"pixels": 50_000, "reads_scans": True}, "a.jpg", made_files.scanned(made_files.scan(), kind="PNG")),
        ({"pages": 1, "reads_scans": True}, "a.tif", TWO_PAGES),
    ],
)
def test_each_limit_refuses_what_passes_it(extract, limits, name, content):
    with pytest.raises(Unreadable) as caught:
        extract(name, content, **limits)
    assert caught.value.code == "file_too_complex"
    read = extract(name, content, reads_scans=True)
    assert read.blocks or read.scanned


class Panic(BaseException):
    """The panic of a Rust library, not an Exception."""


@pytest.mark.parametrize("error", [Panic(), ValueError("odd"), RecursionError(), corrupt_file("a picture")])
def test_a_detail_that_fails_is_told_and_costs_no_text(error):
    builder = BlockBuilder(Limits())
    with builder.refinement("tables of page 3"):
        raise error
    assert builder.not_read == (NotRead(NotReadKind.DETAIL, 1, ("tables of page 3",)),)
    assert "test_extraction_refusals" in builder.causes[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), MemoryError(), too_complex("Too much.")])
def test_limits_and_the_end_of_the_process_are_no_details(error):
    with pytest.raises(type(error)), BlockBuilder(Limits()).refinement("links of page 3"):
        raise error
