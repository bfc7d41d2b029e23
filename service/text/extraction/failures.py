"""The refusals a parser can give: `Unreadable` inside a worker, which workers.py turns into the error callers see."""

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

OUT_OF_MEMORY = "Reading the file takes more memory than a file may take."
# libxml2's XML_ERR_NO_MEMORY and expat's XML_ERROR_NO_MEMORY.
_OUT_OF_MEMORY = frozenset({("lxml.etree", 2), ("xml.etree.ElementTree", 1)})


class Unreadable(Exception):  # noqa: N818 - named for what the file is
    """A file that is refused; the message tells its sender what to do about it, and `cause` is for the log."""

    def __init__(self, code: FailureCode, message: str, cause: str | None = None) -> None:
        super().__init__(code, message)
        self.code: FailureCode = code
        self.message = message
        self.cause = cause


def corrupt_file(kind: str, cause: str | None = None) -> Unreadable:
    """Return the refusal of a file whose structure is damaged."""
    return Unreadable(
        "file_corrupt",
        f"The file is damaged or cut off: it can't be read as {kind}. Open it, save it again, and send that copy.",
        cause,
    )


def damaged_file(kind: str, error: Exception) -> Unreadable:
    """Return the refusal for a library's error: XML parsers report exhausted memory as an error of syntax."""
    if (type(error).__module__, getattr(error, "code", None)) in _OUT_OF_MEMORY:
        return too_complex(OUT_OF_MEMORY)
    return corrupt_file(kind)


def encrypted_file(kind: str) -> Unreadable:
    """Return the refusal of a file that needs a password."""
    return Unreadable(
        "file_encrypted", f"The {kind} file is protected by a password. Save a copy without the password and send that."
    )


def too_complex(reason: str) -> Unreadable:
    """Return the refusal of a file that would cost more than a file may; `reason` is a sentence."""
    return Unreadable("file_too_complex", f"{reason} Split it into smaller files, or save it again in a simpler form.")


def without_text(reason: str) -> Unreadable:
    """Return the refusal of a file in which there is nothing to search; `reason` is a sentence."""
    return Unreadable("file_without_text", reason)
