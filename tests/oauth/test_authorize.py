"""The authorization endpoint (RFC 6749, section 4.1.1; RFC 7636; RFC 9207; RFC 9700): what it asks and refuses."""

import socket
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.harness.services import RunningService
from tests.oauth.conftest import Standing
from tests.oauth.flow import CALLBACK, Page, Person, Pkce, a_person, an_app, sent_back, v1
from tests.service.directory import done


def test_the_flow_of_the_seed(service: RunningService) -> None:
    """Authorize, sign in, consent, exchange, call v1, refresh: with the parameters and members it names."""
    app, ada, pkce = an_app(service), a_person(service), Pkce()
    back = sent_back(ada.allow(app, pkce, state="unguessable"))
    assert back["state"] == "unguessable"
    answer = app.exchange(back["code"], pkce)
    tokens = done(answer)
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 3600
    assert tokens["access_token"].startswith("svc_at_")
    assert tokens["scope"] == "api:catalog:read"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    assert v1(service, "me", tokens["access_token"]).json()["email"] == ada.email
    again = done(app.refresh(tokens["refresh_token"]))
    assert again.keys() == tokens.keys()
    assert again["refresh_token"] != tokens["refresh_token"]
    assert again["access_token"] != tokens["access_token"]


@pytest.mark.parametrize(
    "redirect_uri",
    [
        None,
        "",
        CALLBACK + "/",
        CALLBACK.upper(),
        CALLBACK.replace("https", "http"),
        CALLBACK.replace("app.", "App."),
        CALLBACK.replace("/callback", "/Callback"),
        CALLBACK.replace("/callback", ":443/callback"),
        CALLBACK.replace("/callback", "/./callback"),
        CALLBACK.replace("/callback", "/%63allback"),
        CALLBACK + "?extra=1",
        CALLBACK + "?",
        CALLBACK + "#part",
        CALLBACK + "\u00e9",
        CALLBACK + '"><script>alert(1)</script>',
        "https://evil.test/?" + CALLBACK,
        "https://app.example.test@evil.test/callback",
    ],
)
def test_a_redirect_uri_must_match_character_by_character(standing: Standing, redirect_uri: str | None) -> None:
    """Anything else is told to the person on a page, and nobody is redirected anywhere."""
    app, ada = standing.app, standing.person()
    response = ada.open(app, redirect_uri=redirect_uri)
    assert response.status_code == 400
    assert "Location" not in response.headers
    assert Page(response).forms == []
    assert "<script>" not in response.text


def test_a_loopback_redirect_uris_port_must_match_too(service: RunningService) -> None:
    """The exception for native apps is none for confidential clients."""
    app, ada = an_app(service, "http://127.0.0.1:8501/oauth/callback"), a_person(service)
    assert ada.open(app, redirect_uri="http://127.0.0.1:8502/oauth/callback").status_code == 400
    assert ada.open(app, redirect_uri="http://localhost:8501/oauth/callback").status_code == 400
    assert "code" in sent_back(ada.allow(app), to=app.redirect_uri)


def test_a_redirect_uris_own_query_stays_as_it_is(service: RunningService) -> None:
    """Its parameters come first, without being written differently."""
    app, ada = an_app(service, "https://app.example.test/cb?a=%41&flag&b=x+y;z"), a_person(service)
    location = ada.allow(app).headers["Location"]
    assert location.startswith("https://app.example.test/cb?a=%41&flag&b=x+y;z&code=svc_ac_")


@pytest.mark.parametrize("client_id", [None, "", "unknown", "0197a000-0000-7000-8000-000000000000", "\0", "é" * 300])
def test_an_unknown_client_gets_nobody_redirected(standing: Standing, client_id: str | None) -> None:
    """Whatever redirect URI it names."""
    app, ada = standing.app, standing.person()
    response = ada.open(app, client_id=client_id)
    assert response.status_code == 400
    assert "Location" not in response.headers


