"""v1: the operations of v0 for access tokens of its audience (RFC 8707, 9728) and their scopes alone."""

import socket
from dataclasses import replace

import httpx
import pytest

from carrel.wire.scopes import ApiScope
from service.platform import secrets
from service.platform.errors import Unauthenticated
from service.platform.secrets import ACCESS_TOKEN, hash_secret
from tests.harness.cases import cases
from tests.harness.requirements import REQUIREMENTS, V1_REQUIREMENTS
from tests.harness.services import RunningService
from tests.oauth import flow
from tests.oauth.flow import App, Page, Person, Pkce
from tests.oauth.talking import send
from tests.service.conversations import an_agent, deploy
from tests.service.directory import a_group, a_key, code, done, group, user
from tests.service.examples import EXAMPLES, V1_EXAMPLES, Owner, Things

READ, WRITE = "api:catalog:read", "api:catalog:write"


def outcome(response: httpx.Response) -> tuple[int, str | None]:
    body = response.json() if response.headers["Content-Type"] == "application/json" else {}
    return response.status_code, body.get("error", {}).get("code")


def ask(service: RunningService, operation: str, token: str, body: dict) -> httpx.Response:
    part, path, headers = EXAMPLES[operation].file, f"/api/v1/{operation}", {"Authorization": f"Bearer {token}"}
    if part is None:
        return service.http.post(path, json=body, headers=headers)
    return service.http.post(path, data=body, files={part: ("notes.txt", b"What was seen.")}, headers=headers)


@pytest.fixture(scope="module")
def admin(standing) -> Person:
    done(standing.service.call("admin/organization/update", {"serviceAccountsEnabled": True}))
    return Person(standing.service)


@pytest.fixture(scope="module")
def tokens(standing, admin: Person) -> dict[ApiScope, str]:
    return {scope: admin.tokens(standing.app, scope=scope.value)["access_token"] for scope in ApiScope}


@pytest.fixture(scope="module")
def lacking(standing, admin: Person) -> dict[ApiScope, str]:
    rest = {scope: " ".join(other for other in ApiScope if other != scope) for scope in ApiScope}
    return {scope: admin.tokens(standing.app, scope=others)["access_token"] for scope, others in rest.items()}


def test_every_operation_needs_its_scope(standing, tokens, lacking):
    """403 `missing_scope` even with all other scopes; with only the right scope the body is checked next."""
    for operation, requirement in REQUIREMENTS.items():
        wanted = requirement.api_scope
        for token in tokens.values() if wanted is None else [tokens[wanted]]:
            judged = outcome(ask(standing.service, operation, token, {"nonsense": 1}))
            assert judged in {(400, "invalid_request"), (400, "part_unknown")}, operation
        if wanted is not None:
            refused = ask(standing.service, operation, lacking[wanted], {"nonsense": 1})
            assert outcome(refused) == (403, "missing_scope"), operation
            assert wanted in refused.json()["error"]["message"], operation


@pytest.fixture(scope="module")
def nothing(standing) -> Things:
    return Things(Owner(standing.service, standing.service.api_key, "nothing"), "nobody@example.test").nowhere()


@pytest.mark.parametrize("operation", sorted(V1_REQUIREMENTS))
def test_every_operation_of_v1_alone_needs_its_scope(standing, tokens, lacking, nothing, operation):
    wanted, example = V1_REQUIREMENTS[operation].api_scope, V1_EXAMPLES[operation]

    def send(token: str, **more: object) -> httpx.Response:
        return example.send(standing.service, operation, token, nothing, **more)

    if wanted is not None:
        refused = [send(lacking[wanted]), send(lacking[wanted], nonsense=1)]
        assert [outcome(one) for one in refused] == [(403, "missing_scope")] * 2
    token = tokens[wanted or ApiScope.CATALOG_READ]
    assert outcome(send(token)) == (example.elsewhere or (200, None))
    if operation != "me":
        judged = send(token, nonsense=1)
        assert outcome(judged) == (400, "invalid_request")
        assert judged.json()["error"]["details"][0]["field"] == "nonsense"
    for credential in keys(standing.service):
        assert outcome(send(credential)) == (401, "wrong_version")


def keys(service: RunningService) -> list[str]:
    return [service.api_key, secrets.mint(secrets.SERVICE_ACCOUNT_TOKEN).value.get_secret_value()]


