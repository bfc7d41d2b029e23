"""Scores of a reranking endpoint, and their blend with the search's order."""

import asyncio
import json
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
    """The stand-in."""
    with serving_reranking() as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def behave(endpoint: RerankingEndpoint) -> None:
    """Begin with an endpoint that works."""
    endpoint.behave()


def score(
    endpoint: RerankingEndpoint,
    texts: list[str],
    *,
    times: int = 1,
    key: str = KEY,
    seconds: float = 10.0,
    model: str = "",
) -> tuple[Mapping[int, float] | Outcome, Reranker, Share]:
    """Ask for scores so many times; returns the last ones or why there are none, and who asked."""
    share = Share()

    async def ask() -> tuple[Mapping[int, float] | Outcome, Reranker, Share]:
        settings = Settings(
            reranking_api_key=SecretStr(key), reranking_seconds=seconds, reranking_model=model or None, workers=1
        )
        reranker = Reranker(endpoint.url, settings, share=share)
        try:
            for _ in range(times - 1):
                await reranker.score("which?", texts)
            return await reranker.score("which?", texts), reranker, share
        except NotReranked as error:
            return error.outcome, reranker, share
        finally:
            await reranker.close()

    return asyncio.run(ask())


def rows(*pairs: tuple[int, float], name: str = "relevance_score", within: str = "results") -> Answer:
    """An answer with these scores by index."""
    return 200, {within: [{"index": index, name: value} for index, value in pairs]}


ANSWERS: dict[str, tuple[Answer, object]] = {
    "scores under `data`": (rows(*SCORES.items(), within="data"), SCORES),
    "further members": ((200, {"results": [{"index": 1, "relevance_score": 1, "document": {"text": "x"}}]}), {1: 1.0}),
    "fewer than asked": (rows((3, 0.5), (1, 0.1)), {3: 0.5, 1: 0.1}),
    "none at all": ((200, {"results": []}), Outcome.FAILED),
    "no number": (
        (200, json.dumps({"results": [{"index": 0, "relevance_score": float("nan")}]}).encode()),
        Outcome.FAILED,
    ),
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
def test_only_scores_of_the_texts_asked_for_are_taken(endpoint: RerankingEndpoint, case: str) -> None:
    """Each answer is read as scores by place, or counts as a failure; never as anything else."""
    answer, expected = ANSWERS[case]
    endpoint.answer = lambda _: answer
    assert score(endpoint, TEXTS)[0] == expected


def test_it_asks_in_the_shape_that_the_endpoint_takes(endpoint: RerankingEndpoint) -> None:
    """In the common shape with the model's name; in the other one, in parts, once the first has been refused."""
    many = [*TEXTS, *(["plain"] * 46)]
    expected = {place: SCORES.get(place, 0.0) for place in range(50)}
    assert score(endpoint, many, model="large")[0] == expected
    assert endpoint.asked == [{"model": "large", "query": "which?", "documents": many, "top_n": 50}]
    endpoint.behave()
    endpoint.answer = in_shape_of_tei
    assert score(endpoint, many, times=2)[0] == expected
    assert [len(body.get("texts", ())) for body in endpoint.asked].count(0) == 1
    assert sorted(len(body["texts"]) for body in endpoint.asked if "texts" in body) == [18, 18, 32, 32]


def test_what_is_sent_is_cut(endpoint: RerankingEndpoint) -> None:
    """However long a query or text is, the model reads no more of it than it takes."""
    endpoint.answer = in_common_shape
    assert score(endpoint, ["x" * 100_000, "y"])[0] == {0: 0.0, 1: 0.0}
    assert [len(text) for text in endpoint.texts] == [reranking.LONGEST_TEXT, 1]


def test_an_endpoint_that_is_slow_or_away_rests(endpoint: RerankingEndpoint) -> None:
    """After its time it isn't waited for, and the next search doesn't ask; a refused request says nothing of others."""
    endpoint.open.clear()
    outcome, reranker, share = score(endpoint, TEXTS, seconds=0.1)
    assert outcome is Outcome.TIMED_OUT
    assert reranker.outcomes == {Outcome.ANSWERED: 0, Outcome.TIMED_OUT: 1, Outcome.FAILED: 0}
    assert share.total(Figure.NOT_RERANKED_AT) > 0 == share.total(Figure.RERANKED_AT)
    with pytest.raises(NotReranked, match="timed_out"):
        asyncio.run(reranker.score("which?", TEXTS))
    assert len(endpoint.asked) == 1
    endpoint.behave()
    outcome, reranker, _ = score(endpoint, TEXTS, key="another")
    assert outcome is Outcome.FAILED
    assert not reranker.in_service
    endpoint.answer = lambda _: (413, {"message": "too long"})
    assert score(endpoint, TEXTS)[1].in_service


@given(st.lists(st.none() | st.sampled_from([-1.5, 0.0, 0.25, 7.0]), max_size=60))
@settings(deadline=None)
def test_the_blend_keeps_every_item_once_and_agrees_with_whom_agrees(given_scores: list[float | None]) -> None:
    """It is a permutation; who is before another in both rankings stays before it; equal scores change nothing."""
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
