"""Callers without reading answers, on real sockets."""

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import uvloop
from starlette.types import Receive, Scope, Send

from service.platform.settings import Settings
from service.server import Server, server_config
from service.web.connections import Connections
from service.web.protocol import BoundedProtocol

ANSWER = b"x" * 300_000
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
SECONDS = 20


class Application:
    """Answers with more than a socket holds, and records the error."""

    def __init__(self) -> None:
        self.failed: list[Exception] = []
        self.protocols: set[Any] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"600000")]})
            await send({"type": "http.response.body", "body": ANSWER, "more_body": True})
            await send({"type": "http.response.body", "body": ANSWER})
        except Exception as error:
            self.failed.append(error)
            raise


class BrokenApplication(Application):
    """Fails in the middle of an answer, once the socket is full."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        (protocol,) = self.protocols
        protocol.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        while not protocol.has_unsent:
            await send({"type": "http.response.body", "body": ANSWER[:4096], "more_body": True})
            for _ in range(5):  # the event loop writes it, as far as the socket takes it
                await asyncio.sleep(0.01)
        assert not protocol.flow.write_paused
        self.failed.append(OSError("the storage broke"))
        raise self.failed[0]


@asynccontextmanager
async def serving(application: Application) -> AsyncGenerator[tuple[Connections, socket.socket]]:
    connections = Connections(10)
    server = Server(server_config(Settings(port=0), application), connections)
    # A connection whose answer the system has taken whole is an idle one.
    server.config.timeout_keep_alive = 1
    application.protocols = server.server_state.connections
    server.config.load()
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
        await server.startup([listening])
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, listening.getsockname())
        yield connections, client
        for one in server.servers:
            one.close()
        connections.close()


def on_its_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: object, **fixtures: object) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(asyncio.wait_for(test(*args, **fixtures), 4 * SECONDS))

    return run


async def until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not claim():
        assert time.monotonic() < deadline, "it never came to be"
        await asyncio.sleep(0.02)


@on_its_loop
async def test_a_caller_that_reads_no_answer_is_hung_up_on(monkeypatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "reading_seconds", 0.3)
    for request in (REQUEST * 50, REQUEST, LAST_REQUEST):
        application = Application()
        async with serving(application) as (connections, client):
            await asyncio.get_running_loop().sock_sendall(client, request)
            await until(lambda connections=connections: connections.open == 1)
            await until(lambda connections=connections: connections.open == 0)
            await asyncio.sleep(0.1)
        assert not application.failed


@on_its_loop
async def test_the_rest_of_an_answer_that_broke_off_is_not_kept_for_ever(monkeypatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "reading_seconds", 0.3)
    application = BrokenApplication()
    async with serving(application) as (connections, client):
        await asyncio.get_running_loop().sock_sendall(client, REQUEST)
        await until(lambda: bool(application.failed))
        assert connections.open == 1
        await until(lambda: connections.open == 0)


@on_its_loop
async def test_a_caller_that_reads_slowly_gets_the_whole_answer(monkeypatch) -> None:
    """While reading more than 1,000 bytes a second."""
    monkeypatch.setattr(BoundedProtocol, "reading_seconds", 0.5)
    async with serving(Application()) as (_, client):
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, LAST_REQUEST)
        received = 0
        while piece := await loop.sock_recv(client, 20_000):
            received += len(piece)
            await asyncio.sleep(0.015)
        assert received > 2 * len(ANSWER)
