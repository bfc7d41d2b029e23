"""Words to weighted terms: BM25 in vectors, so a score is an inner product and no document is re-indexed. For each term
a chunk holds `tf / (tf + K1 * (1 - B + B * length / LENGTH))`; a query `qtf * idf`. The average length is constant, so
a chunk's vector depends only on the chunk (Robertson & Zaragoza, "The Probabilistic Relevance Framework", 2009; without
the factor K1 + 1, like Lucene). A chunk is stemmed by the document's language, a query by every stemming in the space:
a word becomes as many terms as stems, and is as rare as all stems together."""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from heapq import nlargest
from operator import itemgetter
from threading import Lock
from typing import NamedTuple

from service.index.forms import BORDER, NEIGHBOURS, WHOLE, Form, find_apart, find_forms, forms_of_word, join_neighbours
from service.index.stemming import ENGLISH, STEMMINGS, stemmer_for, stemming_of_word
from service.index.stop_words import INDEX_STOP_WORDS, IRREGULAR, stop_words_of
from service.index.tokenization import Word, find_words, fold, split_query, split_run, split_words
from service.schema.indexing import TERM_DIMENSIONS, TOTAL_TERM

K1 = 1.2
B = 0.4
LENGTH = 80  # the average, in terms
TITLE_WEIGHT = 2  # in term frequency and in length
MOST_TERMS = 16_000  # the limit of a `sparsevec`; only a caller's own chunk of enormous size can reach it
MOST_QUERY_TERMS = 128  # a pasted page is searched for by its rarest words
MOST_KNOWN = 2**16
BORDER_ASKED = 0.5  # the share of a text's weight that letters and digits of a word have in a query
TERMS_OF_STEMMINGS = {stemming: -1 - number for number, stemming in enumerate(STEMMINGS)}
"""Places for counting the chunks of each stemming, among the frequencies of terms. English chunks aren't counted."""

_stemming = Lock()
# By stemmings, words of texts, and those with each term: texts share most words, so few need hashing.
_known_words: dict[tuple[str, ...], tuple[set[str], dict[int, set[str]]]] = {}
_APOSTROPHES = str.maketrans(dict.fromkeys("`\u00b4", "'"))  # as they are typed


@lru_cache(maxsize=2**17)
def term_of(word: str, stemming: str) -> int:
    """Return the index of a text's word in a term vector, from 1; 0 for a word that is not indexed."""
    folded = fold(word)
    own = stemming_of_word(folded, stemming)
    if own == ENGLISH and folded in INDEX_STOP_WORDS:
        return 0
    if stemmer := stemmer_for(own):
        with _stemming:  # stemmers have mutable state
            folded = stemmer.stemWord(folded)
    return int.from_bytes(blake2b(folded.encode(), digest_size=8).digest()) % TERM_DIMENSIONS + 1


@lru_cache(maxsize=2**17)
def _weigh_word(word: str, stemming: str) -> tuple[tuple[int, float], ...]:
    """Return the terms of a word, the plain word's first, with the share of each form."""
    own = term_of(word, stemming)
    shares = {own: 1.0}
    for form in forms_of_word(word, stemming):
        shares.setdefault(term_of(form.text, stemming), form.share)
    return tuple(shares.items())


def count_terms(text: str, stemming: str) -> dict[int, float]:
    """Return the frequency of each indexed term in a text, with further forms of words by their share."""
    return _count_with_length(text, stemming)[0]


def _count_with_length(text: str, stemming: str) -> tuple[dict[int, float], int]:
    counts, length = defaultdict[int, float](float), 0
    for word, count in Counter(split_words(text)).items():
        weighed = _weigh_word(word, stemming)
        length += count if weighed[0][0] else 0
        for term, share in weighed:
            counts[term] += share * count
    for form in find_forms(text):
        counts[term_of(form.text, stemming)] += form.share
    counts.pop(0, None)
    return counts, length


