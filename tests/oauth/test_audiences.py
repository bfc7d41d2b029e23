"""Tokens for one audience: what v1 takes, /mcp refuses, and the reverse (RFC 8707, 9728)."""

from dataclasses import replace

import httpx
import pytest

from service.platform.errors import Unauthenticated
from service.platform.secrets import ACCESS_TOKEN, hash_secret
from tests.harness.services import RunningService
from tests.oauth.flow import App, Page, Person, Pkce, an_app, an_mcp_client, call_mcp, error, sent_back, v1, works
from tests.oauth.talking import send
from tests.service.directory import done

LOCAL = "http://127.0.0.1/callback"


def refused(service: RunningService, token: str) -> str:
    with pytest.raises(Unauthenticated) as caught:
        call_mcp(service, token)
    return caught.value.code


def test_a_token_is_for_one_audience_and_refreshing_it_keeps_that(standing) -> None:
    """Whether or not the client names it; what it names wrongly is refused, before anybody is asked."""
    service, ada = standing.service, standing.person()
    issuer = service.runtime.settings.issuer
    agent, app = an_mcp_client(service), standing.app
    for_api, for_mcp = f"{issuer}/api/v1", f"{issuer}/mcp"
    ours = ada.tokens(agent, resource=for_mcp, scope="api:catalog:read")
    ours = done(agent.refresh(ours["refresh_token"], resource=f"{for_mcp}/"))
    theirs = ada.tokens(app, resource=for_api)
    assert call_mcp(service, ours["access_token"]).email == ada.email
    assert refused(service, theirs["access_token"]) == "wrong_audience"
    assert works(service, theirs["access_token"])
    answer = v1(service, "me", ours["access_token"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "wrong_audience")
    for client, wrong in ((agent, for_api), (agent, "https://elsewhere.test/mcp"), (app, for_mcp)):
        assert sent_back(ada.open(client, resource=wrong))["error"] == "invalid_target"
    assert error(agent.refresh(ours["refresh_token"], resource=for_api)) == (400, "invalid_target")
    assert call_mcp(service, done(agent.refresh(ours["refresh_token"]))["access_token"])


def test_a_release_without_audiences_takes_nothing_of_a_client_for_mcp(app: App, ada: Person) -> None:
    """It knows tokens of v1 by their prefix, and secrets by their plain hash: neither is that of a client for /mcp."""
    agent = an_app(app.service, audience="mcp", scopes=["api:catalog:read"])
    assert agent.client_secret is not None
    tokens = ada.tokens(agent)
    tokens = done(agent.refresh(tokens["refresh_token"]))
    rotated = done(app.service.call("admin/oauthClients/rotateSecret", {"clientId": agent.client_id}))["clientSecret"]
    assert error(agent.refresh(tokens["refresh_token"]))[0] == 401
    assert done(replace(agent, client_secret=rotated).refresh(tokens["refresh_token"]))
    assert not tokens["access_token"].startswith(ACCESS_TOKEN)
    with app.service.owner_connection() as owner:
        kept = owner.execute("SELECT secret_hash FROM oauth_clients WHERE client_id = %s", [agent.client_id])
        assert kept.fetchone()[0] not in {hash_secret(agent.client_secret), hash_secret(rotated)}
        token = ada.tokens(app)["access_token"]
        owner.execute("UPDATE oauth_clients SET audience = 'mcp' WHERE client_id = %s", [app.client_id])
    assert v1(app.service, "me", token).json()["error"]["code"] == "wrong_audience"


def test_a_public_client_has_no_secret_and_any_port_of_its_machine(standing) -> None:
    """PKCE alone binds a code to it; a code of another client, and another address, are refused. v1 has none such."""
    service, ada, pkce = standing.service, standing.person(), Pkce()
    agent, other = an_mcp_client(service, LOCAL), an_mcp_client(service, LOCAL)
    redirect_uri = "http://127.0.0.1:49152/callback"
    answer = ada.allow(agent, pkce, redirect_uri=redirect_uri)
    code = sent_back(answer, redirect_uri)["code"]
    assert error(other.exchange(code, pkce, redirect_uri=redirect_uri)) == (400, "invalid_grant")
    assert error(agent.exchange(code, pkce, redirect_uri=LOCAL)) == (400, "invalid_grant")
    assert error(agent.exchange(code, pkce, redirect_uri=redirect_uri, client_secret="svc_cs_x"))[0] == 401
    assert error(agent.exchange(code, Pkce(), redirect_uri=redirect_uri)) == (400, "invalid_grant")
    tokens = done(agent.exchange(code, pkce, redirect_uri=redirect_uri))
    assert agent.revoke(tokens["refresh_token"]).status_code == 200
    assert refused(service, tokens["access_token"]) == "credential_revoked"
    for elsewhere in ("http://127.0.0.1:49152/other", "http://localhost:1/callback", "https://127.0.0.1/callback"):
        assert ada.open(agent, redirect_uri=elsewhere).status_code == 400
    public = {"name": "A", "redirectUris": [LOCAL], "scopes": ["api:catalog:read"], "isPublic": True}
    assert service.call("admin/oauthClients/create", public).status_code == 400
    answer = service.call("admin/oauthClients/rotateSecret", {"clientId": agent.client_id})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "public_client")


