"""A service that stands for a whole module, and closing the browsers of a test."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.harness.services import RunningService, ServiceHarness
from tests.oauth.flow import App, Person, a_person, an_app


@dataclass(frozen=True)
class Standing:
    """A service with a client and a person, for tests that change neither."""

    service: RunningService
    app: App
    email: str

    def person(self) -> Person:
        """The person with a new browser, in which nobody is signed in."""
        return Person(self.service, self.email)


@pytest.fixture(scope="module")
def standing(service_harness: ServiceHarness) -> Iterator[Standing]:
    """One service a module."""
    service, stack = service_harness.start()
    yield Standing(service, an_app(service), a_person(service).email)
    service_harness.stop(service, stack)


@pytest.fixture(autouse=True)
def _close_browsers() -> Iterator[None]:
    yield
    while Person.opened:
        Person.opened.pop().close()
