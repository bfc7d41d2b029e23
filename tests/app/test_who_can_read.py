"""Who can read this: finding, listing, explaining and changing, on the real service."""

import csv
import re
from unittest.mock import Mock

import pytest

from app.lookup import MOST
from app.permissions import panel
from app.permissions.panel import grants_on
from carrel import APIConnectionError
from carrel.wire.common import GrantRole
from tests.app.pages import HOSTILE_CASES, reference
from tests.service.directory import a_group, a_user, user

ADA, BEN = "ada@example.test", "ben@example.test"


def test_a_resource_is_found_by_typing_and_kept_in_the_address(house) -> None:
    key = house.load_resource("Minutes of the board, spring")
    house.load_resource("Minutes of the board, autumn")
    page = house.open("who_can_read")
    page.text_input(key="resource.typed").set_value("OF THE BOARD,").run()
    match = page.selectbox(key="resource.match")
    assert set(match.options) == {"Minutes of the board, spring · document", "Minutes of the board, autumn · document"}
    match.set_value(key).run()
    assert page.address["resource"] == key
    assert "Minutes of the board, spring" in page.shown
    again = house.open("who_can_read", resource=key)
    assert again.rows() == page.rows()
    assert [row["Address"] for row in again.rows()] == [house.service.admin_email]


def test_many_matches_say_how_to_narrow_them(house) -> None:
    for number in range(MOST + 2):
        house.load_resource(f"Ledger {number:02}")
    page = house.open("who_can_read")
    page.text_input(key="resource.typed").set_value("ledger").run()
    assert len(page.selectbox(key="resource.match").options) == MOST
    assert f"More than {MOST} match" in page.shown
    page.text_input(key="resource.typed").set_value("ledger 0").run()
    assert len(page.selectbox(key="resource.match").options) == 10
    page.text_input(key="resource.typed").set_value("no such thing %").run()
    assert "No matches." in page.shown
    assert not page.selectbox


def test_the_only_match_is_chosen_by_itself(house) -> None:
    key = house.load_resource("Qx of one")
    page = house.open("who_can_read")
    page.text_input(key="resource.typed").set_value("qx").run()
    assert page.selectbox(key="resource.match").options == ["Qx of one · document"]
    assert "resource" not in page.query_params
    page.text_input(key="resource.typed").set_value("qx o").run()
    assert page.address["resource"] == key
    assert page.rows()


@pytest.mark.parametrize("address", ["nothing", "UPLOADED_DOCUMENT:gone", "SYNC:x", "UPLOADED_DOCUMENT:\0"])
def test_an_address_of_nothing_says_so_and_offers_choosing(house, address: str) -> None:
    page = house.open("who_can_read", resource=address)
    assert "that does not exist" in page.shown
    assert page.text_input(key="resource.typed")


def test_readers_are_people_and_groups_with_what_was_granted_directly(house) -> None:
    crew = house.add_group("Deck crew", ADA, BEN)
    key = house.load_resource("Deck log", allowed_group_ids=[crew], allowed_users_email_addresses=[BEN])
    rows = house.open("who_can_read", resource=key).rows()
    listed = {(row["Name"], row["Type"], row["Direct access"]) for row in rows}
    assert listed >= {("Deck crew", "Group", "Viewer"), ("Ada", "Person", ""), ("Ben", "Person", "Viewer")}


def test_exports_say_of_what_through_whom_and_of_when(house) -> None:
    house.add_people(ADA, BEN)
    ship = a_group(house.service, "Export ship", {"type": "group", "id": house.add_group("Export crew", ADA)})
    key = house.load_resource("Export: log/1", allowed_group_ids=[ship["id"]], allowed_users_email_addresses=[ADA])
    house.load_resource("Export: log/2", internal_public=True)
    house.add_to(collection := house.add_collection("Export shelf"), key.partition(":")[2])
    page = house.open("who_can_read", resource=key).press("Export as CSV")
    assert re.fullmatch(r"who-can-read .*_1 20\d\d-\d\d-\d\d\.csv", page.session_state["export.kept"].about[0])
    rows = {row["Name"]: row for row in csv.DictReader(page.exported.splitlines())}
    assert {row["Resource"] for row in rows.values()} == {"Export: log/1"}
    assert all(row["As of"].endswith("UTC") and row["Resource id"] for row in rows.values())
    named = {name: (row["Direct access"], row["Through"]) for name, row in rows.items() if "Export" in name}
    assert named == {"Export ship": ("Viewer", "Direct access"), "Export crew": ("", "Export ship")}
    assert (rows["Ada"]["Direct access"], rows["Ada"]["Through"]) == ("Viewer", "Direct access, Export ship")
    assert ("Owner", "Owner") in {(row["Direct access"], row["Through"]) for row in rows.values()}
    page = house.open("who_can_read", part="all", find="export: log").press("Export who can read these")
    listed = {(row["Resource"], row["Name"], row["Through"]) for row in csv.DictReader(page.exported.splitlines())}
    assert listed >= {("Export: log/1", "Ada", "Direct access, Export ship"), ("Export: log/2", "Ben", "Everyone")}
    page = house.open("who_can_read", resource=f"DOCUMENT_COLLECTION:{collection}")
    page.press("Export who can read its documents")
    assert {row["Resource"] for row in csv.DictReader(page.exported.splitlines())} == {"Export: log/1"}


