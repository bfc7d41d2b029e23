"""Bounds of a request: its address, headers, trailers, parts and encodings, and the pace it comes at."""

import asyncio
import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.types import Message

from service.platform.errors import ServiceError
from service.web.edge import Body
from service.web.protocol import BoundedProtocol
from tests.harness.services import RunningService
from tests.service.directory import a_group, code, done

JSON = "application/json"
LIST_USERS = "/api/v0/admin/users/list"
UPLOAD = "/api/v0/catalog/uploadFile"
FORM = "multipart/form-data; boundary=x"


@pytest.fixture(scope="module")
def shared(service_harness: Any) -> Iterator[RunningService]:
    """One service for all requests that change nothing."""
    service, stack = service_harness.start()
    yield service
    service_harness.stop(service, stack)


@contextmanager
def connected(service: RunningService) -> Iterator[socket.socket]:
    """A connection to the service."""
    url = httpx.URL(service.base_url)
    with socket.create_connection((url.host, url.port or 0), timeout=20) as connection:
        yield connection


def head(
    service: RunningService, *headers: str, path: str = LIST_USERS, method: str = "POST", key: bool = True
) -> bytes:
    """A request's head, by the admin unless without a key."""
    authorization = [f"Authorization: Bearer {service.api_key}"] if key else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *authorization, *headers, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, str]:
    """The status of the answer, and everything the service sends until it hangs up; 0 when it sends nothing."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return (int(received.split(b" ", 2)[1]) if received else 0), received.decode()


def next_status(connection: socket.socket) -> int:
    """The status of the next answer on a connection that goes on, after reading the whole of it."""
    with connection.makefile("rb") as stream:
        status = int(stream.readline().split()[1])
        headers = dict(line.decode().lower().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
        stream.read(int(headers["content-length"]))
    return status


def sent_until_hung_up(connection: socket.socket, piece: bytes, *, most: int = 64 * 1024 * 1024) -> int:
    """Send the same again and again; how many bytes went out before the service hung up."""
    sent = 0
    try:
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
    except (BrokenPipeError, ConnectionResetError):
        return sent
    raise AssertionError("it took everything")


def assert_served(service: RunningService) -> None:
    """Others are served."""
    assert service.http.get("/healthz").status_code == 200


def test_requests_sent_ahead_of_their_answers_have_a_number(shared: RunningService) -> None:
    """A few are answered one after the other; whoever sends very many is hung up on, and most aren't looked at."""
    ask = head(shared, method="GET", path="/healthz", key=False)
    with connected(shared) as connection:
        received = b""
        for number in (8, 12):
            connection.sendall(ask * (number - received.count(b'"ok"')))
            while received.count(b'"ok"') < number:
                received += connection.recv(65536)
    with connected(shared) as connection:
        connection.sendall(ask * 500)
        assert answer(connection)[1].count("HTTP/1.1 ") < 50
    assert_served(shared)


def test_headers_have_a_number(shared: RunningService) -> None:
    """431 for more than two hundred of them, however short."""
    few, many = ({f"X-{number}": "" for number in range(count)} for count in (150, 250))
    assert shared.http.get("/healthz", headers=few).status_code == 200
    assert code(shared.http.get("/healthz", headers=many)) == (431, "headers_too_large")


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nX-Long: ", b"GET /", b"GET /?"])
def test_a_head_without_end_is_cut_off(shared: RunningService, start: bytes) -> None:
    """A header, path or query string of 10 MB is hung up on when a fraction of it has come."""
    with connected(shared) as connection:
        connection.sendall(start)
        assert sent_until_hung_up(connection, b"x" * 65536, most=10_000_000) < 8_000_000
    assert_served(shared)


def test_an_address_has_a_length(shared: RunningService) -> None:
    """414 beyond 16 KiB of path and query string, for known and unknown paths."""
    assert shared.http.get("/healthz", params={"q": "x" * 16_000}).status_code == 200
    assert code(shared.http.get("/healthz", params={"q": "x" * 17_000})) == (414, "address_too_long")
    assert code(shared.http.get("/" + "x" * 17_000)) == (414, "address_too_long")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "GZIP", "nonsense"])
def test_a_packed_body_is_refused(shared: RunningService, encoding: str) -> None:
    """415, whether it is packed as it says or not; a body may be small and what is in it without bound."""
    headers = {"Content-Type": JSON, "Content-Encoding": encoding}
    response = shared.http.post(LIST_USERS, content=gzip.compress(b"{}"), headers=headers)
    assert code(response) == (415, "content_encoding_unsupported")
    assert response.headers["Accept-Encoding"] == "identity"
    response = shared.http.post(UPLOAD, content=b"--x--", headers={"Content-Type": FORM, "Content-Encoding": encoding})
    assert code(response) == (415, "content_encoding_unsupported")


