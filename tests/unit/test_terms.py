"""Words to weighted terms."""

import math
import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.index import terms
from service.index.stop_words import INDEX_STOP_WORDS, QUERY_STOP_WORDS
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
        assert terms.term_of(one, ENGLISH) == terms.term_of(other, ENGLISH) != 0
    words = ["ship", "boat", "harbour", "2291", "INV", "naïve"]
    assert len({terms.term_of(word, ENGLISH) for word in words}) == len(words)
    assert terms.term_of("running", "simple") != terms.term_of("runs", "simple")
    assert terms.term_of("x" * 5000, "simple") == terms.term_of("x" * 64, "simple")
    # Its place is where its hash says, so that indexes stay readable.
    assert terms.term_of("ships", ENGLISH) == 477490827


@pytest.mark.parametrize(("word", "stem"), STEMS.items())
def test_stems_stay_those_of_existing_indexes(word, stem):
    """Another stemmer, or another version of it, must not change what a stored term means."""
    assert terms.term_of(word, ENGLISH) == terms.term_of(stem, "simple")


def test_the_title_counts_twice():
    [vector] = terms.weigh_chunks(["ship boat"], title="ship", stemming=ENGLISH)
    length = 4
    norm = 1.2 * (0.6 + 0.4 * length / 80)
    assert vector == pytest.approx(
        {terms.term_of("ship", ENGLISH): 3 / (3 + norm), terms.term_of("boat", ENGLISH): 1 / (1 + norm)}
    )


def test_query_words_leave_out_what_says_nothing():
    """A query of nothing but stop words is asked with the words that are indexed, if there are any."""
    assert terms.query_words("When does the Ferry leave, please?", [ENGLISH]) == ["Ferry", "leave"]
    assert terms.query_words("who are you", [ENGLISH]) == ["who", "you"]
    assert terms.query_words("to be or not to be", [ENGLISH]) == []


def test_idf_is_never_negative_and_tells_little():
    assert terms.inverse_frequency(0, 0) > 0
    assert terms.inverse_frequency(0, 1000) == terms.inverse_frequency(1, 1000) == terms.inverse_frequency(2, 1000)
    assert len({terms.round_frequency(frequency) for frequency in range(1_000_000)}) < 45
    assert terms.round_frequency(1000) == pytest.approx(1000, rel=0.2)


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 10**9))
def test_rarer_terms_weigh_no_less(one, other, total):
    rarer, commoner = sorted((one, other))
    assert terms.inverse_frequency(rarer, total) >= terms.inverse_frequency(commoner, total) > 0


@given(st.text(max_size=400))
def test_any_text_makes_a_vector_pgvector_can_hold(text):
    [vector] = terms.weigh_chunks([text], title=text[:20], stemming=ENGLISH)
    assert all(1 <= term <= TERM_DIMENSIONS and 0 < weight < 1 for term, weight in vector.items())
    assert terms.read_sparsevec(terms.as_sparsevec(vector)) == pytest.approx(vector)


@given(st.text(max_size=200), st.text(max_size=200))
def test_counts_of_two_texts_add_up(one, other):
    """Lines are read apart; within a line, words have forms by what stands beside them."""
    assert terms.count_terms(f"{one}\n{other}", ENGLISH) == pytest.approx(
        Counter(terms.count_terms(one, ENGLISH)) + Counter(terms.count_terms(other, ENGLISH))
    )


def test_a_pasted_page_is_asked_by_its_rarest_terms():
    words = [f"w{number}" for number in range(500)]
    frequencies = {terms.term_of(word, ENGLISH): 1 + number * 1000 for number, word in enumerate(words)}
    vector = terms.weigh_query(" ".join(words), stemmings=[ENGLISH], frequencies=frequencies, total=10**6)
    assert len(vector) == 128
    assert terms.term_of("w0", ENGLISH) in vector
    assert terms.term_of("w499", ENGLISH) not in vector
    assert all(math.isfinite(weight) and weight > 0 for weight in vector.values())
