"""admin/oauthClients: who may register an application, and what of it is ever shown."""

import pytest

from tests.harness.cases import cases
from tests.harness.services import RunningService
from tests.oauth.flow import (
    CALLBACK,
    SCOPE,
    App,
    Person,
    Pkce,
    an_app,
    elsewhere,
    entries,
    error,
    later,
    sent_back,
    v1,
    works,
)
from tests.service.directory import code, done, organization_id, walk

FIELDS = {"name": "Reports", "redirectUris": [CALLBACK], "scopes": [SCOPE]}


def test_a_client_an_admin_creates_is_approved_and_its_secret_shown_once(service: RunningService) -> None:
    """The response has it; the list, the audit log and a replay of the request have not."""
    once = {"headers": {"Idempotency-Key": "one"}}
    client = done(service.call("admin/oauthClients/create", FIELDS, **once))
    assert client["status"] == "approved"
    assert client["clientSecret"].startswith("svc_cs_")
    assert client["hint"] == client["clientSecret"][-4:]
    assert client["requestedBy"] == service.admin_email
    assert code(service.call("admin/oauthClients/create", FIELDS, **once)) == (409, "already_done")
    listed = service.call("admin/oauthClients/list")
    assert done(listed)["oauthClients"] == [{name: client[name] for name in client if name != "clientSecret"}]
    assert client["clientSecret"] not in service.call("admin/auditLog/query").text
    (entry,) = entries(service, "oauthClient.create")
    assert entry["target"] == {"type": "oauthClient", "id": client["clientId"], "name": client["name"]}
    assert entry["details"] == {"scopes": [SCOPE], "redirectUris": [CALLBACK], "audience": "api"}


def test_a_client_a_member_asks_for_can_do_nothing_until_an_admin_approves_it(app: App, ada: Person) -> None:
    """Neither does anybody see its consent page, nor does its secret prove anything."""
    token = ada.tokens(app)["access_token"]
    client = done(v1(app.service, "admin/oauthClients/request", token, FIELDS))
    assert client["status"] == "pending"
    assert client["requestedBy"] == ada.email
    pending = App(app.service, client["clientId"], client["clientSecret"])
    refused = ada.open(pending)
    assert refused.status_code == 400
    assert "Location" not in refused.headers
    assert error(pending.refresh("svc_rt_x")) == (401, "invalid_client")
    for operation, body in (("approve", {"clientId": client["clientId"]}), ("list", {})):
        assert code(v1(app.service, f"admin/oauthClients/{operation}", token, body)) == (403, "missing_scope")
    approved = done(app.service.call("admin/oauthClients/approve", {"clientId": client["clientId"]}))
    assert approved["status"] == "approved"
    assert "clientSecret" not in approved
    assert works(app.service, ada.tokens(pending)["access_token"])
    assert len(entries(app.service, "oauthClient.request")) == len(entries(app.service, "oauthClient.approve")) == 1
    done(app.service.call("admin/oauthClients/approve", {"clientId": client["clientId"]}))
    assert len(entries(app.service, "oauthClient.approve")) == 1


def test_one_member_can_have_so_many_clients_wait(service: RunningService) -> None:
    key = service.new_user("ben@example.test")
    for _ in range(25):
        done(service.call("admin/oauthClients/request", FIELDS, api_key=key))
    assert code(service.call("admin/oauthClients/request", FIELDS, api_key=key)) == (409, "too_many_pending")
    waiting = walk(service, "admin/oauthClients/list", {"status": "pending"}, page_size=9)
    assert len(waiting) == 25
    done(service.call("admin/oauthClients/approve", {"clientId": waiting[0]["clientId"]}))
    done(service.call("admin/oauthClients/request", FIELDS, api_key=key))


