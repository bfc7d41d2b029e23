"""What can't be read is refused with its own code and a message that says what to do."""

import io
import zipfile

import pytest

from carrel.wire.formats import BY_SUFFIX, UNREAD_SUFFIXES
from service.text.extraction import task
from service.text.extraction.building import Limits
from service.text.extraction.failures import Unreadable
from service.text.extraction.parsing import READERS, parse_file
from tests import made_files

WORDS = made_files.word(paragraphs=[("Normal", "some words")])
SHEET = made_files.workbook(A=[["x", "y"], [1, 2]])
PDF = made_files.pdf([("Some words about pears", 12)])
# The first bytes of a compound file (MS-CFB), as Office wraps what it encrypts and as it wrote before 2007.
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4_000)
ENCRYPTED_OFFICE = COMPOUND + "EncryptedPackage".encode("utf-16-le") + bytes(400)
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100)
TWO_PAGES = made_files.scanned(made_files.scan(), made_files.scan(), kind="TIFF")


def plain_zip(name: str = "a.txt", content: bytes = b"words") -> bytes:
    """An archive that is no Office file, its one file not compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def refusal(folder, name: str, content: bytes, limits: Limits | None = None) -> Unreadable:
    """Return how the file is refused."""
    with pytest.raises(Unreadable) as caught:
        parse_file(made_files.saved(folder, "file", content), name, limits or Limits())
    return caught.value


def test_archive_that_begins_with_a_whole_pdf_is_an_archive(tmp_path):
    """The mark of a PDF counts within the first 1,024 bytes, but not in a file that is something else."""
    path = made_files.saved(tmp_path, "a.zip", plain_zip("a.pdf", PDF))
    assert parse_file(path, "a.zip", Limits()).media_type == "application/zip"


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.md", b"", "file_empty"),
        ("a.docx", b"", "file_empty"),
        ("a.txt", b" \n\t\r\n ", "file_without_text"),
        ("a.json", b"{}", "file_without_text"),
        ("a.csv", b",,\n,,\n", "file_without_text"),
        ("a.html", b"<html><script>x()</script></html>", "file_without_text"),
        ("a.pdf", made_files.picture_pdf(), "file_without_text"),
        ("a.pdf", made_files.scanned(made_files.scan("Words"), kind="PDF"), "file_without_text"),
        ("a.docx", made_files.word(), "file_without_text"),
        ("a.xlsx", made_files.workbook(A=[]), "file_without_text"),
        ("a.eml", b"From: a@b.example\n\n", "file_without_text"),
        ("a.pdf", made_files.encrypted_pdf(), "file_encrypted"),
        ("a.docx", ENCRYPTED_OFFICE, "file_encrypted"),
        ("a.xlsx", ENCRYPTED_OFFICE, "file_encrypted"),
        ("a.pdf", PDF[: len(PDF) // 2], "file_corrupt"),
        ("a.pdf", PDF[:-10], "file_corrupt"),
        ("a.pdf", b"%PDF-1.7\n" + bytes(200) + b"%%EOF", "file_corrupt"),
        ("a.docx", WORDS[: len(WORDS) // 2], "file_corrupt"),
        ("a.docx", made_files.with_part(WORDS, "word/document.xml", b"<w:document"), "file_corrupt"),
        ("a.xlsx", made_files.with_part(SHEET, "xl/worksheets/sheet1.xml", b"<nothing"), "file_corrupt"),
        ("a.pptx", made_files.slides()[:-60], "file_corrupt"),
        ("a.json", b'{"a": [1, 2', "file_corrupt"),
        ("a.jsonl", b'{"a": 1}\nnothing\n', "file_corrupt"),
        ("a.eml", b"no header here, only words", "file_corrupt"),
        ("a.docx", PDF, "file_type_mismatch"),
        ("a.pdf", WORDS, "file_type_mismatch"),
        ("a.xlsx", WORDS, "file_type_mismatch"),
        ("a.pdf", b"just words", "file_type_mismatch"),
        ("a.md", PDF, "file_type_mismatch"),
        ("a.txt", bytes(range(256)) * 40, "file_type_mismatch"),
        ("a.doc", COMPOUND, "file_type_unsupported"),
        ("a.png", PNG, "file_type_unsupported"),
        ("a.pdf", PNG, "file_type_mismatch"),
        ("a.jar", plain_zip(), "file_type_unsupported"),
        ("a.zip", plain_zip()[:-30], "file_corrupt"),
        ("a.zip", plain_zip("folder/"), "file_without_text"),
        ("a.zip", PDF, "file_type_mismatch"),
        ("a.docx", plain_zip(), "file_type_unsupported"),
        ("a.pdf", b"{\\rtf1 words}", "file_type_mismatch"),
        ("a.unknown", bytes(100), "file_type_unsupported"),
    ],
)
def test_each_unreadable_file_has_its_code(tmp_path, name, content, code):
    """The code tells why, and the message tells what to do in at least a sentence."""
    found = refusal(tmp_path, name, content)
    assert found.code == code
    assert found.message.endswith(".")
    assert len(found.message) > 40


def test_what_a_plan_says_of_suffixes_is_so(tmp_path):
    """Files of formats that a plan of a run calls unread are refused for their type."""
    assert {refusal(tmp_path, f"a{suffix}", bytes(100)).code for suffix in UNREAD_SUFFIXES} == {"file_type_unsupported"}
    assert not UNREAD_SUFFIXES & BY_SUFFIX.keys()


def test_a_text_that_mentions_pdf_is_not_one(tmp_path):
    """The mark of a PDF inside words decides nothing."""
    path = made_files.saved(tmp_path, "file", b"A PDF begins with %PDF-1.7 and ends with %%EOF.")
    assert parse_file(path, "a.md", Limits()).media_type == "text/markdown"


def test_a_pdf_with_only_an_owner_password_is_read(tmp_path):
    """What everybody can open is not encrypted to us."""
    path = made_files.saved(tmp_path, "file", made_files.encrypted_pdf(asks=False))
    assert parse_file(path, "a.pdf", Limits()).blocks[0].text == "Private words"


@pytest.mark.parametrize(
    ("limits", "name", "content"),
    [
        (Limits(characters=20), "a.txt", b"pears and apples and plums"),
        (Limits(characters=20), "a.pdf", made_files.pdf([("pears and apples and plums", 12)])),
        (Limits(blocks=3), "a.csv", b"a,b\n" + b"1,2\n" * 9),
        (Limits(pages=1), "a.pdf", made_files.pdf([("one", 12)], [("two", 12)])),
        (Limits(pages=1), "a.pptx", made_files.slides()),
        (Limits(archive_entries=3), "a.docx", WORDS),
        (Limits(archive_bytes=1_000), "a.docx", WORDS),
        (Limits(entry_bytes=100), "a.xlsx", SHEET),
        (Limits(pixels=50_000, reads_scans=True), "a.jpg", made_files.scanned(made_files.scan(), kind="PNG")),
        (Limits(pages=1, reads_scans=True), "a.tif", TWO_PAGES),
    ],
)
def test_each_limit_refuses_what_passes_it(tmp_path, limits, name, content):
    """A file over any of the limits is too complex, and is read within the default ones."""
    assert refusal(tmp_path, name, content, limits).code == "file_too_complex"
    read = parse_file(tmp_path / "file", name, Limits(reads_scans=True))
    assert read.blocks or read.scanned


class Panic(BaseException):
    """What the libraries in Rust raise where they give up: no Exception."""


def test_a_reader_that_panics_refuses_the_file(tmp_path, monkeypatch):
    """A panic in a library is a file that can't be read, and the worker goes on."""

    def panic(*_: object) -> None:
        raise Panic

    monkeypatch.setitem(READERS, "Excel 97", panic)
    path = made_files.saved(tmp_path, "a.xls", made_files.old_workbook(Trees=[["Pear"]]))
    outcome = task.extract(str(path), "a.xls", Limits(), 10**9)
    assert isinstance(outcome, task.Refused)
    assert (outcome.code, "Panic" in (outcome.cause or "")) == ("file_corrupt", True)
