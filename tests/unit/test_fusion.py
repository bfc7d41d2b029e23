"""Scores: the fusion of two rankings, and the blend with a reranking endpoint's order."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from service.domains.search.fusion import Fusion, Legs, Scale, Scores, fuse, fusion_of, scale_of, smooth_scores
from service.domains.search.reranking import blend
from service.domains.search.search_query import WHOLE, Hit
from service.platform.settings import Settings
from service.platform.sharing import Figure, Share
from service.text import reranking
from service.text.reranking import NotReranked, Outcome, Reranker
from tests.harness.cases import cases
from tests.harness.http_servers import Answer
from tests.harness.reranking import KEY, RerankingEndpoint, in_common_shape, in_shape_of_tei, serving_reranking

COSINES = st.floats(-1, 1, width=32)


@st.composite
def searches(draw):
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


TEXTS = ["plain", "splendid splendid", "dreadful", "splendid"]
SCORES = {0: 0.0, 1: 2.0, 2: -1.0, 3: 1.0}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[RerankingEndpoint]:
    with serving_reranking() as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def behave(endpoint: RerankingEndpoint) -> None:
    endpoint.behave()


async def score(
    endpoint: RerankingEndpoint, texts: list[str], *, times: int = 1, key: str = KEY, **options: object
) -> tuple[Mapping[int, float] | Outcome, Reranker, Share]:
    share = Share()
    settings = Settings(reranking_api_key=SecretStr(key), workers=1, **{"reranking_seconds": 10.0, **options})
    reranker = Reranker(endpoint.url, settings, share=share)
    try:
        for _ in range(times - 1):
            await reranker.score("which?", texts)
        return await reranker.score("which?", texts), reranker, share
    except NotReranked as error:
        return error.outcome, reranker, share
    finally:
        await reranker.close()


def rows(*pairs: tuple[int, float], name: str = "relevance_score", within: str = "results") -> Answer:
    return 200, {within: [{"index": index, name: value} for index, value in pairs]}


ANSWERS: dict[str, tuple[Answer, object]] = {
    "scores under `data`": (rows(*SCORES.items(), within="data"), SCORES),
    "further members": ((200, {"results": [{"index": 1, "relevance_score": 1, "document": {"text": "x"}}]}), {1: 1.0}),
    "fewer than asked": (rows((3, 0.5), (1, 0.1)), {3: 0.5, 1: 0.1}),
    "huge": ((200, b" " * (reranking.LARGEST_ANSWER + 1)), Outcome.FAILED),
    **{why: ((status, text.encode()), Outcome.FAILED) for why, status, text in cases("answers_without_scores")},
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_only_scores_of_the_texts_asked_for_are_taken(endpoint: RerankingEndpoint, case: str) -> None:
    answer, expected = ANSWERS[case]
    endpoint.answer = lambda _: answer
    assert (await score(endpoint, TEXTS))[0] == expected


async def test_it_asks_in_the_shape_that_the_endpoint_takes(endpoint: RerankingEndpoint) -> None:
    many = [*TEXTS, *(["plain"] * 46)]
    expected = {place: SCORES.get(place, 0.0) for place in range(50)}
    assert (await score(endpoint, many, reranking_model="large"))[0] == expected
    assert endpoint.asked == [{"model": "large", "query": "which?", "documents": many, "top_n": 50}]
    endpoint.behave()
    endpoint.answer = in_shape_of_tei
    assert (await score(endpoint, many, times=2))[0] == expected
    assert [len(body.get("texts", ())) for body in endpoint.asked].count(0) == 1
    assert sorted(len(body["texts"]) for body in endpoint.asked if "texts" in body) == [18, 18, 32, 32]


async def test_what_is_sent_is_cut(endpoint: RerankingEndpoint) -> None:
    endpoint.answer = in_common_shape
    assert (await score(endpoint, ["x" * 100_000, "y"]))[0] == {0: 0.0, 1: 0.0}
    assert [len(text) for text in endpoint.texts] == [reranking.LONGEST_TEXT, 1]


async def test_an_endpoint_that_is_slow_or_away_rests(endpoint: RerankingEndpoint) -> None:
    endpoint.open.clear()
    outcome, reranker, share = await score(endpoint, TEXTS, reranking_seconds=0.1)
    assert outcome is Outcome.TIMED_OUT
    assert reranker.outcomes == {Outcome.ANSWERED: 0, Outcome.TIMED_OUT: 1, Outcome.FAILED: 0}
    assert share.total(Figure.NOT_RERANKED_AT) > 0 == share.total(Figure.RERANKED_AT)
    with pytest.raises(NotReranked, match="timed_out"):
        await reranker.score("which?", TEXTS)
    assert len(endpoint.asked) == 1
    endpoint.behave()
    outcome, reranker, _ = await score(endpoint, TEXTS, key="another")
    assert outcome is Outcome.FAILED
    assert not reranker.in_service
    endpoint.answer = lambda _: (413, {"message": "too long"})
    assert (await score(endpoint, TEXTS))[1].in_service


@given(st.lists(st.none() | st.sampled_from([-1.5, 0.0, 0.25, 7.0]), max_size=60))
@settings(deadline=None)
def test_the_blend_keeps_every_item_once_and_agrees_with_whom_agrees(given_scores: list[float | None]) -> None:
    count = len(given_scores)
    scores = {place: score for place, score in enumerate(given_scores) if score is not None}
    order = blend(count, scores)
    assert sorted(order) == list(range(count))
    rank = {place: at for at, place in enumerate(order)}
    lowest = float("-inf")
    for one in range(count):
        for other in range(one + 1, count):
            if scores.get(one, lowest) >= scores.get(other, lowest):
                assert rank[one] < rank[other]
    assert blend(count, dict.fromkeys(range(count), 3.0)) == list(range(count))
