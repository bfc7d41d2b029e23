"""Many uploads at once at the outermost layer: few are authenticated at a time, and none reads two pieces in a row."""

import asyncio
from unittest.mock import MagicMock

import pytest
from starlette.types import Message, Receive, Scope, Send

from service.web import edge
from service.web.edge import LARGE_PIECE_BYTES, UPLOADS_ENTERING, Body, Flow

UPLOADS = 20


class Application:
    """Authenticates each caller when `known` is set, then reads the body to its end and answers."""

    def __init__(self) -> None:
        self.known = asyncio.Event()
        self.entered = 0
        self.answered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.entered += 1
        if scope["path"] == "/upload":
            await self.known.wait()
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        self.answered += 1


async def ask(layer: edge.Edge, path: str, content_type: bytes, *, method: str = "POST") -> None:
    headers = [(b"content-type", content_type)]
    scope = {"type": "http", "method": method, "path": path, "raw_path": b"", "query_string": b"", "headers": headers}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x"}

    async def send(_: Message) -> None:
        if path == "/unread":
            await asyncio.Event().wait()

    await layer(scope, receive, send)


async def test_few_uploads_are_authenticated_at_a_time() -> None:
    application = Application()
    layer = edge.Edge(application, metrics=MagicMock())
    uploads = [asyncio.create_task(ask(layer, "/upload", b"multipart/form-data; boundary=B")) for _ in range(UPLOADS)]
    await asyncio.sleep(0.05)
    assert application.entered == UPLOADS_ENTERING
    await ask(layer, "/search", b"application/json")
    assert application.answered == 1
    application.known.set()
    await asyncio.gather(*uploads)
    assert application.answered == UPLOADS + 1


@pytest.mark.parametrize(("method", "path"), [("GET", "/upload"), ("POST", "/unread")])
async def test_only_uploads_take_places_and_only_until_they_are_answered(method: str, path: str) -> None:
    application = Application()
    layer = edge.Edge(application, metrics=MagicMock())
    multipart = b"multipart/x; boundary=B"
    waiting = [asyncio.create_task(ask(layer, path, multipart, method=method)) for _ in range(UPLOADS)]
    await asyncio.sleep(0.05)
    assert application.entered == UPLOADS
    await asyncio.wait_for(ask(layer, "/other", multipart), 5)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_an_upload_that_is_refused_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow()
    leaving = [await flow.enter() for _ in range(UPLOADS_ENTERING)]
    monkeypatch.setattr(edge, "ENTERING_SECONDS", 0.05)
    late = await flow.enter()
    late()
    monkeypatch.setattr(edge, "ENTERING_SECONDS", 20)
    waiting = asyncio.create_task(flow.enter())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    leaving[0]()
    leaving[0]()
    await asyncio.wait_for(waiting, 5)
    another = asyncio.create_task(flow.enter())
    await asyncio.sleep(0.05)
    assert not another.done()
    another.cancel()


async def test_large_pieces_are_taken_one_a_pass() -> None:
    flow = Flow()
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        await asyncio.sleep(0)
        taken += 1
        return {"type": "http.request", "body": b"x" * LARGE_PIECE_BYTES, "more_body": True}

    async def read(body: Body) -> None:
        while True:
            await body.receive()

    readers = [asyncio.create_task(read(Body(receive, flow=flow))) for _ in range(UPLOADS)]
    for _ in range(3):
        await asyncio.sleep(0)  # everybody reads a first piece
    for _ in range(50):
        before = taken
        await asyncio.sleep(0)
        assert taken - before <= 2
    for reader in readers:
        reader.cancel()
    assert taken > UPLOADS
