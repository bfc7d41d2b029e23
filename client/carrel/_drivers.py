"""The two drivers: each carries out a flow's effects with an `httpx` client, which others may use too."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import httpx

from carrel._flow import Emit, Events, Flow, Read, Request, Sleep, Walk, Work
from carrel._uploads import Upload
from carrel.environment import http_options
from carrel.errors import ConfigurationError

T = TypeVar("T")


class SyncDriver:
    """Runs a flow to its end in the calling thread."""

    def __init__(self, http: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self.http = http
        self.sleep = sleep

    def run(self, flow: Flow[T]) -> T:
        """Run a flow, and return its result; its exceptions pass through."""
        try:
            next(self.walk(flow))
        except StopIteration as stop:
            returned: T = stop.value
            return returned
        raise AssertionError  # such a flow emits nothing

    def walk(self, flow: Walk[Any] | Flow[Any]) -> Generator[Any, None, Any]:
        """Yield the items that a flow emits; its stream is closed at the end, also after an error."""
        reading: Events | None = None
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Emit):
                    yield effect.item
                    effect = flow.send(None)
                    continue
                if isinstance(effect, Read):
                    reading = effect.events
                try:
                    result = self._carry_out(effect)
                except httpx.HTTPError as exc:
                    effect = flow.throw(exc)
                else:
                    effect = flow.send(result)
        except StopIteration as stop:
            return stop.value
        finally:
            flow.close()
            if reading is not None:
                reading.response.close()

    def _carry_out(self, effect: Request | Sleep | Work | Read) -> object:
        if isinstance(effect, Request):
            _refuse_closed(self.http)
            response = self.http.send(effect.to_httpx(), stream=effect.stream, follow_redirects=False)
            if effect.stream and not response.is_success:
                response.read()
            return response
        if isinstance(effect, Read):
            return next(effect.events.blocking, None)
        return effect.do() if isinstance(effect, Work) else self.sleep(effect.seconds)


class AsyncDriver:
    """Runs a flow to its end in the running event loop (asyncio or trio)."""

    def __init__(
        self, http: httpx.AsyncClient, sleep: Callable[[float], Awaitable[None]] = anyio.sleep, *, is_own: bool = False
    ) -> None:
        self.http = http
        self.sleep = sleep
        self._is_own = is_own

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow, and return its result; its exceptions pass through."""
        try:
            effect = next(flow)
            while True:
                try:
                    result = await self._carry_out(effect)
                except httpx.HTTPError as exc:
                    effect = flow.throw(exc)
                else:
                    effect = flow.send(result)
        except StopIteration as stop:
            returned: T = stop.value
            return returned
        finally:
            flow.close()  # at once, also when the work failed or the caller was cancelled: it may hold something

    async def walk(self, flow: Walk[T]) -> AsyncGenerator[T, None]:
        """Yield the items that a flow emits; its stream is closed at the end, also after an error."""
        reading: Events | None = None
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Emit):
                    yield effect.item
                    effect = flow.send(None)
                    continue
                if isinstance(effect, Read):
                    reading = effect.events
                try:
                    result = await self._carry_out(effect)
                except httpx.HTTPError as exc:
                    effect = flow.throw(exc)
                else:
                    effect = flow.send(result)
        except StopIteration:
            return
        finally:
            flow.close()
            if reading is not None:
                await reading.awaiting.aclose()
                await reading.response.aclose()

    async def _carry_out(self, effect: Request | Sleep | Work | Read) -> object:
        if isinstance(effect, Request):
            _refuse_closed(self.http)
            response = await self._send(effect)
            if effect.stream and not response.is_success:
                await response.aread()
            return response
        if isinstance(effect, Read):
            return await anext(effect.events.awaiting, None)
        return await (anyio.to_thread.run_sync(effect.do) if isinstance(effect, Work) else self.sleep(effect.seconds))

    async def _send(self, request: Request) -> httpx.Response:
        try:
            return await self.http.send(request.to_httpx(), stream=request.stream, follow_redirects=False)
        except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
            if not (self._is_own and isinstance(request.body, Upload) and request.body.broke_off):
                raise
            request = replace(request, body=request.body.without_progress())
        # An event loop drops what the service answers before the body has gone, such as that it is too large.
        return await anyio.to_thread.run_sync(_send_blocking, request, abandon_on_cancel=True)


def _send_blocking(request: Request) -> httpx.Response:
    with httpx.Client(**http_options(str(request.url))) as http:
        return http.send(request.to_httpx())


def _refuse_closed(http: httpx.Client | httpx.AsyncClient) -> None:
    if http.is_closed:
        raise ConfigurationError("This client was closed, and sends nothing more; make another one")
