"""Runs on a Prefect server that is busy."""

from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from flows import prefect_api
from flows.runs import Runs, RunsError


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pause for no time."""
    monkeypatch.setattr(prefect_api, "_PAUSES", (0.0, 0.0, 0.0))


def server(*statuses: int) -> Runs:
    """A server that answers with these statuses, one after the other."""
    answers: Iterator[int] = iter(statuses)
    transport = httpx.MockTransport(lambda _: httpx.Response(next(answers), json=[]))
    return Runs("http://prefect.test/api", http_client=httpx.Client(transport=transport))


def test_a_busy_server_is_asked_again() -> None:
    """A 503 says that nothing was done, so asking again does nothing twice."""
    assert server(503, 503, 200).recent() == []


def test_a_server_that_stays_busy_is_named() -> None:
    """After a few times it is said what it answered."""
    with pytest.raises(RunsError, match="503"):
        server(503, 503, 503, 503).recent()


def test_other_errors_are_not_asked_again() -> None:
    """They would only come again."""
    with pytest.raises(RunsError, match="500"):
        server(500, 200).cancel(uuid4())
