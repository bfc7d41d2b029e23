"""What could not be loaded, in the workbench: there at once, tried again, ignored, restored, and removed."""

from uuid import uuid4

import pytest
from streamlit.testing.v1 import AppTest

from app.loading import sources
from app.settings import settings
from tests.app.conftest import NOBODY_LISTENS, Open, SetUp, draw, html_of, markdown_of, sign_in
from tests.app.loading.house import HOSTILE, LoadingHouse, offered, run_of
from tests.app.pressing import answer, button, press, press_twice
from tests.harness.services import RunningService
from tests.service.sources import Reporter, an_item


def a_reporter(service: RunningService, api_key: str | None = None) -> Reporter:
    """Who reports a source that no other test has."""
    return Reporter(service, api_key, ledger=uuid4().hex[:24])


def show(house: LoadingHouse, reporter: Reporter, **address: str) -> AppTest:
    """Draw the part of the page, with the source of this reporter."""
    return house.open("ingestion", part="quarantine", source=reporter.ledger, **address)


def choose(page: AppTest, *rows: int) -> AppTest:
    """Choose rows of the table."""
    page.session_state[page.dataframe[0].key] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return page.run()


def documents(page: AppTest) -> list[str]:
    """The documents in the table."""
    return list(page.dataframe[0].value["Document"])


def captions(page: AppTest) -> str:
    """What stands small on the page."""
    return "".join(one.value for one in page.caption)


def test_what_was_not_loaded_is_there_at_once(house: LoadingHouse) -> None:
    """A source's documents are listed as text, page by page, with what is known of the source; all of it, by name."""
    reporter = a_reporter(house.service)
    items = [an_item(f"{number:04}.pdf", message=f"Empty: {HOSTILE}", place=HOSTILE) for number in range(120)]
    reported = reporter.report(items, source=f"/srv/{HOSTILE}")
    page = show(house, reporter)
    assert "120 documents failed" in html_of(page)
    assert f"reported just now by {reported['reportedBy']['name']}" in html_of(page)
    assert documents(page)[0] == f"0000.pdf ({HOSTILE})"
    assert len(documents(page)) == 50
    page = press(press(page, "Next"), "Next")
    assert len(documents(page)) == 20
    page = choose(page, 0)
    assert "<td>0100.pdf</td><td>Empty: &lt;img" in html_of(page)
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)


def test_documents_are_ignored_and_restored_at_once(house: LoadingHouse) -> None:
    """The service has it as soon as the button is pressed; what is chosen then is chosen no more, on the same page."""
    reporter = a_reporter(house.service)
    source = reporter.report([an_item(f"{number:03}.pdf") for number in range(60)])["sourceId"]
    page = press(show(house, reporter), "Next")
    assert button(page, "Ignore").disabled
    assert button(page, "Restore").disabled
    page = press(choose(page, 1, 2), "Ignore")
    assert reporter.names(source, ignored=True) == ["051.pdf", "052.pdf"]
    assert "2 documents count no more until they change." in html_of(page)
    assert "58 documents failed · 2 ignored" in html_of(page)
    assert list(page.dataframe[0].value["Ignored"])[:4] == ["", "yes", "yes", ""]
    assert button(page, "Restore").disabled
    page = choose(page, 1)
    assert "count no more until they change" not in html_of(page)
    assert button(page, "Ignore").disabled
    page = press(page, "Restore")
    assert reporter.names(source, ignored=True) == ["052.pdf"]
    assert "1 document counts again." in html_of(page)


def test_what_is_gone_meanwhile_is_named(house: LoadingHouse) -> None:
    """Names that a run has loaded meanwhile are said, and the others changed; also when nothing of it is left."""
    reporter = a_reporter(house.service)
    source = reporter.report([an_item("a.pdf"), an_item(HOSTILE), an_item("c.pdf")])["sourceId"]
    page = choose(show(house, reporter), 0, 1)
    reporter.report([an_item("c.pdf"), an_item("a.pdf")])
    page = press(page, "Ignore")
    assert "1 document counts no more until it changes." in html_of(page)
    assert "Not among what failed any more: &lt;img" in html_of(page)
    assert reporter.names(source, ignored=True) == ["a.pdf"]
    page = choose(page, 1)
    reporter.report([])
    page = press(page, "Ignore")
    assert "Not among what failed any more: c.pdf." in html_of(page)
    assert "count no more" not in html_of(page).partition("Not among what failed")[0]


def test_a_document_at_two_places_is_ignored_with_both(house: LoadingHouse) -> None:
    """A name is sent once, though two rows have it."""
    reporter = a_reporter(house.service)
    source = reporter.report([an_item("a.pdf", place="line 1"), an_item("a.pdf", place="line 2")])["sourceId"]
    page = press(choose(show(house, reporter), 0, 1), "Ignore")
    assert "1 document counts no more until it changes." in html_of(page)
    assert [item["ignored"] for item in reporter.items(source)] == [True, True]