def test_a_clients_id_has_one_spelling(standing: Standing) -> None:
    """In capitals or braces it is unknown."""
    app, ada = standing.app, standing.person()
    for spelling in (app.client_id.upper(), f"{{{app.client_id}}}", app.client_id.replace("-", "")):
        assert ada.open(app, client_id=spelling).status_code == 400


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge": "x" * 44}, "invalid_request"),
        ({"code_challenge": "x" * 42 + "="}, "invalid_request"),
        ({"code_challenge": "x" * 43 + "\n"}, "invalid_request"),
        ({"scope": "api:everything"}, "invalid_scope"),
        ({"scope": "catalog:read"}, "invalid_scope"),
        ({"scope": "api:catalog:read api:everything"}, "invalid_scope"),
        ({"scope": "api:agent:message:not-an-id"}, "invalid_scope"),
        ({"scope": "API:CATALOG:READ"}, "invalid_scope"),
        ({"scope": "api:catalog:read  api:catalog:write"}, "invalid_scope"),
    ],
)
def test_what_is_wrong_with_a_proven_clients_request_is_sent_back_with_state_and_issuer(
    standing: Standing, changes: dict[str, str | None], expected: str
) -> None:
    """As the error of RFC 6749, section 4.1.2.1, before anybody is asked to sign in."""
    app, ada = standing.app, standing.person()
    back = sent_back(ada.open(app, **changes))
    assert back["error"] == expected
    assert back["state"] == "a state"
    assert back["iss"] == standing.service.base_url
    assert "code" not in back


def test_a_scope_the_client_is_not_registered_for_is_refused(service: RunningService) -> None:
    """Even though there is such a scope."""
    app, ada = an_app(service, scopes=["api:catalog:read"]), a_person(service)
    assert sent_back(ada.open(app, scope="api:catalog:write"))["error"] == "invalid_scope"


def test_without_a_scope_the_client_asks_for_all_it_is_registered_for(service: RunningService) -> None:
    """And the person sees them all (RFC 6749, section 3.3); the answer says which they are."""
    scopes = ["api:catalog:read", "api:catalog:write"]
    app, ada = an_app(service, scopes=scopes), a_person(service)
    assert ada.tokens(app, scope=None)["scope"] == " ".join(scopes)


def test_messages_to_one_agent_are_covered_by_messages_to_all(service: RunningService) -> None:
    """A client registered for `*` may ask for less; one registered for an agent not for another."""
    one, other = (f"api:agent:message:0197a000-0000-7000-8000-00000000000{digit}" for digit in (1, 2))
    ada = a_person(service)
    assert ada.tokens(an_app(service, scopes=["api:agent:message:*"]), scope=one)["scope"] == one
    narrow = an_app(service, scopes=[one])
    assert sent_back(ada.open(narrow, scope=other))["error"] == "invalid_scope"
    assert sent_back(ada.open(narrow, scope="api:agent:message:*"))["error"] == "invalid_scope"


@pytest.mark.parametrize("name", ["scope", "state", "response_type", "code_challenge", "code_challenge_method"])
def test_a_parameter_sent_twice_is_an_invalid_request(standing: Standing, name: str) -> None:
    """Sent back, since client and redirect URI are proven (RFC 6749, section 3.1)."""
    app, ada = standing.app, standing.person()
    parameters = app.parameters(Pkce())
    response = ada.http.get("/api/oauth/authorize", params=[*parameters.items(), (name, parameters[name])])
    back = sent_back(response)
    assert back["error"] == "invalid_request"
    assert back.get("state") == (None if name == "state" else "a state")


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
def test_two_clients_or_redirect_uris_prove_neither(service: RunningService, name: str) -> None:
    """Nobody is redirected, whichever of the two comes first."""
    app, ada = an_app(service), a_person(service)
    other = {"client_id": an_app(service).client_id, "redirect_uri": "https://evil.test/"}
    parameters = list(app.parameters(Pkce()).items())
    for both in ([*parameters, (name, other[name])], [(name, other[name]), *parameters]):
        response = ada.http.get("/api/oauth/authorize", params=both)
        assert response.status_code == 400
        assert "Location" not in response.headers


