"""v1: the operations of v0 mounted again, for access tokens and their scopes alone."""

import socket

import httpx
import pytest

from carrel.wire.scopes import ApiScope
from service.platform import secrets
from tests.harness.requirements import REQUIREMENTS, V1_REQUIREMENTS
from tests.harness.services import RunningService
from tests.oauth.flow import App, Person, an_app, elsewhere, entries, v1
from tests.service.directory import a_key, code, done, user
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
    """403 `missing_scope` naming it, with all others; with it alone the body is what is judged next."""
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
    """403 without it, whatever is asked; then what is asked for is judged, then whether it is there. No key works."""
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
    """To a person of another organization, with a token of theirs: agents, jobs, conversations. To the byte."""
    service = standing.service
    key, eve = elsewhere(service)
    token = eve.tokens(an_app(service, api_key=key), scope="api:agent:message:*")["access_token"]
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
    """401 `wrong_version`, which says what works there; so is an access token on v0, whatever its person may do."""
    service, unknown = standing.service, secrets.mint(secrets.ACCESS_TOKEN).value.get_secret_value()
    for operation in REQUIREMENTS:
        for credential in keys(service):
            refused = ask(service, operation, credential, {})
            assert outcome(refused) == (401, "wrong_version"), operation
            assert "access token" in refused.json()["error"]["message"]
            assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert code(service.call(operation, {}, api_key=unknown)) == (401, "wrong_version"), operation
    working = tokens[ApiScope.CATALOG_READ]
    assert code(service.call("catalog/listDocuments", {}, api_key=working)) == (401, "wrong_version")


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (None, "missing_credential"),
        ("Bearer", "malformed_authorization"),
        ("Bearer nonsense", "invalid_credential"),
        ("Bearer svc_rt_" + "x" * 38, "invalid_credential"),
        ("Bearer svc_at_" + "x" * 38, "invalid_credential"),
    ],
)
def test_without_a_usable_access_token_v1_is_401(standing, authorization: str | None, expected: str) -> None:
    """In the shape of every error, before the body is read."""
    headers = {} if authorization is None else {"Authorization": authorization}
    refused = httpx.post(f"{standing.service.base_url}/api/v1/catalog/listDocuments", content=b"[", headers=headers)
    assert outcome(refused) == (401, expected)


def test_nobody_acts_for_somebody_else_on_v1(standing, tokens: dict[ApiScope, str]) -> None:
    """Every member or part that names a user on v0 is a 400, the admin's own address too."""
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
    """Upload, search, download, and nothing of what is somebody else's: the same rules on both mounts."""
    token = ada.tokens(app, scope=f"{READ} {WRITE}")["access_token"]
    other = ben.tokens(app, scope=f"{READ} {WRITE}")["access_token"]
    content = b"Otters cross the harbour at night."
    options = {"headers": {"Authorization": f"Bearer {token}"}, "files": {"file": ("notes.txt", content)}}
    form = {"documentExternalId": "otters", "awaitVectorStoreSync": "true"}
    uploaded = done(service.http.post("/api/v1/catalog/uploadFile", data=form, **options))
    asked = {"documentId": uploaded["documentId"]}
    found = done(v1(service, "search/searchDocumentCatalog", token, {"searchQuery": "otters"}))
    assert [result["documentId"] for result in found["results"]] == [uploaded["documentId"]]
    assert done(v1(service, "search/searchDocumentCatalog", other, {"searchQuery": "otters"}))["results"] == []
    assert v1(service, "catalog/downloadDocument", token, asked).content == content
    assert outcome(v1(service, "catalog/downloadDocument", other, asked)) == (404, "document_not_found")
    key = a_key(service, ownerEmail=ada.email)["apiKey"]
    assert done(service.call("catalog/getDocument", asked, api_key=key))["documentId"] == uploaded["documentId"]
    (entry,) = entries(service, "document.create")
    assert entry["actor"]["email"] == ada.email


def test_pages_and_idempotency_keys_work_on_v1(service: RunningService, app: App) -> None:
    token = Person(service).tokens(app, scope="api:admin")["access_token"]
    once = {"headers": {"Idempotency-Key": "one"}}
    body = {"groups": [{"name": f"Group {number}"} for number in range(3)]}
    first = v1(service, "admin/groups/upsert", token, body, **once)
    again = v1(service, "admin/groups/upsert", token, body, **once)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == first.json()
    page = done(v1(service, "admin/groups/list", token, {"pageSize": 2}))
    rest = done(v1(service, "admin/groups/list", token, {"pageSize": 2, "pageToken": page["nextPageToken"]}))
    assert len(page["groups"] + rest["groups"]) == 3


def test_me_says_who_the_token_acts_for(service: RunningService, app: App, ada: Person) -> None:
    """Any access token may ask; nobody else, and not on v0."""
    me = done(v1(service, "me", ada.tokens(app, scope=f"{WRITE} {READ}")["access_token"]))
    assert {name: me[name] for name in ("email", "name", "isAdmin", "scopes")} == {
        "email": ada.email,
        "name": "Ada Lovelace",
        "isAdmin": False,
        "scopes": [READ, WRITE],
    }
    assert me["organizationName"] == done(service.call("admin/organization/get"))["name"]
    assert outcome(v1(service, "me", service.api_key)) == (401, "wrong_version")
    assert service.http.get("/api/v0/me").status_code == 404


def test_a_body_that_nothing_reads_is_not_waited_for(standing) -> None:
    """A GET is answered before its body ends, which might be without an end."""
    token = standing.person().tokens(standing.app, scope=READ)["access_token"]
    host, port = standing.service.base_url.removeprefix("http://").split(":")
    head = f"GET /api/v1/me HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked"
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(f"{head}\r\n\r\n5\r\nhello\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_token_for_one_agent_opens_the_door_to_messages_alone(standing) -> None:
    one = "api:agent:message:0197a000-0000-7000-8000-000000000001"
    token = standing.person().tokens(standing.app, scope=one)["access_token"]
    assert done(v1(standing.service, "me", token))["scopes"] == [one]
    for operation in ("catalog/listDocuments", "catalog/planUpload", "admin/users/list"):
        assert outcome(v1(standing.service, operation, token, {})) == (403, "missing_scope")
