"""Signing in by a provider: its answers, and the requirements on ID tokens and keys."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from threading import Event
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import RSAKey
from pydantic import SecretStr, ValidationError

from service.identity_server.signin import provider as upstream
from service.identity_server.signin.id_tokens import Expected, NotVouched, Subject, subject_of
from tests.harness.cases import cases
from tests.harness.services import RunningService, ServiceHarness, settings_for_test
from tests.oauth import flow
from tests.oauth.provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, serving
from tests.service.directory import a_user, done

ADA = {"sub": "ada-1", "email": "Ada@Example.test", "email_verified": True}
CONFIRM, AWAY, UNKNOWN = "confirm your identity", "reached at the moment", "no account here"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture(scope="module")
def serving_provider() -> Iterator[OpenIdProvider]:
    with serving() as provider:
        yield provider


@pytest.fixture(scope="module")
def house(serving_provider: OpenIdProvider, service_harness: ServiceHarness) -> Iterator[RunningService]:
    asks = {"oidc_issuer": serving_provider.issuer, "oidc_client_id": CLIENT_ID}
    with service_harness.running(**asks, oidc_client_secret=SecretStr(CLIENT_SECRET)) as service:
        yield service


@pytest.fixture
def provider(serving_provider: OpenIdProvider) -> OpenIdProvider:
    serving_provider.behave()
    serving_provider.person = dict(ADA)
    return serving_provider


def to_provider(person: flow.Person, page: httpx.Response) -> httpx.Response:
    shown = flow.Page(page)
    if shown.links:
        return person.http.get(shown.links[0])
    named = {"organization": done(person.service.call("admin/organization/get"))["name"]}
    return person.http.get(shown.forms[-1].action, params=shown.forms[-1].fields | named)


def leave(person: flow.Person, app: flow.App, **changes: str | None) -> httpx.Response:
    return httpx.get(to_provider(person, person.open(app, **changes)).headers["Location"])


def come_back(person: flow.Person, app: flow.App, **changes: str | None) -> httpx.Response:
    return person.follow(person.http.get(leave(person, app, **changes).headers["Location"]))


def changed(**claims) -> Callable[[dict], dict]:
    return lambda given: {name: value for name, value in {**given, **claims}.items() if value is not None}


def refused(person: flow.Person, app: flow.App, said: str) -> None:
    answer = come_back(person, app)
    assert answer.status_code == 400
    assert said in answer.text
    assert flow.asks_to_sign_in(person.open(app))


def test_somebody_signs_in_there_and_allows_here(provider, app, ada, pkce) -> None:
    before = ada.open(app) and ada.http.cookies["carrel_session"]
    consent = come_back(ada, app, code_challenge=pkce.challenge, state="mine", account="Other", organization="Other")
    assert "Ada Lovelace" in consent.text
    assert ada.http.cookies["carrel_session"] != before
    back = flow.sent_back(ada.press(consent, "allow"))
    assert back["state"] == "mine"
    assert flow.works(app.service, done(app.exchange(back["code"], pkce))["access_token"])
    (asked,) = provider.asked
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["scope"].split(" ")[0] == "openid"
    assert asked["redirect_uri"] == f"{app.service.base_url}/api/oauth/upstream/callback"
    assert provider.refused == []
    assert flow.entries(app.service, "session.begin")[0]["details"] == {"by": "openIdConnect"}
    assert "code" in flow.sent_back(come_back(ada, app, prompt="login"))
    assert provider.asked[-1]["prompt"] == "login"


def test_a_person_is_bound_by_issuer_and_subject(provider: OpenIdProvider, app: flow.App, ada: flow.Person) -> None:
    """A later owner of the subject's old address is another person."""
    come_back(ada, app)
    provider.person = {"sub": "ada-1", "email": "married@elsewhere.test", "email_verified": False}
    ada.http.cookies.clear()
    assert "Ada Lovelace" in come_back(ada, app).text
    provider.person = {**ADA, "sub": "somebody-new"}
    refused(flow.Person(ada.service), app, UNKNOWN)


@pytest.mark.parametrize("verified", [None, False, "yes", 1])
def test_only_a_verified_address_binds(provider, app, ada, verified) -> None:
    provider.person = changed(email_verified=verified)(ADA)
    refused(ada, app, UNKNOWN)


@pytest.mark.parametrize("email", [["ada@example.test"], None, "nobody@example.test", "ada@example.test\0"])
def test_only_the_address_of_somebody_who_is_here_binds(provider, app, ada, email):
    provider.person = changed(email=email)(ADA)
    refused(ada, app, UNKNOWN)


