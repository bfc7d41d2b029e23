"""The quotable parts of a passage: whole sentences, table rows and list items, each with headings."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate, chain, takewhile
from pathlib import PurePath

from service.text.chunking import PATH_SEPARATOR
from service.text.sentences import Span, cut_lines, cut_sentences

LONGEST_SEGMENT, LONGEST_LIST = 1200, 2000
"""Characters. The introduction of a list, or a question, is quoted with the following text up to this length, and a
sentence with all text below the same heading; the second is for text with items or rows."""

LONGEST_TABLE = 600
"""Characters of a table quoted with each row. Rows of longer tables are quoted alone."""

LONGEST_HEADING = 160
"""Characters of the passage's first line used as a heading; a path of headings is hardly longer."""
MOST_HEADING_WORDS = 8
MOST_TITLE_WORDS = 14
"""Words of a passage's first line, if prose follows. Such a line is a heading, not a statement."""
MOST_ASKING_WORDS = 24
"""Words of a line that asks, as lists of questions and answers do. The answer ends at the next such line."""
FEWEST_PROSE_WORDS = 3
FEWEST_WORDS = 4
"""The fewest words of a statement. Shorter text is a label, unless a number is included."""

_LEADING = (":", "?")
_MARKS = ("-", "*", "•")
_ITEM = re.compile(r"[-*•]|(\d{1,3})[.)] ")
_CODE = re.compile(r"(?:^|\s)(?:--?[a-z]|[~$.]?/\w)|\w=\S")
"""Options, paths and assignments, which stand in commands and not in headings."""
_ROW_SEPARATOR = " | "
_KEYWORDS = ("Keywords: ", "Tags: ", "Categories: ")
"""Beginnings of keyword lists on pages, written for search and not as sentences."""
# An order to a model, planted in a document ("Ignore all previous instructions"), is no answer; nor is the rest.
_ORDER = re.compile(
    r"(?:\A|[.!?:] )(?:please )?(?:ignore|disregard|forget|override|ignorier|vergiss|ignorez|oublie|ignora|negeer)\w*\b"
    r"[^.!?]{0,40}\b(?:all|any|above|earlier|prior|previous|alle|bisherig|vorherig|pr[eé]c[eé]dent|anterior|vorige|eerdere)"
    r"\w*\b[^.!?]{0,40}\b(?:instru|istruzion|rules?\b|prompt|anweisung|regeln)|(?:\A|[.!?] )(?:system|assistant): ",
    re.IGNORECASE,
)
_BACK = frozenset({"he", "it", "its", "she", "such", "that", "their", "these", "they", "this", "those"})
_TIMES = frozenset({"above", "after", "before", "beyond"})
_ENDS = (".", "!", "?", ":", ";", ",", "…", "。", "！", "？", "۔", "।")  # noqa: RUF001 - the punctuation of many scripts
_CLOSERS = " )]}\"'”’»*_"  # noqa: RUF001 - likewise


@dataclass(frozen=True, slots=True)
class Quotable:
    """Words of a passage (by number), the text above, and the `whole` quoted with the words: the lines between two
    headings, of which so many items and rows are `left_out`, or a list or a table. `at` is where the line begins."""

    number: int
    document: str
    headings: str
    text: str
    section: str = ""
    whole: str = ""
    left_out: int = 0
    at: int = 0

    @property
    def quote(self) -> str:
        return self.whole or self.text

    @property
    def context(self) -> str:
        return f"{self.document}\n{self.headings}"


