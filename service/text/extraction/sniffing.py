"""Detecting a file's format: binary formats by content, text formats by name."""

import json
import re
from pathlib import Path, PurePosixPath

from carrel.wire.formats import BY_NAME, BY_SUFFIX, FORMATS, UNREAD_FORMATS, FileFormat, UnreadFormat
from service.text.extraction.decoding import is_binary, wide_encoding
from service.text.extraction.failures import Unreadable, encrypted_file
from service.text.extraction.packages import find_main_part, open_archive, read_undamaged

_HEAD = 65_536
_ACCEPTED = ", ".join(each.suffixes[0] for each in FORMATS if each.kind != "archive")
PDF, WORD, POWERPOINT, EXCEL = (BY_NAME[name] for name in ("PDF", "Word", "PowerPoint", "Excel"))
ZIP, GZIP = BY_NAME["ZIP"], BY_NAME["gzip"]
HTML, TEXT, JSON, XML, _SVG = (BY_NAME[name] for name in ("HTML", "text", "JSON", "XML", "SVG"))
# These formats are recognized by content; all others are text, recognized by name.
_BINARY = frozenset(each for each in FORMATS if each.mark or each.within)
_MARKS = tuple((re.compile(each.mark.encode("latin-1"), re.DOTALL), each) for each in FORMATS if each.mark)
_DECLARED = {each.media_type: each for each in FORMATS if "mimetype" in each.within}
_PARTS = {name: each for each in FORMATS for name in each.within}
# Stream names as in a compound file's directory, in lower case.
_STREAMS = tuple((name.lower().encode("utf-16-le"), each) for name, each in _PARTS.items())
# Folders that identify an Office file whose main part can't be read.
_FOLDERS = (("word/", WORD), ("ppt/", POWERPOINT), ("xl/", EXCEL))
_ROOT = re.compile(rb"<(?:[\w.-]+:)?([A-Za-z]+)[\s/>]")
# Marks of refused formats, with their positions.
_UNREAD_MARKS = tuple(
    (int(place or 0), bytes.fromhex(mark), each)
    for each in UNREAD_FORMATS
    for place, _, mark in (mark.rpartition(":") for mark in each.marks)
)
_UNREAD_STREAMS = tuple((name.lower().encode("utf-16-le"), each) for each in UNREAD_FORMATS for name in each.holds)
_UNREAD_SUFFIXES = {suffix: each for each in UNREAD_FORMATS for suffix in each.suffixes}
# Text may begin with ID3 or RIFF, but not with this.
_PRINTABLE_MAGIC = b"%!PS"
_SAVE = f"Save it as one of these: {_ACCEPTED}."
_UNKNOWN = UnreadFormat("a binary file of an unknown kind", _SAVE)
_UNKNOWN_ARCHIVE = UnreadFormat("an archive of an unknown program", _SAVE)
_UNKNOWN_COMPOUND = UnreadFormat("a compound file of an unknown program", _SAVE)
_LONGEST_STREAM = 100
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The first element, after the declaration, comments and the DOCTYPE, which may define entities.
_SVG_ROOT = re.compile(
    rb"(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*+<(?:[^\s<>/!?:]+:)?svg(?=[\s/>])", re.DOTALL
)
_ENCRYPTED_STREAM = "encryptedpackage".encode("utf-16-le")
# Programs export web pages and XML under these names for Word and Excel.
_EXPORTED = (BY_NAME["Word 97"], BY_NAME["Excel 97"])
_OFFICE_KINDS = frozenset({"word", "sheet", "slides", "picture"})


