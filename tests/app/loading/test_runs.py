"""Runs in the workbench: watched, stopped, run again, listed, and what they could not load."""

import pytest

from app.loading import run_page
from flows.operations.summary import Summary
from flows.run_status import RunStatus
from tests.app.conftest import html_of, markdown_of
from tests.app.loading.house import HOSTILE, LoadingHouse, bar, metrics, name_place, offered, run_of, start
from tests.app.pressing import answer, button, press

FAILURE = {
    "place": HOSTILE,
    "document": HOSTILE,
    "code": "file_empty",
    "reason": f"Empty: {HOSTILE} (400 file_empty, request 3acea378)",
}


@pytest.mark.usefixtures("deployment")
def test_a_reload_shows_the_run_that_goes_on(house: LoadingHouse) -> None:
    """The address is enough to watch a run again, in another window too; what nobody carries out yet says so."""
    run = run_of(start(name_place(house.open("ingestion"), "/srv/handbook")))
    assert "No process carries out runs now" in html_of(house.open("ingestion", run=run))
    house.prefect.move(run, "RUNNING")
    house.prefect.tell(run, Summary(documents=8, to_send=8, created=3, waiting=5), phase="sending")
    again = house.open("ingestion", run=run)
    assert bar(again) == "Sending … 12.5 documents a second"
    assert again.get("progress")[0].proto.value == 37
    assert metrics(again) == {"Created": "3", "Updated": "0", "Unchanged": "0", "Waiting": "5", "Failed": "0"}


@pytest.mark.usefixtures("deployment")
def test_what_a_run_waits_for_is_said_while_it_waits(house: LoadingHouse) -> None:
    """The page says what the command line says: for what, and how long at this pace; and no more once it has ended."""
    waiting = f"waiting for the index: 5 documents left, 1,200 chunks ahead at 20 a second, about 1 min, {HOSTILE}"
    run = run_of(start(name_place(house.open("ingestion"), "/srv/handbook")))
    house.prefect.move(run, "RUNNING")
    house.prefect.tell(run, Summary(documents=8, to_send=8, created=8), phase="indexing", waiting_for=waiting)
    page = house.open("ingestion", run=run)
    assert "Waiting for the index: 5 documents left, 1,200 chunks ahead at 20 a second, about 1 min" in html_of(page)
    assert "<img" not in html_of(page)
    house.prefect.move(run, "COMPLETED")
    assert "Waiting for the index" not in html_of(house.open("ingestion", run=run))


@pytest.mark.usefixtures("deployment")
def test_a_run_is_stopped_after_a_question(house: LoadingHouse) -> None:
    """Asked first, what goes on is asked to stop, and the page says that it does."""
    run = run_of(start(name_place(house.open("ingestion"), "/srv/handbook")))
    house.prefect.move(run, "RUNNING")
    page = press(house.open("ingestion", run=run), "Stop …")
    assert "What it has sent stays." in html_of(page)
    answer(page, "Stop …", "Stop it")
    page = house.open("ingestion", run=run)
    assert bar(page) == "Stopping …"
    assert button(page, "Stop …").disabled


@pytest.mark.usefixtures("deployment")
def test_what_was_not_loaded_is_listed_as_it_is(house: LoadingHouse) -> None:
    """Names and reasons from files are text, in the list, the plan and the run's message; more than a page is paged."""
    run = run_of(start(name_place(house.open("ingestion"), f"/srv/{HOSTILE}")))
    page_of = f"| planned | documents |\n|---|---|\n| create | 2 |\n\nLeft out as hidden: 1 (such as {HOSTILE})."
    summary = Summary(documents=2, to_send=2, created=1, failed=1, problems=300)
    house.prefect.tell(run, summary, phase="done", failures=[FAILURE] * 60, plan=page_of)
    house.prefect.move(run, "COMPLETED", HOSTILE)
    page = house.open("ingestion", run=run)
    assert "&lt;img src=x onerror=alert(1)&gt;" in html_of(page)
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)
    assert HOSTILE in page.text[0].value
    assert html_of(page).count("<td>Empty: &lt;img") == 50
    assert ":material/home: Request id: 3acea378</td>" in html_of(page)
    assert html_of(page).count('<td><a href="/help/troubleshooting#file_empty"') == 50
    assert html_of(press(page, "Next")).count("<td>Empty: &lt;img") == 10
    assert "and 241 more, listed under Failed" in "".join(one.value for one in page.caption)
    assert "<th scope='row'>create</th><td>2</td>" in html_of(page)


