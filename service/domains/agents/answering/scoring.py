"""Choose relevant sentences by meaning and words. docs/decisions explains the weights."""

import asyncio
import math
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from itertools import chain, repeat
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from service.domains.agents.answering.phrases import PHRASES, language_of
from service.domains.agents.answering.segments import Quotable
from service.index.stemming import ENGLISH, stemming_of
from service.index.terms import count_terms, read_query, words_of
from service.index.tokenization import WORD
from service.text.embedding.models import Embedder, WordPieces
from service.text.languages import tell_language

OWN_WORDS, WORDS_IN_CONTEXT = 0.2, 0.1
COMMON, USUAL = 0.4, 0.3
"""How much of the mean nearness of all that was found is taken off, and the least mean: an answer stands out."""
NUMBER, RANK, BESIDE, ON_PAGE = 0.05, 0.02, 0.05, 0.1
"""The gain or loss by a number where a question asks for one, the loss by each passage found before, and by standing
beside all that was found, and the gain by the page that answers the part of the question before."""
BOUND = 0.47
"""A sentence with a lower score isn't an answer."""

FEWEST_TELLING_WORDS = 8
"""Words. A shorter sentence without a word of the question is too short for the words above it to count."""

TITLED, TITLED_ASKED, TITLED_OWN = 0.25, 0.75, 0.6
"""The gain of the first sentence below a fitting heading; the common shares of question and heading words to fit."""

NEAR_THE_BEST, NEARLY = 0.85, 0.75
"""The lowest shares of the best score for sentences beside the best; the second for all on a subject, or no answer."""

MEANING, NEAREST = 0.62, 0.2
"""A sentence this near in meaning is an answer, regardless of wording. Without an answer, sentences with at least the
second score are shown as the nearest."""

CLOSE, CLOSE_IN_MEANING, CLEARLY = 0.42, 0.5, 0.1
CLOSE_TITLED, MOST_OF_IT = 0.35, 0.5
"""Where no sentence is an answer, the best is close with this score and nearness and this lead over other documents, or
with the last score below names and headings with the share MOST_OF_IT of the question's words."""

MOST_QUOTES, MOST_GATHERED, MOST_NEAREST, LONG_QUOTES = 3, 6, 3, 1800
"""The most quotes, also of everything on a subject, the most nearest sentences, and characters that end the quotes."""

_GATHERS = re.compile(r"\b(?:all|every|list|alle|liste|tou(?:s|tes)|tod[ao]s|tutt[ie])\b", re.IGNORECASE)
COMPOUNDING = frozenset({"danish", "dutch", "german", "norwegian", "swedish"})
"""The stemmings of languages that write compounds as one word ("Teilzeitkräfte")."""
_CAPITAL_NOUNS = "de"
SHORTEST_STEM = 5
"""Letters of a word. In compounding languages, longer words with the same beginning count as compounds."""
ALIKE = 0.7
"""Two sentences with this share of words in common count as equal."""

_NAME = re.compile(r"(?<=[\w,;:&] )(?!\w+days?\b)[^\W\d_]{3,}(?<!s)|\b[A-Za-z]+-?\d+\b")
"""A word within a sentence, except weekdays, without plural and possessive endings, and a code ("E-33")."""
_PART_OF_NAME = re.compile(r"[^\W\d_]+|\d+")
_SPELLED = re.compile(r"[^\W\d_]{5,}")
SLIP, MOST_CORRECTED = 0.85, 64
"""The similarity of two words that differ by a typing slip, and the most words of a question to compare."""
_NUMBER = re.compile(r"\d+")
_ASKS_FOR_NUMBER = re.compile(
    r"\b(?:how (?:many|much|long|often|far|old|high|deep|big|large|fast|soon|early|late)|when"
    r"|wie (?:viele?|lange?|oft|hoch|weit|alt)|wann|combien|quand|cu[aá]nt[oa]s?|cu[aá]ndo|quant[oaie]s?|quando"
    r"|hoeveel|hoe (?:lang|vaak|hoog)|wanneer)\b",
    re.IGNORECASE,
)
_NUMERALS = frozenset(word for each in PHRASES.values() for word, value in each.numbers.items() if value > 1)

