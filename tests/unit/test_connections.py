"""Admission of connections, and the choice of connections to close."""

from dataclasses import dataclass, field

import pytest

from service.platform import descriptors
from service.platform.settings import Settings
from service.platform.sharing import Figures, Share
from service.web.connections import LOOKED_THROUGH, Connections, shared_addresses

HERE, THERE = "192.0.2.1", "198.51.100.7"


@dataclass(eq=False)
class Caller:
    """The remote end of a connection, and the fate."""

    origin: str
    has_unsent: bool = False
    is_slow: bool = False
    gone: list[bool] = field(default_factory=list[bool])

    def abort(self) -> None:
        self.gone.append(True)


def connected(connections: Connections, origin: str = HERE, *, is_slow: bool = False) -> Caller:
    assert connections.admit(origin)
    caller = Caller(origin, is_slow=is_slow)
    connections.note_waiting(caller)
    return caller


def sending(connections: Connections, origin: str = HERE, *, is_slow: bool = False) -> Caller:
    caller = connected(connections, origin, is_slow=is_slow)
    connections.note_receiving(caller)
    return caller


def from_anywhere(most: int) -> Connections:
    return Connections(most, is_shared=lambda _: True)


async def test_the_one_that_waits_longest_makes_room() -> None:
    connections = from_anywhere(3)
    first, second, third = (connected(connections) for _ in range(3))
    connections.note_answering(first)
    connections.note_waiting(first)
    connections.note_answering(second)
    connected(connections, THERE)
    assert (bool(first.gone), bool(second.gone), bool(third.gone)) == (False, False, True)
    assert (connections.open, connections.evicted, connections.refused) == (3, 1, 0)


async def test_what_is_answered_stays_and_the_new_one_is_refused() -> None:
    connections = from_anywhere(2)
    callers = [connected(connections) for _ in range(2)]
    for caller in callers:
        connections.note_answering(caller)
    assert not connections.admit(THERE)
    assert (connections.open, connections.refused) == (2, 1)
    connections.note_closed(callers[0])
    assert connections.admit(THERE)


async def test_an_answer_that_is_not_read_yet_goes_after_others() -> None:
    connections = from_anywhere(2)
    reading, waiting = connected(connections), connected(connections)
    reading.has_unsent = True
    connected(connections)
    assert (bool(reading.gone), bool(waiting.gone)) == (False, True)


async def test_a_slow_body_goes_when_nobody_waits_and_a_fast_one_stays() -> None:
    connections = from_anywhere(2)
    fast, slow = sending(connections), sending(connections, is_slow=True)
    newcomer = connected(connections)
    assert (bool(fast.gone), bool(slow.gone)) == (False, True)
    connections.note_answering(newcomer)
    assert not connections.admit(HERE)


async def test_slow_bodies_leave_half_of_all_connections_to_others() -> None:
    connections = from_anywhere(4)
    slow = [sending(connections, is_slow=True) for _ in range(3)]
    waiting = connected(connections)
    connected(connections)
    assert [bool(caller.gone) for caller in [*slow, waiting]] == [True, False, False, False]


async def test_quick_bodies_hide_no_slow_ones() -> None:
    connections = from_anywhere(2 * LOOKED_THROUGH + 2)
    quick = [sending(connections) for _ in range(2 * LOOKED_THROUGH)]
    slow = [sending(connections, is_slow=True) for _ in range(2)]
    assert [connections.admit(THERE) for _ in range(4)] == [False, False, True, True]
    assert [bool(caller.gone) for caller in slow] == [True, True]
    assert not any(caller.gone for caller in quick)


async def test_others_quick_bodies_hide_no_slow_ones_of_an_address() -> None:
    connections = Connections(4 * LOOKED_THROUGH)
    others = [sending(connections, f"203.0.113.{number}") for number in range(LOOKED_THROUGH)]
    slow = [sending(connections, HERE, is_slow=True) for _ in range(connections.most_of_address)]
    assert connections.admit(HERE)
    assert [bool(caller.gone) for caller in slow] == [True] + [False] * (len(slow) - 1)
    assert not any(caller.gone for caller in others)