def segments_of(passage: str, *, document: str = "", number: int = 0) -> list[Quotable]:
    """Return what can be quoted of a passage, in reading order, without lines that repeat the document's name."""
    lines = [text for span in cut_lines(passage) if (text := span.text.strip()) and not text.startswith(_KEYWORDS)]
    orders = [_ORDER.search(line) is not None for line in lines]
    sentences = [list(takewhile(lambda item: not _ORDER.search(item.text), _cut_line(line))) for line in lines]
    names = {_plain(document), _plain(PurePath(document).stem)} - {""}
    headings = [is_heading(lines, place) for place in range(len(lines))]
    heads = [is_heading or _is_title(line, names) for line, is_heading in zip(lines, headings, strict=True)]
    asks = [line.endswith("?") and len(line.split()) <= MOST_ASKING_WORDS and not _ITEM.match(line) for line in lines]
    ends = [*map(any, zip(headings, asks, orders, strict=True))]
    bounds = [*map(any, zip(heads, orders, strict=True))]
    plain = _plain(passage)
    above, section = [lines[0][:LONGEST_HEADING]] if lines else [], ""
    segments: list[Quotable] = []
    announced, lead, at = "", "", 0
    for place, line in enumerate(lines):
        at = max(passage.find(line, at), at)
        if heads[place] and not _is_title(line, names):
            above, section = [*above[:1], line], line
        if heads[place] or not sentences[place] or (segments and _is_bare(line)):
            continue
        texts = list(_join_related(sentences[place], sentences[place + 1 : _end_of_announced(lines, ends, place)]))
        under_headings = "\n".join(dict.fromkeys(above))
        if not _ITEM.match(line):
            announced, lead = ("", "") if not line.endswith(_LEADING) else (texts[-1], sentences[place][-1].text)
        table = _table_around(lines, place) if _is_row(line) else ""
        whole = announced if not table else table if len(table) <= LONGEST_TABLE else ""
        around, left_out = _lines_around(lines, place, bounds, asks) if not orders[place] else ("", 0)
        around = around if _plain(around) in plain else ""  # a keyword line may be missing in the passage
        for text in filter(_is_quotable, texts):
            is_within = text != whole and text in whole and _is_quotable(whole)
            under = section if is_within or not lead or text in announced else lead[:LONGEST_HEADING]
            quoted = (section, around, left_out) if around else (under, whole if is_within else "", 0)
            segments.append(Quotable(number, document, under_headings, text, *quoted, at))
    return segments


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())


def _is_title(line: str, names: AbstractSet[str]) -> bool:
    plain = _plain(line)
    return plain in names or plain.partition(": ")[2] in names


def is_heading(lines: Sequence[str], place: int) -> bool:
    """Return whether a line with a line below it is a heading: too short and bare for a statement, or a path."""
    line, is_first, is_last = lines[place], place == 0, place + 1 == len(lines)
    if is_first and not is_last and PATH_SEPARATOR in line and not line.startswith(_MARKS):
        return True
    is_other = _CODE.search(line) or _is_unspaced(line) or _is_row(line)
    if is_last or is_other or line.endswith(_ENDS) or line.startswith(_MARKS):
        return False
    words, has_digits = len(line.split()), any(map(str.isdigit, line))
    if line.isupper() and not has_digits:
        return words <= MOST_TITLE_WORDS
    if ":" in line:
        return False
    if has_digits or words > MOST_HEADING_WORDS:
        most = MOST_TITLE_WORDS if is_first else MOST_HEADING_WORDS
        return words <= most and line[:1].isupper() and _is_prose(lines[place + 1])
    return True


def _lines_around(lines: Sequence[str], number: int, heads: Sequence[bool], asks: Sequence[bool]) -> tuple[str, int]:
    """Return the lines between the two headings around a line, or from a line that asks to the next, and how many items
    and rows are cut off the end; "" if "]]" is in them. Long sections begin at the introducing line."""
    before = next((place for place in range(number, -1, -1) if heads[place] or asks[place]), -1)
    first = before if before >= 0 and asks[before] else before + 1
    end = next((place for place in range(number + 1, len(lines)) if heads[place] or asks[place]), len(lines))
    longest = LONGEST_LIST if any(map(_is_item_or_row, lines[first:end])) else LONGEST_SEGMENT
    if sum(map(len, lines[first:end])) + end - first > longest:
        first = next((place for place in range(number, first, -1) if not _ITEM.match(lines[place])), first)
    ends = accumulate(len(line) + 1 for line in lines[first:end])
    last = first + sum(end <= longest for end in ends)
    while last < end and last > number + 1 and lines[last - 1].endswith(":"):
        last -= 1
    around = "\n".join(lines[first:last])
    return ("", 0) if last <= number or "]]" in around else (around, sum(map(_is_item_or_row, lines[last:end])))


