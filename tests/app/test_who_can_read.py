"""Who can read this: finding, listing, explaining and changing, on the real service."""

import csv
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.lookup import MOST
from carrel import Carrel
from carrel.wire.common import GrantRole
from tests.app.conftest import House, Open, html_of, markdown_of
from tests.app.pressing import press
from tests.app.test_search import HOSTILE
from tests.harness.services import RunningService
from tests.oauth.flow import a_person
from tests.service.directory import done

ADA, BEN, MEMBER = "ada@example.test", "ben@example.test", "jonas@example.test"


def load(house: House, name: str, **access: Any) -> str:
    """A document; what an address calls it."""
    uploaded = house.client.catalog.upload_file(
        b"Calm at sea.", document_external_id=name, document_name=name, file_name="log.txt", **access
    )
    return f"UPLOADED_DOCUMENT:{uploaded.document_id}"


def people(house: House, *emails: str) -> None:
    """People of these addresses."""
    house.client.admin.users.upsert(
        [{"email": email, "name": email.partition("@")[0].capitalize()} for email in emails]
    )


def group(house: House, name: str, *emails: str) -> str:
    """A group of people; its id."""
    people(house, *emails) if emails else None
    members = [{"type": "user", "email": email} for email in emails]
    return str(house.client.admin.groups.upsert([{"name": name, "members": members}]).groups[0].id)


def rows(page: AppTest) -> list[dict[str, Any]]:
    """What the page's table shows."""
    return page.dataframe[0].value.to_dict("records")


def graph(page: AppTest) -> str:
    """The graph that the page draws, in DOT."""
    return page.get("graphviz_chart")[0].proto.spec


def test_a_resource_is_found_by_typing_and_kept_in_the_address(house: House) -> None:
    """A part of the name finds it; choosing it is the page's address, which shows the same again."""
    key = load(house, "Minutes of the board, spring")
    load(house, "Minutes of the board, autumn")
    page = house.open("who_can_read")
    page.text_input(key="resource.typed").set_value("OF THE BOARD,").run()
    match = page.selectbox(key="resource.match")
    assert set(match.options) == {"Minutes of the board, spring · document", "Minutes of the board, autumn · document"}
    match.set_value(key).run()
    assert page.query_params["resource"] == key
    assert "Minutes of the board, spring" in html_of(page)
    again = house.open("who_can_read", resource=key)
    assert rows(again) == rows(page)
    assert [row["Address"] for row in rows(again)] == [house.service.admin_email]


def test_many_matches_say_how_to_narrow_them(house: House) -> None:
    """No more than a handful is shown, with what to do; none says so; what was typed is asked of the service alone."""
    for number in range(MOST + 2):
        load(house, f"Ledger {number:02}")
    page = house.open("who_can_read")
    page.text_input(key="resource.typed").set_value("ledger").run()
    assert len(page.selectbox(key="resource.match").options) == MOST
    assert f"More than {MOST} match" in html_of(page)
    page.text_input(key="resource.typed").set_value("ledger 0").run()
    assert len(page.selectbox(key="resource.match").options) == 10
    page.text_input(key="resource.typed").set_value("no such thing %").run()
    assert "Nothing is called that." in html_of(page)
    assert not page.selectbox


def test_the_only_match_is_chosen_by_itself(house: House) -> None:
    """Once three letters are typed: fewer may yet become those of another."""
    key = load(house, "Qx of one")
    page = house.open("who_can_read")
    page.text_input(key="resource.typed").set_value("qx").run()
    assert page.selectbox(key="resource.match").options == ["Qx of one · document"]
    assert "resource" not in page.query_params
    page.text_input(key="resource.typed").set_value("qx o").run()
    assert page.query_params["resource"] == key
    assert rows(page)


def test_what_reads_alike_is_told_apart(house: House) -> None:
    """Two groups of one name are two options, and the one chosen is the one asked about."""
    first = house.client.admin.groups.upsert([{"name": "Twins", "external_id": "twins-1"}]).groups[0].id
    second = house.client.admin.groups.upsert([{"name": "Twins", "external_id": "twins-2"}]).groups[0].id
    key = load(house, "For one twin", allowed_group_ids=[str(second)])
    page = house.open("who_can_read", resource=key)
    page.text_input(key="who.typed").set_value("twins").run()
    match = page.selectbox(key="who.match")
    assert len(set(match.options)) == 2
    match.set_value(f"group:{first}").run()
    assert "Twins may not read" in html_of(page)
    assert "Twins may read" in html_of(house.open("who_can_read", resource=key, who=f"group:{second}"))


