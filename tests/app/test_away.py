"""Every page when the service is away, or went away while somebody looked: words, and what to do."""

import pytest

from app.navigation import FOR_ADMINS, FOR_ALL, FOR_EDITORS
from app.settings import settings
from tests.app.conftest import NOBODY_LISTENS

VIEWS = [name for pages in (FOR_ALL, FOR_EDITORS, FOR_ADMINS) for entries in pages.values() for name, *_ in entries]
# What makes a page ask for something as soon as it is drawn, where its bare address doesn't.
ADDRESSES: dict[str, dict[str, str]] = {"search": {"q": "sheep"}}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("view", VIEWS)
def test_a_page_says_that_nobody_answers_and_what_to_do(house, monkeypatch, view):
    """No page ends in a traceback, or in nothing, and none shows a list that it doesn't have."""
    house.sign_in()
    with monkeypatch.context() as environment:
        environment.setenv("CARREL_BASE_URL", NOBODY_LISTENS)
        settings.cache_clear()
        page = house.open(view, **ADDRESSES.get(view, {}))
    settings.cache_clear()
    assert f"The service at {NOBODY_LISTENS} doesn&#x27;t answer." in page.shown
    assert "make up" in page.shown
    assert not page.dataframe
