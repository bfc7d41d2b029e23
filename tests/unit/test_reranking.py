"""Scores of a reranking endpoint, and their blend with the search's order."""

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from service.domains.search.reranking import blend
from service.platform.settings import Settings
from service.platform.sharing import Figure, Share
from service.text import reranking
from service.text.reranking import NotReranked, Outcome, Reranker
from tests.harness.json_endpoint import Answer
from tests.harness.reranking import KEY, RerankingEndpoint, in_common_shape, in_shape_of_tei, serving_reranking

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
    """Ask for scores so many times; returns the last ones or why there are none, and who asked."""
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
    "none at all": ((200, {"results": []}), Outcome.FAILED),
    "no number": ((200, b'{"results": [{"index": 0, "relevance_score": NaN}]}'), Outcome.FAILED),
    "infinite": ((200, b'{"results": [{"index": 0, "relevance_score": 1e999}]}'), Outcome.FAILED),
    "an index twice": (rows((0, 1.0), (0, 2.0)), Outcome.FAILED),
    "an index beyond": (rows((4, 1.0)), Outcome.FAILED),
    "a negative index": (rows((-1, 1.0)), Outcome.FAILED),
    "no score": ((200, {"results": [{"index": 0}]}), Outcome.FAILED),
    "something else": ((200, {"data": "here"}), Outcome.FAILED),
    "no JSON": ((200, b"<html>"), Outcome.FAILED),
    "huge": ((200, b" " * (reranking.LARGEST_ANSWER + 1)), Outcome.FAILED),
    "moved": ((307, b""), Outcome.FAILED),
    "an error": ((500, {"message": "oh"}), Outcome.FAILED),
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