def weigh_chunks(texts: Sequence[str], *, title: str, stemming: str) -> list[dict[int, float]]:
    """Return the term vector of each chunk of a document, by term; the title counts in every chunk."""
    of_title, length = _count_with_length(title, stemming)
    return [_weigh_terms(*_count_with_length(text, stemming), of_title, TITLE_WEIGHT * length) for text in texts]


def _weigh_terms(
    counts: dict[int, float], length: int, of_title: Mapping[int, float], title_length: int
) -> dict[int, float]:
    for term, count in of_title.items():
        counts[term] += TITLE_WEIGHT * count
    norm = K1 * (1 - B + B * (length + title_length) / LENGTH)
    most = nlargest(MOST_TERMS, counts.items(), key=itemgetter(1)) if len(counts) > MOST_TERMS else counts.items()
    return {term: count / (count + norm) for term, count in most}


class Sought(NamedTuple):
    """A stretch of a query to search for: terms (one for each stem), the share of a word, and the weight. The weight is
    lower within a form that says more. `is_own`: a word as written, or a form replacing its words."""

    start: int
    end: int
    terms: tuple[int, ...]
    share: float
    weight: float
    is_own: bool = False


class QueryTerms(NamedTuple):
    """A query's words to search for, as written, and all `terms`; texts are marked at the terms in `marked`. `by_word`
    has each word's parts as terms: a text with a part in any form has at least one of the part's terms."""

    words: tuple[str, ...]
    sought: tuple[Sought, ...]
    by_word: Mapping[str, tuple[frozenset[int], ...]]
    terms: frozenset[int]
    marked: frozenset[int]

    def alternatives(self) -> set[frozenset[int]]:
        return {part for parts in self.by_word.values() for part in parts}


@lru_cache(maxsize=1024)
def read_query(query: str, stemmings: tuple[str, ...], *, has_old_forms: bool = False) -> QueryTerms:
    """Return the terms a query searches for; stop words count if alone, or if the spelling says more. Weights depend on
    the query alone. With `has_old_forms`, some texts have no forms, so words count in full."""
    query = query.translate(_APOSTROPHES)
    words = split_query(query)
    forms = (*find_forms(query), *(join_neighbours(query, words) if len(words) <= MOST_QUERY_TERMS else ()))
    rests = _find_rests(words, forms)
    dropped = stop_words_of({fold(word.text) for word in words}, stemmings)
    indexed = [word for word in words if word.start in rests or any(terms_of(word.text, stemmings))]
    kept = [word for word in indexed if word.start in rests or fold(word.text) not in dropped] or indexed
    own, sought = [[part for part in terms_of(word.text, stemmings) if part] for word in kept], list[Sought]()
    if has_old_forms:
        rests = {}
    for word, parts in zip(kept, own, strict=True):
        rest = rests.get(word.start, 1.0)
        sought += (Sought(word.start, word.end, terms, 1.0, rest, is_own=True) for terms in parts)
        sought += _seek_forms(word, parts, stemmings, rest)
    further: list[set[int]] = [set() for _ in kept]  # the terms of other spellings, by word
    instead: list[set[int]] = [set() for _ in kept]
    starts, written = [word.start for word in kept], [word.text for word in kept]
    for each in sought:
        if not each.is_own and each.share >= WHOLE:
            further[bisect_left(starts, each.start)].update(each.terms)
    for start, end, text, share, rest in forms:
        terms, lowers = _hash_stems(text, stemmings), rest is not None and rest < 1
        weight = share * BORDER_ASKED * rests.get(start, 1.0) if rest is None else 1.0 if lowers else share
        is_own = lowers and share == 1 and not has_old_forms
        sought.append(Sought(start, end, terms, 1.0 if lowers else share, weight, is_own=is_own))
        if rest is not None and (lowers or share >= NEIGHBOURS):
            for at in range(bisect_left(starts, start), bisect_left(starts, end)):
                (instead if is_own else further)[at].update(terms)
                written[at] = query[start:end] if is_own else written[at]  # "C++", not "C"
    by_word: dict[str, list[set[int]]] = {}
    for word, parts, others, form in zip(written, own, further, instead, strict=True):
        found = [form | others] if form else [others.union(part) for part in parts] or [others]
        for merged, part in zip(by_word.setdefault(word, found), found, strict=False):
            merged.update(part)
    # A part of a code alone stands in other codes, too, and a single digit of a number everywhere.
    shown = [each for each in sought if each.share > BORDER and (each.weight > 0.3 or each.end - each.start > 1)]
    return QueryTerms(
        tuple(word.text for word in kept),
        tuple(each for each in sought if each.terms),
        {word: tuple(map(frozenset, parts)) for word, parts in by_word.items() if all(parts)},
        terms=frozenset(term for each in sought for term in each.terms),
        marked=frozenset(term for each in shown for term in each.terms),
    )


