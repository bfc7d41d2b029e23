"""Applications: registration, visibility, and clients described by documents."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import httpx
import pytest

from service.identity_server.oauth import client_documents
from service.identity_server.oauth.client_documents import Unreadable, fetch_document, host_of
from service.platform import copies
from service.platform.errors import Unauthenticated
from tests.harness.cases import cases
from tests.harness.http_servers import Handler, serving
from tests.harness.services import RunningService
from tests.oauth import flow
from tests.oauth.flow import CALLBACK, SCOPE, App, Person, Pkce
from tests.oauth.test_races import meanwhile, until_waiting
from tests.service.directory import code, done, organization_id, walk

FIELDS = {"name": "Reports", "redirectUris": [CALLBACK], "scopes": [SCOPE]}


def test_a_client_an_admin_creates_is_approved_and_its_secret_shown_once(service: RunningService) -> None:
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
    (entry,) = flow.entries(service, "oauthClient.create")
    assert entry["target"] == {"type": "oauthClient", "id": client["clientId"], "name": client["name"]}
    assert entry["details"] == {"scopes": [SCOPE], "redirectUris": [CALLBACK], "audience": "api"}


def test_a_client_a_member_asks_for_can_do_nothing_until_an_admin_approves_it(app: App, ada: Person) -> None:
    token = ada.tokens(app)["access_token"]
    client = done(flow.v1(app.service, "admin/oauthClients/request", token, FIELDS))
    assert client["status"] == "pending"
    assert client["requestedBy"] == ada.email
    pending = App(app.service, client["clientId"], client["clientSecret"])
    refused = ada.open(pending)
    assert refused.status_code == 400
    assert "Location" not in refused.headers
    assert flow.error(pending.refresh("svc_rt_x")) == (401, "invalid_client")
    for operation, body in (("approve", {"clientId": client["clientId"]}), ("list", {})):
        assert code(flow.v1(app.service, f"admin/oauthClients/{operation}", token, body)) == (403, "missing_scope")
    approved = done(app.service.call("admin/oauthClients/approve", {"clientId": client["clientId"]}))
    assert approved["status"] == "approved"
    assert "clientSecret" not in approved
    assert flow.works(app.service, ada.tokens(pending)["access_token"])
    assert [len(flow.entries(app.service, f"oauthClient.{action}")) for action in ("request", "approve")] == [1, 1]
    done(app.service.call("admin/oauthClients/approve", {"clientId": client["clientId"]}))
    assert len(flow.entries(app.service, "oauthClient.approve")) == 1


def test_one_member_can_have_so_many_clients_wait(service: RunningService) -> None:
    ask = partial(service.call, "admin/oauthClients/request", FIELDS, api_key=service.new_user("ben@example.test"))
    for _ in range(24):
        done(ask())
    with ThreadPoolExecutor(2) as both, meanwhile(service, "LOCK TABLE oauth_clients IN SHARE MODE") as held:
        answers = [both.submit(ask) for _ in range(2)]
        until_waiting(held, *answers)
    assert sorted(answer.result().status_code for answer in answers) == [200, 409]
    assert code(ask()) == (409, "too_many_pending")
    waiting = walk(service, "admin/oauthClients/list", {"status": "pending"}, page_size=9)
    assert len(waiting) == 25
    done(service.call("admin/oauthClients/approve", {"clientId": waiting[0]["clientId"]}))
    done(ask())


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
    tokens = ada.tokens(app)
    rotated = done(service.call("admin/oauthClients/rotateSecret", {"clientId": app.client_id}))
    assert rotated["clientSecret"] != app.client_secret
    assert flow.error(app.refresh(tokens["refresh_token"])) == (401, "invalid_client")
    assert App(service, app.client_id, rotated["clientSecret"]).refresh(tokens["refresh_token"]).status_code == 200
    assert len(flow.entries(service, "oauthClient.rotateSecret")) == 1


def test_a_deleted_clients_tokens_stop_at_once(service: RunningService, app: App, ada: Person, pkce: Pkce) -> None:
    tokens = ada.tokens(app)
    unused = ada.code(app, pkce)
    assert flow.works(service, tokens["access_token"])
    done(service.call("admin/oauthClients/delete", {"clientId": app.client_id}))
    assert not flow.works(service, tokens["access_token"])
    assert flow.error(app.refresh(tokens["refresh_token"])) == (401, "invalid_client")
    assert flow.error(app.exchange(unused, pkce)) == (401, "invalid_client")
    assert ada.open(app).status_code == 400
    again = service.call("admin/oauthClients/delete", {"clientId": app.client_id})
    assert code(again) == (404, "oauth_client_not_found")
    assert len(flow.entries(service, "oauthClient.delete")) == 1


def test_a_scope_taken_from_a_client_stops_in_its_tokens(service: RunningService, app: App, ada: Person) -> None:
    tokens = ada.tokens(app, scope="api:catalog:read api:catalog:write")
    plan = {"documents": []}
    assert flow.v1(service, "catalog/planUpload", tokens["access_token"], plan).status_code != 403
    changed = {"clientId": app.client_id, "scopes": ["api:catalog:read"], "name": "Renamed"}
    assert done(service.call("admin/oauthClients/update", changed))["scopes"] == ["api:catalog:read"]
    assert code(flow.v1(service, "catalog/planUpload", tokens["access_token"], plan)) == (403, "missing_scope")
    assert flow.v1(service, "catalog/listDocuments", tokens["access_token"], {}).status_code == 200
    assert flow.sent_back(ada.open(app, scope="api:catalog:write"))["error"] == "invalid_scope"
    assert flow.error(app.refresh(tokens["refresh_token"], scope="api:catalog:write")) == (400, "invalid_scope")
    assert done(app.refresh(tokens["refresh_token"]))["scope"] == "api:catalog:read"
    (entry,) = flow.entries(service, "oauthClient.update")
    assert "Renamed" not in str(entry["details"])


def test_a_code_gives_what_the_client_is_still_registered_for(service: RunningService, app: App, ada: Person) -> None:
    one = "api:agent:message:0197a000-0000-7000-8000-000000000001"
    first, second = Pkce(), Pkce()
    codes = [ada.code(app, pkce, scope="api:agent:message:* api:catalog:write") for pkce in (first, second)]
    done(service.call("admin/oauthClients/update", {"clientId": app.client_id, "scopes": [one, "api:catalog:read"]}))
    tokens = done(app.exchange(codes[0], first))
    assert tokens["scope"] == one
    assert done(flow.v1(service, "me", tokens["access_token"]))["scopes"] == [one]
    done(service.call("admin/oauthClients/update", {"clientId": app.client_id, "scopes": ["api:catalog:read"]}))
    assert flow.error(app.exchange(codes[1], second)) == (400, "invalid_scope")
    assert flow.error(app.refresh(tokens["refresh_token"])) == (400, "invalid_scope")
    assert code(flow.v1(service, "catalog/listDocuments", tokens["access_token"], {})) == (403, "missing_scope")


def test_a_redirect_uri_taken_from_a_client_is_unproven_at_once(service: RunningService, app: App, ada: Person) -> None:
    other = "https://new.example.test/callback"
    done(service.call("admin/oauthClients/update", {"clientId": app.client_id, "redirectUris": [other]}))
    assert "Location" not in ada.open(app).headers
    assert "code" in flow.sent_back(ada.allow(app, redirect_uri=other), to=other)


def test_another_organization_has_clients_and_sessions_of_its_own(app: App, ada: Person) -> None:
    other, eve = flow.elsewhere(app.service)
    assert done(app.service.call("admin/oauthClients/list", api_key=other))["oauthClients"] == []
    assert "is wrong" in eve.sign_in(eve.open(app)).text
    ada.tokens(app)
    assert "Sign in to Other" in ada.open(flow.an_app(app.service, api_key=other)).text


def last_use(service: RunningService):
    [consent] = done(service.call("admin/oauthClients/listConsents", {}))["consents"]
    return consent.get("lastUsedAt")


def test_what_is_needed_no_more_is_removed(service, app, ada, purge):
    def kept_rows() -> list[int]:
        tables = ("oauth_codes", "oauth_access_tokens", "oauth_refresh_tokens", "oauth_token_families")
        with service.owner_connection() as connection:
            found = (connection.execute(f"SELECT FROM {table} WHERE organization_id = %s", [here]) for table in tables)
            return [one.rowcount for one in found]

    here = organization_id(service)
    assert flow.works(service, ada.tokens(app)["access_token"])
    used_at = last_use(service)
    assert used_at is not None
    ada.code(app, Pkce())
    flow.later(service, days=20)
    kept = ada.tokens(app)
    flow.later(service, days=20)
    purge()
    assert kept_rows() == [1, 0, 1, 1]
    assert last_use(service) == used_at
    assert flow.works(service, done(app.refresh(kept["refresh_token"]))["access_token"])
    used_again_at = last_use(service)
    assert used_again_at > used_at
    flow.later(service, days=40)
    purge()
    assert last_use(service) == used_again_at
    assert kept_rows()[0] == 0


def test_strangers_learn_nothing_of_clients(standing) -> None:
    def told(**wrong: str) -> str:
        response = standing.person().open(standing.app, **wrong)
        assert response.status_code == 400
        return response.text.replace(response.headers["X-Request-Id"], "")

    assert told(client_id="0197a000-0000-7000-8000-000000000000") == told(redirect_uri="https://evil.test/")


LOCAL = "http://127.0.0.1/callback"


@dataclass
class Publisher:
    """A host of documents; `asked` are requested paths; `meanwhile` runs once before the next answer."""

    host: str = ""
    asked: list[str] = field(default_factory=list)
    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)

    def publish(self, path: str = "/agent.json", *, body: bytes | None = None, status: int = 200, **changes) -> str:
        address = f"http://{self.host}{path}"
        document = {"client_id": address, "client_name": "Desk agent", "redirect_uris": [LOCAL], **changes}
        kind = {"Content-Type": "application/json"} | changes.pop("headers", {})
        self.answers[path] = (status, kind, json.dumps(document).encode() if body is None else body)
        return address


@pytest.fixture(scope="module")
def publisher() -> Iterator[Publisher]:
    publisher = Publisher()

    class Documents(Handler):
        def answer(self, _body: bytes) -> None:
            publisher.asked.append(self.path)
            while publisher.meanwhile:
                publisher.meanwhile.pop()()
            status, headers, body = publisher.answers.get(self.path, (404, {}, b""))
            self.respond(status, body, **headers)

    with serving(Documents) as url:
        publisher.host = url.removeprefix("http://")
        yield publisher


@pytest.fixture
def near(make_service: Callable[..., RunningService], publisher: Publisher) -> RunningService:
    """A service allowed to fetch from this machine, and a host without requests so far."""
    publisher.asked.clear()
    return make_service(webhook_allowed_hosts=["127.0.0.1"])


def allow(service: RunningService, *hosts: str, **options) -> dict:
    return done(service.call("admin/organization/update", {"clientDocumentHosts": list(hosts)}, **options))


def clients(service: RunningService, **options) -> list[dict]:
    return done(service.call("admin/oauthClients/list", {}, **options))["oauthClients"]


def test_a_document_of_an_allowed_host_is_the_registration(near: RunningService, publisher: Publisher) -> None:
    ada, address, pkce = flow.a_person(near), publisher.publish(), Pkce()
    agent = App(near, address, None, "http://127.0.0.1:49152/callback")
    asked = {"scope": None, "resource": f"{near.runtime.settings.issuer}/mcp"}
    allow(near)
    assert (ada.open(agent, pkce, **asked).status_code, publisher.asked) == (403, [])
    assert allow(near, publisher.host)["clientDocumentHosts"] == [publisher.host]
    code = flow.sent_back(ada.allow(agent, pkce, **asked), agent.redirect_uri)["code"]
    for other in (f"{address}?", "https://elsewhere.test/agent.json"):
        assert flow.error(App(near, other, None).exchange(code, pkce)) == (400, "invalid_grant")
    tokens = done(agent.exchange(code, pkce))
    tokens = done(agent.refresh(tokens["refresh_token"]))
    assert flow.call_mcp(near, tokens["access_token"]).scopes == {"api:catalog:read", "api:agent:message:*"}
    assert "Desk agent (127.0.0.1" in ada.http.get("/account/consents").text
    assert ada.open(agent, redirect_uri="http://127.0.0.1:49152/other").status_code == 400
    assert publisher.asked == ["/agent.json"]
    [listed] = clients(near)
    assert (listed["documentUrl"], listed["isPublic"], listed["audience"]) == (address, True, "mcp")
    assert ada.open(replace(agent, client_id=listed["clientId"]), pkce, **asked).status_code == 400
    assert flow.error(agent.exchange("svc_ac_unknown", pkce)) == (400, "invalid_grant")
    assert agent.revoke("svc_rt_unknown").status_code == 200
    assert flow.error(agent.revoke("svc_rt_unknown", client_secret="x"))[0] == 401
    allow(near)
    assert flow.error(agent.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert agent.revoke(tokens["refresh_token"]).status_code == 200
    assert ada.open(agent, pkce, **asked).status_code == 403


def test_a_host_that_is_taken_away_meanwhile_describes_nothing(near: RunningService, publisher: Publisher) -> None:
    """Otherwise the client could not be removed any more."""
    ada, agent = flow.a_person(near), App(near, publisher.publish("/late.json"), None, LOCAL)
    allow(near, publisher.host)
    publisher.meanwhile.append(lambda: allow(near))
    assert ada.open(agent).status_code == 403
    assert clients(near) == []


def test_what_documents_describe_is_audited_and_nobodys_to_change(near: RunningService, publisher: Publisher) -> None:
    allow(near, publisher.host)
    ada, address = flow.a_person(near), publisher.publish("/audited.json")
    agent = App(near, address, None, LOCAL)
    ada.allow(agent)
    [client] = clients(near)
    assert client["requestedBy"] == ""
    publisher.publish("/audited.json", client_name="Other")
    with near.owner_connection() as owner:
        for _ in range(2):
            owner.execute("UPDATE oauth_clients SET document_fresh_until = now()")
            ada.open(agent)
    for action in ("oauthClient.create", "oauthClient.update"):
        [entry] = [one for one in flow.entries(near, action) if one["details"].get("documentUrl") == address]
        assert (entry.get("actor"), entry["details"]["documentUrl"]) == (None, address)
    named = {"clientId": client["clientId"]}
    for path, fields in (("update", {"name": "Mine"}), ("update", {"redirectUris": [f"{LOCAL}/2"]}), ("delete", {})):
        answer = near.call(f"admin/oauthClients/{path}", named | fields)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "described_client")
    assert done(near.call("admin/oauthClients/update", named | {"scopes": ["api:catalog:read"]}))["scopes"]
    allow(near)
    deleted = flow.entries(near, "oauthClient.delete")[0]
    assert (deleted["actor"]["email"], deleted["details"]) == (near.admin_email, {"documentUrl": address})


def test_documents_are_asked_for_in_vain_so_often_alone(make_service, publisher):
    """Senders must wait after too many missing documents, as after refused sign-ins."""
    service = make_service(webhook_allowed_hosts=["127.0.0.1"], rate_limit_failures=2)
    allow(service, publisher.host)
    publisher.asked.clear()
    agent = App(service, f"http://{publisher.host}/none.json", None, LOCAL)
    assert [Person(service).open(agent).status_code for _ in range(5)][-1] == 429
    assert len(publisher.asked) <= 3


def test_few_documents_are_fetched_at_once_and_failures_are_remembered(near, publisher, monkeypatch):
    allow(near, publisher.host)
    monkeypatch.setattr(copies, "ERROR_SECONDS", 60.0)
    agent = App(near, publisher.publish("/kept.json", status=500), None, LOCAL)
    assert [Person(near).open(agent).status_code for _ in range(3)] == [400, 400, 400]
    assert publisher.asked == ["/kept.json"]
    agent, inside = App(near, publisher.publish("/slow.json"), None, LOCAL), threading.Event()
    other = App(near, publisher.publish("/other.json"), None, LOCAL)
    monkeypatch.setattr(client_documents, "_FETCHES", asyncio.Semaphore(1))
    refused: list[httpx.Response] = []

    def come_meanwhile() -> None:
        inside.set()
        refused.append(Person(near).open(other))

    publisher.asked.clear()
    publisher.meanwhile.append(come_meanwhile)
    with ThreadPoolExecutor(2) as both:
        first = both.submit(Person(near).open, agent)
        assert inside.wait(10)
        assert [first.result(20).status_code, Person(near).open(agent).status_code] == [200, 200]
    assert publisher.asked == ["/slow.json"]
    assert (refused[0].status_code, refused[0].headers["Retry-After"]) == (503, "10")
    assert Person(near).open(other).status_code == 200


def test_where_several_organizations_allow_a_host_people_sign_in_first(near, publisher):
    key, eve = flow.elsewhere(near)
    agent = App(near, publisher.publish("/shared.json"), None, LOCAL)
    allow(near, publisher.host)
    allow(near, publisher.host, api_key=key)
    tokens: list[str] = []
    for person, organization in ((flow.a_person(near), "example.test"), (eve, "Other")):
        page = person.open(agent)
        assert (page.status_code, page.headers["Location"]) == (303, "../../account/sign-in")
        person.sign_in(person.follow(page), organization=organization)
        pkce = Pkce()
        code = flow.sent_back(person.press(person.open(agent, pkce), "allow"), LOCAL)["code"]
        tokens.append(done(agent.exchange(code, pkce))["access_token"])
    both = [one for listed in (clients(near), clients(near, api_key=key)) for one in listed]
    assert len({one["clientId"] for one in both if one["documentUrl"] == agent.client_id}) == 2
    assert flow.call_mcp(near, tokens[1]).email == eve.email
    allow(near)
    assert flow.call_mcp(near, tokens[1]).email == eve.email
    with pytest.raises(Unauthenticated):
        flow.call_mcp(near, tokens[0])


def test_two_who_change_the_hosts_at_once_lose_nothing(near: RunningService) -> None:
    allow(near, "first.test")
    changes = ({"addedClientDocumentHosts": ["b.test"]}, {"addedClientDocumentHosts": ["a.test"]})
    changes += ({"removedClientDocumentHosts": ["first.test"]},)
    with ThreadPoolExecutor(3) as all_at_once:
        answers = list(all_at_once.map(lambda one: near.call("admin/organization/update", one).status_code, changes))
    assert answers == [200, 200, 200]
    assert done(near.call("admin/organization/get", {}))["clientDocumentHosts"] == ["a.test", "b.test"]
    many = {"addedClientDocumentHosts": [f"{number}.test" for number in range(99)]}
    assert near.call("admin/organization/update", many).status_code == 400
    allow(near)


def test_a_host_has_no_case(near: RunningService, publisher: Publisher) -> None:
    allow(near, publisher.host)
    ada, agent = flow.a_person(near), App(near, publisher.publish("/case.json"), None, LOCAL)
    ada.allow(agent)
    near.execute("UPDATE oauth_clients SET document_url = 'https://Agents.EXAMPLE.test/c'")
    allow(near, "agents.example.test")
    assert len(clients(near)) == 1
    allow(near)
    assert clients(near) == []


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"client_id": "https://elsewhere.test/agent.json"}, "client_id"),
        ({"body": b"<html>"}, "not JSON"),
        ({"body": b"[1]"}, "not a JSON object"),
        ({"body": b"[" * 60_000}, "not JSON"),
        ({"body": b" " * (client_documents.MOST_BYTES + 1)}, "larger"),
        ({"headers": {"Content-Type": "text/html"}}, "not JSON"),
        ({"status": 302, "headers": {"Location": "/agent.json"}}, "answers 302"),
        ({"status": 500}, "answers 500"),
        ({"redirect_uris": []}, "redirect_uris"),
        ({"redirect_uris": ["javascript:alert(1)", "http://evil.test/"]}, "redirect_uris"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "none"),
        ({"client_secret": "x"}, "none"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_document_that_is_none_is_refused(near, publisher, told, reason):
    address = publisher.publish("/odd.json", **told)
    publisher.asked.clear()
    with pytest.raises(Unreadable, match=reason):
        near.run(fetch_document(near.settings, address))
    assert publisher.asked == ["/odd.json"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1", "[::ffff:127.0.0.1]"]
)
def test_an_internal_address_is_never_asked(house: RunningService, publisher: Publisher, host: str) -> None:
    address = publisher.publish("/inside.json").replace("127.0.0.1", host)
    publisher.asked.clear()
    for scheme in ("http", "https"):
        with pytest.raises(Unreadable):
            house.run(fetch_document(house.settings, address.replace("http", scheme, 1)))
    assert publisher.asked == []


@pytest.mark.parametrize(
    "address", ["https://a", "https://a/", "https://u@a/c", "https://a/c#f", "https://a/../c", "ftp://a/c"]
)
def test_only_an_address_with_a_path_is_an_id(address: str) -> None:
    """draft-ietf-oauth-client-id-metadata-document, section 3."""
    assert host_of(address) is None
    assert host_of("https://A/c") == "a"
