"""Loading documents from the workbench, on the real service and a real Prefect server."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from streamlit.testing.v1 import AppTest

from app.loading.words import duration_in_words, times_in_words
from app.settings import settings
from flows.operations.summary import Summary
from flows.schedules import Times
from tests.app.conftest import NOBODY_LISTENS, SetUp, draw, html_of, markdown_of, sign_in
from tests.app.loading import (
    HOSTILE,
    NOTE,
    LoadingHouse,
    bar,
    drop,
    house_on,
    metrics,
    name_place,
    offered,
    plan,
    run_of,
    staged,
    start,
)
from tests.app.prefect_api import PrefectServer
from tests.app.pressing import answer, button, press
from tests.flows.conftest import _collected, prefect_api  # noqa: F401 - fixtures
from tests.harness.services import RunningService, ServiceHarness

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*unclosed <socket:pytest.PytestUnraisableExceptionWarning"),
]

FAILURE = {
    "place": HOSTILE,
    "document": HOSTILE,
    "code": "file_empty",
    "reason": f"Empty: {HOSTILE} (400 file_empty, request 3acea378)",
}


@pytest.fixture(scope="module")
def house(
    prefect_api: str,  # noqa: F811
    service_harness: ServiceHarness,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LoadingHouse]:
    """A service, its workbench, and a Prefect server on which tests move runs by hand."""
    with house_on(prefect_api, service_harness, tmp_path_factory.mktemp("loading")) as house:
        yield house


@pytest.fixture
def prefect(house: LoadingHouse) -> PrefectServer:
    """The Prefect server."""
    return house.prefect


@pytest.fixture
def deployment(prefect: PrefectServer) -> Iterator[str]:
    """The upload flow is offered; nothing runs what is started, the test moves it by hand."""
    with offered(prefect) as deployment:
        yield deployment


def dropped(house: LoadingHouse, *files: tuple[str, bytes, str]) -> AppTest:
    """Open the page and drop files on it."""
    return drop(house.open("ingestion"), *(files or (NOTE,)))


def test_nothing_starts_without_a_source(house: LoadingHouse, deployment: str) -> None:
    """An empty page says what can be loaded, and when pressed what is missing; blanks are no place."""
    page = house.open("ingestion")
    assert not page.exception
    assert "what can't be read is listed" in page.caption[0].value
    assert "nothing to load yet" in html_of(plan(page))
    assert "nothing to load yet" in html_of(start(name_place(page, "  ")))
    assert house.prefect.runs_of(deployment) == []


def test_dropped_files_are_handed_to_the_flow_and_removed_after_it(house: LoadingHouse, deployment: str) -> None:
    """The flow gets a folder with the files; it stays while the run goes on, and is gone once it is done."""
    prefect = house.prefect
    page = start(dropped(house, NOTE, (".dotted.md", b"text", "text/markdown")))
    (run,) = prefect.runs_of(deployment)
    assert run["id"] == run_of(page)
    assert run["parameters"]["options"]["hidden"] is True
    folder = Path(run["parameters"]["source"])
    assert sorted(path.name for path in folder.iterdir()) == [".dotted.md", "note.md"]
    assert (folder / "note.md").read_bytes() == NOTE[1]
    assert "python -m flows serve" in html_of(page)
    prefect.move(run["id"], "RUNNING")
    page.run()
    assert (bar(page), folder.exists()) == ("Working …", True)
    prefect.tell(run["id"], Summary(documents=2, to_send=2, created=2), phase="done")
    prefect.move(run["id"], "COMPLETED")
    page.run()
    assert bar(page).startswith("Done in 3 s")
    assert not folder.exists()
    assert not press(page, "All runs").file_uploader


def test_a_run_acts_for_whoever_starts_it(house: LoadingHouse, deployment: str) -> None:
    """Documents belong to the signed-in person, as the page says, unless they choose the account that loads."""
    me = house.service.admin_email
    page = dropped(house)
    assert f"the documents belong to {me}" in html_of(page)
    page = start(page)
    assert f"started by {me}" in html_of(page)
    page = dropped(house)
    next(one for one in page.radio if one.label == "They belong to").set_value("The account that loads").run()
    start(page)
    newest, first = sorted(house.prefect.runs_of(deployment), key=lambda run: run["created"], reverse=True)
    assert first["parameters"]["options"]["upload_as_user_email"] == me
    assert newest["parameters"]["options"]["upload_as_user_email"] is None
    assert first["tags"] == newest["tags"] == [f"carrel-person:{me}"]


def test_a_plan_is_shown_before_anything_is_sent(house: LoadingHouse, deployment: str) -> None:
    """The plan's run sends nothing; its numbers stand at its address, and from there the upload begins once.

    Dropped files stay for the upload, and go when it is done.
    """
    prefect = house.prefect
    page = plan(dropped(house))
    (planned,) = prefect.runs_of(deployment)
    assert planned["parameters"]["dry_run"] is True
    numbers = {"create": 1204, "update": 3, "unchanged": 7, "forbidden": 1, "refused": 1, "problems": 2, "delete": 5}
    prefect.tell(planned["id"], Summary(documents=1216, to_send=1207), phase="done", planned=numbers)
    prefect.move(planned["id"], "COMPLETED")
    page = house.open("ingestion", run=planned["id"])
    assert metrics(page) == {
        "To create": "1,204",
        "To update": "3",
        "Unchanged": "7",
        "Refused": "4",
        "To delete": "5",
    }
    assert "Nothing was sent or deleted" in html_of(page)
    folder = Path(planned["parameters"]["source"])
    assert folder.exists()
    twice = house.open("ingestion", run=planned["id"])
    page, twice = press(page, "Start the upload"), press(twice, "Start the upload")
    assert run_of(page) == run_of(twice) != planned["id"]
    upload = next(run for run in prefect.runs_of(deployment) if run["id"] == run_of(page))
    assert upload["parameters"] == {name: planned["parameters"][name] for name in ("source", "options")}
    prefect.move(upload["id"], "COMPLETED")
    page.run()
    assert not folder.exists()
    page = press(house.open("ingestion", run=planned["id"]), "Start the upload")
    assert "The files that were dropped for it are gone." in html_of(page)


def test_files_of_a_run_that_failed_stay_for_another(house: LoadingHouse, deployment: str) -> None:
    """What is done goes at the next start, though nobody looked; a run that failed is run again with the same files."""
    prefect = house.prefect
    start(dropped(house))
    start(dropped(house))
    failed, done = sorted(prefect.runs_of(deployment), key=lambda run: run["created"])
    prefect.move(failed["id"], "FAILED", "stopped")
    prefect.move(done["id"], "COMPLETED")
    start(dropped(house))
    assert not Path(done["parameters"]["source"]).exists()
    page = press(house.open("ingestion", run=failed["id"]), "Run again")
    again = next(run for run in prefect.runs_of(deployment) if run["id"] == run_of(page))
    assert again["id"] != failed["id"]
    assert again["parameters"] == failed["parameters"]
    prefect.move(again["id"], "COMPLETED")
    page.run()
    assert not Path(failed["parameters"]["source"]).exists()


@pytest.mark.parametrize("second", ["note.md", "NOTE.md", "folder/note.md", "no\0te.md"])
def test_files_that_would_overwrite_each_other_are_refused(house: LoadingHouse, deployment: str, second: str) -> None:
    """Two files that would have one name are named, and nothing starts."""
    before = staged()
    page = dropped(house, NOTE, (second, b"other", "text/markdown"))
    assert "Several files are called note.md." in html_of(page)
    assert "Several files are called note.md." in html_of(plan(page))
    assert house.prefect.runs_of(deployment) == []
    assert staged() == before


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd.md", "passwd.md"),
        ("C:\\files\\plan.docx", "plan.docx"),
        ("a\0b\n.md", "ab.md"),
        ("..", "unnamed"),
        ("é" * 300 + ".md", "é" * 126 + ".md"),
        ("<img src=x onerror=alert(1)> **b** evil.example\0", "<img src=x onerror=alert(1)> **b** evil.example"),
    ],
)
def test_odd_names_are_kept_as_far_as_a_folder_can(house: LoadingHouse, deployment: str, name: str, kept: str) -> None:
    """A name with separators, NUL, markup or of any length is one file in the run's folder; a change is said."""
    page = dropped(house, (name, b"text", "text/markdown"))
    assert ("becomes" in html_of(page)) == (name != kept)
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)
    start(page)
    (run,) = house.prefect.runs_of(deployment)
    assert [path.name for path in Path(run["parameters"]["source"]).iterdir()] == [kept]


