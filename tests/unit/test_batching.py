"""Calls share the model fairly: order kept, small texts first, none starved, and overload refused early."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from service.platform.errors import Unavailable
from service.text.embedding import batching
from service.text.embedding.batching import Batcher, BatchLimits, Rows, Tokens


class StandIn:
    """Runs batches without a model: a text's row is the first token and the length. Waits at a gate on request."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.lengths: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def __call__(self, texts: Sequence[Tokens]) -> Rows:
        self.batches.append([int(text[0]) for text in texts])
        self.lengths.append([len(text) for text in texts])
        self.entered.release()
        assert self.gate.wait(20)
        if any(text[0] < 0 for text in texts):
            raise ArithmeticError("a bad text")
        return np.array([[text[0], len(text)] for text in texts], np.float32)

    async def hold(self, batcher: Batcher, texts: Sequence[Tokens]) -> "asyncio.Future[Rows]":
        self.gate.clear()
        call = asyncio.ensure_future(batcher.embed(texts))
        assert await asyncio.to_thread(self.entered.acquire, timeout=20)
        return call


MakeBatcher = Callable[..., Batcher]


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn()


@pytest.fixture
async def make_batcher(stand_in: StandIn) -> AsyncIterator[MakeBatcher]:
    made: list[Batcher] = []

    def make(*, workers: int = 1, **limits: int) -> Batcher:
        made.append(Batcher(stand_in, workers=workers, limits=BatchLimits(**limits)))
        return made[-1]

    yield make
    stand_in.gate.set()
    for each in made:
        await asyncio.to_thread(each.close)


@pytest.fixture
def batcher(make_batcher: MakeBatcher) -> Batcher:
    return make_batcher()


def texts(first: int, *lengths: int) -> list[Tokens]:
    return [np.full(length, first + number, np.int64) for number, length in enumerate(lengths)]


async def test_order_is_kept(make_batcher: MakeBatcher):
    lengths = np.random.default_rng(1).integers(1, 250, 300).tolist()
    batcher = make_batcher(workers=3)
    rows = await asyncio.gather(*(batcher.embed(texts(number * 1000, *lengths)) for number in range(3)))
    for number in range(3):
        assert rows[number][:, 0].tolist() == [number * 1000 + place for place in range(300)]
        assert rows[number][:, 1].tolist() == lengths


async def test_batches_are_bounded(batcher: Batcher, stand_in: StandIn):
    await batcher.embed(texts(0, *range(1, 256, 5), *[20] * 30))
    for batch in stand_in.lengths:
        assert len(batch) == 1 or len(batch) * max(batch) <= 256
        assert len(batch) <= 8
        assert max(batch) - min(batch) <= 16


async def test_calls_share_a_batch(batcher: Batcher, stand_in: StandIn):
    first = await stand_in.hold(batcher, texts(0, 5))
    others = [asyncio.ensure_future(batcher.embed(texts(number, 5 + number))) for number in range(1, 9)]
    await asyncio.sleep(0.01)
    stand_in.gate.set()
    await asyncio.gather(first, *others)
    assert sorted(stand_in.batches[1]) == list(range(1, 9))


async def test_a_query_waits_for_no_document(batcher: Batcher, stand_in: StandIn):
    document = await stand_in.hold(batcher, texts(100, *[250] * 10_000))
    query = asyncio.ensure_future(batcher.embed(texts(7, 10)))
    await asyncio.sleep(0.01)
    stand_in.gate.set()
    await query
    assert [7] in stand_in.batches[1:3]
    document.cancel()


async def test_a_document_is_not_starved(batcher: Batcher, stand_in: StandIn):
    document = await stand_in.hold(batcher, texts(1000, *[250] * 10))
    queries = [asyncio.ensure_future(batcher.embed(texts(number, 100))) for number in range(200)]
    await asyncio.sleep(0.05)
    stand_in.gate.set()
    await asyncio.gather(document, *queries)
    assert max(np.diff([number for number, batch in enumerate(stand_in.batches) if batch[0] >= 1000])) <= 4


async def test_cancelled_work_is_dropped(batcher: Batcher, stand_in: StandIn):
    document = await stand_in.hold(batcher, texts(100, *[250] * 500))
    document.cancel()
    with pytest.raises(asyncio.CancelledError):
        await document
    stand_in.gate.set()
    assert (await batcher.embed(texts(7, 10))).tolist() == [[7, 10]]
    assert len(stand_in.batches) == 2


async def test_saturation(make_batcher: MakeBatcher):
    batcher = make_batcher(waiting_texts=100)
    with batcher.admit(95):
        with pytest.raises(Unavailable) as refused, batcher.admit(9):
            pass
        assert refused.value.code == "embedding_saturated"
        assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
        with batcher.admit(5), pytest.raises(Unavailable), batcher.admit(1):
            pass
    with batcher.admit(1000):  # alone, nothing is too large
        pass


@pytest.mark.parametrize(("took", "must_rest", "rests"), [(2, True, 18), (2, False, 0), (1.1, True, 0)])
async def test_a_batch_is_followed_by_rest_on_a_busy_core_alone(monkeypatch, took, must_rest, rests):
    """Nineteen twentieths of the time in all. A batch takes one second of the processor, and `took` by the clock."""
    now, used = [0.0], [0.0]
    clock = {"monotonic": lambda: sum(now), "thread_time": lambda: sum(used), "sleep": now.append}
    monkeypatch.setattr(batching, "time", SimpleNamespace(**clock))

    def run(texts: Sequence[Tokens]) -> Rows:
        now.append(took), used.append(1)
        return np.zeros((len(texts), 1), np.float32)

    batcher = Batcher(run, workers=1, must_rest=lambda: must_rest)
    await batcher.embed(texts(0, 5))
    await asyncio.to_thread(batcher.close)
    assert sum(now) - took == pytest.approx(rests, abs=0.01)


async def test_a_failure_stays_where_it_is(batcher: Batcher):
    with pytest.raises(ArithmeticError):
        await batcher.embed(texts(-1, 5))
    assert (await batcher.embed(texts(3, 5))).tolist() == [[3, 5]]


async def test_closing_answers_those_who_wait(batcher: Batcher, stand_in: StandIn):
    document = await stand_in.hold(batcher, texts(100, *[250] * 500))
    closing = asyncio.ensure_future(asyncio.to_thread(batcher.close))
    with pytest.raises(Unavailable):
        await document
    stand_in.gate.set()
    await closing
    with pytest.raises(Unavailable):
        await batcher.embed(texts(1, 5))
