"""API keys on the real service: made for somebody, shown once, revoked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.app.conftest import House, html_of, markdown_of
from tests.app.test_search import HOSTILE
from tests.app.test_service_accounts import choose, kept, secret
from tests.app.test_who_can_read import people, press, rows
from tests.oauth.flow import a_person

ADA, MEMBER = "ada@example.test", "jonas@example.test"


def keys(house: House, name: str) -> list[Any]:
    """The keys of this name."""
    return [key for key in house.client.admin.api_keys.list() if key.name == name]


def call(house: House, value: str) -> int:
    """The status of a call with a key."""
    return httpx.post(
        f"{house.service.base_url}/api/v0/search/searchDocumentCatalog",
        json={"searchQuery": "hello"},
        headers={"Authorization": f"Bearer {value}"},
        timeout=60,
    ).status_code


def test_a_key_is_made_for_somebody_and_shown_once(house: House) -> None:
    """Its owner is found by typing, its value works and is gone with the dialog."""
    people(house, ADA)
    house.client.admin.organization.update(service_accounts_enabled=False)
    page = press(house.open("api_keys"), "New API key")
    assert '<a href="service_accounts" target="_self">Service accounts, which are switched off now</a>' in html_of(page)
    page.text_input(key="key.name").set_value("Ada's notebook").run()
    page.text_input(key="key.owner.typed").set_value("ada").run()
    page.button(key="new_key.submit").click().run()
    value = secret(page)
    assert value in page.code[1].value
    assert call(house, value) == 200
    page.button(key="secret.done").click().run()
    assert not page.code
    assert value not in kept(page) + html_of(page)
    [key] = keys(house, "Ada's notebook")
    assert (key.owner_email, key.may_act_for_users) == (ADA, False)
    assert key.expires_at - datetime.now(UTC) > timedelta(days=364)


def test_a_key_that_acts_for_others_is_explained(house: House) -> None:
    """What that means is said before; nobody chosen is the admin themselves, and never is no end."""
    page = press(house.open("api_keys"), "New API key")
    page.text_input(key="key.name").set_value("Server").run()
    assert "anybody in the organization can" not in html_of(page)
    page.checkbox(key="key.for_others").check().run()
    assert "anybody in the organization can" in html_of(page)
    page.segmented_control(key="key.expiry").set_value("never").run()
    page.button(key="new_key.submit").click().run()
    [key] = keys(house, "Server")
    assert (key.owner_email, key.may_act_for_users, key.expires_at) == (house.service.admin_email, True, None)


def test_a_key_needs_a_name(house: House) -> None:
    """Without one the dialog says so, and nothing is made."""
    before = len(list(house.client.admin.api_keys.list()))
    page = press(house.open("api_keys"), "New API key")
    page.button(key="new_key.submit").click().run()
    assert "Give the key a name" in html_of(page)
    assert len(list(house.client.admin.api_keys.list())) == before


def test_a_key_is_revoked_after_asking(house: House) -> None:
    """It is looked at, asked about, and stops at once."""
    value = house.client.admin.api_keys.create("Short-lived").api_key
    page = house.open("api_keys")
    number = [row["Name"] for row in rows(page)].index("Short-lived")
    choose(page, number)
    assert "Short-lived" in html_of(house.open("api_keys", key=str(page.query_params["key"])))
    press(page, "Revoke")
    assert "“Short-lived”" in html_of(page)
    assert call(house, value) == 200
    page.button(key="confirm.yes").click().run()
    assert call(house, value) == 401
    assert "Revoked" in html_of(page)
    assert not [one for one in page.button if one.label == "Revoke"]
    press(page, "All API keys")
    assert rows(page)[number]["Status"] == "Revoked"


@pytest.mark.parametrize("key", ["nothing", "0198c5b0-0000-7000-8000-000000000000"])
def test_an_address_of_no_key_is_said(house: House, key: str) -> None:
    """With the way back to all."""
    page = house.open("api_keys", key=key)
    assert not page.exception
    assert "There is no such API key." in html_of(page)
    assert rows(press(page, "All API keys"))


@pytest.mark.parametrize("name", HOSTILE[:4])
def test_hostile_names_are_only_text(house: House, name: str) -> None:
    """A key's name is shown as it is."""
    house.client.admin.api_keys.create(name)
    page = house.open("api_keys")
    choose(page, len(rows(page)) - 1)
    assert not page.exception
    assert "<script" not in html_of(page)
    assert "<img" not in html_of(page)
    assert name not in markdown_of(page)


def test_a_member_sees_nothing_of_it(house: House) -> None:
    """Neither keys nor a way to make one."""
    a_person(house.service, MEMBER, name="Jonas")
    page = house.open("api_keys", signed_in_as=MEMBER)
    assert "This page is for admins." in html_of(page)
    assert not page.button
    assert not page.dataframe


def test_a_key_is_replaced_by_one_like_it(house: House) -> None:
    """The dialog has the old one's name, owner and period; the page then says that there is a new one."""
    people(house, ADA)
    made = house.client.admin.api_keys.create(
        "Nightly", owner_email=ADA, expires_at=datetime.now(UTC) + timedelta(days=90)
    )
    page = press(house.open("api_keys", key=str(made.api_key_id)), "New key like this one")
    assert page.segmented_control(key="key.expiry").value == "90"
    page.button(key="new_key.submit").click().run()
    assert secret(page)
    assert [key.owner_email for key in keys(house, "Nightly")] == [ADA, ADA]
    assert "A new key of this name" in html_of(house.open("api_keys", key=str(made.api_key_id)))
