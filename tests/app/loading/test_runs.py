"""Runs in the workbench: watching, stopping, repeating, listing, and quarantine."""

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from app.loading import run_page
from app.lookup import find_by_id
from flows.operations.deletions import beyond
from flows.operations.plan import Plan
from flows.operations.summary import Summary
from flows.runs import SKIPPED, RunStatus
from tests.app.loading.house import LoadingHouse, bar, offered, run_of
from tests.app.pages import MARKUP, NOTHING
from tests.harness.cases import cases
from tests.service.sources import Reporter, an_item

FAILURE = {
    "place": MARKUP,
    "document": MARKUP,
    "code": "file_empty",
    "reason": f"Empty: {MARKUP} (400 file_empty, request 3acea378)",
}


@pytest.mark.usefixtures("deployment")
def test_a_run_is_watched_and_stopped(house: LoadingHouse) -> None:
    run = house.start()
    assert "No flow server is running" in house.open("ingestion", run=run).shown
    house.prefect.move(run, "RUNNING")
    house.prefect.tell(run, Summary(documents=8, to_send=8, created=3, waiting=5), phase="sending")
    page = house.open("ingestion", run=run)
    assert bar(page) == "Sending … 12.5 documents a second"
    assert page.get("progress")[0].proto.value == 37
    assert page.metrics == {"Created": "3", "Updated": "0", "Unchanged": "0", "Waiting": "5", "Failed": "0"}
    waiting = f"waiting for the index: 5 documents left, 1,200 chunks ahead at 20 a second, about 1 min, {MARKUP}"
    house.prefect.tell(run, Summary(documents=8, to_send=8, created=8), phase="indexing", waiting_for=waiting)
    page = house.open("ingestion", run=run)
    assert "Waiting for the index: 5 documents left, 1,200 chunks ahead at 20 a second, about 1 min" in page.shown
    page.assert_shown_as_text(MARKUP)
    assert "Documents that were sent stay." in page.press("Stop …").shown
    page.answer("Stop …", "Stop")
    page = house.open("ingestion", run=run)
    assert bar(page) == "Stopping …"
    assert page.find_button("Stop …").disabled
    house.prefect.move(run, "COMPLETED")
    assert "Waiting for the index" not in house.open("ingestion", run=run).shown


@pytest.mark.usefixtures("deployment")
def test_what_was_not_loaded_is_listed_as_it_is(house: LoadingHouse) -> None:
    run = house.start(f"/srv/{MARKUP}")
    unread = Plan(2, 0, 0, 0, 0, 0, unread={".mp4": 1}).unread_text()
    page_of = f"| planned | documents |\n|---|---|\n| create | 2 |\n\n**{unread}.**\n\nLeft out: 1 (such as {MARKUP})."
    summary = Summary(documents=2, to_send=2, created=1, failed=1, problems=300)
    house.prefect.tell(run, summary, phase="done", failures=[FAILURE] * 60, plan=page_of)
    house.prefect.move(run, "COMPLETED", MARKUP)
    page = house.open("ingestion", run=run)
    page.assert_shown_as_text(MARKUP)
    assert "in formats that cannot be read (1 .mp4), and will be refused." in page.shown
    assert page.shown.count("<td>Empty: &lt;img") == 50
    assert ":material/home: Request id: 3acea378</td>" in page.shown
    assert page.shown.count('<td><a href="/help/troubleshooting#file_empty"') == 50
    assert page.press("Next").shown.count("<td>Empty: &lt;img") == 10
    assert "and 241 more, listed under Failed" in "".join(one.value for one in page.caption)
    assert "<th scope='row'>create</th><td>2</td>" in page.shown


@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize(("state", "words"), cases("a_run_that_ends_early_says_how_and_what_to_do"))
def test_a_run_that_ends_early_says_how_and_what_to_do(house: LoadingHouse, state: str, words: str) -> None:
    run = house.start()
    house.prefect.tell(run, Summary(documents=8, to_send=8, created=3, waiting=5), phase="sending")
    house.prefect.move(run, state, f"Flow run encountered an exception: ServiceDownError: {MARKUP}")
    page = house.open("ingestion", run=run)
    assert f"<p>{words}</p>" in page.shown
    assert "Documents that were sent stay." in page.shown
    assert "ServiceDownError" not in page.shown
    page.assert_shown_as_text()


@pytest.mark.parametrize(
    ("address", "said", "back"),
    [("run", "This run does not exist.", "All runs"), ("schedule", "This schedule does not exist.", "All schedules")],
)
def test_an_address_of_nothing_is_said_with_the_way_back(house, address, said, back):
    for nothing in NOTHING:
        page = house.open("ingestion", part="schedules", **{address: nothing})
        page.assert_shown_as_text(said)
        assert not page.press(back).get("progress")


def test_runs_are_listed_with_their_counts_page_by_page(house: LoadingHouse) -> None:
    with offered(house.prefect) as deployment:
        for number in range(21):
            run = house.prefect.start(deployment, {"source": f"/srv/shelf-{number:02}"})
        house.prefect.tell(run, Summary(documents=2304, to_send=2304, created=2303, failed=1), phase="done")
        house.prefect.move(run, "COMPLETED")
        page = house.open("ingestion", part="runs")
        assert len(page.rows()) == 20
        first, second, *_ = page.rows()
        assert (first["Type"], first["Source"], first["State"]) == ("Upload", "/srv/shelf-20", "Done, 1 failed")
        assert (first["Documents"], first["Started by"]) == ("2,303", "someone outside the workbench")
        assert second["State"] == "Waiting"
        assert run_of(page.choose()) == run
        assert house.open("ingestion", part="runs").press("Next").column("Source")[0] == "/srv/shelf-00"


