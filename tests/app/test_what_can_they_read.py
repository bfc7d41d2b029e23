"""What can they read: lists, comparisons and reasons, on the real service."""

from collections.abc import Mapping
from typing import Any

import pytest

from carrel import Carrel
from carrel.wire.common import Role
from tests.app.conftest import House, Open, html_of, markdown_of
from tests.app.test_search import HOSTILE
from tests.app.test_who_can_read import exported, graph, group, load, people, press, reference, rows
from tests.harness.services import RunningService
from tests.oauth.flow import a_person

ADA, BEN, CARA = "ada@example.test", "ben@example.test", "cara@example.test"


@pytest.fixture(scope="module")
def keys(house: House) -> Mapping[str, str]:
    """Ada reads two, Ben one of them and another; Cara nothing. What addresses call the documents."""
    people(house, ADA, BEN, CARA)
    crew = group(house, "Reach crew", ADA)
    return {
        "Tide tables": load(house, "Tide tables", allowed_users_email_addresses=[ADA, BEN]),
        "Wage list": load(house, "Wage list", allowed_group_ids=[crew]),
        "Ben's notes": load(house, "Ben's notes", allowed_users_email_addresses=[BEN]),
    }


def metrics(page: Any) -> dict[str, str]:
    """The figures that the page shows."""
    return {metric.label: metric.value for metric in page.metric}


def names(page: Any) -> set[str]:
    """What the page's list names."""
    return {row["Name"] for row in rows(page)}


@pytest.mark.usefixtures("keys")
def test_somebody_is_found_and_what_they_read_is_counted_and_listed(house: House) -> None:
    """Typing finds a person; what they may read is counted by kind, and listed by name; the address shows it again."""
    collection = house.client.document_collections.create_document_collection("Reach handbook")
    grants = [{"principal": {"type": "user", "email": ADA}, "role": Role.VIEWER}]
    house.client.admin.grants.set(reference(f"DOCUMENT_COLLECTION:{collection.document_collection_id}"), grants)
    page = house.open("what_can_they_read")
    page.text_input(key="who.typed").set_value("@EXAMPLE").run()
    assert page.selectbox(key="who.match").options[0] == "Ada · ada@example.test · person"
    page.selectbox(key="who.match").set_value(f"user:{ADA}").run()
    assert metrics(page) == {"Documents": "2", "Collections": "1", "Agents": "0"}
    assert {row["Name"]: row["Through"] for row in rows(page)} == {
        "Tide tables": "Direct access",
        "Wage list": "Reach crew",
        "Reach handbook": "Direct access",
    }
    assert page.query_params["who"] == f"user:{ADA}"


@pytest.mark.usefixtures("keys")
def test_the_list_is_narrowed_by_name_and_kind(house: House) -> None:
    """A part of the name and a kind narrow the list, and both are in the address."""
    page = house.open("what_can_they_read", who=f"user:{ADA}", q="TIDE")
    assert names(page) == {"Tide tables"}
    page = house.open("what_can_they_read", who=f"user:{ADA}", type="UPLOADED_DOCUMENT")
    assert names(page) == {"Tide tables", "Wage list"}
    page = house.open("what_can_they_read", who=f"user:{ADA}", q="no such", type="UPLOADED_DOCUMENT")
    assert "Nothing of that name or kind." in html_of(page)


@pytest.mark.usefixtures("keys")
def test_two_are_compared(house: House) -> None:
    """What only one of two may read is counted, and listed for either."""
    page = house.open("what_can_they_read", who=f"user:{ADA}", **{"with": f"user:{BEN}"}, type="UPLOADED_DOCUMENT")
    assert "<th scope='row'>Documents</th><td>1</td><td>1</td><td>1</td>" in html_of(page)
    assert names(page) == {"Tide tables", "Wage list"}
    page.selectbox(key="filter.only").set_value("first").run()
    assert names(page) == {"Wage list"}
    page.selectbox(key="filter.only").set_value("second").run()
    assert names(page) == {"Ben's notes"}
    assert page.query_params["only"] == "second"


@pytest.mark.usefixtures("keys")
def test_two_of_one_name_are_compared_by_their_addresses(house: House) -> None:
    """In the figures and in what is listed."""
    twin = "ada@second.example.test"
    house.client.admin.users.upsert([{"email": twin, "name": "Ada"}])
    page = house.open("what_can_they_read", who=f"user:{ADA}", **{"with": f"user:{twin}"})
    for email in (ADA, twin):
        assert f"Only Ada · {email} · person" in html_of(page)
        assert any(email in option for option in page.selectbox(key="filter.only").options)


