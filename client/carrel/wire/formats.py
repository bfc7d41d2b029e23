"""The formats of files that are read, the parts of files that are not, and why files are not loaded.

This is the one place that names them.

The formats are in `formats.json`. To add a format: its line there, and its reader in `service/text/extraction`."""

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
    """A format: its name in a sentence, its media type, and the suffixes of its files, the usual suffix first.

    The rest is for the service: its reader, and how content tells the format. Without `mark` and `within`, files of the
    format are text, and their names tell it."""

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    kind: str
    """What people filter by: several formats may be of one kind."""
    reader: str
    """The module and the function in `service.text.extraction`; a first parameter `data` gets the file's bytes."""
    mark: str = ""
    """A regular expression in Latin-1 that the first bytes of each file match."""
    within: tuple[str, ...] = ()
    """Names in files of several parts, of which each file has one: a stream of a compound file, the first element of
    an Office file's main part, or `mimetype` when the archive declares the media type."""


@dataclass(frozen=True, slots=True)
class UnreadFormat:
    """A format that is refused: its name in a sentence, its suffixes, and what to send in place of the file."""

    name: str
    instead: str
    suffixes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    """Bytes in hexadecimal, after their place and a colon unless the file begins with them."""
    holds: tuple[str, ...] = ()
    """Names of streams or entries in a file of several parts, or the media type that an archive declares."""


FORMATS = tuple(FileFormat(**each) for each in _TABLE["read"])
UNREAD_FORMATS = tuple(UnreadFormat(**each) for each in _TABLE["unread"])
BY_SUFFIX: Mapping[str, FileFormat] = {suffix: each for each in FORMATS for suffix in each.suffixes}
BY_NAME: Mapping[str, FileFormat] = {each.name: each for each in FORMATS}


UNREAD_SUFFIXES = frozenset(suffix for each in UNREAD_FORMATS for suffix in each.suffixes)
"""Suffixes of files that are refused as being of a format that isn't read, as long as they are what their names say."""


class NotReadKind(StrEnum):
    """What a file may hold that isn't read, so that nobody finds what it says."""

    PAGE = "page"
    """A page that has pictures and no text: a scan."""
    PICTURE = "picture"
    """A picture, whatever is written in it."""
    ATTACHMENT = "attachment"
    """A file that a mail carries and that is no document of its own, or that is attached to a PDF."""
    EMBEDDED = "embedded"
    """A file or object of another program inside an Office file, or a file in an archive that could not be read."""
    RECORDING = "recording"
    """A sound or film."""
    SHEET = "sheet"
    """A macro sheet or dialog sheet of a workbook."""
    FORM = "form"
    """A form that only Adobe's programs draw (XFA)."""
    ENCRYPTED = "encrypted"
    """An encrypted part of a mail."""
    FORMULA = "formula"
    """A formula of a workbook that nobody has calculated, so that it has no value; the formula itself was read."""
    DETAIL = "detail"
    """A table, link, picture, property or the like that could not be read; the plain text around it was read."""


def count_not_read(kind: NotReadKind, count: int) -> str:
    """Return a number of parts that were not read in words: `3 pictures`."""
    return f"{count:,} {_TABLE['not_read'][kind][count != 1]}"


REASONS: Mapping[str, str] = _TABLE["reasons"]
"""Why documents were not loaded, in words that follow a number, by the code of the reason."""


def count_reasons(counts: Mapping[str, int]) -> str:
    """Return the numbers of files that were not loaded, by the codes of their reasons, in words: `2 empty`.

    A code that is not known here stands as it is: a newer service may have it."""
    return ", ".join(f"{count:,} {REASONS.get(code, code)}" for code, count in counts.items())


def in_words() -> str:
    """Return the names of all formats as a part of a sentence: `PDF, Word, … and mail`."""
    *first, last = (each.name for each in FORMATS)
    return f"{', '.join(first)} and {last}"
