"""What ends a run from outside."""

import asyncio
import signal
from collections.abc import Iterator
from types import FrameType

import pytest
from prefect.exceptions import TerminationSignal

from flows.operations.jobs import cancel_on_sigterm


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
