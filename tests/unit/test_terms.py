"""Words to weighted terms."""

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.index.stop_words import INDEX_STOP_WORDS, QUERY_STOP_WORDS
from service.index.terms import (
    as_sparsevec,
    count_terms,
    inverse_frequency,
    query_words,
    read_sparsevec,
    round_frequency,
    term_of,
    weigh_chunks,
    weigh_query,
)
from service.schema.indexing import TERM_DIMENSIONS

ENGLISH = "english"


def test_lucene_has_33_stop_words():
    """The words that are never indexed are the 33 of Lucene's list."""
    assert len(INDEX_STOP_WORDS) == 33
    assert INDEX_STOP_WORDS < QUERY_STOP_WORDS


@pytest.mark.parametrize(
    ("one", "other"),
    [("Running", "runs"), ("PERMISSIONS", "permission"), ("café", unicodedata.normalize("NFD", "café"))],
)  # fmt: skip
def test_forms_of_a_word_are_one_term(one, other):
    """Case, inflection and Unicode's forms of writing the same make no difference."""
    assert term_of(one, ENGLISH) == term_of(other, ENGLISH) != 0


def test_other_words_are_other_terms():
    """Ordinary words don't collide, and `simple` doesn't stem."""
    words = ["ship", "boat", "harbour", "2291", "INV", "naïve"]
    assert len({term_of(word, ENGLISH) for word in words}) == len(words)
    assert term_of("running", "simple") != term_of("runs", "simple")


def test_a_term_is_where_its_hash_says():
    """The place of a term is the one that the design fixes, so that indexes stay readable."""
    assert term_of("ships", ENGLISH) == 477490827


# As snowballstemmer 3.1.1 has them, which made the indexes that exist.
STEMS = {
    "abilities": "abil", "analyses": "analys", "committees": "committe", "dying": "die", "exceedingly": "exceed",
    "generously": "generous", "happily": "happili", "hopping": "hop", "innings": "inning", "knightly": "knight",
    "nationality": "nation", "news": "news", "organisation": "organis", "owner's": "owner", "ponies": "poni",
    "skies": "sky", "tied": "tie", "universities": "universiti", "vietnamization": "vietnam", "yelled": "yell",
    "cafés": "café", "naïvely": "naïv", "größere": "größere", "x1000s": "x1000s", "δοκιμές": "δοκιμές",
}  # fmt: skip


@pytest.mark.parametrize(("word", "stem"), STEMS.items())
def test_stems_stay_those_of_existing_indexes(word, stem):
    """Another stemmer, or another version of it, must not change what a stored term means."""
    assert term_of(word, ENGLISH) == term_of(stem, "simple")


def test_a_long_word_is_cut():
    """A line of base64 is a term like any other, by its beginning."""
    assert term_of("x" * 5000, "simple") == term_of("x" * 64, "simple")


def test_the_title_counts_twice():
    """Term frequency and length count the title twice, as BM25 is defined."""
    [vector] = weigh_chunks(["ship boat"], title="ship", stemming=ENGLISH)
    length = 4
    norm = 1.2 * (0.6 + 0.4 * length / 80)
    assert vector == pytest.approx({term_of("ship", ENGLISH): 3 / (3 + norm), term_of("boat", ENGLISH): 1 / (1 + norm)})


def test_query_words_leave_out_what_says_nothing():
    """Stop words of the longer list are dropped from a question, in order and as written."""
    assert query_words("When does the Ferry leave, please?", [ENGLISH]) == ["Ferry", "leave"]


def test_a_query_of_stop_words_keeps_them():
    """A query of nothing but stop words is asked with those that are indexed; one of unindexed words with none."""
    assert query_words("who are you", [ENGLISH]) == ["who", "you"]
    assert query_words("to be or not to be", [ENGLISH]) == []


def test_idf_is_never_negative_and_tells_little():
    """Document frequencies count as at least 2 and in steps of the square root of 2, and no weight is below 0."""
    assert inverse_frequency(0, 0) > 0
    assert inverse_frequency(0, 1000) == inverse_frequency(1, 1000) == inverse_frequency(2, 1000)
    assert len({round_frequency(frequency) for frequency in range(1_000_000)}) < 45
    assert round_frequency(1000) == pytest.approx(1000, rel=0.2)


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 10**9))
def test_rarer_terms_weigh_no_less(one, other, total):
    """A term in fewer chunks never weighs less."""
    rarer, commoner = sorted((one, other))
    assert inverse_frequency(rarer, total) >= inverse_frequency(commoner, total) > 0


@given(st.text(max_size=400))
def test_any_text_makes_a_vector_pgvector_can_hold(text):
    """Whatever the text, terms are within bounds, weights between 0 and 1, and the vector reads back as written."""
    [vector] = weigh_chunks([text], title=text[:20], stemming=ENGLISH)
    assert all(1 <= term <= TERM_DIMENSIONS and 0 < weight < 1 for term, weight in vector.items())
    assert read_sparsevec(as_sparsevec(vector)) == pytest.approx(vector)


@given(st.text(max_size=200), st.text(max_size=200))
def test_counts_of_two_texts_add_up(one, other):
    """Counting a text is counting its parts: nothing is kept between them."""
    together = count_terms(f"{one} {other}", ENGLISH)
    assert together == count_terms(one, ENGLISH) + count_terms(other, ENGLISH)


def test_a_pasted_page_is_asked_by_its_rarest_terms():
    """Of more words than a query may have, the rarest stay."""
    words = [f"w{number}" for number in range(500)]
    frequencies = {term_of(word, ENGLISH): 1 + number * 1000 for number, word in enumerate(words)}
    vector = weigh_query(words, stemmings=[ENGLISH], frequencies=frequencies, total=10**6)
    assert len(vector) == 128
    assert term_of("w0", ENGLISH) in vector
    assert term_of("w499", ENGLISH) not in vector
    assert all(math.isfinite(weight) and weight > 0 for weight in vector.values())
