"""Alternatives that a question names ("from 2024 or 2025", "finance documents and legal ones").

A search's conditions must all be met, so one of several alternatives would exclude what fits another.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from service.domains.search.understanding.folding import Words
from service.domains.search.understanding.moments import POINT

DOCUMENTS = (
    r"(?:documents?|files?|papers?|pages?|records?|reports?|policy|policies|minutes|letters?|e mails?|e?mails?"
    r"|contracts?|notes?|articles?|guides?|manuals?|handbooks?|presentations?|slides|spreadsheets?|memos?|invoices?"
    r"|entry|entries|posts?|projects?|anything|everything|something|those|these|ones)"
)
"""Pattern of a word for documents."""

_JOINING = r"(?:or|and|as well as|plus|versus|vs)"
# What follows: "or …", another number or time ("2024-2026", whose mark is no word), or the next item of a list.
_AFTER = re.compile(
    rf"(?: {DOCUMENTS})?(?: ,)? {_JOINING} |(?<=\d)(?: ,| to| through| till)? (?:\d|{POINT} )"
    r"| , (?:[^\s,.?!;:]+ ){1,3}?(?:,|and|or) "
)
_BEFORE = re.compile(rf" {_JOINING} (?:the |all |any )?$")
_OTHER_DOCUMENTS = re.compile(rf" {_JOINING} (?:the |all |any )?(?:\w+ )?{DOCUMENTS}(?= )")
_REACH = 30
"""Characters before a condition in which words that join it to another must begin."""


def has_alternatives(words: Words, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether one of these parts of the line, in their order, is joined to another thing that is asked for."""
    line = words.line
    for first, end in spans:
        start = first + (line[first] == " ")
        beside = words.beside(start, end)
        if re.search(r"[/&+|\\]", beside) or (line[end - 1].isdigit() and re.search("[-\u2010-\u2015]", beside)):
            return True
        if _AFTER.match(line, end) or _BEFORE.search(line, max(0, start - _REACH), start):
            return True
    others = (match.start() for match in _OTHER_DOCUMENTS.finditer(line))
    if spans and any(not any(start <= at < end for start, end in spans) for at in others):
        return True
    between = (line[first[1] : second[0] + 1] for first, second in pairwise(spans))
    return any(re.search(r" or (?!.* [.?!;] )", part) for part in between)
