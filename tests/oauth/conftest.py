"""A service for the whole session, with an organization for each test or module; tests' browsers are closed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from pydantic import SecretStr

from service.identity.passwords import hash_password
from service.identity_server.oauth import purging
from service.identity_server.signin import provider
from service.platform import copies
from service.platform.sql import Clock
from tests.harness.services import ADMIN_PASSWORD, SWEEP_SECONDS, RunningService, ServiceHarness
from tests.oauth.flow import EVERY_SCOPE, App, Person, Pkce, a_person, an_app, an_mcp_client
from tests.service.directory import organization_id

_numbers = count(1)


@dataclass(frozen=True)
class Standing:
    """An organization with a client of v1, a client of /mcp, and a person, for tests that don't change them."""

    service: RunningService
    app: App
    agent: App
    email: str

    def person(self) -> Person:
        return Person(self.service, self.email)


def new_organization(house: RunningService) -> AbstractContextManager[RunningService]:
    password_hash = house.run(hash_password(SecretStr(ADMIN_PASSWORD)))
    return house.new_organization(name=f"Harbour {next(_numbers)}", password_hash=password_hash)


@pytest.fixture(scope="session")
def house(service_harness: ServiceHarness) -> Iterator[RunningService]:
    with service_harness.running(sweep_seconds=SWEEP_SECONDS) as service:
        yield service


@pytest.fixture(scope="module")
def standing(house: RunningService) -> Iterator[Standing]:
    with new_organization(house) as service:
        yield Standing(service, an_app(service), an_mcp_client(service, scopes=EVERY_SCOPE), a_person(service).email)


@pytest.fixture
def service(house: RunningService) -> Iterator[RunningService]:
    """A new organization of people with passwords; the clock is reset afterwards."""
    with new_organization(house) as organization:
        yield organization
    house.runtime.clock.offset = timedelta()


@pytest.fixture
def app(service: RunningService) -> App:
    return an_app(service)


@pytest.fixture
def ada(service: RunningService) -> Person:
    return a_person(service)


@pytest.fixture
def ben(service: RunningService) -> Person:
    return a_person(service, "ben@example.test", name="Ben")


@pytest.fixture
def pkce() -> Pkce:
    return Pkce()


@pytest.fixture
def purge(service: RunningService) -> Callable[[], None]:
    here = organization_id(service)

    async def purge_here() -> None:
        async with service.runtime.database.transaction(here) as connection:
            await purging.purge(service.runtime, connection, here)

    return lambda: service.run(purge_here())


@pytest.fixture
def still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the time of services only by `later`, so that a slow machine ends no wait."""
    began = datetime.now(UTC)

    async def now(clock: Clock, _: object) -> datetime:
        return began + clock.offset

    monkeypatch.setattr(Clock, "now", now)
    monkeypatch.setattr(Clock, "stands_at", began, raising=False)


@pytest.fixture(autouse=True)
def _keep_nothing_of_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a provider each time, so that a test may change answers."""
    monkeypatch.setattr(provider, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(copies, "ERROR_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _close_browsers() -> Iterator[None]:
    yield
    while Person.opened:
        Person.opened.pop().close()
