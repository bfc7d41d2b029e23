"""Sources in the workbench, with the runs of a real Prefect server."""

from uuid import uuid4

import pytest

from flows.operations.summary import Summary
from flows.runs import Runs
from flows.schedules import Draft, Times, add_schedule
from tests.app.loading.house import LoadingHouse, run_of
from tests.app.pages import MARKUP, NOTHING
from tests.service.sources import Reporter, an_item

NEVER = "No schedule loads this source."


def _end(house: LoadingHouse, run: str, summary: Summary, *created: str) -> None:
    rows = [{"what": "Created", "name": one, "path": one, "document": "", "reason": ""} for one in created]
    house.prefect.tell(run, summary, phase="done", names=rows)
    house.prefect.move(run, "COMPLETED")


def test_a_source_says_when_it_was_complete_and_leads_to_all_that_is_its(house: LoadingHouse, deployment: str) -> None:
    source = f"/srv/{MARKUP}/{uuid4().hex}"
    first, second, plan = (house.prefect.start(deployment, {"source": source, **more}) for more in ({}, {}, _PLAN))
    _end(house, first, Summary(documents=1, created=1), "first.md")
    _end(house, second, Summary(documents=2, created=1, failed=1), "second.md", "unread.md")
    house.prefect.tell(plan, Summary(documents=9, failed=7), phase="sending")
    assert 7 in house.open("ingestion", part="sources").column("Failed")
    _end(house, plan, Summary(documents=2))
    for name in ("first.md", "second.md", "other.md"):
        house.load(name, document_external_id=name)
    [row] = [one for one in house.open("ingestion", part="sources").rows() if one["Source"].endswith(source[-20:])]
    assert list(row.values())[1:] == ["Just now", "Planned", 0, "Not scheduled"]
    Reporter(house.service, ledger=uuid4().hex[:24]).report([an_item("unread.md")], source=source)
    page = house.open("ingestion", part="sources", location=source)
    page.assert_shown_as_text(MARKUP)
    assert "last complete just now" in page.shown
    assert "Retry or ignore 1 failed document" in page.shown
    assert NEVER in page.shown
    assert page.column("State") == ["Planned", "Done, 1 failed", "Done"]
    assert run_of(page.choose(2)) == first
    assert sorted(house.open("documents", source=source).column("Path")) == ["first.md", "second.md"]
    form = house.open("ingestion", part="sources", location=source).press("New schedule")
    assert form.address == {"part": "schedules", "schedule": "new", "from": plan}


_PLAN = {"dry_run": True}


@pytest.mark.usefixtures("deployment")
def test_a_source_that_is_only_scheduled_was_never_complete(house: LoadingHouse) -> None:
    source = f"/srv/{'deep/' * 20}{uuid4().hex}"
    with Runs(house.prefect.url) as runs:
        made = add_schedule(runs, Draft("Nightly", "bulk-upload", {"source": source}, Times("0 2 * * 1")))
    [row] = [one for one in house.open("ingestion", part="sources").rows() if one["Source"].endswith(source[-32:])]
    assert row["Last complete"] == "Never"
    assert row["Next run"].startswith("In ")
    page = house.open("ingestion", part="sources", location=source)
    assert "never complete" in page.shown
    assert "No runs yet." in page.shown
    assert "Open documents" not in page.shown
    assert NEVER not in page.shown
    page.choose()
    assert page.address == {"part": "schedules", "schedule": str(made)}
    assert "location=" in page.shown
    for nothing in NOTHING:
        missing = house.open("ingestion", part="sources", location=nothing)
        missing.assert_shown_as_text("This source does not exist.")
        assert missing.press("All sources").address == {"part": "sources"}
