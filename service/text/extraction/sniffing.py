"""Finding out a file's format: binary formats by its content, text formats by its name."""

import json
import re
from pathlib import Path, PurePosixPath

from carrel.wire.formats import BY_NAME, BY_SUFFIX, FORMATS, FileFormat
from service.text.extraction.archives import declared_type, entry_names
from service.text.extraction.decoding import is_binary, wide_encoding
from service.text.extraction.failures import Unreadable, encrypted_file

_HEAD = 65_536
_ACCEPTED = ", ".join(each.suffixes[0] for each in FORMATS if each.kind != "archive")
PDF, WORD, POWERPOINT, EXCEL = (BY_NAME[name] for name in ("PDF", "Word", "PowerPoint", "Excel"))
ZIP = BY_NAME["ZIP"]
HTML, TEXT, JSON, XML, _SVG = (BY_NAME[name] for name in ("HTML", "text", "JSON", "XML", "SVG"))
# Formats that their content tells; all others are text, and told by their name.
_RTF, _BINARY_EXCEL = BY_NAME["RTF"], BY_NAME["binary Excel"]
# What an archive says of itself in its entry `mimetype`.
_DECLARED = ("OpenDocument text", "OpenDocument sheets", "OpenDocument slides", "EPUB")
_ARCHIVES = {BY_NAME[name].media_type: BY_NAME[name] for name in _DECLARED}
# The stream that each kind of compound file can't be without, as its directory names it but for the case of letters.
_STREAMS = tuple(
    (name.lower().encode("utf-16-le"), BY_NAME[kind])
    for name, kind in (
        ("__properties_version1.0", "Outlook message"),
        ("PowerPoint Document", "PowerPoint 97"),
        ("WordDocument", "Word 97"),
        ("Workbook", "Excel 97"),
        ("Book\0", "Excel 97"),
    )
)
_PICTURES = (
    (b"\x89PNG\r\n", BY_NAME["PNG"]),
    (b"\xff\xd8\xff", BY_NAME["JPEG"]),
    (b"GIF8", BY_NAME["GIF"]),
    (b"II*\x00", BY_NAME["TIFF"]),
    (b"MM\x00*", BY_NAME["TIFF"]),
    (b"BM", BY_NAME["BMP"]),
    (b"\x78\x9f\x3e\x22", BY_NAME["Outlook attachments"]),
)
_WEBP = BY_NAME["WebP"]
_BINARY = (
    *(PDF, WORD, POWERPOINT, EXCEL, ZIP, _RTF, _BINARY_EXCEL, _WEBP),
    *_ARCHIVES.values(),
    *(kind for _, kind in (*_STREAMS, *_PICTURES)),
)
# What each kind of Office file can't be without.
_MAIN_PARTS = (("word/", WORD), ("ppt/", POWERPOINT), ("xl/", EXCEL))
# Files of programs of before 1995: how they begin, or the stream that they have; what they are; what can be read.
_OLD_CONTENT = (
    (b"\x9b\xa5\x21\x00", "a document of Word 1", ".docx"),
    (b"\xdb\xa5\x2d\x00", "a document of Word 2", ".docx"),
    (b"\xfe7\x00\x1c", "a document of Word for the Macintosh", ".docx"),
    (b"\xfe7\x00\x23", "a document of Word for the Macintosh", ".docx"),
    (b"\x31\xbe\x00\x00", "a document of Word for DOS or Write", ".docx"),
    (b"\xffWPC", "a document of WordPerfect", ".docx"),
    (b"\x09\x00\x04\x00", "a sheet of Excel 2", ".xlsx"),
    (b"\x09\x02\x06\x00", "a sheet of Excel 3", ".xlsx"),
    (b"\x09\x04\x06\x00", "a sheet of Excel 4", ".xlsx"),
    (b"\x00\x00\x02\x00\x06\x04\x06\x00", "a sheet of Lotus 1-2-3", ".xlsx"),
    (b"\x00\x00\x1a\x00\x00\x10\x04\x00", "a sheet of Lotus 1-2-3", ".xlsx"),
)
_OLD_STREAMS = (("PP40".lower().encode("utf-16-le") + bytes(40), "a presentation of PowerPoint 4", ".pptx"),)
_FOREIGN_CONTENT = (
    (b"%!PS", "a PostScript file"),
    (b"\x1f\x8b", "a compressed file"),
    (b"BZh", "a compressed file"),
    (b"\xfd7zXZ", "a compressed file"),
    (b"\x28\xb5\x2f\xfd", "a compressed file"),
    (b"7z\xbc\xaf", "an archive"),
    (b"Rar!", "an archive"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"SQLite format 3", "a database"),
    (b"RIFF", "a sound or film"),
    (b"ID3", "a sound"),
)
# A text may begin with ID3 or RIFF, but not with this.
_PRINTABLE_MAGIC = (b"%!PS",)
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The first element, after the declaration, comments and the DOCTYPE, which may define entities.
_SVG_ROOT = re.compile(
    rb"(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*+<(?:[^\s<>/!?:]+:)?svg(?=[\s/>])", re.DOTALL
)
_ENCRYPTED_STREAM = "encryptedpackage".encode("utf-16-le")
# Web pages and XML under these names are what programs export for Word and Excel.
_EXPORTED = (BY_NAME["Word 97"], BY_NAME["Excel 97"])
_OFFICE_KINDS = frozenset({"word", "sheet", "slides", "picture"})


