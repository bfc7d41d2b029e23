"""A provider that is wrong about itself, or sends what is no token, no key or without an end: nobody is signed in."""

import html
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from pydantic import SecretStr

from service.domains.signin import provider as upstream
from tests.harness.services import RunningService, ServiceHarness
from tests.oauth.flow import App, Page, Person, a_person, an_app
from tests.oauth.provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, serving
from tests.oauth.test_upstream import ADA, changed, come_back, leave
from tests.service.directory import done

KEY = RSAKey.generate_key(2048, {"kid": "one"})
CONFIRM, AWAY = "confirm who you are", "reached just now"


@pytest.fixture(scope="module")
def module(service_harness: ServiceHarness) -> Iterator[tuple[OpenIdProvider, RunningService, App, str]]:
    """A provider, the service that asks it, an application, and the address of a person."""
    with serving() as provider:
        secret = SecretStr(CLIENT_SECRET)
        service, stack = service_harness.start(
            oidc_issuer=provider.issuer, oidc_client_id=CLIENT_ID, oidc_client_secret=secret
        )
        yield provider, service, an_app(service), a_person(service).email
        service_harness.stop(service, stack)


@pytest.fixture
def provider(module: tuple[OpenIdProvider, RunningService, App, str]) -> OpenIdProvider:
    """The provider, right about everything until a test says otherwise."""
    provider = module[0]
    provider.person, provider.change, provider.key = dict(ADA), lambda claims: claims, KEY
    provider.describes, provider.answers = {}, {}
    return provider


@pytest.fixture
def app(module: tuple[OpenIdProvider, RunningService, App, str]) -> App:
    """An application in front of it."""
    return module[2]


@pytest.fixture
def ada(module: tuple[OpenIdProvider, RunningService, App, str], provider: OpenIdProvider) -> Person:
    """Ada with a new browser, in front of the provider."""
    assert provider.person
    return Person(module[1], module[3])


def refused(ada: Person, app: App, said: str) -> None:
    """Ada comes back, a page says so, and she isn't signed in."""
    answer = come_back(ada, app)
    assert answer.status_code == (503 if said == AWAY else 400)
    assert said in answer.text
    assert Page(ada.open(app)).forms[0].buttons == ["signIn"]


def link(ada: Person, app: App) -> httpx.Response:
    """Follow the sign-in page's link, and no further."""
    page = ada.open(app)
    return ada.http.get(page.url.join(html.unescape(page.text.split('class="aside"><a href="')[1].split('"')[0])))


@pytest.mark.parametrize(
    "change",
    [
        changed(aud=[CLIENT_ID, "another client"]),
        changed(aud=[CLIENT_ID, CLIENT_ID]),
        changed(aud={CLIENT_ID: True}),
        changed(azp=[CLIENT_ID]),
        changed(sub="ada\0"),
        changed(sub="ada\ud800"),
        changed(sub="a" * 256),
        changed(sub=""),
        changed(sub=["ada-1"]),
        changed(sub=7),
        changed(nonce="\ud800"),
        changed(nonce=["x"]),
        changed(exp="tomorrow"),
        changed(exp=float("inf")),
        lambda _: ["no", "claims"],
        lambda _: "text",
    ],
)
def test_claims_that_are_not_as_they_must_be(
    provider: OpenIdProvider, app: App, ada: Person, change: Callable[[Any], Any]
) -> None:
    """Another audience beside this one (OpenID Connect Core 1.0, section 3.1.3.7, no. 3), and what is no text."""
    payload: list[bytes] = []

    def token(form_answer: Any) -> Any:
        claims = json.dumps(change(form_answer)).encode()
        payload.append(claims)
        return form_answer

    provider.change = token
    signed = provider.signed
    provider.signed = lambda claims: signed(claims) if not payload else _signed(payload[-1])  # type: ignore[method-assign]
    try:
        refused(ada, app, CONFIRM)
        assert payload
    finally:
        provider.signed = signed  # type: ignore[method-assign]


def _signed(payload: bytes) -> str:
    from joserfc import jws  # noqa: PLC0415 - the one place that signs what are no claims

    return jws.serialize_compact({"alg": "RS256", "kid": "one"}, payload, KEY, algorithms=["RS256"])


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"keys": None},
        {"keys": "none"},
        {"keys": []},
        {"keys": [1, None, "x", [], {}]},
        {"keys": [{"kty": ["RSA"], "kid": "one"}]},
        {"keys": [{"kty": "RSA", "kid": "one"}]},
        {"keys": [{"kty": "RSA", "kid": "one", "n": 1, "e": 2}]},
        {"keys": [{"kty": "RSA", "kid": "one", "n": "\ud800", "e": "AQAB"}]},
        {"keys": [{"kty": "RSA", "kid": "one", "n": "AQ", "e": "AQAB"}]},
        {"keys": [{"kty": "EC", "kid": "one", "crv": "P-256", "x": "AQ", "y": "AQ"}]},
        {"keys": [{"kty": "oct", "kid": "one", "k": "AQAB"}]},
        {"keys": [{**KEY.as_dict(private=False), "kid": "two"}]},
    ],
)
def test_keys_that_are_none(provider: OpenIdProvider, app: App, ada: Person, keys: Any) -> None:
    """Nor does a key count that has another id."""
    provider.answers["/jwks"] = lambda: iter([json.dumps(keys).encode()])
    refused(ada, app, CONFIRM)


