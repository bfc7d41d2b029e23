"""The workbench as an application of the service, when an admin deletes it there, and sign-ins that fail half-way."""

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.applications import Starlette

from app.auth import current
from app.auth.registration import NAME
from carrel import ConfigurationError
from carrel.errors import InvalidClientError
from carrel.oauth import OAuthClient
from tests.app.conftest import APP_URL, NOBODY_LISTENS, House, MakeHouse
from tests.harness.services import RunningService
from tests.oauth.flow import Person
from tests.service.directory import done, organization_id, walk


@pytest.fixture
def itself(make_house: MakeHouse, service: RunningService) -> RunningService:
    """A service before which a workbench stands that registers itself."""
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
    """Without a restart, once: whoever signs in next is sent to the service by the new id."""
    first = current.application().check_client()
    assert ids(itself) == [id_of(first)]
    delete(itself, id_of(first))
    second = current.application().check_client()
    assert ids(itself) == [id_of(second)]
    assert is_taken(second)
    assert current.application().client() is second


def test_an_application_whose_secret_was_changed_changes_it_again(itself: RunningService) -> None:
    """It stays the same one, so that whoever is signed in stays so."""
    first = current.application().check_client()
    done(itself.call("admin/oauthClients/rotateSecret", {"clientId": id_of(first)}))
    second = current.application().check_client()
    assert is_taken(second)
    assert [id_of(first)] == [id_of(second)] == ids(itself)


def test_of_two_processes_the_second_takes_what_the_first_got(itself: RunningService) -> None:
    """Both hold what was deleted; one registers anew, and the other takes that."""
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
    """A page says that the sign-in has ended, not that a client is invalid; nobody is sent to sign in in vain."""
    new_house.sign_in()
    delete(new_house.service, id_of(current.application().client()))
    page = new_house.open("api_keys")
    assert "Your sign-in has ended." in page.shown
    assert "/oauth/login?next=" in page.shown
    with pytest.raises(ConfigurationError, match="CARREL_CLIENT_ID and CARREL_CLIENT_SECRET"):
        current.application().check_client()


async def test_a_sign_in_that_fails_after_the_code_was_exchanged_leaves_no_tokens(make_house, service):
    """Who it was could not be asked: no session is begun, and nobody has tokens that work."""
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
    """A browser before the workbench's routes of sign-in."""
    transport = httpx.ASGITransport(Starlette(routes=list(current.sign_in().routes())))
    return httpx.AsyncClient(transport=transport, base_url=APP_URL)


async def finished(service: RunningService) -> httpx.Response:
    """Go the whole way in a browser; what the callback answers."""
    async with a_browser() as browser:
        begun = await browser.get("/oauth/login", params={"next": "/documents?name=x"})
        person = Person(service)
        asked = person.follow(person.http.get(begun.headers["location"]))
        return await browser.get(person.press(person.sign_in(asked), "allow").headers["location"])


def given(service: RunningService) -> list[bool]:
    """Of what people allowed, whether it lasts."""
    asked = "SELECT revoked_at IS NULL FROM oauth_token_families WHERE organization_id = %s"
    return [lasts for (lasts,) in service.execute(asked, [organization_id(service)])]


async def test_trying_again_leads_where_one_wanted(make_house: MakeHouse, service: RunningService) -> None:
    """While the service is away nobody is sent there, and the page that was asked for isn't forgotten."""
    make_house(service, CARREL_BASE_URL=NOBODY_LISTENS)
    async with a_browser() as browser:
        answer = await browser.get("/oauth/login", params={"next": "/documents?name=x&of=all"})
    assert answer.status_code == 502
    assert "Nobody can sign in just now" in answer.text
    assert "/oauth/login?next=%2Fdocuments%3Fname%3Dx%26of%3Dall" in answer.text
