"""Words of a query missing from all reachable texts, and similar words, looked up in the reader's own index (Norvig,
"How to Write a Spelling Corrector", 2007). So no word list can reveal documents hidden from the reader."""

import asyncio
import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from difflib import get_close_matches
from heapq import nsmallest
from string import ascii_lowercase

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.search import SpellingCorrection
from service.domains.search import queries
from service.domains.search.narrowing import MOST_FOUND
from service.domains.search.search_query import Hit, Scope, SearchQuery, compute
from service.domains.search.syntax.parsing import WITH_ASTERISK
from service.index.forms import fold_marks
from service.index.statistics.queries import read_frequencies
from service.index.stemming import ENGLISH
from service.index.stop_words import INDEX_STOP_WORDS, QUERY_STOP_WORDS
from service.index.terms import round_frequency, terms_of
from service.index.tokenization import WORD, fold, split_words
from service.platform.batches import Answer, Batch

MOST_WORDS = 8  # a longer query is a pasted text, which is not checked
MOST_LOOKED_UP = 24  # the most frequent similar words in readable texts that are looked up
MOST_CORRECTIONS = 2
MOST_TEXTS = 5  # texts per similar word: a stem has several forms, such as "manager" and "management"
COMMON = 5_000
"""A word in more chunks isn't looked up in the index: the reader's documents are scanned up to the first match."""

MOST_CORRECTED, ALIKE_TWICE, LIKE_SEEN = 2, 0.7, 0.8
ALIKE = 0.75  # "wayes" has the stem of "way", but "waves" is a likelier word
_OF_QUESTIONS = {"many", "much", "AND", "NOT", "OR"}
_SHORTEST, _LONGEST, _ACRONYM, _SHORTEST_PART = 5, 24, 5, 3
_TWICE = range(7, 14)
_COMPOUNDING = frozenset({"danish", "dutch", "estonian", "finnish", "german", "hungarian", "norwegian", "swedish"})
MOST_WITHIN, READ_WITHIN = 8, 50  # words that fit a word with asterisks, and texts with such words to read
_SOUNDS = {each: group for group in ("aeiouy", "ckqs", "bp", "fvw", "dt", "mn", "gj", "lr", "zx") for each in group}

Words = Mapping[str, Sequence[frozenset[int]]]  # words of a query, each with the terms of its parts in any form


@dataclass(frozen=True, slots=True)
class Checked:
    """The unmatched words of a query, as written, and their corrections."""

    unmatched: Sequence[str] = ()
    corrections: Sequence[SpellingCorrection] = ()


ALL_MATCHED, UNCHECKED = Checked(), Checked()


async def check_words(
    connection: Connection,
    scope: Scope,
    search_query: SearchQuery,
    words: Words,
    texts: Sequence[str] | None,
    *,
    wildcards: Sequence[str] = (),
) -> Checked:
    """Return the words that no text in scope has and, unless `texts` (readable texts) is None, their corrections. Words
    that fit `wildcards` replace them."""
    batch, known = Batch(), search_query.frequencies
    terms = {word: sorted(parts[0]) for word, parts in list(words.items())[:MOST_WORDS] if parts}
    answers = {
        word: queries.ask_containing(
            batch, scope, terms=its, is_common=sum(known.get(term, 0) for term in its) > COMMON
        )
        for word, its in terms.items()
        if its and word not in _OF_QUESTIONS and not _is_dropped_stop_word(word, its, search_query.stemmings)
    }
    await batch.run(connection)
    unmatched = [word for word, answer in answers.items() if not answer.rows]
    found = [
        SpellingCorrection(word=word, replaced_by=replaced_by)
        for word in unmatched[: MOST_CORRECTED if texts is not None else 0]
        if (replaced_by := await _find_similar(connection, scope, search_query, word, texts or ()))
    ]
    fitting = {word: await _find_within(connection, scope, search_query, word) for word in wildcards}
    found += [SpellingCorrection(word=word, replaced_by=words) for word, words in fitting.items() if words]
    return Checked(unmatched, found)


