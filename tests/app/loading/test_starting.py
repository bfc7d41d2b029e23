"""Starting runs from the workbench on the real service and a real Prefect server, and their quarantine."""

import html
from pathlib import Path
from urllib.parse import parse_qsl
from uuid import uuid4

import pytest

from app.loading import quarantine, starting
from app.settings import settings
from flows.operations.summary import Summary
from flows.runs import tag_of_this_machine
from tests.app.conftest import NOBODY_LISTENS, House
from tests.app.loading import house as houses
from tests.app.loading.house import LoadingHouse, dropped, offered, plan
from tests.app.pages import MARKUP, Page
from tests.harness.cases import cases
from tests.harness.services import RunningService
from tests.service.sources import Reporter, an_item


def test_nothing_starts_without_a_source(house: LoadingHouse, deployment: str) -> None:
    page = house.open("ingestion")
    assert "A file that cannot be read is listed" in page.caption[1].value
    assert "Nothing is selected to load" in plan(page).shown
    assert "Nothing is selected to load" in houses.start(houses.name_place(page, "  ")).shown
    # Whoever sees Prefect would see a password in an address: it is not sent there, and not repeated.
    page = plan(houses.name_place(page, "s3://key:hush@bucket/reports"))
    assert "Everyone who can see the run can see its URL" in page.shown
    assert "hush" not in page.shown
    assert house.prefect.runs_of(deployment) == []


def test_a_place_that_cannot_be_read_is_told_before_a_run(house: LoadingHouse, tmp_path: Path) -> None:
    """The form checks the place only when runs read the workbench's files; otherwise the run reports the error."""
    wrong = {str(tmp_path / "none"): "does not exist", f"{tmp_path}/no/*.md": "not a folder"}
    with offered(house.prefect, tags=[tag_of_this_machine()]) as deployment:
        for place, said in wrong.items():
            page = houses.start(houses.name_place(house.open("ingestion"), place))
            assert said in page.shown, place
        new = house.open("ingestion", part="schedules", schedule="new")
        assert new.field("Owner").value == "Me"
        assert "Enter a folder" in new.press("Save schedule").shown
        assert house.prefect.runs_of(deployment) == []
        houses.start(houses.name_place(house.open("ingestion"), str(tmp_path)))
        assert len(house.prefect.runs_of(deployment)) == 1


def test_dropped_files_are_handed_to_the_flow_and_removed_after_it(house: LoadingHouse, deployment: str) -> None:
    prefect = house.prefect
    page = houses.start(dropped(house, houses.NOTE, (".dotted.md", b"text", "text/markdown")))
    (run,) = prefect.runs_of(deployment)
    assert run["id"] == houses.run_of(page)
    assert run["parameters"]["options"]["hidden"] is True
    folder = Path(run["parameters"]["source"])
    assert sorted(path.name for path in folder.iterdir()) == [".dotted.md", "note.md"]
    assert (folder / "note.md").read_bytes() == houses.NOTE[1]
    assert "python -m flows serve" in page.shown
    assert "Upload: note.md and 1 more" in page.shown
    prefect.move(run["id"], "RUNNING")
    page.run()
    assert (houses.bar(page), folder.exists()) == ("Working …", True)
    prefect.tell(run["id"], Summary(documents=2, to_send=2, created=2, partly_read=1, pages_waiting=12), phase="done")
    prefect.move(run["id"], "COMPLETED")
    page.run()
    assert houses.bar(page).startswith("Done in 3 s")
    assert "1 document was read only in part" in houses.bar(page)
    assert "12 scanned pages or pictures are still being read" in houses.bar(page)
    assert f'href="documents?run={run["id"]}"' in page.shown
    assert not folder.exists()
    assert not page.press("All runs").file_uploader


def test_a_run_acts_for_whoever_starts_it(house: LoadingHouse, deployment: str) -> None:
    me = house.service.admin_email
    page = dropped(house)
    assert f"{me} will own the documents" in page.shown
    assert f"started by {me}" in houses.start(page).shown
    page = dropped(house)
    page.field("Owner").set_value("Service account").run()
    houses.start(page)
    newest, first = sorted(house.prefect.runs_of(deployment), key=lambda run: run["created"], reverse=True)
    assert first["parameters"]["options"]["upload_as_user_email"] == me
    assert newest["parameters"]["options"]["upload_as_user_email"] is None
    assert first["tags"] == newest["tags"] == [f"carrel-person:{me}"]


