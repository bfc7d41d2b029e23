"""Unreadable files are refused with a code and advice."""

import gzip

import pytest

from carrel.wire.formats import NotReadKind
from service.text.extraction.building import BlockBuilder, Limits
from service.text.extraction.failures import Unreadable, corrupt_file, too_complex
from service.text.reading import NotRead
from tests import made_files
from tests.harness.cases import bytes_of_case, cases
from tests.unit.test_extraction_plain_formats import MAILBOX, ODP, RTF, TEX, TEXT, XML

WORDS = made_files.word(paragraphs=[("Normal", "some words")])
SHEET = made_files.workbook(A=[["x", "y"], [1, 2]])
PDF = made_files.pdf([("Some words about pears", 12)])
# The first bytes of a compound file (MS-CFB), as Office wraps what it encrypts and as it wrote before 2007.
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4_000)
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100)
LAUGHS = f"{made_files.LAUGHS}<a>&k;</a>".encode()
BOOK = made_files.e_book("")
WHOLE = {"a.docx": WORDS, "a.xlsx": SHEET, "a.odp": ODP, "a.odt": TEXT}
# Contents, with the names of files of another type.
OTHERS = {PDF: "a.docx a.md a.zip a.xml", WORDS: "a.pdf a.xlsx", PNG: "a.pdf", ODP: "a.odt", TEXT: "a.ods"}
TWO_PAGES = made_files.scanned(made_files.scan(), made_files.scan(), kind="TIFF")


def plain_zip(name: str = "a.txt", content: bytes = b"words") -> bytes:
    return made_files.archive({name: content}, packed=False)


def stream(name: str) -> bytes:
    """Return the beginning of a compound file whose directory names a stream, without the rest."""
    return COMPOUND + name.encode("utf-16-le") + bytes(400)


CUT = [
    ("a.pdf", PDF[: len(PDF) // 3]),
    ("a.pdf", made_files.encrypted_pdf()[:-400]),
    ("a.docx", WORDS[: len(WORDS) // 2]),
    ("a.pptx", made_files.slides()[:-60]),
    ("a.zip", plain_zip()[:-30]),
    ("a.csv.gz", gzip.compress(b"pears,9\n" * 99, mtime=0)[:-12]),
    *(("a.xml", XML[:-20]), ("a.odp", ODP[:-40]), ("a.odt", TEXT[:-40])),
]


def test_a_pdf_is_told_by_its_mark_and_read_where_everybody_can_open_it(extract):
    """The mark may stand within the first 1,024 bytes, but not in words, nor in a file of another format."""
    assert extract("a.zip", plain_zip("a.pdf", PDF)).media_type == "application/zip"
    assert extract("a.md", b"A PDF begins with %PDF-1.7 and ends with %%EOF.").media_type == "text/markdown"
    assert extract("a.pdf", made_files.encrypted_pdf(asks=False)).blocks[0].text == "Private words"


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        *((name, content.encode(), code) for name, content, code in cases("unreadable_files")),
        *((name, bytes_of_case(parts), code) for name, parts, code in cases("unreadable_bytes")),
        *(
            (name, gzip.compress(bytes_of_case(parts), mtime=0), code)
            for name, parts, code in cases("unreadable_gzip_files")
        ),
        *((name, stream(kept), code) for name, kept, code in cases("unreadable_compound_files")),
        *(
            (name, made_files.with_part(WHOLE[name], part, bytes_of_case(parts)), code)
            for name, part, parts, code in cases("unreadable_parts_of_archives")
        ),
        *((name, content, "file_type_mismatch") for content, names in OTHERS.items() for name in names.split()),
        *((name, content, "file_corrupt") for name, content in CUT),
        ("a.pdf", made_files.picture_pdf(), "file_without_text"),
        ("a.pdf", made_files.scanned(made_files.scan("Words"), kind="PDF"), "file_without_text"),
        ("a.docx", made_files.word(), "file_without_text"),
        ("a.xlsx", made_files.workbook(A=[]), "file_without_text"),
        ("a.pdf", made_files.encrypted_pdf(), "file_encrypted"),
        ("a.doc", COMPOUND, "file_type_unsupported"),
        ("a.png", PNG, "file_type_unsupported"),
        ("a.zip", plain_zip("folder/"), "file_without_text"),
        ("a.docx", plain_zip(), "file_type_unsupported"),
        ("a.xml", LAUGHS, "file_too_complex"),
        ("a.mbox", b"pears\n\n" + MAILBOX, "file_corrupt"),
        ("a.odp", made_files.opendocument("presentation", "<draw:page/>"), "file_without_text"),
        ("a.odp", made_files.with_part(ODP, "content.xml", LAUGHS), "file_too_complex"),
        ("a.odp", made_files.with_part(ODP, "Pictures/a.png", b"", declared_size=300 << 20), "file_too_complex"),
        ("a.odt", made_files.opendocument("text", "", manifest="<m:encryption-data/>"), "file_encrypted"),
        ("a.odt", made_files.opendocument("formula", ""), "file_type_unsupported"),
        ("a.epub", made_files.with_part(BOOK, "c.xhtml", b"x" * (1 << 20), declared_size=10), "file_corrupt"),
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