@pytest.mark.usefixtures("keys")
def test_comparing_somebody_with_themselves_is_said(house: House) -> None:
    """The same one twice is no comparison."""
    page = house.open("what_can_they_read", who=f"user:{ADA}", **{"with": f"user:{ADA}"})
    assert "That is the same one twice." in html_of(page)


def test_something_of_the_list_is_explained(house: House, keys: Mapping[str, str]) -> None:
    """What is looked at is in the address, and tells why for one and why not for the other; it leads to all readers."""
    page = house.open("what_can_they_read", who=f"user:{ADA}", resource=keys["Wage list"], **{"with": f"user:{BEN}"})
    assert "Ada is in Reach crew, Reach crew is viewer of “Wage list”." in html_of(page)
    assert "Ben may not read “Wage list”." in html_of(page)
    assert "Reach crew" in graph(page)
    assert "who_can_read?resource=UPLOADED_DOCUMENT%3A" in html_of(page)
    assert "Reach crew is the only group with access; Ben isn&#x27;t in it." in html_of(page)
    assert "becomes viewer." in html_of(press(page, "Give access"))
    page = house.open("what_can_they_read", who=f"user:{ADA}", resource=keys["Wage list"])
    assert "Nothing will change." in html_of(press(page, "Manage access"))
    press(page, "All that they may read")
    assert "resource" not in page.query_params


@pytest.mark.usefixtures("keys")
def test_somebody_who_may_read_nothing(house: House) -> None:
    """An empty list says what to do."""
    page = house.open("what_can_they_read", who=f"user:{CARA}")
    assert "Cara may read nothing." in html_of(page)
    assert metrics(page) == {"Documents": "0", "Collections": "0", "Agents": "0"}


def test_many_are_paged_and_exported_whole(house: House) -> None:
    """Fifty are shown at a time; the file has all, and what begins like a formula is text there."""
    crew = group(house, "Many crew")
    for number in range(51):
        load(house, f"Many {number:02}", allowed_group_ids=[crew])
    load(house, "@SUM(1)", allowed_group_ids=[crew])
    page = house.open("what_can_they_read", who=f"group:{crew}")
    assert [row["Name"] for row in rows(page)] == ["@SUM(1)", *(f"Many {number:02}" for number in range(49))]
    assert metrics(page)["Documents"] == "52"
    press(page, "Export as CSV")
    text = exported(page)
    assert sum(line.startswith("Many ") for line in text.splitlines()) == 51
    assert "\n'@SUM(1)," in text.replace("\r", "")


def test_hostile_names_are_only_text(house: House) -> None:
    """Names of people and documents stay text in lists, heads, options and reasons."""
    names = {f"hostile{number}@example.test": name for number, name in enumerate(HOSTILE[:4])}
    house.client.admin.users.upsert([{"email": email, "name": name} for email, name in names.items()])
    for email, name in names.items():
        load(house, name, allowed_users_email_addresses=[email])
    for email, name in names.items():
        page = house.open("what_can_they_read", who=f"user:{email}", **{"with": f"user:{house.service.admin_email}"})
        assert not page.exception
        assert "<script" not in html_of(page)
        assert "<img" not in html_of(page)
        assert name not in markdown_of(page)


def test_a_member_sees_nothing_of_it(house: House) -> None:
    """Not even what they may read themselves, by its address."""
    a_person(house.service, "jonas@example.test", name="Jonas")
    page = house.open("what_can_they_read", signed_in_as="jonas@example.test", who="user:jonas@example.test")
    assert "This page is for admins." in html_of(page)
    assert not page.dataframe


def test_the_page_opens_with_whose_access_changed_lately(open_page: Open, service: RunningService) -> None:
    """Whom a grant or a group gave or took something, each once, the latest first; then lists of all there are."""
    with Carrel(service.api_key, service.base_url) as client:
        house = House(service, client)
        assert "No access was changed yet." in html_of(open_page("what_can_they_read"))
        people(house, ADA, BEN)
        crew = group(house, "Lately crew", ADA)
        grants = [{"principal": {"type": "group", "id": crew}, "role": Role.VIEWER}]
        client.admin.grants.set(reference(load(house, "Lately log")), grants)
        page = open_page("what_can_they_read")
        assert [(row["Name"], row["Latest change"]) for row in rows(page)] == [
            ("Lately crew", "admin gave Lately crew Viewer access to document “Lately log”"),
            ("Ada", "admin added Ada to group “Lately crew”"),
        ]
        assert [row["Members"] for row in rows(open_page("what_can_they_read", part="groups"))] == ["1 member"]
        assert {row["Name"] for row in rows(open_page("what_can_they_read", part="people"))} == {"admin", "Ada", "Ben"}
        assert [row["Name"] for row in rows(open_page("what_can_they_read", part="people", find="be"))] == ["Ben"]
        assert "Nobody fits." in html_of(open_page("what_can_they_read", part="accounts"))
