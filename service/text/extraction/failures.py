"""The refusals of a parser: `Unreadable` inside a worker, turned by workers.py into the callers' error."""

from typing import Literal

FailureCode = Literal[
    "file_empty",
    "file_without_text",
    "file_encrypted",
    "file_corrupt",
    "file_type_unsupported",
    "file_type_mismatch",
    "file_too_complex",
]

OUT_OF_MEMORY = "Reading the file takes more memory than is allowed."
# libxml2's XML_ERR_NO_MEMORY and expat's XML_ERROR_NO_MEMORY.
_OUT_OF_MEMORY = frozenset({("lxml.etree", 2), ("xml.etree.ElementTree", 1)})


class Unreadable(Exception):  # noqa: N818 - named for what the file is
    """A refused file. The message advises the sender; `cause` is for the log."""

    def __init__(self, code: FailureCode, message: str, cause: str | None = None) -> None:
        super().__init__(code, message)
        self.code: FailureCode = code
        self.message = message
        self.cause = cause


def corrupt_file(kind: str, cause: str | None = None) -> Unreadable:
    return Unreadable(
        "file_corrupt",
        f"The file is damaged or incomplete: it can't be read as {kind}. Open it, save it again, and send that copy.",
        cause,
    )


def damaged_file(kind: str, error: Exception) -> Unreadable:
    """Return the refusal for a library's error. XML parsers report exhausted memory as a syntax error."""
    if (type(error).__module__, getattr(error, "code", None)) in _OUT_OF_MEMORY:
        return too_complex(OUT_OF_MEMORY)
    return corrupt_file(kind)


def encrypted_file(kind: str) -> Unreadable:
    return Unreadable(
        "file_encrypted", f"The {kind} file has a password. Save a copy without the password and send that copy."
    )


def too_complex(reason: str) -> Unreadable:
    """Return the refusal of a file too costly to read; `reason` is a sentence."""
    return Unreadable("file_too_complex", f"{reason} Split it into smaller files, or save it again in a simpler form.")


def without_text(reason: str) -> Unreadable:
    """Return the refusal of a file without searchable content; `reason` is a sentence."""
    return Unreadable("file_without_text", reason)