def test_a_plan_is_shown_before_anything_is_sent(house: LoadingHouse, deployment: str) -> None:
    prefect = house.prefect
    page = plan(dropped(house))
    (planned,) = prefect.runs_of(deployment)
    assert planned["parameters"]["dry_run"] is True
    numbers = {"create": 1204, "update": 3, "unchanged": 7, "forbidden": 1, "refused": 1, "problems": 2, "delete": 5}
    prefect.tell(planned["id"], Summary(documents=1216, to_send=1207), phase="done", planned=numbers)
    prefect.move(planned["id"], "COMPLETED")
    page = house.open("ingestion", run=planned["id"])
    assert page.metrics == {"To create": "1,204", "To update": "3", "Unchanged": "7", "Refused": "4", "To delete": "5"}
    assert "Nothing was sent or deleted" in page.shown
    folder = Path(planned["parameters"]["source"])
    assert folder.exists()
    twice = house.open("ingestion", run=planned["id"])
    page, twice = page.press("Start upload"), twice.press("Start upload")
    assert houses.run_of(page) == houses.run_of(twice) != planned["id"]
    upload = next(run for run in prefect.runs_of(deployment) if run["id"] == houses.run_of(page))
    assert upload["parameters"] == {name: planned["parameters"][name] for name in ("source", "options")}
    prefect.move(upload["id"], "COMPLETED")
    page.run()
    assert not folder.exists()
    page = house.open("ingestion", run=planned["id"]).press("Start upload")
    assert "The uploaded files are no longer on the server." in page.shown


def test_files_of_a_run_that_failed_stay_for_another(house: LoadingHouse, deployment: str) -> None:
    prefect = house.prefect
    houses.start(dropped(house))
    houses.start(dropped(house))
    failed, done = sorted(prefect.runs_of(deployment), key=lambda run: run["created"])
    prefect.move(failed["id"], "FAILED", "stopped")
    prefect.move(done["id"], "COMPLETED")
    houses.start(dropped(house))
    assert not Path(done["parameters"]["source"]).exists()
    page = house.open("ingestion", run=failed["id"]).press("Run again")
    again = next(run for run in prefect.runs_of(deployment) if run["id"] == houses.run_of(page))
    assert again["id"] != failed["id"]
    assert again["parameters"] == failed["parameters"]
    prefect.move(again["id"], "COMPLETED")
    page.run()
    assert not Path(failed["parameters"]["source"]).exists()
    page = house.open("ingestion", run=failed["id"])
    assert "Run again" not in page.labels
    assert "Load files again" in page.shown


def test_a_folder_is_taken_with_its_paths(house: LoadingHouse, deployment: str) -> None:
    names = [f"handbook/{part}/{name}" for part in "ab" for name in ("index.md", ".DS_Store")]
    plan(dropped(house, *((one, one.encode(), "text/markdown") for one in names), ("../../x.md", b"x", "text/plain")))
    [run] = house.prefect.runs_of(deployment)
    folder = Path(run["parameters"]["source"])
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert found == sorted([*names, "x.md"])
    assert not run["parameters"]["options"]["hidden"]


@pytest.mark.parametrize("second", ["note.md", "NOTE.md", "no\0te.md"])
def test_files_that_would_overwrite_each_other_are_refused(house: LoadingHouse, deployment: str, second: str) -> None:
    before = houses.staged()
    page = dropped(house, houses.NOTE, (second, b"other", "text/markdown"))
    assert "Several files are called note.md." in page.shown
    assert "Several files are called note.md." in plan(page).shown
    assert house.prefect.runs_of(deployment) == []
    assert houses.staged() == before


@pytest.mark.parametrize(("name", "kept"), cases("odd_names_of_files_in_a_folder"))
def test_odd_names_are_kept_as_far_as_a_folder_can(house: LoadingHouse, deployment: str, name: str, kept: str) -> None:
    page = dropped(house, (name, b"text", "text/markdown"))
    assert ("becomes" in page.shown) == (name != kept)
    page.assert_shown_as_text()
    houses.start(page)
    (run,) = house.prefect.runs_of(deployment)
    assert [path.name for path in Path(run["parameters"]["source"]).iterdir()] == [kept]


