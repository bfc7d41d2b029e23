"""People and groups on the real service."""

from inspect import unwrap

import pytest
import streamlit as st

from app.people import directory
from carrel.wire.admin import Group, ListedUser
from tests.app.conftest import House
from tests.app.pages import HOSTILE_CASES, Page
from tests.oauth.flow import a_person, an_app
from tests.oauth.test_invitation import take
from tests.oauth.test_second_factor import set_up
from tests.service.directory import a_group, a_resource, user


def person(house: House, email: str) -> ListedUser:
    return next(one for one in house.client.admin.users.list(query=email) if one.email == email)


def group_now(house: House, group_id: str) -> Group | None:
    return next(iter(house.client.admin.groups.list(ids=[group_id])), None)


def members(house: House, group_id: str) -> set[str]:
    return {one.name for one in house.client.admin.groups.list_members(group_id)}


def opens(house: House, name: str, group_id: str) -> None:
    house.grant(a_resource(house.service, name)["resourceType"], name, {"type": "group", "id": group_id})


def open_person(house: House, email: str) -> Page:
    return house.open("people", person=str(person(house, email).id))


def add_by_typing(page: Page, picker: str, typed: str) -> Page:
    return page.text_input(key=f"{picker}.typed").set_value(typed).run()


def test_people_are_found_by_letters_and_by_what_is_known(house: House) -> None:
    house.add_group("Found", "fay@found.test")
    house.add_people("gus@found.test", active=False)
    page = house.open("people", q="found.test")
    assert [(row["Name"], row["Status"], row["Groups"], row["Last sign-in"]) for row in page.rows()] == [
        ("Fay", "Active", 1, "Never"),
        ("Gus", "Not active", 0, "Never"),
    ]
    assert ">2<" in page.shown
    for shown, names in (("inactive", ["Gus"]), ("groupless", ["Gus"]), ("active", ["Fay"]), ("never", ["Fay", "Gus"])):
        assert house.open("people", q="found.test", show=shown).column("Name") == names
    assert "Nobody matches." in house.open("people", q="found.test", show="admin").shown
    chosen = page.choose(1)
    assert chosen.address["person"] == str(person(house, "gus@found.test").id)
    assert "gus@found.test" in chosen.shown


def test_a_person_is_added_once(house: House) -> None:
    page = house.open("people").press("Add person").press_key("new_person.submit")
    assert "Enter the email address" in page.shown
    page.text_input(key="new.email").set_value("Ida@new.test").run()
    page.text_input(key="new.name").set_value("Ida Wells").run().press_key("new_person.submit")
    made = person(house, "ida@new.test")
    assert (made.name, made.is_admin, made.active) == ("Ida Wells", False, True)
    assert page.address["person"] == str(made.id)
    again = house.open("people").press("Add person")
    again.text_input(key="new.email").set_value("ida@new.test").run()
    assert "already exists" in again.press_key("new_person.submit").shown
    assert person(house, "ida@new.test").name == "Ida Wells"


def test_an_invitation_is_shown_once_and_sets_the_password(house: House) -> None:
    house.add_people("una@invited.test", password=None)
    page = open_person(house, "una@invited.test").press("Invite").press_key("invite.submit")
    link = page.secret
    page.press_key("secret.done")
    assert not page.code
    assert link not in page.kept + page.shown
    assert take(link).status_code == 200
    assert open_person(house, "una@invited.test").button(key="invite").label == "Reset password"


def test_a_person_is_changed_and_deactivated(house: House) -> None:
    house.add_people("max@changed.test")
    page = open_person(house, "max@changed.test").press("Change")
    page.text_input(key="person.name").set_value("Max Power").run()
    page.checkbox(key="person.admin").check().run()
    assert "manages people" in page.shown
    page.press_key("change_person.submit")
    changed = person(house, "max@changed.test")
    assert (changed.name, changed.is_admin) == ("Max Power", True)
    page.confirm("Deactivate")
    assert not person(house, "max@changed.test").active
    open_person(house, "max@changed.test").press("Activate")
    assert person(house, "max@changed.test").active


