"""Words to weighted terms: BM25 in vectors, so that a score is an inner product and nothing is re-indexed. For each
term a chunk holds `tf / (tf + K1 * (1 - B + B * length / LENGTH))`; a query `qtf * idf`. The average length is
constant, so that a chunk's vector depends only on the chunk (Robertson & Zaragoza, "The Probabilistic Relevance
Framework", 2009; without the factor K1 + 1, like Lucene). A chunk is stemmed by its document's language, a query by
every stemming in its space: a word is as many terms as stems, and as rare as all together."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from heapq import nlargest
from threading import Lock

from service.index.stemming import ENGLISH, STEMMINGS, Stemmer, stemmer_for, stemming_of_word
from service.index.stop_words import INDEX_STOP_WORDS, QUERY_STOP_WORDS
from service.index.tokenization import fold, split_query, split_run, split_words
from service.schema.indexing import TERM_DIMENSIONS, TOTAL_TERM

K1 = 1.2
B = 0.4
LENGTH = 80
"""The length, in terms, that counts as average."""

TITLE_WEIGHT = 2
"""How many times the title counts, in term frequency and in length."""

MOST_TERMS = 16_000
"""What a `sparsevec` holds; only a caller's own chunk of enormous size can reach it."""

MOST_QUERY_TERMS = 128
"""A pasted page is asked by its rarest terms."""

TERMS_OF_STEMMINGS = {stemming: -1 - number for number, stemming in enumerate(STEMMINGS)}
"""Where chunks are counted that have a stemming, among the frequencies of terms. English ones aren't counted."""

_stemming = Lock()


@lru_cache(maxsize=2**17)
def term_of(word: str, stemming: str) -> int:
    """Return the index in a term vector, from 1, of a word as it stands in a text; 0 for one that is not indexed."""
    folded = fold(word)
    own = stemming_of_word(folded, stemming)
    if own == ENGLISH and folded in INDEX_STOP_WORDS:
        return 0
    stemmer = stemmer_for(own)
    return _hash_term(folded if stemmer is None else _stem(stemmer, folded))


def _stem(stemmer: Stemmer, word: str) -> str:
    with _stemming:  # a stemmer keeps the word it is at
        return stemmer.stemWord(word)


def _hash_term(term: str) -> int:
    digest = blake2b(term.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % TERM_DIMENSIONS + 1


def count_terms(text: str, stemming: str) -> Counter[int]:
    """Return how often each indexed term occurs in a text."""
    counts = Counter(term_of(word, stemming) for word in split_words(text))
    del counts[0]
    return counts


@lru_cache(maxsize=512)
def terms_in(text: str, stemmings: tuple[str, ...]) -> frozenset[int]:
    return frozenset(term for stemming in stemmings for term in count_terms(text, stemming))


def weigh_chunks(texts: Sequence[str], *, title: str, stemming: str) -> list[dict[int, float]]:
    """Return the term vector of each chunk of a document, by term; the title counts in every one of them."""
    of_title = count_terms(title, stemming)
    return [_weigh_terms(count_terms(text, stemming), of_title) for text in texts]


def _weigh_terms(counts: Counter[int], of_title: Counter[int]) -> dict[int, float]:
    for term, count in of_title.items():
        counts[term] += TITLE_WEIGHT * count
    norm = K1 * (1 - B + B * counts.total() / LENGTH)
    return {term: count / (count + norm) for term, count in counts.most_common(MOST_TERMS)}


def query_words(query: str, stemmings: Sequence[str]) -> list[str]:
    """Return the words of a query that are looked for, as written, in order; all of them when all are stop words."""
    words = [word for word in split_query(query) if any(terms_of(word, stemmings))]
    if ENGLISH not in stemmings:
        return words
    return [word for word in words if fold(word) not in QUERY_STOP_WORDS] or words


def terms_of(word: str, stemmings: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the terms of a query's word: of each part that it is looked for by, one for each of its stems."""
    parts = split_run(word)
    return [tuple(sorted({term_of(part, stemming) for stemming in stemmings} - {0})) for part in parts]


def find_stemmings(frequencies: Mapping[int, int], *, own: str) -> tuple[str, ...]:
    """Return the stemmings of a space's chunks, from its statistics; its own comes first, if any chunk has it."""
    counts = {name: max(0, frequencies.get(term, 0)) for name, term in TERMS_OF_STEMMINGS.items()}
    others = tuple(name for name, count in counts.items() if count)
    return (own, *others) if not others or sum(counts.values()) < frequencies.get(TOTAL_TERM, 0) else others


def round_frequency(frequency: float) -> float:
    """Return a frequency of at least 2, rounded to a power of √2, which tells little about unreadable documents."""
    return 2 ** (round(2 * math.log2(max(frequency, 2))) / 2)


def inverse_frequency(frequency: float, total: float) -> float:
    """Return the weight of a term that `frequency` of `total` chunks contain."""
    known = round_frequency(frequency)
    among = max(round_frequency(total), known)
    return math.log(1 + (among - known + 0.5) / (known + 0.5))


def weigh_query(
    words: Iterable[str], *, stemmings: Sequence[str], frequencies: Mapping[int, int], total: int
) -> dict[int, float]:
    """Return the query's terms with a weight per word; stems that no chunk has are left out beside others."""
    weights = defaultdict[int, float](float)
    counts = Counter(terms for word in words for terms in terms_of(word, stemmings))
    for terms, count in counts.items():
        known = [term for term in terms if frequencies.get(term, 0) > 0] or terms
        weight = count * inverse_frequency(sum(frequencies.get(term, 0) for term in known), total)
        for term in known:
            weights[term] += weight
    return dict(nlargest(MOST_QUERY_TERMS, weights.items(), key=lambda item: (item[1], item[0])))


def as_sparsevec(weights: Mapping[int, float]) -> str:
    """Write a term vector as pgvector reads it."""
    return "{" + ",".join(f"{term}:{weight:.9g}" for term, weight in sorted(weights.items())) + f"}}/{TERM_DIMENSIONS}"


def read_sparsevec(written: str) -> dict[int, float]:
    """Read a term vector as pgvector writes it."""
    entries = (entry.partition(":") for entry in written[1 : written.index("}")].split(",") if entry)
    return {int(term): float(weight) for term, _, weight in entries}