def test_access_collection_and_deletion_go_with_the_run(house: LoadingHouse, deployment: str) -> None:
    group, made = house.add_group("Deck"), house.add_collection("Deck's handbook")
    page = houses.name_place(house.open("ingestion"), " /srv/handbook ")
    page.radio[1].set_value("Selected people and groups").run()
    assert "No readers are selected" in plan(page).shown
    page.text_input(key="start.readers.typed").set_value("deck").run().press_key("start.readers.add")
    page.field("Add to").set_value(made)
    page.field("Delete documents").set_value(True).run()
    page.field("Read text").set_value(True).run()
    page.number_input[0].set_value(35)
    page = houses.start(page)
    (run,) = house.prefect.runs_of(deployment)
    options = run["parameters"]["options"]
    assert run["parameters"]["dry_run"] is True  # what is deleted is confirmed by name
    assert run["parameters"]["source"] == "/srv/handbook"
    assert (options["allowed_groups"], options["allowed_users"], options["internal_public"]) == ([group], [], False)
    assert options["collection"] == made
    assert (options["delete_missing"], options["delete_limit_percent"]) == (True, 35)
    assert options["read_pictures"] is True
    page = dropped(house)
    page.field("Read text").set_value(True).run()
    page.field("Add to").set_value(made)
    page = houses.start(page)
    house.prefect.move(houses.run_of(page), "COMPLETED")
    assert f'href="collections?collection={made}"' in page.run().shown
    newest = max(house.prefect.runs_of(deployment), key=lambda run: run["created"])
    assert newest["parameters"]["options"]["read_pictures"] is True


def test_additions_and_indexing_begin_here_too(house: LoadingHouse) -> None:
    identifier = house.add_collection("Policies of the house")
    with offered(house.prefect, "collection-add") as adding, offered(house.prefect, "reindex") as indexing:
        page = house.open("ingestion", job="addition")
        assert "No documents are selected." in page.press("Start the addition").shown
        page.field("Collection").set_value(identifier)
        page.text_input[0].set_value("catalog://policies/*?team=ferries").run().press("Start the addition")
        (run,) = house.prefect.runs_of(adding)
        assert (run["parameters"]["source"], run["parameters"]["options"]["collection"]) == (
            "catalog://policies/*?team=ferries",
            identifier,
        )
        page = house.open("ingestion", job="indexing")
        page.field("Collection").set_value(identifier).run()
        page.radio[0].set_value("Everything").run().press("Start the indexing")
        newest = house.prefect.runs_of(indexing)[0]
        assert "Re-indexing: Policies of the house" in house.open("ingestion", run=newest["id"]).shown
        page = house.open("ingestion", job="indexing")
        page.field("Collection").set_value("catalog:").run()
        assert page.radio[0].options == ["All documents, with another embedding model"]
        newest = house.prefect.runs_of(indexing)[0]
        assert (newest["parameters"]["source"], newest["parameters"]["options"]["everything"]) == (identifier, True)


def test_a_second_click_starts_nothing_else(house: LoadingHouse, deployment: str) -> None:
    """The second click comes before the page is drawn, when the fields are already empty."""
    page = houses.name_place(house.open("ingestion"), "/srv/handbook").press_twice("Start upload")
    (run,) = house.prefect.runs_of(deployment)
    assert houses.run_of(page) == run["id"]
    page = dropped(house).press_twice("Show plan")
    assert len(house.prefect.runs_of(deployment)) == 2
    page.query_params.clear()
    assert "Nothing is selected to load" in plan(page.run()).shown


def test_an_address_chooses_what_is_indexed_again(house: LoadingHouse) -> None:
    _, last = house.add_collection("Aa first"), house.add_collection("Zz last")
    link = house.open("collections", collection=last, part="index").shown.split('<a href="')[-1].split('"')[0]
    where, _, asked = html.unescape(link).partition("?")
    page = house.open(where, **dict(parse_qsl(asked)))
    assert page.get_by_key("filter.job").value == "indexing"
    assert page.field("Collection").value == last
    assert page.radio[0].value == "Everything"
    page = house.open("ingestion", job="indexing", collection=str(uuid4()), what="whatever")
    assert page.field("Collection").value != last
    assert page.radio[0].value == "Changed documents"


