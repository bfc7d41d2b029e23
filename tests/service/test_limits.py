"""Limits of a request: address, headers, trailers, parts, encodings, and pace."""

import asyncio
import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from starlette.types import Message

from service.web.edge import Body
from service.web.protocol import BoundedProtocol
from tests.harness.services import RunningService
from tests.service.directory import a_group, code, done, organization_id

JSON = "application/json"
LIST_USERS = "/api/v0/admin/users/list"
UPLOAD = "/api/v0/catalog/uploadFile"
FORM = "multipart/form-data; boundary=x"


@contextmanager
def connected(service: RunningService) -> Iterator[socket.socket]:
    url = httpx.URL(service.base_url)
    with socket.create_connection((url.host, url.port or 0), timeout=20) as connection:
        yield connection


@pytest.fixture
def connection(module_service: RunningService) -> Iterator[socket.socket]:
    with connected(module_service) as connection:
        yield connection
    assert module_service.http.get("/healthz").status_code == 200


def head(
    service: RunningService, *headers: str, path: str = LIST_USERS, method: str = "POST", key: bool = True
) -> bytes:
    authorization = [f"Authorization: Bearer {service.api_key}"] if key else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *authorization, *headers, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, str]:
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return (int(received.split(b" ", 2)[1]) if received else 0), received.decode()


def next_status(connection: socket.socket) -> int:
    with connection.makefile("rb") as stream:
        status = int(stream.readline().split()[1])
        headers = dict(line.decode().lower().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
        stream.read(int(headers["content-length"]))
    return status


def sent_until_hung_up(connection: socket.socket, piece: bytes, *, most: int = 64 * 1024 * 1024) -> int:
    sent = 0
    try:
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
    except (BrokenPipeError, ConnectionResetError):
        return sent
    raise AssertionError("it took everything")


def test_requests_sent_ahead_of_their_answers_have_a_number(module_service, connection) -> None:
    ask = head(module_service, method="GET", path="/healthz", key=False)
    received = b""
    for number in (8, 12):
        connection.sendall(ask * (number - received.count(b'"ok"')))
        while received.count(b'"ok"') < number:
            received += connection.recv(65536)
    with connected(module_service) as another:
        another.sendall(ask * 500)
        assert answer(another)[1].count("HTTP/1.1 ") < 50


def test_a_head_has_bounds(module_service: RunningService) -> None:
    """431 for more than two hundred headers, however short; 414 beyond 16 KiB of path and query string."""
    http = module_service.http
    few, many = ({f"X-{number}": "" for number in range(count)} for count in (150, 250))
    assert http.get("/healthz", headers=few).status_code == 200
    assert code(http.get("/healthz", headers=many)) == (431, "headers_too_large")
    assert http.get("/healthz", params={"q": "x" * 16_000}).status_code == 200
    assert code(http.get("/healthz", params={"q": "x" * 17_000})) == (414, "address_too_long")
    assert code(http.get("/" + "x" * 17_000)) == (414, "address_too_long")


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nX-Long: ", b"GET /", b"GET /?"])
def test_a_head_without_end_is_cut_off(connection: socket.socket, start: bytes) -> None:
    """A header, path or query string of 10 MB is cut off after a fraction of it."""
    connection.sendall(start)
    assert sent_until_hung_up(connection, b"x" * 65536, most=10_000_000) < 8_000_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "GZIP", "nonsense"])
def test_a_packed_body_is_refused(module_service: RunningService, encoding: str) -> None:
    http, headers = module_service.http, {"Content-Type": JSON, "Content-Encoding": encoding}
    response = http.post(LIST_USERS, content=gzip.compress(b"{}"), headers=headers)
    assert code(response) == (415, "content_encoding_unsupported")
    assert response.headers["Accept-Encoding"] == "identity"
    response = http.post(UPLOAD, content=b"--x--", headers={"Content-Type": FORM, "Content-Encoding": encoding})
    assert code(response) == (415, "content_encoding_unsupported")
    assert http.post(LIST_USERS, content=b"{}", headers=headers | {"Content-Encoding": "identity"}).status_code == 200


