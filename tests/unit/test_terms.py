"""Words to weighted terms: further forms, and the keys for searches."""

import math
import time
import tomllib
import unicodedata
from bisect import bisect_right
from collections import Counter
from dataclasses import astuple
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.domains.search.snippets import snippet_of
from service.domains.search.spelling import stretches_within, words_without
from service.index import terms
from service.index.forms import find_forms, forms_of_word
from service.index.stop_words import INDEX_STOP_WORDS, QUERY_STOP_WORDS
from service.index.term_keys import MOST_READ, choose_keys
from service.index.terms import count_terms, find_matches, read_query, term_of, weigh_chunks, weigh_query
from service.index.tokenization import split_words
from service.schema.indexing import TERM_DIMENSIONS
from tests.harness.cases import cases

ENGLISH = "english"
# As snowballstemmer 3.1.1 has them, which made the indexes that exist.
STEMS: dict[str, str] = cases("stems")


def test_terms_are_as_the_design_fixes_them():
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
    """Another stemmer, or another version, would change the meaning of stored terms."""
    assert terms.term_of(word, ENGLISH) == terms.term_of(stem, "simple")


def test_the_title_counts_twice():
    [vector] = terms.weigh_chunks(["ship boat"], title="ship", stemming=ENGLISH)
    length = 4
    norm = 1.2 * (0.6 + 0.4 * length / 80)
    assert vector == pytest.approx(
        {terms.term_of("ship", ENGLISH): 3 / (3 + norm), terms.term_of("boat", ENGLISH): 1 / (1 + norm)}
    )


def test_query_words_leave_out_what_says_nothing():
    """A query of only stop words uses the indexed words, if any."""
    assert read_query("When does the Ferry leave, please?", (ENGLISH,)).words == ("Ferry", "leave")
    assert read_query("who are you", (ENGLISH,)).words == ("who", "you")
    assert read_query("to be or not to be", (ENGLISH,)).words == ()
    both = ("english", "german")
    assert read_query("Wie lang ist die Frist?", both).words == ("lang", "Frist")
    assert read_query("die casting", both).words == ("die", "casting")


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


def test_a_query_finds_traditional_chinese_before_the_index_is_renewed() -> None:
    assert {term_of(text, "english") for text in ("報銷", "报销")} <= {*terms.terms_of("報銷單", ["english"])[0]}


@given(st.text(max_size=200), st.text(max_size=200))
def test_counts_of_two_texts_add_up(one, other):
    assert terms.count_terms(f"{one}\n\n{other}", ENGLISH) == pytest.approx(
        Counter(terms.count_terms(one, ENGLISH)) + Counter(terms.count_terms(other, ENGLISH))
    )


def test_a_pasted_page_is_asked_by_its_rarest_terms():
    words = [f"w{number}" for number in range(500)]
    frequencies = {terms.term_of(word, ENGLISH): 1 + number * 1000 for number, word in enumerate(words)}
    vector = terms.weigh_query(read_query(" ".join(words), (ENGLISH,)), frequencies=frequencies, total=10**6)
    assert len(vector) == 128
    assert terms.term_of("w0", ENGLISH) in vector
    assert terms.term_of("w499", ENGLISH) not in vector
    assert all(math.isfinite(weight) and weight > 0 for weight in vector.values())


CASES = tomllib.loads((Path(__file__).parents[1] / "data/cases/word-forms.toml").read_text())
# The share of the score of the exact spelling: of what is found, what is found behind it, and what is another matter.
SHARES = {"found": (0.0, 9.0), "behind": (0.0, 0.95), "apart": (-1.0, 0.5)}
STEMMINGS = ("english",)


def score(query: str, *texts: str) -> float:
    chunks = weigh_chunks(texts, title="", stemming="english")
    frequencies = {term: sum(term in chunk for chunk in chunks) for chunk in chunks for term in chunk}
    weights = weigh_query(read_query(query, STEMMINGS), frequencies=frequencies, total=len(chunks))
    return sum(weight * chunks[0].get(term, 0.0) for term, weight in weights.items())


@pytest.mark.parametrize(("kind", "query", "text"), [(kind, *case) for kind in SHARES for case in CASES[kind]])
def test_another_spelling_has_a_share_of_the_score(kind, query, text):
    low, high = SHARES[kind]
    assert low < score(query, text, query) / score(query, query, text) < high


@pytest.mark.parametrize(("query", "text"), CASES["behind"])
def test_the_exact_spelling_is_first_where_its_pieces_are_everywhere(query, text):
    others = [f"{word} {number}" for word in split_words(f"{query} {text}") for number in range(30)]
    assert score(query, query, text, *others) > score(query, text, query, *others) > 0


@pytest.mark.parametrize(("stemming", "text"), CASES["plain"])
def test_usual_words_have_no_further_form(stemming, text):
    assert count_terms(text, stemming).keys() == {term_of(word, stemming) for word in split_words(text)} - {0}


@pytest.mark.parametrize(("query", "text", "marked"), CASES["marked"])
def test_what_is_found_by_any_form_is_marked_as_it_stands(query, text, marked):
    terms = read_query(query, STEMMINGS).marked
    shown, matches = astuple(snippet_of(text, terms, stemmings=STEMMINGS))
    assert [shown[start:end] for start, end in matches] == marked