def _terms(word: str, stemmings: Sequence[str]) -> tuple[int, ...]:
    return tuple({term for part in terms_of(word, stemmings) for term in part})


def _is_dropped_stop_word(word: str, terms: Iterable[int], stemmings: Sequence[str]) -> bool:
    """Return whether a word is an English stop word that indexes leave out, such as *it*, but not *IT*."""
    return ENGLISH in stemmings and fold(word) in INDEX_STOP_WORDS and {*terms} <= {*_terms(word, stemmings)}


async def _find_similar(
    connection: Connection, scope: Scope, search_query: SearchQuery, word: str, texts: Sequence[str]
) -> list[str]:
    """Return similar readable words as written, best first: a letter apart or, without any, in the texts, the word as
    two words, words joined with it, or two usual slips apart."""
    folded = fold(word)
    if not _SHORTEST <= len(folded) <= _LONGEST or not folded.isalpha() or (word.isupper() and len(word) <= _ACRONYM):
        return []
    seen = {fold(each) for text in texts for each in split_words(text) if len(each) >= _SHORTEST and each.isalpha()}
    own = replace(search_query, stemmings=search_query.stemmings[:1])  # stem thousands of spellings in one language
    slips = _slip(folded) if len(folded) in _TWICE else ()
    compounds = not _COMPOUNDING.isdisjoint(search_query.stemmings)
    twice = (other for at, each in slips for _, other in _slip(each, at))
    return (
        await _find_spellings(connection, scope, search_query, folded, _change(folded), alike=ALIKE)
        or get_close_matches(folded, seen - QUERY_STOP_WORDS, MOST_CORRECTIONS, LIKE_SEEN)
        or await _find_as_two_words(connection, scope, search_query, folded)
        or (await _find_within(connection, scope, search_query, f"*{folded}*") if compounds else [])
        or await _find_spellings(connection, scope, own, folded, twice, alike=ALIKE_TWICE)
    )


async def _find_as_two_words(connection: Connection, scope: Scope, search_query: SearchQuery, word: str) -> list[str]:
    asked, space_id = Batch(), scope.space.space_id
    cuts = [(word[:at], word[at:]) for at in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1)]
    terms = {part: sorted(_terms(part, search_query.stemmings)) for cut in cuts for part in cut}
    every = sorted({term for its in terms.values() for term in its})
    known = await read_frequencies(connection, scope.caller.organization_id, space_id=space_id, terms=every)
    answers = dict[str, Answer[Hit]]()
    counts = {part: sum(max(0, known.get(term, 0)) for term in its) for part, its in terms.items()}
    for cut in cuts:
        rarest, phrase = min(cut, key=counts.__getitem__), " ".join(cut)
        stem, its = phrase.removesuffix("s") + "*", terms[rarest]
        if 0 < counts[rarest] <= COMMON:
            answers[phrase] = queries.ask_containing(asked, scope, terms=its, phrase=stem, most=COMMON)
    await asked.run(connection)
    return [phrase for phrase, answer in answers.items() if answer.rows][:1]


def find_wildcards(text: str) -> list[str]:
    """Return the first two words of a query with an asterisk and at least three letters."""
    return [each for each in WITH_ASTERISK.findall(text) if len(each.replace("*", "")) > 2][:MOST_CORRECTED]


async def _find_within(connection: Connection, scope: Scope, search_query: SearchQuery, word: str) -> list[str]:
    """Return readable words that fit a word with asterisks, in most texts first. Compares a limited number of texts."""
    batch = Batch()
    answer = queries.ask_containing(batch, scope, phrase=word, most=MOST_FOUND)
    await batch.run(connection)
    hits = [Hit(each.document_id, max(0, each.chunk_no)) for each in answer.rows[:READ_WITHIN]]
    texts = await queries.read_texts(connection, scope, search_query, hits) if hits else {}
    fits = re.compile(fnmatch.translate(fold_marks(fold(word))))  # reads each letter once for many asterisks, too
    words = (each for text in texts.values() for each in {*map(fold, WORD.findall(text))})
    counts = await compute([*texts.values()], lambda: Counter(each for each in words if fits.match(fold_marks(each))))
    return [each for each, _ in counts.most_common(MOST_WITHIN)]