def sniff(path: Path, file_name: str) -> FileFormat:
    """Return a file's format by content, for text by name. Raises Unreadable if empty, unsupported or contradictory."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head:
        raise Unreadable("file_empty", "The file is empty: it has 0 bytes. Check where it came from and send it again.")
    suffix = PurePosixPath(file_name).suffix.lower()
    named, unread = BY_SUFFIX.get(suffix), _UNREAD_SUFFIXES.get(suffix)
    found = _binary_kind(path, head, named, unread)
    if found is not None:
        if not _is_allowed_suffix(found, named):
            raise _mismatch(named, found.name)
        return found
    if named in _EXPORTED and (kind := _kind_of_text(head)) in {HTML, XML}:
        return kind
    if named in _BINARY:
        raise _mismatch(named, "something else")
    if named is not None:
        return named
    if is_binary(head) and not head.startswith((b"\xff\xfe", b"\xfe\xff")) and not wide_encoding(head):
        raise _unsupported(unread or _UNKNOWN)
    return _kind_of_text(head)


def _is_allowed_suffix(found: FileFormat, named: FileFormat | None) -> bool:
    """Return whether a file of format `found` may have the suffix of `named`. Formats of the same Office kind may swap
    suffixes (RTF as .doc), and Office packages may be named .zip."""
    if named is None or named is found or (named.kind == found.kind and found.kind in _OFFICE_KINDS):
        return True
    return named is ZIP and (found in _DECLARED.values() or found in _PARTS.values())


def _binary_kind(path: Path, head: bytes, named: FileFormat | None, unread: UnreadFormat | None) -> FileFormat | None:
    """Return a binary format by content; None for text. Raises Unreadable for a refused format."""
    if head.startswith(_COMPOUND):
        return _compound_kind(path, named, unread)
    found = next((kind for mark, kind in _MARKS if mark.match(head)), None)
    if found is ZIP:
        return _archive_kind(path, named, unread)
    # After the kinds of files that may begin with an embedded PDF; a PDF's mark may follow other bytes.
    if found is None and b"%PDF-" in head[:1024] and is_binary(head):
        return PDF
    if found is GZIP and unread:
        raise _unsupported(unread)
    if found is not None and (found.kind != "picture" or is_binary(head)):
        return found
    refuse_unread(head, unread)
    return None


def refuse_unread(head: bytes, unread: UnreadFormat | None = None) -> None:
    """Raise Unreadable when a file begins like a refused format; `unread` is the format by name."""
    refused = next((kind for at, mark, kind in _UNREAD_MARKS if head.startswith(mark, at)), None)
    if refused and (is_binary(head) or head.startswith(_PRINTABLE_MAGIC)):
        raise _unsupported(unread or refused)


def _archive_kind(path: Path, named: FileFormat | None, unread: UnreadFormat | None) -> FileFormat:
    """Return the format of an archive by its parts; an archive of an unknown program is a ZIP only by name."""
    with open_archive(path) as archive:
        names = frozenset(archive.namelist())
        declared = read_undamaged(archive, "mimetype", most=200).decode("ascii", "replace").strip()
        main = find_main_part(archive)
        root = _ROOT.search(read_undamaged(archive, main, most=_HEAD)) if main else None
    kind = _PARTS.get(main.rpartition("/")[2]) or _PARTS.get(root[1].decode() if root else "")
    kind = kind or _DECLARED.get(declared.removesuffix("-template"))
    if kind is None and "[Content_Types].xml" in names:
        kind = next((kind for folder, kind in _FOLDERS if any(name.startswith(folder) for name in names)), None)
    if kind is None and named is not ZIP:
        held = (each for each in UNREAD_FORMATS if declared in each.holds or not names.isdisjoint(each.holds))
        raise _unsupported(unread or next(held, None) or _UNKNOWN_ARCHIVE)
    return kind or ZIP


def _compound_kind(path: Path, named: FileFormat | None, unread: UnreadFormat | None) -> FileFormat:
    """Return a compound file's format, by its streams if ambiguous. Raises Unreadable for a password or no format."""
    found: set[FileFormat | UnreadFormat] = set()
    rest = b""
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            rest += data.lower()
            if _ENCRYPTED_STREAM in rest:
                raise encrypted_file("Office")
            found.update(kind for name, kind in (*_STREAMS, *_UNREAD_STREAMS) if name in rest)
            rest = rest[-_LONGEST_STREAM:]
    if named in found:
        return named
    kind = next((kind for _, kind in _STREAMS if kind in found), None)
    if kind is None or unread is not None:
        held = next((kind for _, kind in _UNREAD_STREAMS if kind in found), None)
        raise _unsupported(unread or held or _UNKNOWN_COMPOUND)
    return kind


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


def _unsupported(found: UnreadFormat) -> Unreadable:
    return Unreadable("file_type_unsupported", f"The file is {found.name}, which can't be read. {found.instead}")


def _mismatch(named: FileFormat | None, found: str) -> Unreadable:
    promised = named.name if named else "nothing"
    return Unreadable(
        "file_type_mismatch",
        f"The file's name says {promised}, but its content is {found}. Give it the name that matches its content.",
    )
