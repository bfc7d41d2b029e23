"""Decoding bytes to text: byte order marks, UTF-8, and detection of older encodings."""

import codecs
import tomllib
from collections.abc import Mapping
from pathlib import Path

import charset_normalizer

from service.text.extraction.failures import Unreadable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Detection reads a sample: it costs milliseconds a kilobyte.
_SAMPLE = 32_768
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x08\x1b"))
_PAGES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
FONT_CODE_PAGES: Mapping[int, str] = {int(number): page for number, page in _PAGES.items()}
"""The code page of a text in a font, by the number of the set of characters that Windows gives the font."""


def decode(data: bytes) -> str:
    """Return the text in `data`; Unreadable (file_type_mismatch) when it is binary or in no known encoding."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strictly(data, encoding)
    wide = wide_encoding(data[:_SAMPLE])
    if wide:
        return _strictly(data, wide)
    if is_binary(data[:_SAMPLE]):
        raise _not_text()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _decode_damaged(data) or _strictly(data, detect_encoding(data))


def wide_encoding(sample: bytes) -> str | None:
    """Return the kind of UTF-16 that a sample without a byte order mark is in, when most of its letters are Latin."""
    halves = {"utf-16-be": sample[::2], "utf-16-le": sample[1::2]}
    nuls = {encoding: half.count(0) for encoding, half in halves.items()}
    for encoding, other in (("utf-16-be", "utf-16-le"), ("utf-16-le", "utf-16-be")):
        text = halves[other].replace(b"\x00", b"")
        if nuls[encoding] * 2 > len(sample) // 2 > 3 and nuls[other] * 50 <= len(sample) and not is_binary(text):
            return encoding
    return None


def is_binary(sample: bytes) -> bool:
    """Return whether a sample without a byte order mark can't be text: a NUL, or many control characters."""
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return b"\x00" in sample or controls > len(sample) // 50


def _decode_damaged(data: bytes) -> str | None:
    """Return UTF-8 text in which a few bytes are wrong (a cut character, a pasted one), or None."""
    text = data.decode(errors="replace")
    wrong = text.count("\ufffd")
    right = sum(1 for character in text[: _SAMPLE * 2] if character > "\x7f" and character != "\ufffd")
    return text if wrong * 20 <= right else None


def detect_encoding(data: bytes) -> str:
    """Return the older encoding that the text in `data` is most likely in; Unreadable when none fits."""
    best = charset_normalizer.from_bytes(data[:_SAMPLE]).best()
    if best is None:
        raise _not_text()
    return best.encoding


def _strictly(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        # The sample fitted and one later byte does not: one wrong letter is better than no document.
        return data.decode(encoding, errors="replace")


def _not_text() -> Unreadable:
    return Unreadable(
        "file_type_mismatch",
        "The file's name promises text, but it holds binary data or text in an encoding that can't be told. "
        "Save it as UTF-8 text, or give it the name that belongs to its real type.",
    )
