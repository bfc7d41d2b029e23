"""Every page when the service is away, or went away while somebody looked: words, and what to do."""

import asyncio
import socket

import pytest

from app import availability
from app.navigation import FOR_ADMINS, FOR_ALL, FOR_EDITORS
from app.settings import settings
from tests.app.conftest import NOBODY_LISTENS

VIEWS = [name for pages in (FOR_ALL, FOR_EDITORS, FOR_ADMINS) for entries in pages.values() for name, *_ in entries]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("view", VIEWS)
def test_a_page_says_that_nobody_answers_and_what_to_do(house, monkeypatch, view):
    """No page ends in a traceback, or in nothing, and none shows a list that it doesn't have."""
    house.sign_in()
    with monkeypatch.context() as environment:
        environment.setenv("CARREL_BASE_URL", NOBODY_LISTENS)
        settings.cache_clear()
        page = house.open(view, q="sheep")
    settings.cache_clear()
    assert f"The service at {NOBODY_LISTENS} doesn&#x27;t answer." in page.shown
    assert ("continue by themselves" in page.shown, "make up" in page.shown) == (True, False)
    assert not page.dataframe


def test_a_part_that_takes_connections_and_says_nothing_is_told_from_one_that_is_gone(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as environment:
        here = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for address, longest, said in (
            (here, 8, "it is slow, or"),
            (here, 0.1, "stopped"),
            (NOBODY_LISTENS, 8, "gone"),
        ):
            environment.setenv("CARREL_BASE_URL", address)
            environment.setattr(availability, "LONGEST", longest)
            settings.cache_clear()
            assert said in asyncio.run(availability.look(0.1))
    settings.cache_clear()
