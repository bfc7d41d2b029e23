"""What could not be loaded, in the workbench: looked at, tried again, set aside."""

import pytest

from tests.app.conftest import html_of, markdown_of
from tests.app.loading.house import HOSTILE, LoadingHouse, offered, run_of
from tests.app.pressing import answer, button, press


def test_the_quarantine_is_looked_at_where_the_runs_are(house: LoadingHouse) -> None:
    """It is told by a run, listed by source as text, set aside and tried again after a question."""
    prefect = house.prefect
    page = house.open("ingestion", part="quarantine")
    assert "Refresh, to see what was not loaded." in html_of(page)
    items = [
        {"ledger": "a1", "name": HOSTILE, "place": HOSTILE, "document": HOSTILE, "code": "file_empty"},
        {"ledger": "a1", "name": "old.pdf", "place": "old.pdf", "document": "", "code": "file_corrupt"},
    ]
    rest = {"reason": f"Empty: {HOSTILE}", "since": "2026-01-31T09:30:00+00:00", "ignored": False}
    source = {"ledger": "a1", "source": f"/srv/{HOSTILE}", "collection": None, "items": 700, "ignored": 0}
    with offered(prefect, "quarantine") as telling, offered(prefect, "quarantine-retry") as retrying:
        page = press(page, "Refresh")
        assert button(page, "Refresh").disabled
        (run,) = prefect.runs_of(telling)
        prefect.tell_quarantine(run["id"], [source], [one | rest for one in items])
        prefect.move(run["id"], "COMPLETED", "700 in quarantine.")
        page = house.open("ingestion", part="quarantine")
        assert "700 documents not loaded" in html_of(page)
        assert "<img" not in html_of(page)
        assert "evil" not in markdown_of(page)
        assert "and 698 more" in "".join(one.value for one in page.caption)
        assert button(page, "Set aside …").disabled
        page.session_state[page.dataframe[0].key] = {"selection": {"rows": [1], "columns": [], "cells": []}}
        page = press(page.run(), "Set aside …")
        answer(page, "Set aside …", "Set aside")
        newest = max(prefect.runs_of(telling), key=lambda run: run["created"])
        assert newest["parameters"] == {"action": "ignore", "source": "a1", "names": ["old.pdf"]}
        page = press(house.open("ingestion", part="quarantine"), "Try again …")
        page = answer(page, "Try again …", "Try again")
        (retry,) = prefect.runs_of(retrying)
        assert (retry["parameters"], run_of(page)) == ({"source": "a1", "loaded_from": f"/srv/{HOSTILE}"}, retry["id"])
        assert "Retry of /srv/&lt;img" in html_of(page)


@pytest.mark.parametrize(
    ("items", "said"),
    [(1, "1 document of this source is sent again"), (2, "2 documents of this source are sent again")],
)
def test_what_is_sent_again_is_counted_in_words(house: LoadingHouse, items: int, said: str) -> None:
    """One is no plural."""
    source = {"ledger": "a1", "source": "/srv/handbook", "collection": None, "items": items, "ignored": 0}
    with offered(house.prefect, "quarantine") as telling:
        run = house.prefect.start(telling, {})
        house.prefect.tell_quarantine(run, [source], [])
        page = press(house.open("ingestion", part="quarantine"), "Try again …")
        assert said in html_of(page)


def test_a_look_that_nobody_carries_out_is_not_waited_for_without_end(house: LoadingHouse) -> None:
    """The page says what to start, and the wait can be ended; so does one whose run somebody has removed."""
    with offered(house.prefect, "quarantine") as telling:
        page = press(house.open("ingestion", part="quarantine"), look_of(house))
        (run,) = house.prefect.runs_of(telling)
        assert "No process carries out runs now" in html_of(page)
        assert "python -m flows serve" in html_of(page)
        page = press(page, "Wait no longer")
        assert "It was stopped before it was done." in html_of(page)
        assert house.prefect.state_of(run["id"]) == "CANCELLED"
        page = press(page, look_of(house))
        newest = max(house.prefect.runs_of(telling), key=lambda run: run["created"])
        house.prefect.forget(newest["id"])
        page.run()
        assert "Its run was removed from Prefect" in html_of(page)
        assert not button(page, look_of(house)).disabled


def look_of(house: LoadingHouse) -> str:
    """What the button says that has the quarantine told anew."""
    page = house.open("ingestion", part="quarantine")
    return next(one.label for one in page.button if one.key == "quarantine.look")
