"""Syncs with document databases from the workbench, on the real service and a server that speaks MongoDB's protocol."""

import html
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from streamlit.testing.v1 import AppTest

from app.syncs.labels import LABELS
from carrel import Carrel
from tests.app.conftest import House, SetUp, draw, html_of, markdown_of, set_up_in, sign_in
from tests.app.pressing import answer, button, press, press_twice
from tests.harness.mongo.processes import MongoServer
from tests.harness.services import RunningService, ServiceHarness
from tests.oauth.flow import a_person
from tests.service.docstore import Syncing, a_thing

HOSTILE = "<img src=x onerror=alert(1)> **b** https://evil.example :material/home:"


@pytest.fixture(scope="module")
def house(service_harness: ServiceHarness, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A service that may connect to loopback, and its workbench."""
    service, stack = service_harness.start(docstore_allowed_hosts=("127.0.0.1",))
    try:
        with set_up_in(tmp_path_factory.mktemp("syncs")) as set_up, Carrel(service.api_key, service.base_url) as client:
            set_up(service)
            # What reads documents begins with the first one, and not with a page in the place of `__main__`.
            client.catalog.upload_file(b"warm", document_external_id="warm", file_name="warm.txt")
            yield House(service, client)
    finally:
        service_harness.stop(service, stack)


@pytest.fixture
def syncing(house: House, mongo: MongoServer) -> Syncing:
    """A collection, and three things in the database to sync it with; there is no sync yet."""
    mongo.collection.insert_many([a_thing(number) for number in range(3)])
    return Syncing(house.service, mongo)


def fill(page: AppTest, syncing: Syncing, **members: str) -> AppTest:
    """Fill in the form."""
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


def new(house: House, syncing: Syncing, **members: str) -> AppTest:
    """Open the form of a new sync, filled in."""
    page = house.open("syncs", new="yes")
    page.selectbox(key="into").set_value(syncing.collection_id)
    return fill(page, syncing, **members)


def of(sync: dict[str, Any]) -> str:
    """A sync's id."""
    return str(sync["docstoreCredentialId"])


def metrics(page: AppTest) -> dict[str, str]:
    """The page's numbers by what they are called."""
    return {metric.label: metric.value for metric in page.metric}


def test_a_sync_is_made_and_shown_to_its_end(house: House, syncing: Syncing) -> None:
    """Its first run begins at once; the address is neither shown nor kept, and a reload shows the same."""
    page = press(new(house, syncing), "Create, and start the first run")
    name = page.query_params["sync"]
    syncing.sync_id = str(name[0] if isinstance(name, list) else name)
    assert "sync.address" not in page.session_state
    syncing.ended()
    page = house.open("syncs", sync=syncing.sync_id)
    shown = metrics(page)  # how often it has read them depends on whether it was interrupted
    assert [shown[name] for name in ("Created", "Updated", "Removed", "Not taken")] == ["3", "0", "0", "0"]
    assert "The last run ended just now" in html_of(page)
    assert syncing.mongo.uri not in html_of(page)
    rows = house.open("syncs").dataframe[0].value
    row = next(one for _, one in rows.iterrows() if one["Source"] == syncing.mongo.collection_name)
    assert (row["Name"], row["State"], row["Documents"]) == ("Things", "Done", 3)


def test_what_is_wrong_is_said_in_words_of_the_form(house: House, syncing: Syncing) -> None:
    """What is missing, what is no query, what the service refuses: each is named as the form names it."""
    page = press(house.open("syncs", new="yes"), "Create, and start the first run")
    assert f"Fill in: {LABELS['syncName']}, {LABELS['docstoreURI']}," in html_of(page)
    page = new(house, syncing)
    page.text_area(key="sync.filter").set_value("{state: published}")
    assert "this is no JSON" in html_of(press(page, "Create, and start the first run"))
    page = new(house, syncing, body="$where")
    said = html_of(press(page, "Create, and start the first run"))
    assert LABELS["body"] in said
    assert "sourceFields" not in said
    page = new(house, syncing)
    page.text_input(key="sync.address").set_value("mongodb://10.0.0.1/shop")
    said = html_of(press(page, "Create, and start the first run"))
    assert "CARREL_DOCSTORE_ALLOWED_HOSTS" in said
    assert "Request id:" in said
    assert "sync" not in page.query_params


def test_what_was_not_taken_is_listed_as_it_is(house: House, syncing: Syncing) -> None:
    """Ids and reasons are text of the database's, shown as such; a run is started from here, and tries them again."""
    syncing.mongo.collection.insert_one(a_thing(7, _id=HOSTILE, title=None))
    sync = syncing.first_run(syncName=HOSTILE)
    page = house.open("syncs", sync=of(sync))
    assert metrics(page)["Not taken"] == "1"
    assert f"<td>{html.escape(HOSTILE)}</td><td>{LABELS['sourceName']}: " in html_of(page)
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)
    assert f"1 of 4 documents could not be taken: {LABELS['sourceName']}: " in html_of(page)
    rows = house.open("syncs").dataframe[0].value
    row = next(one for _, one in rows.iterrows() if one["Source"] == syncing.mongo.collection_name)
    assert (row["State"], row["Documents"], row["Not taken"]) == ("Done, some not taken", 3, 1)
    press(page, "Start a run")
    assert syncing.ended()["counts"]["failed"] == 1