def test_a_new_name_leaves_what_another_admin_changed_meanwhile(house: House) -> None:
    house.add_people("meg@meanwhile.test", is_admin=True)
    page = open_person(house, "meg@meanwhile.test").press("Change")
    house.client.admin.users.upsert([{"email": "meg@meanwhile.test", "is_admin": False}])
    page.text_input(key="person.name").set_value("Meg Ryan").run().press_key("change_person.submit")
    changed = person(house, "meg@meanwhile.test")
    assert (changed.name, changed.is_admin) == ("Meg Ryan", False)
    page = open_person(house, "meg@meanwhile.test").press("Change")
    house.client.admin.users.upsert([{"email": "meg@meanwhile.test", "name": "Meg"}])
    page.checkbox(key="person.admin").check().run().press_key("change_person.submit")
    changed = person(house, "meg@meanwhile.test")
    assert (changed.name, changed.is_admin) == ("Meg", True)


def test_a_person_joins_and_leaves_groups_with_what_changes_said(house: House) -> None:
    house.add_people("eve@joins.test")
    inner = house.add_group("Joined crew", "abe@joins.test")
    opens(house, "joined charts", a_group(house.service, "Joined ship", {"type": "group", "id": inner})["id"])
    page = open_person(house, "eve@joins.test").press("Add to groups")
    add_by_typing(page, "groups.new", "joined crew")
    assert "Eve joins Joined crew, and can read 1 document more." in page.shown
    page.press_key("join_groups.submit")
    assert members(house, inner) == {"Abe", "Eve"}
    shown = open_person(house, "eve@joins.test").shown
    assert "Through Joined crew" in shown
    assert "1 document, through groups" in shown
    page = open_person(house, "eve@joins.test").press("Remove")
    assert "These lose access immediately: Eve (1 document)." in page.shown
    page.press_key("confirm.yes")
    assert members(house, inner) == {"Abe"}


def test_a_group_that_was_deleted_elsewhere_is_named_and_the_dialog_goes_on(house, monkeypatch) -> None:
    monkeypatch.setattr(directory, "counts_of", unwrap(directory.counts_of))  # not kept for some seconds
    house.add_people("gus@gone.test")
    oars = house.add_group("Gone oars")
    page = add_by_typing(open_person(house, "gus@gone.test").press("Add to groups"), "groups.new", "gone oars")
    house.client.admin.groups.delete(oars)
    for shown in (page.run().shown, page.press_key("join_groups.submit").shown):
        assert "Deleted by someone else: the group “Gone oars”. Choose others, or cancel" in shown
        assert "principal" not in shown
        assert page.button(key="join_groups.cancel")


def test_a_persons_keys_are_listed_and_revoked(house: House) -> None:
    house.add_people("kim@keys.test")
    house.client.admin.api_keys.create("Kim's", owner_email="kim@keys.test")
    page = open_person(house, "kim@keys.test").choose()
    assert page.column("Name") == ["Kim's"]
    page.confirm("Revoke …")
    [key] = house.client.admin.api_keys.list(owner_email="kim@keys.test")
    assert key.status.value == "revoked"


def test_a_group_is_added_filled_emptied_and_deleted(house: House) -> None:
    house.add_people("lee@filled.test")
    page = house.open("groups").press("Add group")
    page.text_input(key="group.new_name").set_value("Filled").run().press_key("new_group.submit")
    group_id = page.address["group"]
    opens(house, "filled charts", group_id)
    page = house.open("groups", group=group_id).press("Add members")
    add_by_typing(page, "members.new", "lee@filled")
    assert "Lee joins Filled, and can read 1 document more." in page.shown
    page.press_key("add_members.submit")
    assert members(house, group_id) == {"Lee"}
    page = house.open("groups", group=group_id).choose().press("Remove from the group")
    assert "1 direct member · 1 person in all" in page.shown
    assert "These lose access immediately: Lee (1 document)" in page.shown
    page.press_key("confirm.yes")
    assert members(house, group_id) == set()
    page = house.open("groups", group=group_id).press("Rename")
    page.text_input(key="group.name").set_value("Filled again").run().press_key("rename_group.submit")
    assert getattr(group_now(house, group_id), "name", "") == "Filled again"
    assert "1 document." in page.shown
    page.press("Delete group")
    assert "The group has no members, so nobody loses access." in page.shown
    page.press_key("confirm.yes")
    assert group_now(house, group_id) is None
    assert ("group" in page.query_params, "is deleted. Admins can restore it" in page.shown) == (False, True)


