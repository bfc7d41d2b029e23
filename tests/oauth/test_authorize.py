"""The authorization endpoint (RFC 6749, section 4.1.1; RFC 7636; RFC 9207; RFC 9700), and consent."""

import socket
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import httpx
import pytest

from tests.harness.cases import cases
from tests.oauth import flow
from tests.oauth.flow import CALLBACK, App, Page, Person, Pkce, a_person, an_app, sent_back, v1
from tests.oauth.talking import send, use
from tests.service.conversations import an_agent, deploy
from tests.service.directory import a_user, code, done, user, walk


def test_the_flow_of_the_seed(service, app: App, ada: Person, pkce: Pkce) -> None:
    """Authorize, sign in, consent, exchange, call v1, refresh: with the seed's parameters and members."""
    back = sent_back(ada.allow(app, pkce, state="unguessable"))
    assert (back["state"], back["iss"]) == ("unguessable", service.base_url)
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
    ("part", "redirect_uris"),
    [
        ("all of it", [None, ""]),
        ("scheme", [CALLBACK.replace("https", "http"), CALLBACK.upper()]),
        ("host", [CALLBACK.replace("app.", "App."), CALLBACK.replace("/callback", ":443/callback")]),
        ("host", ["https://evil.test/?" + CALLBACK, "https://app.example.test@evil.test/callback"]),
        ("path", [f"{CALLBACK}/", f"{CALLBACK}\u00e9", CALLBACK.replace("/callback", "/Callback")]),
        ("path", [CALLBACK.replace("/callback", "/./callback"), CALLBACK.replace("/callback", "/%63allback")]),
        ("end", [f"{CALLBACK}?extra=1", f"{CALLBACK}?", f"{CALLBACK}#part", f'{CALLBACK}"><script>alert(1)</script>']),
    ],
)
def test_a_redirect_uri_must_match_character_by_character(standing, part, redirect_uris):
    """Errors are shown to the person on a page, without a redirect."""
    for redirect_uri in redirect_uris:
        response = standing.person().open(standing.app, redirect_uri=redirect_uri)
        assert (response.status_code, "Location" in response.headers) == (400, False), (part, redirect_uri)
        assert Page(response).forms == []
        assert "<script>" not in response.text


def test_a_loopback_redirect_uris_port_must_match_too(service, ada: Person) -> None:
    """Native apps' exception doesn't hold for confidential clients."""
    app = an_app(service, "http://127.0.0.1:8501/oauth/callback")
    assert ada.open(app, redirect_uri="http://127.0.0.1:8502/oauth/callback").status_code == 400
    assert ada.open(app, redirect_uri="http://localhost:8501/oauth/callback").status_code == 400
    assert "code" in sent_back(ada.allow(app), to=app.redirect_uri)


def test_a_redirect_uris_own_query_stays_as_it_is(service, ada: Person) -> None:
    location = ada.allow(an_app(service, "https://app.example.test/cb?a=%41&flag&b=x+y;z")).headers["Location"]
    assert location.startswith("https://app.example.test/cb?a=%41&flag&b=x+y;z&code=svc_ac_")


def test_an_unknown_client_gets_nobody_redirected(standing) -> None:
    app, ada = standing.app, standing.person()
    spelled = [app.client_id.upper(), f"{{{app.client_id}}}", app.client_id.replace("-", "")]
    for client_id in (None, "", "unknown", "0197a000-0000-7000-8000-000000000000", "\0", "é" * 300, *spelled):
        response = ada.open(app, client_id=client_id)
        assert (response.status_code, "Location" in response.headers) == (400, False), client_id


@pytest.mark.parametrize(("name", "expected", "values"), cases("whatever_is_wrong_with_an_authorization"))
def test_what_is_wrong_with_a_proven_clients_request_is_sent_back_with_state_and_issuer(
    standing, name: str, expected: str, values: list[str | None]
) -> None:
    """As the error of RFC 6749, section 4.1.2.1, before anyone is asked to sign in."""
    for value in values:
        back = sent_back(standing.person().open(standing.app, **{name: value}))
        assert (back["error"], back["state"], back["iss"]) == (expected, "a state", standing.service.base_url), value
        assert "code" not in back