def test_many_readers_are_paged_and_exported_without_formulas(house) -> None:
    emails, formula = [f"sailor{number:03}@example.test" for number in range(60)], '=HYPERLINK("https://evil.example")'
    house.add_people(*emails)
    house.add_people(emails[0], name=formula)
    page = house.open("who_can_read", resource=house.load_resource("Muster roll", allowed_users_email_addresses=emails))
    assert len(page.rows()) == 50
    assert len(page.press("Next").rows()) == 11
    page.press("Export as CSV")
    assert "61 rows, as of now" in page.shown
    assert all(email in page.exported for email in emails)
    cells = [cell for row in csv.reader(page.exported.splitlines()) for cell in row]
    assert f"'{formula}" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_a_path_is_drawn_and_said(house) -> None:
    crew = house.add_group("Path crew", ADA)
    ship = house.add_group("Path ship")
    house.client.admin.groups.add_members(ship, [{"type": "group", "id": crew}])
    key = house.load_resource("Charts", allowed_group_ids=[ship])
    page = house.open("who_can_read", resource=key, who=f"user:{ADA}")
    assert "Ada is in Path crew, Path crew is in Path ship, Path ship is viewer of “Charts”." in page.shown
    dot = page.graph
    assert [dot.count(f'label="{name}') for name in ("Ada", "Path crew", "Path ship", "Charts")] == [1, 1, 1, 1]
    assert 'label=" Viewer "' in dot
    page.press("Everyone who can read it")
    assert "who" not in page.query_params
    assert len(page.rows()) == 4


def test_two_paths_share_what_both_pass_through(house) -> None:
    crew = house.add_group("Twice crew", ADA)
    key = house.load_resource("Twice", allowed_group_ids=[crew], allowed_users_email_addresses=[ADA])
    page = house.open("who_can_read", resource=key, who=f"user:{ADA}")
    assert "in several ways" in page.shown
    assert page.graph.count('label="Ada') == 1
    assert page.graph.count(" -> ") == 3


def test_who_may_not_read_is_added_to_a_group_that_may(house) -> None:
    house.add_people(ADA, BEN)
    board = house.add_group("**Bridge** board", ADA)
    key = house.load_resource("Board minutes", allowed_group_ids=[board])
    page = house.open("who_can_read", resource=key, who=f"user:{BEN}")
    assert "**Bridge** board is the only group with access, and Ben is not a member." in page.shown
    page = page.press("Add to ` **Bridge** board `")
    assert "Ben joins **Bridge** board, and can read 1 document more" in page.shown
    page.press_key("confirm.yes")
    assert {one.name for one in house.client.admin.groups.list_members(board)} == {"Ada", "Ben"}
    assert "Ben can read “Board minutes”:" in house.open("who_can_read", resource=key, who=f"user:{BEN}").shown


def test_who_may_not_read_is_given_access(house) -> None:
    house.add_people(BEN)
    page = house.open("who_can_read", resource=house.load_resource("Given away"), who=f"user:{BEN}")
    assert "Ben cannot read “Given away”." in page.shown
    assert "No grant gives access to this user" in page.shown
    assert not page.get("graphviz_chart")
    assert "Ben will be able to read “Given away”." in page.press("Give access").shown
    page.press_key("change.submit")
    assert "Ben can read “Given away”:" in page.shown
    other = house.load_resource("Kept")
    house.client.admin.users.upsert([{"email": BEN, "active": False}])
    page = house.open("who_can_read", resource=other, who=f"user:{BEN}")
    assert "This user is not active" in page.shown
    assert "Give access" not in page.labels
    house.client.admin.users.upsert([{"email": BEN, "active": True}])


def test_more_ways_than_are_shown_is_said(house) -> None:
    house.add_people(ADA)
    wanted = [{"name": f"Way {number:03}", "members": [user(ADA)]} for number in range(101)]
    inner = [str(one.id) for one in house.client.admin.groups.upsert(wanted).groups]
    key = house.load_resource("Many ways", allowed_group_ids=inner)
    page = house.open("who_can_read", resource=key, who=f"user:{ADA}")
    assert "There are more ways" in page.shown
    assert "90 more ways in words" in page.as_markdown


