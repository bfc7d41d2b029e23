"""Embedding in another process: what is asked for comes back, whoever asks and whatever ends meanwhile."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence

import numpy as np
import pytest

from service.platform.errors import Unavailable
from service.text.embedding import exchange
from service.text.embedding.batching import Rows, Tokens
from service.text.embedding.exchange import DistantArithmetic, Line
from tests.unit.test_batching import texts

SECONDS = 20


class StandIn:
    """Gives each text its first token, and its length with a sign for documents; some texts have a meaning. Or dies."""

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
        """Nothing is held."""


@pytest.fixture
def line() -> Iterator[Line]:
    """A line along which nobody answers yet."""
    line = Line()
    yield line
    line.close()


@pytest.fixture
async def asking(line: Line) -> AsyncIterator[DistantArithmetic]:
    """The asking end of the line, whose other end answers in this process."""
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
    """Start a process that answers on the line, and return its id."""
    child = os.fork()
    if child:
        return child

    async def work() -> None:
        await line.answer(StandIn(dies=dies), asyncio.get_running_loop().create_future())

    asyncio.run(work())
    os._exit(0)
