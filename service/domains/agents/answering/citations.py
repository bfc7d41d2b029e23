# ruff: noqa: RUF001 - the quotation marks of many languages
"""Check a model's citations: `[[n: "exact words of passage n"]]` becomes `[k]`, or is dropped with a warning."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from service.domains.agents.answering.hidden import remove_hidden
from service.domains.agents.answering.links import LinkFilter, addresses_in
from service.domains.agents.answering.models import Citation, Passage
from service.index.stop_words import QUERY_STOP_WORDS
from service.index.tokenization import fold, split_words

LONGEST_QUOTE = 2000

CITATION_DROPPED = "A citation was removed: its words don't stand in the passage it names."
NUMBER_DROPPED = "A number in brackets was removed: it looked like a citation and quoted nothing."

# A verified citation is its number between these two characters until the text is clean. These characters are removed
# from the model's text, and never compared.
OPEN, CLOSE = "\ue000", "\ue001"
_SENTINELS = re.compile(f"[{OPEN}{CLOSE}\x00]")
_VERIFIED = re.compile(f"{OPEN}(\\d+){CLOSE}")

_QUOTES = "\"“”„«»'‘’「」"
_DOUBLE = dict.fromkeys(map(ord, "“”„‟«»″"), '"')
_SINGLE = dict.fromkeys(map(ord, "‘’‚‛′`´"), "'")
_TYPOGRAPHY = _DOUBLE | _SINGLE
# Removed with the citation; matches only from the beginning of white space, so that long white space costs no more.
_SPACE = r"(?:(?<![ \t])[ \t]++)?"
_NAMED = r"(?:(?i:passage|source|document|doc)\W{0,2}|(?i:n)\s?[=:]?\s?)?"
MARK = re.compile(
    rf"{_SPACE}(?:\[(?P<double>\[)|(?<!\[)\[)\s*{_NAMED}(?P<number>\d{{1,6}})\s*(?:[:：]|(?(double),|:))\s*"
    rf"\\?[{_QUOTES}](?P<words>.{{0,{LONGEST_QUOTE}}}?)\\?[{_QUOTES}]\s*\](?(double)(?:\]|(?![^\[\]]*\]\])))",
    re.DOTALL,
)
_UNNUMBERED = re.compile(
    rf"{_SPACE}\[\[(?:[^\W\d][\w .-]{{0,80}}+:\s*+)?(?P<number>)"
    rf"[{_QUOTES}](?P<words>[^\[\]]{{0,{LONGEST_QUOTE}}})[{_QUOTES}]\]\]"
)
_NEXT = r"\d{0,6}(?:\s*\]\s*\[\s*\d{1,6}){1,20}\s*"
OPENING = re.compile(rf"\[\[(?=\s*{_NAMED}-?\d)")
ODD_MARK = re.compile(rf"{_SPACE}\[\[\s*{_NAMED}-?\d(?:[^\[\]]{{0,200}}|{_NEXT})\]\]")
_HALF_MARK = re.compile(
    rf"{_SPACE}\[\[\s*{_NAMED}\d{{1,6}}\s*(?::\s*(?:[{_QUOTES}](?:(?!\]\]|[\"”] \w).){{0,{LONGEST_QUOTE}}})?)?\]?\Z",
    re.DOTALL,
)
_NUMBER = re.compile(
    rf"{_SPACE}(?:(?<=\n)\[\^\d{{1,3}}\]:|\[\s*(?:\^|{_NAMED})\d{{1,3}}(?:\s*[,;–-]\s*\d{{1,3}})*\s*\]|【\d{{1,3}}(?:[:†][^【】\n]{{0,80}})?】)"
)
_TAIL = LONGEST_QUOTE + 50
"""The farthest from the end, in characters, where an unfinished citation can begin."""

_CLAUSE = 300
_CLAUSE_START = re.compile(rf"\]\]|[{OPEN}{CLOSE}.!?\n]")
_ROUNDS, _FEWEST_WORDS = 8, 3


@dataclass(frozen=True, slots=True)
class Checked:
    """The text to show, citations by `[k]`, warnings, and the words before removed citations (`uncited`)."""

    text: str
    citations: Sequence[Citation]
    warnings: Sequence[str]
    uncited: Sequence[str] = field(default=(), compare=False)


def check(text: str, *, passages: Sequence[Passage], known: Iterable[str] = ()) -> Checked:
    """Remove hidden text, wrong citations, unknown links until none is left. Links in `known` texts may be repeated."""
    known = [*known, *(passage.text for passage in passages)]
    links = LinkFilter(addresses_in(known))
    marks = _Marks(passages)
    text = _SENTINELS.sub("", text)
    for _ in range(_ROUNDS):
        shown = remove_hidden(text, links.warnings, known=known)
        before, text = text, marks.drop_others(links.clean(marks.mark_verified(shown)))
        if text == before:
            break
    else:
        text = links.clean(text.translate(dict.fromkeys(map(ord, "[]<>"), " ")))
    render, citations = _number_citations(text, list(marks.verified))
    return Checked(render, citations, [*sorted(marks.warnings), *sorted(links.warnings)], marks.uncited)


@dataclass(slots=True)
class _Marks:
    """The citations in a text: verified against the passages, or removed with a warning."""

    passages: Sequence[Passage]
    verified: dict[Citation, int] = field(default_factory=dict[Citation, int])
    warnings: set[str] = field(default_factory=set[str])
    uncited: list[str] = field(default_factory=list[str])

    def mark_verified(self, text: str) -> str:
        return _UNNUMBERED.sub(self._mark_or_drop, MARK.sub(self._mark_or_drop, text))

    def drop_others(self, text: str) -> str:
        text = self._drop(ODD_MARK, text, CITATION_DROPPED)
        text = text[:-_TAIL] + self._drop(_HALF_MARK, text[-_TAIL:], CITATION_DROPPED)
        text = self._drop(OPENING, text, CITATION_DROPPED)
        return self._drop(_NUMBER, text, NUMBER_DROPPED)

    def _drop(self, pattern: re.Pattern[str], text: str, warning: str) -> str:
        text, count = pattern.subn("", text)
        if count:
            self.warnings.add(warning)
        return text

    def _mark_or_drop(self, match: re.Match[str]) -> str:
        numbers = [int(match["number"])] if match["number"] else range(1, len(self.passages) + 1)
        found = (self._verify(number, match["words"]) for number in numbers)
        citation = next((each for each in found if each), None)
        if citation is None and not match["number"]:
            return match[0]  # a link of a wiki, perhaps
        if citation is None:
            self.warnings.add(CITATION_DROPPED)
            before = match.string[max(0, match.start() - _CLAUSE) : match.start()]
            self.uncited.append(_CLAUSE_START.split(before)[-1])
            return ""
        number = self.verified.setdefault(citation, len(self.verified))
        before = match[0][: match[0].index("[")]
        return f"{before}{OPEN}{number}{CLOSE}"

    def _verify(self, number: int, words: str) -> Citation | None:
        if not 1 <= number <= len(self.passages):
            return None
        passage = self.passages[number - 1].text
        # A model reads passages as JSON, and may copy the escapes.
        plain = words.replace('\\"', '"').replace("\\n", "\n")
        quote = _find_quote(words, passage) or _find_quote(plain, passage)
        return None if quote is None else Citation(number - 1, quote)


def _number_citations(text: str, verified: Sequence[Citation]) -> tuple[str, list[Citation]]:
    order: dict[int, int] = {}
    for match in _VERIFIED.finditer(text):
        order.setdefault(int(match[1]), len(order) + 1)

    def render(match: re.Match[str]) -> str:
        """Return a citation's number in brackets, with spaces where Markdown would read a link or image."""
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        space_before = " " if before in {"[", "!", "\\"} else ""
        space_after = " " if after in {"(", "["} else ""
        return f"{space_before}[{order[int(match[1])]}]{space_after}"

    return _VERIFIED.sub(render, text).strip(), [verified[number] for number in order]


