"""Syncs with document databases in the workbench, on the real service and a MongoDB protocol server."""

import html
from collections.abc import Iterator
from uuid import UUID

import pytest

from app.syncs.labels import LABELS
from flows.runs import RunsPage
from tests.app.conftest import House, house_of
from tests.app.pages import MARKUP, Page
from tests.service.docstore import LOOPBACK, Syncing, a_thing


@pytest.fixture(scope="module")
def house(service_harness, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("syncs")
    with service_harness.running(docstore_allowed_hosts=LOOPBACK) as service, house_of(service, folder) as house:
        yield house


@pytest.fixture
def syncing(house: House, mongo) -> Syncing:
    mongo.collection.insert_many([a_thing(number) for number in range(3)])
    return Syncing(house.service, mongo)


def fill(page: Page, syncing: Syncing, **members: str) -> Page:
    values = {
        "syncName": "Things",
        "collectionName": syncing.mongo.collection_name,
        "body": "content.text",
        "sourceName": "title",
        "sourceSystemUpdated": "updatedAt",
    }
    for member, value in (values | members).items():
        page.text_input(key=f"sync.{member}").set_value(value)
    page.text_input(key="sync.address").set_value(syncing.mongo.uri)
    return page


def new(house: House, syncing: Syncing, **members: str) -> Page:
    page = house.open("syncs", new="yes")
    page.selectbox(key="into").set_value(syncing.collection_id)
    return fill(page, syncing, **members)


def of(sync: dict) -> str:
    return str(sync["docstoreCredentialId"])


def test_a_sync_is_made_and_shown_to_its_end(house: House, syncing: Syncing) -> None:
    page = new(house, syncing).press("Create and start")
    syncing.sync_id = page.address["sync"]
    assert "sync.address" not in page.session_state
    syncing.ended()
    page = house.open("syncs", sync=syncing.sync_id)
    shown = page.metrics  # how often it has read them depends on whether it was interrupted
    assert [shown[name] for name in ("Created", "Updated", "Removed", "Failed")] == ["3", "0", "0", "0"]
    assert "The last run ended just now" in page.shown
    assert syncing.mongo.uri not in page.shown
    [row] = [one for one in house.open("syncs").rows() if one["Source"] == syncing.mongo.collection_name]
    assert (row["Name"], row["State"], row["Documents"]) == ("Things", "Done", 3)


def test_what_is_wrong_is_said_in_words_of_the_form(house: House, syncing: Syncing) -> None:
    page = house.open("syncs", new="yes").press("Create and start")
    assert f"Fill in: {LABELS['syncName']}, {LABELS['docstoreURI']}," in page.shown
    page = new(house, syncing)
    page.text_area(key="sync.filter").set_value("{state: published}")
    assert "the filter is not valid JSON" in page.press("Create and start").shown
    said = new(house, syncing, body="$where").press("Create and start").shown
    assert LABELS["body"] in said
    assert "sourceFields" not in said
    page = new(house, syncing)
    page.text_input(key="sync.address").set_value("mongodb://10.0.0.1/shop")
    said = page.press("Create and start").shown
    assert "CARREL_DOCSTORE_ALLOWED_HOSTS" in said
    assert "Request id:" in said
    assert "sync" not in page.query_params


def test_what_was_not_taken_is_listed_as_it_is(house: House, syncing: Syncing) -> None:
    syncing.mongo.collection.insert_one(a_thing(7, _id=MARKUP, title=None))
    page = house.open("syncs", sync=of(syncing.first_run(syncName=MARKUP)))
    assert page.metrics["Failed"] == "1"
    assert f"<td>{html.escape(MARKUP)}</td><td>{LABELS['sourceName']}: " in page.shown
    assert ">Last tried<" in page.shown
    page.assert_shown_as_text(MARKUP)
    assert f"1 of 4 documents could not be loaded: {LABELS['sourceName']}: " in page.shown
    [row] = [one for one in house.open("syncs").rows() if one["Source"] == syncing.mongo.collection_name]
    assert (row["State"], row["Documents"], row["Failed"]) == ("Done, some failed", 3, 1)
    page.press("Start a run")
    assert syncing.ended()["counts"]["failed"] == 1


def test_a_mapping_that_fits_nothing_is_said_in_words_of_the_form(house: House, syncing: Syncing) -> None:
    sync = syncing.first_run(sourceFields={"body": "content.text", "sourceName": "heading"})
    said = house.open("syncs", sync=of(sync)).shown
    assert "None of the 3 documents" in said
    assert f"{LABELS['sourceName']}: the document has no value in heading (3 documents" in said
    assert "Select Change …" in said
    assert "0 documents" in said
    assert "sourceFields" not in said


def test_a_run_that_failed_says_why_and_what_to_do(house: House, syncing: Syncing) -> None:
    sync = syncing.first_run()
    for code, words in ((13, "in the address may not read"), (18, "with the correct user and password")):
        syncing.mongo.misbehave(find_code=code, find_times=1)
        syncing.run()
        said = house.open("syncs", sync=of(sync)).shown
        assert "The last run failed." in said
        assert words in said
        assert "The next run continues from there" in said
        assert "docstoreURI" not in said


def test_held_documents_are_removed_once_by_name(house: House, syncing: Syncing, monkeypatch) -> None:
    sync = syncing.first_run(syncName="Held")
    syncing.mongo.collection.delete_many({"_id": {"$gt": "thing-0000"}})
    syncing.run()
    monkeypatch.setattr("app.home._runs_of_late", lambda *_, **__: RunsPage((), 0))
    assert f'<a href="syncs?sync={of(sync)}" target="_self">Held</a>' in house.open("search").shown
    page = house.open("syncs", sync=of(sync))
    assert "Deletion limit" in page.shown
    page.press("Remove these 2 documents once …")
    assert "<tr><td>Thing 1</td></tr><tr><td>Thing 2</td></tr>" in page.shown
    page.answer("Remove these 2 documents once …", "Remove them once")
    after = syncing.ended()
    assert (after["counts"]["deleted"], after["config"]["deleteLimitPercent"]) == (2, 20)
    page = house.open("syncs", sync=of(sync))
    assert "More than 20 % of the documents are gone" in page.shown, "among the last runs"
    assert "Remove these 2 documents once …" not in page.labels


def test_a_database_is_tested_before_its_sync_is_saved(house: House, syncing: Syncing) -> None:
    page = new(house, syncing, body="", sourceName="").press("Test connection")
    assert "The filter matches 3 documents." in page.shown
    assert "_id, title, content.text, updatedAt" in page.shown
    assert "<td>" not in page.shown, "no values of fields that nobody has named"
    assert "<td>Thing 1</td>" in new(house, syncing).press("Test connection").shown
    page = new(house, syncing)
    page.text_input(key="sync.address").set_value("mongodb://127.0.0.1:1/shop")
    assert "does not answer" in page.press("Test connection").shown
    assert "sync" not in page.query_params


def test_a_sync_is_changed_without_its_address(house: House, syncing: Syncing) -> None:
    sync = syncing.first_run()
    page = house.open("syncs", sync=of(sync)).press("Change …")
    assert page.text_input(key="sync.address").value == ""
    assert page.text_input(key="sync.body").value == "content.text"
    assert "The filter matches 3 documents." in page.press("Test connection").shown
    page.text_input(key="sync.syncName").set_value("Renamed")
    page.radio(key="sync.kind").set_value("Everyone in the organization")
    page.press("Save and start a run")
    after = syncing.ended()
    assert (after["config"]["syncName"], after["config"]["internalPublic"]) == ("Renamed", True)
    assert "Everyone in the organization" in house.open("syncs", sync=of(sync)).shown


def test_a_sync_is_deleted_after_a_question(house: House, syncing: Syncing) -> None:
    sync = syncing.first_run()
    required = {"name": "team", "type": "STRING", "required": True, "empty_unfit": True}
    house.client.document_collections.change_fields(syncing.collection_id, [required])
    page = house.open("syncs", sync=of(sync))
    assert "This sync cannot add new documents" in page.shown
    page = page.press("Delete …")
    assert "Documents that were loaded stay" in page.shown
    page.answer("Delete …", "Delete")
    assert "This sync does not exist." in house.open("syncs", sync=of(sync)).shown
    assert len(syncing.documents()) == 3


def test_a_second_click_makes_no_second_sync(house: House, syncing: Syncing) -> None:
    page = new(house, syncing, syncName="Twice").press_twice("Create and start")
    (made,) = house.client.document_collections.docstore.list_docstore_syncs(
        document_collection_id=UUID(syncing.collection_id)
    )
    syncing.sync_id = str(made.docstore_credential_id)
    assert syncing.sync_id in page.query_params["sync"]
    syncing.ended()


def test_a_form_never_has_the_readers_of_another_sync(house: House, syncing: Syncing) -> None:
    groups = [house.add_group(name) for name in ("Deck", "Bridge")]
    first, second = (of(syncing.first_run(allowedGroupIds=[group])) for group in groups)
    page = house.open("syncs", sync=first, change="yes")
    assert page.multiselect(key="sync.readers.kept").value == [f"group:{groups[0]}"]
    page.query_params.clear()
    page.run()
    page.query_params.update({"sync": second, "change": "yes"})
    page.run()
    assert page.multiselect(key="sync.readers.kept").value == [f"group:{groups[1]}"]


def test_a_run_that_nobody_begins_is_said(make_service, make_house, mongo):
    service = make_service(docstore_allowed_hosts=("127.0.0.1",), docstore_workers=0)
    house, syncing = make_house(service), Syncing(service, mongo)
    syncing.create().raise_for_status()
    assert "A run will start soon. You can leave this page" in house.open("syncs", sync=syncing.sync_id).shown
    service.execute("UPDATE docstore_syncs SET updated_at = now() - interval '2 hours'")
    shown = house.open("syncs", sync=syncing.sync_id).shown
    assert "A run will start soon. It was requested 2 hours ago." in shown
    assert "CARREL_DOCSTORE_WORKERS" in shown
    service.execute("UPDATE docstore_syncs SET status = 'RUNNING', started_at = now()")
    assert "A run is running, started just now." in house.open("syncs", sync=syncing.sync_id).shown