Asked = tuple[str, Sequence[str]]
"""A question, and words required in an answer or in the headings above."""
Place = tuple[int, int, int]
"""A found chunk: the number of the passage, and where the chunk begins and ends in its text."""
Chosen = tuple[list[Quotable], Literal["answers", "close", "far"]]
"""Sentences that answer, in order; the clearly closest sentence; or the nearest sentences, if any."""


async def choose_quotes(
    embedder: Embedder,
    questions: Sequence[Asked],
    quotable: Sequence[Quotable],
    *,
    most: int = MOST_GATHERED,
    found: Sequence[Sequence[Place]] = (),
) -> list[Chosen]:
    """Return the best sentences for each question, never more than `most`. They never depend on unreadable text.
    `found`: what was found for each question, best first."""
    if not quotable:
        return [([], "far")] * len(questions)
    questions = await asyncio.to_thread(_correct, questions, quotable, embedder.tokenizer)
    texts = (f"{each.context}\n{each.text}" for each in quotable)
    vectors = await embedder.embed([*(question for question, _ in questions), *texts])
    near = vectors[: len(questions)] @ vectors[len(questions) :].T
    return await asyncio.to_thread(_choose_all, questions, quotable, near, found, most)


def _correct(questions: Sequence[Asked], quotable: Sequence[Quotable], pieces: WordPieces) -> list[Asked]:
    """Correct misspelled words to words of the sentences. A word that the embedding model knows is spelled right."""
    known = {word for each in quotable for word in _SPELLED.findall(f"{each.context} {each.text}".casefold())}

    def correct(word: re.Match[str]) -> str:
        if word[0] in known or not word[0].islower() or pieces.count([word[0]]) == [1]:
            return word[0]
        near = (each for each in known if abs(len(each) - len(word[0])) < 2)
        return next(iter(get_close_matches(word[0], near, 1, SLIP)), word[0])

    return [(_SPELLED.sub(correct, text, count=MOST_CORRECTED), having) for text, having in questions]


def _choose_all(
    questions: Sequence[Asked],
    quotable: Sequence[Quotable],
    near: NDArray[np.float32],
    found: Sequence[Sequence[Place]],
    most: int,
) -> list[Chosen]:
    stemmings = _tell_stemmings(quotable)
    chosen: list[Chosen] = []
    pages = set[str]()
    within = np.array([is_within(each, list(chain.from_iterable(found))) for each in quotable])
    within |= not within.any()
    for (question, having), row, places in zip(questions, near, chain(found, repeat(())), strict=False):
        rank = np.array([_rank(each, places) for each in quotable])
        prior = -COMMON * max(row[within].mean(), USUAL) - RANK * rank - BESIDE * ~within
        fit = [place for place, stemming in enumerate(stemmings) if has_words(quotable[place], having, stemming)]
        asked = [quotable[place] for place in fit], [stemmings[place] for place in fit]
        best: Chosen = ([], "far")
        if fit and question.strip():
            best = _choose_for(question, *asked, row[fit], prior[fit], within=within[fit], pages=pages, limit=most)
        if best[1] == "answers" and most > 1:
            pages |= {each.document for each in best[0]}
        chosen.append(([], "far") if having and best[1] != "answers" else best)
    return chosen


def is_within(sentence: Quotable, places: Sequence[Place]) -> bool:
    """Return whether a sentence stands in a found chunk, and not beside."""
    return any(number == sentence.number and start <= sentence.at < end for number, start, end in places)


def _rank(item: Quotable, places: Sequence[Place]) -> int:
    """Return the rank of a sentence's chunk, or of the best chunk in the passage."""
    of_passage = [rank for rank, place in enumerate(places) if place[0] == item.number]
    return next((rank for rank in of_passage if is_within(item, [places[rank]])), min(of_passage, default=len(places)))


