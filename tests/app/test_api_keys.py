"""API keys on the real service: made for somebody, shown once, revoked."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.app.conftest import House
from tests.app.pages import HOSTILE_CASES

ADA = "ada@example.test"


def keys(house: House, name: str) -> list:
    return [key for key in house.client.admin.api_keys.list() if key.name == name]


def test_a_key_is_made_for_somebody_and_shown_once(house: House) -> None:
    house.add_people(ADA)
    house.client.admin.organization.update(service_accounts_enabled=False)
    page = house.open("api_keys").press("New API key")
    assert '<a href="service_accounts" target="_self">Service accounts, which are switched off now</a>' in page.shown
    page.text_input(key="key.name").set_value("Ada's notebook").run()
    page.text_input(key="key.owner.typed").set_value("ada").run().press_key("new_key.submit")
    value = page.secret
    assert value in page.code[1].value
    assert house.try_token(value) == 200
    page.press_key("secret.done")
    assert not page.code
    assert value not in page.kept + page.shown
    [key] = keys(house, "Ada's notebook")
    assert (key.owner_email, key.may_act_for_users) == (ADA, False)
    assert key.expires_at - datetime.now(UTC) > timedelta(days=364)


def test_a_key_needs_a_name_and_acting_for_others_is_explained(house: House) -> None:
    """What that means is said before; nobody chosen is the admin themselves, and never is no end."""
    page, before = house.open("api_keys").press("New API key"), list(house.client.admin.api_keys.list())
    assert "Give the key a name" in page.press_key("new_key.submit").shown
    assert list(house.client.admin.api_keys.list()) == before
    page.text_input(key="key.name").set_value("Server").run()
    assert "anybody in the organization can" not in page.shown
    page.checkbox(key="key.for_others").check().run()
    assert "anybody in the organization can" in page.shown
    page.segmented_control(key="key.expiry").set_value("never").run().press_key("new_key.submit")
    [key] = keys(house, "Server")
    assert (key.owner_email, key.may_act_for_users, key.expires_at) == (house.service.admin_email, True, None)


def test_a_key_is_revoked_after_asking(house: House) -> None:
    value = house.client.admin.api_keys.create("Short-lived").api_key
    page = house.open("api_keys")
    number = page.column("Name").index("Short-lived")
    page.choose(number)
    assert "Short-lived" in house.open("api_keys", key=page.address["key"]).shown
    page.press("Revoke")
    assert "“Short-lived”" in page.shown
    assert house.try_token(value) == 200
    page.press_key("confirm.yes")
    assert house.try_token(value) == 401
    assert "Revoked" in page.shown
    assert "Revoke" not in page.labels
    page.press("All API keys")
    assert page.rows()[number]["Status"] == "Revoked"


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_hostile_names_are_only_text(house: House, name: str) -> None:
    house.client.admin.api_keys.create(name)
    page = house.open("api_keys")
    page.choose(len(page.rows()) - 1).assert_shown_as_text(name)


def test_a_key_is_replaced_by_one_like_it(house: House) -> None:
    house.add_people(ADA)
    in_ninety_days = datetime.now(UTC) + timedelta(days=90)
    made = house.client.admin.api_keys.create("Nightly", owner_email=ADA, expires_at=in_ninety_days)
    page = house.open("api_keys", key=str(made.api_key_id)).press("New key like this one")
    assert page.segmented_control(key="key.expiry").value == "90"
    page.press_key("new_key.submit")
    assert page.secret
    assert [key.owner_email for key in keys(house, "Nightly")] == [ADA, ADA]
    assert "A new key of this name" in house.open("api_keys", key=str(made.api_key_id)).shown
