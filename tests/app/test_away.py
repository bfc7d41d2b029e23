"""Every page when the service is away, or went away while somebody looked: words, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.navigation import FOR_ADMINS, FOR_ALL, FOR_EDITORS
from app.settings import settings
from tests.app.conftest import NOBODY_LISTENS, House, html_of

VIEWS = [name for pages in (FOR_ALL, FOR_EDITORS, FOR_ADMINS) for entries in pages.values() for name, *_ in entries]
# What makes a page ask for something as soon as it is drawn, where its bare address doesn't.
ADDRESSES: dict[str, dict[str, str]] = {"search": {"q": "sheep"}}


@contextmanager
def service_away() -> Iterator[None]:
    """Nobody answers where the service is said to be."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CARREL_BASE_URL", NOBODY_LISTENS)
        settings.cache_clear()
        yield
    settings.cache_clear()


@pytest.mark.parametrize("view", VIEWS)
def test_a_page_says_that_nobody_answers_and_what_to_do(house: House, view: str) -> None:
    """No page ends in a traceback, or in nothing, and none shows a list that it doesn't have."""
    house.open(view)
    with service_away():
        page = house.open(view, **ADDRESSES.get(view, {}))
    assert not page.exception
    assert "doesn&#x27;t answer." in html_of(page)
    assert "make up" in html_of(page)
    assert not page.dataframe