def test_what_is_anothers_on_v1_answers_like_what_there_is_not(standing, nothing: Things) -> None:
    service = standing.service
    key, eve = flow.elsewhere(service)
    token = eve.tokens(flow.an_app(service, api_key=key), scope="api:agent:message:*")["access_token"]
    things = Things(Owner(service, service.api_key, "harbour"), "nobody@example.test")
    things.agent_id = things.owner.agent(things.collection_id)
    things.owner.deploy(things.agent_id, user(service.admin_email))
    things.converse()
    for operation, example in V1_EXAMPLES.items():
        if example.elsewhere is not None:
            theirs = example.send(service, operation, token, things)
            unknown = example.send(service, operation, token, nothing)
            assert outcome(theirs) == example.elsewhere
            assert without_ids(theirs) == without_ids(unknown)


def without_ids(response: httpx.Response) -> str:
    return response.text.replace(response.headers["X-Request-Id"], "…")


def test_keys_and_service_account_tokens_are_refused_on_v1(standing, tokens: dict[ApiScope, str]) -> None:
    service, unknown = standing.service, secrets.mint(secrets.ACCESS_TOKEN).value.get_secret_value()
    for operation in REQUIREMENTS:
        for credential in keys(service):
            refused = ask(service, operation, credential, {})
            assert outcome(refused) == (401, "wrong_version"), operation
            assert "access token" in refused.json()["error"]["message"]
            assert refused.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
        assert code(service.call(operation, {}, api_key=unknown)) == (401, "wrong_version"), operation
    working = tokens[ApiScope.CATALOG_READ]
    assert code(service.call("catalog/listDocuments", {}, api_key=working)) == (401, "wrong_version")


@pytest.mark.parametrize(("authorization", "expected"), cases("without_a_usable_access_token_v1_is_401"))
def test_without_a_usable_access_token_v1_is_401(standing, authorization: str | None, expected: str) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    refused = httpx.post(f"{standing.service.base_url}/api/v1/catalog/listDocuments", content=b"[", headers=headers)
    assert outcome(refused) == (401, expected)


def test_nobody_acts_for_somebody_else_on_v1(standing, tokens: dict[ApiScope, str]) -> None:
    members = {name: EXAMPLES[name].acting for name in REQUIREMENTS if EXAMPLES[name].acting}
    assert members
    for operation, member in members.items():
        wanted = REQUIREMENTS[operation].api_scope
        assert wanted is not None, operation
        body = {"documentExternalId": "x", member: standing.service.admin_email}
        refused = ask(standing.service, operation, tokens[wanted], body)
        assert outcome(refused) == (400, "access_token_acts_as_its_user"), operation
        assert refused.json()["error"]["details"][0]["field"] == member


def test_a_person_does_with_a_token_what_they_may(service: RunningService, app: App, ada: Person, ben: Person) -> None:
    token = ada.tokens(app, scope=f"{READ} {WRITE}")["access_token"]
    other = ben.tokens(app, scope=f"{READ} {WRITE}")["access_token"]
    content = b"Otters cross the harbour at night."
    options = {"headers": {"Authorization": f"Bearer {token}"}, "files": {"file": ("notes.txt", content)}}
    form = {"documentExternalId": "otters", "awaitVectorStoreSync": "true"}
    uploaded = done(service.http.post("/api/v1/catalog/uploadFile", data=form, **options))
    asked = {"documentId": uploaded["documentId"]}
    found = done(flow.v1(service, "search/searchDocumentCatalog", token, {"searchQuery": "otters"}))
    assert [result["documentId"] for result in found["results"]] == [uploaded["documentId"]]
    assert done(flow.v1(service, "search/searchDocumentCatalog", other, {"searchQuery": "otters"}))["results"] == []
    assert flow.v1(service, "catalog/downloadDocument", token, asked).content == content
    assert outcome(flow.v1(service, "catalog/downloadDocument", other, asked)) == (404, "document_not_found")
    key = a_key(service, ownerEmail=ada.email)["apiKey"]
    assert done(service.call("catalog/getDocument", asked, api_key=key))["documentId"] == uploaded["documentId"]
    (entry,) = flow.entries(service, "document.create")
    assert entry["actor"]["email"] == ada.email