def test_another_letter_is_another_address(provider: OpenIdProvider, app: flow.App, ada: flow.Person) -> None:
    """The Kelvin sign is a k in lower case, but another mailbox."""
    flow.a_person(app.service, "kit@example.test", name="Kit")
    provider.person = {"sub": "kelvin", "email": "\u212ait@example.test", "email_verified": True}
    refused(ada, app, UNKNOWN)
    provider.person = {"sub": "kit", "email": "KIT@example.test", "email_verified": True}
    assert "Kit" in come_back(ada, app).text


@pytest.mark.parametrize("wrong", ["token", "key"])
def test_a_token_that_vouches_for_nobody_signs_nobody_in(provider, app, ada, wrong):
    if wrong == "token":
        provider.change = changed(nonce="another")
    else:
        provider.signing_key = RSAKey.generate_key(2048, {"kid": "one"})
    refused(ada, app, CONFIRM)


def test_a_sign_in_belongs_to_the_browser_that_began_it(provider, app, ada) -> None:
    address = leave(ada, app).headers["Location"]
    query = dict(parse_qsl(urlsplit(address).query))
    stranger = flow.Person(app.service)
    stranger.open(app)
    path = "/api/oauth/upstream/callback"
    for browser, given in (
        (stranger, query),
        (flow.Person(app.service), query),
        (ada, query | {"state": query["state"][:-2]}),
        (ada, query | {"state": "x.y"}),
        (ada, {"code": query["code"]}),
        (ada, query | {"iss": "https://evil.test"}),
        (ada, {"state": query["state"]}),
    ):
        assert browser.http.get(path, params=given).status_code == 400
    assert provider.codes.keys() == {query["code"]}
    flow.later(app.service, minutes=16)
    assert ada.http.get(path, params=query).status_code == 400
    flow.later(app.service, minutes=-16)
    assert "Ada Lovelace" in ada.follow(ada.http.get(address)).text


def test_an_inactive_person_is_not_let_in(provider: OpenIdProvider, app: flow.App, ada: flow.Person) -> None:
    a_user(app.service, ada.email, active=False)
    assert UNKNOWN in come_back(ada, app).text
    a_user(app.service, ada.email, active=True)
    assert "code" in flow.sent_back(ada.press(come_back(ada, app), "allow"))
    a_user(app.service, ada.email, active=False)
    ada.http.cookies.clear()
    assert UNKNOWN in come_back(ada, app).text
    assert len(provider.asked) == 3


def test_only_a_new_proof_there_confirms(provider: OpenIdProvider, app: flow.App, pkce: flow.Pkce) -> None:
    ada, change = flow.a_person(app.service, isAdmin=True), {"ownerEmail": "ada@example.test", "name": "K"}
    done(app.service.call("admin/organization/update", {"secondFactor": "ADMINS"}))
    consent = come_back(ada, app, code_challenge=pkce.challenge, scope="api:admin")
    token = done(app.exchange(flow.sent_back(ada.press(consent, "allow"))["code"], pkce))["access_token"]
    assert not {"max_age", "prompt"} & provider.asked[-1].keys()
    refusal = flow.v1(app.service, "admin/apiKeys/create", token, change)
    assert refusal.json()["error"]["code"] == "confirmation_required"

    def confirm() -> httpx.Response:
        there = ada.follow(ada.http.get(refusal.json()["error"]["confirmationUrl"]))
        if "signOut" in flow.Page(there).forms[0].buttons:
            there = ada.follow(ada.press(there, "signOut"))
        back = httpx.get(to_provider(ada, there).headers["Location"])
        assert (provider.asked[-1]["prompt"], provider.asked[-1]["max_age"]) == ("login", "0")
        return ada.follow(ada.http.get(back.headers["Location"]))

    for wrong, said in (({"auth_time": int(time.time()) - 600}, "sign in again"), ({"auth_time": None}, "auth_time")):
        provider.change = changed(**wrong)
        assert said in confirm().text
        assert said in come_back(ada, app, max_age="60").text
    provider.change = lambda claims: claims
    assert flow.v1(app.service, "admin/apiKeys/create", token, change).status_code == 403
    assert "Confirmed" in ada.press(confirm(), "confirm").text
    assert flow.v1(app.service, "admin/apiKeys/create", token, change).is_success
    assert "code" in flow.sent_back(come_back(flow.Person(app.service), app, max_age="60", scope="api:admin"))


def test_a_provider_that_describes_itself_wrongly_is_away(provider, app, ada) -> None:
    address = leave(ada, app).headers["Location"]
    page = ada.open(app)
    wrong = cases("wrong_descriptions_of_a_provider")
    for name, value in ((name, value) for name, values in wrong for value in values):
        provider.describes = {name: value}
        there, back = to_provider(ada, page), ada.http.get(address)
        assert (there.status_code, AWAY in there.text, back.status_code) == (503, True, 503), (name, value)
    assert len(provider.codes) == 1
    assert "code" in flow.sent_back(ada.allow(app))


