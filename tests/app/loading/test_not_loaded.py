"""What could not be loaded, in the workbench: there at once, tried again, ignored, restored, and removed."""

from uuid import uuid4

import pytest

from app.loading import quarantine
from app.settings import settings
from tests.app.conftest import NOBODY_LISTENS, House
from tests.app.loading.house import LoadingHouse, offered, run_of
from tests.app.pages import MARKUP, Page
from tests.harness.services import RunningService
from tests.service.sources import Reporter, an_item


def a_reporter(service: RunningService, api_key: str | None = None) -> Reporter:
    """Who reports a source that no other test has."""
    return Reporter(service, api_key, ledger=uuid4().hex[:24])


@pytest.fixture
def reporter(house: LoadingHouse) -> Reporter:
    return a_reporter(house.service)


def report(reporter: Reporter, *names: str, **members) -> str:
    return str(reporter.report([an_item(name) for name in names], **members)["sourceId"])


def show(house: House, reporter: Reporter, **address: str) -> Page:
    return house.open("ingestion", part="quarantine", source=reporter.ledger, **address)


def test_what_was_not_loaded_is_there_at_once(house: LoadingHouse, reporter: Reporter) -> None:
    """A source's documents are listed as text, page by page, with what is known of the source; all of it, by name."""
    items = [an_item(f"{number:04}.pdf", message=f"Empty: {MARKUP}", place=MARKUP) for number in range(120)]
    reported = reporter.report(items, source=f"/srv/{MARKUP}")
    page = show(house, reporter)
    assert "120 documents failed" in page.shown
    assert f"reported just now by {reported['reportedBy']['name']}" in page.shown
    assert page.column("Document")[0] == f"0000.pdf ({MARKUP})"
    assert len(page.column("Document")) == 50
    page = page.press("Next").press("Next")
    assert len(page.column("Document")) == 20
    page = page.choose(0)
    page.assert_shown_as_text(MARKUP)
    assert "<td>0100.pdf</td><td>Empty: &lt;img" in page.shown


def test_documents_are_ignored_and_restored_at_once(house: LoadingHouse, reporter: Reporter) -> None:
    """The service has it as soon as the button is pressed; what is chosen then is chosen no more, on the same page."""
    source = reporter.report([an_item(f"{number:03}.pdf") for number in range(60)])["sourceId"]
    page = show(house, reporter).press("Next")
    assert page.find_button("Ignore").disabled
    assert page.find_button("Restore").disabled
    page = page.choose(1, 2).press("Ignore")
    assert reporter.names(source, ignored=True) == ["051.pdf", "052.pdf"]
    assert "2 documents count no more until they change." in page.shown
    assert "58 documents failed · 2 ignored" in page.shown
    assert page.column("Ignored")[:4] == ["", "yes", "yes", ""]
    assert page.find_button("Restore").disabled
    page = page.choose(1)
    assert "count no more until they change" not in page.shown
    assert page.find_button("Ignore").disabled
    page = page.press("Restore")
    assert reporter.names(source, ignored=True) == ["052.pdf"]
    assert "1 document counts again." in page.shown


def test_what_is_gone_meanwhile_is_named(house: LoadingHouse, reporter: Reporter) -> None:
    """Names that a run has loaded meanwhile are said, and the others changed; also when nothing of it is left."""
    source = reporter.report([an_item("a.pdf"), an_item(MARKUP), an_item("c.pdf")])["sourceId"]
    page = show(house, reporter).choose(0, 1)
    report(reporter, "c.pdf", "a.pdf")
    page = page.press("Ignore")
    assert "1 document counts no more until it changes." in page.shown
    assert "Not among what failed any more: &lt;img" in page.shown
    assert reporter.names(source, ignored=True) == ["a.pdf"]
    page = page.choose(1)
    reporter.report([])
    page = page.press("Ignore")
    assert "Not among what failed any more: c.pdf." in page.shown
    assert "count no more" not in page.shown.partition("Not among what failed")[0]


def test_a_document_at_two_places_is_ignored_with_both(house: LoadingHouse, reporter: Reporter) -> None:
    source = reporter.report([an_item("a.pdf", place="line 1"), an_item("a.pdf", place="line 2")])["sourceId"]
    assert "1 document counts no more until it changes." in show(house, reporter).choose(0, 1).press("Ignore").shown
    assert [item["ignored"] for item in reporter.items(source)] == [True, True]