def test_pages_and_idempotency_keys_work_on_v1(service: RunningService, app: App) -> None:
    token = Person(service).tokens(app, scope="api:admin")["access_token"]
    once = {"headers": {"Idempotency-Key": "one"}}
    body = {"groups": [{"name": f"Group {number}"} for number in range(3)]}
    first = flow.v1(service, "admin/groups/upsert", token, body, **once)
    again = flow.v1(service, "admin/groups/upsert", token, body, **once)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == first.json()
    page = done(flow.v1(service, "admin/groups/list", token, {"pageSize": 2}))
    rest = done(flow.v1(service, "admin/groups/list", token, {"pageSize": 2, "pageToken": page["nextPageToken"]}))
    assert len(page["groups"] + rest["groups"]) == 3


def test_me_says_who_the_token_acts_for(service: RunningService, app: App, ada: Person) -> None:
    me = done(flow.v1(service, "me", ada.tokens(app, scope=f"{WRITE} {READ}")["access_token"]))
    assert {name: me[name] for name in ("email", "name", "isAdmin", "scopes")} == {
        "email": ada.email,
        "name": "Ada Lovelace",
        "isAdmin": False,
        "scopes": [READ, WRITE],
    }
    assert me["organizationName"] == done(service.call("admin/organization/get"))["name"]
    assert outcome(flow.v1(service, "me", service.api_key)) == (401, "wrong_version")
    assert service.http.get("/api/v0/me").status_code == 404


