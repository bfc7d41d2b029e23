"""The supported file formats, the unread parts of files, and the reasons for not loading files, with all names. The
formats are in `formats.json`; a new format needs a line there, and a reader in `service/text/extraction`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_TUPLES = ("suffixes", "within", "marks", "holds")
_TABLE = json.loads(
    Path(__file__).with_name("formats.json").read_text("utf-8"),
    object_hook=lambda each: {key: tuple(value) if key in _TUPLES else value for key, value in each.items()},
)


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format: its name in a sentence, its media type, and its file suffixes, the usual suffix first. The service uses
    the reader and the detection by content; formats without `mark` and `within` are text, detected by file name."""

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    kind: str
    """Kind of file for filters; several formats may share a kind."""
    reader: str
    """The module and the function in `service.text.extraction`; a first parameter `data` gets the file's bytes."""
    mark: str = ""
    """A regular expression in Latin-1 for the first bytes of each file."""
    within: tuple[str, ...] = ()
    """Names in files of several parts; each file of the format contains one of them: a stream of a compound file, the
    first element of an Office file's main part, or `mimetype` when the archive declares the media type."""


@dataclass(frozen=True, slots=True)
class UnreadFormat:
    """A refused format: its name in a sentence, its suffixes, and the format to send instead."""

    name: str
    instead: str
    suffixes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    """Bytes in hexadecimal, after a position and a colon unless at the beginning of the file."""
    holds: tuple[str, ...] = ()
    """Names of streams or entries in a file of several parts, or the media type declared by an archive."""


FORMATS = tuple(FileFormat(**each) for each in _TABLE["read"])
UNREAD_FORMATS = tuple(UnreadFormat(**each) for each in _TABLE["unread"])
BY_SUFFIX: Mapping[str, FileFormat] = {suffix: each for each in FORMATS for suffix in each.suffixes}
BY_NAME: Mapping[str, FileFormat] = {each.name: each for each in FORMATS}


UNREAD_SUFFIXES = frozenset(suffix for each in UNREAD_FORMATS for suffix in each.suffixes)
"""Suffixes of unsupported formats; files are refused if their content matches the suffix."""


class NotReadKind(StrEnum):
    """Kinds of unread parts of a file, whose text search can't find."""

    PAGE = "page"
    """A page with pictures and without text: a scan."""
    PICTURE = "picture"
    """A picture, with any text in it."""
    ATTACHMENT = "attachment"
    """A file attached to a PDF, or attached to a mail without becoming a document."""
    EMBEDDED = "embedded"
    """A file or object of another program inside an Office file, or a file in an archive that could not be read."""
    RECORDING = "recording"
    """A sound or film."""
    SHEET = "sheet"
    """A macro sheet or dialog sheet of a workbook."""
    FORM = "form"
    """A form drawn only by Adobe's programs (XFA)."""
    ENCRYPTED = "encrypted"
    """An encrypted part of a mail."""
    FORMULA = "formula"
    """A formula without a calculated value in the workbook; the formula itself was read."""
    DETAIL = "detail"
    """An unreadable table, link, picture, property or similar; the plain text around it was read."""


def count_not_read(kind: NotReadKind, count: int) -> str:
    """Return a number of unread parts in words: `3 pictures`."""
    return f"{count:,} {_TABLE['not_read'][kind][count != 1]}"


REASONS: Mapping[str, str] = _TABLE["reasons"]
"""Why documents were not loaded, by reason code, in words that follow a number."""


def count_reasons(counts: Mapping[str, int]) -> str:
    """Return the numbers of files not loaded, by reason code, in words: `2 empty`. An unknown code stays unchanged."""
    return ", ".join(f"{count:,} {REASONS.get(code, code)}" for code, count in counts.items())


def in_words() -> str:
    """Return the names of all formats as a part of a sentence: `PDF, Word, … and mail`."""
    *first, last = (each.name for each in FORMATS)
    return f"{', '.join(first)} and {last}"