def test_a_client_asks_for_what_it_is_registered_for(service, ada: Person) -> None:
    """Without a scope for all of it (RFC 6749, section 3.3); `*` covers each agent, an agent's scope no other agent."""
    read, write, everybody = "api:catalog:read", "api:catalog:write", "api:agent:message:*"
    one, other = (f"api:agent:message:0197a000-0000-7000-8000-00000000000{digit}" for digit in (1, 2))
    assert ada.tokens(an_app(service, scopes=[read, write]), scope=None)["scope"] == f"{read} {write}"
    assert ada.tokens(an_app(service, scopes=[everybody]), scope=one)["scope"] == one
    for registered, asked in ((read, write), (one, other), (one, everybody)):
        assert sent_back(ada.open(an_app(service, scopes=[registered]), scope=asked))["error"] == "invalid_scope"


@pytest.mark.parametrize("name", ["scope", "state", "response_type", "code_challenge", "code_challenge_method"])
def test_a_parameter_sent_twice_is_an_invalid_request(standing, name: str) -> None:
    """Sent back, since client and redirect URI are proven (RFC 6749, section 3.1)."""
    app, ada = standing.app, standing.person()
    parameters = app.parameters(Pkce())
    back = sent_back(ada.http.get("/api/oauth/authorize", params=[*parameters.items(), (name, parameters[name])]))
    assert back["error"] == "invalid_request"
    assert back.get("state") == (None if name == "state" else "a state")


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
def test_two_clients_or_redirect_uris_prove_neither(standing, name: str) -> None:
    app, ada = standing.app, standing.person()
    other = {"client_id": standing.agent.client_id, "redirect_uri": "https://evil.test/"}
    parameters = list(app.parameters(Pkce()).items())
    for both in ([*parameters, (name, other[name])], [(name, other[name]), *parameters]):
        response = ada.http.get("/api/oauth/authorize", params=both)
        assert response.status_code == 400
        assert "Location" not in response.headers


def test_empty_parameters_count_as_left_out_and_unknown_ones_are_ignored(app: App, ada: Person) -> None:
    assert sent_back(ada.open(app, code_challenge=""))["error"] == "invalid_request"
    back = sent_back(ada.allow(app, state="", unknown="x", audience="https://api.example.test"))
    assert "code" in back
    assert "state" not in back


@pytest.mark.parametrize(
    "state", ["plain", "a b&c=d#e?f", "ümläut ✓", "%41%26", "<script>'\"", "x" * 4000, "line\r\nSet-Cookie: a=b", "\0"]
)
def test_the_state_comes_back_exactly(standing, state: str) -> None:
    app, ada = standing.app, standing.person()
    pages = [ada.open(app, state=state, scope="api:nothing"), ada.allow(app, state=state)]
    ada.http.cookies.clear()
    consent = ada.sign_in(ada.open(app, state=state, scope="api:catalog:write"))
    pages.append(ada.press(consent, "deny"))
    for response in pages:
        assert sent_back(response)["state"] == state
        assert "Set-Cookie" not in response.headers or "a=b" not in response.headers["Set-Cookie"]
        assert urlsplit(response.headers["Location"]).fragment == ""


def test_a_code_is_bound_to_nothing_that_shows_in_it(app: App, ada: Person) -> None:
    """At least 160 random bits."""
    codes = {ada.code(app, Pkce()) for _ in range(3)}
    assert len(codes) == 3
    assert {len(code) for code in codes} == {len("svc_ac_") + 38}


def test_redirects_after_a_form_are_303_and_tell_nobody_where_from(app: App, ada: Person) -> None:
    """RFC 9700, section 4.12: a 307 would send the password on; no referrer contains the code."""
    signed_in = ada.enter(ada.open(app))
    assert signed_in.status_code == 303
    allowed = ada.press(ada.follow(signed_in), "allow")
    assert allowed.status_code == 303
    assert allowed.headers["Referrer-Policy"] == "no-referrer"
    assert allowed.headers["Cache-Control"] == "no-store"
    assert ada.open(app).status_code == 302


def test_pages_run_no_script_and_are_framed_by_nobody(app: App, ada: Person) -> None:
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


def test_names_of_others_are_text_on_every_page(service) -> None:
    name = "<img src=x onerror=alert(1)>"
    app, ada = an_app(service, name=name), a_person(service, name="</p><b>Ada")
    sign_in = ada.open(app)
    consent = ada.sign_in(sign_in)
    assert name in Page(sign_in).text
    assert name in Page(consent).text
    assert "</p><b>Ada" in Page(consent).text
    assert "<img" not in sign_in.text + consent.text
    assert "<b>" not in consent.text


