# ruff: noqa: RUF001 - the punctuation of many scripts
"""Cut text into spans in any language, losing only white space. Each function takes linear time."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_ENDS = ".!?…؟۔।॥"
_WIDE_ENDS = "。！？｡"
_CLOSERS = r"\"'”’»)\]）」』】"
_SMALL = "a-zß-öø-ÿа-я"

# A sentence's end, its closing quote or bracket, then a space and no small letter. East Asian ends need no space.
_SENTENCE_GAP = re.compile(
    rf"(?:(?<=[{_ENDS}])|(?<=[{_ENDS}][{_CLOSERS}]))\s++(?![{_SMALL}])"
    rf"|(?:(?<=[{_WIDE_ENDS}])|(?<=[{_WIDE_ENDS}][{_CLOSERS}]))\s*+(?![{_WIDE_ENDS}{_CLOSERS}])"
)
_LINE_GAP = re.compile(r"[^\S\n]*+\n(?:[^\S\n]*+\n)*+")
_LONGEST_GAP = 4


class Span(NamedTuple):
    """A part of a text, and the white space before it (shortened if long)."""

    gap: str
    text: str


def cut_sentences(text: str) -> Iterator[Span]:
    """Cut a text after its sentences; when in doubt (an abbreviation before a capital letter), cut."""
    return _cut(text.strip(), _SENTENCE_GAP, "")


def cut_lines(text: str, *, gap: str = "") -> Iterator[Span]:
    """Cut a text at line breaks, keeping the indentation; `gap` is the white space before the first span."""
    return _cut(text.rstrip(), _LINE_GAP, gap)


def cut_windows(span: Span, length: int) -> Iterator[Span]:
    """Cut a span into parts of at most `length` characters, at white space if a part has any in its second half."""
    if len(span.text) <= length:
        yield span
        return
    gap, text, start = span.gap, span.text, 0
    while len(text) - start > length:
        end = start + length
        space = next((place for place in range(end, start + length // 2, -1) if text[place].isspace()), end)
        yield Span(gap, text[start:space].strip())
        gap = " " if text[space].isspace() else ""
        start = space
    yield Span(gap, text[start:].strip())


def _cut(text: str, gaps: re.Pattern[str], gap: str) -> Iterator[Span]:
    start = 0
    for match in gaps.finditer(text):
        if match.end() == len(text):
            break
        if match.start() > start:
            yield Span(gap, text[start : match.start()])
            gap = match.group()[-_LONGEST_GAP:]
        start = match.end()
    yield Span(gap, text[start:])
