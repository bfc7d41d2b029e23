"""From two rankings to one: what holds for any scores."""

from itertools import pairwise
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domains.search.fusion import Fusion, Legs, Scale, Scores, fuse, fusion_of, scale_of, smooth_scores
from service.domains.search.search_query import WHOLE, Hit

COSINES = st.floats(-1, 1, width=32)


@st.composite
def searches(draw):
    """Units with both scores, and the two legs that found them."""
    scores = draw(st.lists(st.tuples(st.floats(0, 60, width=32), COSINES), min_size=1, max_size=30))
    made = {Hit(UUID(int=number), WHOLE): Scores(*each) for number, each in enumerate(scores)}
    lexical = sorted((hit for hit in made if made[hit].lexical > 0), key=lambda hit: -made[hit].lexical)
    dense = sorted(made, key=lambda hit: -made[hit].dense)
    cut = draw(st.integers(0, len(made)))
    return Legs(lexical=lexical[:cut], dense=dense), made


@given(searches())
def test_a_unit_better_in_both_is_never_behind(search):
    legs, scores = search
    place = {hit: number for number, hit in enumerate(fuse(scores, fusion_of(legs, scores)))}
    for one in scores:
        for other in scores:
            if scores[one].lexical > scores[other].lexical + 1e-3 and scores[one].dense > scores[other].dense + 1e-3:
                assert place[one] < place[other]


@given(searches(), st.floats(0.5, 4), st.floats(0.5, 2))
def test_the_units_of_measure_make_no_difference(search, lexical_factor, dense_factor):
    legs, scores = search
    scaled = {hit: Scores(s.lexical * lexical_factor, s.dense * dense_factor) for hit, s in scores.items()}
    one, other = fusion_of(legs, scores), fusion_of(legs, scaled)
    if one.lexical.deviation < 1e-2 or one.dense.deviation < 1e-2:
        return
    assert one.score(scores.values()) == pytest.approx(other.score(scaled.values()), rel=1e-3, abs=1e-3)


@given(searches(), st.randoms())
def test_the_order_does_not_depend_on_how_they_came(search, random):
    legs, scores = search
    shuffled = list(scores.items())
    random.shuffle(shuffled)
    fusion = fusion_of(legs, scores)
    assert fuse(dict(shuffled), fusion) == fuse(scores, fusion)


def test_ties_go_by_document_and_chunk():
    hits = [Hit(UUID(int=2), 0), Hit(UUID(int=1), 5), Hit(UUID(int=1), 3)]
    assert fuse(dict.fromkeys(hits, Scores(1, 0.5)), Fusion(Scale(0, 1), Scale(0, 1))) == sorted(hits)


def test_the_lexical_scale_is_padded_with_zeros():
    assert scale_of([4.0], at_least=4) == Scale(1.0, pytest.approx(np.std([4, 0, 0, 0])))
    assert scale_of([4.0, 4.0], at_least=1).deviation == pytest.approx(1e-6)
    assert scale_of([], at_least=0) == Scale(0.0, 1e-6)


def test_a_search_without_words_is_the_dense_ranking():
    scores = {Hit(UUID(int=number), WHOLE): Scores(0, cosine) for number, cosine in enumerate([0.1, 0.7, 0.4])}
    legs = Legs(lexical=[], dense=list(scores))
    assert [scores[hit].dense for hit in fuse(scores, fusion_of(legs, scores))] == [0.7, 0.4, 0.1]


@given(st.floats(-1, 0.4))
def test_a_word_that_one_unit_alone_has_finds_it(far):
    copies = [Hit(UUID(int=number), WHOLE) for number in range(100)]
    scores = {hit: Scores(0, 0.5 + number / 10_000) for number, hit in enumerate(copies)}
    named = Hit(UUID(int=100), WHOLE)
    scores[named] = Scores(5, far)
    assert fuse(scores, fusion_of(Legs(lexical=[named], dense=copies), scores))[0] == named


@given(st.lists(COSINES, max_size=50))
def test_shown_scores_fall_with_the_rank(similarities):
    shown = smooth_scores(similarities)
    assert len(shown) == len(similarities)
    assert all(0 <= score <= 1 for score in shown)
    assert all(after <= before + 1e-9 for before, after in pairwise(shown))
    assert sum(shown) == pytest.approx(sum(max(0.0, similarity) for similarity in similarities), abs=1e-6)


@given(st.lists(COSINES, max_size=50))
def test_a_ranking_by_similarity_shows_the_similarity(similarities):
    ranked = sorted((max(0.0, similarity) for similarity in similarities), reverse=True)
    assert smooth_scores(ranked) == pytest.approx(ranked)
