"""Words to weighted terms: BM25 in vectors, so that a score is an inner product and nothing is ever re-indexed.

A chunk holds, for each term, `tf / (tf + K1 * (1 - B + B * length / LENGTH))`; a query `qtf * idf`. The average length
is a constant, so that a chunk's vector depends on the chunk alone (Robertson & Zaragoza, "The Probabilistic Relevance
Framework", 2009; the constant factor K1 + 1 is left out, as Lucene does).
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from heapq import nlargest
from threading import Lock

from service.index.stemming import Stemmer, stemmer_for
from service.index.stop_words import INDEX_STOP_WORDS, QUERY_STOP_WORDS
from service.schema.indexing import TERM_DIMENSIONS

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

LONGEST_WORD = 64

# A letter, digit or underscore, and the combining marks that may follow one when the text is decomposed.
WORD = re.compile(r"\w[\w\u0300-\u036f]*")

_stemming = Lock()


@lru_cache(maxsize=2**17)
def term_of(word: str, language: str) -> int:
    """Return the index in a term vector, from 1, of a word as it stands in a text; 0 for one that is not indexed."""
    folded = fold(word)
    if language == "english" and folded in INDEX_STOP_WORDS:
        return 0
    stemmer = stemmer_for(language)
    return _hash_term(folded if stemmer is None else _stem(stemmer, folded))


def fold(word: str) -> str:
    """Return a word in lower case and composed form, cut at a length no real word has."""
    return unicodedata.normalize("NFKC", word).lower()[:LONGEST_WORD]


def _stem(stemmer: Stemmer, word: str) -> str:
    with _stemming:  # a stemmer keeps the word it is at
        return stemmer.stemWord(word)


def _hash_term(term: str) -> int:
    digest = blake2b(term.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % TERM_DIMENSIONS + 1


def count_terms(text: str, language: str) -> Counter[int]:
    """Return how often each indexed term occurs in a text."""
    counts = Counter(term_of(word, language) for word in WORD.findall(text))
    del counts[0]
    return counts


def weigh_chunks(texts: Sequence[str], *, title: str, language: str) -> list[dict[int, float]]:
    """Return the term vector of each chunk of a document, by term; the title counts in every one of them."""
    of_title = count_terms(title, language)
    return [_weigh_terms(count_terms(text, language), of_title) for text in texts]


def _weigh_terms(counts: Counter[int], of_title: Counter[int]) -> dict[int, float]:
    for term, count in of_title.items():
        counts[term] += TITLE_WEIGHT * count
    norm = K1 * (1 - B + B * counts.total() / LENGTH)
    return {term: count / (count + norm) for term, count in counts.most_common(MOST_TERMS)}


def query_words(query: str, language: str) -> list[str]:
    """Return the words of a query that are looked for, as written, in order; all of them when all are stop words."""
    words = [word for word in WORD.findall(query) if term_of(word, language)]
    if language != "english":
        return words
    return [word for word in words if fold(word) not in QUERY_STOP_WORDS] or words


def round_frequency(frequency: float) -> float:
    """Return a document frequency as ranking may know it: at least 2, to the nearest power of the square root of 2.

    The order of results depends on it, so it should tell little about single documents one may not read.
    """
    return 2 ** (round(2 * math.log2(max(frequency, 2))) / 2)


def inverse_frequency(frequency: float, total: float) -> float:
    """Return the weight of a term that `frequency` of `total` chunks contain."""
    known = round_frequency(frequency)
    among = max(round_frequency(total), known)
    return math.log(1 + (among - known + 0.5) / (known + 0.5))


def weigh_query(words: Iterable[str], *, language: str, frequencies: Mapping[int, int], total: int) -> dict[int, float]:
    """Return the query's term vector, by term, from the space's statistics."""
    counts = Counter(term_of(word, language) for word in words)
    weights = {
        term: count * inverse_frequency(frequencies.get(term, 0), total) for term, count in counts.items() if term
    }
    return dict(nlargest(MOST_QUERY_TERMS, weights.items(), key=lambda item: (item[1], item[0])))


def as_sparsevec(weights: Mapping[int, float]) -> str:
    """Write a term vector as pgvector reads it."""
    return "{" + ",".join(f"{term}:{weight:.9g}" for term, weight in sorted(weights.items())) + f"}}/{TERM_DIMENSIONS}"


def read_sparsevec(written: str) -> dict[int, float]:
    """Read a term vector as pgvector writes it."""
    entries = (entry.partition(":") for entry in written[1 : written.index("}")].split(",") if entry)
    return {int(term): float(weight) for term, _, weight in entries}
