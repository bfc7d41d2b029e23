"""What runs by itself, in the workbench: read, paused, resumed, and started at once."""

from tests.app.conftest import html_of
from tests.app.loading.house import HOSTILE, LoadingHouse, offered, run_of
from tests.app.pressing import answer, press


def test_schedules_are_said_in_words_and_paused(house: LoadingHouse) -> None:
    """Each has its times, what is next and how it went last; paused after a question, it is resumed again."""
    cron = {"schedule": {"cron": "0 2 * * 1", "timezone": "Europe/Berlin"}, "active": True}
    prefect = house.prefect
    with offered(
        prefect, name="handbook-nightly", schedules=[cron], parameters={"source": f"/srv/{HOSTILE}"}
    ) as nightly:
        last = prefect.start(nightly, {})
        prefect.move(last, "FAILED", "no")
        page = house.open("ingestion", part="schedules")
        rows = page.dataframe[0].value
        row = next(one for _, one in rows.iterrows() if one["Name"] == "handbook-nightly")
        assert (row["When"], row["It was"]) == ("At 02:00, only on Monday (Europe/Berlin)", "Failed")
        number = list(rows["Name"]).index("handbook-nightly")
        chosen = {"selection": {"rows": [number], "columns": [], "cells": []}}
        page.session_state[page.dataframe[0].key] = chosen
        page = press(page.run(), "Pause …")
        assert "<img" not in html_of(page)
        answer(page, "Pause …", "Pause it")
        assert prefect.deployment(nightly)["paused"]
        page = house.open("ingestion", part="schedules")
        page.session_state[page.dataframe[0].key] = chosen
        press(page.run(), "Resume")
        assert not prefect.deployment(nightly)["paused"]
        page = house.open("ingestion", part="schedules")
        page.session_state[page.dataframe[0].key] = chosen
        page = answer(press(page.run(), "Start now …"), "Start now …", "Start it")
        assert run_of(page) in {run["id"] for run in prefect.runs_of(nightly)} - {last}
        by_hand = prefect.deploy(name="by-hand", parameters={"source": "/srv/handbook"})
        page = house.open("ingestion", part="schedules")
        number = list(page.dataframe[0].value["Name"]).index("by-hand")
        page.session_state[page.dataframe[0].key] = {"selection": {"rows": [number], "columns": [], "cells": []}}
        shown = html_of(page.run())
        prefect.withdraw(by_hand)
        assert "when somebody starts it" in shown
        assert "not planned yet" not in shown
    assert "Nothing runs by itself." in html_of(house.open("ingestion", part="schedules"))