def test_a_body_that_nothing_reads_is_not_waited_for(standing) -> None:
    """A GET is answered before the body ends, which may never happen."""
    token = standing.person().tokens(standing.app, scope=READ)["access_token"]
    host, port = standing.service.base_url.removeprefix("http://").split(":")
    head = f"GET /api/v1/me HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked"
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(f"{head}\r\n\r\n5\r\nhello\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_token_for_one_agent_opens_the_door_to_messages_alone(standing) -> None:
    one = "api:agent:message:0197a000-0000-7000-8000-000000000001"
    token = standing.person().tokens(standing.app, scope=one)["access_token"]
    assert done(flow.v1(standing.service, "me", token))["scopes"] == [one]
    for operation in ("catalog/listDocuments", "catalog/planUpload", "admin/users/list"):
        assert outcome(flow.v1(standing.service, operation, token, {})) == (403, "missing_scope")


ALL = "api:agent:message:*"


def listed(service: RunningService, token: str, *, page_size: int = 2) -> list[dict]:
    agents: list[dict] = []
    parameters: dict = {"pageSize": page_size}
    while True:
        page = done(flow.v1(service, "agents", token, params=parameters))
        agents += page["agents"]
        if "nextPageToken" not in page:
            return agents
        parameters["pageToken"] = page["nextPageToken"]


def test_people_see_what_is_deployed_to_them(service: RunningService, app: App, ada: Person) -> None:
    token = ada.tokens(app, scope=ALL)["access_token"]
    assert done(flow.v1(service, "agents", token)) == {"agents": []}
    names = ["Bosun", "Cook", "Pilot", "Closed", "Deleted"]
    made = [an_agent(service, name=name, description=f"{name}!", instructions="Secret.") for name in names]
    crew = group(a_group(service, "Crew", user(ada.email)))
    for agent, principals in zip(made, ([user(ada.email)], [crew], [], [], [crew]), strict=True):
        deploy(service, agent, *principals, organizationWide=agent["name"] == "Pilot")
    done(service.call("admin/agents/delete", {"agentId": made[-1]["agentId"]}))
    shown = [{name: agent[name] for name in ("agentId", "name", "description")} for agent in made[:3]]
    assert listed(service, token) == listed(service, token, page_size=1) == listed(service, token, page_size=3) == shown
    deploy(service, made[0])
    assert listed(service, token) == shown[1:]


def test_an_admin_sees_no_more_than_is_deployed(service: RunningService, app: App) -> None:
    an_agent(service, name="Bosun")
    assert listed(service, Person(service).tokens(app, scope=f"{ALL} api:admin")["access_token"]) == []


def test_a_token_for_some_agents_shows_these_alone(service: RunningService, app: App, ada: Person) -> None:
    one, two, three = (an_agent(service, name=name) for name in ("One", "Two", "Three"))
    deploy(service, one, user(ada.email))
    deploy(service, two, user(ada.email))
    scopes = [f"api:agent:message:{agent['agentId']}" for agent in (one, two, three)]
    for wanted, expected in (
        (scopes[:1], ["One"]),
        (scopes[1:], ["Two"]),
        (scopes[2:], []),
        ([*scopes, ALL], ["One", "Two"]),
    ):
        token = ada.tokens(app, scope=" ".join(wanted))["access_token"]
        assert [agent["name"] for agent in listed(service, token)] == expected


@pytest.mark.parametrize(("parameters", "field"), cases("odd_parameters_are_refused_by_name"))
def test_odd_parameters_are_refused_by_name(standing, parameters: dict[str, str], field: str) -> None:
    token = standing.person().tokens(standing.app, scope=ALL)["access_token"]
    refused = flow.v1(standing.service, "agents", token, params=parameters)
    assert refused.status_code == 400
    assert [detail["field"] for detail in refused.json()["error"]["details"]] == [field]


LOCAL = "http://127.0.0.1/callback"


def refused(service: RunningService, token: str) -> str:
    with pytest.raises(Unauthenticated) as caught:
        flow.call_mcp(service, token)
    return caught.value.code


def test_a_token_is_for_one_audience_and_refreshing_it_keeps_that(standing) -> None:
    service, ada = standing.service, standing.person()
    issuer = service.runtime.settings.issuer
    agent, app = flow.an_mcp_client(service), standing.app
    for_api, for_mcp = f"{issuer}/api/v1", f"{issuer}/mcp"
    ours = ada.tokens(agent, resource=for_mcp, scope="api:catalog:read")
    ours = done(agent.refresh(ours["refresh_token"], resource=f"{for_mcp}/"))
    theirs = ada.tokens(app, resource=for_api)
    assert flow.call_mcp(service, ours["access_token"]).email == ada.email
    assert refused(service, theirs["access_token"]) == "wrong_audience"
    assert flow.works(service, theirs["access_token"])
    answer = flow.v1(service, "me", ours["access_token"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "wrong_audience")
    for client, wrong in ((agent, for_api), (agent, "https://elsewhere.test/mcp"), (app, for_mcp)):
        assert flow.sent_back(ada.open(client, resource=wrong))["error"] == "invalid_target"
    assert flow.error(agent.refresh(ours["refresh_token"], resource=for_api)) == (400, "invalid_target")
    assert flow.call_mcp(service, done(agent.refresh(ours["refresh_token"]))["access_token"])


def test_a_release_without_audiences_takes_nothing_of_a_client_for_mcp(app: App, ada: Person) -> None:
    """The release knows tokens of v1 by prefix, and secrets by plain hash; clients for /mcp have neither."""
    agent = flow.an_app(app.service, audience="mcp", scopes=["api:catalog:read"])
    assert agent.client_secret is not None
    tokens = ada.tokens(agent)
    tokens = done(agent.refresh(tokens["refresh_token"]))
    rotated = done(app.service.call("admin/oauthClients/rotateSecret", {"clientId": agent.client_id}))["clientSecret"]
    assert flow.error(agent.refresh(tokens["refresh_token"]))[0] == 401
    assert done(replace(agent, client_secret=rotated).refresh(tokens["refresh_token"]))
    assert not tokens["access_token"].startswith(ACCESS_TOKEN)
    with app.service.owner_connection() as owner:
        kept = owner.execute("SELECT secret_hash FROM oauth_clients WHERE client_id = %s", [agent.client_id])
        assert kept.fetchone()[0] not in {hash_secret(agent.client_secret), hash_secret(rotated)}
        token = ada.tokens(app)["access_token"]
        owner.execute("UPDATE oauth_clients SET audience = 'mcp' WHERE client_id = %s", [app.client_id])
    assert flow.v1(app.service, "me", token).json()["error"]["code"] == "wrong_audience"


def test_a_public_client_has_no_secret_and_any_port_of_its_machine(standing) -> None:
    service, ada, pkce = standing.service, standing.person(), Pkce()
    agent, other = flow.an_mcp_client(service, LOCAL), flow.an_mcp_client(service, LOCAL)
    redirect_uri = "http://127.0.0.1:49152/callback"
    answer = ada.allow(agent, pkce, redirect_uri=redirect_uri)
    code = flow.sent_back(answer, redirect_uri)["code"]
    assert flow.error(other.exchange(code, pkce, redirect_uri=redirect_uri)) == (400, "invalid_grant")
    moved = agent.exchange(code, pkce, redirect_uri=LOCAL)
    assert flow.error(moved) == (400, "invalid_grant")
    assert "same redirect_uri" in moved.json()["error_description"]
    assert flow.error(agent.exchange(code, pkce, redirect_uri=redirect_uri, client_secret="svc_cs_x"))[0] == 401
    assert flow.error(agent.exchange(code, Pkce(), redirect_uri=redirect_uri)) == (400, "invalid_grant")
    tokens = done(agent.exchange(code, pkce, redirect_uri=redirect_uri))
    assert agent.revoke(tokens["refresh_token"]).status_code == 200
    assert refused(service, tokens["access_token"]) == "credential_revoked"
    for address in ("http://127.0.0.1:49152/other", "http://localhost:1/callback", "https://127.0.0.1/callback"):
        assert ada.open(agent, redirect_uri=address).status_code == 400
    public = {"name": "A", "redirectUris": [LOCAL], "scopes": ["api:catalog:read"], "isPublic": True}
    assert service.call("admin/oauthClients/create", public).status_code == 400
    answer = service.call("admin/oauthClients/rotateSecret", {"clientId": agent.client_id})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "public_client")


def test_a_public_client_of_this_machine_gets_nothing_unasked(standing) -> None:
    """Any local program may use its name (RFC 8252, section 8.6), so each consent is asked again."""
    service, ada = standing.service, standing.person()
    agent, web = flow.an_mcp_client(service, LOCAL), flow.an_mcp_client(service)
    for client in (agent, web):
        assert "code" in flow.sent_back(ada.allow(client), client.redirect_uri)
    assert "allow" in Page(ada.open(agent)).forms[0].buttons
    assert flow.sent_back(ada.open(agent, prompt="none"), LOCAL)["error"] == "consent_required"
    assert "code" in flow.sent_back(ada.open(web, prompt="none"))


ONE_AGENT = "api:agent:message:0197a000-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("registered", "given"),
    [(["api:catalog:read"], "api:catalog:read"), ([ONE_AGENT], ONE_AGENT), (["api:catalog:write"], None)],
)
def test_a_client_that_asks_for_all_that_mcp_describes_gets_what_is_its_own(standing, registered, given):
    """Clients don't know their registration; the answer has the granted scopes (RFC 6749, 3.3)."""
    described = "api:catalog:read api:agent:message:* api:admin"
    agent = flow.an_mcp_client(standing.service, scopes=registered)
    ada = standing.person()
    assert flow.sent_back(ada.open(agent, scope=f"{registered[0]} api:everything"))["error"] == "invalid_scope"
    if given is None:
        assert flow.sent_back(ada.open(agent, scope=described))["error"] == "invalid_scope"
    else:
        assert ada.tokens(agent, scope=described)["scope"] == given


