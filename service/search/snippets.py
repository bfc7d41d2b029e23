"""The passage of a text that shows best why it was found, and where in it the words of the query stand."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from service.indexing.terms import WORD, term_of

SNIPPET_LENGTH = 320
"""At most so many characters, so that a result is read at a glance."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text; `matches` are (start, end) within it, in characters, in order and apart."""

    text: str
    matches: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    end: int
    term: int


def matches_in(text: str, terms: Collection[int], *, language: str) -> list[tuple[int, int, int]]:
    """Return (start, end, term) of every word of a text that is one of these terms, in order."""
    found = ((match.start(), match.end(), term_of(match[0], language)) for match in WORD.finditer(text))
    return [word for word in found if word[2] in terms]


def snippet_of(text: str, terms: Collection[int], *, language: str, length: int = SNIPPET_LENGTH) -> Passage:
    """Return the passage with the most different terms of the query, and the beginning of the text when it has none.

    Among equals, the one with more matches, then the earlier one. It begins and ends between words.
    """
    words = [_Word(*match) for match in matches_in(text, terms, language=language)]
    start, end = _window(text, _densest(words, length), length)
    inside = tuple((word.start - start, word.end - start) for word in words if start <= word.start and word.end <= end)
    return Passage(text[start:end], inside)


def _densest(words: list[_Word], length: int) -> list[_Word]:
    """Return the run of matches within `length` characters that says most."""
    best: list[_Word] = []
    worth = (0, 0)
    first = 0
    for last in range(len(words)):
        while words[last].end - words[first].start > length and first < last:
            first += 1
        run = words[first : last + 1]
        value = (len({word.term for word in run}), len(run))
        if value > worth:
            best, worth = run, value
    return best


def _window(text: str, run: list[_Word], length: int) -> tuple[int, int]:
    """Return where to cut: around the run, at spaces, on whole sentences' side when there is room before it."""
    if len(text) <= length:
        return 0, len(text)
    spare = length - (run[-1].end - run[0].start) if run else 0
    start = max(0, min(run[0].start - spare // 3, len(text) - length)) if run else 0
    end = min(start + length, len(text))
    return _after_space(text, start, run[0].start if run else 0), _before_space(text, end, run[-1].end if run else 0)


def _after_space(text: str, start: int, latest: int) -> int:
    if start == 0 or text[start - 1].isspace():
        return start
    return next((at + 1 for at in range(start, latest) if text[at].isspace()), start)


def _before_space(text: str, end: int, earliest: int) -> int:
    if end == len(text) or text[end].isspace():
        return end
    return next((at for at in range(end - 1, earliest, -1) if text[at].isspace()), end)


def merge_texts(texts: dict[int, str]) -> str:
    """Join a document's chunks, by number, in reading order: neighbours as paragraphs, others with a gap shown."""
    numbers = sorted(texts)
    gaps = ["", *("\n\n" if after == before + 1 else "\n\n…\n\n" for before, after in pairwise(numbers))]
    return "".join(gap + texts[number] for gap, number in zip(gaps, numbers, strict=True))