def test_access_collection_and_deletion_go_with_the_run(house: LoadingHouse, deployment: str) -> None:
    """Who may read is given to the flow by id, without anybody chosen nothing starts; so are the guard's numbers."""
    group = house.client.admin.groups.upsert([{"name": "Deck"}]).groups[0]
    made = house.client.document_collections.create_document_collection("Deck's handbook")
    page = name_place(house.open("ingestion"), " /srv/handbook ")
    page.radio[1].set_value("People and groups I choose").run()
    assert "Nobody is chosen" in html_of(plan(page))
    page.text_input(key="start.readers.typed").set_value("deck").run()
    page.multiselect(key="start.readers").set_value([f"group:{group.id}"]).run()
    next(one for one in page.selectbox if one.label.startswith("Also add")).set_value(str(made.document_collection_id))
    next(one for one in page.toggle if one.label.startswith("Delete what")).set_value(True).run()
    page.number_input[0].set_value(35)
    plan(page)
    (run,) = house.prefect.runs_of(deployment)
    options = run["parameters"]["options"]
    assert run["parameters"]["source"] == "/srv/handbook"
    assert (options["allowed_groups"], options["allowed_users"], options["internal_public"]) == (
        [str(group.id)],
        [],
        False,
    )
    assert options["collection"] == str(made.document_collection_id)
    assert (options["delete_missing"], options["delete_limit_percent"]) == (True, 35)