@lru_cache(maxsize=2**12)  # while a reply is written, each of its quotes is looked for again and again
def _find_quote(quote: str, passage: str) -> str | None:
    """Return a quote with the passage's spelling, ignoring white space and quotation marks; None if missing."""
    wanted, _ = _normalize(quote.strip())
    # A quote of common words such as "The" alone is in any passage.
    words = [word for word in split_words(wanted) if any(map(str.isalnum, word))]
    if not words or (len(words) < _FEWEST_WORDS and all(fold(word) in QUERY_STOP_WORDS for word in words)):
        return None
    normal, places = _normalize(passage)
    wanted = wanted if wanted in normal else wanted.strip(" .…")
    start = normal.find(wanted)
    if start < 0:
        return None
    return passage[places[start] : places[start + len(wanted) - 1] + 1]


@lru_cache(maxsize=256)
def _normalize(text: str) -> tuple[str, Sequence[int]]:
    """Return the text with single spaces and plain quotation marks, and the original position of each character."""
    characters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text.translate(_TYPOGRAPHY)):
        plain = " " if character.isspace() else character
        is_no_text = character in {OPEN, CLOSE} or unicodedata.category(plain) in {"Cc", "Cf"}
        if not is_no_text and not (plain == " " and characters[-1:] in ([], [" "])):
            characters.append(plain)
            places.append(place)
    return "".join(characters), places