def test_a_change_that_fails_says_why(house: LoadingHouse, reporter: Reporter) -> None:
    source = report(reporter, "a.pdf")
    page = show(house, reporter).choose(0)
    house.client.sources.remove_source(source)
    page = page.press("Ignore")
    assert "There is no such source that you report." in page.shown
    assert "The address names a source that isn&#x27;t there." in page.shown
    assert page.query_params["source"] != source


def test_items_are_narrowed_by_whether_they_are_ignored(house: LoadingHouse, reporter: Reporter) -> None:
    source = report(reporter, "a.pdf", "b.pdf")
    reporter.ignore(source, "b.pdf")
    assert show(house, reporter).column("Document") == ["a.pdf (a.pdf.md)", "b.pdf (b.pdf.md)"]
    assert show(house, reporter, show="counted").column("Document") == ["a.pdf (a.pdf.md)"]
    page = show(house, reporter, show="ignored")
    assert page.column("Document") == ["b.pdf (b.pdf.md)"]
    reporter.ignore(source, "a.pdf")
    page.get_by_key("filter.show").set_value("counted").run()
    assert page.address["show"] == "counted"
    assert "What could not be loaded of it is ignored." in page.shown
    reporter.ignore(source, "a.pdf", "b.pdf", undo=True)
    assert "Nothing of this source is ignored." in show(house, reporter, show="ignored").shown


def test_a_source_is_tried_again_after_a_question(house: LoadingHouse, reporter: Reporter) -> None:
    """The run has the ledger's name and says of what it is; its page is opened."""
    report(reporter, "a.pdf", source=f"/srv/{MARKUP}")
    with offered(house.prefect, "quarantine-retry") as retrying:
        page = show(house, reporter).press("Retry all …")
        assert "1 document of this source is sent again" in page.shown
        page = page.answer("Retry all …", "Retry them")
        (retry,) = house.prefect.runs_of(retrying)
        expected = {"source": reporter.ledger, "loaded_from": f"/srv/{MARKUP}"}
        assert (retry["parameters"], run_of(page)) == (expected, retry["id"])
        assert "Retry of /srv/&lt;img" in page.shown
    report(reporter, "a.pdf", "b.pdf")
    assert "2 documents of this source are sent again" in show(house, reporter).press("Retry all …").shown


def test_chosen_documents_are_retried_by_one_click(house: LoadingHouse, reporter: Reporter) -> None:
    """Only those that were chosen and count are named to the run, which a second click doesn't start again."""
    source = report(reporter, "a.pdf", "b.pdf", "c.pdf")
    reporter.ignore(source, "c.pdf")
    with offered(house.prefect, "quarantine-retry") as retrying:
        page = show(house, reporter).choose(0, 2)
        link = 'href="/help/troubleshooting#file_encrypted" target="_blank" rel="noopener" aria-label="What to do: '
        assert f'{link}a.pdf"' in page.shown
        page = page.press_twice("Retry")
        (retry,) = house.prefect.runs_of(retrying)
        assert run_of(page) == retry["id"]
    assert retry["parameters"]["names"] == ["a.pdf"]


def test_dropped_files_are_not_tried_again(house: LoadingHouse, reporter: Reporter) -> None:
    """They are gone, which is said; which drop they were of is told by its time."""
    report(reporter, "a.pdf", source=str(settings().uploads_dir / uuid4().hex))
    page = show(house, reporter)
    assert "These files were dropped here, and are gone." in page.shown
    assert "Retry all …" not in page.labels
    assert "Retry" not in page.choose(0).labels
    chosen = page.get_by_key("filter.source")
    assert chosen.format_func(chosen.value).startswith("Files dropped in the workbench, ")


def test_a_source_is_removed_after_a_question(house: LoadingHouse, reporter: Reporter) -> None:
    source = report(reporter, "a.pdf")
    page = show(house, reporter).press("Remove …")
    assert "Documents that were loaded stay." in page.shown
    page.find_button("Remove it").click().run()
    assert source not in [one["sourceId"] for one in reporter.sources()]
    assert "isn&#x27;t there" not in page.shown
    assert page.query_params["source"] != source


def test_an_address_names_a_source_by_id_or_ledger(house: LoadingHouse, reporter: Reporter) -> None:
    source = report(reporter, "a.pdf", source="/srv/by-ledger")
    page = show(house, reporter)
    assert page.address["source"] == source
    assert "/srv/by-ledger</h2>" in page.shown
    page = house.open("ingestion", part="quarantine", source=source)
    assert "/srv/by-ledger</h2>" in page.shown
    page.query_params["source"] = "0" * 24
    assert "The address names a source that isn&#x27;t there." in page.run().shown


