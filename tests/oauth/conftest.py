"""A service that stands for a whole module, and closing the browsers of a test."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from service.domains.signin import provider
from service.platform import kept
from tests.harness.services import RunningService, ServiceHarness
from tests.oauth.flow import EVERY_SCOPE, App, Person, a_person, an_app, an_mcp_client


@dataclass(frozen=True)
class Standing:
    """A service with a client of v1, one of /mcp, and a person, for tests that change none of them."""

    service: RunningService
    app: App
    agent: App
    email: str

    def person(self) -> Person:
        """The person with a new browser, in which nobody is signed in."""
        return Person(self.service, self.email)


@pytest.fixture(scope="module")
def standing(service_harness: ServiceHarness) -> Iterator[Standing]:
    """One service a module."""
    service, stack = service_harness.start()
    yield Standing(service, an_app(service), an_mcp_client(service, scopes=EVERY_SCOPE), a_person(service).email)
    service_harness.stop(service, stack)


@pytest.fixture
def still_clock(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the service's time pass by `later` alone, so that no wait ends because the machine is slow."""
    clock, began = service.runtime.clock, datetime.now(UTC)

    async def now(_: object) -> datetime:
        return began + clock.offset

    monkeypatch.setattr(clock, "now", now)
    monkeypatch.setattr(clock, "stands_at", began, raising=False)


@pytest.fixture(autouse=True)
def _keep_nothing_of_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a provider asked each time, so that a test may change what it says."""
    monkeypatch.setattr(provider, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(kept, "ERROR_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _close_browsers() -> Iterator[None]:
    yield
    while Person.opened:
        Person.opened.pop().close()