def test_a_provider_elsewhere_names_nothing_on_this_machine(house: RunningService) -> None:
    """Otherwise it could make the service call local addresses."""
    registration = upstream.Registration(None, "https://people.test", "carrel", SecretStr("secret"))
    with_local = upstream.Provider(registration, house.runtime, AsyncExitStack())
    assert not with_local._is_safe("http://127.0.0.1:8000/token")
    assert with_local._is_safe("https://people.test/token")


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/jwks"])
@pytest.mark.parametrize(
    "pieces", [[b" " * 4096] * 1000, [b"[" * 100_000], [b"\xff"], [b"[]"]], ids=["long", "deep", "no text", "a list"]
)
def test_an_answer_without_an_end_or_a_meaning_is_away(provider, app, ada, path, pieces):
    """At most a mebibyte is read, and only a JSON object is valid."""
    back = leave(ada, app)
    provider.answers[path] = lambda: iter(pieces)
    assert ada.http.get(back.headers["Location"]).status_code == 503


def test_an_answer_that_drips_is_given_up(provider, app, ada, monkeypatch):
    """The time limit is for the whole answer."""
    monkeypatch.setattr(upstream, "SECONDS", 0.5)
    given_up, drops = Event(), 0

    def drip() -> Iterator[bytes]:
        nonlocal drops
        for _ in range(100):
            yield b" "
            drops += 1
            given_up.wait(0.1)

    back = leave(ada, app)
    provider.answers["/jwks"] = drip
    try:
        assert ada.http.get(back.headers["Location"]).status_code == 503
        assert drops < 100
    finally:
        given_up.set()


def test_a_provider_that_names_itself_on_return_always_does(provider, app, ada) -> None:
    """RFC 9207, section 2.4: from such a provider an answer without `iss` may be forged."""
    provider.describes = {"authorization_response_iss_parameter_supported": True}
    address = leave(ada, app).headers["Location"]
    assert CONFIRM in ada.http.get(address).text
    assert "Ada Lovelace" in ada.follow(ada.http.get(f"{address}&iss={provider.issuer}")).text


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": "access_denied"}, "The provider denied access"),
        ({"error": "server_error"}, "could not sign you in (server_error)"),
        ({"error": "<b>"}, "could not sign you in. Try again"),
        ({"code": "x", "iss": "https://another.test"}, "came from another provider"),
        ({"code": "wrong"}, CONFIRM),
    ],
)
def test_a_refusal_says_why_and_leads_on(app: flow.App, ada: flow.Person, answer: dict[str, str], said: str) -> None:
    def follow_link(page: httpx.Response) -> httpx.Response:
        (link,) = flow.Page(page).links
        return ada.follow(ada.http.get(link))

    account = httpx.get(ada.http.get("/account/upstream").headers["Location"])
    for way, back in {"application": leave(ada, app, state="mine"), "account": account}.items():
        there = urlsplit(back.headers["Location"])
        page = ada.http.get(there.path, params={"state": dict(parse_qsl(there.query))["state"], **answer})
        assert (page.status_code, "You are not signed in" in page.text, said in page.text) == (400, True, True)
        again = follow_link(page)
        assert flow.asks_to_sign_in(again)
        assert ("state=mine" in str(again.url)) == (way == "application")
    stale = ada.http.get("/api/oauth/upstream/callback", params={"state": "forged", **answer})
    assert "was finished, has expired" in stale.text
    assert flow.asks_to_sign_in(follow_link(stale))
    elsewhere = ada.http.get("/account/upstream", params={"email": "ada@nowhere.test", "confirm": "1"})
    assert "No provider has this domain" in elsewhere.text
    assert str(follow_link(elsewhere).url).endswith("/account/sign-in?confirm=1")


def test_who_comes_back_twice_at_once_is_bound_once(provider: OpenIdProvider, app: flow.App, ada: flow.Person) -> None:
    address = leave(ada, app).headers["Location"]
    person = a_user(app.service, ada.email)
    with ThreadPoolExecutor(1) as threads, app.service.owner_connection() as first:
        with first.transaction():
            first.execute(
                "INSERT INTO upstream_identities (organization_id, issuer, subject, principal_id, bound_at)"
                " SELECT organization_id, %s, 'ada-1', principal_id, now() FROM principals WHERE principal_id = %s",
                [provider.issuer, person["id"]],
            )
            second = threads.submit(lambda: ada.follow(ada.http.get(address)))
            while not second.done() and not first.execute(WAITING).fetchone()[0]:
                first.execute("SELECT pg_sleep(0.01)")
        assert "Ada Lovelace" in second.result().text


