"""What can they read: lists, comparisons and reasons, on the real service."""

from collections.abc import Mapping

import pytest

from carrel.wire.common import Role
from tests.app.pages import HOSTILE_CASES, reference
from tests.service.directory import user

ADA, BEN, CARA = "ada@example.test", "ben@example.test", "cara@example.test"


@pytest.fixture(scope="module")
def keys(house) -> Mapping[str, str]:
    house.add_people(ADA, BEN, CARA)
    crew = house.add_group("Reach crew", ADA)
    access: dict[str, dict] = {
        "Tide tables": {"allowed_users_email_addresses": [ADA, BEN]},
        "Wage list": {"allowed_group_ids": [crew]},
        "Ben's notes": {"allowed_users_email_addresses": [BEN]},
    }
    return {name: house.load_resource(name, **allowed) for name, allowed in access.items()}


def names(page) -> set[str]:
    return {row["Name"] for row in page.rows()}


@pytest.mark.usefixtures("keys")
def test_somebody_is_found_and_what_they_read_is_counted_and_listed(house) -> None:
    house.grant("DOCUMENT_COLLECTION", house.add_collection("Reach handbook"), user(ADA))
    page = house.open("what_can_they_read")
    page.text_input(key="who.typed").set_value("@EXAMPLE").run()
    assert page.selectbox(key="who.match").options[0] == "Ada · ada@example.test · person"
    page.selectbox(key="who.match").set_value(f"user:{ADA}").run()
    assert page.metrics == {"Documents": "2", "Collections": "1", "Agents": "0"}
    assert {row["Name"]: row["Through"] for row in page.rows()} == {
        "Tide tables": "Direct access",
        "Wage list": "Reach crew",
        "Reach handbook": "Direct access",
    }
    assert page.address["who"] == f"user:{ADA}"


@pytest.mark.usefixtures("keys")
def test_the_list_is_narrowed_by_name_and_kind(house) -> None:
    assert names(house.open("what_can_they_read", who=f"user:{ADA}", q="TIDE")) == {"Tide tables"}
    page = house.open("what_can_they_read", who=f"user:{ADA}", type="UPLOADED_DOCUMENT")
    assert names(page) == {"Tide tables", "Wage list"}
    page = house.open("what_can_they_read", who=f"user:{ADA}", q="no such", type="UPLOADED_DOCUMENT")
    assert "Nothing matches." in page.shown


@pytest.mark.usefixtures("keys")
def test_two_are_compared(house) -> None:
    page = house.open("what_can_they_read", who=f"user:{ADA}", **{"with": f"user:{BEN}"}, type="UPLOADED_DOCUMENT")
    assert "<th scope='row'>Documents</th><td>1</td><td>1</td><td>1</td>" in page.shown
    assert names(page) == {"Tide tables", "Wage list"}
    page.selectbox(key="filter.only").set_value("first").run()
    assert names(page) == {"Wage list"}
    page.selectbox(key="filter.only").set_value("second").run()
    assert names(page) == {"Ben's notes"}
    assert page.address["only"] == "second"


@pytest.mark.usefixtures("keys")
def test_odd_comparisons_are_told_in_words(house) -> None:
    twin = "ada@second.example.test"
    house.add_people(twin)
    page = house.open("what_can_they_read", who=f"user:{ADA}", **{"with": f"user:{twin}"})
    for email in (ADA, twin):
        assert f"Only Ada · {email} · person" in page.shown
        assert any(email in option for option in page.selectbox(key="filter.only").options)
    page = house.open("what_can_they_read", who=f"user:{ADA}", **{"with": f"user:{ADA}"})
    assert "You selected the same person or group twice." in page.shown
    page = house.open("what_can_they_read", who=f"user:{CARA}")
    assert "Cara can read nothing." in page.shown
    assert page.metrics == {"Documents": "0", "Collections": "0", "Agents": "0"}


def test_something_of_the_list_is_explained(house, keys: Mapping[str, str]) -> None:
    page = house.open("what_can_they_read", who=f"user:{ADA}", resource=keys["Wage list"], **{"with": f"user:{BEN}"})
    assert "Ada is in Reach crew, Reach crew is viewer of “Wage list”." in page.shown
    assert "Ben cannot read “Wage list”." in page.shown
    assert "Reach crew" in page.graph
    assert "who_can_read?resource=UPLOADED_DOCUMENT%3A" in page.shown
    assert "Reach crew is the only group with access, and Ben is not a member." in page.shown
    assert "Ben will be able to read “Wage list”." in page.press("Give access").shown
    page = house.open("what_can_they_read", who=f"user:{ADA}", resource=keys["Wage list"])
    assert "Nothing will change." in page.press("Manage access").shown
    page.press("Everything they can read")
    assert "resource" not in page.query_params


def test_the_list_is_read_again_after_a_change_of_access(house) -> None:
    house.add_people("dora@example.test")
    key = house.load_resource("Crane log", allowed_users_email_addresses=["dora@example.test"])
    page = house.open("what_can_they_read", who="user:dora@example.test")
    assert page.cells("Name", "Through") == [("Crane log", "Direct access")]
    page.query_params["resource"] = key
    page.run().press("Manage access").checkbox(key="everybody.False").check().run().press_key("change.submit")
    page.press("Everything they can read")
    assert page.cells("Name", "Through") == [("Crane log", "Direct access, Everyone")]


def test_many_are_paged_and_exported_whole(house) -> None:
    crew = house.add_group("Many crew")
    for name in (*(f"Many {number:02}" for number in range(51)), "@SUM(1)"):
        house.load_resource(name, allowed_group_ids=[crew])
    page = house.open("what_can_they_read", who=f"group:{crew}")
    assert page.column("Name") == ["@SUM(1)", *(f"Many {number:02}" for number in range(49))]
    assert page.metrics["Documents"] == "52"
    page.press("Export as CSV")
    text = page.exported
    assert sum(line.startswith("Many ") for line in text.splitlines()) == 51
    assert "\n'@SUM(1)," in text.replace("\r", "")


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_hostile_names_are_only_text(house, name: str) -> None:
    house.add_people("hostile@example.test", name=name)
    house.load_resource(name, allowed_users_email_addresses=["hostile@example.test"])
    compared = {"who": "user:hostile@example.test", "with": f"user:{house.service.admin_email}"}
    house.open("what_can_they_read", **compared).assert_shown_as_text(name)


def test_the_page_opens_with_whose_access_changed_lately(new_house) -> None:
    assert "No access was changed yet." in new_house.open("what_can_they_read").shown
    new_house.add_people(ADA, BEN)
    crew = new_house.add_group("Lately crew", ADA)
    grants = [{"principal": {"type": "group", "id": crew}, "role": Role.VIEWER}]
    new_house.client.admin.grants.set(reference(new_house.load_resource("Lately log")), grants)
    assert [(row["Name"], row["Latest change"]) for row in new_house.open("what_can_they_read").rows()] == [
        ("Lately crew", "admin gave Lately crew Viewer access to document “Lately log”"),
        ("Ada", "admin added Ada to group “Lately crew”"),
    ]
    assert new_house.open("what_can_they_read", part="groups").column("Members") == ["1 member"]
    assert names(new_house.open("what_can_they_read", part="people")) == {"admin", "Ada", "Ben"}
    assert names(new_house.open("what_can_they_read", part="people", find="be")) == {"Ben"}
    assert "Nobody matches." in new_house.open("what_can_they_read", part="accounts").shown
    new_house.client.admin.groups.delete(crew)
    assert "No access was changed yet." in new_house.open("what_can_they_read").shown