def test_a_mapping_that_fits_nothing_is_said_in_words_of_the_form(house: House, syncing: Syncing) -> None:
    """How many documents lack which field, and that the form has to name another; none is counted as there."""
    sync = syncing.first_run(sourceFields={"body": "content.text", "sourceName": "heading"})
    said = html_of(house.open("syncs", sync=of(sync)))
    assert "None of the 3 documents" in said
    assert f"{LABELS['sourceName']}: the document has nothing in heading (3 documents" in said
    assert "Choose Change …" in said
    assert "0 documents" in said
    assert "sourceFields" not in said


def test_a_run_that_failed_says_why_and_what_to_do(house: House, syncing: Syncing) -> None:
    """The database's refusal is said with what helps, and that the next run goes on."""
    sync = syncing.first_run()
    for code, words in ((13, "does not let the user of the address read"), (18, "with the right user and password")):
        syncing.mongo.misbehave(find_code=code, find_times=1)
        syncing.run()
        said = html_of(house.open("syncs", sync=of(sync)))
        assert "The last run failed." in said
        assert words in said
        assert "the next run continues from there" in said
        assert "docstoreURI" not in said


def test_a_sync_is_changed_with_its_address_given_again(house: House, syncing: Syncing) -> None:
    """The form holds what is known but the address; who may read becomes what it says."""
    sync = syncing.first_run()
    page = press(house.open("syncs", sync=of(sync)), "Change …")
    assert page.text_input(key="sync.address").value == ""
    assert page.text_input(key="sync.body").value == "content.text"
    page.text_input(key="sync.address").set_value(syncing.mongo.uri)
    page.text_input(key="sync.syncName").set_value("Renamed")
    page.radio(key="sync.kind").set_value("Everybody in the organization")
    press(page, "Save, and start a run")
    after = syncing.ended()
    assert (after["config"]["syncName"], after["config"]["internalPublic"]) == ("Renamed", True)
    assert "Everybody in the organization" in html_of(house.open("syncs", sync=of(sync)))


def test_a_sync_is_deleted_after_a_question(house: House, syncing: Syncing) -> None:
    """What it brought stays, as the question says; its address then leads nowhere."""
    sync = syncing.first_run()
    page = press(house.open("syncs", sync=of(sync)), "Delete …")
    assert "The documents that it brought stay" in html_of(page)
    answer(page, "Delete …", "Delete it")
    assert "This sync isn&#x27;t here." in html_of(house.open("syncs", sync=of(sync)))
    assert len(syncing.documents()) == 3


def test_a_second_click_makes_no_second_sync(house: House, syncing: Syncing) -> None:
    """It comes before the sync's page is drawn, and leads to the one that was made."""
    page = press_twice(new(house, syncing, syncName="Twice"), "Create, and start the first run")
    listed = house.client.document_collections.docstore.list_docstore_syncs(
        document_collection_id=UUID(syncing.collection_id)
    )
    (made,) = listed
    syncing.sync_id = str(made.docstore_credential_id)
    assert syncing.sync_id in page.query_params["sync"]
    syncing.ended()


def test_a_form_never_has_the_readers_of_another_sync(house: House, syncing: Syncing) -> None:
    """However the form before was left: saved as it is, the sync keeps its own readers."""
    groups = [house.client.admin.groups.upsert([{"name": name}]).groups[0].id for name in ("Deck", "Bridge")]
    first, second = (of(syncing.first_run(allowedGroupIds=[str(group)])) for group in groups)
    page = house.open("syncs", sync=first, change="yes")
    assert page.multiselect(key="sync.readers.kept").value == [f"group:{groups[0]}"]
    page.query_params.clear()
    page.run()
    page.query_params.update({"sync": second, "change": "yes"})
    page.run()
    assert page.multiselect(key="sync.readers.kept").value == [f"group:{groups[1]}"]


def test_a_run_that_nobody_begins_is_said(
    workbench: SetUp, make_service: Callable[..., RunningService], mongo: MongoServer
) -> None:
    """Not at once, since a worker may be about to; then with what to look at."""
    service = make_service(docstore_allowed_hosts=("127.0.0.1",), docstore_workers=0)
    workbench(service)
    syncing = Syncing(service, mongo)
    syncing.create().raise_for_status()
    session = sign_in(service)
    assert "A run is to begin. It is the service" in html_of(draw("syncs", session=session, sync=syncing.sync_id))
    with service.owner_connection() as connection:
        connection.execute("UPDATE docstore_syncs SET updated_at = now() - interval '2 hours'")
    shown = html_of(draw("syncs", session=session, sync=syncing.sync_id))
    assert "A run is to begin, wanted 2 hours ago." in shown
    assert "CARREL_DOCSTORE_WORKERS" in shown


@pytest.mark.parametrize("name", ["not-a-sync", "0198c5b0-0000-7000-8000-000000000000", "<img src=x>"])
def test_an_address_that_names_no_sync_says_so(house: House, name: str) -> None:
    """The page has a way back to the others."""
    page = house.open("syncs", sync=name)
    assert "This sync isn&#x27;t here." in html_of(page)
    assert button(page, "All syncs")


def test_a_member_sees_that_it_is_for_admins(house: House) -> None:
    """Neither list nor form is there for who is no admin."""
    a_person(house.service, "jonas@example.test")
    page = house.open("syncs", signed_in_as="jonas@example.test", new="yes")
    assert not page.text_input
    assert "This page is for admins." in html_of(page)