def _choose_for(
    question: str,
    quotable: Sequence[Quotable],
    stemmings: Sequence[str],
    near: NDArray[np.float32],
    prior: NDArray[np.float32],
    *,
    within: NDArray[np.bool_],
    pages: AbstractSet[str],
    limit: int,
) -> Chosen:
    """Choose the sentences that answer a question, else a clearly closest sentence, else the nearest sentences."""
    asked = read_query(question, tuple(sorted(set(stemmings)))).alternatives()
    words, above = zip(*_overlaps(asked, quotable, stemmings, within), strict=True)
    scores = near + prior + words
    if _ASKS_FOR_NUMBER.search(question):
        scores += [NUMBER if has_number(each.text) else -NUMBER for each in quotable]
    scores = np.maximum(scores, np.where(near >= MEANING, BOUND, 0.0))
    order = scores + TITLED * np.array(_begin_titled(asked, quotable, stemmings))
    order += ON_PAGE * np.array([each.document in pages for each in quotable])
    gathers = _GATHERS.search(question) is not None
    most, share = (MOST_GATHERED, NEARLY) if gathers else (MOST_QUOTES, NEAR_THE_BEST)
    language = language_of(question)
    has_names = _have_names(question, quotable, nouns=language == _CAPITAL_NOUNS)
    if scores.max(where=has_names, initial=0.0) >= BOUND:
        named = np.where(has_names, order, 0.0)
        return _choose(quotable, named.tolist(), bound=BOUND, most=min(most, limit), share=share), "answers"
    best = int(scores.argmax())
    is_first = quotable[best].document == quotable[int(prior.argmax())].document
    others = [score for each, score in zip(quotable, scores, strict=True) if each.document != quotable[best].document]
    leads = near[best] >= CLOSE_IN_MEANING and scores[best] >= max(CLOSE, max(others, default=0) + CLEARLY)
    is_titled = above[best] >= MOST_OF_IT and scores[best] >= CLOSE_TITLED
    if has_names[best] and is_first and (leads or is_titled):
        return [quotable[best]], "close"
    # Similarity across languages is always low, so trust the search there.
    if order.max() < NEAREST and stemming_of(language, default=ENGLISH) not in stemmings:
        order = prior - prior.max() + 1
    return _choose(quotable, order.tolist(), bound=NEAREST, most=MOST_NEAREST, share=NEARLY), "far"


def _have_names(question: str, quotable: Sequence[Quotable], *, nouns: bool) -> NDArray[np.bool_]:
    """Mark sentences of documents that have all names of the question; where `nouns` have capitals, all codes."""
    texts: dict[str, str] = {}
    for each in quotable:
        texts[each.document] = f"{texts.get(each.document, '')}\n{each.context}\n{each.quote}"
    names = [name for name in _NAME.findall(question) if name[-1].isdigit() or (name.istitle() and not nouns)]
    wanted = [r"\b" + r"\W?".join(_PART_OF_NAME.findall(name)) + r"(?!\d)" for name in names]
    has = {document: all(re.search(each, text, re.IGNORECASE) for each in wanted) for document, text in texts.items()}
    return np.array([has[each.document] for each in quotable])


def _begin_titled(asked: set[frozenset[int]], quotable: Sequence[Quotable], stemmings: Sequence[str]) -> list[bool]:
    """Mark the first sentence below each heading made up mostly of the question's words."""
    seen: set[tuple[int, str]] = set()
    titled: list[bool] = []
    for each, stemming in zip(quotable, stemmings, strict=True):
        title = each.headings.rpartition("\n")[2]
        terms, below = _terms(title, stemming), (each.number, each.headings)
        shared = sum(not terms.isdisjoint(word) for word in asked)
        names_it = shared >= max(1, TITLED_ASKED * len(asked), TITLED_OWN * len(title.split()))
        titled.append(names_it and below not in seen)
        seen.add(below)
    return titled


