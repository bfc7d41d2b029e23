"""Signing in to the workbench as an application of the service, unfinished sign-ins, sessions, and the page Sign-in."""

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette

from app.auth import current
from app.auth.registration import NAME
from app.auth.sessions import IDLE, LONGEST, Person, Sealer, Sessions, digest_of
from carrel import ConfigurationError
from carrel.errors import InvalidClientError
from carrel.oauth import OAuthClient, Tokens
from tests.app.conftest import APP_URL, NOBODY_LISTENS, House, MakeHouse
from tests.harness.services import RunningService
from tests.oauth import flow
from tests.service.directory import another_organization, done, organization_id, walk


@pytest.fixture
def itself(make_house: MakeHouse, service: RunningService) -> RunningService:
    make_house(service, CARREL_CLIENT_ID="", CARREL_CLIENT_SECRET="", CARREL_API_KEY=service.api_key)
    return service


def ids(service: RunningService) -> list[str]:
    listed = walk(service, "admin/oauthClients/list", {}, page_size=100)
    return [one["clientId"] for one in listed if one["name"] == NAME]


def delete(service: RunningService, client_id: str) -> None:
    done(service.call("admin/oauthClients/delete", {"clientId": client_id}))


def id_of(client: OAuthClient) -> str:
    return parse_qs(urlsplit(client.authorization_request().url).query)["client_id"][0]


def is_taken(client: OAuthClient) -> bool:
    try:
        client.revoke("nothing")
    except InvalidClientError:
        return False
    return True


def test_an_application_that_was_deleted_registers_itself_anew(itself: RunningService) -> None:
    first = current.application().check_client()
    assert ids(itself) == [id_of(first)]
    delete(itself, id_of(first))
    second = current.application().check_client()
    assert ids(itself) == [id_of(second)]
    assert is_taken(second)
    assert current.application().client() is second


def test_an_application_whose_secret_was_changed_changes_it_again(itself: RunningService) -> None:
    """The application keeps the id, so people stay signed in."""
    first = current.application().check_client()
    done(itself.call("admin/oauthClients/rotateSecret", {"clientId": id_of(first)}))
    second = current.application().check_client()
    assert is_taken(second)
    assert [id_of(first)] == [id_of(second)] == ids(itself)


def test_of_two_processes_the_second_takes_what_the_first_got(itself: RunningService) -> None:
    """Both hold deleted credentials; a process registers again, and the other uses the new credentials."""
    one = current.application()
    deleted = id_of(one.check_client())
    current.application.cache_clear()
    other = current.application()
    other.client()
    delete(itself, deleted)
    assert id_of(one.check_client()) == id_of(other.check_client())
    assert len(ids(itself)) == 1
    assert is_taken(one.client())


def test_an_application_of_the_settings_that_was_deleted_says_what_to_do(new_house: House) -> None:
    new_house.sign_in()
    delete(new_house.service, id_of(current.application().client()))
    page = new_house.open("api_keys")
    assert "Your sign-in has ended." in page.shown
    assert "/oauth/login?next=" in page.shown
    with pytest.raises(ConfigurationError, match="CARREL_CLIENT_ID and CARREL_CLIENT_SECRET"):
        current.application().check_client()


async def test_a_sign_in_that_fails_after_the_code_was_exchanged_leaves_no_tokens(make_house, service):
    make_house(service, CARREL_V1_BASE_URL=NOBODY_LISTENS)
    answer = await finished(service)
    assert answer.status_code == 502
    assert "carrel_workbench" not in answer.cookies
    assert given(service) == [False]


async def test_a_sign_in_that_succeeds_has_tokens(new_house: House) -> None:
    answer = await finished(new_house.service)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/documents?name=x"
    assert given(new_house.service) == [True]


def a_browser() -> httpx.AsyncClient:
    transport = httpx.ASGITransport(Starlette(routes=list(current.sign_in().routes())))
    return httpx.AsyncClient(transport=transport, base_url=APP_URL)


