"""The two drivers: each carries out a flow's effects with an `httpx` client, which others may use too."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TypeVar

import anyio
import anyio.to_thread
import httpx

from carrel._flow import Emit, Events, Flow, Read, Request, Sleep, Walk, Work

T = TypeVar("T")


class SyncDriver:
    """Runs a flow to its end in the calling thread."""

    def __init__(self, http: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self.http = http
        self.sleep = sleep

    def run(self, flow: Flow[T]) -> T:
        """Run a flow, and return its result; its exceptions pass through."""
        try:
            effect = next(flow)
            while True:
                try:
                    result = self._carry_out(effect)
                except httpx.HTTPError as exc:
                    effect = flow.throw(exc)
                else:
                    effect = flow.send(result)
        except StopIteration as stop:
            returned: T = stop.value
            return returned
        finally:
            flow.close()  # at once, also when the work failed or the caller was cancelled: it may hold something

    def walk(self, flow: Walk[T]) -> Generator[T, None, None]:
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
        except StopIteration:
            return
        finally:
            flow.close()
            if reading is not None:
                reading.response.close()

    def _carry_out(self, effect: Request | Sleep | Work | Read) -> object:
        if isinstance(effect, Request):
            response = self.http.send(effect.to_httpx(), stream=effect.stream, follow_redirects=False)
            if effect.stream and not response.is_success:
                response.read()
            return response
        if isinstance(effect, Read):
            return next(effect.events.blocking, None)
        return effect.do() if isinstance(effect, Work) else self.sleep(effect.seconds)


class AsyncDriver:
    """Runs a flow to its end in the running event loop (asyncio or trio)."""

    def __init__(self, http: httpx.AsyncClient, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> None:
        self.http = http
        self.sleep = sleep

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
            response = await self.http.send(effect.to_httpx(), stream=effect.stream, follow_redirects=False)
            if effect.stream and not response.is_success:
                await response.aread()
            return response
        if isinstance(effect, Read):
            return await anext(effect.events.awaiting, None)
        return await (anyio.to_thread.run_sync(effect.do) if isinstance(effect, Work) else self.sleep(effect.seconds))