def test_a_change_that_fails_says_why(house: LoadingHouse) -> None:
    """A refusal is said in the service's own words; a source that was removed meanwhile is on the page no more."""
    reporter = a_reporter(house.service)
    source = reporter.report([an_item("a.pdf")])["sourceId"]
    page = choose(show(house, reporter), 0)
    house.client.sources.remove_source(source)
    page = press(page, "Ignore")
    assert "There is no such source that you report." in html_of(page)
    assert "The address names a source that isn&#x27;t there." in html_of(page)
    assert page.query_params["source"] != source


def test_items_are_narrowed_by_whether_they_are_ignored(house: LoadingHouse) -> None:
    """All, those that count, or those that are ignored; in the address too, with words where there is none."""
    reporter = a_reporter(house.service)
    source = reporter.report([an_item("a.pdf"), an_item("b.pdf")])["sourceId"]
    reporter.ignore(source, "b.pdf")
    assert documents(show(house, reporter)) == ["a.pdf (a.pdf.md)", "b.pdf (b.pdf.md)"]
    assert documents(show(house, reporter, show="counted")) == ["a.pdf (a.pdf.md)"]
    page = show(house, reporter, show="ignored")
    assert documents(page) == ["b.pdf (b.pdf.md)"]
    reporter.ignore(source, "a.pdf")
    page.get_by_key("filter.show").set_value("counted").run()
    assert page.query_params["show"] == "counted"
    assert "What could not be loaded of it is ignored." in html_of(page)
    reporter.ignore(source, "a.pdf", "b.pdf", undo=True)
    assert "Nothing of this source is ignored." in html_of(show(house, reporter, show="ignored"))


def test_a_source_is_tried_again_after_a_question(house: LoadingHouse) -> None:
    """The run has the ledger's name and says of what it is; its page is opened."""
    reporter = a_reporter(house.service)
    reporter.report([an_item("a.pdf")], source=f"/srv/{HOSTILE}")
    with offered(house.prefect, "quarantine-retry") as retrying:
        page = press(show(house, reporter), "Retry all …")
        assert "1 document of this source is sent again" in html_of(page)
        page = answer(page, "Retry all …", "Retry them")
        (retry,) = house.prefect.runs_of(retrying)
        expected = {"source": reporter.ledger, "loaded_from": f"/srv/{HOSTILE}"}
        assert (retry["parameters"], run_of(page)) == (expected, retry["id"])
        assert "Retry of /srv/&lt;img" in html_of(page)
    reporter.report([an_item("a.pdf"), an_item("b.pdf")])
    assert "2 documents of this source are sent again" in html_of(press(show(house, reporter), "Retry all …"))


def test_chosen_documents_are_retried_by_one_click(house: LoadingHouse) -> None:
    """Only those that were chosen and count are named to the run, which a second click doesn't start again."""
    reporter = a_reporter(house.service)
    source = reporter.report([an_item("a.pdf"), an_item("b.pdf"), an_item("c.pdf")])["sourceId"]
    reporter.ignore(source, "c.pdf")
    with offered(house.prefect, "quarantine-retry") as retrying:
        page = choose(show(house, reporter), 0, 2)
        link = (
            'href="/help/troubleshooting#file_encrypted" target="_blank" rel="noopener" aria-label="What to do: a.pdf"'
        )
        assert link in html_of(page)
        page = press_twice(page, "Retry")
        (retry,) = house.prefect.runs_of(retrying)
        assert run_of(page) == retry["id"]
    assert retry["parameters"]["names"] == ["a.pdf"]


def test_dropped_files_are_not_tried_again(house: LoadingHouse) -> None:
    """They are gone, which is said; which drop they were of is told by its time."""
    reporter = a_reporter(house.service)
    reporter.report([an_item("a.pdf")], source=str(settings().uploads_dir / uuid4().hex))
    page = show(house, reporter)
    assert "These files were dropped here, and are gone." in html_of(page)
    assert "Retry all …" not in [one.label for one in page.button]
    assert "Retry" not in [one.label for one in choose(page, 0).button]
    chosen = page.get_by_key("filter.source")
    assert chosen.format_func(chosen.value).startswith("Files dropped in the workbench, ")


def test_a_source_is_removed_after_a_question(house: LoadingHouse) -> None:
    """It is gone at the service; the page shows another one."""
    reporter = a_reporter(house.service)
    source = reporter.report([an_item("a.pdf")])["sourceId"]
    page = press(show(house, reporter), "Remove …")
    assert "Documents that were loaded stay." in html_of(page)
    button(page, "Remove it").click().run()
    assert source not in [one["sourceId"] for one in reporter.sources()]
    assert "isn&#x27;t there" not in html_of(page)
    assert page.query_params["source"] != source


def test_an_address_names_a_source_by_id_or_ledger(house: LoadingHouse) -> None:
    """What older addresses have, the ledger's name, becomes the id; of what isn't there the page says so."""
    reporter = a_reporter(house.service)
    source = reporter.report([an_item("a.pdf")], source="/srv/by-ledger")["sourceId"]
    page = show(house, reporter)
    assert page.query_params["source"] == source
    assert "/srv/by-ledger</h2>" in html_of(page)
    page = house.open("ingestion", part="quarantine", source=source)
    assert "/srv/by-ledger</h2>" in html_of(page)
    page.query_params["source"] = "0" * 24
    assert "The address names a source that isn&#x27;t there." in html_of(page.run())