def test_who_reports_is_named_where_several_report_the_same(house: LoadingHouse) -> None:
    """Sources that read alike are told apart, by whoever reports them, and then by their ledgers."""
    source = f"/srv/{uuid4().hex}"
    keys = (None, None, house.service.new_user("loader@example.test"))
    reporters = [a_reporter(house.service, key) for key in keys]
    name = f"Notes {uuid4().hex}"
    collection = house.add_collection(name, custom_metadata_schema={"fields": []})
    mine, *_ = [reporter.report([an_item("a.pdf")], source=source)["reportedBy"]["email"] for reporter in reporters]
    added = a_reporter(house.service)
    report(added, "a.pdf", source=source, documentCollectionId=collection)
    with_id = {one.ledger: str(one.source_id) for one in house.client.sources.list_sources()}
    box = show(house, added).get_by_key("filter.source")
    labels = [box.format_func(with_id[one.ledger]) for one in (*reporters, added)]
    assert labels == [
        f"{source} · uploaded · reported by {mine} · {reporters[0].ledger}",
        f"{source} · uploaded · reported by {mine} · {reporters[1].ledger}",
        f"{source} · uploaded · reported by loader@example.test",
        f"{source} · added to {name}",
    ]


def test_many_sources_are_narrowed_by_a_part_of_their_names(house, monkeypatch):
    """Where there are many there is a field; the one in the address is there however many fit."""
    shelf = uuid4().hex
    for number in range(4):
        reporter = a_reporter(house.service)
        report(reporter, "a.pdf", source=f"/srv/{shelf}/{number}")
    monkeypatch.setattr(quarantine, "MANY", 3)
    monkeypatch.setattr(quarantine, "MOST", 2)
    page = show(house, reporter, find=shelf.upper())
    assert "4 sources fit" in page.shown
    assert f"/srv/{shelf}/3</h2>" in page.shown
    assert len(page.get_by_key("filter.source").options) == 3
    page.get_by_key("filter.find").set_value(f"{shelf}/1").run()
    assert f"/srv/{shelf}/1</h2>" in page.shown
    page.get_by_key("filter.find").set_value("no such shelf").run()
    assert "No source has this in its name." in page.shown


def test_it_is_said_when_nothing_is_there(new_house: House) -> None:
    """Before anything is loaded the page leads to where that is done; then it says that everything was loaded."""
    page = new_house.open("ingestion", part="quarantine")
    assert "Nothing has failed." in page.shown
    assert 'href="ingestion"' in page.shown
    good, bad = a_reporter(new_house.service), a_reporter(new_house.service)
    report(good, source="/srv/good")
    page = new_house.open("ingestion", part="quarantine")
    assert "Everything was loaded." in page.shown
    assert "/srv/good</h2>" in page.shown
    assert page.find_button("Retry all …").disabled
    report(bad, "a.pdf", source="/srv/bad")
    page = new_house.open("ingestion", part="quarantine")
    assert "Everything was loaded." not in page.shown
    assert "/srv/bad</h2>" in page.shown
    page = page.choose(0)
    report(bad, source="/srv/bad")
    page = page.press("Ignore")
    assert "Everything was loaded." in page.shown
    assert "Not among what failed any more: a.pdf." in page.shown
    report(bad, "a.pdf", source="/srv/bad")
    page = new_house.open("ingestion", part="quarantine", source=good.ledger)
    assert "Everything of this source was loaded." in page.shown


def test_the_page_needs_no_prefect_but_to_try_again(new_house: House) -> None:
    """What could not be loaded is shown and ignored all the same; only the start of a run says what to do."""
    reporter = a_reporter(new_house.service)
    source = report(reporter, "a.pdf", "b.pdf")
    page = new_house.open("ingestion", part="quarantine").choose(0).press("Ignore")
    assert reporter.names(source, ignored=True) == ["a.pdf"]
    page = page.choose(1).press("Retry")
    assert NOBODY_LISTENS in page.shown
    page = page.press("Retry all …")
    page.find_button("Retry them").click().run()
    assert NOBODY_LISTENS in str(page.session_state["confirm.problem"])


def test_runs_of_an_earlier_version_break_nothing(house: LoadingHouse) -> None:
    """A run of a flow that is no more is drawn in its address, not offered again, and in no list."""
    with offered(house.prefect, "quarantine") as former:
        run = house.prefect.start(former, {"action": "list"})
        house.prefect.move(run, "COMPLETED", "1 in quarantine.")
        page = house.open("ingestion", part="runs")
        assert not any("quarantine" in list(table.value["Type"]) for table in page.dataframe)
    assert "Run again" not in house.open("ingestion", run=run).labels
