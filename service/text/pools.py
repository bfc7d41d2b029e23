"""Processes for reading files, pages and pictures: the fork server, and pools that end when idle."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from multiprocessing import forkserver, get_context, resource_tracker
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Any, NoReturn, TypeVar

from pebble import ProcessPool

from service.platform.logs import logger

PRELOADED = ["service.text.extraction.task", "service.text.extraction.parsing"]
# After this time, the next file waits some milliseconds for a process, and the next page some seconds for models.
IDLE_SECONDS = 120.0
Result = TypeVar("Result")


class SharedForkServer(forkserver.ForkServer):
    """A process with imported parsers and no threads, used by several processes to fork readers; a supervisor runs it.
    Create the server before these processes. The socket outlives restarts; the server ends after the last process."""

    def __init__(self, folder: Path) -> None:
        """Listen on a socket in a folder accessible only to the service's user."""
        super().__init__()
        self._forkserver_address = str(folder / "readers")
        self._listener = socket(AF_UNIX)
        self._listener.bind(self._forkserver_address)
        self._listener.listen()
        self._alive, self._forkserver_alive_fd = os.pipe()
        resource_tracker.ensure_running()
        # The library has no option for this; tests notice if one of these names moves.
        setattr(forkserver, "connect_to_new_process", self.connect_to_new_process)  # noqa: B010 - its type is narrower

    def ensure_running(self) -> None:
        """Do nothing: the supervisor starts the server."""

    def run(self) -> NoReturn:
        passed = [self._listener.fileno(), self._alive]
        for descriptor in passed:
            os.set_inheritable(descriptor, True)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # SIGTERM may be sent to all processes while others still read
        arguments = ", ".join(map(repr, (*passed, PRELOADED)))
        code = f"from multiprocessing.forkserver import main; main({arguments}, sys_path={sys.path!r})"
        os.execv(sys.executable, [sys.executable, "-c", code])  # noqa: S606 - it is this program again

    def close(self) -> None:
        """Let the process end after every other process with access to the socket."""
        os.close(self._forkserver_alive_fd)


class IdlePool:
    """A pool of processes, started on demand and ended after some idle time. Each process has a separate queue, because
    a process killed while answering leaves a queue locked."""

    def __init__(
        self, *, workers: int, tasks: int, initializer: Callable[..., None], initargs: tuple[Any, ...]
    ) -> None:
        self._options: dict[str, Any] = {
            "max_workers": 1,
            "max_tasks": tasks,
            "initializer": initializer,
            "initargs": initargs,
            "context": get_context("forkserver"),
        }
        self.pools = set[ProcessPool]()
        self._idle: list[ProcessPool] = []
        self._turns = asyncio.Semaphore(workers)
        self._end: asyncio.TimerHandle | None = None

    async def run(
        self,
        work: Callable[..., Result],
        arguments: tuple[object, ...] = (),
        named: Mapping[str, object] | None = None,
        *,
        seconds: float | None = None,
    ) -> Result:
        """Run `work` in a process and return its result. Raises TimeoutError after `seconds`; ProcessExpired if the
        process ends; another RuntimeError, or OSError, if no process can start. Cancelling ends the process."""
        async with self._turns:
            if self._end is not None:
                self._end.cancel()
            while self._idle and not self._idle[-1].active:  # the process has ended
                await self._stop(self._idle.pop())
            pool = self._idle.pop() if self._idle else ProcessPool(**self._options)
            try:
                if pool not in self.pools:
                    self.pools.add(pool)
                    await asyncio.to_thread(getattr, pool, "active")  # starts the process
                result = await asyncio.wrap_future(pool.schedule(work, arguments, named or {}, seconds))
            except BaseException:
                # The turn ends after the process, so that there are never more processes than turns.
                await asyncio.shield(self._stop(pool))
                raise
            else:
                self._idle.append(pool)
                return result
            finally:
                if len(self._idle) == len(self.pools):
                    self._end = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_idle)

    def close(self) -> None:
        """Stop all processes, including busy processes."""
        while self.pools:
            _stop(self.pools.pop())

    def _end_idle(self) -> None:
        while self._idle:
            self._stop(self._idle.pop())

    def _stop(self, pool: ProcessPool) -> "asyncio.Future[None]":
        self.pools.discard(pool)
        return asyncio.get_running_loop().run_in_executor(None, _stop, pool)


def _stop(pool: ProcessPool) -> None:
    try:
        _ = pool.active  # waits for the start
        pool.stop()
        pool.join()
    except Exception:  # noqa: BLE001 - the pool is given up in any case
        logger.warning("pool_not_stopped", exc_info=True)
