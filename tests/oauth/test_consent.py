"""Consent: what a person is asked, what is remembered, and taking it back."""

from uuid import UUID

import httpx

from tests.oauth import flow
from tests.oauth.talking import send, use
from tests.service.conversations import an_agent, deploy
from tests.service.directory import a_user, code, done, user, walk

CONSENTS = "/account/consents"
ADMIN_TOO = "api:catalog:read api:admin"


def test_the_page_names_the_client_the_person_and_what_is_asked_in_plain_words(app: flow.App, ada: flow.Person) -> None:
    page = flow.Page(ada.sign_in(ada.open(app, scope="api:catalog:read api:agent:message:*")))
    for words in (
        "Use An App with your account?",
        "has approved An App",
        "Ada Lovelace (ada@example.test)",
        "Search and read the documents and collections you may read",
        "Send messages to the agents you may use",
        "app.example.test",
    ):
        assert words in page.text
    assert "Upload" not in page.text
    assert page.forms[0].buttons == ["allow", "deny", "switch"]


def test_an_agent_is_named_to_those_it_is_deployed_to(service, app: flow.App, ada: flow.Person) -> None:
    """Its id is all that others are shown: of another's agent, of a deleted one, and of one that never was."""
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
    """Its token fits no other request, browser or person; nobody's code comes of it (CSRF)."""
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
        assert "out of date" in refused.text
    # Whoever isn't signed in is asked to.
    nobody = flow.Person(ada.service)
    assert flow.asks_to_sign_in(nobody.follow(nobody.http.post(form.action, data=allow)))
    assert "code" in flow.sent_back(ada.http.post(form.action, data=allow))


def test_api_admin_is_an_admins_to_allow(service, app: flow.App, ada: flow.Person) -> None:
    """A member isn't asked for it, and gets no code for it alone; the rest is given without it."""
    page = ada.sign_in(ada.open(app, scope=ADMIN_TOO))
    assert "as an admin" not in flow.Page(page).text
    assert "left out" in flow.Page(page).text
    tokens = ada.tokens(app, scope=ADMIN_TOO)
    assert tokens["scope"] == "api:catalog:read"
    assert code(flow.v1(service, "admin/organization/get", tokens["access_token"], {})) == (403, "missing_scope")
    assert flow.sent_back(ada.open(app, scope="api:admin"))["error"] == "access_denied"


def test_api_admin_is_checked_against_the_person_on_every_request(service, app: flow.App) -> None:
    """An admin who is none any more administers nothing; the rest of the token goes on."""
    ada = flow.a_person(service, isAdmin=True)
    token = ada.tokens(app, scope=ADMIN_TOO)["access_token"]
    assert flow.v1(service, "admin/organization/get", token, {}).status_code == 200
    a_user(service, ada.email, isAdmin=False)
    assert code(flow.v1(service, "admin/organization/get", token, {})) == (403, "admin_only")
    assert flow.v1(service, "catalog/listDocuments", token, {}).status_code == 200
    a_user(service, ada.email, isAdmin=True)
    assert flow.v1(service, "admin/organization/get", token, {}).status_code == 200


def test_an_admins_token_without_api_admin_administers_nothing(service, app: flow.App) -> None:
    """Not even where admins alone may ask about others."""
    token = flow.Person(service).tokens(app, scope="api:catalog:read api:catalog:write")["access_token"]
    assert flow.v1(service, "me", token).json()["isAdmin"] is True
    assert code(flow.v1(service, "admin/users/list", token, {})) == (403, "missing_scope")
    explain = "permissions/listAuthorizedPrincipalsForResource"
    assert code(flow.v1(service, explain, token, {"nonsense": 1})) == (403, "missing_scope")


def test_taking_back_stops_every_token_at_once(app, ada, ben, pkce) -> None:
    """The client's codes too; what others allowed it, and what the person allowed others, goes on."""
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
    """Of everybody, of one client, of one person; ended for one person or for all, it counts at the next call."""
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
    """Without a session there is nothing to see; without the page's token, or for another client, nothing happens."""
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