@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("FAILED", "It failed."),
        ("CRASHED", "The process that ran it ended before it was done."),
        ("CANCELLED", "It was stopped."),
    ],
)
def test_a_run_that_ends_early_says_how_and_what_to_do(house: LoadingHouse, state: str, words: str) -> None:
    """However a run ended, it is told apart, its message is text without Python's names, and what was sent stays."""
    run = run_of(start(name_place(house.open("ingestion"), "/srv/handbook")))
    house.prefect.tell(run, Summary(documents=8, to_send=8, created=3, waiting=5), phase="sending")
    house.prefect.move(run, state, f"Flow run encountered an exception: ServiceDownError: {HOSTILE}")
    page = house.open("ingestion", run=run)
    assert f"<p>{words}</p>" in html_of(page)
    assert "What was sent stays." in html_of(page)
    assert "ServiceDownError" not in html_of(page)
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)


@pytest.mark.parametrize("run", ["not-a-run", "0199b3f0-0000-7000-8000-000000000000", "<img src=x>"])
def test_an_address_that_names_no_run_says_so(house: LoadingHouse, run: str) -> None:
    """A bad or forgotten run in the address has a way back to the others."""
    page = house.open("ingestion", run=run)
    assert not page.exception
    assert "There is no such run." in html_of(page)
    assert not press(page, "All runs").get("progress")


def test_runs_are_listed_with_their_counts_page_by_page(house: LoadingHouse) -> None:
    """The newest are first, each with its state in words, and choosing one opens it."""
    with offered(house.prefect) as deployment:
        for number in range(21):
            run = house.prefect.start(deployment, {"source": f"/srv/shelf-{number:02}"})
        house.prefect.tell(run, Summary(documents=2304, to_send=2304, created=2303, failed=1), phase="done")
        house.prefect.move(run, "COMPLETED")
        page = house.open("ingestion", part="runs")
        rows = page.dataframe[0].value
        assert len(rows) == 20
        first = rows.iloc[0]
        assert (first["Type"], first["Source"], first["State"]) == ("Upload", "/srv/shelf-20", "Done, 1 failed")
        assert (first["Documents"], first["Started by"]) == ("2,303", "somebody, outside of the workbench")
        assert rows.iloc[1]["State"] == "Waiting"
        page.session_state[page.dataframe[0].key] = {"selection": {"rows": [0], "columns": [], "cells": []}}
        assert run_of(page.run()) == run
        page = press(house.open("ingestion", part="runs"), "Next")
        assert page.dataframe[0].value.iloc[0]["Source"] == "/srv/shelf-00"


def test_a_run_that_is_removed_while_it_is_watched_is_said(
    house: LoadingHouse, deployment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page doesn't go on asking for what there isn't."""
    run = house.prefect.start(deployment, {"source": "/srv/handbook"})
    find = run_page._find

    def find_and_remove(name: str) -> RunStatus | None:
        found = find(name)
        if found is not None:
            house.prefect.forget(run)
        return found

    monkeypatch.setattr(run_page, "_find", find_and_remove)
    assert "There is no such run." in html_of(house.open("ingestion", run=run))


def test_more_failures_of_a_sync_are_where_they_are(house: LoadingHouse) -> None:
    """Not in the quarantine, which has none of them."""
    with offered(house.prefect, "docstore-sync") as syncing:
        run = house.prefect.start(syncing, {"source": "Articles"})
        house.prefect.tell(run, Summary(documents=9, failed=5), phase="done", failures=[FAILURE] * 2)
        house.prefect.move(run, "COMPLETED")
        captions = "".join(one.value for one in house.open("ingestion", run=run).caption)
    assert "and 3 more, which the page of the sync lists" in captions