def test_empty_parameters_count_as_left_out_and_unknown_ones_are_ignored(service: RunningService) -> None:
    """RFC 6749, section 3.1."""
    app, ada = an_app(service), a_person(service)
    assert sent_back(ada.open(app, code_challenge=""))["error"] == "invalid_request"
    back = sent_back(ada.allow(app, state="", unknown="x", audience="https://api.example.test"))
    assert "code" in back
    assert "state" not in back


@pytest.mark.parametrize(
    "state",
    ["plain", "a b&c=d#e?f", "ümläut ✓", "%41%26", "<script>'\"", "x" * 4000, "line\r\nSet-Cookie: a=b", "\0"],
)
def test_the_state_comes_back_exactly(standing: Standing, state: str) -> None:
    """With a code, with an error, and when the person denies; it never leaves the query."""
    app, ada = standing.app, standing.person()
    pages = [ada.open(app, state=state, scope="api:nothing"), ada.allow(app, state=state)]
    ada.http.cookies.clear()
    consent = ada.sign_in(ada.open(app, state=state, scope="api:catalog:write"))
    pages.append(ada.press(consent, "deny"))
    for response in pages:
        assert sent_back(response)["state"] == state
        assert "Set-Cookie" not in response.headers or "a=b" not in response.headers["Set-Cookie"]
        assert urlsplit(response.headers["Location"]).fragment == ""


def test_every_redirect_names_the_issuer(service: RunningService) -> None:
    """RFC 9207, section 2: it is the metadata's, with a code and with an error."""
    app, ada = an_app(service), a_person(service)
    issuer = service.http.get("/.well-known/oauth-authorization-server").json()["issuer"]
    assert sent_back(ada.allow(app))["iss"] == issuer
    assert sent_back(ada.open(app, scope="api:nothing"))["iss"] == issuer


def test_a_code_is_bound_to_nothing_that_shows_in_it(service: RunningService) -> None:
    """Two codes of the same request differ, with at least 160 random bits."""
    app, ada = an_app(service), a_person(service)
    codes = {ada.code(app, Pkce()) for _ in range(3)}
    assert len(codes) == 3
    assert {len(code) for code in codes} == {len("svc_ac_") + 38}


def test_redirects_after_a_form_are_303_and_tell_nobody_where_from(service: RunningService) -> None:
    """RFC 9700, section 4.12: a 307 would send the password on; and no referrer carries the code away."""
    app, ada = an_app(service), a_person(service)
    signed_in = ada.press(ada.open(app), "signIn", email=ada.email, password=ada.password)
    assert signed_in.status_code == 303
    allowed = ada.press(ada.follow(signed_in), "allow")
    assert allowed.status_code == 303
    assert allowed.headers["Referrer-Policy"] == "no-referrer"
    assert allowed.headers["Cache-Control"] == "no-store"
    assert ada.open(app).status_code == 302