def test_a_style_sheet_is_all_that_a_page_fetches(standing) -> None:
    ada = standing.person()
    page = ada.open(standing.app)
    href = page.text.split('rel="stylesheet" href="')[1].split('"')[0]
    sheet = ada.http.get(page.url.join(href))
    assert sheet.status_code == 200
    assert sheet.headers["Content-Type"].startswith("text/css")
    assert "immutable" in sheet.headers["Cache-Control"]
    assert sum(page.text.count(tag) for tag in ("<link", "<img", "<iframe", "@import", "url(")) == 1


def test_posting_something_that_is_no_form_of_ours(app: App, ada: Person) -> None:
    address = str(ada.open(app).url)
    consent = ada.sign_in(ada.open(app))
    assert ada.http.post(address, json={}).status_code == 415
    assert ada.http.post(address, data={"x": "y" * 70_000}).status_code == 413
    form = Page(consent).forms[0]
    for action in ("explode", ""):
        response = ada.http.post(form.action, data=form.fields | {"action": action})
        assert response.status_code == 400
        assert response.headers["Content-Type"].startswith("text/html")


def test_a_query_that_is_not_text_is_a_page(service) -> None:
    host, port = service.base_url.removeprefix("http://").split(":")
    for query in (b"client_id=%ff%fe", b"\xff\xfe=x", b"&".join(b"a%d=1" % number for number in range(200))):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"GET /api/oauth/authorize?" + query + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_the_issuer_is_the_public_address(make_service) -> None:
    """With a public address, cookies are bound to the host, and sent over https alone."""
    service = make_service(public_url="https://carrel.example.test/base/")
    app, ada = an_app(service), a_person(service)
    page = ada.open(app)
    cookie = page.headers["Set-Cookie"]
    assert cookie.startswith("__Host-carrel_session=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=lax"} <= {part.strip() for part in cookie.split(";")}
    # Paths are relative, so that they work below any prefix.
    assert Page(page).forms[0].action.startswith(f"{service.base_url}/api/oauth/authorize?")
    assert dict(parse_qsl(urlsplit(ada.open(app, scope="x").headers["Location"]).query))["iss"] == (
        "https://carrel.example.test/base"
    )


CONSENTS = "/account/consents"
ADMIN_TOO = "api:catalog:read api:admin"


def test_the_page_names_the_client_the_person_and_what_is_asked_in_plain_words(app: flow.App, ada: flow.Person) -> None:
    page = flow.Page(ada.sign_in(ada.open(app, scope="api:catalog:read api:agent:message:*")))
    for words in (
        "Use An App with your account?",
        "has approved An App",
        "Ada Lovelace (ada@example.test)",
        "Search and read the documents and collections you may read",
        "to the agents that you may use",
        "app.example.test",
    ):
        assert words in page.text
    assert "Upload" not in page.text
    assert page.forms[0].buttons == ["allow", "deny", "switch"]


def test_an_agent_is_named_to_those_it_is_deployed_to(service, app: flow.App, ada: flow.Person) -> None:
    mine, theirs, deleted = (an_agent(service, name=name) for name in ("Bosun <&>", "Hidden", "Gone"))
    for agent in (mine, deleted):
        deploy(service, agent, user(ada.email))
    done(service.call("admin/agents/delete", {"agentId": deleted["agentId"]}))
    unnamed = [theirs["agentId"], deleted["agentId"], "0197a000-0000-7000-8000-000000000001"]
    scope = " ".join(f"api:agent:message:{agent_id}" for agent_id in (mine["agentId"], *unnamed))
    ada.sign_in(ada.open(app, scope="api:catalog:read"))
    consent = flow.Page(ada.open(app, scope=scope))
    ada.tokens(app, scope=scope)
    for page in (consent, flow.Page(ada.http.get(CONSENTS))):
        assert "Send messages to the agent Bosun <&>, as you" in page.text
        assert all(f"Send messages to the agent {agent_id}, as you" in page.text for agent_id in unnamed)
        assert "Hidden" not in page.text
        assert "Gone" not in page.text


def test_denying_gives_no_code_and_is_not_remembered(app: flow.App, ada: flow.Person) -> None:
    """`access_denied` (RFC 6749, section 4.1.2.1); asked again next time."""
    consent = ada.sign_in(ada.open(app))
    back = flow.sent_back(ada.press(consent, "deny"))
    assert back["error"] == "access_denied"
    assert "code" not in back
    assert flow.asks_for_consent(ada.open(app))


