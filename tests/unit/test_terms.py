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
# As snowballstemmer 3.1.1 has them, which made the indexes that exist.
STEMS = {
    "abilities": "abil", "analyses": "analys", "committees": "committe", "dying": "die", "exceedingly": "exceed",
    "generously": "generous", "happily": "happili", "hopping": "hop", "innings": "inning", "knightly": "knight",
    "nationality": "nation", "news": "news", "organisation": "organis", "owner's": "owner", "ponies": "poni",
    "skies": "sky", "tied": "tie", "universities": "universiti", "vietnamization": "vietnam", "yelled": "yell",
    "cafés": "café", "naïvely": "naïv", "größere": "größere", "x1000s": "x1000s", "δοκιμές": "δοκιμές",
}  # fmt: skip


def test_terms_are_as_the_design_fixes_them():
    """Case, inflection and Unicode's forms make no difference, and a long word counts by its beginning."""
    assert len(INDEX_STOP_WORDS) == 33  # as Lucene has them
    assert INDEX_STOP_WORDS < QUERY_STOP_WORDS
    forms = [("Running", "runs"), ("PERMISSIONS", "permission"), ("café", unicodedata.normalize("NFD", "café"))]
    for one, other in forms:
        assert term_of(one, ENGLISH) == term_of(other, ENGLISH) != 0
    words = ["ship", "boat", "harbour", "2291", "INV", "naïve"]
    assert len({term_of(word, ENGLISH) for word in words}) == len(words)
    assert term_of("running", "simple") != term_of("runs", "simple")
    assert term_of("x" * 5000, "simple") == term_of("x" * 64, "simple")
    # Its place is where its hash says, so that indexes stay readable.
    assert term_of("ships", ENGLISH) == 477490827


@pytest.mark.parametrize(("word", "stem"), STEMS.items())
def test_stems_stay_those_of_existing_indexes(word, stem):
    """Another stemmer, or another version of it, must not change what a stored term means."""
    assert term_of(word, ENGLISH) == term_of(stem, "simple")


def test_the_title_counts_twice():
    [vector] = weigh_chunks(["ship boat"], title="ship", stemming=ENGLISH)
    length = 4
    norm = 1.2 * (0.6 + 0.4 * length / 80)
    assert vector == pytest.approx({term_of("ship", ENGLISH): 3 / (3 + norm), term_of("boat", ENGLISH): 1 / (1 + norm)})


def test_query_words_leave_out_what_says_nothing():
    """A query of nothing but stop words is asked with the words that are indexed, if there are any."""
    assert query_words("When does the Ferry leave, please?", [ENGLISH]) == ["Ferry", "leave"]
    assert query_words("who are you", [ENGLISH]) == ["who", "you"]
    assert query_words("to be or not to be", [ENGLISH]) == []


def test_idf_is_never_negative_and_tells_little():
    assert inverse_frequency(0, 0) > 0
    assert inverse_frequency(0, 1000) == inverse_frequency(1, 1000) == inverse_frequency(2, 1000)
    assert len({round_frequency(frequency) for frequency in range(1_000_000)}) < 45
    assert round_frequency(1000) == pytest.approx(1000, rel=0.2)


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 10**9))
def test_rarer_terms_weigh_no_less(one, other, total):
    rarer, commoner = sorted((one, other))
    assert inverse_frequency(rarer, total) >= inverse_frequency(commoner, total) > 0


@given(st.text(max_size=400))
def test_any_text_makes_a_vector_pgvector_can_hold(text):
    [vector] = weigh_chunks([text], title=text[:20], stemming=ENGLISH)
    assert all(1 <= term <= TERM_DIMENSIONS and 0 < weight < 1 for term, weight in vector.items())
    assert read_sparsevec(as_sparsevec(vector)) == pytest.approx(vector)


@given(st.text(max_size=200), st.text(max_size=200))
def test_counts_of_two_texts_add_up(one, other):
    together = count_terms(f"{one} {other}", ENGLISH)
    assert together == count_terms(one, ENGLISH) + count_terms(other, ENGLISH)


def test_a_pasted_page_is_asked_by_its_rarest_terms():
    words = [f"w{number}" for number in range(500)]
    frequencies = {term_of(word, ENGLISH): 1 + number * 1000 for number, word in enumerate(words)}
    vector = weigh_query(words, stemmings=[ENGLISH], frequencies=frequencies, total=10**6)
    assert len(vector) == 128
    assert term_of("w0", ENGLISH) in vector
    assert term_of("w499", ENGLISH) not in vector
    assert all(math.isfinite(weight) and weight > 0 for weight in vector.values())
