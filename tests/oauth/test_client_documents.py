"""Clients that nobody registered: a document at an allowed host describes them, and nothing else is ever asked."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import httpx
import pytest

from service.identity_server.oauth import client_documents
from service.identity_server.oauth.client_documents import Unreadable, fetch_document, host_of
from service.platform import copies
from service.platform.errors import Unauthenticated
from tests.harness.http_servers import Handler, serving
from tests.harness.services import RunningService
from tests.oauth.flow import App, Person, Pkce, a_person, call_mcp, elsewhere, entries, error, sent_back
from tests.service.directory import done

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
    """A service whose operator lets it ask this machine, and a host that was asked nothing yet."""
    publisher.asked.clear()
    return make_service(webhook_allowed_hosts=["127.0.0.1"])


def allow(service: RunningService, *hosts: str, **options) -> dict:
    return done(service.call("admin/organization/update", {"clientDocumentHosts": list(hosts)}, **options))


def clients(service: RunningService, **options) -> list[dict]:
    return done(service.call("admin/oauthClients/list", {}, **options))["oauthClients"]


def test_a_document_of_an_allowed_host_is_the_registration(near: RunningService, publisher: Publisher) -> None:
    """Without an admin's word its host is never asked; taking the word back ends what came of it."""
    ada, address, pkce = a_person(near), publisher.publish(), Pkce()
    agent = App(near, address, None, "http://127.0.0.1:49152/callback")
    asked = {"scope": None, "resource": f"{near.runtime.settings.issuer}/mcp"}
    allow(near)
    assert (ada.open(agent, pkce, **asked).status_code, publisher.asked) == (403, [])
    assert allow(near, publisher.host)["clientDocumentHosts"] == [publisher.host]
    code = sent_back(ada.allow(agent, pkce, **asked), agent.redirect_uri)["code"]
    for other in (f"{address}?", "https://elsewhere.test/agent.json"):
        assert error(App(near, other, None).exchange(code, pkce)) == (400, "invalid_grant")
    tokens = done(agent.exchange(code, pkce))
    tokens = done(agent.refresh(tokens["refresh_token"]))
    assert call_mcp(near, tokens["access_token"]).scopes == {"api:catalog:read", "api:agent:message:*"}
    assert "Desk agent (127.0.0.1" in ada.http.get("/account/consents").text
    assert ada.open(agent, redirect_uri="http://127.0.0.1:49152/other").status_code == 400
    assert publisher.asked == ["/agent.json"]
    [listed] = clients(near)
    assert (listed["documentUrl"], listed["isPublic"], listed["audience"]) == (address, True, "mcp")
    assert ada.open(replace(agent, client_id=listed["clientId"]), pkce, **asked).status_code == 400
    assert error(agent.exchange("svc_ac_unknown", pkce)) == (400, "invalid_grant")
    assert agent.revoke("svc_rt_unknown").status_code == 200
    assert error(agent.revoke("svc_rt_unknown", client_secret="x"))[0] == 401
    allow(near)
    assert error(agent.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert agent.revoke(tokens["refresh_token"]).status_code == 200
    assert ada.open(agent, pkce, **asked).status_code == 403


def test_a_host_that_is_taken_away_meanwhile_describes_nothing(near: RunningService, publisher: Publisher) -> None:
    """A document that was being fetched then adds no client, which nothing would end any more."""
    ada, agent = a_person(near), App(near, publisher.publish("/late.json"), None, LOCAL)
    allow(near, publisher.host)
    publisher.meanwhile.append(lambda: allow(near))
    assert ada.open(agent).status_code == 403
    assert clients(near) == []


def test_what_documents_describe_is_audited_and_nobodys_to_change(near: RunningService, publisher: Publisher) -> None:
    """The document's host says it all, and whoever takes the host away ends it; scopes alone are an admin's word."""
    allow(near, publisher.host)
    ada, address = a_person(near), publisher.publish("/audited.json")
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
        [entry] = [one for one in entries(near, action) if one["details"].get("documentUrl") == address]
        assert (entry.get("actor"), entry["details"]["documentUrl"]) == (None, address)
    named = {"clientId": client["clientId"]}
    for path, fields in (("update", {"name": "Mine"}), ("update", {"redirectUris": [f"{LOCAL}/2"]}), ("delete", {})):
        answer = near.call(f"admin/oauthClients/{path}", named | fields)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "described_client")
    assert done(near.call("admin/oauthClients/update", named | {"scopes": ["api:catalog:read"]}))["scopes"]
    allow(near)
    deleted = entries(near, "oauthClient.delete")[0]
    assert (deleted["actor"]["email"], deleted["details"]) == (near.admin_email, {"documentUrl": address})


def test_documents_are_asked_for_in_vain_so_often_alone(make_service, publisher):
    """Whoever sends the service after what isn't there has to wait then, as after refused sign-ins."""
    service = make_service(webhook_allowed_hosts=["127.0.0.1"], rate_limit_failures=2)
    allow(service, publisher.host)
    publisher.asked.clear()
    agent = App(service, f"http://{publisher.host}/none.json", None, LOCAL)
    assert [Person(service).open(agent).status_code for _ in range(5)][-1] == 429
    assert len(publisher.asked) <= 3


def test_few_documents_are_fetched_at_once_and_failures_are_remembered(near, publisher, monkeypatch):
    """Two who come at once with one client make one fetch; beyond the most at once, people are asked to come again."""
    allow(near, publisher.host)
    monkeypatch.setattr(copies, "ERROR_SECONDS", 60.0)
    agent = App(near, publisher.publish("/kept.json", status=500), None, LOCAL)
    assert [Person(near).open(agent).status_code for _ in range(3)] == [400, 400, 400]
    assert publisher.asked == ["/kept.json"]
    agent, inside = App(near, publisher.publish("/slow.json"), None, LOCAL), threading.Event()
    other = App(near, publisher.publish("/other.json"), None, LOCAL)
    monkeypatch.setattr(client_documents, "MOST_AT_ONCE", 1)
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
    """Each organization then has a client of its own, and one that takes the host away ends its own alone."""
    key, eve = elsewhere(near)
    agent = App(near, publisher.publish("/shared.json"), None, LOCAL)
    allow(near, publisher.host)
    allow(near, publisher.host, api_key=key)
    tokens: list[str] = []
    for person, organization in ((a_person(near), "example.test"), (eve, "Other")):
        page = person.open(agent)
        assert (page.status_code, page.headers["Location"]) == (303, "../../account/sign-in")
        person.sign_in(person.follow(page), organization=organization)
        pkce = Pkce()
        code = sent_back(person.press(person.open(agent, pkce), "allow"), LOCAL)["code"]
        tokens.append(done(agent.exchange(code, pkce))["access_token"])
    both = [one for listed in (clients(near), clients(near, api_key=key)) for one in listed]
    assert len({one["clientId"] for one in both if one["documentUrl"] == agent.client_id}) == 2
    assert call_mcp(near, tokens[1]).email == eve.email
    allow(near)
    assert call_mcp(near, tokens[1]).email == eve.email
    with pytest.raises(Unauthenticated):
        call_mcp(near, tokens[0])


def test_two_who_change_the_hosts_at_once_lose_nothing(near: RunningService) -> None:
    """Each adds or takes away what they mean, whatever the list was when they read it; a hundred hosts are the most."""
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
    ada, agent = a_person(near), App(near, publisher.publish("/case.json"), None, LOCAL)
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
        ({"body": b"[1]"}, "no JSON object"),
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