def test_what_was_allowed_is_not_asked_again_and_what_is_new_is(service, app, ada) -> None:
    ada.tokens(app, scope="api:catalog:read")
    assert "code" in flow.sent_back(ada.open(app, scope="api:catalog:read"))
    assert flow.asks_for_consent(ada.open(flow.an_app(service), scope="api:catalog:read"))
    more = ada.open(app, scope="api:catalog:read api:catalog:write")
    assert flow.Page(more).text.count("new") == 1
    ada.press(more, "allow")
    for scope in ("api:catalog:write", "api:catalog:write api:catalog:read", "api:catalog:read"):
        assert "code" in flow.sent_back(ada.open(app, scope=scope))


def test_allowing_messages_to_all_agents_covers_each(app: flow.App, ada: flow.Person) -> None:
    one = "api:agent:message:0197a000-0000-7000-8000-000000000001"
    ada.tokens(app, scope=one)
    assert flow.asks_for_consent(ada.open(app, scope="api:agent:message:*"))
    ada.tokens(app, scope="api:agent:message:*")
    assert "code" in flow.sent_back(ada.open(app, scope=one.replace("1", "2")))


def test_a_consent_form_is_good_for_one_person_and_one_request(app, ada, ben) -> None:
    form = flow.Page(ada.sign_in(ada.open(app))).form("allow")
    theirs = flow.Page(ben.sign_in(ben.open(app))).form("allow")
    allow = form.fields | {"action": "allow"}
    wider = ada.open(app, scope="api:catalog:write")
    for action, fields in (
        (form.action, {"action": "allow"}),
        (form.action, allow | {"csrf": theirs.fields["csrf"]}),
        (theirs.action, allow),
        (flow.Page(wider).form("allow").action, allow),
    ):
        refused = ada.http.post(action, data=fields)
        assert refused.status_code == 403
        assert "Location" not in refused.headers
        assert "page has expired" in refused.text
    # Whoever isn't signed in is asked to.
    nobody = flow.Person(ada.service)
    assert flow.asks_to_sign_in(nobody.follow(nobody.http.post(form.action, data=allow)))
    assert "code" in flow.sent_back(ada.http.post(form.action, data=allow))


def test_api_admin_is_an_admins_to_allow(service, app: flow.App, ada: flow.Person) -> None:
    page = ada.sign_in(ada.open(app, scope=ADMIN_TOO))
    assert "as an admin" not in flow.Page(page).text
    assert "left out" in flow.Page(page).text
    tokens = ada.tokens(app, scope=ADMIN_TOO)
    assert tokens["scope"] == "api:catalog:read"
    assert code(flow.v1(service, "admin/organization/get", tokens["access_token"], {})) == (403, "missing_scope")
    assert flow.sent_back(ada.open(app, scope="api:admin"))["error"] == "access_denied"


def test_api_admin_is_checked_against_the_person_on_every_request(service, app: flow.App) -> None:
    ada = flow.a_person(service, isAdmin=True)
    token = ada.tokens(app, scope=ADMIN_TOO)["access_token"]
    assert flow.v1(service, "admin/organization/get", token, {}).status_code == 200
    a_user(service, ada.email, isAdmin=False)
    assert code(flow.v1(service, "admin/organization/get", token, {})) == (403, "admin_only")
    assert flow.v1(service, "catalog/listDocuments", token, {}).status_code == 200
    a_user(service, ada.email, isAdmin=True)
    assert flow.v1(service, "admin/organization/get", token, {}).status_code == 200


def test_an_admins_token_without_api_admin_administers_nothing(service, app: flow.App) -> None:
    token = flow.Person(service).tokens(app, scope="api:catalog:read api:catalog:write")["access_token"]
    assert flow.v1(service, "me", token).json()["isAdmin"] is True
    assert code(flow.v1(service, "admin/users/list", token, {})) == (403, "missing_scope")
    explain = "permissions/listAuthorizedPrincipalsForResource"
    assert code(flow.v1(service, explain, token, {"nonsense": 1})) == (403, "missing_scope")


def test_taking_back_stops_every_token_at_once(app, ada, ben, pkce) -> None:
    other = flow.an_app(app.service)
    mine, elsewhere, bens = ada.tokens(app), ada.tokens(other), ben.tokens(app)
    unused = ada.code(app, pkce)
    page = ada.http.get(CONSENTS)
    entry = next(form for form in flow.Page(page).forms if form.fields.get("client_id") == app.client_id)
    gone = ada.follow(ada.http.post(entry.action, data=entry.fields | {"action": "withdraw"}))
    assert [form.fields.get("client_id") for form in flow.Page(gone).forms] == [other.client_id, None]
    assert not flow.works(app.service, mine["access_token"])
    assert flow.error(app.refresh(mine["refresh_token"])) == (400, "invalid_grant")
    assert flow.error(app.exchange(unused, pkce)) == (400, "invalid_grant")
    assert flow.works(app.service, elsewhere["access_token"])
    assert flow.works(app.service, bens["access_token"])
    assert flow.asks_for_consent(ada.open(app))
    (logged,) = flow.entries(app.service, "consent.withdraw")
    assert logged["actor"]["email"] == ada.email
    assert logged["target"]["id"] == app.client_id
    assert len(flow.entries(app.service, "consent.grant")) == 3