async def _find_spellings(
    connection: Connection,
    scope: Scope,
    search_query: SearchQuery,
    word: str,
    spellings: Iterable[str],
    *,
    alike: float,
) -> list[str]:
    stemmings, space_id = search_query.stemmings, scope.space.space_id
    terms = await asyncio.to_thread(lambda: sorted({term for each in spellings for term in _terms(each, stemmings)}))
    found = await read_frequencies(connection, scope.caller.organization_id, space_id=space_id, terms=terms)
    frequent = ((-round_frequency(chunks), term) for term, chunks in found.items() if chunks > 0)
    known, looked_up = nsmallest(MOST_LOOKED_UP, frequent), Batch()
    answers = {term: queries.ask_containing(looked_up, scope, terms=[term], most=MOST_TEXTS) for _, term in known}
    await looked_up.run(connection)
    places = [(term, place) for term, answer in answers.items() for place in answer.rows]
    hits = list(dict.fromkeys(place for _, place in places))
    texts = await queries.read_texts(connection, scope, search_query, hits) if hits else {}
    written = (_as_written(texts.get(place, ""), term, stemmings, like=word) for term, place in places)
    return get_close_matches(word, dict.fromkeys(filter(None, written)), MOST_CORRECTIONS, alike)


def _as_written(text: str, term: int, stemmings: Sequence[str], *, like: str) -> str | None:
    """Return a text's most similar word with the given term; None if only another word has the term by chance."""
    words = dict.fromkeys(fold(word) for word in split_words(text))
    meant = (word for word in words if word.isalpha() and word not in QUERY_STOP_WORDS)
    found = [word for word in meant if term in _terms(word, stemmings)]
    return next(iter(get_close_matches(like, found, 1, 0)), None)


def _change(word: str) -> Iterator[str]:
    """Yield a word with two neighbours exchanged, a letter removed, replaced or added."""
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    yield from (left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1)
    yield from (left + right[1:] for left, right in cuts if right)
    letters = dict.fromkeys(ascii_lowercase + word)
    yield from (left + letter + right for left, right in cuts for letter in letters)
    yield from (left + letter + right[1:] for left, right in cuts if right for letter in letters)


def _slip(word: str, first: int = 0) -> Iterator[tuple[int, str]]:
    """Yield spellings of a word with one usual mistake from index `first` on, with the mistake's index: a missing,
    doubled or added letter, swapped letters, or a letter that sounds alike."""
    for at in range(first, len(word)):
        left, letter, right = word[:at], word[at], word[at + 1 :]
        yield from ((at, left + other + right) for other in ("", 2 * letter, *_SOUNDS.get(letter, "")))
        yield from ((at, left + vowel + letter + right) for vowel in "aeiou")
        yield at, left + right[:1] + letter + right[1:]


def words_without(words: Words, terms: AbstractSet[int]) -> dict[str, Sequence[frozenset[int]]]:
    """Return the words with a part that has none of the terms."""
    return {word: parts for word, parts in words.items() if any(map(terms.isdisjoint, parts))}


def stretches_within(word: str, parts: Sequence[AbstractSet[int]], terms: AbstractSet[int]) -> list[str]:
    """Return the word if all its parts are among the terms; else, of a word without spaces, the stretches that are."""
    found = {at for at, part in enumerate(parts) if not terms.isdisjoint(part)}
    if not found or len(found) == len(parts):
        return [word] if found else []
    begins, ends = (sorted(found - {at + step for at in found}) for step in (1, -1))
    is_cut = len(word) == len(parts) + 1  # into pairs of characters
    return [word[begin : end + 2] for begin, end in zip(begins, ends, strict=True)] if is_cut else []


def replace_words(text: str, corrections: Sequence[SpellingCorrection]) -> str:
    replaced: Mapping[str, str] = {each.word: " ".join(each.replaced_by) for each in corrections}
    text = WITH_ASTERISK.sub(lambda found: replaced.get(found[0], found[0]), text)
    return WORD.sub(lambda found: replaced.get(found[0], found[0]), text)