def test_keys_that_are_not_understood_are_passed_over(provider: OpenIdProvider, app: App, ada: Person) -> None:
    """RFC 7517, section 5: beside them the right one is found, and a rotated one is found the next time."""
    odd = [{"kty": "XX"}, {"kty": "EC", "crv": "weird", "kid": "two"}, {"kty": "OKP", "crv": "Ed448", "x": "AQ"}, 1]
    rotated = RSAKey.generate_key(2048, {"kid": "one"})
    for key in (KEY, rotated):
        provider.key = key
        keys = json.dumps({"keys": [*odd, key.as_dict(private=False)]}).encode()
        provider.answers["/jwks"] = lambda keys=keys: iter([keys])
        assert "Ada Lovelace" in come_back(ada, app).text
        ada.http.cookies.clear()


def test_a_key_for_encryption_signs_nothing(provider: OpenIdProvider, app: App, ada: Person) -> None:
    """RFC 7517, section 4.2."""
    keys = json.dumps({"keys": [{**KEY.as_dict(private=False), "use": "enc"}]}).encode()
    provider.answers["/jwks"] = lambda: iter([keys])
    refused(ada, app, CONFIRM)


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://evil.test"},
        {"token_endpoint": None},
        {"token_endpoint": "https://[::1"},
        {"token_endpoint": "https://people.test:99999/"},
        {"token_endpoint": "http://people.test/token"},
        {"token_endpoint": "file:///etc/passwd"},
        {"jwks_uri": ["https://people.test/jwks"]},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https:///authorize"},
        {"authorization_endpoint": "https://people.test/\r\nSet-Cookie: a=b"},
        {"authorization_endpoint": "https://people.test/\u00e9\u4e2d"},
        {"authorization_endpoint": "https://people.test/\ud800"},
        {"authorization_endpoint": "https://people.test/#part"},
        {"authorization_endpoint": "https://somebody@people.test/"},
    ],
)
def test_a_provider_that_describes_itself_wrongly_is_away(
    provider: OpenIdProvider, app: App, ada: Person, described: dict[str, Any]
) -> None:
    """Nobody is sent to what is no address, nor is a code; on the way there and on the way back."""
    back = leave(ada, app)
    provider.describes = described
    there = link(ada, app)
    assert there.status_code == 503
    assert AWAY in there.text
    assert ada.http.get(back.headers["Location"]).status_code == 503
    assert len(provider.codes) >= 1


def test_a_provider_elsewhere_names_nothing_on_this_machine(
    module: tuple[OpenIdProvider, RunningService, App, str],
) -> None:
    """Else it could have the service ask its neighbours."""
    service = module[1]
    registration = upstream.Registration(None, "https://people.test", "carrel", SecretStr("secret"))
    with_local = upstream.Provider(registration, service.runtime, AsyncExitStack())
    assert not with_local._is_safe("http://127.0.0.1:8000/token")
    assert with_local._is_safe("https://people.test/token")


def _endless(piece: bytes) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        for _ in range(1000):
            yield piece

    return pieces


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/jwks"])
@pytest.mark.parametrize(
    "answer", [_endless(b" " * 4096), lambda: iter([b"[" * 100_000]), lambda: iter([b"\xff"]), lambda: iter([b"[]"])]
)
def test_an_answer_without_an_end_or_a_meaning_is_away(
    provider: OpenIdProvider, app: App, ada: Person, *, path: str, answer: Callable[[], Iterator[bytes]]
) -> None:
    """No more than a mebibyte is taken, and what is no JSON object is no answer."""
    back = leave(ada, app)
    provider.answers[path] = answer
    assert ada.http.get(back.headers["Location"]).status_code == 503