def test_an_admin_lists_what_people_allowed_and_ends_it(service, app, ada, ben):
    agent = flow.an_mcp_client(service)
    tokens = {(person.email, one.client_id): person.tokens(one) for person in (ada, ben) for one in (app, agent)}
    assert use(service, tokens[ada.email, agent.client_id]["access_token"], "search", query="ferry")["results"] == []

    def listed(**narrowed: str) -> list[tuple[str, str]]:
        found = walk(service, "admin/oauthClients/listConsents", narrowed, page_size=1)
        return sorted((one["email"], one["clientId"]) for one in found)

    def withdraw(client_id: str, **named: str) -> httpx.Response:
        return service.call("admin/oauthClients/withdrawConsents", {"clientId": client_id, **named})

    assert listed() == sorted(tokens)
    assert listed(clientId=agent.client_id) == [(one.email, agent.client_id) for one in (ada, ben)]
    assert listed(email="ADA@example.test", clientId=app.client_id) == [(ada.email, app.client_id)]
    named = {"email": ada.email, "clientId": agent.client_id}
    [shown] = walk(service, "admin/oauthClients/listConsents", named, page_size=9)
    assert (shown["personName"], shown["audience"], shown["scopes"]) == ("Ada Lovelace", "mcp", ["api:catalog:read"])
    assert (shown.get("collectionIds"), "lastUsedAt" in shown) == (None, True)
    unused = ada.code(app, pkce := flow.Pkce())
    assert done(withdraw(app.client_id, email=ada.email)) == {"withdrawnCount": 1}
    assert not flow.works(service, tokens[ada.email, app.client_id]["access_token"])
    assert flow.error(app.exchange(unused, pkce)) == (400, "invalid_grant")
    assert flow.works(service, tokens[ben.email, app.client_id]["access_token"])
    assert done(withdraw(agent.client_id)) == {"withdrawnCount": 2}
    assert done(withdraw(agent.client_id)) == {"withdrawnCount": 0}
    for one in (ada, ben):
        assert send(service, tokens[one.email, agent.client_id]["access_token"], "tools/list").status_code == 401
        assert flow.error(agent.refresh(tokens[one.email, agent.client_id]["refresh_token"])) == (400, "invalid_grant")
    assert listed() == [(ben.email, app.client_id)]
    ended = flow.entries(service, "consent.withdraw")
    assert {one["actor"]["email"] for one in ended} == {service.admin_email}
    assert {one["target"]["id"] for one in ended} == {app.client_id, agent.client_id}
    assert len({one["details"]["ownerId"] for one in ended}) == 2
    assert code(withdraw(app.client_id, email="nobody@example.test")) == (400, "unknown_principal")
    assert code(withdraw(str(UUID(int=1)))) == (404, "oauth_client_not_found")


def test_taking_back_needs_the_person_and_the_form(service, app: flow.App, ada: flow.Person) -> None:
    token = ada.tokens(app)["access_token"]
    nobody, forged = flow.Person(service), {"action": "withdraw", "client_id": app.client_id}
    for answer in (nobody.http.get(CONSENTS), nobody.http.post(CONSENTS, data=forged)):
        assert (answer.status_code, answer.headers["Location"]) == (303, "sign-in")
    assert ada.http.post(CONSENTS, data=forged).status_code == 403
    page = ada.http.get(CONSENTS)
    for client_id in ("", "x", "0197a000-0000-7000-8000-000000000000"):
        assert ada.press(page, "withdraw", client_id=client_id).status_code in {303, 400}
    assert flow.works(service, token)


def test_signing_out_ends_the_session(service, app: flow.App, ada: flow.Person) -> None:
    token = ada.tokens(app)["access_token"]
    assert flow.asks_to_sign_in(ada.follow(ada.press(ada.http.get(CONSENTS), "signOut")))
    assert flow.asks_to_sign_in(ada.open(app))
    assert flow.works(service, token)