def test_indexing_with_another_model_needs_one(house: LoadingHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_models", list[str])
    house.add_collection("Without a model")
    with offered(house.prefect, "reindex") as indexing:
        page = house.open("ingestion", job="indexing")
        page.radio[0].set_value("All documents, with another embedding model").run()
        page.toggle[0].set_value(True).run()
        assert "No embedding model is selected." in page.press("Start the indexing").shown
        assert house.prefect.runs_of(indexing) == []


def test_flows_that_nobody_offers_are_said(house: LoadingHouse) -> None:
    before = houses.staged()
    page = houses.start(dropped(house))
    assert "python -m flows serve" in page.shown
    assert "run" not in page.query_params
    assert page.file_uploader[0].value
    assert set(houses.staged()) <= set(before)


def test_a_prefect_that_is_down_is_said(new_house: House) -> None:
    page = houses.start(houses.drop(new_house.open("ingestion"), houses.NOTE))
    assert "Nothing was started." in page.shown
    assert NOBODY_LISTENS in page.shown
    for address in ({"run": str(uuid4())}, {"part": "runs"}, {"part": "schedules"}):
        assert "Prefect, which manages runs, does not answer." in new_house.open("ingestion", **address).shown


def test_a_folder_that_cannot_be_written_is_said(new_house: House) -> None:
    uploads = settings().uploads_dir
    uploads.parent.mkdir(parents=True, exist_ok=True)
    uploads.write_text("a file where the folder should be")
    assert f"cannot be stored in {uploads}" in houses.start(houses.drop(new_house.open("ingestion"), houses.NOTE)).shown


def a_reporter(service: RunningService, api_key: str | None = None) -> Reporter:
    return Reporter(service, api_key, ledger=uuid4().hex[:24])


@pytest.fixture
def reporter(house: LoadingHouse) -> Reporter:
    return a_reporter(house.service)


def report(reporter: Reporter, *names: str, **members) -> str:
    return str(reporter.report([an_item(name) for name in names], **members)["sourceId"])


def show(house: House, reporter: Reporter, **address: str) -> Page:
    return house.open("ingestion", part="quarantine", source=reporter.ledger, **address)


def test_what_was_not_loaded_is_there_at_once(house: LoadingHouse, reporter: Reporter) -> None:
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
    source = reporter.report([an_item(f"{number:03}.pdf") for number in range(60)])["sourceId"]
    page = show(house, reporter).press("Next")
    assert page.find_button("Ignore").disabled
    assert page.find_button("Restore").disabled
    page = page.choose(1, 2).press("Ignore")
    assert reporter.names(source, ignored=True) == ["051.pdf", "052.pdf"]
    assert "2 documents ignored until they change." in page.shown
    assert "58 documents failed · 2 ignored" in page.shown
    assert page.column("Ignored")[:4] == ["", "Yes", "Yes", ""]
    assert page.find_button("Restore").disabled
    page = page.choose(1)
    assert "count no more until they change" not in page.shown
    assert page.find_button("Ignore").disabled
    page = page.press("Restore")
    assert reporter.names(source, ignored=True) == ["052.pdf"]
    assert "1 document restored." in page.shown


def test_what_is_gone_meanwhile_is_named(house: LoadingHouse, reporter: Reporter) -> None:
    source = reporter.report([an_item("a.pdf"), an_item(MARKUP), an_item("c.pdf")])["sourceId"]
    page = show(house, reporter).choose(0, 1)
    report(reporter, "c.pdf", "a.pdf")
    page = page.press("Ignore")
    assert "1 document ignored until it changes." in page.shown
    assert "No longer among the failures: &lt;img" in page.shown
    assert reporter.names(source, ignored=True) == ["a.pdf"]
    page = page.choose(1)
    reporter.report([])
    page = page.press("Ignore")
    assert "No longer among the failures: c.pdf." in page.shown
    assert "count no more" not in page.shown.partition("No longer among the failures")[0]


def test_a_document_at_two_places_is_ignored_with_both(house: LoadingHouse, reporter: Reporter) -> None:
    source = reporter.report([an_item("a.pdf", place="line 1"), an_item("a.pdf", place="line 2")])["sourceId"]
    assert "1 document ignored until it changes." in show(house, reporter).choose(0, 1).press("Ignore").shown
    assert [item["ignored"] for item in reporter.items(source)] == [True, True]


def test_a_change_that_fails_says_why(house: LoadingHouse, reporter: Reporter) -> None:
    source = report(reporter, "a.pdf")
    page = show(house, reporter).choose(0)
    house.client.sources.remove_source(source)
    page = page.press("Ignore")
    assert "You have no such source." in page.shown
    assert "The source in the URL does not exist." in page.shown
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
    assert "All failed documents are ignored." in page.shown
    reporter.ignore(source, "a.pdf", "b.pdf", undo=True)
    assert "No document of this source is ignored." in show(house, reporter, show="ignored").shown


def test_a_source_is_tried_again_after_a_question(house: LoadingHouse, reporter: Reporter) -> None:
    report(reporter, "a.pdf", source=f"/srv/{MARKUP}")
    with offered(house.prefect, "quarantine-retry") as retrying:
        page = show(house, reporter).press("Retry all …")
        assert "1 document of this source is sent again" in page.shown
        page = page.answer("Retry all …", "Retry all")
        (retry,) = house.prefect.runs_of(retrying)
        expected = {"source": reporter.ledger, "loaded_from": f"/srv/{MARKUP}"}
        assert (retry["parameters"], houses.run_of(page)) == (expected, retry["id"])
        assert "Retry of /srv/&lt;img" in page.shown
    report(reporter, "a.pdf", "b.pdf")
    assert "2 documents of this source are sent again" in show(house, reporter).press("Retry all …").shown


def test_chosen_documents_are_retried_by_one_click(house: LoadingHouse, reporter: Reporter) -> None:
    source = report(reporter, "a.pdf", "b.pdf", "c.pdf")
    reporter.ignore(source, "c.pdf")
    with offered(house.prefect, "quarantine-retry") as retrying:
        page = show(house, reporter).choose(0, 2)
        link = 'href="/help/troubleshooting#file_encrypted" target="_blank" rel="noopener" aria-label="What to do: '
        assert f'{link}a.pdf"' in page.shown
        page = page.press_twice("Retry")
        (retry,) = house.prefect.runs_of(retrying)
        assert houses.run_of(page) == retry["id"]
    assert retry["parameters"]["names"] == ["a.pdf"]


def test_dropped_files_are_not_tried_again(house: LoadingHouse, reporter: Reporter) -> None:
    report(reporter, "a.pdf", source=str(settings().uploads_dir / uuid4().hex))
    page = show(house, reporter)
    assert "You uploaded these files from a browser" in page.shown
    assert "Retry all …" not in page.labels
    assert "Retry" not in page.choose(0).labels
    chosen = page.get_by_key("filter.source")
    assert chosen.format_func(chosen.value).startswith("Files uploaded from a browser, ")


def test_a_source_is_removed_after_a_question(house: LoadingHouse, reporter: Reporter) -> None:
    source = report(reporter, "a.pdf")
    page = show(house, reporter).press("Remove …")
    assert "Loaded documents stay." in page.shown
    page.find_button("Remove").click().run()
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
    assert "The source in the URL does not exist." in page.run().shown


def test_who_reports_is_named_where_several_report_the_same(house: LoadingHouse) -> None:
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
    shelf = uuid4().hex
    for number in range(4):
        reporter = a_reporter(house.service)
        report(reporter, "a.pdf", source=f"/srv/{shelf}/{number}")
    monkeypatch.setattr(quarantine, "MANY", 3)
    monkeypatch.setattr(quarantine, "MOST", 2)
    page = show(house, reporter, find=shelf.upper())
    assert "4 sources match" in page.shown
    assert f"/srv/{shelf}/3</h2>" in page.shown
    assert len(page.get_by_key("filter.source").options) == 3
    page.get_by_key("filter.find").set_value(f"{shelf}/1").run()
    assert f"/srv/{shelf}/1</h2>" in page.shown
    page.get_by_key("filter.find").set_value("no such shelf").run()
    assert "No source has this text in its name." in page.shown


def test_it_is_said_when_nothing_is_there(new_house: House) -> None:
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
    assert "No longer among the failures: a.pdf." in page.shown
    report(bad, "a.pdf", source="/srv/bad")
    page = new_house.open("ingestion", part="quarantine", source=good.ledger)
    assert "Every document of this source is loaded." in page.shown


def test_the_page_needs_no_prefect_but_to_try_again(new_house: House) -> None:
    reporter = a_reporter(new_house.service)
    source = report(reporter, "a.pdf", "b.pdf")
    page = new_house.open("ingestion", part="quarantine").choose(0).press("Ignore")
    assert reporter.names(source, ignored=True) == ["a.pdf"]
    page = page.choose(1).press("Retry")
    assert NOBODY_LISTENS in page.shown
    page = page.press("Retry all …")
    page.find_button("Retry all").click().run()
    assert NOBODY_LISTENS in str(page.session_state["confirm.problem"])


def test_runs_of_an_earlier_version_break_nothing(house: LoadingHouse, deployment: str) -> None:
    with offered(house.prefect, "quarantine") as former:
        run = house.prefect.start(former, {"action": "list"})
        house.prefect.move(run, "COMPLETED", "1 in quarantine.")
        page = house.open("ingestion", part="runs")
        assert not any("quarantine" in list(table.value["Type"]) for table in page.dataframe)
    assert "Run again" not in house.open("ingestion", run=run).labels
    run = house.prefect.start(deployment, {"source": "/srv/old", "options": {"delete_missing": True, "former": 1}})
    house.prefect.move(run, "FAILED", "stopped")
    assert "does not know some options" in house.open("ingestion", run=run).press("Plan again").shown
