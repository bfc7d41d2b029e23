"""Runs on a Prefect server that is busy, and what ends a run from outside."""

import asyncio
import signal
from collections.abc import Iterator
from types import FrameType
from uuid import uuid4

import httpx
import pytest
from prefect.exceptions import TerminationSignal

from flows import runs
from flows.operations.jobs import cancel_on_sigterm
from flows.runs import Label, Runs, RunsError


def server(*statuses: int) -> Runs:
    """A server that answers with these statuses, one after the other."""
    answers: Iterator[int] = iter(statuses)
    transport = httpx.MockTransport(lambda _: httpx.Response(next(answers), json=[]))
    return Runs("http://prefect.test/api", http_client=httpx.Client(transport=transport))


def test_a_busy_server_is_asked_again_and_named_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 503 says that nothing was done, so asking again does nothing twice."""
    monkeypatch.setattr(runs, "_PAUSES", (0.0, 0.0, 0.0))
    assert server(503, 503, 200).rows("/flow_runs/filter", {}) == []
    with pytest.raises(RunsError, match="503"):
        server(503, 503, 503, 503).rows("/flow_runs/filter", {})
    with pytest.raises(RunsError, match="500"):
        server(500, 200).cancel(uuid4())


def raise_where_it_is(number: int, _frame: FrameType | None) -> None:
    """Do as Prefect's handler of SIGTERM does."""
    raise TerminationSignal(number)


@pytest.fixture
def _as_in_a_flow() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, raise_where_it_is)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_as_in_a_flow")
async def test_sigterm_in_a_callback_ends_the_run() -> None:
    """A program is most often in the event loop's own code when it comes."""
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
    """A slug begins with the name as people wrote it, and holds the rest; those of 0.2.0 are read."""
    label = Label(name, made_by="ada+x@example.com", changed_by='"b; en"@example.com', key="k1")
    assert Label.of(label.slug) == label
    assert label.slug.startswith(f"{name} [workbench; made by ada+x@example.com; changed by ")
    assert Label.of("carrel-page?name=Old+one&by=ada%40example.com&key=k") == Label(
        "Old one", "ada@example.com", "", "k"
    )
    assert Label.of("file") is None