def sniff(path: Path, file_name: str) -> FileFormat:
    """Return a file's format; Unreadable when it is empty, of a format that isn't read, or not what its name says.

    The name of a text file decides (Markdown in a .txt is text); a file whose name says nothing is judged by its
    content alone.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head:
        raise Unreadable("file_empty", "The file is empty: it has 0 bytes. Check where it came from and send it again.")
    named = BY_SUFFIX.get(PurePosixPath(file_name).suffix.lower())
    found = _binary_kind(path, head, named)
    if found is not None:
        if not _is_called(found, named):
            raise _mismatch(named, found.name)
        return found
    return _text_kind(head, named)


def _is_called(found: FileFormat, named: FileFormat | None) -> bool:
    """Return whether a file may have its suffix: another of its kind (RTF as .doc), an Office file .zip."""
    if named is None or named is found or (named.kind == found.kind and found.kind in _OFFICE_KINDS):
        return True
    return named is ZIP and (found in {WORD, POWERPOINT, EXCEL, _BINARY_EXCEL} or found in _ARCHIVES.values())


def _binary_kind(path: Path, head: bytes, named: FileFormat | None) -> FileFormat | None:
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _archive_kind(path, named)
    if head.startswith(_COMPOUND):
        return _compound_kind(path, named)
    # After the kinds of files that may begin with a whole PDF of their own.
    if _is_pdf(head):
        return PDF
    if head.lstrip().startswith(b"{\\rtf"):
        return _RTF
    if (picture := _picture_kind(head)) is not None:
        return picture
    old = next(((what, suffix) for magic, what, suffix in _OLD_CONTENT if head.startswith(magic)), None)
    if old and is_binary(head):
        raise _refuse_outdated(*old)
    foreign = next((name for magic, name in _FOREIGN_CONTENT if head.startswith(magic)), None)
    if foreign and (is_binary(head) or head.startswith(_PRINTABLE_MAGIC)):
        raise _unsupported(foreign)
    return None


def _picture_kind(head: bytes) -> FileFormat | None:
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _WEBP
    found = next((kind for magic, kind in _PICTURES if head.startswith(magic)), None)
    return found if found is not None and is_binary(head) else None


def _is_pdf(head: bytes) -> bool:
    """Return whether the content is a PDF: its mark is first, or follows within 1,024 bytes that aren't text."""
    return head.lstrip().startswith(b"%PDF-") or (b"%PDF-" in head[:1024] and is_binary(head))


def _archive_kind(path: Path, named: FileFormat | None) -> FileFormat:
    """Return what an archive is by its entries; one of no known program is an archive of files only by its name."""
    names = entry_names(path)
    if "[Content_Types].xml" in names:
        if "xl/workbook.bin" in names:
            return _BINARY_EXCEL
        for prefix, kind in _MAIN_PARTS:
            if any(name.startswith(prefix) for name in names):
                return kind
    kind = _ARCHIVES.get(declared_type(path).removesuffix("-template")) if "mimetype" in names else None
    if kind is None and named is not ZIP:
        raise _unsupported("an archive")
    return kind or ZIP


def _compound_kind(path: Path, named: FileFormat | None) -> FileFormat:
    """Return what a compound file is by its streams; a file in which others are embedded is what its name says.

    Unreadable when it is an Office file with a password, or nothing that is known.
    """
    found: set[FileFormat] = set()
    old: tuple[str, str] | None = None
    rest = b""
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            rest += data.lower()
            if _ENCRYPTED_STREAM in rest:
                raise encrypted_file("Office")
            found.update(kind for name, kind in _STREAMS if name in rest)
            old = next(((what, suffix) for name, what, suffix in _OLD_STREAMS if name in rest), old)
            rest = rest[-len(_ENCRYPTED_STREAM) :]
    if named in found:
        return named
    kind = next((kind for _, kind in _STREAMS if kind in found), None)
    if kind is None and old is not None:
        raise _refuse_outdated(*old)
    if kind is None:
        raise _unsupported("a compound file of an unknown program")
    return kind


def _text_kind(head: bytes, named: FileFormat | None) -> FileFormat:
    if named in _EXPORTED and (kind := _kind_of_text(head)) in {HTML, XML}:
        return kind
    if named in _BINARY:
        raise _mismatch(named, "something else")
    if named is not None:
        return named
    if is_binary(head) and not head.startswith((b"\xff\xfe", b"\xfe\xff")) and not wide_encoding(head):
        raise _unsupported("a binary file of an unknown kind")
    return _kind_of_text(head)


def _kind_of_text(head: bytes) -> FileFormat:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    # Without its mark and NULs, UTF-16 reads like ASCII.
    plain = start.lstrip(b"\xff\xfe").replace(b"\x00", b"")
    markup = plain[:1024].lower()
    if markup.startswith((b"<!doctype html", b"<html")):
        return HTML
    if _SVG_ROOT.match(plain):
        return _SVG
    if markup.startswith(b"<?xml"):
        return HTML if b"<html" in markup else XML
    if start[:1] in {b"{", b"["} and len(head) < _HEAD and _parses(start):
        return JSON
    return TEXT


def _parses(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _unsupported(what: str) -> Unreadable:
    return Unreadable(
        "file_type_unsupported", f"The file is {what}, which can't be read. Save it as one of these: {_ACCEPTED}."
    )


def _refuse_outdated(what: str, suffix: str) -> Unreadable:
    return Unreadable(
        "file_type_unsupported",
        f"The file is {what}, which is too old to be read. Open it in a program that still can, such as LibreOffice, "
        f"and save it as {suffix}.",
    )


def _mismatch(named: FileFormat | None, found: str) -> Unreadable:
    promised = named.name if named else "nothing"
    return Unreadable(
        "file_type_mismatch",
        f"The file's name says {promised} and its content is {found}. Give it the name that belongs to its content.",
    )
