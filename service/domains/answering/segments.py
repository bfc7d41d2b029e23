"""What of a passage can be quoted: whole sentences, table rows and list items, each with what it stands under."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from service.text.sentences import Span, cut_lines, cut_sentences

LONGEST_SEGMENT = 600
"""Characters. What announces a list, or asks, is quoted with as much of what follows as this leaves room for."""

LONGEST_HEADING = 120
MOST_HEADING_WORDS = 8
FEWEST_WORDS = 4
"""Fewer words than this are a label, unless there is a number among them."""

_LEADING = (":", "?")
_ENDS = (".", "!", "?", ":", ";", ",", "…", "。", "！", "？", "۔", "।")  # noqa: RUF001 - the punctuation of many scripts
_CLOSERS = " )]}\"'”’»*_"  # noqa: RUF001 - likewise


@dataclass(frozen=True, slots=True)
class Segment:
    """Words of a passage, exactly as they stand there but for white space, and the headings above them.

    `headings` are its first line and the nearest heading; `section` is that heading, empty when there is none.
    """

    text: str
    headings: str
    section: str = ""


def segments_of(passage: str) -> list[Segment]:
    """Return what can be quoted of a passage, in reading order."""
    lines = [span.text.strip() for span in cut_lines(passage) if span.text.strip()]
    sentences = [list(cut_sentences(line)) for line in lines]
    above, section = [lines[0][:LONGEST_HEADING]] if lines else [], ""
    segments: list[Segment] = []
    for number, line in enumerate(lines):
        if number + 1 < len(lines) and _is_heading(line):
            above, section = [*above[:1], line], line
            continue
        texts = _texts(sentences[number], sentences[number + 1 :])
        headings = "\n".join(dict.fromkeys(above))
        segments += [Segment(text, headings, section) for text in texts if _is_quotable(text)]
    return segments


def _is_heading(line: str) -> bool:
    """Return whether a line with others below it is too short and bare for a statement."""
    bare = not line.endswith(_ENDS) and not line.startswith(("-", "*", "•")) and ":" not in line
    return (
        bare and len(line.split()) <= MOST_HEADING_WORDS and not any(map(str.isdigit, line)) and not _is_unspaced(line)
    )


def _texts(sentences: Sequence[Span], below: Sequence[Sequence[Span]]) -> Iterator[str]:
    """Return a line's sentences, those that lead to something with what is below them."""
    for place, sentence in enumerate(sentences):
        if sentence.text.endswith(_LEADING):
            yield _with_what_follows(sentence.text, sentences[place + 1 :], below)
        else:
            yield sentence.text


def _with_what_follows(lead: str, rest: Sequence[Span], below: Sequence[Sequence[Span]]) -> str:
    """Return a lead-in with the whole sentences and lines after it that still fit."""
    text = lead
    lines = ("\n" + "".join(span.gap + span.text for span in line) for line in below)
    for more in chain((span.gap + span.text for span in rest), lines):
        if len(text) + len(more) > LONGEST_SEGMENT:
            break
        text += more
    return text


def _is_quotable(text: str) -> bool:
    """Return whether a text is worth quoting, and short enough; a citation's own brackets can't be quoted."""
    if len(text) > LONGEST_SEGMENT or text.rstrip(_CLOSERS).endswith(_LEADING) or "]]" in text:
        return False
    return len(text.split()) >= FEWEST_WORDS or any(map(str.isdigit, text)) or _is_unspaced(text)


def _is_unspaced(text: str) -> bool:
    """Return whether a text is of a script that puts no spaces between words."""
    return not text.isascii() and " " not in text and len(text) >= MOST_HEADING_WORDS