@pytest.mark.parametrize("address", ["nothing", "UPLOADED_DOCUMENT:gone", "SYNC:x", "UPLOADED_DOCUMENT:\0"])
def test_an_address_of_nothing_says_so_and_offers_choosing(house: House, address: str) -> None:
    """What isn't there, and what no address can be, is said in words."""
    page = house.open("who_can_read", resource=address)
    assert not page.exception
    assert "that isn&#x27;t there" in html_of(page)
    assert page.text_input(key="resource.typed")


def test_readers_are_people_and_groups_with_what_was_granted_directly(house: House) -> None:
    """Who reads by a group is listed beside the group, and a role stands only where it was granted itself."""
    crew = group(house, "Deck crew", ADA, BEN)
    key = load(house, "Deck log", allowed_group_ids=[crew], allowed_users_email_addresses=[BEN])
    listed = {
        (row["Name"], row["Type"]): row["Direct access"] for row in rows(house.open("who_can_read", resource=key))
    }
    assert listed[("Deck crew", "Group")] == "Viewer"
    assert listed[("Ada", "Person")] == ""
    assert listed[("Ben", "Person")] == "Viewer"


def test_many_readers_are_paged(house: House) -> None:
    """Fifty are shown at a time, and the export has them all."""
    emails = [f"sailor{number:03}@example.test" for number in range(60)]
    people(house, *emails)
    key = load(house, "Muster roll", allowed_users_email_addresses=emails)
    page = house.open("who_can_read", resource=key)
    assert len(rows(page)) == 50
    press(page, "Next")
    assert len(rows(page)) == 11
    press(page, "Export as CSV")
    assert "61 rows, as things were just now" in html_of(page)
    text = exported(page)
    assert all(email in text for email in emails)


def exported(page: AppTest) -> str:
    """The file that the page offers."""
    return page.session_state["export.kept"].data.decode("utf-8-sig")


def test_a_path_is_drawn_and_said(house: House) -> None:
    """Why somebody may read it is a graph of groups up to the grant, and the same in a sentence."""
    crew = group(house, "Path crew", ADA)
    ship = group(house, "Path ship")
    house.client.admin.groups.add_members(ship, [{"type": "group", "id": crew}])
    key = load(house, "Charts", allowed_group_ids=[ship])
    page = house.open("who_can_read", resource=key, who=f"user:{ADA}")
    assert "Ada is in Path crew, Path crew is in Path ship, Path ship is viewer of “Charts”." in html_of(page)
    dot = graph(page)
    assert [dot.count(f'label="{name}') for name in ("Ada", "Path crew", "Path ship", "Charts")] == [1, 1, 1, 1]
    assert 'label=" Viewer "' in dot
    press(page, "All who may read it")
    assert "who" not in page.query_params
    assert len(rows(page)) == 4


def test_two_paths_share_what_both_pass_through(house: House) -> None:
    """Who reads it twice over is one box with two ways, and both are said."""
    key = load(house, "Twice", allowed_group_ids=[group(house, "Twice crew", ADA)], allowed_users_email_addresses=[ADA])
    page = house.open("who_can_read", resource=key, who=f"user:{ADA}")
    assert "in several ways" in html_of(page)
    assert graph(page).count('label="Ada') == 1
    assert graph(page).count(" -> ") == 3


def test_who_may_not_read_is_told_what_is_missing(house: House) -> None:
    """Somebody without a grant reads no; the words say what they lack."""
    people(house, BEN)
    page = house.open("who_can_read", resource=load(house, "Sealed"), who=f"user:{BEN}")
    assert "Ben may not read “Sealed”." in html_of(page)
    assert "Nobody has given access to this user" in html_of(page)
    assert not page.get("graphviz_chart")


def test_who_may_not_read_is_added_to_a_group_that_may(house: House) -> None:
    """The groups with access are named, as text alone; what joining one opens is said first; then they may read."""
    people(house, ADA, BEN)
    board = group(house, "**Bridge** board", ADA)
    key = load(house, "Board minutes", allowed_group_ids=[board])
    page = house.open("who_can_read", resource=key, who=f"user:{BEN}")
    assert "**Bridge** board is the only group with access; Ben isn&#x27;t in it." in html_of(page)
    page = press(page, "Add to ` **Bridge** board `")
    assert "Ben joins **Bridge** board, and can read 1 document more" in html_of(page)
    page.button(key="confirm.yes").click().run()
    assert {one.name for one in house.client.admin.groups.list_members(board)} == {"Ada", "Ben"}
    assert "Ben may read “Board minutes”:" in html_of(house.open("who_can_read", resource=key, who=f"user:{BEN}"))


