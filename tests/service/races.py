"""Two at once in one process: the first is stopped in the middle of what it does, and another one comes by."""

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
    """Stops whoever comes first to a place in the code, until it is told to go on."""

    pool: ThreadPoolExecutor
    patch: pytest.MonkeyPatch
    reached: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)

    async def stop(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert await asyncio.to_thread(self.open.wait, SECONDS)

    def stop_behind(self, where: Any, name: str) -> None:
        """Stop who has done `where.name`, before whatever follows."""
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
        """Do something in another thread, up to the place where it stops."""
        doing = self.beside(work, *args)
        assert self.reached.wait(SECONDS)
        return doing

    def begin_blocked(self, service: RunningService, work: Callable[..., Any], *args: Any) -> Doing:
        """Do something in another thread, up to where it waits for what has stopped."""
        doing = self.beside(work, *args)
        wait_blocked(service)
        return doing

    def release(self) -> None:
        self.open.set()