def _find_rests(words: Sequence[Word], forms: Iterable[Form]) -> dict[int, float]:
    """Return the share left by forms to the words inside, by the words' starts."""
    starts, rests = [word.start for word in words], dict[int, float]()
    for form in forms:
        if form.rest and form.rest < 1:
            for at in starts[bisect_left(starts, form.start) : bisect_left(starts, form.end)]:
                rests[at] = min(form.rest, rests.get(at, 1.0))
    return rests


def _seek_forms(
    word: Word, own: Iterable[tuple[int, ...]], stemmings: tuple[str, ...], rest: float
) -> Iterator[Sought]:
    seen = {term for terms in own for term in terms}
    forms = dict.fromkeys(form for stemming in stemmings for form in forms_of_word(word.text, stemming))
    irregular = IRREGULAR.get(fold(word.text), ()) if ENGLISH in stemmings else ()
    for form in (*forms, *(Form(0, len(word.text), text, WHOLE) for text in irregular)):
        terms = tuple(term for term in _hash_stems(form.text, stemmings) if term not in seen)
        seen.update(terms)
        weight = form.share * rest * (BORDER_ASKED if form.share <= BORDER else 1)
        yield Sought(word.start, word.end, terms, form.share, weight)


@lru_cache(maxsize=2**16)
def _hash_stems(word: str, stemmings: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(sorted({term_of(word, stemming) for stemming in stemmings} - {0}))


def terms_of(word: str, stemmings: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the terms of a query's word: for each part to search for, a term for each stem."""
    # Texts that are not renewed yet have traditional Chinese as written.
    pairs, its = zip(split_run(word), split_run(word, as_written=True), strict=True), tuple(stemmings)
    return [tuple(sorted({*_hash_stems(part, its), *_hash_stems(written, its)})) for part, written in pairs]


def words_of(text: str, stemming: str) -> list[tuple[str, frozenset[int]]]:
    """Return the words of a text in order, in lower case, each with the terms of all its spellings."""
    return [
        (fold(word), frozenset(term for term, share in _weigh_word(word, stemming) if term and share >= WHOLE))
        for word in split_words(text)
    ]


class Match(NamedTuple):
    """A stretch of a text, with its terms among the given terms, in any form."""

    start: int
    end: int
    terms: tuple[int, ...]


@lru_cache(maxsize=256)
def find_matches(text: str, terms: frozenset[int], stemmings: tuple[str, ...]) -> tuple[Match, ...]:
    """Return the stretches of a text with any of these terms, in order. A search asks several times about each text."""
    matched = {word: _match_word(word, terms, stemmings) for word in _find_words_with(text, terms, stemmings)}
    found: list[Match] = []
    for start, end, word in find_words(text, matched) if matched else ():
        for first, last, its in matched[word]:
            found.append(Match(start + first, end if last == len(word) else start + last, its))
    for start, end, form, *_ in (*find_forms(text), *find_apart(text)):
        found += [Match(start, end, its)] if (its := _keep_terms(terms, _hash_stems(form, stemmings))) else []
    return tuple(sorted(found, key=lambda each: each[:2]))


def _find_words_with(text: str, terms: frozenset[int], stemmings: tuple[str, ...]) -> set[str]:
    words, (known, by_term) = {*split_words(text)}, _known_words.setdefault(stemmings, (set(), {}))
    for word in words - known:
        for term in {term for _, _, spelled in _hash_spellings(word, stemmings) for term in spelled}:
            by_term.setdefault(term, set()).add(word)
        known.add(word)
    if sum(len(words) for words, _ in [*_known_words.values()]) > MOST_KNOWN:
        _known_words.clear()
    return {word for term in terms if term in by_term for word in by_term[term] & words}


def _match_word(word: str, terms: frozenset[int], stemmings: tuple[str, ...]) -> tuple[Match, ...]:
    spellings = _hash_spellings(word, stemmings)
    return tuple(Match(start, end, its) for start, end, spelled in spellings if (its := _keep_terms(terms, spelled)))


def _keep_terms(terms: frozenset[int], spelled: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(term for term in spelled if term in terms)


@lru_cache(maxsize=2**16)
def _hash_spellings(word: str, stemmings: tuple[str, ...]) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    forms = dict.fromkeys(form for stemming in stemmings for form in forms_of_word(word, stemming))
    spelled = [Form(0, len(word), word, 1.0)]
    # Two letters of a code are another word (the CO of CO2), but behind digits a unit.
    spelled += (each for each in forms if each.share > BORDER or len(each.text) > 2 or each.end == len(word))
    return tuple((form.start, form.end, _hash_stems(form.text, stemmings)) for form in spelled)


def find_stemmings(frequencies: Mapping[int, int], *, own: str) -> tuple[str, ...]:
    """Return the stemmings of a space's chunks, from its statistics; the space's own comes first, if in use."""
    counts = {name: max(0, frequencies.get(term, 0)) for name, term in TERMS_OF_STEMMINGS.items()}
    others = tuple(name for name, count in counts.items() if count)
    return (own, *others) if not others or sum(counts.values()) < frequencies.get(TOTAL_TERM, 0) else others


def round_frequency(frequency: float) -> float:
    """Return a frequency of at least 2, rounded to a power of √2, to reveal little about unreadable documents."""
    return 2 ** (round(2 * math.log2(max(frequency, 2))) / 2)


def inverse_frequency(frequency: float, total: float) -> float:
    known = round_frequency(frequency)
    among = max(round_frequency(total), known)
    return math.log(1 + (among - known + 0.5) / (known + 0.5))


def weigh_query(reading: QueryTerms, *, frequencies: Mapping[int, int], total: int) -> dict[int, float]:
    """Return a query's terms with weights. Only rounded frequencies depend on the chunks. The weights reveal neither
    the existing terms nor their number, because the rarest words are chosen before missing words are left out."""
    shares, own = defaultdict[tuple[int, ...], float](float), {each.terms for each in reading.sought if each.is_own}
    for each in reading.sought:
        shares[each.terms] += each.weight
    weighed = [
        (terms in own, share * inverse_frequency(sum(frequencies.get(term, 0) for term in terms), total), terms)
        for terms, share in shares.items()
    ]
    weights = defaultdict[int, float](float)
    for _, weight, terms in nlargest(MOST_QUERY_TERMS, weighed):
        for term in terms:
            weights[term] += weight
    return dict(weights)


def as_sparsevec(weights: Mapping[int, float]) -> str:
    return "{" + ",".join(f"{term}:{weight:.9g}" for term, weight in sorted(weights.items())) + f"}}/{TERM_DIMENSIONS}"


def read_sparsevec(written: str) -> dict[int, float]:
    entries = (entry.partition(":") for entry in written[1 : written.index("}")].split(",") if entry)
    return {int(term): float(weight) for term, _, weight in entries}