def test_pages_run_no_script_and_are_framed_by_nobody(service: RunningService) -> None:
    """Sign-in (but for the one of passkeys), consent and error pages; forms lead here, and to a proven client."""
    app, ada = an_app(service), a_person(service)
    sign_in = ada.open(app)
    consent = ada.sign_in(sign_in)
    broken = ada.open(app, client_id="x")
    for response in (sign_in, consent, broken):
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["Cache-Control"] == "no-store"
        policy = dict(part.split(" ", 1) for part in response.headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["style-src"] == "'self'"
        expected = "'self'" if response is broken else "'self' https:"
        assert policy["form-action"] == expected
        own = "'self'" if response is sign_in else None
        assert (response.text.count("<script"), policy.get("script-src")) == (int(own is not None), own)
        assert " style=" not in response.text
        assert " on" + "click=" not in response.text


def test_names_of_others_are_text_on_every_page(service: RunningService) -> None:
    """A client's name is no element, and neither is a person's."""
    name = "<img src=x onerror=alert(1)>"
    client = {"name": name, "redirectUris": [CALLBACK], "scopes": ["api:catalog:read"]}
    made = done(service.call("admin/oauthClients/create", client))
    app = type(an_app(service))(service, made["clientId"], made["clientSecret"])
    ada = a_person(service, name="</p><b>Ada")
    sign_in = ada.open(app)
    consent = ada.sign_in(sign_in)
    assert name in Page(sign_in).text
    assert name in Page(consent).text
    assert "</p><b>Ada" in Page(consent).text
    assert "<img" not in sign_in.text + consent.text
    assert "<b>" not in consent.text


def test_a_style_sheet_is_all_that_a_page_fetches(service: RunningService) -> None:
    """It is there, and may be kept: its address changes with it."""
    ada = a_person(service)
    page = ada.open(an_app(service))
    href = page.text.split('rel="stylesheet" href="')[1].split('"')[0]
    sheet = ada.http.get(page.url.join(href))
    assert sheet.status_code == 200
    assert sheet.headers["Content-Type"].startswith("text/css")
    assert "immutable" in sheet.headers["Cache-Control"]
    assert sum(page.text.count(tag) for tag in ("<link", "<img", "<iframe", "@import", "url(")) == 1


def test_posting_something_that_is_no_form_of_ours(service: RunningService) -> None:
    """JSON is 415, an enormous form 413, an unknown button 400; each a page."""
    app, ada = an_app(service), a_person(service)
    address = str(ada.open(app).url)
    consent = ada.sign_in(ada.open(app))
    assert ada.http.post(address, json={}).status_code == 415
    assert ada.http.post(address, data={"x": "y" * 70_000}).status_code == 413
    form = Page(consent).forms[0]
    for action in ("explode", ""):
        response = ada.http.post(form.action, data=form.fields | {"action": action})
        assert response.status_code == 400
        assert response.headers["Content-Type"].startswith("text/html")


def test_a_query_that_is_not_text_is_a_page(service: RunningService) -> None:
    """Bytes that are no UTF-8, and more parameters than anybody needs."""
    host, port = service.base_url.removeprefix("http://").split(":")
    for query in (b"client_id=%ff%fe", b"\xff\xfe=x", b"&".join(b"a%d=1" % number for number in range(200))):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"GET /api/oauth/authorize?" + query + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_the_issuer_is_the_public_address(make_service) -> None:
    """As set, without a slash at its end; then cookies are bound to the host, and sent over https alone."""
    service = make_service(public_url="https://carrel.example.test/base/")
    app = an_app(service)
    ada = a_person(service)
    page = ada.open(app)
    cookie = page.headers["Set-Cookie"]
    assert cookie.startswith("__Host-carrel_session=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=lax"} <= {part.strip() for part in cookie.split(";")}
    # Paths are relative, so that they work below any prefix.
    assert Page(page).forms[0].action.startswith(f"{service.base_url}/api/oauth/authorize?")
    assert dict(parse_qsl(urlsplit(ada.open(app, scope="x").headers["Location"]).query))["iss"] == (
        "https://carrel.example.test/base"
    )


def test_two_people_in_two_browsers_are_two(service: RunningService) -> None:
    """Each code acts for who allowed it."""
    app = an_app(service)
    ada, ben = a_person(service), a_person(service, "ben@example.test", name="Ben")
    first, second = ada.tokens(app), ben.tokens(app)
    assert v1(service, "me", first["access_token"]).json()["name"] == "Ada Lovelace"
    assert v1(service, "me", second["access_token"]).json()["name"] == "Ben"
    assert isinstance(Person(service).tokens(app)["access_token"], str)
