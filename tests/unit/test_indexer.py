"""The indexer's memory, answers and limits; without a database."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock
from uuid import UUID

import pytest

from service.index.ingestion import sweeper
from service.index.ingestion.backlog.queries import EntryState, PendingWork
from service.index.ingestion.feeding import answer_waiting, feed, measure, renew
from service.index.ingestion.indexer import MOST_BYTES, MOST_DOCUMENTS, Indexer
from service.index.ingestion.indexing import IndexOutcome
from service.index.ingestion.pace import Backlog
from service.index.ingestion.turns import LARGE_BYTES, Lane
from service.index.progress import Half
from service.platform.errors import Unavailable
from service.text.embedding import Embedders

ONE, TWO = UUID(int=1), UUID(int=2)
DOCUMENT = UUID(int=100)


class NoDatabase:
    """A stand-in for connections that must not be used."""

    @asynccontextmanager
    async def transaction(self, *_: object, **__: object) -> AsyncGenerator[None]:
        await asyncio.sleep(0)
        yield


@pytest.fixture
async def indexer() -> AsyncGenerator[Indexer]:
    made = Indexer(cast("Any", NoDatabase()), cast("Embedders", SimpleNamespace()), backlog_seconds=300)
    yield made
    await made.close()


@pytest.fixture
def replace(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, object], None]:
    return lambda name, value: monkeypatch.setattr(f"service.index.ingestion.feeding.{name}", value)


def begin(indexer: Indexer, organization_id: UUID, number: int, *, packed_bytes: int, lane: Lane | None = None) -> Any:
    return indexer.take_up(organization_id, PendingWork(UUID(int=number), (1,), packed_bytes), lane=lane)


async def test_a_request_that_came_after_the_look_is_not_answered_by_it(indexer, replace):
    first = indexer.request(ONE, document_id=DOCUMENT, space_ids=[1], is_begun=False)
    later: list[Any] = []

    async def look(*_: object, document_ids: Sequence[UUID]) -> dict[tuple[UUID, int], EntryState]:
        assert list(document_ids) == [DOCUMENT]
        wanted = (UUID(int=101), DOCUMENT)
        later.extend(indexer.request(ONE, document_id=each, space_ids=[1], is_begun=False) for each in wanted)
        return {(DOCUMENT, 1): EntryState(is_pending=False, lacks_words=False, chunk_count=3)}

    replace("list_pending", look)
    await answer_waiting(indexer)
    assert first.future.result() == {1: IndexOutcome(3, 0)}
    assert [each.future.done() for each in later] == [False, False]


async def test_one_feeder_feeds_at_a_time(indexer, replace):
    at_work, most = 0, 0

    async def claim(*_: object, **__: object) -> list[object]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.01)
        at_work -= 1
        return []

    replace("claim_pending", claim)
    for organization_id in (ONE, TWO):
        indexer.note_backlog(organization_id, *Lane)
    await asyncio.gather(feed(indexer), feed(indexer))
    assert most == 1


async def test_an_organization_whose_claim_failed_rests_and_is_fed_then(indexer, replace):
    claims = 0

    async def claim(*_: object, **__: object) -> list[object]:
        nonlocal claims
        claims += 1
        if claims == 1:
            raise RuntimeError("broken")
        return []

    replace("claim_pending", claim)
    replace("REST_SECONDS", 0.2)
    indexer.note_backlog(ONE, Lane.SMALL)
    with pytest.raises(ExceptionGroup):
        await feed(indexer)
    for _ in range(3):
        indexer.note_backlog(ONE, Lane.SMALL)
        assert await feed(indexer) == 0
    assert claims == 1
    assert indexer.backlogged == {ONE: {Lane.SMALL}}
    indexer.changed.clear()
    async with asyncio.timeout(10):
        await indexer.changed.wait()
    await feed(indexer)
    assert (claims, indexer.backlogged) == (2, {})


@pytest.mark.parametrize("statement", ["claim_pending", "measure_backlog", "list_pending", "renew_claims", "fold"])
async def test_an_organization_that_fails_keeps_no_other_from_its_turn(indexer, replace, monkeypatch, statement):
    done = list[UUID]()
    answers = {"claim_pending": [], "measure_backlog": Backlog(), "list_pending": {}, "renew_claims": None, "fold": 0}

    async def fail_for_one(_: object, organization_id: UUID, **__: object) -> Any:
        if organization_id == ONE:
            raise RuntimeError("broken")
        done.append(organization_id)
        return answers[statement]

    monkeypatch.setattr(sweeper, "organization_ids", AsyncMock(return_value=[ONE, TWO]))
    if statement == "fold":
        monkeypatch.setattr(sweeper, "fold_statistics", fail_for_one)
    else:
        replace(statement, fail_for_one)
    for number, organization_id in enumerate((ONE, TWO)):
        if statement == "renew_claims":
            begin(indexer, organization_id, number, packed_bytes=10)
        else:
            indexer.request(organization_id, document_id=DOCUMENT, space_ids=[1], is_begun=False, packed_bytes=10)
    works = {"claim_pending": feed, "measure_backlog": measure, "list_pending": answer_waiting, "renew_claims": renew}
    with pytest.raises(ExceptionGroup) as told:
        await (sweeper.fold_all(cast("Any", indexer.database)) if statement == "fold" else works[statement](indexer))
    assert done == [TWO]
    assert [str(each) for each in told.value.exceptions] == ["broken"]


async def test_words_that_can_not_be_claimed_keep_no_vectors_from_it(indexer, replace, monkeypatch):
    claimed = list[Half]()

    async def claim(*_: object, half: Half, **__: object) -> list[object]:
        claimed.append(half)
        if half is Half.WORDS:
            raise RuntimeError("broken")
        return []

    replace("has_waiting", AsyncMock(return_value=True))
    replace("claim_pending", claim)
    monkeypatch.setattr(sweeper, "organization_ids", AsyncMock(return_value=[ONE]))
    disk = SimpleNamespace(wait_for_room=AsyncMock())
    with pytest.raises(ExceptionGroup):
        await sweeper.sweep(indexer, cast("Any", disk))
    assert claimed == [Half.WORDS, Half.MEANING, Half.MEANING]


async def test_every_fourth_claim_for_vectors_takes_the_oldest(indexer, replace):
    """Each organization and lane is counted separately."""
    claimed: dict[Any, list[bool]] = {}

    async def claim(_: object, organization_id: UUID, *, lane: Lane, newest_first: bool, **__: object) -> list[object]:
        claimed.setdefault((organization_id, lane), []).append(newest_first)
        return []

    replace("claim_pending", claim)
    for part in indexer.parts:
        claimed.clear()
        for _ in range(8):
            for organization_id in (ONE, TWO):
                part.note_backlog(organization_id, Lane.SMALL, Lane.LARGE)
            await feed(part)
        turns = [part.half is Half.MEANING] * 3 + [False]
        assert claimed == {(each, lane): turns * 2 for each in (ONE, TWO) for lane in (Lane.SMALL, Lane.LARGE)}


async def test_uploads_leave_places_to_vectors_that_wait(indexer, monkeypatch):
    """Otherwise each free place would go to the next upload, and waiting vectors would starve."""
    ends = asyncio.Semaphore(0)

    async def index(work: Any, _: object) -> dict[int, IndexOutcome]:
        is_words = work.deps.half is Half.WORDS
        if not is_words:
            await ends.acquire()
        return {1: IndexOutcome(1, 1, lacks_meaning=is_words)}

    monkeypatch.setattr("service.index.ingestion.indexer.index_in_spaces", index)
    for number in range(17):
        await begin(indexer, ONE, number, packed_bytes=10).task
    meaning = indexer.embedding
    assert (len(meaning.jobs_of(ONE)), meaning.backlogged) == (16, {ONE: {Lane.SMALL}})
    for number in range(17, 26):
        ends.release()
        await begin(indexer, ONE, number, packed_bytes=10).task
    assert meaning.is_worth_a_claim(ONE, Lane.SMALL, meaning.room(ONE, Lane.SMALL))
    await begin(indexer, TWO, 26, packed_bytes=10).task
    assert len(meaning.jobs_of(TWO)) == 1


async def test_a_backlog_that_can_not_be_measured_stays_as_it_was(indexer, replace):
    """A failed measurement must not let an organization in."""

    async def count(_: object, organization_id: UUID, *, half: Half) -> Backlog:
        assert half is Half.WORDS
        if organization_id == ONE:
            raise RuntimeError("broken")
        return Backlog(documents=3)

    replace("measure_backlog", count)
    for organization_id in (ONE, TWO):
        indexer.note_backlog(organization_id, Lane.SMALL)
    indexer.pressure.measure({ONE: Backlog(documents=20), TWO: Backlog(documents=20)})
    with pytest.raises(ExceptionGroup):
        await measure(indexer)
    assert indexer.pressure.documents == 23


async def test_a_backlog_that_is_done_refuses_nothing_until_it_is_measured_again(indexer):
    indexer.pressure.measure({ONE: Backlog(documents=20, chunks=10**6)})
    indexer.refuse_backlog(ONE)
    begin(indexer, ONE, 1, packed_bytes=10)
    with pytest.raises(Unavailable):
        indexer.refuse_backlog(ONE)
    await asyncio.sleep(0)
    await indexer.close()
    assert not indexer.running
    indexer.refuse_backlog(ONE)
    indexer.note_backlog(ONE, Lane.SMALL)
    with pytest.raises(Unavailable):
        indexer.refuse_backlog(ONE)


async def test_one_organizations_large_texts_leave_another_one_large_document(indexer):
    for number in range(2):
        begin(indexer, ONE, number, packed_bytes=MOST_BYTES)
    assert indexer.room(ONE, Lane.LARGE) == 0
    assert indexer.room(TWO, Lane.LARGE) == 1
    assert indexer.has_room(TWO, packed_bytes=MOST_BYTES)
    begin(indexer, TWO, 10, packed_bytes=MOST_BYTES)
    assert indexer.room(TWO, Lane.LARGE) == 0
    begin(indexer, UUID(int=3), 11, packed_bytes=MOST_BYTES)
    assert indexer.room(UUID(int=4), Lane.LARGE) == 0


async def test_large_documents_of_many_organizations_leave_places_to_small_ones(indexer):
    number = 0
    for organization in range(1, 100):
        for _ in range(indexer.room(UUID(int=organization), Lane.LARGE)):
            number += 1
            begin(indexer, UUID(int=organization), number, packed_bytes=LARGE_BYTES)
    assert 0 < indexer.running < MOST_DOCUMENTS
    assert indexer.room(UUID(int=1000), Lane.SMALL) > 0


async def test_a_request_that_gave_up_is_kept_no_longer(indexer, monkeypatch):
    ends = asyncio.Event()

    async def index(*_: object) -> dict[int, IndexOutcome]:
        await ends.wait()
        return {1: IndexOutcome(1, 1)}

    monkeypatch.setattr("service.index.ingestion.indexer.index_in_spaces", index)
    waiter = indexer.request(ONE, document_id=DOCUMENT, space_ids=[1, 2], is_begun=True)
    assert await indexer.wait(waiter, seconds=0) is None
    ends.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not indexer.running
    assert indexer.list_waiters() == {}


async def test_an_upload_takes_a_document_out_of_the_lane_of_rebuilds(indexer):
    job = begin(indexer, ONE, DOCUMENT.int, packed_bytes=10, lane=Lane.REBUILD)
    assert job.work.turn.lane is Lane.REBUILD
    indexer.request(ONE, document_id=DOCUMENT, space_ids=[1], is_begun=True, packed_bytes=10)
    assert job.work.turn.lane is Lane.SMALL


async def test_the_pace_is_told_only_while_more_waits_than_is_done_at_a_time(indexer):
    begin(indexer, ONE, 1, packed_bytes=10)
    assert not indexer.is_saturated
    indexer.note_backlog(ONE, Lane.SMALL)
    assert indexer.is_saturated