@pytest.mark.parametrize("query", [*CASES["weighed"], " ".join(f"w{n}-x" for n in range(99))])
def test_weights_do_not_tell_whether_a_chunk_has_a_term(query):
    """Unreadable chunks count only in rounded frequencies, where none, one and two are equal."""
    found = {term: 0 for each in read_query(query, STEMMINGS).sought for term in each.terms}
    weights = weigh_query(read_query(query, STEMMINGS), frequencies=found, total=100)
    old = weigh_query(read_query(query, STEMMINGS, has_old_forms=True), frequencies={}, total=100)
    assert all(old[term] >= weight for term, weight in weights.items() if term in old)  # texts that have words alone
    for term, count in product(found, (1, 2)):
        assert weigh_query(read_query(query, STEMMINGS), frequencies=found | {term: count}, total=100) == weights


def test_years_in_a_row_are_words():
    assert {each.weight for each in read_query("budget 2024 2025", STEMMINGS).sought if each.is_own} == {1.0}


@pytest.mark.parametrize(("query", "text", "matched"), CASES["matched"])
def test_words_that_a_text_is_said_to_contain(query, text, matched):
    read = read_query(query, STEMMINGS)
    found = {term for match in find_matches(text, read.marked, STEMMINGS) for term in match.terms}
    assert [each for word, its in read.by_word.items() for each in stretches_within(word, its, found)] == matched


@pytest.mark.parametrize("repeated", ["a1 ", "a-", "1 234 ", "IT x ", "年", "1 May 2025 ", "C# "])
def test_a_long_query_costs_little(repeated):
    query, began = (repeated * 8192)[:8192], time.process_time()
    words = read_query(query, STEMMINGS).by_word
    assert [words_without(words, frozenset()) for _ in range(100)] == [words] * 100
    weigh_query(read_query(query, STEMMINGS), frequencies={}, total=100)
    assert time.process_time() - began < 2


@given(st.text("aB1 .,-_/'+#&é\u200cß٣\u0301\n年Q:@(", max_size=60))
@example("_:_\u0301")
def test_forms_stand_within_any_text(text):
    for start, end, form, share, rest in (*find_forms(text), *forms_of_word(text.strip() or "x", "german")):
        assert 0 <= start < end <= max(len(text), 1)
        assert all((form, 0 < share <= 1, 0 < (1 if rest is None else rest) <= 1))
    terms = read_query(text, STEMMINGS).terms
    found = find_matches(text, terms, STEMMINGS)
    assert all(0 <= start < end <= len(text) and terms.issuperset(its) for start, end, its in found)


TERMS = st.integers(1, 2**29)
LOOKED_UP = st.dictionaries(TERMS, st.tuples(st.floats(0.05, 20), st.integers(0, 10**6)), min_size=1, max_size=12)
SPACE = 7
HIGHEST = (0.499999, 0.599999, 0.699999, 0.999999)


def keys_of(weights: dict[int, float]) -> dict[int, int]:
    """Return the keys of a chunk's terms, as the database makes them (tests/service/test_lexical_leg.py compares)."""
    return {
        (SPACE << 31) + (term - 1) * 4 + bisect_right([0.5, 0.6, 0.7], weight): term for term, weight in weights.items()
    }


@given(LOOKED_UP, st.integers(0, 2**21))
def test_the_bound_is_the_most_that_what_is_not_found_may_score(query: dict[int, tuple[float, int]], most: int) -> None:
    weights = {term: weight for term, (weight, _) in query.items()}
    frequencies = {term: frequency for term, (_, frequency) in query.items()}
    lookup = choose_keys(weights, space_id=SPACE, frequencies=frequencies, most=most)
    score = 0.0
    for term, weight in weights.items():
        unfound = [high for high in HIGHEST if not {*keys_of({term: high})} & {*lookup.keys}]
        score += weight * max(unfound, default=0)
    assert lookup.bound - 1e-3 < score <= lookup.bound


@given(st.dictionaries(TERMS, st.floats(0.05, 20), min_size=1, max_size=40))
def test_rare_terms_are_looked_up_whole(weights: dict[int, float]) -> None:
    lookup = choose_keys(weights, space_id=SPACE, frequencies=dict.fromkeys(weights, 3))
    assert lookup.bound == 0
    assert len({*lookup.keys}) == 4 * len(weights)
    assert {key >> 31 for key in lookup.keys} == {SPACE}


def test_a_rare_term_comes_before_a_common_one() -> None:
    rare, common = 5, 6
    frequencies = {rare: 200, common: 15 * MOST_READ}
    lookup = choose_keys({rare: 8.0, common: 1.0}, space_id=SPACE, frequencies=frequencies)
    assert {key for key, term in keys_of({rare: 0.1}).items() if term == rare} <= {*lookup.keys}
    assert [key & 3 for key in lookup.keys if (key >> 2) & (2**29 - 1) == common - 1] == [3]
    assert lookup.bound == 0.7
    frequencies[common] = 10**7
    assert choose_keys({common: 1.0}, space_id=SPACE, frequencies=frequencies).keys == ()
