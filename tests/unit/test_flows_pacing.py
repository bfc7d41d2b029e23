"""How many documents are on their way at a time: more while answers are quick, fewer while the service is busy."""

import asyncio
from collections.abc import Awaitable, Callable
from unittest.mock import AsyncMock

import pytest

from carrel.errors import ServerError
from flows.operations.ledger.rows import Sent, State
from flows.operations.outages import Pace

SENT = Sent(State.INDEXED, "id", 1, "f")
_quick = AsyncMock(return_value=SENT)


async def _busy() -> Sent:
    await asyncio.sleep(0.001)
    raise ServerError("busy", status=503, code="indexing_backlog", retry_after=0.05)


async def _grow(pace: Pace, number: int) -> None:
    for _ in range(number):
        await pace.run(_quick)


async def _refused(pace: Pace) -> None:
    with pytest.raises(ServerError):
        await pace.run(_busy)


async def test_quick_answers_let_more_on_their_way_up_to_the_limit() -> None:
    pace = Pace(most=16)
    assert pace.allowed == 4
    await _grow(pace, 40)
    assert pace.allowed == 16
    assert Pace(most=2).allowed == 2


async def test_busy_service_halves_the_number_and_is_left_alone_as_long_as_it_says() -> None:
    pace = Pace(most=16)
    await _grow(pace, 12)
    await asyncio.gather(*(_refused(pace) for _ in range(10)))
    assert pace.allowed == 8
    loop = asyncio.get_running_loop()
    began = loop.time()
    await pace.run(_quick)
    assert loop.time() - began >= 0.03
    await _grow(pace, 6)
    assert pace.allowed == 8
    for _ in range(6):
        await _refused(pace)
    assert pace.allowed == 1


async def test_document_whose_indexing_is_left_behind_does_not_make_room_for_more(monkeypatch):
    pace, behind = Pace(most=16), AsyncMock(return_value=Sent(State.UPLOADED, "id", 1, "f"))
    await pace.run(behind)
    assert pace.allowed == 4
    monkeypatch.setattr("flows.operations.outages._QUICK_SECONDS", -1.0)
    await pace.run(behind)
    assert pace.allowed == 2


async def test_document_that_takes_long_holds_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.operations.outages._LONG_SECONDS", 0.02)
    pace, released = Pace(most=1), asyncio.Event()

    async def hang() -> Sent:
        await released.wait()
        return SENT

    hanging = asyncio.create_task(pace.run(hang))
    async with asyncio.timeout(5):
        await asyncio.gather(*(pace.run(_quick) for _ in range(5)))
    assert not hanging.done()
    released.set()
    assert await hanging == SENT
    assert await _most_at_a_time(pace) == 1


async def _most_at_a_time(pace: Pace) -> int:
    now = most = 0

    async def send() -> Sent:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return SENT

    sends: list[Callable[[], Awaitable[Sent]]] = [send] * 8
    await asyncio.gather(*map(pace.run, sends))
    return most
