"""People and groups on the real service: found, added, invited, changed, put into groups and taken out."""

import httpx
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from carrel.wire.admin import Group, ListedUser
from tests.app.conftest import House, html_of, markdown_of
from tests.app.pressing import answer, press
from tests.app.test_search import HOSTILE
from tests.app.test_service_accounts import choose, kept, secret
from tests.app.test_who_can_read import group, people, rows
from tests.oauth.flow import Page, a_person, an_app
from tests.oauth.test_second_factor import set_up
from tests.service.directory import a_resource

MEMBER = "jonas@example.test"


def person(house: House, email: str) -> ListedUser:
    """A person as the service has them now."""
    return next(one for one in house.client.admin.users.list(query=email) if one.email == email)


def group_now(house: House, group_id: str) -> Group | None:
    """A group as the service has it now."""
    return next(iter(house.client.admin.groups.list(ids=[group_id])), None)


def members(house: House, group_id: str) -> set[str]:
    """The names of a group's members."""
    return {one.name for one in house.client.admin.groups.list_members(group_id)}


def opens(house: House, name: str, group_id: str) -> None:
    """A resource of this name, granted to a group."""
    resource = a_resource(house.service, name)
    grants = [{"principal": {"type": "group", "id": group_id}, "role": "VIEWER"}]
    house.client.admin.grants.set(resource, grants)


def open_person(house: House, email: str) -> AppTest:
    """The page of a person."""
    return house.open("people", person=str(person(house, email).id))


def add_by_typing(page: AppTest, picker: str, typed: str) -> AppTest:
    """Find somebody in a dialog, who is the only match and so chosen."""
    return page.text_input(key=f"{picker}.typed").set_value(typed).run()


def test_people_are_found_by_letters_and_by_what_is_known(house: House) -> None:
    """The filters stand in the address; the number is said; a row opens the person."""
    people(house, "fay@found.test")
    people(house, "gus@found.test")
    group(house, "Found", "fay@found.test")
    house.client.admin.users.upsert([{"email": "gus@found.test", "active": False}])
    page = house.open("people", q="found.test")
    assert [(row["Name"], row["Status"], row["Groups"], row["Last sign-in"]) for row in rows(page)] == [
        ("Fay", "Active", 1, "never"),
        ("Gus", "Not active", 0, "never"),
    ]
    assert ">2<" in html_of(page)
    for shown, names in (("inactive", ["Gus"]), ("groupless", ["Gus"]), ("active", ["Fay"]), ("never", ["Fay", "Gus"])):
        assert [row["Name"] for row in rows(house.open("people", q="found.test", show=shown))] == names
    assert "Nobody fits." in html_of(house.open("people", q="found.test", show="admin"))
    chosen = choose(page, 1)
    assert chosen.query_params["person"] == str(person(house, "gus@found.test").id)
    assert "gus@found.test" in html_of(chosen)


def test_a_person_is_added_once(house: House) -> None:
    """They are opened then; the same address a second time is said, and changes nothing."""
    page = press(house.open("people"), "Add person")
    page.button(key="new_person.submit").click().run()
    assert "Give the address" in html_of(page)
    page.text_input(key="new.email").set_value("Ida@new.test").run()
    page.text_input(key="new.name").set_value("Ida Wells").run()
    page.button(key="new_person.submit").click().run()
    made = person(house, "ida@new.test")
    assert (made.name, made.is_admin, made.active) == ("Ida Wells", False, True)
    assert page.query_params["person"] == str(made.id)
    again = press(house.open("people"), "Add person")
    again.text_input(key="new.email").set_value("ida@new.test").run()
    again.button(key="new_person.submit").click().run()
    assert "is there already" in html_of(again)
    assert person(house, "ida@new.test").name == "Ida Wells"


