"""An OpenAI-compatible endpoint stands in for the local model; what it does wrong is said clearly, its key never."""

import asyncio
import json
import threading
from collections.abc import Callable

import httpx
import numpy as np
import pytest
from pydantic import SecretStr

from service.platform.errors import BadRequest, Unavailable
from service.platform.settings import Settings
from service.text.embedding import Embedders, remote_models
from service.text.embedding import remote as remote_module
from service.text.embedding.models import WordPieces
from service.text.embedding.remote import TEXTS_A_REQUEST, RemoteEmbedder, endpoint
from service.text.embedding.weights import locate

TOKENIZER = WordPieces(locate().tokenizer)
ENDPOINT = {"embeddings_url": "http://m.test", "embeddings_model": "m", "embeddings_dimensions": 768}
Answer = Callable[[httpx.Request], httpx.Response]


def embedder(answer: Answer, *, ask_for_dimensions: bool = True, workers: int = 1) -> RemoteEmbedder:
    return RemoteEmbedder(
        url="http://models.test/v1",
        api_key=SecretStr("sk-not-to-be-seen"),
        model="a-model",
        dimensions=384,
        ask_for_dimensions=ask_for_dimensions,
        tokenizer=TOKENIZER,
        workers=workers,
        transport=httpx.MockTransport(answer),
    )


def vector(text: str, dimensions: int = 384) -> list[float]:
    """Make a vector up whose first number tells the text."""
    return [float(text.rsplit(maxsplit=1)[-1]) if text.strip() else 1.0, 3.0] + [0.0] * (dimensions - 2)


def good(request: httpx.Request) -> httpx.Response:
    """Answer as an endpoint does, though in another order."""
    texts = json.loads(request.content)["input"]
    rows = [{"index": number, "embedding": vector(text), "object": "embedding"} for number, text in enumerate(texts)]
    return httpx.Response(200, json={"object": "list", "data": rows[::-1], "usage": {"total_tokens": 1}})


def one_vector(numbers: list[float]) -> httpx.Response:
    return httpx.Response(200, json={"data": [{"index": 0, "embedding": numbers}]})


async def test_order_and_length():
    remote = embedder(good)
    count = 2 * TEXTS_A_REQUEST + 5
    rows = await remote.embed([f"text {number}" for number in range(1, count + 1)])
    assert np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 1e-6
    assert np.allclose(rows[:, 0] / rows[:, 1] * 3, range(1, count + 1), rtol=1e-5)
    assert remote.texts_embedded == count


@pytest.mark.parametrize(("workers", "most"), [(1, 4), (2, 2), (3, 1), (9, 1)])
async def test_workers_share_the_requests_at_a_time(workers: int, most: int) -> None:
    under_way, seen = 0, list[int]()

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal under_way
        under_way += 1
        seen.append(under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return good(request)

    remote = embedder(answer, workers=workers)  # pyright: ignore[reportArgumentType]
    await remote.embed([f"text {number}" for number in range(9 * TEXTS_A_REQUEST)])
    assert max(seen) == most


async def test_what_is_asked():
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return good(request)

    await embedder(answer).embed([""])
    body = json.loads(seen[0].content)
    assert str(seen[0].url) == "http://models.test/v1/embeddings"
    assert seen[0].headers["Authorization"] == "Bearer sk-not-to-be-seen"
    assert body == {"model": "a-model", "input": [" "], "encoding_format": "float", "dimensions": 384}
    await embedder(answer, ask_for_dimensions=False).embed(["1 " * 300])
    assert "dimensions" not in json.loads(seen[1].content)
    assert len(json.loads(seen[1].content)["input"][0].split()) == 254


async def test_passing_failures_are_retried(monkeypatch: pytest.MonkeyPatch):
    pauses: list[float] = []
    original, here = asyncio.sleep, threading.get_ident()

    async def sleep(seconds: float) -> None:
        # Other threads of this process have event loops of their own, which sleep as they did.
        if threading.get_ident() != here:
            await original(seconds)
        else:
            pauses.append(seconds)

    monkeypatch.setattr(remote_module.asyncio, "sleep", sleep)
    failures = iter(["lost", httpx.Response(503), httpx.Response(429, headers={"Retry-After": "7"})])

    def answer(request: httpx.Request) -> httpx.Response:
        failure = next(failures, None)
        if failure == "lost":
            raise httpx.ConnectError("no route", request=request)
        return failure if isinstance(failure, httpx.Response) else good(request)

    assert (await embedder(answer).embed(["text 4"])).shape == (1, 384)
    assert pauses[2] == 7
    assert pauses[0] < pauses[1] * 2 <= 2


@pytest.mark.parametrize(
    ("response", "code", "says"),
    [
        (httpx.Response(429, headers={"Retry-After": "90"}), "embeddings_unavailable", "90 s"),
        (httpx.Response(401, text="bad key"), "embeddings_misconfigured", "CARREL_EMBEDDINGS_API_KEY"),
        (httpx.Response(404, text="no such model"), "embeddings_misconfigured", "_MODEL"),
        (httpx.Response(200, text="<html>"), "embeddings_misconfigured", "CARREL_EMBEDDINGS_URL"),
        (httpx.Response(200, json={"data": []}), "embeddings_misconfigured", "other texts"),
        (one_vector([1.0] * 1536), "embeddings_misconfigured", "1536 numbers, not 384"),
        (one_vector([0.0] * 384), "embeddings_misconfigured", "no dir"),
    ],
)
async def test_refusals_are_clear(response: httpx.Response, code: str, says: str):
    with pytest.raises(Unavailable, match=says) as refused:
        await embedder(lambda _: response).embed(["text 1"])
    assert refused.value.code == code
    assert "Retry-After" in refused.value.headers
    assert "sk-not" not in str(refused.value)


def test_endpoint_addresses():
    assert endpoint("https://models.test/v1/") == "https://models.test/v1/embeddings"
    assert endpoint("https://models.test/v1/embeddings") == "https://models.test/v1/embeddings"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"embeddings_url": "http://m.test"}, "CARREL_EMBEDDINGS_MODEL must name"),
        ({**ENDPOINT, "embeddings_model": "all-MiniLM-L6-v2"}, "local model's name"),
        ({**ENDPOINT, "embeddings_dimensions": 1537}, "index tables for"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, object], says: str):
    with pytest.raises(ValueError, match=says):
        remote_models(Settings.model_validate(settings))


def test_further_models_of_an_endpoint():
    def settings(further: str) -> Settings:
        return Settings.model_validate({**ENDPOINT, "embeddings_further_models": further})

    assert remote_models(settings("")) == {"m": 768}
    further = remote_models(settings("large=1536, a/b:c=384"))
    assert list(further.items()) == [("m", 768), ("large", 1536), ("a/b:c", 384)]
    with pytest.raises(ValueError, match="FURTHER_MODELS is 1537"):
        remote_models(settings("large=1537"))
    for known in ("m=384", "all-MiniLM-L6-v2=384"):
        with pytest.raises(ValueError, match="already"):
            remote_models(settings(known))
    with pytest.raises(ValueError, match="such as large=1536"):
        settings("large")
    with pytest.raises(ValueError, match="set that"):
        remote_models(Settings.model_validate({"embeddings_further_models": "large=1536"}))


def test_unknown_models_are_refused():
    remote = embedder(good)
    embedders = Embedders(remote)
    assert embedders.get() is embedders.get("a-model") is remote
    with pytest.raises(BadRequest, match="there are: a-model") as refused:
        embedders.get("another")
    assert refused.value.code == "unknown_model"