def test_without_a_provider_there_is_no_way_to_one(make_service: Callable[..., RunningService]) -> None:
    service = make_service()
    app, ada = flow.an_app(service), flow.a_person(service)
    assert "instead" not in ada.open(app).text
    assert ada.http.get("/api/oauth/upstream", params=app.parameters(flow.Pkce())).status_code == 400


def test_the_three_settings_come_together(tmp_path) -> None:
    with pytest.raises(ValidationError, match="CARREL_OIDC_CLIENT_SECRET"):
        settings_for_test(tmp_path, None, oidc_issuer="https://people.test")


KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": "one"}) for _ in range(2))
PUBLIC = KEY.as_dict(private=False)
ISSUER = "https://people.test"


def claims(**changes) -> dict:
    now = int(time.time())
    right = {"iss": ISSUER, "aud": CLIENT_ID, "iat": now, "exp": now + 60, "nonce": "n", "sub": "ada"}
    return {name: value for name, value in (right | changes).items() if value is not None}


def signed(content: object, **header: str) -> str:
    protected = {"alg": "RS256", "kid": "one"} | header
    named = {name: value for name, value in protected.items() if value}
    return jws.serialize_compact(named, json.dumps(content).encode(), KEY, algorithms=["RS256"])


def read(token: str, *keys: object) -> Subject:
    return subject_of(token, {"keys": list(keys) or [PUBLIC]}, Expected(ISSUER, CLIENT_ID, "n"))


WRONG: list[tuple[str, str, list]] = [
    ("aud", "audience", ["another", ["another"], [CLIENT_ID, "another"], [CLIENT_ID, CLIENT_ID], {CLIENT_ID: 1}, None]),
    ("azp", "audience", ["another", [CLIENT_ID]]),
    ("nonce", "nonce", ["another", None, "\ud800", ["n"]]),
    ("iss", "issuer", ["https://evil.test", None]),
    ("exp", "expired", [946_684_800]),
    ("exp", "claims", [None, "tomorrow", float("inf")]),
    ("iat", "claims", [None]),
    ("sub", "claims", [None, "ada\0", "ada\ud800", "a" * 256, "", ["ada"], 7]),
]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *(({name: value}, reason) for name, reason, values in WRONG for value in values),
        (["no", "claims"], "claims"),
        ("text", "claims"),
    ],
    ids=[*(f"{name} {number}" for name, _, values in WRONG for number in range(len(values))), "a list", "a text"],
)
def test_a_token_that_does_not_say_what_it_must_is_refused_with_its_reason(content: object, reason: str) -> None:
    """OpenID Connect Core 1.0, section 3.1.3.7; each reason has its own message."""
    assert read(signed(claims())).subject == "ada"
    with pytest.raises(NotVouched) as refused:
        read(signed(claims(**content) if isinstance(content, dict) else content))
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("how", "reason"), [("none", "algorithm"), ("HS256", "algorithm"), ("another key", "signature")]
)
def test_a_token_that_the_provider_did_not_sign_is_refused(how: str, reason: str) -> None:
    provider = OpenIdProvider(issuer=ISSUER, key=KEY)
    if how == "another key":
        provider.signing_key = OTHER_KEY
    else:
        provider.algorithm = how
    with pytest.raises(NotVouched) as refused:
        read(provider.signed(claims()))
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "keys",
    [
        *cases("keys_that_are_none_vouch_for_nobody"),
        {"keys": [PUBLIC | {"kid": "two"}]},
        {"keys": [PUBLIC | {"use": "enc"}]},
    ],
)
def test_keys_that_are_none_vouch_for_nobody(keys: dict) -> None:
    """Including keys of another id, or for encryption (RFC 7517, section 4.2)."""
    with pytest.raises(NotVouched, match="signature"):
        subject_of(signed(claims()), keys, Expected(ISSUER, CLIENT_ID, "n"))


def test_keys_that_are_not_understood_are_passed_over() -> None:
    """RFC 7517, section 5."""
    odd = [{"kty": "XX"}, {"kty": "EC", "crv": "weird", "kid": "two"}, {"kty": "OKP", "crv": "Ed448", "x": "AQ"}, 1]
    assert read(signed(claims()), *odd, PUBLIC).subject == "ada"


def test_a_token_signed_by_a_key_of_no_name_needs_it_to_be_the_only_one() -> None:
    """OpenID Connect Core 1.0, section 10.1."""
    nameless = signed(claims(), kid="")
    assert read(nameless).subject == "ada"
    with pytest.raises(NotVouched, match="signature"):
        read(nameless, PUBLIC, OTHER_KEY.as_dict(private=False) | {"kid": "two"})