def test_an_invitation_is_shown_once_and_sets_the_password(house: House) -> None:
    """The link works, and is gone from the page with its dialog."""
    people(house, "una@invited.test")
    page = press(open_person(house, "una@invited.test"), "Invite")
    page.button(key="invite.submit").click().run()
    link = secret(page)
    page.button(key="secret.done").click().run()
    assert not page.code
    assert link not in kept(page) + html_of(page)
    [form] = Page(httpx.get(link, timeout=60)).forms
    fields = form.fields | {"password": "a new long password", "again": "a new long password"}
    assert httpx.post(form.action, data=fields, timeout=60).status_code == 200
    assert [one.label for one in open_person(house, "una@invited.test").button if one.key == "invite"] == [
        "Reset password"
    ]


def test_a_person_is_changed_and_deactivated(house: House) -> None:
    """Name and admin in a dialog; deactivated after asking, and activated again."""
    people(house, "max@changed.test")
    page = press(open_person(house, "max@changed.test"), "Change")
    page.text_input(key="person.name").set_value("Max Power").run()
    page.checkbox(key="person.admin").check().run()
    assert "manages people" in html_of(page)
    page.button(key="change_person.submit").click().run()
    changed = person(house, "max@changed.test")
    assert (changed.name, changed.is_admin) == ("Max Power", True)
    press(page, "Deactivate")
    page.button(key="confirm.yes").click().run()
    assert not person(house, "max@changed.test").active
    press(open_person(house, "max@changed.test"), "Activate")
    assert person(house, "max@changed.test").active


def test_a_new_name_leaves_what_another_admin_changed_meanwhile(house: House) -> None:
    """A name, and whether they are an admin, is only sent by whoever changed that."""
    people(house, "meg@meanwhile.test")
    house.client.admin.users.upsert([{"email": "meg@meanwhile.test", "is_admin": True}])
    page = press(open_person(house, "meg@meanwhile.test"), "Change")
    house.client.admin.users.upsert([{"email": "meg@meanwhile.test", "is_admin": False}])
    page.text_input(key="person.name").set_value("Meg Ryan").run()
    page.button(key="change_person.submit").click().run()
    changed = person(house, "meg@meanwhile.test")
    assert (changed.name, changed.is_admin) == ("Meg Ryan", False)
    page = press(open_person(house, "meg@meanwhile.test"), "Change")
    house.client.admin.users.upsert([{"email": "meg@meanwhile.test", "name": "Meg"}])
    page.checkbox(key="person.admin").check().run()
    page.button(key="change_person.submit").click().run()
    changed = person(house, "meg@meanwhile.test")
    assert (changed.name, changed.is_admin) == ("Meg", True)


def test_a_person_joins_and_leaves_groups_with_what_changes_said(house: House) -> None:
    """What they would read more, and less, is said before; nested groups say through what."""
    people(house, "eve@joins.test")
    inner = group(house, "Joined crew", "abe@joins.test")
    outer = house.client.admin.groups.upsert(
        [{"name": "Joined ship", "members": [{"type": "group", "id": inner}]}]
    ).groups[0]
    opens(house, "joined charts", str(outer.id))
    page = press(open_person(house, "eve@joins.test"), "Add to groups")
    add_by_typing(page, "groups.new", "joined crew")
    assert "Eve joins Joined crew, and can read 1 document more." in html_of(page)
    page.button(key="join_groups.submit").click().run()
    assert members(house, inner) == {"Abe", "Eve"}
    shown = html_of(open_person(house, "eve@joins.test"))
    assert "through Joined crew" in shown
    assert "1 document, by groups" in shown
    page = press(open_person(house, "eve@joins.test"), "Remove")
    assert "these read less: Eve (1 document)." in html_of(page)
    page.button(key="confirm.yes").click().run()
    assert members(house, inner) == {"Abe"}


def test_a_persons_keys_are_listed_and_revoked(house: House) -> None:
    """Theirs alone, and at once."""
    people(house, "kim@keys.test")
    house.client.admin.api_keys.create("Kim's", owner_email="kim@keys.test")
    page = choose(open_person(house, "kim@keys.test"))
    assert [row["Name"] for row in rows(page)] == ["Kim's"]
    press(page, "Revoke")
    page.button(key="confirm.yes").click().run()
    [key] = house.client.admin.api_keys.list(owner_email="kim@keys.test")
    assert key.status.value == "revoked"