def test_a_body_as_it_is_may_say_so(shared: RunningService) -> None:
    """`identity` is no encoding."""
    headers = {"Content-Type": JSON, "Content-Encoding": "identity"}
    assert shared.http.post(LIST_USERS, content=b"{}", headers=headers).status_code == 200


def test_trailers_are_no_headers(shared: RunningService) -> None:
    """What comes after a chunked body changes nothing of the request; a credential there is none."""
    chunked = f"Content-Type: {JSON}", "Transfer-Encoding: chunked"
    body = b"2\r\n{}\r\n0\r\nX-Request-Id: trailer\r\nIdempotency-Key: " + b"k" * 300 + b"\r\n\r\n"
    with connected(shared) as connection:
        connection.sendall(head(shared, "Connection: close", *chunked) + body)
        status, text = answer(connection)
    assert status == 200, text
    assert "trailer" not in text
    with connected(shared) as connection:
        late = f"2\r\n{{}}\r\n0\r\nAuthorization: Bearer {shared.api_key}\r\n\r\n".encode()
        connection.sendall(head(shared, "Connection: close", *chunked, key=False) + late)
        assert answer(connection)[0] == 401


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"2\r\n{}\r\n0\r\n", b"X-Trailer: " + b"x" * 1000 + b"\r\n"),
        (b"2\r\n{}\r\n0\r\nX-Trailer: ", b"x" * 65536),
        (b"2;extension=", b"x" * 65536),
    ],
)
def test_what_surrounds_a_chunked_body_has_an_end(shared: RunningService, start: bytes, piece: bytes) -> None:
    """Trailers and the extensions of a chunk are hung up on after a megabyte: nothing of them is kept meanwhile."""
    with connected(shared) as connection:
        connection.sendall(head(shared, f"Content-Type: {JSON}", "Transfer-Encoding: chunked") + start)
        assert sent_until_hung_up(connection, piece) < 16_000_000
    assert_served(shared)


def test_an_upgrade_to_another_protocol_is_not_taken(shared: RunningService) -> None:
    """There are no WebSockets: the request is answered as the HTTP it is."""
    upgrade = "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA"
    with connected(shared) as connection:
        connection.sendall(head(shared, *upgrade, method="GET", path="/healthz"))
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")


def form(*parts: bytes) -> bytes:
    """A multipart body."""
    return b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + b"--x--\r\n"


def field(name: str, value: bytes = b"v", *headers: bytes) -> bytes:
    """A text part."""
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
def test_a_form_has_bounds(shared: RunningService, case: str) -> None:
    """However many parts, headers or levels: a 400 in the one shape, quickly, and nothing is stored."""
    began = time.monotonic()
    response = shared.http.post(UPLOAD, content=FORMS[case], headers={"Content-Type": FORM})
    assert code(response)[0] == 400, response.text[:300]
    assert len(response.content) < 2000
    assert time.monotonic() - began < 5
    assert done(shared.call("catalog/listDocuments"))["documents"] == []


@pytest.mark.parametrize("start", [b"", b"--x\r\n" + FILE + b"\r\n--x--\r\n"])
def test_what_surrounds_a_form_has_an_end(make_service: Any, start: bytes) -> None:
    """What comes before the first part or after the last is read no further than a form could be large."""
    service = make_service(max_upload_bytes=1000)
    content = (piece for pieces in ([start], [b"\r\n" * 32768] * 100) for piece in pieces)
    response = service.http.post(UPLOAD, content=content, headers={"Content-Type": FORM})
    assert code(response) == (400, "multipart_invalid")
    assert "has no end" in response.json()["error"]["message"]
    assert done(service.call("catalog/listDocuments"))["documents"] == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that waits for a third of a second where it usually waits for half a minute."""
    monkeypatch.setattr(Body, "patience", 0.3)
    monkeypatch.setattr(BoundedProtocol, "header_seconds", 0.3)


HALF = {
    "JSON": (LIST_USERS, JSON, b'{"pageSize": '),
    "a form": (UPLOAD, FORM, b"--x\r\n" + FILE),
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("case", HALF)
def test_a_body_that_stops_coming_is_given_up(shared: RunningService, case: str) -> None:
    """408 when nothing comes any more, and the connection is closed."""
    path, content_type, start = HALF[case]
    began = time.monotonic()
    with connected(shared) as connection:
        connection.sendall(head(shared, f"Content-Type: {content_type}", "Content-Length: 100000", path=path) + start)
        status, text = answer(connection)
    assert status == 408, text
    assert json.loads(text.partition("\r\n\r\n")[2])["error"]["code"] == "body_too_slow"
    assert 0.25 < time.monotonic() - began < 5


@pytest.mark.usefixtures("impatient")
def test_a_body_that_drips_is_given_up(shared: RunningService) -> None:
    """A byte now and then doesn't hold a connection for ever."""
    with connected(shared) as connection:
        connection.sendall(head(shared, f"Content-Type: {JSON}", "Content-Length: 100000"))
        sent = drip(connection, 100)
        assert answer(connection)[0] in {408, 0}
    assert sent < 50


