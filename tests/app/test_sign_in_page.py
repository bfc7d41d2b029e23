"""The page Sign-in: providers, provisioning, and how long a session lasts."""

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import httpx
import pytest

from app.auth.sessions import IDLE, LONGEST, Person, Sealer, Sessions, digest_of
from carrel.oauth import Tokens
from tests.service.directory import another_organization


def test_a_provider_is_added_changed_and_deleted(own_house) -> None:
    page = own_house.open("sign_in")
    assert "People sign in with a password here." in page.shown
    page = page.press("New provider").press_key("new_provider.submit")
    assert "Give the name on the button." in page.shown
    fields = {"issuer": "https://login.example.test", "name": "Work <b>", "client_id": "carrel", "secret": "a secret"}
    for name, value in fields.items():
        page.text_input(key=f"provider.{name}").set_value(value)
    page.text_area(key="provider.domains").set_value("example.test\nexample.org").run()
    page.press_key("new_provider.submit")
    (made,) = own_house.client.admin.sign_in_providers.list()
    assert made.domains == ["example.org", "example.test"]
    page = own_house.open("sign_in")
    assert "Work &lt;b&gt;" in page.shown
    assert "a secret" not in page.shown
    page.press_key(f"provider.{made.provider_id}.test")
    assert "can't sign in with it as it is" in page.shown.replace("&#x27;", "'")
    page.press_key(f"provider.{made.provider_id}.edit")
    page.checkbox(key="provider.trust_addresses").set_value(True)
    page.text_area(key="provider.audiences").set_value("projects-1").run()
    page.press_key("edit_provider.submit")
    changed = own_house.client.admin.sign_in_providers.get(made.provider_id)
    assert (changed.trust_addresses, changed.accepted_audiences) == (True, ["projects-1"])
    for enabled, button in ((False, "Switch passwords off"), (True, "Allow passwords")):
        own_house.open("sign_in").press(button).press_key("confirm.yes")
        assert own_house.client.admin.organization.get().passwords_enabled is enabled
    assert "Not confirmed yet" not in own_house.open("sign_in").shown
    another_organization(own_house.service)
    own_house.client.admin.sign_in_providers.update(made.provider_id, domains=["example.test", "new.test"])
    page = own_house.open("sign_in")
    assert "Not confirmed yet: new.test" in page.shown
    page.press_key(f"provider.{made.provider_id}.delete")
    page.button(key="confirm.yes").click()
    page.press_key(f"provider.{made.provider_id}.delete")
    assert list(own_house.client.admin.sign_in_providers.list()) == []


def test_a_provider_is_given_an_address_and_a_token(house) -> None:
    page = house.open("provisioning").press("New token").press_key("new_scim_token.submit")
    assert "Give the token a name" in page.shown
    page.text_input(key="scim.name").set_value("Entra").run().press_key("new_scim_token.submit")
    [value] = [one.value for one in page.code if one.value.startswith("svc_sc_")]
    page.press_key("secret.done")
    assert value not in page.kept + page.shown
    assert "No request has come yet" in page.shown
    [address] = [one.value for one in page.code]
    assert address == f"{house.service.settings.issuer}/scim/v2"
    users = f"{house.service.base_url}/scim/v2/Users"
    headers = {"Authorization": f"Bearer {value}"}
    assert httpx.get(users, headers=headers, timeout=60).status_code == 200
    group = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "Crew"}
    unknown = "11111111-2222-3333-4444-555555555555"
    made = httpx.post(users.replace("Users", "Groups"), json=group | {"members": [{"value": unknown}]}, headers=headers)
    assert made.status_code == 201
    assert f"Unknown here, and to be provisioned first: {unknown}" in house.open("provisioning").shown
    [token] = house.client.admin.scim_tokens.list()
    house.open("provisioning", token=str(token.token_id)).confirm("Revoke")
    assert httpx.get(users, headers=headers, timeout=60).status_code == 401


HOUR = 3600.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=time.time(), time=lambda: clock.now)
    monkeypatch.setattr("app.auth.sessions.time", clock)
    return clock


@pytest.fixture
def sessions(tmp_path) -> Sessions:
    return Sessions(tmp_path / "sessions", Sealer(bytes(32)))


def signed_in(sessions: Sessions) -> str:
    tokens = Tokens(access_token="a", refresh_token="r", expires_at=datetime.now(UTC) + timedelta(days=90))
    return sessions.create(tokens, Person(id=uuid4(), email="ada@example.test", name="Ada", organization_name="Acme"))


def test_a_session_ends_however_much_it_is_used(sessions: Sessions, clock: SimpleNamespace) -> None:
    """A fortnight after it began it has ended, so that a cookie which somebody copied works no longer than that."""
    cookie, begun = signed_in(sessions), clock.now
    while clock.now + 11 * HOUR < begun + LONGEST.total_seconds():
        clock.now += 11 * HOUR
        assert sessions.find(cookie) is not None
    clock.now = begun + LONGEST.total_seconds() + 1
    assert sessions.find(cookie) is None
    assert sessions.get(digest_of(cookie)) is None


def test_a_page_that_is_left_open_keeps_nobody_signed_in(sessions: Sessions, clock: SimpleNamespace) -> None:
    """What asks by itself is no use of a session: without a click it ends, and gives no tokens any more."""
    cookie, begun = signed_in(sessions), clock.now
    for hours in range(12):
        clock.now = begun + hours * HOUR
        assert sessions.lasts(digest_of(cookie))
        assert sessions.get(digest_of(cookie)) is not None
    clock.now = begun + IDLE.total_seconds() + 1
    assert not sessions.lasts(digest_of(cookie))
    assert sessions.get(digest_of(cookie)) is None