async def finished(service: RunningService) -> httpx.Response:
    async with a_browser() as browser:
        begun = await browser.get("/oauth/login", params={"next": "/documents?name=x"})
        person = flow.Person(service)
        asked = person.follow(person.http.get(begun.headers["location"]))
        return await browser.get(person.press(person.sign_in(asked), "allow").headers["location"])


def given(service: RunningService) -> list[bool]:
    """Return for each consent whether lasting."""
    asked = "SELECT revoked_at IS NULL FROM oauth_token_families WHERE organization_id = %s"
    return [lasts for (lasts,) in service.execute(asked, [organization_id(service)])]


async def test_trying_again_leads_where_one_wanted(make_house: MakeHouse, service: RunningService) -> None:
    make_house(service, CARREL_BASE_URL=NOBODY_LISTENS)
    async with a_browser() as browser:
        answer = await browser.get("/oauth/login", params={"next": "/documents?name=x&of=all"})
    assert answer.status_code == 502
    assert "Sign-in is not available right now" in answer.text
    assert "/oauth/login?next=%2Fdocuments%3Fname%3Dx%26of%3Dall" in answer.text


def test_a_provider_is_added_changed_and_deleted(own_house) -> None:
    page = own_house.open("sign_in")
    assert "No sign-in providers yet." in page.shown
    page = page.press("New provider").press_key("new_provider.submit")
    assert "Enter the button label." in page.shown
    assert page.text_input(key="provider.secret").proto.live_debounce_ms  # Tab alone would lose the secret
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
    assert "cannot sign in with this provider" in page.shown.replace("&#x27;", "'")
    page.press_key(f"provider.{made.provider_id}.edit")
    page.checkbox(key="provider.trust_addresses").set_value(True)
    page.text_area(key="provider.audiences").set_value("projects-1").run()
    page.press_key("edit_provider.submit")
    changed = own_house.client.admin.sign_in_providers.get(made.provider_id)
    assert (changed.trust_addresses, changed.accepted_audiences) == (True, ["projects-1"])
    for enabled, button in ((False, "Turn off passwords"), (True, "Allow passwords")):
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
    assert "Enter a name for the token" in page.shown
    page.text_input(key="scim.name").set_value("Entra").run().press_key("new_scim_token.submit")
    [value] = [one.value for one in page.code if one.value.startswith("svc_sc_")]
    page.press_key("secret.done")
    assert value not in page.kept + page.shown
    assert "No requests yet" in page.shown
    [address] = [one.value for one in page.code]
    assert address == f"{house.service.settings.issuer}/scim/v2"
    users = f"{house.service.base_url}/scim/v2/Users"
    headers = {"Authorization": f"Bearer {value}"}
    assert httpx.get(users, headers=headers, timeout=60).status_code == 200
    group = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "Crew"}
    unknown = "11111111-2222-3333-4444-555555555555"
    made = httpx.post(users.replace("Users", "Groups"), json=group | {"members": [{"value": unknown}]}, headers=headers)
    assert made.status_code == 201
    assert f"Unknown here, provision first: {unknown}" in house.open("provisioning").shown
    [token] = house.client.admin.scim_tokens.list()
    house.open("provisioning", token=str(token.token_id)).confirm("Revoke …")
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
    """A session ends after 14 days, to limit the use of a copied cookie."""
    cookie, begun = signed_in(sessions), clock.now
    while clock.now + 11 * HOUR < begun + LONGEST.total_seconds():
        clock.now += 11 * HOUR
        assert sessions.find(cookie) is not None
    clock.now = begun + LONGEST.total_seconds() + 1
    assert sessions.find(cookie) is None
    assert sessions.get(digest_of(cookie)) is None


def test_a_page_that_is_left_open_keeps_nobody_signed_in(sessions: Sessions, clock: SimpleNamespace) -> None:
    """Automatic requests are not use of a session: without clicks it ends and gives no tokens."""
    cookie, begun = signed_in(sessions), clock.now
    for hours in range(12):
        clock.now = begun + hours * HOUR
        assert sessions.lasts(digest_of(cookie))
        assert sessions.get(digest_of(cookie)) is not None
    clock.now = begun + IDLE.total_seconds() + 1
    assert not sessions.lasts(digest_of(cookie))
    assert sessions.get(digest_of(cookie)) is None