def test_trailers_are_no_headers(module_service: RunningService, connection: socket.socket) -> None:
    """A credential in a trailer does not count."""
    chunked = "Connection: close", f"Content-Type: {JSON}", "Transfer-Encoding: chunked"
    body = b"2\r\n{}\r\n0\r\nX-Request-Id: trailer\r\nIdempotency-Key: " + b"k" * 300 + b"\r\n\r\n"
    connection.sendall(head(module_service, *chunked) + body)
    status, text = answer(connection)
    assert status == 200, text
    assert "trailer" not in text
    with connected(module_service) as another:
        late = f"2\r\n{{}}\r\n0\r\nAuthorization: Bearer {module_service.api_key}\r\n\r\n".encode()
        another.sendall(head(module_service, *chunked, key=False) + late)
        assert answer(another)[0] == 401


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"2\r\n{}\r\n0\r\n", b"X-Trailer: " + b"x" * 1000 + b"\r\n"),
        (b"2\r\n{}\r\n0\r\nX-Trailer: ", b"x" * 65536),
        (b"2;extension=", b"x" * 65536),
    ],
)
def test_what_surrounds_a_chunked_body_has_an_end(module_service, connection, start, piece) -> None:
    connection.sendall(head(module_service, f"Content-Type: {JSON}", "Transfer-Encoding: chunked") + start)
    assert sent_until_hung_up(connection, piece) < 16_000_000


def test_an_upgrade_to_another_protocol_is_not_taken(module_service: RunningService, connection: socket.socket) -> None:
    """WebSockets don't exist: the request is answered as plain HTTP."""
    upgrade = "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA"
    connection.sendall(head(module_service, *upgrade, method="GET", path="/healthz"))
    assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")


def form(*parts: bytes) -> bytes:
    return b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + b"--x--\r\n"