def test_a_password_in_an_address_is_refused(house: LoadingHouse, deployment: str) -> None:
    """Whoever sees Prefect would see it: it is not sent there, and not repeated."""
    page = plan(name_place(house.open("ingestion"), "s3://key:hush@bucket/reports"))
    assert "whoever looks at the run would see it" in html_of(page)
    assert "hush" not in html_of(page)
    assert house.prefect.runs_of(deployment) == []


def test_additions_and_indexing_begin_here_too(house: LoadingHouse) -> None:
    """A collection gets what a pattern chooses; another is indexed anew, the catalog with a model alone."""
    made = house.client.document_collections.create_document_collection("Policies of the house")
    identifier = str(made.document_collection_id)
    with offered(house.prefect, "collection-add") as adding, offered(house.prefect, "reindex") as indexing:
        page = house.open("ingestion")
        page.get_by_key("start.job").set_value("addition").run()
        assert "It isn&#x27;t said which documents." in html_of(press(page, "Start the addition"))
        next(one for one in page.selectbox if one.label == "Collection").set_value(identifier)
        page.text_input[0].set_value("catalog://policies/*?team=ferries").run()
        press(page, "Start the addition")
        (run,) = house.prefect.runs_of(adding)
        assert (run["parameters"]["source"], run["parameters"]["options"]["collection"]) == (
            "catalog://policies/*?team=ferries",
            identifier,
        )
        page = house.open("ingestion")
        page.get_by_key("start.job").set_value("indexing").run()
        next(one for one in page.selectbox if one.label == "Collection").set_value(identifier).run()
        page.radio[0].set_value("Everything").run()
        press(page, "Start the indexing")
        page = house.open("ingestion")
        page.get_by_key("start.job").set_value("indexing").run()
        next(one for one in page.selectbox if one.label == "Collection").set_value("catalog:").run()
        assert page.radio[0].options == ["Everything, with another model"]
        newest = house.prefect.runs_of(indexing)[0]
        assert (newest["parameters"]["source"], newest["parameters"]["options"]["everything"]) == (identifier, True)


@pytest.mark.usefixtures("deployment")
def test_a_reload_shows_the_run_that_goes_on(house: LoadingHouse) -> None:
    """The address is enough to watch a run again, in another window too; what nobody carries out yet says so."""
    run = run_of(start(name_place(house.open("ingestion"), "/srv/handbook")))
    assert "Nobody carries out runs now" in html_of(house.open("ingestion", run=run))
    house.prefect.move(run, "RUNNING")
    house.prefect.tell(run, Summary(documents=8, to_send=8, created=3, waiting=5), phase="sending")
    again = house.open("ingestion", run=run)
    assert bar(again) == "Sending … 12.5 documents a second"
    assert again.get("progress")[0].proto.value == 37
    assert metrics(again) == {"Created": "3", "Updated": "0", "Unchanged": "0", "Waiting": "5", "Not loaded": "0"}


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
    assert html_of(press(page, "Next")).count("<td>Empty: &lt;img") == 10
    assert "and 241 more, in the quarantine" in "".join(one.value for one in page.caption)
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
        assert (first["What"], first["From"], first["State"]) == ("Upload", "/srv/shelf-20", "Done, 1 not loaded")
        assert (first["Taken"], first["Started by"]) == ("2,303", "somebody, outside of the workbench")
        assert rows.iloc[1]["State"] == "Waiting"
        page.session_state[page.dataframe[0].key] = {"selection": {"rows": [0], "columns": [], "cells": []}}
        assert run_of(page.run()) == run
        page = press(house.open("ingestion", part="runs"), "Next")
        assert page.dataframe[0].value.iloc[0]["From"] == "/srv/shelf-00"