def test_a_group_is_added_filled_emptied_and_deleted(house: House) -> None:
    """What changes is said before each; what a deleted group opened is closed."""
    people(house, "lee@filled.test")
    page = press(house.open("groups"), "Add group")
    page.text_input(key="group.new_name").set_value("Filled").run()
    page.button(key="new_group.submit").click().run()
    group_id = str(page.query_params["group"])
    opens(house, "filled charts", group_id)
    page = press(house.open("groups", group=group_id), "Add members")
    add_by_typing(page, "members.new", "lee@filled")
    assert "Lee joins Filled, and can read 1 document more." in html_of(page)
    page.button(key="add_members.submit").click().run()
    assert members(house, group_id) == {"Lee"}
    page = choose(house.open("groups", group=group_id))
    press(page, "Remove from the group")
    assert "these read less: Lee (1 document)" in html_of(page)
    page.button(key="confirm.yes").click().run()
    assert members(house, group_id) == set()
    page = press(house.open("groups", group=group_id), "Rename")
    page.text_input(key="group.name").set_value("Filled again").run()
    page.button(key="rename_group.submit").click().run()
    renamed = group_now(house, group_id)
    assert renamed is not None
    assert renamed.name == "Filled again"
    press(page, "Delete the group")
    assert "Nobody will read less" in html_of(page)
    page.button(key="confirm.yes").click().run()
    assert group_now(house, group_id) is None
    assert "group" not in page.query_params


def test_a_group_of_another_directory_says_that_it_comes_again(house: House) -> None:
    """On its page, before it is deleted, and before it is renamed."""
    made = house.client.admin.groups.upsert([{"name": "Outside", "external_id": "outside-1"}]).groups[0]
    assert [row["Origin"] for row in rows(house.open("groups", q="Outside"))] == ["Another directory"]
    page = press(house.open("groups", group=str(made.id)), "Delete the group")
    assert "where its id is outside-1. What is changed here holds until an import names it again" in html_of(page)
    assert "The next import of the other directory makes it again" in html_of(page)
    page = press(house.open("groups", group=str(made.id)), "Rename")
    assert "sets its name again" in html_of(page)


@pytest.mark.parametrize(
    ("view", "parameter", "said"), [("people", "person", "no such person"), ("groups", "group", "no such group")]
)
@pytest.mark.parametrize("key", ["nothing", "0198c5b0-0000-7000-8000-000000000000"])
def test_an_address_of_nobody_is_said(house: House, view: str, parameter: str, said: str, key: str) -> None:
    """With the way back to all."""
    page = house.open(view, **{parameter: key})
    assert not page.exception
    assert said in html_of(page)
    assert [one for one in page.button if one.label.startswith("All ")]


@pytest.mark.parametrize("name", HOSTILE[:4])
def test_hostile_names_are_only_text(house: House, name: str) -> None:
    """A person's and a group's, wherever they stand."""
    house.client.admin.users.upsert([{"email": "hostile@example.test", "name": name}])
    made = house.client.admin.groups.upsert(
        [{"name": name, "members": [{"type": "user", "email": "hostile@example.test"}]}]
    )
    pages = (
        open_person(house, "hostile@example.test"),
        house.open("groups", group=str(made.groups[0].id)),
        house.open("groups", q="a"),
        choose(house.open("groups", group=str(made.groups[0].id))),
    )
    for page in pages:
        assert not page.exception
        assert "<script" not in html_of(page)
        assert "<img" not in html_of(page)
        assert name not in markdown_of(page)


@pytest.mark.parametrize("view", ["people", "groups"])
def test_a_member_sees_nothing_of_it(house: House, view: str) -> None:
    """Neither people nor a way to add any."""
    a_person(house.service, MEMBER, name="Jonas")
    page = house.open(view, signed_in_as=MEMBER)
    assert "This page is for admins." in html_of(page)
    assert not page.button
    assert not page.dataframe