def test_a_group_of_another_directory_says_that_it_comes_again(house: House) -> None:
    made = house.add_group("Outside", externalId="outside-1")
    assert house.open("groups", q="Outside").column("Origin") == ["Another directory"]
    page = house.open("groups", group=made).press("Delete group")
    assert "imported from another directory (id outside-1). The next import overwrites changes" in page.shown
    assert "The next import from the other directory creates it again" in page.shown
    assert "overwrites the name" in house.open("groups", group=made).press("Rename").shown


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_hostile_names_are_only_text(house: House, name: str) -> None:
    house.add_people("hostile@example.test", name=name)
    made = a_group(house.service, name, user("hostile@example.test"))["id"]
    open_person(house, "hostile@example.test").assert_shown_as_text(name)
    house.open("groups", group=made).assert_shown_as_text(name)
    house.open("groups", q="a").assert_shown_as_text()
    house.open("groups", group=made).choose().assert_shown_as_text()


def test_somebody_who_leaves_is_offboarded(house: House) -> None:
    house.add_people("max@leaves.test", "nia@leaves.test")
    house.add_group("Leavers", "max@leaves.test")
    house.client.admin.api_keys.create("Max's", owner_email="max@leaves.test")
    owned = a_resource(house.service, "max's log", owner=str(person(house, "max@leaves.test").id))
    page = open_person(house, "max@leaves.test")
    assert "1 document. Offboarding transfers this to another owner." in page.shown
    page = page.press("Offboard …")
    for said in ("<td>Leavers</td>", "Owns: 1 document.", "Nobody else can read 1 document today."):
        assert said in page.shown
    assert page.button(key="offboard.submit").disabled
    house.client.admin.users.upsert([{"email": "nia@leaves.test", "active": False}])
    add_by_typing(page, "offboard.owner", "nia@leaves")
    assert "Nia is not active" in page.shown
    house.client.admin.users.upsert([{"email": "nia@leaves.test", "active": True}])
    st.cache_data.clear()
    page = page.run()
    assert "Nia has never signed in." in page.shown
    page.press_key("offboard.submit")
    left = person(house, "max@leaves.test")
    assert (left.active, left.group_count) == (False, 0)
    counts = house.client.admin.access.count_resources(owned_by={"type": "user", "email": "nia@leaves.test"}).counts
    assert [one.count for one in counts] == [1], owned
    assert "not active" in page.shown
    assert "now owns 1 resource." in page.shown
    assert "Offboard …" not in open_person(house, "max@leaves.test").labels
    # The workbench may ask with its own key, so that the service can't tell who would offboard themselves.
    assert "Offboard …" not in open_person(house, house.service.admin_email).labels


def test_sessions_are_listed_and_ended(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    app = an_app(house.service)
    for browser in [a_person(house.service, "oda@signed.test", name="Oda") for _ in range(2)]:
        browser.tokens(app)
    monkeypatch.setattr("app.ui.tables._FRESH_SECONDS", 0.0)
    page = open_person(house, "oda@signed.test").choose(1)
    assert {row["Signed in with"] for row in page.rows()} == {"Browser", "An App"}
    sessions = house.client.admin.sessions
    first, chosen, *others = [one.session_id for one in sessions.list("oda@signed.test")]
    sessions.end("oda@signed.test", session_ids=[first])
    page.confirm("End this session")
    assert [one.session_id for one in sessions.list("oda@signed.test")] == others, chosen
    assert "End this session" not in page.run().labels
    open_person(house, "oda@signed.test").confirm("End all sessions")
    assert list(house.client.admin.sessions.list("oda@signed.test")) == []
    assert "No active sessions." in open_person(house, "oda@signed.test").shown


def test_a_second_factor_is_demanded_on_one_page_and_reset_on_another(own_house: House) -> None:
    field = own_house.open("sign_in").selectbox(key="second_factor")
    assert (field.value, [*field.options]) == ("NOBODY", ["Nobody", "Admins", "Everyone"])
    field.select_index(1).run().press("Save").answer("Save", "Change")
    assert own_house.client.admin.organization.get().second_factor == "ADMINS"
    own_house.client.admin.organization.update(second_factor="NOBODY")
    somebody = a_person(own_house.service, "factor@example.test")
    assert "Reset second factor" not in open_person(own_house, somebody.email).labels
    set_up(somebody)
    shown = open_person(own_house, somebody.email)
    assert "Authenticator app, since" in shown.shown
    shown.press("Reset second factor").answer("Reset second factor", "Reset")
    assert person(own_house, somebody.email).has_second_factor is False
