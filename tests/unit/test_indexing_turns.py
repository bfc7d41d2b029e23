"""Turns at indexing, and refusals."""

import asyncio
from uuid import UUID

import pytest

from service.index.ingestion.pace import Backlog, BackPressure, Pace
from service.index.ingestion.turns import Lane, Turns
from service.platform.errors import Unavailable

ONE, TWO = UUID(int=1), UUID(int=2)
SMALL, LARGE, REBUILD = Lane.SMALL, Lane.LARGE, Lane.REBUILD


@pytest.mark.parametrize(
    ("wanted", "order"),
    [
        # However much the first organization wants, each second turn is the other's.
        ([*((ONE, SMALL, name) for name in "abc"), *((TWO, SMALL, name) for name in "xy")], "axbyc"),
        # Small and large documents take turns, the oldest first.
        ([*((ONE, LARGE, name) for name in "ABC"), *((ONE, SMALL, name) for name in "ab")], "AaBbC"),
        # Of eight turns, a rebuild has one while others wait.
        ([*((ONE, REBUILD, name) for name in "RS"), *((ONE, SMALL, name) for name in "012345678")], "R012345S678"),
    ],
)
async def test_turns_are_granted_in_order(wanted: list[tuple[UUID, Lane, str]], order: str) -> None:
    turns, served, first = Turns(turns=1, long_turns=1), list[str](), asyncio.Event()

    async def work(organization_id: UUID, lane: Lane, name: str) -> None:
        async with turns.take(turns.enqueue(organization_id, lane)):
            served.append(name)
            await first.wait()

    tasks = [asyncio.create_task(work(*each)) for each in wanted]
    await asyncio.sleep(0)
    first.set()
    await asyncio.gather(*tasks)
    assert served == [*order]


async def test_long_work_leaves_turns_to_small_documents() -> None:
    turns, ends, begun = Turns(turns=4, long_turns=2), asyncio.Event(), list[str]()

    async def work(lane: Lane, name: str) -> None:
        async with turns.take(turns.enqueue(ONE, lane)):
            begun.append(name)
            await ends.wait()

    tasks = [asyncio.create_task(work(LARGE, str(number))) for number in range(4)]
    tasks.append(asyncio.create_task(work(SMALL, "a")))
    await asyncio.sleep(0)
    assert (begun, turns.held) == (["0", "1", "a"], 3)
    ends.set()
    await asyncio.gather(*tasks)
    assert turns.held == 0


async def test_a_turn_that_is_passed_on_comes_again() -> None:
    turns, slices = Turns(turns=1, long_turns=1), list[str]()

    async def work(organization_id: UUID, name: str) -> None:
        turn = turns.enqueue(organization_id, LARGE)
        async with turns.take(turn):
            for _ in range(3):
                slices.append(name)
                await asyncio.sleep(0)
                await turns.pass_on(turn)

    await asyncio.gather(work(ONE, "a"), work(TWO, "x"))
    assert slices == [*"axaxax"]


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_turn_of_cancelled_work_is_given_to_the_next(is_held: bool) -> None:
    turns, ends = Turns(turns=1, long_turns=1), asyncio.Event()

    async def work() -> None:
        async with turns.take(turns.enqueue(ONE, SMALL)):
            await ends.wait()

    first, second, third = (asyncio.create_task(work()) for _ in range(3))
    await asyncio.sleep(0)
    cancelled = first if is_held else second
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    ends.set()
    async with asyncio.timeout(5):
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert turns.held == 0
        async with turns.take(turns.enqueue(ONE, SMALL)):
            assert turns.held == 1


def test_what_is_refused_is_told_when_there_is_room_again() -> None:
    """At ten chunks a second and a bound of 100 s: 2,000 chunks are 200 s, of which 110 s are too many."""
    pressure = BackPressure(100, pace=Pace(chunks_per_second=10))
    pressure.measure({ONE: Backlog(documents=20, chunks=2000)})
    with pytest.raises(Unavailable) as refused:
        pressure.refuse(ONE)
    assert (refused.value.code, refused.value.retry_after) == ("indexing_backlog", 110)
    pressure.measure({ONE: Backlog(documents=20, chunks=2000 - 1100)})
    pressure.refuse(ONE)


def test_the_pace_is_not_learned_before_the_first_chunk() -> None:
    pace, learned = Pace(chunks_per_second=10), list[float]()
    for chunks in (0, 10, 0):
        pace.count(chunks)
        pace.sample(5, is_saturated=True)
        learned.append(pace.chunks_per_second)
    assert learned == [10, 6, 3]


def test_a_few_documents_are_no_backlog_and_others_backlogs_neither() -> None:
    pressure = BackPressure(100, pace=Pace(chunks_per_second=10))
    pressure.measure({ONE: Backlog(documents=1, chunks=10**6), TWO: Backlog(documents=10**5, packed_bytes=10**9)})
    pressure.refuse(ONE)
    pressure.refuse(UUID(int=3))
    with pytest.raises(Unavailable, match="Try again in 120 s"):
        pressure.refuse(TWO)


def test_organizations_with_nothing_waiting_have_no_share_of_the_pace() -> None:
    pressure = BackPressure(100, pace=Pace(chunks_per_second=10))
    pressure.measure({ONE: Backlog(documents=20, chunks=500), TWO: Backlog()})
    assert pressure.pace_of(ONE) == 10


def test_the_pace_follows_what_is_done() -> None:
    pace = Pace()
    for _ in range(60):
        pace.count(10)
        pace.sample(1, is_saturated=True)
    assert pace.chunks_per_second == pytest.approx(10, abs=0.5)
    pace.sample(1, is_saturated=False)
    assert pace.chunks_per_second == pytest.approx(10, abs=0.5)
