"""Names that senders give their files, made safe to show, to store and to offer for download."""

import re
import unicodedata

from service.platform.errors import BadRequest

_LONGEST = 255
# Directional overrides make "exe.pdf" out of "fdp.exe"; control characters and line separators break headers and logs.
# The zero-width joiner stays: emoji are made with it.
_UNSHOWN = re.compile("[\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def clean_file_name(name: str) -> str:
    """Return the last component of a name, in composed Unicode, without characters that hide what it says. Raises
    BadRequest (file_name_invalid) when it holds a NUL, is too long, or nothing of it is left."""
    if "\x00" in name:
        raise _invalid("It holds a NUL character.")
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    cleaned = unicodedata.normalize("NFC", _UNSHOWN.sub("", last)).strip()
    if cleaned.strip(".") == "":
        raise _invalid("It names no file.")
    if len(cleaned) > _LONGEST:
        raise _invalid(f"It is longer than {_LONGEST} characters.")
    return cleaned


def _invalid(reason: str) -> BadRequest:
    return BadRequest(f"The file's name can't be used. {reason} Rename it and send it again.", code="file_name_invalid")