def test_the_quarantine_is_looked_at_where_the_runs_are(house: LoadingHouse) -> None:
    """It is told by a run, listed by source as text, set aside and tried again after a question."""
    prefect = house.prefect
    page = house.open("ingestion", part="quarantine")
    assert "Nobody has looked yet." in html_of(page)
    items = [
        {"ledger": "a1", "name": HOSTILE, "place": HOSTILE, "document": HOSTILE, "code": "file_empty"},
        {"ledger": "a1", "name": "old.pdf", "place": "old.pdf", "document": "", "code": "file_corrupt"},
    ]
    rest = {"reason": f"Empty: {HOSTILE}", "since": "2026-01-31T09:30:00+00:00", "ignored": False}
    source = {"ledger": "a1", "source": f"/srv/{HOSTILE}", "collection": None, "items": 700, "ignored": 0}
    with offered(prefect, "quarantine") as telling, offered(prefect, "quarantine-retry") as retrying:
        page = press(page, "Look")
        assert button(page, "Look").disabled
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
        assert (retry["parameters"], run_of(page)) == ({"source": "a1"}, retry["id"])


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
    assert "Nothing runs by itself." in html_of(house.open("ingestion", part="schedules"))


def test_flows_that_nobody_offers_are_said(house: LoadingHouse) -> None:
    """When a start fails the reason is shown, the files stay chosen, and nothing is left staged."""
    before = staged()
    page = start(dropped(house))
    assert "python -m flows serve" in html_of(page)
    assert "run" not in page.query_params
    assert page.file_uploader[0].value
    assert set(staged()) <= set(before)


@pytest.mark.parametrize(
    ("cron", "words"),
    [("15 * * * *", "At 15 minutes past the hour (UTC)"), ("@daily", "@daily (UTC)"), ("0 2 * * *", "At 02:00 (UTC)")],
)
def test_cron_in_words(cron: str, words: str) -> None:
    """What has no words of its own is shown as it stands."""
    assert times_in_words(Times(cron, "UTC")) == words


def test_durations_in_words() -> None:
    """Seconds, minutes and hours, as far as they tell something."""
    said = [duration_in_words(seconds) for seconds in (None, 0.4, 59.4, 200, 7500)]
    assert said == ["", "0 s", "59 s", "3 min 20 s", "2 h 5 min"]


class TestAway:
    """What is there when something is away; each with a workbench of its own."""

    def test_a_prefect_that_is_down_is_said(self, workbench: SetUp, service: RunningService) -> None:
        """Neither a start nor a run in the address, nor any part of the page, ends in a traceback."""
        workbench(service)
        session = sign_in(service)
        page = start(drop(draw("ingestion", session=session), NOTE))
        assert "Nothing was started." in html_of(page)
        assert NOBODY_LISTENS in html_of(page)
        for address in ({"run": str(uuid4())}, {"part": "runs"}, {"part": "quarantine"}, {"part": "schedules"}):
            page = draw("ingestion", session=session, **address)
            assert not page.exception
            assert "Prefect, which has the runs, doesn&#x27;t answer." in html_of(page)

    def test_a_folder_that_cannot_be_written_is_said(self, workbench: SetUp, service: RunningService) -> None:
        """When files can't be staged the page says where and why."""
        workbench(service)
        session = sign_in(service)
        uploads = settings().uploads_dir
        uploads.parent.mkdir(parents=True, exist_ok=True)
        uploads.write_text("a file where the folder should be")
        page = start(drop(draw("ingestion", session=session), NOTE))
        assert f"can&#x27;t be kept in {uploads}" in html_of(page)
