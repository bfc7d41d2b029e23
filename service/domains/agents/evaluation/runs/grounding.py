"""Measure by fixed rules how far cited passages support a reply. A supported sentence has all its numbers and two
thirds of its other words in its passages, which are each cited passage for a sentence without a citation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.index.stemming import ENGLISH, stemming_of
from service.index.stop_words import QUERY_STOP_WORDS
from service.index.terms import count_terms, term_of
from service.index.tokenization import fold, split_words
from service.text.languages import tell_language
from service.text.sentences import cut_lines, cut_sentences

ENOUGH = 2 / 3
"""The share of a sentence's words that its passages must have."""
FEWEST_WORDS = 2

# Bounded, so that the time they take is linear in a text of nothing but points or spaces.
_CITATION = re.compile(r"\s{0,4}\[(\d{1,4})\]")
_ENDS = ".!?…。！？"  # noqa: RUF001 - the punctuation of many scripts
_CITED_AFTER_END = re.compile(rf"(?<![{_ENDS}])([{_ENDS}]{{1,8}})((?:\s{{0,4}}\[\d{{1,4}}\])+)")
_SPACES = re.compile(r"[^\S\n]+")
_MARKS = re.compile(r"\A(?:\s|>|[-*+•] |\d+[.)] )+")
_NUMBER = re.compile(r"\d+")
_NO_STATEMENT = (":", "?", "？")  # noqa: RUF001 - likewise


@dataclass(frozen=True, slots=True)
class _Words:
    numbers: frozenset[str]
    terms: frozenset[int]

    def has(self, other: "_Words") -> bool:
        return other.numbers <= self.numbers and len(other.terms & self.terms) >= ENOUGH * len(other.terms)


def measure_groundedness(reply: str, passages: Mapping[int, str]) -> float | None:
    """Return the supported share (0 to 1) of a reply's sentences; None without citations or statements. `passages` are
    the cited texts by citation number."""
    if not passages:
        return None
    stemming = stemming_of(tell_language(list(passages.values())), default=ENGLISH)
    known = {
        number: _Words(frozenset(_NUMBER.findall(text)), frozenset(count_terms(text, stemming)))
        for number, text in passages.items()
    }
    supported = [_is_supported(said, cited, known) for said, cited in _statements(reply, stemming)]
    return sum(supported) / len(supported) if supported else None


def _is_supported(said: _Words, cited: Sequence[int], known: Mapping[int, _Words]) -> bool:
    of_it = [known[number] for number in cited if number in known]
    if not of_it:
        return any(one.has(said) for one in known.values())
    together = _Words(
        frozenset[str]().union(*(one.numbers for one in of_it)), frozenset[int]().union(*(one.terms for one in of_it))
    )
    return together.has(said)


def _statements(reply: str, stemming: str) -> Iterator[tuple[_Words, list[int]]]:
    for line in cut_lines(_CITED_AFTER_END.sub(r"\2\1", _SPACES.sub(" ", reply))):
        text = _MARKS.sub("", line.text)
        if text.startswith("#"):
            continue
        for sentence in cut_sentences(text):
            bare = _CITATION.sub("", sentence.text).strip(" *_")
            words = [word for word in split_words(bare) if fold(word) not in QUERY_STOP_WORDS]
            terms = frozenset(term_of(word, stemming) for word in words if not word.isdigit()) - {0}
            said = _Words(frozenset(_NUMBER.findall(bare)), terms)
            if not bare.endswith(_NO_STATEMENT) and (said.numbers or len(said.terms) >= FEWEST_WORDS):
                yield said, [int(number) for number in _CITATION.findall(sentence.text)]