def field(name: str, value: bytes = b"v", *headers: bytes) -> bytes:
    lines = [b'Content-Disposition: form-data; name="' + name.encode() + b'"', *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + value


FILE = b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nsome words'

FORMS = {
    "a thousand parts of one name": form(FILE, *[field("documentName")] * 1000),
    "a thousand parts nobody knows": form(FILE, *[field(f"p{number}") for number in range(1000)]),
    "a thousand files": form(*[FILE] * 1000),
    "a part with a thousand headers": form(FILE, field("documentName", b"v", *[b"X-More: 1"] * 1000)),
    "a part with a header of a megabyte": form(FILE, field("documentName", b"v", b"X-More: " + b"x" * 1_000_000)),
    "a part with a name of a megabyte": form(FILE, field("n" * 1_000_000)),
    "a field of two megabytes": form(FILE, field("documentName", b"v" * 2_000_000)),
    "metadata nested without end": form(FILE, field("customMetadata", b"[" * 200_000)),
    "metadata nested and closed": form(FILE, field("customMetadata", b'{"a":' * 90_000 + b"1" + b"}" * 90_000)),
    "a list nested without end": form(FILE, field("allowedGroupIds", b"[" * 200_000)),
}


@pytest.mark.parametrize("case", FORMS)
def test_a_form_has_bounds(module_service: RunningService, case: str) -> None:
    began = time.monotonic()
    response = module_service.http.post(UPLOAD, content=FORMS[case], headers={"Content-Type": FORM})
    assert code(response)[0] == 400, response.text[:300]
    assert len(response.content) < 2000
    assert time.monotonic() - began < 5
    assert done(module_service.call("catalog/listDocuments"))["documents"] == []


def test_what_surrounds_a_form_has_an_end(make_service) -> None:
    service = make_service(max_upload_bytes=1000)
    for start in (b"", b"--x\r\n" + FILE + b"\r\n--x--\r\n"):
        content = (piece for pieces in ([start], [b"\r\n" * 32768] * 100) for piece in pieces)
        response = service.http.post(UPLOAD, content=content, headers={"Content-Type": FORM})
        assert code(response) == (400, "multipart_invalid")
        assert "has no end" in response.json()["error"]["message"]
    assert done(service.call("catalog/listDocuments"))["documents"] == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service with timeouts of a third of a second instead of half a minute."""
    monkeypatch.setattr(Body, "patience", 0.3)
    monkeypatch.setattr(BoundedProtocol, "header_seconds", 0.3)


def body_of(service: RunningService, content_type: str, start: bytes, **options) -> bytes:
    return head(service, f"Content-Type: {content_type}", "Content-Length: 100000", **options) + start


Start = Callable[[RunningService], bytes]
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
# What is sent, the answer that comes to it at once, and how the connection ends: 0 is without an answer.
SLOW: dict[str, tuple[Start, int | None, int]] = {
    "nothing": (lambda _: b"", None, 0),
    "a method": (lambda _: b"POST ", None, 0),
    "a header": (lambda _: HEALTH + b"X-Slow: ", None, 0),
    "a second request": (lambda _: HEALTH + b"\r\n" + HEALTH + b"X-Slow: ", 200, 0),
    "a body": (lambda service: body_of(service, JSON, b'{"pageSize": '), None, 408),
    "a form": (lambda service: body_of(service, FORM, b"--x\r\n" + FILE, path=UPLOAD), None, 408),
    "a refused body": (lambda service: body_of(service, JSON, b"{", key=False), 401, 0),
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("case", SLOW)
@pytest.mark.parametrize("dripping", [False, True])
def test_what_comes_too_slowly_is_given_up(module_service, connection, case, dripping) -> None:
    start, first, last = SLOW[case]
    began = time.monotonic()
    connection.sendall(start(module_service))
    if first is not None:
        assert next_status(connection) == first
    if dripping:
        assert drip(connection, 100) < 50
    status, text = answer(connection)
    # Who still sends may find the connection reset before the answer is read; no request begins with spaces.
    assert status in ({last, 0, 400} if dripping else {last})
    assert status != 408 or json.loads(text.partition("\r\n\r\n")[2])["error"]["code"] == "body_too_slow"
    assert (0 if dripping else 0.25) < time.monotonic() - began < 8


def drip(connection: socket.socket, count: int) -> int:
    connection.settimeout(0.1)
    for number in range(count):
        try:
            connection.sendall(b" ")
            if not connection.recv(1, socket.MSG_PEEK):
                return number
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            return number
        connection.settimeout(20)
        return number
    raise AssertionError("it took everything")


@pytest.mark.usefixtures("impatient")
def test_a_connection_in_use_is_not_given_up(service: RunningService) -> None:
    crew, path = a_group(service, "Crew"), "/api/v0/admin/groups/addMembers"
    body = json.dumps({"groupId": crew["id"], "members": [{"type": "user", "email": service.admin_email}]}).encode()
    request = head(service, f"Content-Type: {JSON}", f"Content-Length: {len(body)}", path=path)
    lock = "SELECT FROM organizations WHERE organization_id = %s FOR UPDATE"
    with connected(service) as connection, service.owner_connection() as owner:
        with owner.transaction():
            owner.execute(lock, [organization_id(service)])
            connection.sendall(request + body + request[:10])
            time.sleep(2 * BoundedProtocol.header_seconds)
        assert next_status(connection) == 200
        connection.sendall(request[10:] + body)
        assert next_status(connection) == 200
        time.sleep(2 * BoundedProtocol.header_seconds)
        connection.sendall(request + body)
        assert next_status(connection) == 200


async def test_a_body_is_not_late_because_the_service_is() -> None:
    """Only waiting for a piece counts."""

    async def receive() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x" * 100, "more_body": True}

    body = Body(receive)
    body.patience = 0.05
    for _ in range(30):
        assert (await body.receive())["more_body"]
    await asyncio.sleep(0.2)
    assert (await body.receive())["more_body"]


async def test_a_body_that_has_come_is_waited_for_no_more() -> None:
    messages: list[Message] = [{"type": "http.request", "body": b"x"}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        await asyncio.sleep(0 if len(messages) == 2 else 0.3)
        return messages.pop(0)

    body = Body(receive)
    body.patience = 0.05
    assert (await body.receive())["body"] == b"x"
    assert (await body.receive())["type"] == "http.disconnect"