@pytest.mark.parametrize("redirect_uri", cases("redirect_uris_are_https_or_loopback"))
def test_redirect_uris_are_https_or_loopback(standing, redirect_uri: str) -> None:
    client = done(standing.service.call("admin/oauthClients/create", FIELDS | {"redirectUris": [redirect_uri]}))
    assert client["redirectUris"] == [redirect_uri]


@pytest.mark.parametrize(("why", "redirect_uris"), cases("other_redirect_uris_are_refused"))
def test_other_redirect_uris_are_refused(standing, why: str, redirect_uris: list[str]) -> None:
    for redirect_uri in redirect_uris:
        fields = FIELDS | {"redirectUris": [CALLBACK, redirect_uri]}
        refused = standing.service.call("admin/oauthClients/create", fields)
        assert code(refused) == (400, "invalid_request"), (why, redirect_uri)
        assert refused.json()["error"]["details"][0]["field"] == "redirectUris.1"


@pytest.mark.parametrize("scopes", [[], ["agent:message"], ["api:everything"], ["api:agent:message:x"], ["API:ADMIN"]])
def test_unknown_scopes_are_refused(standing, scopes: list[str]) -> None:
    refused = standing.service.call("admin/oauthClients/create", FIELDS | {"scopes": scopes})
    assert code(refused) == (400, "invalid_request")


def test_a_rotated_secret_stops_the_one_before_at_once(service: RunningService, app: App, ada: Person) -> None:
    """Codes and tokens stay: they are the people's, and need the new secret."""
    tokens = ada.tokens(app)
    rotated = done(service.call("admin/oauthClients/rotateSecret", {"clientId": app.client_id}))
    assert rotated["clientSecret"] != app.client_secret
    assert error(app.refresh(tokens["refresh_token"])) == (401, "invalid_client")
    assert App(service, app.client_id, rotated["clientSecret"]).refresh(tokens["refresh_token"]).status_code == 200
    assert len(entries(service, "oauthClient.rotateSecret")) == 1


def test_a_deleted_clients_tokens_stop_at_once(service: RunningService, app: App, ada: Person, pkce: Pkce) -> None:
    """So do its codes; and people see no consent page of it any more."""
    tokens = ada.tokens(app)
    unused = ada.code(app, pkce)
    assert works(service, tokens["access_token"])
    done(service.call("admin/oauthClients/delete", {"clientId": app.client_id}))
    assert not works(service, tokens["access_token"])
    assert error(app.refresh(tokens["refresh_token"])) == (401, "invalid_client")
    assert error(app.exchange(unused, pkce)) == (401, "invalid_client")
    assert ada.open(app).status_code == 400
    again = service.call("admin/oauthClients/delete", {"clientId": app.client_id})
    assert code(again) == (404, "oauth_client_not_found")
    assert len(entries(service, "oauthClient.delete")) == 1


def test_a_scope_taken_from_a_client_stops_in_its_tokens(service: RunningService, app: App, ada: Person) -> None:
    """The next request is refused, and so is asking for it anew; what is left goes on."""
    tokens = ada.tokens(app, scope="api:catalog:read api:catalog:write")
    plan = {"documents": []}
    assert v1(service, "catalog/planUpload", tokens["access_token"], plan).status_code != 403
    changed = {"clientId": app.client_id, "scopes": ["api:catalog:read"], "name": "Renamed"}
    assert done(service.call("admin/oauthClients/update", changed))["scopes"] == ["api:catalog:read"]
    assert code(v1(service, "catalog/planUpload", tokens["access_token"], plan)) == (403, "missing_scope")
    assert v1(service, "catalog/listDocuments", tokens["access_token"], {}).status_code == 200
    assert sent_back(ada.open(app, scope="api:catalog:write"))["error"] == "invalid_scope"
    assert error(app.refresh(tokens["refresh_token"], scope="api:catalog:write")) == (400, "invalid_scope")
    assert done(app.refresh(tokens["refresh_token"]))["scope"] == "api:catalog:read"
    (entry,) = entries(service, "oauthClient.update")
    assert "Renamed" not in str(entry["details"])


