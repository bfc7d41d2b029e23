"""How long somebody is signed in, and what a page that is still open can do afterwards."""

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest

from app.auth.sessions import IDLE, LONGEST, Person, Sealer, Sessions, digest_of
from carrel.oauth import Tokens

HOUR = 3600.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=time.time(), time=lambda: clock.now)
    monkeypatch.setattr("app.auth.sessions.time", clock)
    return clock


@pytest.fixture
def sessions(tmp_path) -> Sessions:
    return Sessions(tmp_path / "sessions", Sealer(bytes(32)))


def signed_in(sessions: Sessions) -> str:
    tokens = Tokens(access_token="a", refresh_token="r", expires_at=datetime.now(UTC) + timedelta(days=90))
    return sessions.create(tokens, Person(id=uuid4(), email="ada@example.test", name="Ada", organization_name="Acme"))


def test_a_session_ends_however_much_it_is_used(sessions: Sessions, clock: SimpleNamespace) -> None:
    """A fortnight after it began it has ended, so that a cookie which somebody copied works no longer than that."""
    cookie, begun = signed_in(sessions), clock.now
    while clock.now + 11 * HOUR < begun + LONGEST.total_seconds():
        clock.now += 11 * HOUR
        assert sessions.find(cookie) is not None
    clock.now = begun + LONGEST.total_seconds() + 1
    assert sessions.find(cookie) is None
    assert sessions.get(digest_of(cookie)) is None


def test_a_page_that_is_left_open_keeps_nobody_signed_in(sessions: Sessions, clock: SimpleNamespace) -> None:
    """What asks by itself is no use of a session: without a click it ends, and gives no tokens any more."""
    cookie, begun = signed_in(sessions), clock.now
    for hours in range(12):
        clock.now = begun + hours * HOUR
        assert sessions.lasts(digest_of(cookie))
        assert sessions.get(digest_of(cookie)) is not None
    clock.now = begun + IDLE.total_seconds() + 1
    assert not sessions.lasts(digest_of(cookie))
    assert sessions.get(digest_of(cookie)) is None