def test_a_service_account_is_explained_by_its_address(house) -> None:
    house.client.admin.organization.update(service_accounts_enabled=True)
    account = house.client.admin.service_accounts.create("Night load")
    key = house.load_resource("Night log", allowed_users_email_addresses=[account.email])
    page = house.open("who_can_read", resource=key, who=f"user:{account.email}")
    assert "Night load is viewer of “Night log”." in page.shown


def test_groups_that_are_called_alike_are_told_apart(house) -> None:
    twins = [house.add_group("Lookouts", ADA, externalId=one) for one in ("lookouts-1", "lookouts-2")]
    other = house.add_group("Lookouts", externalId="lookouts-3")
    key = house.load_resource("Lookouts", allowed_group_ids=twins)
    page = house.open("who_can_read", resource=key, who=f"user:{ADA}")
    for one in twins:
        name = f"Lookouts (…{one[-6:]})"
        assert f"Ada is in {name}, {name} is viewer of “Lookouts”." in page.shown
        assert name in page.graph
    page = house.open("who_can_read", resource=key)
    page.text_input(key="who.typed").set_value("lookouts").run()
    match = page.selectbox(key="who.match")
    assert len(set(match.options)) == 3
    match.set_value(f"group:{other}").run()
    assert "Lookouts cannot read" in page.shown
    assert "Lookouts can read" in house.open("who_can_read", resource=key, who=f"group:{twins[0]}").shown


def test_access_is_changed_as_the_dialog_says(house) -> None:
    house.add_people(ADA, BEN)
    crew = house.add_group("Galley crew")
    key = house.load_resource("Menu", allowed_users_email_addresses=[BEN])
    page = house.open("who_can_read", resource=key).press("Manage access")
    assert "Nothing will change." in page.shown
    assert page.button(key="change.submit").disabled
    page.text_input(key="grants.added.typed").set_value("galley").run()
    assert page.multiselect(key="grants.added.kept").value == [f"group:{crew}"]
    page.segmented_control(key="as").set_value(GrantRole.EDITOR).run()
    assert "Ben · ben@example.test · person <b>Viewer</b>" in page.shown
    for label in ("Remove", "Keep", "Remove"):
        page = page.press(label)
    assert "Ben loses access." in page.shown
    page.checkbox(key="everybody.False").check().run()
    said = page.shown
    assert "Everyone in the organization will be able to read “Menu”, including people who join later." in said
    assert "0 members of Galley crew will be able to read and change “Menu”." in said
    assert "Ben loses access of their own, but keeps the access of everyone in the organization." in said
    page.press_key("change.submit")
    grants = next(house.client.admin.grants.list(reference(key)).pages())
    assert [(grant.principal.name, grant.role) for grant in grants.grants] == [("Galley crew", GrantRole.EDITOR)]
    assert grants.organization_wide
    assert "Changes, effective immediately" not in page.shown
    assert "Everyone in the organization" in page.shown


def test_a_role_is_changed_and_what_still_gives_access_is_said(house) -> None:
    """People behind groups are counted, in groups within them too; a removed grant names the groups that stay."""
    crew = house.add_group("Sail crew", ADA, BEN)
    ship = a_group(house.service, "Sail ship", {"type": "group", "id": crew})["id"]
    key = house.load_resource("Sails", allowed_group_ids=[ship], allowed_users_email_addresses=[ADA])
    page = house.open("who_can_read", resource=key).press("Manage access")
    page.selectbox(key=f"role.group:{ship}.VIEWER").select(GrantRole.EDITOR).run()
    page.press_key(f"remove.user:{ADA}")
    assert "The role of 2 members of Sail ship changes from viewer to editor." in page.shown
    assert "Ada loses access of their own, but keeps it through Sail crew &gt; Sail ship." in page.shown
    page.button(key=f"remove.group:{ship}").click()  # Save is pressed before the page shows this
    assert "The form has changed. Review the changes, and save again." in page.press_key("change.submit").shown
    page.checkbox(key="everybody.False").check()
    assert "The form has changed. Review the changes, and save again." in page.press_key("change.submit").shown
    assert len(list(house.client.admin.grants.list(reference(key)))) == 2


def test_what_was_chosen_is_saved_beside_the_changes_of_another_person(house, monkeypatch) -> None:
    """The dialog keeps the grants of the page's last drawing, as a browser draws it alone."""
    house.add_people(ADA, BEN, "cleo@example.test")
    offer, first = panel.offer_change, {}
    monkeypatch.setattr(panel, "offer_change", lambda of, grants, *_, **__: offer(of, first.setdefault(0, grants)))
    key = house.load_resource("Shared desk", allowed_users_email_addresses=[ADA])
    page = house.open("who_can_read", resource=key).press("Manage access")
    page.text_input(key="grants.added.typed").set_value("cleo").run()
    page.press_key(f"remove.user:{ADA}")
    house.client.admin.grants.set(reference(key), [{"principal": user(one), "role": "VIEWER"} for one in (ADA, BEN)])
    page.press_key("change.submit")
    assert "Someone else changed access. Review the changes below, and save again." in page.shown
    assert "Ada loses access." in page.shown
    page.press_key("change.submit")
    assert {one.principal.name for one in house.client.admin.grants.list(reference(key))} == {"Ben", "Cleo"}
    assert "Nothing will change." in page.press("Manage access").shown
    pages = [Mock(grants=[], version=version) for version in ("1", "2")]
    assert grants_on(Mock(**{"admin.grants.list.return_value.pages.return_value": pages}), Mock()).version == "1"


