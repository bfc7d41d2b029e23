"""Embedding in another process and at a remote endpoint: correct results and errors."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from uuid import uuid4

import httpx
import numpy as np
import pytest
from pydantic import SecretStr

from service.platform.errors import BadRequest, Unavailable
from service.platform.settings import Settings
from service.text.embedding import Embedders, exchange, remote_models
from service.text.embedding import remote as remote_module
from service.text.embedding.batching import Rows, Tokens
from service.text.embedding.exchange import DistantArithmetic, Line
from service.text.embedding.models import WordPieces
from service.text.embedding.remote import TEXTS_A_REQUEST, RemoteEmbedder, endpoint
from service.text.embedding.weights import locate
from tests.harness.cases import cases
from tests.unit.test_batching import texts

SECONDS = 20


class StandIn:
    """Gives each text the first token, and the length with a sign for documents; some texts have a meaning. Or dies."""

    BUSY, BROKEN, ENDLESS = range(3)

    def __init__(self, *, dies: bool = False) -> None:
        self.cancelled = asyncio.Event()
        self.dies = dies

    async def embed(self, texts: Sequence[Tokens], *, in_background: bool) -> Rows:
        first = int(texts[0][0])
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if first == self.BUSY:
            raise Unavailable("Busy.", code="embedding_saturated", retry_after=7)
        if first == self.BROKEN:
            raise ArithmeticError("a bad text")
        if first == self.ENDLESS:
            try:
                await asyncio.sleep(SECONDS)
            finally:
                self.cancelled.set()
        sign = -1 if in_background else 1
        return np.array([[text[0], sign * len(text)] for text in texts], np.float32)

    async def close(self) -> None:
        """Do nothing without resources."""


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.close()


@pytest.fixture
async def asking(line: Line) -> AsyncIterator[DistantArithmetic]:
    until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answering = asyncio.create_task(line.answer(StandIn(), until))
    distant = DistantArithmetic(line)
    yield distant
    await distant.close()
    until.set_result(None)
    await answering


async def test_each_gets_its_own_rows(asking: DistantArithmetic) -> None:
    lengths = [(1,), (256, 3), tuple(range(1, 257)) * 4]
    calls = [(number * 2000 + 10, part) for number, part in enumerate(lengths * 5)]
    rows = await asyncio.gather(
        *(asking.embed(texts(first, *part), in_background=len(part) > 2) for first, part in calls)
    )
    for (first, part), found in zip(calls, rows, strict=True):
        assert found[:, 0].tolist() == list(range(first, first + len(part)))
        assert found[:, 1].tolist() == [length * (-1 if len(part) > 2 else 1) for length in part]


async def test_what_comes_instead_of_rows_is_raised(asking: DistantArithmetic) -> None:
    with pytest.raises(Unavailable) as busy:
        await asking.embed(texts(StandIn.BUSY, 3), in_background=True)
    assert (busy.value.code, busy.value.retry_after) == ("embedding_saturated", 7)
    with pytest.raises(RuntimeError, match="a bad text"):
        await asking.embed(texts(StandIn.BROKEN, 3), in_background=False)
    assert (await asking.embed(texts(9, 3), in_background=False)).tolist() == [[9, 3]]


async def test_who_gives_up_is_not_worked_for(line: Line) -> None:
    stand_in, until = StandIn(), asyncio.get_running_loop().create_future()
    answering = asyncio.create_task(line.answer(stand_in, until))
    asking = DistantArithmetic(line)
    call = asyncio.create_task(asking.embed(texts(StandIn.ENDLESS, 3), in_background=True))
    await asking.embed(texts(9, 3), in_background=False)
    call.cancel()
    await asyncio.wait_for(stand_in.cancelled.wait(), SECONDS)
    await asking.close()
    until.set_result(None)
    await answering


async def test_a_call_outlives_the_process_that_answers(line: Line) -> None:
    asking = DistantArithmetic(line)
    calls = [asyncio.create_task(asking.embed(texts(first, 3), in_background=False)) for first in (10, 20)]
    await asyncio.sleep(0.1)
    first = fork_answering(line, dies=True)
    assert (await asyncio.to_thread(os.waitpid, first, 0))[1] == signal.SIGKILL
    second = fork_answering(line, dies=False)
    async with asyncio.timeout(SECONDS):
        assert [(await call).tolist() for call in calls] == [[[10, 3]], [[20, 3]]]
    await asking.close()
    os.kill(second, signal.SIGKILL)
    await asyncio.to_thread(os.waitpid, second, 0)


async def test_nobody_waits_for_ever(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PATIENCE_SECONDS", 0.1)
    asking = DistantArithmetic(line)
    with pytest.raises(Unavailable) as away:
        await asking.embed(texts(9, 3), in_background=False)
    assert away.value.code == "embedding_away"


def fork_answering(line: Line, *, dies: bool) -> int:
    child = os.fork()
    if child:
        return child

    async def work() -> None:
        await line.answer(StandIn(dies=dies), asyncio.get_running_loop().create_future())

    asyncio.run(work())
    os._exit(0)


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
    """Return a vector with a first number for identifying the text."""
    return [float(text.rsplit(maxsplit=1)[-1]) if text.strip() else 1.0, 3.0] + [0.0] * (dimensions - 2)


def good(request: httpx.Request) -> httpx.Response:
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


@pytest.mark.parametrize(("settings", "says"), cases("unfit_settings_of_embedding"))
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
    with pytest.raises(ValueError, match="set CARREL_EMBEDDINGS_URL"):
        remote_models(Settings.model_validate({"embeddings_further_models": "large=1536"}))


async def test_a_repeated_query_of_the_same_person_needs_no_model(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("service.text.embedding.MOST_REMEMBERED", 2)
    embedders, people, counts = Embedders(embedder(good)), [uuid4(), uuid4()], list[int]()
    for person, text in ((0, "1"), (0, "1"), (1, "1"), (0, "1"), (0, "2"), (0, "1"), (1, "1")):
        [found] = await embedders.embed_query([text], model="a-model", asker=people[person])
        assert round(float(found[0] / found[1] * 3)) == int(text)
        counts.append(embedders.texts_embedded)
    assert counts == [1, 1, 2, 2, 3, 3, 4]


def test_unknown_models_are_refused():
    remote = embedder(good)
    embedders = Embedders(remote)
    assert embedders.get() is embedders.get("a-model") is remote
    with pytest.raises(BadRequest, match="Choose one of: a-model") as refused:
        embedders.get("another")
    assert refused.value.code == "unknown_model"
