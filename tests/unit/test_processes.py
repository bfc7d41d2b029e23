"""A forked process: what comes of it, and what is left of one that could not be forked."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import wait

import psutil
import pytest

from service.platform.processes import ForkedProcess


def stop_with_an_error() -> None:
    """Fail as nobody expects."""
    raise LookupError


def never_end() -> None:
    """Go on until killed."""
    while True:
        signal.pause()


@pytest.mark.parametrize(
    ("work", "status"), [(lambda: None, 0), (lambda: sys.exit(3), 3), (stop_with_an_error, 1), (never_end, -9)]
)
def test_the_end_of_a_process_is_noticed(work: Callable[[], None], status: int) -> None:
    """By its sentinel, with the status it ended with; a failure ends that process alone."""
    process = ForkedProcess(work)
    if status < 0:
        assert wait([process.sentinel], 0.05) == []
        assert process.exitcode is None
        process.kill()
    assert wait([process.sentinel], 20) == [process.sentinel]
    process.join()
    assert process.exitcode == status
    process.kill()  # another process may have its number by now
    process.close()


def test_a_process_that_can_not_be_forked_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no room for a process, it may be tried for days."""

    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    before = psutil.Process().num_fds()
    with pytest.raises(BlockingIOError):
        ForkedProcess(never_end)
    assert psutil.Process().num_fds() == before
