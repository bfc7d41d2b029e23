"""Waits and pace of a run: busy services and Prefect servers, slow answers, slots, and the end."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any, cast
from unittest.mock import AsyncMock, Mock
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.concurrency.context import ConcurrencyContext
from prefect.exceptions import TerminationSignal

from carrel.errors import BadRequestError, ServerError
from carrel.wire.oversight import AdminStatusGetResponse
from flows import runs
from flows.errors import ServiceDownError
from flows.operations import backlog, index_waits
from flows.operations.backlog import Backlog, BusyNotice, notes_of
from flows.operations.formatting import rate_text
from flows.operations.jobs import cancel_on_sigterm
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Sent, State
from flows.operations.names import check_readers
from flows.operations.outages import Pace
from flows.operations.sources.documents import Access
from flows.operations.summary import Summary
from flows.running import batch_slot
from flows.runs import Label, Runs, RunsError
from tests.harness.cases import cases

OLD: dict[str, Any] = cases("status_of_an_old_service")


async def test_one_batch_that_goes_on_hides_no_other_that_waits() -> None:
    first, second = BusyNotice(Mock(), "two"), BusyNotice(Mock(), "two")
    for notice in (first, second):
        await notice.begin(ServerError("busy", status=503, code="unavailable"), seconds=5)
    second.end()
    assert notes_of("two").newest_wait.startswith("waiting for the service: ")
    first.end()
    assert notes_of("two").newest_wait == ""


def test_words_and_bars_know_of_files_in_archives() -> None:
    nothing: dict[str, Any] = {"chunks": (0, 0), "backlog": None}
    said = index_waits.left_text(0, files=(240, 600), per_second=0.0, **nothing)
    assert said == "240 of 600 files in archives and emails read"
    said = index_waits.left_text(1, files=(0, 0), per_second=0.1, **nothing)
    assert said == "waiting for the index: 1 document left, 6 documents a minute, about 10 s"
    ahead = Backlog(3, chunks=40, chunks_per_second=4.0, without_meaning=2)
    said = index_waits.left_text(3, chunks=(0, 0), files=(0, 0), per_second=0.1, backlog=ahead)
    assert "3 documents left, 2 documents are already found by words, 40 chunks ahead" in said
    rates = [rate_text(pace, "document") for pace in (12.5, 0.004, 0.0)]
    assert rates == ["12.5 documents a second", "14 documents an hour", ""]
    files = {"containers": 1, "contained_files": 3, "contained_waiting": 2}
    counts = Summary(documents=1, to_send=1, created=1, indexing=1, **files)
    assert counts.progress == 50.0
    assert counts.coming_text() == "2 files in archives and emails to read, 1 document to finish indexing"


def test_notes_of_old_runs_are_dropped() -> None:
    kept = notes_of("first")
    for number in range(500):
        notes_of(f"run-{number}")
        assert notes_of("first") is kept, "whose notes are still looked at keeps them"
    assert len(backlog._notes) <= 101  # pyright: ignore[reportPrivateUsage] - what is bounded


@pytest.fixture
def give_up(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    monkeypatch.setattr(index_waits, "STALLED_SECONDS", 0.0)
    nothing = cast("Any", None)
    with Ledger.at(tmp_path, target="t", source="s") as ledger:
        yield index_waits._IndexWait(nothing, ledger, nothing, None)._give_up_when_stalled


@pytest.mark.parametrize(("level", "said"), [("OK", "and the service continues."), ("LOW", "until you free space")])
def test_wait_that_stalls_is_given_up_whatever_the_pace(give_up, level, said):
    disk = {"areas": ["DATABASE"], "freeBytes": 1, "totalBytes": 9, "lowBelowBytes": 2, "level": level}

    def backlog(pace: float) -> Backlog:
        indexing = {**OLD["indexing"], "waitingChunks": 7, "chunksPerSecond": pace}
        return Backlog.of(AdminStatusGetResponse.model_validate({**OLD, "indexing": indexing, "storage": [disk]}))

    answers = index_waits._Answers()
    give_up(2, answers, backlog(0.1))
    give_up(1, answers, backlog(0.1))
    with pytest.raises(ServiceDownError, match=said):
        give_up(1, answers, backlog(0.2))
    with pytest.raises(ServiceDownError):
        give_up(1, answers, None)
    # An older service says neither how much waits nor of disks: what it lists as being indexed counts.
    assert Backlog.of(AdminStatusGetResponse.model_validate(OLD)) == Backlog(2)


@pytest.mark.parametrize("moves", [[(1, 7), (2, 7), (3, 7)], [(0, 7), (0, 6), (0, 5)]], ids=["embedded", "backlog"])
def test_wait_goes_on_while_chunks_move(give_up, moves):
    for embedded, ahead in moves:
        give_up(1, index_waits._Answers(embedded=embedded, expected=9), Backlog(1, ahead))


async def test_slot_that_is_given_back_is_kept_note_of_no_more(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def slot(*_: object, **__: object) -> AsyncGenerator[None]:
        context, lease = ConcurrencyContext.get(), uuid4()
        context.cleanup_lease_ids.append(lease)
        yield
        context.cleanup_lease_ids.remove(lease)

    monkeypatch.setattr("flows.running.concurrency", slot)
    kept = tmp_path / "ledger.slots"
    async with batch_slot(kept):
        first = kept.read_text()
        async with batch_slot(kept):
            assert len({UUID(line) for line in kept.read_text().splitlines()}) == 2
        assert kept.read_text() == first
    assert not kept.exists()


async def test_readers_that_an_older_service_does_not_check_are_no_unknown_ones() -> None:
    asked = AsyncMock(side_effect=BadRequestError("Refused.", status=400, code="invalid_request"))
    client, outages = Mock(**{"catalog.plan_upload": asked}), Mock(call=lambda ask: ask())
    await check_readers(client, Access(("ann@example.com",)), outages=outages)


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


def server(*statuses: int) -> Runs:
    answers: Iterator[int] = iter(statuses)
    transport = httpx.MockTransport(lambda _: httpx.Response(next(answers), json=[]))
    return Runs("http://prefect.test/api", http_client=httpx.Client(transport=transport))


def test_a_busy_server_is_asked_again_and_named_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 503 has had no effect, so repeating is safe."""
    monkeypatch.setattr(runs, "_PAUSES", (0.0, 0.0, 0.0))
    assert server(503, 503, 200).rows("/flow_runs/filter", {}) == []
    with pytest.raises(RunsError, match="503"):
        server(503, 503, 503, 503).rows("/flow_runs/filter", {})
    with pytest.raises(RunsError, match="500"):
        server(500, 200).cancel(uuid4())