def _overlaps(
    asked: set[frozenset[int]], quotable: Sequence[Quotable], stemmings: Sequence[str], within: NDArray[np.bool_]
) -> list[tuple[float, float]]:
    """Score sentences by the question's words in any form, beside the share in the headings. Words that are rare
    `within` what was found count more."""
    own = [_terms(each.text, stemming) for each, stemming in zip(quotable, stemmings, strict=True)]
    found = [terms for terms, is_found in zip(own, within.tolist(), strict=True) if is_found]
    weights = {
        word: math.log(1 + (len(found) + 1) / (sum(not terms.isdisjoint(word) for terms in found) + 0.5))
        for word in asked
    }
    total = sum(weights.values()) or 1.0

    def share(terms: frozenset[int]) -> float:
        return sum(weight for word, weight in weights.items() if not terms.isdisjoint(word)) / total

    def score(sentence: Quotable, terms: frozenset[int], above: frozenset[int]) -> float:
        is_long = len(sentence.text.split()) >= FEWEST_TELLING_WORDS or not sentence.text.isascii()
        tells = is_long or share(terms) > 0
        return OWN_WORDS * share(terms) + WORDS_IN_CONTEXT * (share(terms | above) if tells else 0.0)

    aboves = [_terms(each.context, stemming) for each, stemming in zip(quotable, stemmings, strict=True)]
    return [(score(*each), share(each[2])) for each in zip(quotable, own, aboves, strict=True)]


def has_number(sentence: str) -> bool:
    """Return whether a sentence has a number, in figures or words; "one" is mostly none."""
    return _NUMBER.search(sentence) is not None or not _NUMERALS.isdisjoint(WORD.findall(sentence.lower()))


def has_words(sentence: Quotable, wanted: Sequence[str], stemming: str) -> bool:
    """Return whether a sentence with its headings has each wanted word in any form, or the word's parts in a row."""
    if not wanted:
        return True
    words = words_of(f"{sentence.context}\n{sentence.text}", stemming)
    phrases = [words_of(each, stemming) for each in wanted]
    has_compounds = stemming in COMPOUNDING
    return all(_has_in_a_row(words, phrase, has_compounds=has_compounds) for phrase in phrases)


_Word = tuple[str, frozenset[int]]
"""A word in lower case, and the terms of all spellings, common to all forms."""


def _has_in_a_row(words: Sequence[_Word], phrase: Sequence[_Word], *, has_compounds: bool) -> bool:
    def is_form_or_compound(word: _Word, of: _Word) -> bool:
        begins = has_compounds and len(of[0]) >= SHORTEST_STEM and of[0].isalpha() and word[0].startswith(of[0])
        return word[0] == of[0] or not word[1].isdisjoint(of[1]) or begins

    places = range(len(words) - len(phrase) + 1)
    return any(all(map(is_form_or_compound, words[place : place + len(phrase)], phrase)) for place in places)


def _tell_stemmings(quotable: Sequence[Quotable]) -> list[str]:
    texts: dict[str, list[str]] = {}
    for each in quotable:
        texts.setdefault(each.document, []).append(each.text)
    found = {name: stemming_of(tell_language(sentences), default=ENGLISH) for name, sentences in texts.items()}
    return [found[each.document] for each in quotable]


def _terms(text: str, stemming: str = ENGLISH) -> frozenset[int]:
    return frozenset(count_terms(text, stemming))


def _choose(
    quotable: Sequence[Quotable], scores: Sequence[float], *, bound: float, most: int, share: float
) -> list[Quotable]:
    """Choose sentences from `bound` and this share of the best score on, none alike, grouped by document."""
    best_first = sorted(range(len(quotable)), key=lambda place: (-scores[place], place))
    least, length = max(bound, share * scores[best_first[0]]), 0
    chosen: list[int] = []
    for place in best_first:
        if len(chosen) == most or length > LONG_QUOTES:
            break
        if scores[place] >= least and not any(is_alike(quotable[place], quotable[other]) for other in chosen):
            chosen.append(place)
            length += len(quotable[place].quote)
    documents = [quotable[place].document for place in chosen]
    chosen.sort(key=lambda place: (documents.index(quotable[place].document), place))
    return [quotable[place] for place in chosen]


def is_alike(sentence: Quotable, other: Quotable) -> bool:
    """Return whether a sentence contains the second as whole words, or says the same with equal numbers."""
    if _has(sentence.quote, other.quote) or _has(other.quote, sentence.quote):
        return True
    if _NUMBER.findall(sentence.text) != _NUMBER.findall(other.text):
        return False
    ours, theirs = _terms(sentence.text), _terms(other.text)
    return len(ours & theirs) >= ALIKE * max(1, len(ours | theirs))


def _has(text: str, part: str) -> bool:
    return re.search(rf"(?<!\w)(?<!\d[.,]){re.escape(part)}(?!\w|[.,]\d)", text) is not None
