"""The two drivers: each carries out a flow's effects over an `httpx` client, which they share with whoever made it."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.to_thread
import httpx

from carrel._flow import Flow, Sleep, Work

T = TypeVar("T")


class SyncDriver:
    """Runs a flow to its end in the calling thread."""

    def __init__(self, http: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self.http = http
        self.sleep = sleep

    def run(self, flow: Flow[T]) -> T:
        """Return what the flow returns; what it raises passes through."""
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Sleep):
                    self.sleep(effect.seconds)
                    effect = flow.send(None)
                    continue
                if isinstance(effect, Work):
                    effect = flow.send(effect.do())
                    continue
                try:
                    response = self.http.send(effect.to_httpx(), stream=effect.stream, follow_redirects=False)
                    if effect.stream and not response.is_success:
                        response.read()
                except httpx.HTTPError as exc:
                    effect = flow.throw(exc)
                else:
                    effect = flow.send(response)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            flow.close()  # at once, also when the work failed or the caller was cancelled: it may hold something


class AsyncDriver:
    """Runs a flow to its end in the running event loop (asyncio or trio)."""

    def __init__(self, http: httpx.AsyncClient, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> None:
        self.http = http
        self.sleep = sleep

    async def run(self, flow: Flow[T]) -> T:
        """Return what the flow returns; what it raises passes through."""
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Sleep):
                    await self.sleep(effect.seconds)
                    effect = flow.send(None)
                    continue
                if isinstance(effect, Work):
                    effect = flow.send(await anyio.to_thread.run_sync(effect.do))
                    continue
                try:
                    response = await self.http.send(effect.to_httpx(), stream=effect.stream, follow_redirects=False)
                    if effect.stream and not response.is_success:
                        await response.aread()
                except httpx.HTTPError as exc:
                    effect = flow.throw(exc)
                else:
                    effect = flow.send(response)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            flow.close()  # at once, also when the work failed or the caller was cancelled: it may hold something
