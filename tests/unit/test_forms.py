"""The further forms of words, on both sides of a search."""

import time
import tomllib
from dataclasses import astuple
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domains.search.snippets import snippet_of
from service.domains.search.spelling import words_within
from service.index.forms import MARKED, find_forms, forms_of_word
from service.index.terms import count_terms, find_matches, read_query, term_of, weigh_chunks, weigh_query
from service.index.tokenization import split_words

CASES = tomllib.loads((Path(__file__).parents[1] / "data/cases/word-forms.toml").read_text())
# The share of the score of the exact spelling: of what is found, what is found behind it, and what is another matter.
SHARES = {"found": (0.0, 9.0), "behind": (0.0, 0.95), "apart": (-1.0, 0.5)}
STEMMINGS = ("english",)


def score(query: str, *texts: str) -> float:
    chunks = weigh_chunks(texts, title="", stemming="english")
    frequencies = {term: sum(term in chunk for chunk in chunks) for chunk in chunks for term in chunk}
    weights = weigh_query(query, stemmings=STEMMINGS, frequencies=frequencies, total=len(chunks))
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
    terms = {term for each in read_query(query, STEMMINGS).sought if each.share >= MARKED for term in each.terms}
    shown, matches = astuple(snippet_of(text, terms, stemmings=STEMMINGS))
    assert [shown[start:end] for start, end in matches] == marked


QUERIES = [
    "budget 1,234.56",
    "x-ray of 2025-03-04",
    "the WH-1000XM5 manual",
    "getUserName M8x40",
    "C# guide",
    "wi fi",
    " ".join(f"w{n}-x" for n in range(99)),
]


@pytest.mark.parametrize("query", QUERIES)
def test_weights_do_not_tell_whether_a_chunk_has_a_term(query):
    """What the reader can't see counts among the rounded frequencies alone, in which none, one and two are equal."""
    found = {term: 0 for each in read_query(query, STEMMINGS).sought for term in each.terms}
    weights = weigh_query(query, stemmings=STEMMINGS, frequencies=found, total=100)
    old = weigh_query(query, stemmings=STEMMINGS, frequencies={}, total=100, has_old_forms=True)
    assert all(old[term] >= weight for term, weight in weights.items() if term in old)  # texts that have words alone
    for term, count in product(found, (1, 2)):
        assert weigh_query(query, stemmings=STEMMINGS, frequencies=found | {term: count}, total=100) == weights


def test_years_in_a_row_are_words():
    assert {each.weight for each in read_query("budget 2024 2025", STEMMINGS).sought if each.is_own} == {1.0}


@pytest.mark.parametrize(("query", "text", "matched"), CASES["matched"])
def test_words_that_a_text_is_said_to_contain(query, text, matched):
    read = read_query(query, STEMMINGS)
    found = {term for match in find_matches(text, read.marked, STEMMINGS) for term in match.terms}
    assert words_within(read.by_word, found) == matched


@pytest.mark.parametrize("repeated", ["a1 ", "a-", "1 234 ", "IT x ", "年", "1 May 2025 ", "C# "])
def test_a_long_query_costs_little(repeated):
    query, began = (repeated * 8192)[:8192], time.process_time()
    words = read_query(query, STEMMINGS).by_word
    assert [words_within(words, frozenset()) for _ in range(100)] == [[]] * 100
    weigh_query(query, stemmings=STEMMINGS, frequencies={}, total=100)
    assert time.process_time() - began < 2


@given(st.text("aB1 .,-_/'+#&é\u200cß٣\u0301\n年Q:@(", max_size=60))
def test_forms_stand_within_any_text(text):
    for start, end, form, share, rest in (*find_forms(text), *forms_of_word(text.strip() or "x", "german")):
        assert 0 <= start < end <= max(len(text), 1)
        assert all((form, 0 < share <= 1, 0 < (1 if rest is None else rest) <= 1))
    terms = read_query(text, STEMMINGS).terms
    found = find_matches(text, terms, STEMMINGS)
    assert all(0 <= start < end <= len(text) and terms.issuperset(its) for start, end, its in found)