async def test_an_address_has_a_share_and_makes_room_for_itself_alone() -> None:
    connections = Connections(8)
    other = connected(connections, THERE)
    crowd = [connected(connections, HERE) for _ in range(5)]
    assert not other.gone
    assert [bool(caller.gone) for caller in crowd] == [True, True, True, False, False]
    for caller in crowd[3:]:
        connections.note_answering(caller)
    assert not connections.admit(HERE)
    assert connections.admit(THERE)


async def test_closing_counts_once_and_nobody_is_admitted_when_all_is_closed() -> None:
    connections = from_anywhere(1)
    first = connected(connections)
    second = connected(connections, THERE)
    connections.note_waiting(first)
    connections.note_closed(first)
    assert connections.open == 1
    connections.note_closed(second)
    assert connections.open == 0
    connected(connections)
    assert (connections.open, connections.evicted) == (1, 1)
    stopping = from_anywhere(5)
    stopping.close()
    assert not stopping.admit(HERE)


def test_a_proxy_and_this_machine_stand_for_many() -> None:
    is_shared = shared_addresses(("10.0.0.0/8", "192.0.2.9"))
    shared = ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3", "::ffff:10.1.2.3", "192.0.2.9"]
    assert [host for host in (*shared, "192.0.2.8", "2001:db8::1", "") if is_shared(host)] == shared


@pytest.mark.parametrize("limit", [1024, 4096, 20_000])
def test_connections_leave_what_the_service_needs(limit: int) -> None:
    for asked in ({}, {"max_connections": 1_000_000}, {"database_pool_size": 100}):
        settings = Settings(workers=1, **asked)
        most = descriptors.most_connections(settings, limit)
        assert descriptors.FEWEST_CONNECTIONS <= most <= (limit - descriptors.reserved_descriptors(settings)) // 2
    assert descriptors.most_connections(Settings(workers=1, max_connections=20), limit) == 20
    assert descriptors.most_connections(Settings(workers=3, max_connections=20), limit) == 7
    # Memory bounds them, too.
    for workers in (1, 4):
        assert (
            descriptors.most_connections(Settings(workers=workers), 1_000_000)
            == descriptors.MOST_CONNECTIONS // workers
        )


def test_a_limit_that_is_too_small_says_what_to_set() -> None:
    with pytest.raises(ValueError, match=r"may have 128 files open, and the service needs \d+ or more.*LimitNOFILE"):
        descriptors.most_connections(Settings(), 128)


def test_workers_divide_what_there_is() -> None:
    settings = Settings(workers=3, database_pool_size=10, extraction_workers=4, agent_workers=8, docstore_workers=2)
    parts = [descriptors.part_of(settings, worker=worker) for worker in range(3)]
    assert [part.database_pool_size for part in parts] == [4, 3, 3]
    assert [part.extraction_workers for part in parts] == [2, 1, 1]
    assert [part.agent_workers for part in parts] == [3, 3, 2]
    assert [part.docstore_workers for part in parts] == [1, 1, 0]
    few = descriptors.part_of(Settings(workers=8, database_pool_size=8, extraction_workers=1), worker=7)
    assert (few.database_pool_size, few.extraction_workers) == (2, 1)
    alone = Settings(workers=1, database_pool_size=1)
    assert descriptors.part_of(alone, worker=0) == alone


def test_another_worker_with_fewer_connections_goes_first() -> None:
    figures = Figures(3)
    first, second = (Connections(10, share=Share(worker, 3, figures)) for worker in range(2))
    first.tell()
    assert first.admit(HERE)
    assert not first.has_more_than_others
    second.tell()
    assert first.has_more_than_others
    assert not second.has_more_than_others
    assert (first.describe().open, first.describe().most) == (1, 20)
    assert second.admit(HERE)
    assert not first.has_more_than_others


async def test_what_a_worker_has_counted_stays_when_it_ends() -> None:
    figures = Figures(2)
    for turn in (1, 2):
        worker = Connections(0, share=Share(1, 2, figures))
        worker.tell()
        assert not worker.admit(HERE)
        assert worker.describe().refused == turn
        worker.close()
        figures.clear(1)
    left = Connections(10, share=Share(0, 2, figures)).describe()
    assert (left.refused, left.most) == (2, 10)
