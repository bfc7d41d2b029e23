"""Decoding bytes to text: byte order marks, UTF-8, and detection of older encodings."""

import codecs
import re
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
# Detection takes milliseconds a kilobyte, so it reads a sample.
_SAMPLE = 32_768
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x08\x1b"))
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
FONT_CODE_PAGES: Mapping[int, str] = {int(number): page for number, page in _TABLE["pages"].items()}
"""The code page of a text by its font's Windows character set number."""
_PLACED, _UNLIKELY = (re.compile(_TABLE[name], re.VERBOSE | re.IGNORECASE) for name in ("placed", "unlikely"))
_USUAL = frozenset(_TABLE["usual"])
_WORDS = re.compile(r"[^\W\d_]*[^\W\d_\0-\x7f][^\W\d_]*")
# Encodings of Central Europe and other scripts, whose letters are as plausible as those of Western Europe.
_OTHERS = ("cp125", "mac_latin2")


def decode(data: bytes) -> str:
    """Return the text in `data`. Raises Unreadable (file_type_mismatch) when it is binary or in no known encoding."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    wide = wide_encoding(data[:_SAMPLE])
    if wide:
        return data.decode(wide, "replace")
    if is_binary(data[:_SAMPLE]):
        raise _not_text()
    try:
        return data.decode()
    except UnicodeDecodeError:
        # The encoding fits the sample. If a later byte doesn't fit, a wrong letter is better than no document.
        return _decode_damaged(data) or data.decode(detect_encoding(data), "replace")


def wide_encoding(sample: bytes) -> str | None:
    """Return the kind of UTF-16 of a sample without a byte order mark, if most of its letters are Latin."""
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


def join_halves(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _decode_damaged(data: bytes) -> str | None:
    """Return UTF-8 text with a few wrong bytes (a cut character, a pasted byte), or None."""
    text = data.decode(errors="replace")
    wrong = text.count("\ufffd")
    right = sum(1 for character in text[: _SAMPLE * 2] if character > "\x7f" and character != "\ufffd")
    return text if wrong * 20 <= right else None


def detect_encoding(data: bytes) -> str:
    """Return the most likely older encoding of `data`. Raises Unreadable when none fits."""
    sample = data[:_SAMPLE]
    best = charset_normalizer.from_bytes(sample).best()
    if best is None:
        raise _not_text()
    # The library takes short Mac texts, and some Windows texts, for texts of Asia or Eastern Europe.
    scores = {each: _score(sample.decode(each, "replace")) for each in ("cp1252", "mac_roman", best.encoding)}
    western = max("cp1252", "mac_roman", key=scores.__getitem__)
    lead = 0.08 if best.encoding.startswith(_OTHERS) else 0
    return western if scores[western] >= scores[best.encoding] + lead else best.encoding


def _score(text: str) -> float:
    """Return the share of characters beyond ASCII in plausible positions."""
    letters = sum(map(_score_word, _WORDS.findall(text)))
    return (len(_PLACED.findall(text)) + letters) / max(sum(each > "\x7f" for each in text), 1)


def _score_word(word: str) -> float:
    """Return the sum of a word's plausible letters beyond ASCII; 0 for a word of mixed case or script."""
    others = [each.lower() for each in word if each > "\x7f"]
    latin = sum(each < "\u0250" for each in word)
    is_cased = word[1:].islower() or word.isupper() or word.islower() or word.lower() == word.upper()
    is_foreign = latin == len(word) and len(others) > 2 and len(others) * 4 > len(word) * 3
    if not is_cased or is_foreign or 0 < latin < len(word):
        return 0
    return sum(1 if each in _USUAL else 0.9 for each in others) - 0.7 * len(_UNLIKELY.findall(word))


def _not_text() -> Unreadable:
    return Unreadable(
        "file_type_mismatch",
        "The file's name promises text, but its content is binary or in an unknown encoding. Save it as UTF-8 text, or "
        "give it the name that matches its real type.",
    )
