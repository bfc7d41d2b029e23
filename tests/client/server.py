"""A small HTTP server with scripted, often wrong, responses, and a record of requests."""

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.harness import http_servers
from tests.harness.cutting import RESET

Answer = Callable[[Request], Awaitable[Response] | Response]


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes
    method: str = "POST"
    query: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def parts(self) -> dict[str, Message]:
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        message = BytesParser().parsebytes(head + self.body)
        return {str(part.get_param("name", header="content-disposition")): part for part in message.get_payload()}


@dataclass
class Server:
    """Answers in the order of `script`; `received` holds every complete request."""

    base_url: str = ""
    script: deque[Answer] = field(default_factory=deque)
    received: list[Received] = field(default_factory=list)

    def will(self, *answers: Answer | dict[str, Any]) -> None:
        self.script.extend(json_answer(answer) if isinstance(answer, dict) else answer for answer in answers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        body = await request.body()
        seen = Received(request.url.path, dict(request.headers), body, request.method, dict(request.query_params))
        self.received.append(seen)
        answer = self.script.popleft()(request) if self.script else refuse(500, "script_empty")(request)
        response = await answer if asyncio.iscoroutine(answer) else answer
        await response(scope, receive, send)


def json_answer(content: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return lambda _: JSONResponse(content, status_code=status, headers=headers)


def refuse(status: int, code: str = "refused", headers: dict[str, str] | None = None, **members: Any) -> Answer:
    error = {"message": f"refused with {status}", "code": code, "requestId": "request-1", **members}
    return json_answer({"error": error}, status=status, headers=headers)


def raw(content: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return lambda _: Response(content, status_code=status, headers=headers)


def cut_short(content: bytes, *, promised: int, headers: dict[str, str] | None = None) -> Answer:
    async def body() -> Any:
        yield content
        await asyncio.sleep(0.01)
        raise ConnectionAbortedError

    return lambda _: StreamingResponse(body(), headers={"content-length": str(promised), **(headers or {})})


def event(kind: str, data: object, event_id: str) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\nid: {event_id}\n\n".encode()


def streamed(*pieces: bytes, cut: bool = False) -> Answer:
    """Answer with server-sent events in pieces, and end the answer or cut the connection."""

    async def body() -> Any:
        for piece in pieces:
            yield piece
        if cut:
            await asyncio.sleep(0.01)
            raise ConnectionAbortedError

    return lambda _: StreamingResponse(body(), media_type="text/event-stream")


def slowly(seconds: float, answer: Answer) -> Answer:
    async def wait(request: Request) -> Response:
        await asyncio.sleep(seconds)
        response = answer(request)
        assert isinstance(response, Response)
        return response

    return wait


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    config = uvicorn.Config(server, log_level="critical", ws="none", lifespan="off", timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        runner = uvicorn.Server(config)
        thread = threading.Thread(target=runner.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            runner.should_exit = True
            thread.join(10)


class _Resetting(http_servers.Handler):
    """Resets each connection after the first bytes of a request."""

    def handle(self) -> None:
        self.connection.recv(10)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.connection.close()


def resetting() -> AbstractContextManager[str]:
    return http_servers.serving(_Resetting)