def test_a_public_client_of_this_machine_gets_nothing_unasked(standing) -> None:
    """Whatever listens there may name itself so (RFC 8252, section 8.6): who allowed it once is asked each time."""
    service, ada = standing.service, standing.person()
    agent, web = an_mcp_client(service, LOCAL), an_mcp_client(service)
    for client in (agent, web):
        assert "code" in sent_back(ada.allow(client), client.redirect_uri)
    assert "allow" in Page(ada.open(agent)).forms[0].buttons
    assert sent_back(ada.open(agent, prompt="none"), LOCAL)["error"] == "consent_required"
    assert "code" in sent_back(ada.open(web, prompt="none"))


ONE_AGENT = "api:agent:message:0197a000-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("registered", "given"),
    [(["api:catalog:read"], "api:catalog:read"), ([ONE_AGENT], ONE_AGENT), (["api:catalog:write"], None)],
)
def test_a_client_that_asks_for_all_that_mcp_describes_gets_what_is_its_own(standing, registered, given):
    """Clients don't know what they are registered for; the answer says which scopes they got (RFC 6749, 3.3)."""
    described = "api:catalog:read api:agent:message:* api:admin"
    agent = an_mcp_client(standing.service, scopes=registered)
    ada = standing.person()
    assert sent_back(ada.open(agent, scope=f"{registered[0]} api:everything"))["error"] == "invalid_scope"
    if given is None:
        assert sent_back(ada.open(agent, scope=described))["error"] == "invalid_scope"
    else:
        assert ada.tokens(agent, scope=described)["scope"] == given


def test_a_consent_taken_back_counts_at_the_next_call(service: RunningService, ada: Person) -> None:
    """Without its consent, a token for /mcp is worth nothing, whatever else is left of it; the refusal leads on."""
    agent = an_mcp_client(service)
    token = ada.tokens(agent)["access_token"]
    assert call_mcp(service, token).collection_ids is None
    page = ada.http.get("/account/consents")
    assert "An App" in Page(page).text
    assert "It was taken back" in Page(ada.follow(ada.press(page, "withdraw"))).text
    assert "It was taken back" not in Page(ada.http.get("/account/consents")).text
    assert refused(service, token) == "credential_revoked"
    assert "taken back, by the person or by an admin" in send(service, token, "ping").json()["error"]["message"]
    described = f'resource_metadata="{service.runtime.settings.issuer}/.well-known/oauth-protected-resource/mcp"'
    assert send(service, token, "ping").headers["WWW-Authenticate"] == f'Bearer error="invalid_token", {described}'
    assert send(service, None, "ping").headers["WWW-Authenticate"] == f"Bearer {described}"


def test_mcp_describes_itself_and_what_authorizes_for_it(standing) -> None:
    """A client finds both from the address alone, or from a refusal (RFC 9728, section 5; RFC 8414)."""
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