def _is_item_or_row(line: str) -> bool:
    return _ITEM.match(line) is not None or _is_row(line)


def _is_bare(line: str) -> bool:
    is_text = line.endswith(_ENDS) or _ITEM.match(line) or _is_row(line) or _is_unspaced(line)
    return not is_text and len(line.split()) <= MOST_HEADING_WORDS and not any(map(str.isdigit, line))


def _end_of_announced(lines: Sequence[str], ends: Sequence[bool], number: int) -> int:
    """Return the number of the line behind an introduced list, table or set of answers."""
    announces, has_items, last = lines[number].endswith(":"), False, min(len(lines), number + LONGEST_SEGMENT)
    for place in range(number + 1, last):
        is_item = _is_item_or_row(lines[place])
        if ends[place] or (announces and not is_item and (has_items or place > number + 1)):
            return place
        has_items = has_items or is_item
    return last


def _is_prose(line: str) -> bool:
    return line.rstrip(_CLOSERS).endswith((".", "!", "?", ":")) and len(line.split()) >= FEWEST_PROSE_WORDS


def _is_row(line: str) -> bool:
    """Return whether a line is a table row with column names; points in a row end no sentence."""
    return _ROW_SEPARATOR in line


def _table_around(lines: Sequence[str], number: int) -> str:
    first = last = number
    while first and _is_row(lines[first - 1]) and number - first < LONGEST_SEGMENT:
        first -= 1
    while last + 1 < len(lines) and _is_row(lines[last + 1]) and last - number < LONGEST_SEGMENT:
        last += 1
    return "\n".join(lines[first : last + 1])


def _cut_line(line: str) -> list[Span]:
    """Cut a line into sentences. Fragments too short to stand alone ("Six months.", "Dr.") join the next sentence."""
    if _is_row(line):
        return [Span("", line)]
    joined: list[Span] = []
    for span in cut_sentences(line):
        is_label = joined and _is_label(joined[-1].text) and not joined[-1].text.endswith(_LEADING)
        if is_label and len(joined[-1].text) + len(span.text) < LONGEST_SEGMENT:
            joined[-1] = Span(joined[-1].gap, joined[-1].text + span.gap + span.text)
        else:
            joined.append(span)
    return joined


def _join_related(sentences: Sequence[Span], below: Sequence[Sequence[Span]]) -> Iterator[str]:
    """Yield each sentence, after the sentence it points back to, and before the text it introduces, if any."""
    for place, sentence in enumerate(sentences):
        before, text = sentences[place - 1] if place else None, sentence.text
        if before and _points_back(text) and len(before.text) + len(text) < LONGEST_SEGMENT:
            text = before.text + sentence.gap + text
        if sentence.text.endswith(_LEADING):
            yield _add_introduced(text, sentences[place + 1 :], below)
        else:
            yield text


def _points_back(sentence: str) -> bool:
    first, _, rest = sentence.casefold().partition(" ")
    return first in _BACK or (first in _TIMES and rest.startswith(("that", "this")))


def _add_introduced(lead: str, rest: Sequence[Span], below: Sequence[Sequence[Span]]) -> str:
    text = lead
    lines = ("\n" + "".join(span.gap + span.text for span in line) for line in below)
    for more in chain((span.gap + span.text for span in rest), lines):
        if len(text) + len(more) > LONGEST_SEGMENT:
            break
        text += more
    return text


def _is_quotable(text: str) -> bool:
    """Return whether a text is worth quoting and short enough. The brackets of citations can't be quoted."""
    if len(text) > LONGEST_SEGMENT or text.rstrip(_CLOSERS).endswith(_LEADING) or "]]" in text:
        return False
    return not _is_label(text)


def _is_label(text: str) -> bool:
    is_short = len(text.split()) < FEWEST_WORDS and not any(map(str.isdigit, text)) and not _is_unspaced(text)
    return is_short or _ITEM.fullmatch(f"{text} ") is not None


def _is_unspaced(text: str) -> bool:
    return not text.isascii() and " " not in text and len(text) >= MOST_HEADING_WORDS
