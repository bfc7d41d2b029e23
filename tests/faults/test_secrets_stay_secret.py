"""Credentials and passwords exist only with their owner. A service with full logging sees secrets made, used, remade,
mistyped, misplaced, and lost. Then each is searched for, plain and encoded, in logs, storage and answers."""

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from time import monotonic, sleep
from urllib.parse import quote

import httpx
import pytest

from carrel.wire.scopes import Scope
from service.platform.postgres.host import own_binaries
from service.platform.postgres.server import SUPERUSER
from tests.harness.processes import ServiceProcess
from tests.harness.services import ADMIN_PASSWORD, API_KEY

# What people may see must be found, or the search finds nothing because it looks nowhere.
NAME = "The nightly load"
ADA = "ada@example.test"
PASSWORD, NEW_PASSWORD = "four-quinqueremes-of-nineveh", "from-distant-ophir-rowing-home"
LOOKUP = "permissions/listAuthorizedResources"
NOBODY = "01900000-0000-7000-8000-000000000000"


def needles(secret: str) -> set[bytes]:
    """Return a value, most of it, and both in the encodings of wire, logs and dumps."""
    most = secret.removeprefix("svc_key_").removeprefix("svc_sa_")[:24]
    headers = (f"Bearer {secret}", f"user:{secret}")
    encoded = {base64.b64encode(one.encode()).rstrip(b"=") for one in (secret, *headers)}
    return {most.encode(), quote(most).encode(), most.encode().hex().encode(), *encoded}


@dataclass
class SecretRecorder:
    """A service process, the secrets, and answers that should show no secret."""

    process: ServiceProcess
    secrets: list[str] = field(default_factory=lambda: [API_KEY, ADMIN_PASSWORD, PASSWORD, NEW_PASSWORD])
    answers: list[str] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)

    def send(self, method: str, path: str, *, credential: str = API_KEY, **options) -> httpx.Response:
        headers = {"Authorization": f"Bearer {credential}", **options.pop("headers", {})}
        response = self.process.http.request(method, path, headers=headers, **options)
        self.answers.append(f"{response.status_code} {response.headers.multi_items()} {response.text}")
        return response

    def call(self, operation: str, body: object, **options) -> httpx.Response:
        return self.send("POST", f"/api/v0/{operation}", json=body, **options)

    def call_ok(self, operation: str, body: object, **options) -> dict:
        response = self.call(operation, body, **options)
        assert response.status_code == 200, response.text
        return response.json()

    def create_secret(self, operation: str, body: object, *, member: str) -> dict:
        """Make a secret. The answer with the secret is not recorded; a retry must not show it."""
        once = {"headers": {"Idempotency-Key": f"make {len(self.secrets)}".replace(" ", "-")}}
        shown = self.call_ok(operation, body, **once)
        self.answers.pop()
        self.secrets.append(shown[member])
        assert self.call(operation, body, **once).status_code == 409
        return shown

    def given_away_by(self, text: bytes) -> list[str]:
        return [f"…{secret[-4:]}" for secret in self.secrets if any(one in text for one in needles(secret))]


@pytest.fixture(scope="module")
def life() -> Iterator[SecretRecorder]:
    """The whole life of the service up to the stop; the folder still exists."""
    with closing(ServiceProcess(CARREL_LOG_LEVEL="DEBUG", CARREL_RATE_LIMIT_FAILURES="0")) as process:
        process.start()
        life = SecretRecorder(process)
        tokens = make(life)
        for secret in life.secrets[:]:
            misplace(life, secret)
        lose(life, tokens)
        life.texts = {
            "the dump": dump(process),
            "the audit log": audit_log(life),
            "/metrics": life.send("GET", "/metrics").content,
            "/openapi.json": life.send("GET", "/openapi.json").content,
        }
        assert process.stop() == 0
        life.texts |= {"the log": process.log.read_bytes(), "the answers": "\n".join(life.answers).encode()}
        yield life


def make(life: SecretRecorder) -> list[str]:
    life.call_ok("admin/organization/update", {"serviceAccountsEnabled": True})
    life.call_ok("admin/users/upsert", {"users": [{"email": ADA, "name": "Ada", "password": PASSWORD}]})
    life.call_ok("admin/users/upsert", {"users": [{"email": ADA, "password": NEW_PASSWORD}]})
    account = life.call_ok("admin/serviceAccounts/create", {"displayName": NAME})["serviceAccountId"]
    keys = [
        life.create_secret("admin/apiKeys/create", {"name": NAME, "ownerEmail": ADA}, member="apiKey") for _ in range(2)
    ]
    body = {"serviceAccountId": account, "name": NAME, "description": NAME, "scopes": [one.value for one in Scope]}
    tokens = [life.create_secret("admin/serviceAccountTokens/mint", body, member="token") for _ in range(2)]
    values = [*(key["apiKey"] for key in keys), *(token["token"] for token in tokens)]
    for value in values:
        life.call_ok(LOOKUP, {"action": "READ"}, credential=value)
    group, kept = {"groups": [{"name": NAME}]}, {"headers": {"Idempotency-Key": "kept"}}
    assert life.call_ok("admin/groups/upsert", group, **kept) == life.call_ok("admin/groups/upsert", group, **kept)
    life.call_ok("admin/apiKeys/revoke", {"apiKeyId": keys[1]["apiKeyId"]})
    life.call_ok("admin/serviceAccountTokens/revoke", {"tokenId": tokens[1]["tokenId"]})
    for value in (keys[1]["apiKey"], tokens[1]["token"]):
        assert life.call(LOOKUP, {"action": "READ"}, credential=value).status_code == 401
    for operation in ("admin/apiKeys/list", "admin/serviceAccountTokens/list", "admin/users/list"):
        life.call_ok(operation, {"pageSize": 1000})
    return values