def drip(connection: socket.socket, count: int) -> int:
    """Send so many bytes, one every tenth of a second, until the service says something or hangs up."""
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
@pytest.mark.parametrize("start", [b"", b"POST ", b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
@pytest.mark.parametrize("dripping", [False, True])
def test_headers_come_soon(shared: RunningService, start: bytes, dripping: bool) -> None:
    """Whoever connects and sends no request, or a header a byte at a time, is hung up on."""
    began = time.monotonic()
    with connected(shared) as connection:
        connection.sendall(start)
        if dripping:
            drip(connection, 100)
        else:
            assert answer(connection) == (0, "")
    assert time.monotonic() - began < 5
    assert_served(shared)


@pytest.mark.usefixtures("impatient")
def test_the_headers_of_a_second_request_come_soon_too(shared: RunningService) -> None:
    """A connection that has been answered once is not for keeps."""
    with connected(shared) as connection:
        connection.sendall(head(shared, method="GET", path="/healthz"))
        assert next_status(connection) == 200
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        assert drip(connection, 100) < 50


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("dripping", [False, True])
def test_the_rest_of_a_refused_body_comes_soon(shared: RunningService, dripping: bool) -> None:
    """After a 401 a connection whose body goes on too slowly, or not at all, is closed."""
    began = time.monotonic()
    with connected(shared) as connection:
        connection.sendall(head(shared, f"Content-Type: {JSON}", "Content-Length: 100000", key=False) + b"{")
        assert next_status(connection) == 401
        if dripping:
            assert drip(connection, 100) < 30
        else:
            assert answer(connection) == (0, "")
    assert time.monotonic() - began < 8


@pytest.mark.usefixtures("impatient")
def test_a_connection_in_use_is_not_given_up(service: RunningService) -> None:
    """Neither while an answer takes longer than headers may, though the next begins meanwhile, nor between the two."""
    crew = a_group(service, "Crew")
    body = json.dumps({"groupId": crew["id"], "members": [{"type": "user", "email": service.admin_email}]}).encode()
    request = head(
        service, f"Content-Type: {JSON}", f"Content-Length: {len(body)}", path="/api/v0/admin/groups/addMembers"
    )
    with connected(service) as connection, service.owner_connection() as owner:
        with owner.transaction():
            owner.execute("SELECT FROM organizations FOR UPDATE")
            connection.sendall(request + body + request[:10])
            time.sleep(1)
        assert next_status(connection) == 200
        connection.sendall(request[10:] + body)
        assert next_status(connection) == 200
        time.sleep(1)
        connection.sendall(request + body)
        assert next_status(connection) == 200


async def test_a_body_is_not_late_because_the_service_is() -> None:
    """Only the time spent waiting for a piece counts; a body that comes fast enough may take as long as it needs."""

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
    """What follows is the news that the caller has gone, however late."""
    messages: list[Message] = [{"type": "http.request", "body": b"x"}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        await asyncio.sleep(0 if len(messages) == 2 else 0.3)
        return messages.pop(0)

    body = Body(receive)
    body.patience = 0.05
    assert (await body.receive())["body"] == b"x"
    assert (await body.receive())["type"] == "http.disconnect"


async def test_a_body_that_never_comes_is_a_408() -> None:
    """Saying what happened, and ending the connection, on which its rest may still come."""

    async def receive() -> Message:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    body = Body(receive)
    body.patience = 0.05
    with pytest.raises(ServiceError) as caught:
        await body.receive()
    assert (caught.value.status, caught.value.code) == (408, "body_too_slow")
    assert caught.value.headers["Connection"] == "close"
