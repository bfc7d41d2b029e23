"""Signing in with an upstream OpenID Connect provider, a small real one on loopback."""

import html
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from joserfc.jwk import RSAKey
from pydantic import SecretStr, ValidationError

from tests.harness.services import RunningService, settings_for_test
from tests.oauth.flow import App, Page, Person, Pkce, a_person, an_app, later, sent_back, v1, works
from tests.oauth.provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, serving
from tests.service.directory import a_user, done

ADA = {"sub": "ada-1", "email": "Ada@Example.test", "email_verified": True}


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    """The provider, with Ada in front of it."""
    with serving() as provider:
        provider.person = dict(ADA)
        yield provider


@pytest.fixture
def service(make_service: Callable[..., RunningService], provider: OpenIdProvider) -> RunningService:
    """The service that asks it."""
    secret = SecretStr(CLIENT_SECRET)
    return make_service(oidc_issuer=provider.issuer, oidc_client_id=CLIENT_ID, oidc_client_secret=secret)


def leave(person: Person, app: App, **changes: str | None) -> httpx.Response:
    """Follow the sign-in page's link to the provider; where the provider sends the person back to."""
    page = person.open(app, **changes)
    link = html.unescape(page.text.split('class="aside"><a href="')[1].split('"')[0])
    left = person.http.get(page.url.join(link))
    return httpx.get(left.headers["Location"])


def come_back(person: Person, app: App, **changes: str | None) -> httpx.Response:
    """Sign in there, and open where that leads."""
    back = leave(person, app, **changes)
    return person.follow(person.http.get(back.headers["Location"]))


def test_somebody_signs_in_there_and_allows_here(service: RunningService, provider: OpenIdProvider) -> None:
    """Code, PKCE and nonce go there, the person comes back to the same request, with a new session."""
    app, ada, pkce = an_app(service), a_person(service), Pkce()
    before = ada.open(app) and ada.http.cookies["carrel_session"]
    consent = come_back(ada, app, code_challenge=pkce.challenge, state="mine")
    assert "Ada Lovelace" in consent.text
    assert ada.http.cookies["carrel_session"] != before
    back = sent_back(ada.press(consent, "allow"))
    assert back["state"] == "mine"
    assert works(service, done(app.exchange(back["code"], pkce))["access_token"])
    (asked,) = provider.asked
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["scope"].split(" ")[0] == "openid"
    assert asked["redirect_uri"] == f"{service.base_url}/api/oauth/upstream/callback"
    assert provider.refused == []
    entries = done(service.call("admin/auditLog/query", {"action": "session.begin"}))["entries"]
    assert entries[0]["details"] == {"by": "openIdConnect"}


def test_what_an_application_says_beside_leads_nowhere_else(service: RunningService, provider: OpenIdProvider) -> None:
    """Unknown parameters of its request are ignored, those too that mean something to the service itself."""
    app, ada = an_app(service), a_person(service)
    assert "Allow An App" in come_back(ada, app, account="example.test", organization="example.test").text
    assert len(provider.asked) == 1


def test_a_person_is_bound_by_issuer_and_subject(service: RunningService, provider: OpenIdProvider) -> None:
    """Whatever address the subject has later; and whoever gets the old address is not them."""
    app, ada = an_app(service), a_person(service)
    come_back(ada, app)
    provider.person = {"sub": "ada-1", "email": "married@elsewhere.test", "email_verified": False}
    ada.http.cookies.clear()
    assert "Ada Lovelace" in come_back(ada, app).text
    provider.person = {**ADA, "sub": "somebody-new"}
    stranger = Person(service)
    refused = come_back(stranger, app)
    assert refused.status_code == 400
    assert "no account here" in refused.text
    assert Page(stranger.open(app)).forms[0].buttons == ["signIn"]


