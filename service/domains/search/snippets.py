"""The passage that best shows why a text was found, and the positions of the query's words in it."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.index.terms import Match, find_matches

SNIPPET_LENGTH = 320  # characters at most, so that a result is read at a glance

_SENTENCE_END = "[.!?…][\"'”\u2019)\\]]*"
_BEFORE_SENTENCES = re.compile(rf"{_SENTENCE_END}\s+|\n\s*")
_SENTENCE_ENDS = re.compile(rf"{_SENTENCE_END}(?=\s)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text; `matches` are ordered, separate (start, end) pairs in characters of the stretch."""

    text: str
    matches: tuple[tuple[int, int], ...]


def _merge_matches(words: Sequence[Match]) -> list[tuple[int, int]]:
    """Return the positions of matches in order; touching matches, such as bigrams, are merged."""
    merged = list[tuple[int, int]]()
    for word in words:
        touches = merged and word.start <= merged[-1][1]
        start, end = merged.pop() if touches else (word.start, word.end)
        merged.append((start, max(end, word.end)))
    return merged


def snippet_of(text: str, terms: Collection[int], *, stemmings: Sequence[str], length: int = SNIPPET_LENGTH) -> Passage:
    """Return the passage with most different terms, then matches, then the earliest; without terms, the beginning."""
    words = find_matches(text, frozenset(terms), tuple(stemmings))
    start, end = _choose_bounds(text, _find_densest(words, length), length)
    inside = [word for word in words if start <= word.start and word.end <= end]
    return Passage(text[start:end], tuple((first - start, last - start) for first, last in _merge_matches(inside)))


def _find_densest(words: Sequence[Match], length: int) -> Sequence[Match]:
    best: Sequence[Match] = ()
    worth = (0, 0)
    first = 0
    for last in range(len(words)):
        while words[last].end - words[first].start > length and first < last:
            first += 1
        run = words[first : last + 1]
        value = (len({word.terms[0] for word in run}), len(run))
        if value > worth:
            best, worth = run, value
    return best


def _choose_bounds(text: str, run: Sequence[Match], length: int) -> tuple[int, int]:
    if len(text) <= length:
        return 0, len(text)
    first, last = (run[0].start, run[-1].end) if run else (0, 0)
    spare = length - (last - first)
    start = _move_to_sentence(
        text, max(0, min(first - spare // 3, len(text) - length)), earliest=max(0, last - length), latest=first
    )
    end = min(start + length, len(text))
    return start, _end_with_sentence(text, end, earliest=max(last, start + length // 2))


def _move_to_sentence(text: str, start: int, *, earliest: int, latest: int) -> int:
    if start == 0:
        return 0
    after = _BEFORE_SENTENCES.search(text, start - 1, latest)
    if after:
        return after.end()
    before = [0] if earliest == 0 else []
    before += [match.end() for match in _BEFORE_SENTENCES.finditer(text, earliest, start)]
    if before:
        return before[-1]
    if text[start - 1].isspace():
        return start
    return next((at + 1 for at in range(start, latest) if text[at].isspace()), start)


def _end_with_sentence(text: str, end: int, *, earliest: int) -> int:
    if end == len(text):
        return end
    # Includes the next character: a space there distinguishes the end of a sentence from a decimal point.
    ends = [match.end() for match in _SENTENCE_ENDS.finditer(text, earliest, end + 1)]
    if ends:
        return ends[-1]
    if text[end].isspace():
        return end
    return next((at for at in range(end - 1, earliest, -1) if text[at].isspace()), end)


def merge_texts(texts: dict[int, str]) -> str:
    """Join a document's chunks, by number, in reading order: neighbours as paragraphs, others with a visible gap."""
    numbers = sorted(texts)
    gaps = ["", *("\n\n" if after == before + 1 else "\n\n…\n\n" for before, after in pairwise(numbers))]
    return "".join(gap + texts[number] for gap, number in zip(gaps, numbers, strict=True))
