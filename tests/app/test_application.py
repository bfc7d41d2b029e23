"""The workbench as an application of the service, when an admin deletes it there, and sign-ins that fail half-way."""

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from app.auth import container
from app.auth.registration import NAME
from carrel import Carrel, ConfigurationError
from carrel.errors import InvalidClientError
from carrel.oauth import OAuthClient
from tests.app.conftest import APP_URL, NOBODY_LISTENS, SetUp, draw, html_of, sign_in
from tests.harness.services import RunningService
from tests.oauth.flow import Person


def itself(workbench: SetUp, service: RunningService, **settings: str) -> None:
    """Set a workbench up that registers itself."""
    workbench(service, CARREL_CLIENT_ID="", CARREL_CLIENT_SECRET="", CARREL_API_KEY=service.api_key, **settings)


def ids(service: RunningService) -> list[str]:
    """The ids of what registered itself."""
    with Carrel(service.api_key, service.base_url) as admin:
        return [str(one.client_id) for one in admin.admin.oauth_clients.list() if one.name == NAME]


def id_of(client: OAuthClient) -> str:
    """The id with which people are sent to the service."""
    return parse_qs(urlsplit(client.authorization_request().url).query)["client_id"][0]


def is_taken(client: OAuthClient) -> bool:
    """Whether the service knows the application and its secret."""
    try:
        client.revoke("nothing")
    except InvalidClientError:
        return False
    return True


def test_an_application_that_was_deleted_registers_itself_anew(workbench: SetUp, service: RunningService) -> None:
    """Without a restart, once: whoever signs in next is sent to the service by the new id."""
    itself(workbench, service)
    first = container.application().check_client()
    assert ids(service) == [id_of(first)]
    with Carrel(service.api_key, service.base_url) as admin:
        admin.admin.oauth_clients.delete(id_of(first))
    second = container.application().check_client()
    assert ids(service) == [id_of(second)]
    assert is_taken(second)
    assert container.application().client() is second


def test_an_application_whose_secret_was_changed_changes_it_again(workbench: SetUp, service: RunningService) -> None:
    """It stays the same one, so that whoever is signed in stays so."""
    itself(workbench, service)
    first = container.application().check_client()
    with Carrel(service.api_key, service.base_url) as admin:
        admin.admin.oauth_clients.rotate_secret(id_of(first))
    second = container.application().check_client()
    assert is_taken(second)
    assert [id_of(first)] == [id_of(second)] == ids(service)


def test_of_two_processes_the_second_takes_what_the_first_got(workbench: SetUp, service: RunningService) -> None:
    """Both hold what was deleted; one registers anew, and the other takes that."""
    itself(workbench, service)
    one = container.application()
    deleted = id_of(one.check_client())
    container.application.cache_clear()
    other = container.application()
    other.client()
    with Carrel(service.api_key, service.base_url) as admin:
        admin.admin.oauth_clients.delete(deleted)
    assert id_of(one.check_client()) == id_of(other.check_client())
    assert len(ids(service)) == 1
    assert is_taken(one.client())


def test_an_application_of_the_settings_says_what_to_do(workbench: SetUp, service: RunningService) -> None:
    """Nobody is sent to an address that knows nothing of the workbench: a page says whose business it is, and what."""
    workbench(service)
    deleted = id_of(container.application().check_client())
    with Carrel(service.api_key, service.base_url) as admin:
        admin.admin.oauth_clients.delete(deleted)
    with pytest.raises(ConfigurationError, match="CARREL_CLIENT_ID and CARREL_CLIENT_SECRET"):
        container.application().check_client()


def test_a_page_whose_application_was_deleted_offers_signing_in(workbench: SetUp, service: RunningService) -> None:
    """What came of it stopped at once: the page says that the sign-in has ended, not that a client is invalid."""
    workbench(service)
    cookie = sign_in(service)
    with Carrel(service.api_key, service.base_url) as admin:
        admin.admin.oauth_clients.delete(id_of(container.application().client()))
    page = draw("api_keys", session=cookie)
    assert not page.exception
    assert "Your sign-in has ended." in html_of(page)
    assert "/oauth/login?next=" in html_of(page)


async def test_a_sign_in_that_fails_after_the_code_was_exchanged_leaves_no_tokens(
    workbench: SetUp, service: RunningService
) -> None:
    """Who it was could not be asked: no session is begun, and nobody has tokens that work."""
    workbench(service, CARREL_V1_BASE_URL=NOBODY_LISTENS)
    answer = await finished(service)
    assert answer.status_code == 502
    assert "carrel_workbench" not in answer.cookies
    assert given(service) == [False]


async def test_a_sign_in_that_succeeds_has_tokens(workbench: SetUp, service: RunningService) -> None:
    """The same way to its end."""
    workbench(service)
    answer = await finished(service)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/documents?name=x"
    assert given(service) == [True]


async def finished(service: RunningService) -> httpx.Response:
    """Go the whole way in a browser; what the callback answers."""
    routes: list[Route] = container.sign_in().routes()
    transport = httpx.ASGITransport(Starlette(routes=list(routes)))
    async with httpx.AsyncClient(transport=transport, base_url=APP_URL) as browser:
        begun = await browser.get("/oauth/login", params={"next": "/documents?name=x"})
        person = Person(service)
        asked = person.follow(person.http.get(begun.headers["location"]))
        allowed = person.press(person.sign_in(asked), "allow")
        return await browser.get(allowed.headers["location"])


def given(service: RunningService) -> list[bool]:
    """Of what people allowed, whether it lasts."""
    with service.owner_connection() as connection:
        rows = connection.execute("SELECT revoked_at IS NULL FROM oauth_token_families").fetchall()
    return [row[0] for row in rows]


async def test_trying_again_leads_where_one_wanted(workbench: SetUp) -> None:
    """While the service is away nobody is sent there, and the page that was asked for isn't forgotten."""
    workbench(None, CARREL_CLIENT_ID="x", CARREL_CLIENT_SECRET="x")
    transport = httpx.ASGITransport(Starlette(routes=list(container.sign_in().routes())))
    async with httpx.AsyncClient(transport=transport, base_url=APP_URL) as browser:
        answer = await browser.get("/oauth/login", params={"next": "/documents?name=x&of=all"})
    assert answer.status_code == 502
    assert "Nobody can sign in just now" in answer.text
    assert "/oauth/login?next=%2Fdocuments%3Fname%3Dx%26of%3Dall" in answer.text