def test_a_viewer_who_is_also_an_editor_by_the_owner_keeps_both_roles(house) -> None:
    house.add_people(ADA, BEN, "cleo@example.test")
    key = house.load_resource("Both", upload_as_user_email=ADA, allowed_users_email_addresses=[BEN])
    house.client.permissions.set_shares(reference(key), [{"principal": user(BEN), "role": "EDITOR"}], user_email=ADA)
    page = house.open("who_can_read", resource=key).press("Manage access")
    page.text_input(key="grants.added.typed").set_value("cleo").run()
    page.press_key("change.submit")
    held = [
        (one.principal.name, one.role.value, bool(one.given_by))
        for one in house.client.admin.grants.list(reference(key))
    ]
    assert sorted(held) == [("Ben", "EDITOR", True), ("Ben", "VIEWER", False), ("Cleo", "VIEWER", False)]
    page = page.press("Manage access")
    page.selectbox(key=f"role.user:{BEN}.EDITOR").select(GrantRole.VIEWER).run()
    page.press_key("change.submit")
    assert [
        one.role.value for one in house.client.admin.grants.list(reference(key)) if one.principal.name == "Ben"
    ] == ["VIEWER"]


def test_a_removal_is_offered_although_the_ways_left_are_unknown(house, monkeypatch: pytest.MonkeyPatch) -> None:
    house.add_people(BEN)
    key = house.load_resource("No ways", allowed_users_email_addresses=[BEN])
    page = house.open("who_can_read", resource=key).press("Manage access")
    monkeypatch.setattr(panel, "explanation", Mock(side_effect=APIConnectionError("away")))
    assert "Ben loses access, unless they have access in another way." in page.press_key(f"remove.user:{BEN}").shown


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_names_of_others_are_only_text(house, name: str) -> None:
    house.add_people("hostile@example.test", name=name)
    crew = a_group(house.service, name, user("hostile@example.test"))
    key = house.load_resource(name, allowed_group_ids=[crew["id"]])
    page = house.open("who_can_read", resource=key, who="user:hostile@example.test")
    page.assert_shown_as_text(name)
    assert "<" not in "".join(re.findall(r'"[^"]*"', page.graph))
    assert re.sub(r'"[^"]*"', "", page.graph).count("n0") == 2


def test_a_service_that_refuses_is_said(new_house) -> None:
    page = new_house.open("who_can_read")
    a_user(new_house.service, "admin2@example.test", isAdmin=True)
    a_user(new_house.service, new_house.service.admin_email, isAdmin=False)
    page.text_input(key="resource.typed").set_value("board").run()
    assert "Request id" in page.shown
    assert "carrel-problem" in page.shown


def test_the_page_opens_with_what_changed_lately(new_house) -> None:
    assert "No access was changed yet." in new_house.open("who_can_read").shown
    new_house.add_people(ADA, BEN)
    first, second, gone = (new_house.load_resource(name) for name in ("First log", "Second log", "Gone log"))
    for key, email in ((first, ADA), (gone, ADA), (second, ADA), (first, BEN)):
        new_house.client.admin.grants.set(reference(key), [{"principal": user(email), "role": "VIEWER"}])
    new_house.client.catalog.delete_document(gone.partition(":")[2])
    assert [(row["Name"], row["Latest change"]) for row in new_house.open("who_can_read").rows()] == [
        ("First log", "admin gave Ben Viewer access to document “First log” and removed Viewer access to it from Ada"),
        ("Second log", "admin gave Ada Viewer access to document “Second log”"),
    ]


def test_the_page_lists_what_is_open_to_everybody_and_all_there_is(new_house) -> None:
    for name, is_open in (("Tides", True), ("Board minutes", False), ("Menu", True)):
        new_house.load_resource(name, internal_public=is_open)
    assert new_house.open("who_can_read", part="open").column("Name") == ["Menu", "Tides"]
    assert new_house.open("who_can_read", part="all").column("Name") == ["Board minutes", "Menu", "Tides"]
    assert new_house.open("who_can_read", part="all", find="MEN").column("Name") == ["Menu"]
    assert "Nothing matches." in new_house.open("who_can_read", part="open", find="board").shown