def test_who_may_not_read_is_given_access(house: House) -> None:
    """They are chosen already in the dialog that changes grants; an inactive one is no better off by a grant."""
    people(house, BEN)
    key = load(house, "Given away")
    page = press(house.open("who_can_read", resource=key, who=f"user:{BEN}"), "Give access")
    assert "becomes viewer." in html_of(page)
    page.button(key="change.submit").click().run()
    assert "Ben may read “Given away”:" in html_of(page)
    other = load(house, "Kept")
    house.client.admin.users.upsert([{"email": BEN, "active": False}])
    page = house.open("who_can_read", resource=other, who=f"user:{BEN}")
    assert "This user is not active" in html_of(page)
    assert not [one.label for one in page.button if one.label == "Give access"]
    house.client.admin.users.upsert([{"email": BEN, "active": True}])


def test_more_ways_than_are_shown_is_said(house: House) -> None:
    """Of very many ways a hundred are shown, and that they are not all."""
    people(house, ADA)
    wanted = [{"name": f"Way {number:03}", "members": [{"type": "user", "email": ADA}]} for number in range(101)]
    inner = [str(one.id) for one in house.client.admin.groups.upsert(wanted).groups]
    page = house.open("who_can_read", resource=load(house, "Many ways", allowed_group_ids=inner), who=f"user:{ADA}")
    assert "There are more ways than these" in html_of(page)
    assert "90 more ways in words" in markdown_of(page)


def test_a_service_account_is_explained_by_its_address(house: House) -> None:
    """Lists of readers name service accounts by address like people; choosing one explains it all the same."""
    house.client.admin.organization.update(service_accounts_enabled=True)
    account = house.client.admin.service_accounts.create("Night load")
    key = load(house, "Night log", allowed_users_email_addresses=[account.email])
    page = house.open("who_can_read", resource=key, who=f"user:{account.email}")
    assert "Night load is viewer of “Night log”." in html_of(page)


def test_groups_that_are_called_alike_are_told_apart_in_the_reasons(house: House) -> None:
    """In the graph and in words, by the end of their ids; what is of another kind keeps its name as it is."""
    people(house, ADA)
    members = [{"type": "user", "email": ADA}]
    twins = [
        str(
            house.client.admin.groups.upsert([{"name": "Lookouts", "external_id": one, "members": members}])
            .groups[0]
            .id
        )
        for one in ("lookouts-1", "lookouts-2")
    ]
    key = load(house, "Lookouts", allowed_group_ids=twins)
    page = house.open("who_can_read", resource=key, who=f"user:{ADA}")
    for one in twins:
        name = f"Lookouts (…{one[-6:]})"
        assert f"Ada is in {name}, {name} is viewer of “Lookouts”." in html_of(page)
        assert name in graph(page)


def test_access_is_changed_as_the_dialog_says(house: House) -> None:
    """Adding, taking away and opening to everybody are said first, done at once, and are on the audit log once."""
    people(house, ADA, BEN)
    crew = group(house, "Galley crew")
    key = load(house, "Menu", allowed_users_email_addresses=[BEN])
    page = press(house.open("who_can_read", resource=key), "Manage access")
    assert "Nothing will change." in html_of(page)
    assert page.button(key="change.submit").disabled
    page.text_input(key="grants.added.typed").set_value("galley").run()
    assert page.multiselect(key="grants.added.kept").value == [f"group:{crew}"]
    page.segmented_control(key="as").set_value(GrantRole.EDITOR).run()
    assert "Ben · ben@example.test · person · Viewer" in html_of(page)
    for label in ("Remove", "Keep", "Remove"):
        page = press(page, label)
    page.checkbox(key="everybody").check().run()
    said = html_of(page)
    assert "Everybody in the organization may read it, people who come later too." in said
    assert "Galley crew (0 members · group) becomes editor." in said
    assert "Ben (ben@example.test · person) is not viewer any more." in said
    page.button(key="change.submit").click().run()
    assert not page.exception
    grants = next(house.client.admin.grants.list(reference(key)).pages())
    assert [(grant.principal.name, grant.role) for grant in grants.grants] == [("Galley crew", GrantRole.EDITOR)]
    assert grants.organization_wide
    assert "What will change" not in html_of(page)
    assert "Everybody in the organization" in html_of(page)


def test_changes_of_others_meanwhile_are_not_overwritten(house: House) -> None:
    """What somebody else set while the dialog was open stays, and saving says so."""
    people(house, ADA, BEN)
    key = load(house, "Contested")
    page = press(house.open("who_can_read", resource=key), "Manage access")
    page.checkbox(key="everybody").check().run()
    theirs = [{"principal": {"type": "user", "email": ADA}, "role": "VIEWER"}]
    save = page.button(key="change.submit")
    house.client.admin.grants.set(reference(key), theirs)
    save.click().run()
    assert "Somebody else has changed this" in html_of(page)
    assert not next(house.client.admin.grants.list(reference(key)).pages()).organization_wide