def misplace(life: SecretRecorder, secret: str) -> None:
    misplaced = [
        *in_bodies(life, secret),
        *in_uploads(life, secret),
        *in_addresses(life, secret),
        *in_headers(life, secret),
    ]
    # A name is repeated to who sent it, and a request's id is anyone's: a password can't be told from either.
    if secret.startswith("svc_"):
        misplaced += as_names(life, secret)
    assert {response.status_code // 100 for response in misplaced} == {4}


def as_names(life: SecretRecorder, secret: str) -> Iterator[httpx.Response]:
    reference = {"type": "user", "email": f"{secret}@example.test"}
    bodies: list[tuple[str, dict]] = [
        (LOOKUP, {"action": "READ", secret: secret}),
        ("catalog/planUpload", {"documents": [{"documentExternalId": "x", "fingerprint": "x", secret: secret}]}),
        ("admin/groups/upsert", {"groups": [{"name": "x", "members": [reference]}]}),
    ]
    yield from (life.call(operation, body) for operation, body in bodies)
    path, file = "/api/v0/catalog/uploadFile", ("notes.txt", b"x")
    yield life.send("POST", path, data={"documentExternalId": "x", secret: secret}, files={"file": file})
    yield life.send("POST", path, data={"documentExternalId": "x"}, files={secret: file})
    readers = {"documentExternalId": "x", "allowedUsersEmailAddresses": f"{secret}@example.test"}
    yield life.send("POST", path, data=readers, files={"file": file})
    yield life.call("catalog/getDocument", {"documentId": NOBODY}, headers={"X-Request-Id": secret})


def in_bodies(life: SecretRecorder, secret: str) -> Iterator[httpx.Response]:
    resource = {"resourceId": secret, "resourceType": "UPLOADED_DOCUMENT"}
    as_address = f"{secret}@example.test".replace(" ", "-")
    reference = {"type": "user", "email": ADA}
    bodies: list[tuple[str, dict]] = [
        (LOOKUP, {"action": "READ", "userEmail": secret}),
        (LOOKUP, {"action": "READ", "userEmail": as_address}),
        (LOOKUP, {"action": secret}),
        (LOOKUP, {"action": "READ", "pageToken": secret}),
        ("catalog/getDocument", {"documentId": secret}),
        ("catalog/listDocuments", {"pageSize": secret}),
        ("search/searchDocumentCatalog", {"searchQuery": "x", "searchOptions": {"mode": secret}}),
        ("search/searchDocumentCatalog", {"searchQuery": [secret]}),
        ("admin/grants/list", {"resource": resource}),
        ("admin/grants/set", {"resource": resource, "grants": [{"principal": reference, "role": "VIEWER"}]}),
        ("admin/users/upsert", {"users": [{"email": secret, "password": secret}]}),
        ("admin/users/upsert", {"users": [{"email": ADA, "password": f"{secret}\0"}]}),
        ("admin/users/upsert", {"users": [{"email": ADA, "password": secret * 100}]}),
        ("admin/users/upsert", {"users": [{"email": ADA, "password": [secret]}]}),
        ("admin/apiKeys/create", {"name": "x", "ownerEmail": as_address}),
        ("admin/apiKeys/revoke", {"apiKeyId": secret}),
        ("admin/serviceAccountTokens/mint", {"serviceAccountId": NOBODY, "name": "x", "scopes": [secret]}),
        ("admin/serviceAccountTokens/mint", {"serviceAccountId": NOBODY, "name": secret, "scopes": []}),
        ("admin/auditLog/query", {"from": secret}),
    ]
    yield from (life.call(operation, body) for operation, body in bodies)
    path = f"/api/v0/{LOOKUP}"
    for content in (secret, json.dumps(secret), f'{{"{secret}', f'{{"action": "{secret}\\u0000"}}'):
        yield life.send("POST", path, content=content.encode(), headers={"Content-Type": "application/json"})
    yield life.send("POST", path, content=secret.encode(), headers={"Content-Type": "text/plain"})


def in_uploads(life: SecretRecorder, secret: str) -> Iterator[httpx.Response]:
    path, file = "/api/v0/catalog/uploadFile", ("notes.txt", b"x")
    yield life.send("POST", path, data={"documentExternalId": "x"}, files={"file": (f"{secret}.pdf", b"%PDF-x")})
    fields = ("uploadAsUserEmail", "collectionId", "customMetadata", "allowedGroupIds", "allowedUsersEmailAddresses")
    for member in fields:
        yield life.send("POST", path, data={"documentExternalId": "x", member: secret}, files={"file": file})
    yield life.send(
        "POST", path, content=b"x", headers={"Content-Type": f"multipart/form-data; boundary={quote(secret)}"}
    )


def in_addresses(life: SecretRecorder, secret: str) -> Iterator[httpx.Response]:
    part = quote(secret)
    for path in (f"/{part}", f"/api/v0/{part}", f"/api/v0/catalog/{part}?key={part}", f"//{part}@example.test/"):
        yield life.send("POST", path, json={})
    yield life.send("POST", f"/api/v0/{LOOKUP}?access_token={part}", json={})
    yield life.send("GET", f"/api/v0/{LOOKUP}?access_token={part}")


def in_headers(life: SecretRecorder, secret: str) -> Iterator[httpx.Response]:
    malformed = (secret, f"Basic {secret}", f"Bearer Bearer {secret}", f"Bearer {secret} {secret}", f"Bearer {secret}x")
    for header in (*malformed, f"Bearer {secret[:-1]}", f"Bearer\t{secret}", f'Bearer "{secret}"'):
        yield life.send("POST", f"/api/v0/{LOOKUP}", json={"action": "READ"}, headers={"Authorization": header})
    for name in ("Idempotency-Key", "Cookie", "Referer", "User-Agent", "X-Forwarded-For"):
        body = {"groups": [{"name": "x", "id": NOBODY}]}
        yield life.call("admin/groups/upsert", body, headers={name: secret.replace(" ", "-")})
    yield life.send("POST", f"/api/v0/{LOOKUP}", content=b"{}", headers={"Content-Type": secret})
    yield life.send("POST", f"/api/v0/{LOOKUP}", content=b"{}", headers={"Content-Type": f"text/{quote(secret)}"})


def lose(life: SecretRecorder, values: list[str]) -> None:
    life.process.database_server().stop()
    upsert = {"users": [{"email": ADA, "password": NEW_PASSWORD}]}
    seen: set[int] = set()
    deadline = monotonic() + 60
    while 503 not in seen or life.call(LOOKUP, {"action": "READ"}).status_code != 200:
        assert monotonic() < deadline
        seen |= {life.call(LOOKUP, {"action": "READ"}, credential=value).status_code for value in values}
        seen.add(life.call("admin/users/upsert", upsert).status_code)
        sleep(0.1)


def dump(process: ServiceProcess) -> bytes:
    """Return the whole database as pg_dump writes it: kept responses and hashes as hexadecimal digits."""
    url = process.database_server().url(user=SUPERUSER).set(drivername="postgresql")
    command = [own_binaries() / "pg_dump", "--inserts", url.render_as_string(hide_password=False)]
    return subprocess.run(command, check=True, capture_output=True).stdout


def audit_log(life: SecretRecorder) -> bytes:
    response = life.call("admin/auditLog/query", {"pageSize": 1000})
    assert "nextPageToken" not in response.json()
    return response.content


PLACES = ["the log", "the answers", "the audit log", "the dump", "/metrics", "/openapi.json"]


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_in(life: SecretRecorder, place: str) -> None:
    assert len(life.secrets) == 8
    assert life.given_away_by(life.texts[place]) == []


def test_no_secret_is_on_the_disk(life: SecretRecorder) -> None:
    """Neither in the database, write-ahead log and log, nor in the uploads."""
    files = [path for path in life.process.data_dir.rglob("*") if path.is_file()]
    assert len(files) > 500
    given_away = {str(path): life.given_away_by(path.read_bytes()) for path in files}
    assert {path: found for path, found in given_away.items() if found} == {}


def test_the_search_looks_where_something_is(life: SecretRecorder) -> None:
    signs = {
        "the log": (b'"level": "debug"', b'"status": 401', b'"status": 503'),
        "the answers": (NAME.encode(), b"invalid_credential", b"unknown_user", b"already_done", b"Idempotent-Replayed"),
        "the audit log": (b"serviceAccountToken.mint", b"apiKey.revoke"),
        "the dump": (NAME.encode(), NAME.encode().hex().encode(), ADA.encode(), b"$argon2id$", b"INSERT INTO"),
        "/metrics": (b"carrel_requests_total",),
        "/openapi.json": (b"admin/apiKeys/create",),
    }
    assert signs.keys() == life.texts.keys() == set(PLACES)
    missing = {
        place: [sign for sign in found if sign.lower() not in life.texts[place].lower()]
        for place, found in signs.items()
    }
    assert {place: found for place, found in missing.items() if found} == {}
    assert life.given_away_by(json.dumps({"Authorization": f"Bearer {API_KEY}"}).encode()) == ["…key2"]
    assert life.given_away_by(base64.b64encode(f"user:{PASSWORD}".encode())) == ["…eveh"]