def test_somebody_who_leaves_is_offboarded(house: House) -> None:
    """What ends and what they own is said; without a new owner nothing is done; then all of it is."""
    people(house, "max@leaves.test", "nia@leaves.test")
    group(house, "Leavers", "max@leaves.test")
    house.client.admin.api_keys.create("Max's", owner_email="max@leaves.test")
    owned = a_resource(house.service, "max's log", owner=str(person(house, "max@leaves.test").id))
    page = open_person(house, "max@leaves.test")
    assert "1 document. Offboarding gives it another owner." in html_of(page)
    page = press(page, "Offboard …")
    for said in ("<td>Leavers</td>", "They own 1 document.", "Nobody else can read 1 document today."):
        assert said in html_of(page)
    assert page.button(key="offboard.submit").disabled
    house.client.admin.users.upsert([{"email": "nia@leaves.test", "active": False}])
    add_by_typing(page, "offboard.owner", "nia@leaves")
    assert "Nia is not active" in html_of(page)
    house.client.admin.users.upsert([{"email": "nia@leaves.test", "active": True}])
    st.cache_data.clear()
    page = page.run()
    assert "Nia has never signed in." in html_of(page)
    page.button(key="offboard.submit").click().run()
    assert not page.exception
    left = person(house, "max@leaves.test")
    assert (left.active, left.group_count) == (False, 0)
    counts = house.client.admin.access.count_resources(owned_by={"type": "user", "email": "nia@leaves.test"}).counts
    assert [one.count for one in counts] == [1], owned
    assert "not active" in html_of(page)
    assert "has ended. 1 resource went to" in html_of(page)


def test_nobody_offboards_themselves_on_the_page(house: House) -> None:
    """The workbench asks with its own key, so that the service can't tell."""
    page = open_person(house, house.service.admin_email)
    assert "Offboard …" not in [one.label for one in page.button]


def test_sessions_are_listed_and_ended(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chosen one, also when the list has changed since, and then none is chosen; or all."""
    app = an_app(house.service)
    browsers = [a_person(house.service, "oda@signed.test", name="Oda") for _ in range(2)]
    for browser in browsers:
        browser.tokens(app)
    monkeypatch.setattr("app.ui.tables._FRESH_SECONDS", 0.0)
    page = choose(open_person(house, "oda@signed.test"), 1)
    assert {row["Signed in with"] for row in rows(page)} == {"A browser", "An App"}
    sessions = house.client.admin.sessions
    first, chosen, *others = [one.session_id for one in sessions.list("oda@signed.test")]
    sessions.end("oda@signed.test", session_ids=[first])
    press(page, "End this session")
    page.button(key="confirm.yes").click().run()
    assert [one.session_id for one in sessions.list("oda@signed.test")] == others, chosen
    assert "End this session" not in [one.label for one in page.run().button]
    page = press(open_person(house, "oda@signed.test"), "End all sessions")
    page.button(key="confirm.yes").click().run()
    assert list(house.client.admin.sessions.list("oda@signed.test")) == []
    assert "They are signed in nowhere." in html_of(open_person(house, "oda@signed.test"))


def test_a_second_factor_is_demanded_on_one_page_and_reset_on_another(house: House) -> None:
    """The policy is shown as it is and saved; the button to reset is there for who has one."""
    page = house.open("sign_in")
    field = page.selectbox(key="second_factor")
    assert (field.value, [*field.options]) == ("NOBODY", ["Nobody", "Admins", "Everybody"])
    answer(press(field.select_index(1).run(), "Save"), "Save", "Change it")
    assert house.client.admin.organization.get().second_factor == "ADMINS"
    house.client.admin.organization.update(second_factor="NOBODY")
    somebody = a_person(house.service, "factor@example.test")
    assert "Reset second factor" not in [one.label for one in open_person(house, somebody.email).button]
    set_up(somebody)
    shown = open_person(house, somebody.email)
    assert "Authenticator app, since" in html_of(shown)
    answer(press(shown, "Reset second factor"), "Reset second factor", "Reset it")
    assert person(house, somebody.email).has_second_factor is False
