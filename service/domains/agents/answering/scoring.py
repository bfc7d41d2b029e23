"""Choose sentences that answer a question, if any, by their meaning and their share of the question's words. Weights
and bound are calibrated on questions with and without an answer (docs/decisions has the results)."""

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from service.index.stemming import ENGLISH, stemming_of
from service.index.terms import count_terms, read_query, words_of
from service.text.embedding.models import Embedder
from service.text.languages import tell_language

OWN_WORDS = 0.3
WORDS_IN_CONTEXT = 0.3
BOUND = 0.7
"""A sentence with a lower score isn't an answer."""

NEAR_THE_BEST = 0.85
"""Beside the best one, sentences with at least this share of its score are quoted."""

MOST_QUOTES = 3
COMPOUNDING = frozenset({"danish", "dutch", "german", "norwegian", "swedish"})
"""The stemmings of languages that write compounds as one word ("Teilzeitkräfte")."""
SHORTEST_STEM = 5
"""Letters of a word that others which begin with it are taken for compounds of, in those languages."""
ALIKE = 0.7
"""Two sentences that share this much of their words say the same."""

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Quotable:
    """A sentence of a passage (by its number), and what it stands under."""

    number: int
    document: str
    headings: str
    text: str
    section: str = ""

    @property
    def context(self) -> str:
        """What it stands under."""
        return f"{self.document}\n{self.headings}"


async def choose_quotes(
    embedder: Embedder, question: str, quotable: Sequence[Quotable], *, having: Sequence[str] = ()
) -> list[Quotable]:
    """Return the one to three best sentences in order; empty without an answer. Sentences, or headings above them, must
    have the words `having`. The result never depends on unreadable text."""
    if having:
        quotable = await asyncio.to_thread(_keep_having, quotable, having)
    if not quotable or not question.strip():
        return []
    vectors = await embedder.embed([question, *(f"{each.context}\n{each.text}" for each in quotable)])
    overlaps = await asyncio.to_thread(_overlaps, question, quotable)
    scores = vectors[1:] @ vectors[0] + np.array(overlaps)
    return _choose(quotable, [float(score) for score in scores])


def _overlaps(question: str, quotable: Sequence[Quotable]) -> list[float]:
    """Score sentences by the question's words, in the forms of the documents' languages; rare words count for more."""
    stemmings = _tell_stemmings(quotable)
    every = sorted(set(stemmings))
    asked = read_query(question, tuple(every)).alternatives()
    own = [_terms(each.text, stemming) for each, stemming in zip(quotable, stemmings, strict=True)]
    weights = {
        word: math.log(1 + (len(own) + 1) / (sum(not terms.isdisjoint(word) for terms in own) + 0.5)) for word in asked
    }
    total = sum(weights.values()) or 1.0

    def share(terms: frozenset[int]) -> float:
        return sum(weight for word, weight in weights.items() if not terms.isdisjoint(word)) / total

    return [
        OWN_WORDS * share(terms) + WORDS_IN_CONTEXT * share(terms | _terms(each.context, stemming))
        for each, terms, stemming in zip(quotable, own, stemmings, strict=True)
    ]


def _keep_having(quotable: Sequence[Quotable], wanted: Sequence[str]) -> list[Quotable]:
    """Return the sentences that have each of these words; of one with a hyphen its parts, one after the other."""
    every = _tell_stemmings(quotable)
    return [each for each, stemming in zip(quotable, every, strict=True) if has_words(each, wanted, stemming)]


def has_words(sentence: Quotable, wanted: Sequence[str], stemming: str) -> bool:
    """Return whether a sentence, with what it stands under, has each of these words in any form."""
    words = words_of(f"{sentence.context}\n{sentence.text}", stemming)
    phrases = [words_of(each, stemming) for each in wanted]
    has_compounds = stemming in COMPOUNDING
    return all(_has_in_a_row(words, phrase, has_compounds=has_compounds) for phrase in phrases)


_Word = tuple[str, frozenset[int]]
"""A word in lower case, and the terms of its spellings, which all of its forms have."""


def _has_in_a_row(words: Sequence[_Word], phrase: Sequence[_Word], *, has_compounds: bool) -> bool:
    def is_form(word: _Word, of: _Word) -> bool:
        begins = has_compounds and len(of[0]) >= SHORTEST_STEM and of[0].isalpha() and word[0].startswith(of[0])
        return word[0] == of[0] or not word[1].isdisjoint(of[1]) or begins

    places = range(len(words) - len(phrase) + 1)
    return any(all(map(is_form, words[place : place + len(phrase)], phrase)) for place in places)


def _tell_stemmings(quotable: Sequence[Quotable]) -> list[str]:
    texts: dict[str, list[str]] = {}
    for each in quotable:
        texts.setdefault(each.document, []).append(each.text)
    found = {name: stemming_of(tell_language(sentences), default=ENGLISH) for name, sentences in texts.items()}
    return [found[each.document] for each in quotable]


def _terms(text: str, stemming: str = ENGLISH) -> frozenset[int]:
    return frozenset(count_terms(text, stemming))


def _choose(quotable: Sequence[Quotable], scores: Sequence[float]) -> list[Quotable]:
    best_first = sorted(range(len(quotable)), key=lambda place: (-scores[place], place))
    best = best_first[0]
    chosen: list[int] = []
    for place in best_first:
        if len(chosen) == MOST_QUOTES or scores[place] < max(BOUND, NEAR_THE_BEST * scores[best]):
            break
        if not any(is_alike(quotable[place], quotable[other]) for other in chosen):
            chosen.append(place)
    documents = [quotable[place].document for place in chosen]
    chosen.sort(key=lambda place: (documents.index(quotable[place].document), place))
    return [quotable[place] for place in chosen]


def is_alike(one: Quotable, other: Quotable) -> bool:
    """Return whether a sentence has the other as whole words, or says the same with the same numbers."""
    if _has(one.text, other.text) or _has(other.text, one.text):
        return True
    if _NUMBER.findall(one.text) != _NUMBER.findall(other.text):
        return False
    ours, theirs = _terms(one.text), _terms(other.text)
    return len(ours & theirs) >= ALIKE * max(1, len(ours | theirs))


def _has(text: str, part: str) -> bool:
    return re.search(rf"(?<!\w)(?<!\d[.,]){re.escape(part)}(?!\w|[.,]\d)", text) is not None
