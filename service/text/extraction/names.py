"""Names and headers as bytes in an undeclared encoding, and encoded words of mails (RFC 2047)."""

import re
import tomllib
from base64 import b64decode
from binascii import Error
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from quopri import decodestring
from unicodedata import category, name

from service.text.extraction.decoding import decode
from service.text.extraction.failures import Unreadable

# Frequent characters: decoding with a wrong East Asian encoding gives rare ones.
_COMMON = frozenset(Path(__file__).with_name("frequent_characters.txt").read_text(encoding="utf-8"))
_MARKS = frozenset({"Pd", "Ps", "Pe", "Pi", "Pf"})
_FREQUENT = frozenset("оеаинтсрвлкмдпуяыьгзбчйхжшюіäöüßéèàçñáíóúåæøêâîôëïűőğşıćčďěłńňřśšťůýžźżąęășțâãõ")
_CANDIDATES, _WIDER = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).values()
_OF_WEST = frozenset({"us-ascii", "ascii", "utf-8", "utf8"})
_LEAST, _SAMPLE = 0.3, 16_384
# Code page 437 is the usual one: Western words have letters of one case, and signs stand beside words, not inside.
_LOWER, _UPPER, _LETTER, _OTHER = "a-zçüéâäàåêëèïîìæôöòûùáíóúñß", "A-ZÇÄÅÉÆÖÜÑ", r"[^\W\d_]", r"[^\0-\x7f]"
_PLAIN = re.compile(
    rf"(?!.*{_OTHER}[@[\\\]^`{{|}}~])(?:[\0-\x7f]|(?!{_LETTER}[{_UPPER}])[{_LOWER}]|(?<![{_LOWER}])[{_UPPER}]"
    rf"|(?<!{_LETTER}|{_OTHER})(?:[½¼](?!{_OTHER})|[«¿¡](?={_LETTER})|[£¥°±÷µ](?!{_LETTER}{{2}}|{_OTHER}))"
    rf"|(?<=[\dm])²(?!{_LETTER})|»(?!{_LETTER}|{_OTHER}))*+",  # possessive, so that nothing is tried again
    re.DOTALL,
)
_SIGNS = re.compile("[½¼«»¿¡£¥°±÷²µ]")
# Includes the vowel marks of some scripts.
_LETTERS = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0e31-\u0e4e])+")
_USUAL = {"GREEK": 0.9, "ARABIC": 0.9, "HEBREW": 0.85, "THAI": 0.7}
_WORD = re.compile(r"=\?([^?\s*]+)(?:\*[\w-]*)?\?([bBqQ])\?([^?]*)\?=")
_WORDS = re.compile(rf"{_WORD.pattern}(?:\s*{_WORD.pattern})*")


def decode_names(names: Sequence[bytes]) -> list[str]:
    """Decode names written by a single program as UTF-8, or in the older encoding with the most plausible words."""
    older = b"/".join(dict.fromkeys(each for each in names if not _is_utf_8(each)))
    sample = older if len(older) <= _SAMPLE else older[:_SAMPLE].rpartition(b"/")[0] or older[:_SAMPLE]
    best = _choose_encoding(sample) if older else "utf-8"
    return [each.decode("utf-8" if _is_utf_8(each) else best, "replace") for each in names]


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=16)
def _choose_encoding(data: bytes) -> str:
    scores = {encoding: _score(data, encoding) for encoding in _CANDIDATES}
    best = max(_CANDIDATES, key=scores.__getitem__)
    text = data.decode("cp437")
    if _PLAIN.fullmatch(text):
        count = sum(character > "\x7f" for character in text)
        if count < 4 or scores[best] < scores["cp437"] + len(_SIGNS.findall(text)) / count + 0.3:
            return "cp437"
    return best if scores[best] >= _LEAST else "cp437"


def _score(data: bytes, encoding: str) -> float:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return 0
    others = [character for character in text if character > "\x7f"]
    marks = {character for character in set(others) if character in "№€°・、。" or category(character) in _MARKS}
    signs = 0.5 * sum(character in marks for character in others)
    return (signs + sum(map(_score_word, _LETTERS.findall(text)))) / max(len(others), 1)


@lru_cache(maxsize=1024)
def _score_word(word: str) -> float:
    """Return the sum over a word's characters beyond ASCII, each from 0 to 1."""
    scripts = {name(character, "?").split()[0] for character in word}
    others = [character for character in word if character > "\x7f"]
    if scripts & {"CJK", "HIRAGANA", "KATAKANA", "HANGUL"}:
        factor = 0.3 if "HANGUL" in scripts and len(scripts) > 1 else 1
        return factor * sum(map(_score_wide, others))
    # A word has one script; capitals are only first or everywhere; Latin words have common letters.
    is_odd = word.lower() != word.upper() and not (word[1:].islower() or word.isupper() or word.islower())
    is_odd |= len(scripts) > 1 or (scripts == {"LATIN"} and len(others) > 2 and len(others) * 4 > len(word) * 3)
    weight = 0.1 if is_odd else 0.8 if len(word) > 1 and word.isupper() else 1
    usual = _USUAL.get(min(scripts), 0.6)
    return weight * sum(1 if character.lower() in _FREQUENT else usual for character in others)


def _score_wide(character: str) -> float:
    if "\u3041" <= character <= "\u30ff":
        return 1
    is_han, is_hangul = "\u4e00" <= character <= "\u9fff", "\uac00" <= character <= "\ud7a3"
    return 1 if character in _COMMON else 0.5 if is_hangul else 0.35 if is_han else 0


def decode_as(data: bytes, charset: str) -> str:
    """Decode text in a declared encoding, or the wider encoding meant by programs; otherwise in a likely encoding."""
    try:
        return data.decode(_WIDER.get(charset.lower(), charset))
    except (LookupError, ValueError):
        return decode_names([data])[0]


def decode_body(data: bytes, charset: str) -> str:
    """Decode text in its declared encoding or UTF-8, marking damaged characters; otherwise guess as for a file."""
    declared = _WIDER.get(charset.lower(), charset)
    if charset and b"\0" not in data:
        for encoding, errors, most in ((declared, "strict", 1), ("utf-8", "replace", 0.5), (declared, "replace", 0.05)):
            with suppress(LookupError, ValueError):
                text = data.decode(encoding, errors)
                if text.count("\ufffd") <= most * sum(character > "\x7f" for character in text):
                    return text
        if charset.lower() in _OF_WEST and sum(byte > 127 for byte in data) * 4 < len(data):
            return data.decode("cp1252", "replace")
    with suppress(Unreadable):
        return decode(data)
    return data.decode(errors="replace")


def decode_header(text: str) -> str:
    """Return a header's text: encoded words decoded and joined, and undeclared encodings guessed."""
    text = _WORDS.sub(lambda run: _decode_words(run[0]), text)
    if not any("\udc80" <= character <= "\udcff" for character in text):
        return text
    return decode_names([text.encode(errors="surrogateescape")])[0]


def _decode_words(run: str) -> str:
    words = [(charset.lower(), _decode_word(how, coded)) for charset, how, coded in _WORD.findall(run)]
    return "".join(
        decode_as(b"".join(data for _, data in joined), charset)
        for charset, joined in groupby(words, key=lambda word: word[0])
    )


def _decode_word(how: str, coded: str) -> bytes:
    data = coded.encode(errors="surrogateescape")
    if how in "qQ":
        return decodestring(data, header=True)
    try:
        data = data[: len(data) - (len(data) % 4 == 1)]
        return b64decode(data + b"=" * (-len(data) % 4))
    except Error:
        return data