def test_a_consent_taken_back_counts_at_the_next_call(service: RunningService, ada: Person) -> None:
    agent = flow.an_mcp_client(service)
    token = ada.tokens(agent)["access_token"]
    assert flow.call_mcp(service, token).collection_ids is None
    page = ada.http.get("/account/consents")
    assert "An App" in Page(page).text
    assert "Access revoked." in Page(ada.follow(ada.press(page, "withdraw"))).text
    assert "Access revoked." not in Page(ada.http.get("/account/consents")).text
    assert refused(service, token) == "credential_revoked"
    assert "was revoked, by the person or by an admin" in send(service, token, "ping").json()["error"]["message"]
    described = f'resource_metadata="{service.runtime.settings.issuer}/.well-known/oauth-protected-resource/mcp"'
    assert send(service, token, "ping").headers["WWW-Authenticate"] == f'Bearer error="invalid_token", {described}'
    assert send(service, None, "ping").headers["WWW-Authenticate"] == f"Bearer {described}"


def test_mcp_describes_itself_and_what_authorizes_for_it(standing) -> None:
    """A client finds both from the address, or from a refusal (RFC 9728, section 5; RFC 8414)."""
    service = standing.service
    issuer, known = service.runtime.settings.issuer, f"{service.base_url}/.well-known"
    described = httpx.get(f"{known}/oauth-protected-resource/mcp").json()
    assert (described["resource"], described["authorization_servers"]) == (f"{issuer}/mcp", [issuer])
    assert "api:admin" not in described["scopes_supported"]
    assert httpx.get(f"{known}/oauth-protected-resource").json() == described
    assert httpx.get(f"{known}/oauth-protected-resource/mcp/").json() == described
    assert httpx.get(f"{known}/oauth-protected-resource/api/v1").status_code == 404
    server = httpx.get(f"{known}/oauth-authorization-server").json()
    assert httpx.get(f"{known}/openid-configuration").json() == server
    assert "none" in server["token_endpoint_auth_methods_supported"]
    assert server["code_challenge_methods_supported"] == ["S256"]