def test_names_of_others_are_only_text(house: House) -> None:
    """Hostile names of documents, people and groups are shown as they are: no tag, no link, no way out of the graph."""
    loaded = [hostile(house, number, name) for number, name in enumerate(HOSTILE)]
    for key, email, name in [(*pair, name) for pair, name in zip(loaded, HOSTILE, strict=True)]:
        page = house.open("who_can_read", resource=key, who=f"user:{email}")
        assert not page.exception
        shown = html_of(page)
        assert "<script" not in shown
        assert "<img" not in shown
        assert "<iframe" not in shown
        assert name not in markdown_of(page)
        strings = re.findall(r'"[^"]*"', graph(page))
        assert "<" not in "".join(strings)
        assert re.sub(r'"[^"]*"', "", graph(page)).count("n0") == 2


def hostile(house: House, number: int, name: str) -> tuple[str, str]:
    """A document, a person and a group of this name; what addresses call the document, and whose the person is."""
    email = f"hostile{number}@example.test"
    house.client.admin.users.upsert([{"email": email, "name": name}])
    members = [{"type": "user", "email": email}]
    crew = house.client.admin.groups.upsert([{"name": name, "members": members}]).groups[0]
    return load(house, name, allowed_group_ids=[str(crew.id)]), email


def test_an_export_holds_no_formula(house: House) -> None:
    """A name that a spreadsheet would compute is text in the file."""
    name = '=HYPERLINK("https://evil.example")'
    house.client.admin.users.upsert([{"email": "formula@example.test", "name": name}])
    page = house.open(
        "who_can_read", resource=load(house, "Sums", allowed_users_email_addresses=["formula@example.test"])
    )
    press(page, "Export as CSV")
    cells = [cell for row in csv.reader(exported(page).splitlines()) for cell in row]
    assert f"'{name}" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def reference(key: str) -> dict[str, str]:
    """How a request names what an address does."""
    resource_type, _, resource_id = key.partition(":")
    return {"resource_type": resource_type, "resource_id": resource_id}


def test_a_member_sees_nothing_of_it(house: House) -> None:
    """The address of a resource shows a member one calm word, and asks the service nothing."""
    a_person(house.service, MEMBER, name="Jonas")
    page = house.open("who_can_read", signed_in_as=MEMBER, resource=load(house, "Not for members"))
    assert "This page is for admins." in html_of(page)
    assert "Not for members" not in html_of(page) + markdown_of(page)
    assert not page.dataframe


def test_a_service_that_refuses_is_said(open_page: Open, service: RunningService) -> None:
    """When the service refuses, the page says so with the request id, and shows no list."""
    page = open_page("who_can_read")
    done(service.call("admin/users/upsert", {"users": [{"email": "admin2@example.test", "isAdmin": True}]}))
    with service.owner_connection() as connection:
        connection.execute("UPDATE principals SET is_admin = false WHERE email = %s", [service.admin_email])
    page.text_input(key="resource.typed").set_value("board").run()
    assert not page.exception
    assert "Request id" in html_of(page)
    assert "carrel-problem" in html_of(page)


def test_the_page_opens_with_what_changed_lately(open_page: Open, service: RunningService) -> None:
    """The latest changes of access, each resource once, as sentences; what is gone is left out; a row opens it."""
    with Carrel(service.api_key, service.base_url) as client:
        house = House(service, client)
        assert "No access was changed yet." in html_of(open_page("who_can_read"))
        people(house, ADA, BEN)
        first, second, gone = (load(house, name) for name in ("First log", "Second log", "Gone log"))
        for key, email in ((first, ADA), (gone, ADA), (second, ADA), (first, BEN)):
            client.admin.grants.set(reference(key), [{"principal": {"type": "user", "email": email}, "role": "VIEWER"}])
        client.catalog.delete_document(gone.partition(":")[2])
        page = open_page("who_can_read")
        assert [(row["Name"], row["Latest change"]) for row in rows(page)] == [
            (
                "First log",
                "admin gave Ben Viewer access to document “First log” and removed Viewer access to it from Ada",
            ),
            ("Second log", "admin gave Ada Viewer access to document “Second log”"),
        ]


def test_the_page_lists_what_is_open_to_everybody_and_all_there_is(open_page: Open, service: RunningService) -> None:
    """By name, narrowed by a part of it; the address has which list it is."""
    with Carrel(service.api_key, service.base_url) as client:
        house = House(service, client)
        for name, is_open in (("Tides", True), ("Board minutes", False), ("Menu", True)):
            load(house, name, internal_public=is_open)
        assert [row["Name"] for row in rows(open_page("who_can_read", part="open"))] == ["Menu", "Tides"]
        assert [row["Name"] for row in rows(open_page("who_can_read", part="all"))] == [
            "Board minutes",
            "Menu",
            "Tides",
        ]
        assert [row["Name"] for row in rows(open_page("who_can_read", part="all", find="MEN"))] == ["Menu"]
        assert "Nothing fits." in html_of(open_page("who_can_read", part="open", find="board"))