def test_a_code_gives_what_the_client_is_still_registered_for(service: RunningService, app: App, ada: Person) -> None:
    """One agent where it was all of them, what both allow; nothing where nothing is left, and never all it now may."""
    one = "api:agent:message:0197a000-0000-7000-8000-000000000001"
    first, second = Pkce(), Pkce()
    codes = [ada.code(app, pkce, scope="api:agent:message:* api:catalog:write") for pkce in (first, second)]
    done(service.call("admin/oauthClients/update", {"clientId": app.client_id, "scopes": [one, "api:catalog:read"]}))
    tokens = done(app.exchange(codes[0], first))
    assert tokens["scope"] == one
    assert done(v1(service, "me", tokens["access_token"]))["scopes"] == [one]
    done(service.call("admin/oauthClients/update", {"clientId": app.client_id, "scopes": ["api:catalog:read"]}))
    assert error(app.exchange(codes[1], second)) == (400, "invalid_scope")
    assert error(app.refresh(tokens["refresh_token"])) == (400, "invalid_scope")
    assert code(v1(service, "catalog/listDocuments", tokens["access_token"], {})) == (403, "missing_scope")


def test_a_redirect_uri_taken_from_a_client_is_unproven_at_once(service: RunningService, app: App, ada: Person) -> None:
    other = "https://new.example.test/callback"
    done(service.call("admin/oauthClients/update", {"clientId": app.client_id, "redirectUris": [other]}))
    assert "Location" not in ada.open(app).headers
    assert "code" in sent_back(ada.allow(app, redirect_uri=other), to=other)


def test_another_organization_has_clients_and_sessions_of_its_own(app: App, ada: Person) -> None:
    """Its admin doesn't see these, its people can't sign in to them, and a session is none there."""
    other, eve = elsewhere(app.service)
    assert done(app.service.call("admin/oauthClients/list", api_key=other))["oauthClients"] == []
    assert "is wrong" in eve.sign_in(eve.open(app)).text
    ada.tokens(app)
    assert "Sign in to Other" in ada.open(an_app(app.service, api_key=other)).text


def last_use(service: RunningService):
    [consent] = done(service.call("admin/oauthClients/listConsents", {}))["consents"]
    return consent.get("lastUsedAt")


def test_what_is_needed_no_more_is_removed(service, app, ada, purge):
    """What still works stays. When a client was last used is known from tokens that are gone, too."""

    def kept_rows() -> list[int]:
        tables = ("oauth_codes", "oauth_access_tokens", "oauth_refresh_tokens", "oauth_token_families")
        with service.owner_connection() as connection:
            found = (connection.execute(f"SELECT FROM {table} WHERE organization_id = %s", [here]) for table in tables)
            return [one.rowcount for one in found]

    here = organization_id(service)
    assert works(service, ada.tokens(app)["access_token"])
    used_at = last_use(service)
    assert used_at is not None
    ada.code(app, Pkce())
    later(service, days=20)
    kept = ada.tokens(app)
    later(service, days=20)
    purge()
    assert kept_rows() == [1, 0, 1, 1]
    assert last_use(service) == used_at
    assert works(service, done(app.refresh(kept["refresh_token"]))["access_token"])
    used_again_at = last_use(service)
    assert used_again_at > used_at
    later(service, days=40)
    purge()
    assert last_use(service) == used_again_at
    assert kept_rows()[0] == 0


def test_strangers_learn_nothing_of_clients(standing) -> None:
    """An unknown client's page and a wrong redirect URI's say the same."""

    def told(**wrong: str) -> str:
        response = standing.person().open(standing.app, **wrong)
        assert response.status_code == 400
        return response.text.replace(response.headers["X-Request-Id"], "")

    assert told(client_id="0197a000-0000-7000-8000-000000000000") == told(redirect_uri="https://evil.test/")
