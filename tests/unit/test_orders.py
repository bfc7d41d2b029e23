"""Orders to a worker that starts, serves or stops, around an application with controlled delays."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from socket import socketpair
from types import SimpleNamespace
from unittest.mock import AsyncMock

import httpx
import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from service import server
from service.platform.processes import DRAIN, STOP
from service.platform.settings import Settings
from service.platform.sharing import Share
from service.web.connections import Connections

SECONDS = 20


class Application:
    """Records events; opening, requests and closing wait until allowed to end."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(metrics=self)
        self.happened: list[str] = []
        self.listener = server.bind(Settings(port=0))
        self.may_end = {name: asyncio.Event() for name in ("opening", "request", "closing")}
        self.orders, self.ordered = socketpair()
        self._noted = defaultdict[str, asyncio.Event](asyncio.Event)

    def watch(self, connections: Connections) -> None:
        """Take the connections for the metrics."""

    @asynccontextmanager
    async def open(self, _: Settings, **parts: object) -> AsyncGenerator["Application"]:
        del parts
        try:
            await self._wait("opening")
            yield self
            await self._wait("closing")
        finally:
            self._note("closed")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive, send
        try:
            await self._wait("request")
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            self._note("request ended")

    async def until(self, name: str) -> None:
        await self._noted[name].wait()

    def _note(self, name: str) -> None:
        self.happened.append(name)
        self._noted[name].set()

    async def _wait(self, name: str) -> None:
        self._note(name)
        await self.may_end[name].wait()


def serve(monkeypatch: pytest.MonkeyPatch, during: Callable[[Application], Awaitable[None]]) -> list[str]:
    async def within() -> list[str]:
        application, settings = Application(), Settings(port=0)
        monkeypatch.setattr(server, "open_app", application.open)
        async with asyncio.timeout(SECONDS):
            serving = server.serve(settings, application.listener, application.ordered, most=10, share=Share())
            task = asyncio.create_task(serving)
            await during(application)
            await task
        application.orders.close()
        application.ordered.close()
        return application.happened

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(within())


async def begin_request(application: Application) -> asyncio.StreamWriter:
    application.may_end["opening"].set()
    application.may_end["closing"].set()
    await application.until("opening")
    _, writer = await asyncio.open_connection(*application.listener.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await application.until("request")
    return writer


def test_a_second_order_ends_a_start_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def during(application: Application) -> None:
        await application.until("opening")
        application.orders.send(2 * STOP)

    assert serve(monkeypatch, during) == ["opening", "closed"]


def test_an_order_during_the_start_keeps_it_from_serving(monkeypatch: pytest.MonkeyPatch) -> None:
    let_in = AsyncMock()
    monkeypatch.setattr(server.Server, "serve", let_in)

    async def during(application: Application) -> None:
        await application.until("opening")
        application.orders.send(STOP)
        await asyncio.sleep(0.05)
        for event in application.may_end.values():
            event.set()

    assert serve(monkeypatch, during) == ["opening", "closing", "closed"]
    let_in.assert_not_called()


def test_a_second_order_ends_a_close_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def during(application: Application) -> None:
        application.may_end["opening"].set()
        await application.until("opening")
        application.orders.send(STOP)
        await application.until("closing")
        application.orders.send(STOP)

    assert serve(monkeypatch, during) == ["opening", "closing", "closed"]


def test_a_connection_is_kept_for_longer_than_by_clients() -> None:
    """A request sent while the service closes an idle connection fails with an unknown result."""
    assert server.server_config(Settings(port=0)).timeout_keep_alive > 2 * httpx.Limits().keepalive_expiry


def test_an_order_to_stop_breaks_off_nothing_of_a_worker_that_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "DRAIN_SECONDS", 0)

    async def during(application: Application) -> None:
        writer = await begin_request(application)
        application.orders.send(DRAIN)
        await asyncio.sleep(0.1)
        application.orders.send(STOP)
        await asyncio.sleep(0.3)
        assert application.happened == ["opening", "request"]
        application.may_end["request"].set()
        await application.until("closed")
        writer.close()

    assert serve(monkeypatch, during) == ["opening", "request", "request ended", "closing", "closed"]


@pytest.mark.parametrize("orders", [1, 2])
def test_requests_that_are_cut_off_end_before_the_application(monkeypatch: pytest.MonkeyPatch, orders: int) -> None:
    monkeypatch.setattr(server, "GRACE_SECONDS", 0 if orders == 1 else SECONDS)

    async def during(application: Application) -> None:
        writer = await begin_request(application)
        application.orders.send(orders * STOP)
        await application.until("closed")
        writer.close()

    assert serve(monkeypatch, during) == ["opening", "request", "request ended", "closing", "closed"]