def test_an_answer_that_drips_is_given_up(
    provider: OpenIdProvider, app: App, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However regularly a byte arrives: the time is that of the whole answer."""
    monkeypatch.setattr(upstream, "SECONDS", 0.5)
    given_up, drops = threading.Event(), 0

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


def test_a_provider_that_names_itself_on_return_always_does(provider: OpenIdProvider, app: App, ada: Person) -> None:
    """RFC 9207, section 2.4: where it says so of itself, an answer without `iss` may be somebody else's."""
    provider.describes = {"authorization_response_iss_parameter_supported": True}
    address = leave(ada, app).headers["Location"]
    assert CONFIRM in ada.http.get(address).text
    assert "Ada Lovelace" in ada.follow(ada.http.get(f"{address}&iss={provider.issuer}")).text


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": "access_denied"}, "access was denied: you declined there"),
        ({"error": "server_error"}, "could not sign you in (server_error)"),
        ({"error": "<b>"}, "could not sign you in. Try again"),
        ({"code": "x", "iss": "https://another.test"}, "Another provider answered"),
        ({"code": "wrong"}, CONFIRM),
    ],
)
def test_a_refusal_says_why_and_leads_on(app: App, ada: Person, answer: dict[str, str], said: str) -> None:
    """Its link shows the sign-in page of the same request again, or of the account, with all ways to sign in."""
    left = {"application": urlsplit(leave(ada, app, state="mine").headers["Location"]), "account": None}
    left["account"] = urlsplit(httpx.get(ada.http.get("/account/upstream").headers["Location"]).headers["Location"])
    for way, back in left.items():
        assert back is not None
        state = dict(parse_qsl(back.query))["state"]
        page = ada.http.get(back.path, params={"state": state, **answer})
        assert (page.status_code, "You are not signed in" in page.text, said in page.text) == (400, True, True)
        again = follow_link(ada, page)
        assert Page(again).forms[0].buttons == ["signIn"]
        assert ("state=mine" in str(again.url)) == (way == "application")
    stale = ada.http.get(left["application"].path, params={"state": "forged", **answer})
    assert "finished already" in stale.text
    assert Page(follow_link(ada, stale)).forms[0].buttons == ["signIn"]
    elsewhere = ada.http.get("/account/upstream", params={"email": "ada@nowhere.test", "confirm": "1"})
    assert "No provider decides" in elsewhere.text
    assert str(follow_link(ada, elsewhere).url).endswith("/account/sign-in?confirm=1")


def follow_link(person: Person, page: httpx.Response) -> httpx.Response:
    """Open where the only link of a page leads."""
    (link,) = re.findall(r'<a href="([^"]+)"', page.text)
    return person.follow(person.http.get(page.url.join(html.unescape(link))))


def test_another_letter_is_another_address(
    provider: OpenIdProvider, app: App, ada: Person, module: tuple[OpenIdProvider, RunningService, App, str]
) -> None:
    """The Kelvin sign is a k in lower case, and its mailbox somebody else's."""
    service = module[1]
    a_person(service, "kit@example.test", name="Kit")
    provider.person = {"sub": "kelvin", "email": "\u212ait@example.test", "email_verified": True}
    refused(ada, app, "no account here")
    provider.person = {"sub": "kit", "email": "KIT@example.test", "email_verified": True}
    assert "Kit" in come_back(ada, app).text


def test_who_comes_back_twice_at_once_is_bound_once(
    provider: OpenIdProvider, app: App, ada: Person, module: tuple[OpenIdProvider, RunningService, App, str]
) -> None:
    """Whoever comes second waits for the first, and is the same person."""
    service = module[1]
    twin = a_person(service, "twin@example.test", name="Twin")
    provider.person = {"sub": "twin-1", "email": twin.email, "email_verified": True}
    (person,) = done(service.call("admin/users/list", {"query": twin.email}))["users"]
    address = leave(ada, app).headers["Location"]
    answers: list[httpx.Response] = []
    second = threading.Thread(target=lambda: answers.append(ada.follow(ada.http.get(address))))
    with service.owner_connection() as first:
        with first.transaction():
            first.execute(
                "INSERT INTO upstream_identities (organization_id, issuer, subject, principal_id, bound_at)"
                " SELECT organization_id, %s, 'twin-1', principal_id, now() FROM principals WHERE principal_id = %s",
                [provider.issuer, person["id"]],
            )
            second.start()
            waiting = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            while second.is_alive() and not first.execute(waiting).fetchone()[0]:
                time.sleep(0.01)
        second.join()
    assert "Twin" in answers[0].text


def test_a_token_signed_by_a_key_of_no_name_needs_it_to_be_the_only_one(
    provider: OpenIdProvider, app: App, ada: Person
) -> None:
    """OpenID Connect Core 1.0, section 10.1: among several keys a token names its own."""
    provider.signed = lambda claims: jwt.encode({"alg": "RS256"}, claims, KEY)  # type: ignore[method-assign]
    assert "Ada Lovelace" in come_back(ada, app).text
    ada.http.cookies.clear()
    others = [KEY.as_dict(private=False), RSAKey.generate_key(2048, {"kid": "two"}).as_dict(private=False)]
    provider.answers["/jwks"] = lambda: iter([json.dumps({"keys": others}).encode()])
    refused(ada, app, CONFIRM)
    del provider.signed