def raise_where_it_is(number: int, _frame: FrameType | None) -> None:
    raise TerminationSignal(number)


@pytest.fixture
def _as_in_a_flow() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, raise_where_it_is)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_as_in_a_flow")
async def test_sigterm_in_a_callback_ends_the_run() -> None:
    """The signal usually arrives in the event loop's own code."""
    went_on = False

    async def run() -> None:
        nonlocal went_on
        with cancel_on_sigterm():
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
            await asyncio.sleep(0.1)
            went_on = True

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(run())
    assert not went_on
    assert signal.getsignal(signal.SIGTERM) is raise_where_it_is


@pytest.mark.parametrize("name", ["Handbook", "a [workbench; made by x; changed by y; z]", "Ünï & 100 %\n=?", ""])
def test_the_name_of_a_schedule_is_plain_in_prefect(name: str) -> None:
    label = Label(name, made_by="ada+x@example.com", changed_by='"b; en"@example.com', key="k1")
    assert Label.of(label.slug) == label
    assert label.slug.startswith(f"{name} [workbench; made by ada+x@example.com; changed by ")
    assert Label.of("carrel-page?name=Old+one&by=ada%40example.com&key=k") == Label(
        "Old one", "ada@example.com", "", "k"
    )
    assert Label.of("file") is None