def test_who_reports_is_named_where_several_report_the_same(house: LoadingHouse) -> None:
    """Sources that read alike are told apart, by whoever reports them, and then by their ledgers."""
    source = f"/srv/{uuid4().hex}"
    reporters = [
        a_reporter(house.service),
        a_reporter(house.service),
        a_reporter(house.service, house.service.new_user("loader@example.test")),
    ]
    name = f"Notes {uuid4().hex}"
    collection = house.client.document_collections.create_document_collection(
        name, custom_metadata_schema={"fields": []}
    )
    mine, *_ = [reporter.report([an_item("a.pdf")], source=source)["reportedBy"]["email"] for reporter in reporters]
    added = a_reporter(house.service)
    added.report([an_item("a.pdf")], source=source, documentCollectionId=str(collection.document_collection_id))
    with_id = {one.ledger: str(one.source_id) for one in house.client.sources.list_sources()}
    box = show(house, added).get_by_key("filter.source")
    labels = [box.format_func(with_id[one.ledger]) for one in (*reporters, added)]
    assert labels == [
        f"{source} · uploaded · reported by {mine} · {reporters[0].ledger}",
        f"{source} · uploaded · reported by {mine} · {reporters[1].ledger}",
        f"{source} · uploaded · reported by loader@example.test",
        f"{source} · added to {name}",
    ]


def test_many_sources_are_narrowed_by_a_part_of_their_names(
    house: LoadingHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are many there is a field; the one in the address is there however many fit."""
    shelf = uuid4().hex
    for number in range(4):
        reporter = a_reporter(house.service)
        reporter.report([an_item("a.pdf")], source=f"/srv/{shelf}/{number}")
    monkeypatch.setattr(sources, "MANY", 3)
    monkeypatch.setattr(sources, "MOST", 2)
    page = show(house, reporter, find=shelf.upper())
    assert "4 sources fit" in html_of(page)
    assert f"/srv/{shelf}/3</h2>" in html_of(page)
    assert len(page.get_by_key("filter.source").options) == 3
    page.get_by_key("filter.find").set_value(f"{shelf}/1").run()
    assert f"/srv/{shelf}/1</h2>" in html_of(page)
    page.get_by_key("filter.find").set_value("no such shelf").run()
    assert "No source has this in its name." in html_of(page)


def test_it_is_said_when_nothing_is_there(open_page: Open, service: RunningService) -> None:
    """Before anything is loaded the page leads to where that is done; then it says that everything was loaded."""
    page = open_page("ingestion", part="quarantine")
    assert "Nothing has failed." in html_of(page)
    assert 'href="ingestion"' in html_of(page)
    good, bad = a_reporter(service), a_reporter(service)
    good.report([], source="/srv/good")
    page = open_page("ingestion", part="quarantine")
    assert "Everything was loaded." in html_of(page)
    assert "/srv/good</h2>" in html_of(page)
    assert button(page, "Retry all …").disabled
    bad.report([an_item("a.pdf")], source="/srv/bad")
    page = open_page("ingestion", part="quarantine")
    assert "Everything was loaded." not in html_of(page)
    assert "/srv/bad</h2>" in html_of(page)
    page = choose(page, 0)
    bad.report([], source="/srv/bad")
    page = press(page, "Ignore")
    assert "Everything was loaded." in html_of(page)
    assert "Not among what failed any more: a.pdf." in html_of(page)
    bad.report([an_item("a.pdf")], source="/srv/bad")
    page = open_page("ingestion", part="quarantine", source=good.ledger)
    assert "Everything of this source was loaded." in html_of(page)


def test_the_page_needs_no_prefect_but_to_try_again(workbench: SetUp, service: RunningService) -> None:
    """What could not be loaded is shown and ignored all the same; only the start of a run says what to do."""
    workbench(service)
    reporter = a_reporter(service)
    source = reporter.report([an_item("a.pdf"), an_item("b.pdf")])["sourceId"]
    page = draw("ingestion", session=sign_in(service), part="quarantine")
    page = press(choose(page, 0), "Ignore")
    assert reporter.names(source, ignored=True) == ["a.pdf"]
    page = press(choose(page, 1), "Retry")
    assert NOBODY_LISTENS in html_of(page)
    page = press(page, "Retry all …")
    button(page, "Retry them").click().run()
    assert NOBODY_LISTENS in str(page.session_state["confirm.problem"])


def test_runs_of_an_earlier_version_break_nothing(house: LoadingHouse) -> None:
    """A run of a flow that is no more is drawn in its address, not offered again, and in no list."""
    with offered(house.prefect, "quarantine") as former:
        run = house.prefect.start(former, {"action": "list"})
        house.prefect.move(run, "COMPLETED", "1 in quarantine.")
        page = house.open("ingestion", part="runs")
        assert not page.exception
        assert not any("quarantine" in list(table.value["Type"]) for table in page.dataframe)
    page = house.open("ingestion", run=run)
    assert not page.exception
    assert "Run again" not in [one.label for one in page.button]