@pytest.mark.parametrize(
    "person",
    [
        {"sub": "ada-1", "email": "ada@example.test"},
        {"sub": "ada-1", "email": "ada@example.test", "email_verified": False},
        {"sub": "ada-1", "email": "ada@example.test", "email_verified": "true"},
        {"sub": "ada-1", "email": ["ada@example.test"], "email_verified": True},
        {"sub": "ada-1"},
        {"sub": "bob-1", "email": "nobody@example.test", "email_verified": True},
        {"sub": "nul-1", "email": "ada@example.test\0", "email_verified": True},
    ],
)
def test_only_a_verified_address_binds(
    service: RunningService, provider: OpenIdProvider, person: dict[str, Any]
) -> None:
    """And only that of somebody who is here."""
    app, ada = an_app(service), a_person(service)
    provider.person = person
    refused = come_back(ada, app)
    assert refused.status_code == 400
    assert "no account here" in refused.text


def changed(**claims: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A change to a token's claims; one that is None is left out."""
    return lambda given: {name: value for name, value in {**given, **claims}.items() if value is not None}


@pytest.mark.parametrize(
    "change",
    [
        changed(nonce="another"),
        changed(nonce=None),
        changed(iss="https://evil.test"),
        changed(iss=None),
        changed(aud="another client"),
        changed(aud=["another client"]),
        changed(aud=None),
        changed(azp="another client"),
        changed(exp=int(time.time()) - 3600),
        changed(exp=None),
        changed(iat=None),
        changed(sub=None),
    ],
)
def test_a_token_that_is_not_for_this_sign_in_is_refused(
    service: RunningService, provider: OpenIdProvider, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """OpenID Connect Core 1.0, section 3.1.3.7; nobody is signed in."""
    app, ada = an_app(service), a_person(service)
    provider.change = change
    refused = come_back(ada, app)
    assert refused.status_code == 400
    assert "confirm who you are" in refused.text
    assert Page(ada.open(app)).forms[0].buttons == ["signIn"]


@pytest.mark.parametrize("how", ["none", "HS256", "another key"])
def test_a_token_that_the_provider_did_not_sign_is_refused(
    service: RunningService, provider: OpenIdProvider, how: str
) -> None:
    """Unsigned, signed with the client's secret, or with somebody else's key."""
    app, ada = an_app(service), a_person(service)
    if how == "another key":
        provider.signing_key = RSAKey.generate_key(2048, {"kid": "one"})
    else:
        provider.algorithm = how
    assert "confirm who you are" in come_back(ada, app).text


def test_a_sign_in_belongs_to_the_browser_that_began_it(service: RunningService, provider: OpenIdProvider) -> None:
    """Another browser's, a changed or an old one signs nobody in (login CSRF), and the provider isn't even asked."""
    app, ada = an_app(service), a_person(service)
    address = leave(ada, app).headers["Location"]
    query = dict(parse_qsl(urlsplit(address).query))
    stranger = Person(service)
    stranger.open(app)
    path = "/api/oauth/upstream/callback"
    for browser, given in (
        (stranger, query),
        (Person(service), query),
        (ada, query | {"state": query["state"][:-2]}),
        (ada, query | {"state": "x.y"}),
        (ada, {"code": query["code"]}),
        (ada, query | {"iss": "https://evil.test"}),
        (ada, {"state": query["state"]}),
    ):
        assert browser.http.get(path, params=given).status_code == 400
    assert provider.codes.keys() == {query["code"]}
    later(service, minutes=16)
    assert ada.http.get(path, params=query).status_code == 400
    later(service, minutes=-16)
    assert "Ada Lovelace" in ada.follow(ada.http.get(address)).text


def test_denying_there_signs_nobody_in(service: RunningService, provider: OpenIdProvider) -> None:
    """It is said on a page."""
    provider.denies = True
    app, ada = an_app(service), a_person(service)
    assert "access was denied" in come_back(ada, app).text


def test_an_inactive_person_is_not_let_in(service: RunningService, provider: OpenIdProvider) -> None:
    """Neither at first nor once bound; a session that there is ends at once."""
    app, ada = an_app(service), a_person(service)
    a_user(service, ada.email, active=False)
    assert "no account here" in come_back(ada, app).text
    a_user(service, ada.email, active=True)
    token = ada.press(come_back(ada, app), "allow")
    assert "code" in sent_back(token)
    a_user(service, ada.email, active=False)
    ada.http.cookies.clear()
    assert "no account here" in come_back(ada, app).text
    assert len(provider.asked) == 3


def test_signing_in_again_is_asked_of_the_provider_too(service: RunningService, provider: OpenIdProvider) -> None:
    """`prompt=login` goes along, and is done when the person comes back."""
    app, ada = an_app(service), a_person(service)
    ada.press(come_back(ada, app), "allow")
    assert "code" in sent_back(come_back(ada, app, prompt="login"))
    assert provider.asked[-1]["prompt"] == "login"


def test_only_a_new_proof_there_confirms(service: RunningService, provider: OpenIdProvider) -> None:
    """Being signed in there already is none; it is asked for by prompt and max_age, and the token must say when."""
    app, ada, change = an_app(service), a_person(service, isAdmin=True), {"ownerEmail": "ada@example.test", "name": "K"}
    done(service.call("admin/organization/update", {"secondFactor": "ADMINS"}))
    pkce = Pkce()
    consent = come_back(ada, app, code_challenge=pkce.challenge, scope="api:admin")
    token = done(app.exchange(sent_back(ada.press(consent, "allow"))["code"], pkce))["access_token"]
    assert not {"max_age", "prompt"} & provider.asked[-1].keys()
    refused = v1(service, "admin/apiKeys/create", token, change)
    assert refused.json()["error"]["code"] == "confirmation_required"

    def confirm() -> httpx.Response:
        there = ada.follow(ada.http.get(refused.json()["error"]["confirmationUrl"]))
        if "signOut" in Page(there).forms[0].buttons:
            there = ada.follow(ada.press(there, "signOut"))
        link = html.unescape(there.text.split('class="aside"><a href="')[1].split('"')[0])
        back = httpx.get(ada.http.get(there.url.join(link)).headers["Location"])
        assert (provider.asked[-1]["prompt"], provider.asked[-1]["max_age"]) == ("login", "0")
        return ada.follow(ada.http.get(back.headers["Location"]))

    for wrong, said in (({"auth_time": int(time.time()) - 600}, "ask you again"), ({"auth_time": None}, "auth_time")):
        provider.change = changed(**wrong)
        assert said in confirm().text
        assert said in come_back(ada, app, max_age="60").text
    provider.change = lambda claims: claims
    assert v1(service, "admin/apiKeys/create", token, change).status_code == 403
    assert "Confirmed" in ada.press(confirm(), "confirm").text
    assert v1(service, "admin/apiKeys/create", token, change).is_success
    assert "code" in sent_back(come_back(Person(service), app, max_age="60", scope="api:admin"))


def test_a_provider_that_is_away_is_no_dead_end(service: RunningService, provider: OpenIdProvider) -> None:
    """503 and a page; the password still works."""
    app, ada = an_app(service), a_person(service)
    provider.issuer += "/elsewhere"
    page = ada.open(app)
    link = html.unescape(page.text.split('class="aside"><a href="')[1].split('"')[0])
    assert ada.http.get(page.url.join(link)).status_code == 503
    assert "code" in sent_back(ada.allow(app))


def test_without_a_provider_there_is_no_way_to_one(make_service: Callable[..., RunningService]) -> None:
    """Neither on the page nor at the address."""
    service = make_service()
    app, ada = an_app(service), a_person(service)
    page = ada.open(app)
    assert "instead" not in page.text
    assert ada.http.get("/api/oauth/upstream", params=app.parameters(Pkce())).status_code == 400
    assert v1(service, "me", "svc_at_x").status_code == 401


def test_the_three_settings_come_together(tmp_path) -> None:
    """One without the others is a mistake that is told at the start."""
    with pytest.raises(ValidationError, match="CARREL_OIDC_CLIENT_SECRET"):
        settings_for_test(tmp_path, None, oidc_issuer="https://people.test")
