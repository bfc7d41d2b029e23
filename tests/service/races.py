"""Concurrency in a single process: the first thread stops in the middle, and another passes."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.harness.services import RunningService
from tests.service.rebuilds import wait_blocked

SECONDS = 60
Doing = Future[Any]


@dataclass
class Race:
    """Stops the first thread at a place in the code, until released."""

    pool: ThreadPoolExecutor
    patch: pytest.MonkeyPatch
    reached: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)

    async def stop(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert await asyncio.to_thread(self.open.wait, SECONDS)

    def stop_behind(self, where: Any, name: str) -> None:
        work = getattr(where, name)

        async def stopped(*args: Any, **options: Any) -> Any:
            result = await work(*args, **options)
            await self.stop()
            return result

        self.patch.setattr(where, name, stopped)

    def stop_before(self, where: Any, name: str) -> None:
        work = getattr(where, name)

        async def stopped(*args: Any, **options: Any) -> Any:
            await self.stop()
            return await work(*args, **options)

        self.patch.setattr(where, name, stopped)

    def beside(self, work: Callable[..., Any], *args: Any) -> Doing:
        return self.pool.submit(work, *args)

    def begin(self, work: Callable[..., Any], *args: Any) -> Doing:
        doing = self.beside(work, *args)
        assert self.reached.wait(SECONDS)
        return doing

    def begin_blocked(self, service: RunningService, work: Callable[..., Any], *args: Any) -> Doing:
        doing = self.beside(work, *args)
        wait_blocked(service)
        return doing

    def release(self) -> None:
        self.open.set()