def _named(what: str, path: str) -> dict[str, str]:
    return {"what": what, "name": path.rpartition("/")[2], "path": path, "document": "", "reason": ""}


def test_documents_are_named_and_their_deletion_is_confirmed_by_name(house: LoadingHouse, deployment: str) -> None:
    house.load("Kept of the run", document_external_id="a/kept.md")
    run = house.start()
    names = [_named("Created", "a/kept.md"), _named("Gone from the source, kept", f"b/{MARKUP}")]
    summary = Summary(documents=1, to_send=1, created=1, gone=1)
    house.prefect.tell(run, summary, phase="done", names=names, gone_mark="digest")
    house.prefect.move(run, "COMPLETED")
    page = house.open("ingestion", run=run)
    page.assert_shown_as_text(MARKUP)
    assert page.metrics["Gone, kept"] == "1"
    assert page.press("Delete …").shown.count(f"b/{MARKUP}".replace("<", "&lt;").split(" ")[0]) == 2
    page.answer("Delete …", "Delete")
    [started] = [one for one in house.prefect.runs_of(deployment) if "confirmed" in one["parameters"]]
    assert (started["parameters"]["confirmed"], started["parameters"]["options"]["delete_missing"]) == ("digest", True)
    listed = house.open("documents", run=run)
    assert listed.column("Path") == ["a/kept.md"]


@pytest.mark.usefixtures("deployment")
def test_a_blocked_deletion_is_told_beside_failures_with_what_the_page_offers(house: LoadingHouse) -> None:
    run, held = house.start(), f"Nothing is deleted: {beyond(20, marked=8, known=16)}"
    summary = Summary(documents=17, unchanged=16, failed=1, to_delete=8, held_back=held)
    house.prefect.tell(run, summary, phase="done", names=[_named("To delete", name) for name in ("b.md", "a.md")])
    house.prefect.move(run, "COMPLETED")
    shown = house.open("ingestion", run=run).shown
    assert "exceeds the limit of 20 %." in shown
    assert "--delete-limit" not in shown
    assert "use the button above" in shown
    assert shown.index("a.md") < shown.index("b.md")
    assert house.open("ingestion", part="runs").rows()[0]["State"] == "Done, 1 failed, deletion blocked"
    (reporter := Reporter(house.service, ledger=uuid4().hex[:24])).report([an_item("z.pdf")])
    house.load("Something")
    later = [house.start() for _ in range(2)]
    house.prefect.move(later[0], "COMPLETED", name=SKIPPED)
    house.prefect.move(later[1], "FAILED")
    shown = house.open("search").shown
    assert shown.count(f'href="ingestion?run={run}"') == 3  # held: itself, and to act; and loaded
    assert [one for one in later if one in shown] == []  # they have loaded nothing, and what was held back still is
    failed = house.open("ingestion", part="quarantine", source=reporter.ledger).shown
    assert "8 documents were gone from this source but not deleted, when it was loaded" in failed


def test_runs_are_found_by_state_source_and_time(house: LoadingHouse, deployment: str) -> None:
    long = f"/srv/{'deep/' * 20}handbook"
    done, _ = (house.prefect.start(deployment, {"source": source}) for source in (long, "/srv/other"))
    house.prefect.tell(done, Summary(documents=2, created=1, to_delete=1, deleted=1), phase="done")
    house.prefect.move(done, "COMPLETED")
    for wanted in ({"state": "done"}, {"place": "HANDBOOK"}, {"state": "done", "days": "1"}):
        page = house.open("ingestion", part="runs", **wanted)
        assert (page.column("Documents")[0], page.column("Source")[0][-9:]) == ("1, 1 deleted", "/handbook"), wanted
    assert "No run matches." in house.open("ingestion", part="runs", by="nightly").shown


def test_a_run_that_is_removed_while_it_is_watched_is_said(house, deployment, monkeypatch):
    run = house.prefect.start(deployment, {"source": "/srv/handbook"})

    def find_and_remove(find: Callable[[UUID], RunStatus], name: str) -> RunStatus | None:
        found = find_by_id(find, name)
        if found is not None:
            house.prefect.forget(run)
        return found

    monkeypatch.setattr(run_page, "find_by_id", find_and_remove)
    assert "This run does not exist." in house.open("ingestion", run=run).shown


def test_more_failures_of_a_sync_are_where_they_are(house: LoadingHouse) -> None:
    with offered(house.prefect, "docstore-sync") as syncing:
        run = house.prefect.start(syncing, {"source": "Articles"})
        house.prefect.tell(run, Summary(documents=9, failed=5), phase="done", failures=[FAILURE] * 2)
        house.prefect.move(run, "COMPLETED")
        captions = "".join(one.value for one in house.open("ingestion", run=run).caption)
    assert "and 3 more, listed on the page of the sync" in captions
