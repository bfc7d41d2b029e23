"""Which keys of a query's terms are looked up, and what the chunks that are not found may score at most."""

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from service.index.term_keys import MOST_READ, choose_keys

TERMS = st.integers(1, 2**29)
QUERIES = st.dictionaries(TERMS, st.tuples(st.floats(0.05, 20), st.integers(0, 10**6)), min_size=1, max_size=12)
SPACE = 7
HIGHEST = (0.499999, 0.599999, 0.699999, 0.999999)


def keys_of(weights: dict[int, float]) -> dict[int, int]:
    """The keys of a chunk's terms, as the database makes them (tests/service/test_lexical_leg.py compares)."""
    return {
        (SPACE << 31) + (term - 1) * 4 + bisect_right([0.5, 0.6, 0.7], weight): term for term, weight in weights.items()
    }


@given(QUERIES, st.integers(0, 2**21))
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
