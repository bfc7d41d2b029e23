"""Common rules for requests: the order of checks, errors with helpful names, an id, and limits."""

import contextlib
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_plus

import httpx
import pytest
from pydantic import ValidationError

import carrel
from carrel.wire.messages import SendAgentMessageRequest
from service.web.guidance import refuse_members
from tests.harness.services import API_KEY, RunningService

OPERATION = "/api/v0/admin/users/upsert"
VALID = b'{"users": [{"email": "someone@example.test"}]}'
SUCCESSOR = '<uploadFile>; rel="successor-version"'
JSON = "application/json"
MEBIBYTE = 1024 * 1024


def post(
    service: RunningService, content: bytes | Iterator[bytes], content_type: str | bytes | None = JSON, **headers: str
) -> httpx.Response:
    kind = {"Content-Type": content_type} if content_type is not None else {}
    return service.http.post(OPERATION, content=content, headers=kind | headers)


def code(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the error's code, after checking the error's shape."""
    error = response.json()["error"]
    assert set(error) - {"details"} == {"message", "code", "requestId"}
    assert error["requestId"] == response.headers["X-Request-Id"]
    return response.status_code, error["code"]


MALFORMED = {
    "null": (b"null", JSON, 400),
    "UTF-16": ('{"users": []}'.encode("utf-16"), JSON, 400),
    "a NUL byte": (b'{"users": [{"email": "a\x00@example.test"}]}', JSON, 400),
    "half a surrogate pair in a member's name": (b'{"\\udfff": []}', JSON, 400),
    "nested and closed": (b"[" * 100_000 + b"]" * 100_000, JSON, 400),
    "10 MB in a string": (b'{"users": [{"email": "' + b"a" * 10_000_000 + b'@example.test"}]}', JSON, 400),
    "a member twice": (b'{"users": [], "users": []}', JSON, 400),
    "a member twice within": (b'{"users": [{"email": "a@example.test", "email": "b@example.test"}]}', JSON, 400),
    "JSON of another kind": (VALID, "application/vnd.api+json", 415),
    "a multipart form": (b"--x--", "multipart/form-data; boundary=x", 415),
    "a content type that isn't one": (VALID, b"\xff;;=", 415),
    "too much": (b" " * (32 * MEBIBYTE + 1), JSON, 413),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_body_is_refused_in_the_one_shape(module_service: RunningService, case: str) -> None:
    """Never 422 or 500, and without the sent data. A missing credential is reported before the body."""
    content, content_type, status = MALFORMED[case]
    response = post(module_service, content, content_type)
    assert code(response)[0] == status, response.text[:500]
    assert len(response.content) < 2000
    response = post(module_service, content, content_type, Authorization="")
    assert response.status_code == 401, response.text
    assert response.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


def test_who_may_not_call_is_refused_before_the_body_is_read(module_service: RunningService) -> None:
    """Strangers must not cost the memory and time of a body."""
    member = module_service.new_user("member@example.test")
    content, content_type, _ = MALFORMED["too much"]
    assert post(module_service, content, content_type, Authorization=f"Bearer {member}").status_code == 403
    host, port = module_service.base_url.removeprefix("http://").split(":")
    head = f"POST {OPERATION} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 1000000\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def test_an_endless_body_is_cut_off(make_service) -> None:
    service = make_service(max_json_bytes=10_000)
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 100_000
            yield b" " * 100_000

    with contextlib.suppress(httpx.WriteError):  # it was hung up on while still sending
        assert post(service, pieces()).status_code == 413
    assert sent < 100_000_000
    assert post(service, VALID).status_code == 200


def test_every_wrong_member_is_named(module_service: RunningService) -> None:
    body = b'{"users": [{"email": "hunter2", "isAdmin": "maybe", "hunter3": true, "is_admin": true}]}'
    response = post(module_service, body)
    details = {detail["field"]: detail["message"] for detail in response.json()["error"]["details"]}
    assert {"users.0.email", "users.0.isAdmin", "users.0.hunter3"} <= details.keys()
    assert details["users.0.hunter3"].startswith("unknown member; remove it; there are version, email, ")
    assert details["users.0.is_admin"] == "unknown member; remove it; the nearest is isAdmin"
    assert "hunter2" not in response.text
    assert "maybe" not in response.text


@pytest.mark.parametrize("conversation", [{}, [], "new", 5, {"type": "x"}, {"type": None}, {"type": ["new"]}])
def test_an_object_of_one_of_several_types_is_asked_for_plainly(conversation: object) -> None:
    with pytest.raises(ValidationError) as caught:
        SendAgentMessageRequest.model_validate({"agentId": "a", "conversation": conversation, "message": "Hello"})
    errors = [{**one, "loc": ("body", *one["loc"])} for one in caught.value.errors()]
    told = {one.field: one.message for one in refuse_members(errors, SendAgentMessageRequest).details}
    assert "existing" in told["conversation"]
    assert "discriminator" not in told["conversation"]


def test_v1_asks_for_a_token_of_oauth(module_service: RunningService) -> None:
    for headers in ({}, {"Authorization": "Basic YTpi"}):
        message = httpx.get(f"{module_service.base_url}/api/v1/me", headers=headers).json()["error"]["message"]
        assert "<access token>" in message
        assert "API key" not in message


def test_no_operation_answers_422(module_service: RunningService) -> None:
    """Every route checks a body after the caller."""
    paths = module_service.http.get("/openapi.json").json()["paths"]
    assert not any("422" in item["post"]["responses"] for item in paths.values() if "post" in item)


def test_the_descriptions_and_their_page_need_no_credential(module_service: RunningService) -> None:
    http, stranger = module_service.http, {"Authorization": ""}
    paths = {
        address: http.get(address, headers=stranger).json()["paths"].keys()
        for address in ("/openapi.json", "/api/v0/openapi.json", "/api/v1/openapi.json")
    }
    whole, v0, v1 = paths.values()
    assert v0 | v1 < whole
    assert all(path.startswith("/api/v0/") for path in v0)
    assert {"/api/v1/me", "/api/oauth/token"} < v1
    page = http.get("/docs", headers=stranger)
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for asset in ("docs/swagger-ui.css", "docs/swagger-ui-bundle.js", "docs/start.js"):
        assert asset in page.text
        assert http.get(f"/{asset}", headers=stranger).status_code == 200
    assert "http:" not in page.text
    assert "https:" not in page.text


def test_deprecated_operations_say_so_in_every_answer(module_service: RunningService) -> None:
    """By the Deprecation header (RFC 9745), also in refusals, with a link to the replacement."""
    paths = module_service.http.get("/openapi.json").json()["paths"]
    marked = [path for path, item in paths.items() if item.get("post", {}).get("deprecated")]
    deprecated = [path for path in marked if path.startswith("/api/v0/")]
    assert len(deprecated) == 3
    on_v0_alone = {"/api/v0/catalog/uploadDocumentContents"}
    assert {path.replace("/api/v0/", "/api/v1/") for path in {*deprecated} - on_v0_alone} == {*marked} - {*deprecated}
    for path in deprecated:
        answers = [
            module_service.http.post(path, headers={"Authorization": ""}),
            module_service.http.post(path, content=b"x"),
        ]
        assert [answer.status_code for answer in answers] == [401, 415]
        assert all(answer.headers["Deprecation"].startswith("@") for answer in answers)
        has_successor = path.endswith(("/uploadDocumentFile", "/uploadDocumentContents"))
        assert {answer.headers.get("Link") for answer in answers} == {SUCCESSOR if has_successor else None}
    assert "Deprecation" not in post(module_service, b"{").headers


@pytest.mark.parametrize(
    ("offered", "taken"), [("abc-1.2:3_x", True), ("a" * 129, False), ("a b", False), (API_KEY, False)]
)
def test_a_sane_request_id_is_taken_over(module_service: RunningService, offered: str, taken: bool) -> None:
    headers = {"X-Request-Id": offered.encode()}
    given = [module_service.http.get("/healthz", headers=headers).headers["X-Request-Id"] for _ in range(2)]
    if taken:
        assert given == [offered, offered]
    else:
        assert len({*given, offered}) == 3
        assert all(given)


def test_a_charset_that_is_utf_8_may_be_said(module_service: RunningService) -> None:
    for written in ("; charset=utf-8", ';charset="UTF-8"', "; charset=utf8"):
        assert post(module_service, VALID, JSON + written).status_code == 200


def test_paths_methods_and_headers_that_cannot_be_served_are_told(module_service: RunningService) -> None:
    http, twice = module_service.http, [("Authorization", f"Bearer {module_service.api_key}")] * 2
    assert code(http.post("/api/v0/%00/..%2f..%2fetc")) == (404, "not_found")
    assert code(http.get("/healthz", headers={"X-Long": "x" * 70_000})) == (431, "headers_too_large")
    with httpx.Client(base_url=module_service.base_url) as client:
        response = client.post(OPERATION, content=VALID, headers=[("Content-Type", JSON), *twice])
    assert code(response) == (400, "authorization_repeated")


def test_what_is_no_http_at_all_harms_nobody(module_service: RunningService) -> None:
    url = httpx.URL(module_service.base_url)
    for garbage in (b"\x00" * 1000, b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"\x16\x03\x01"):
        with socket.create_connection((url.host, url.port)) as connection:
            connection.settimeout(5)
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(1000), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        headers = httpx.Headers([tuple(line.split(b": ", 1)) for line in head.split(b"\r\n")[1:]])
        assert code(httpx.Response(400, headers=headers, content=body)) == (400, "malformed_http")
        assert int(headers["Content-Length"]) == len(body)
    assert module_service.http.get("/healthz").status_code == 200


def test_operators_see_how_it_is_doing(module_service: RunningService) -> None:
    module_service.http.post("/api/v0/some-secret-path")
    module_service.call("admin/users/list")
    anonymous = {"Authorization": ""}
    assert module_service.http.get("/healthz", headers=anonymous).json() == {"status": "ok"}
    assert module_service.http.get("/readyz", headers=anonymous).json() == {"status": "ready"}
    text = module_service.http.get("/metrics", headers=anonymous).text
    assert 'carrel_requests_total{method="POST",route="/api/v0/admin/users/list",status="200"}' in text
    assert 'route="unknown",status="404"' in text
    assert "some-secret-path" not in text
    assert "carrel_texts_embedded" in text


MISTAKES = tomllib.loads((Path(__file__).parents[1] / "data" / "integrator_mistakes.toml").read_text("utf-8"))
ROWS = [(group, name) for group, rows in MISTAKES.items() for name in rows]
OPERATIONS = {"bodies": "catalog/listDocuments", "credentials": "catalog/listDocuments", "forms": "catalog/uploadFile"}
CLIENT = {"name": "App", "redirectUris": ["https://app.example.test/back"], "scopes": ["api:catalog:read"]}


@pytest.fixture(scope="module")
def names(module_service) -> dict[str, str]:
    made = module_service.call("admin/oauthClients/create", CLIENT).json()
    member = module_service.new_user("asks@example.test")
    pending = module_service.call("admin/oauthClients/request", {**CLIENT, "name": "Other"}, api_key=member).json()
    return {
        "key": module_service.api_key,
        "client": made["clientId"],
        "secret": made["clientSecret"],
        "pending": pending["clientId"],
        "id": "0190b6ce-5f3a-7c21-9d4e-2b8f6a1c3d55",
        "address": module_service.base_url.removeprefix("http://"),
    }


def filled(value, names: dict[str, str]):
    if isinstance(value, str):
        for name, meant in names.items():
            value = value.replace("{" + name + "}", meant)
        return value
    if isinstance(value, dict):
        return {key: filled(each, names) for key, each in value.items()}
    return [filled(each, names) for each in value] if isinstance(value, list) else value


def send(http: httpx.Client, group: str, row: dict) -> httpx.Response:
    to = row.get("to", OPERATIONS.get(group, ""))
    headers = {"Authorization": row["authorization"]} if "authorization" in row else {}
    content: dict = {"json": row.get("json", {})}
    if "body" in row:
        content = {"content": row["body"].encode()}
        headers["Content-Type"] = row["type"]
    elif "parts" in row:
        part = row.get("file", "file")
        texts = {name: (None, text) for name, text in row["parts"].items()}
        content = {"files": {**texts, **({part: ("a.txt", b"Some words.")} if part else {})}}
    elif "form" in row:
        return httpx.post(f"{http.base_url}{to}", data=row["form"])
    elif "query" in row:
        return httpx.get(f"{http.base_url}{to}", params=row["query"])
    return http.request(row.get("method", "POST"), to if to[0] == "/" else f"/api/v0/{to}", headers=headers, **content)


@pytest.mark.parametrize(("group", "name"), ROWS)
def test_the_answer_says_how_to_mend_it(module_service, names, group, name) -> None:
    row = filled(MISTAKES[group][name], names)
    if group == "sdk":
        with pytest.raises(carrel.CarrelError) as raised, carrel.Carrel("k", base_url=row["base_url"]) as client:
            client.admin.organization.get()
        said = str(raised.value)
    else:
        answer = send(module_service.http, group, row)
        said = unquote_plus(answer.headers.get("Location", "")) + answer.text
        assert answer.status_code == row["status"], said
    assert [words for words in row["words"] if words not in said] == [], said
