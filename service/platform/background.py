"""Background work: tasks started by a request, and tasks running as long as the service."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, cast
from uuid import UUID

from psycopg.errors import ConnectionTimeout
from psycopg_pool import PoolTimeout
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from service.platform.logs import logger

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
LOG_EVERY_SECONDS = 60.0
# Connection pools use Python 3.11's `asyncio.wait_for`, which loses a cancellation that arrives with the result. So
# cancel again, after more time than the last jobs may take (`service.runtime.jobs.worker`).
CANCELLED_AGAIN_SECONDS = 15.0


# A wait for a connection took too long, as on a busy machine: the next attempt finds the same work.
_LATE = (PoolTimeoutError, PoolTimeout, ConnectionTimeout)


def is_late(error: BaseException, seen: frozenset[int] = frozenset()) -> bool:
    """Whether an error, a cause, or every error of a group is a timeout; `seen` ids end loops of groups and causes."""
    if id(error) in seen:
        return False
    seen |= {id(error)}
    if isinstance(error, BaseExceptionGroup):
        return all(is_late(each, seen) for each in cast("BaseExceptionGroup[BaseException]", error).exceptions)
    causes = (getattr(error, "orig", None), error.__cause__)
    return isinstance(error, _LATE) or any(cause is not None and is_late(cause, seen) for cause in causes)


def log_trouble(event: str, error: BaseException | None, **details: object) -> None:
    """Log an error of background work with a traceback; for a mere delay, log a warning without a traceback."""
    if error is not None and is_late(error):
        logger.warning("background_work_late", reason=str(error).partition("\n")[0], **details)
    else:
        logger.error(event, exc_info=error, **details)


@dataclass
class KeptTask:
    """A task without an end: the start function, the number of ends, and the pause before a restart."""

    name: str
    start: Callable[[], Coroutine[Any, Any, None]]
    running: "asyncio.Task[None] | None" = None
    restarts: int = 0
    pause_seconds: float = FIRST_PAUSE_SECONDS


class EndedEarlyError(Exception):
    """An endless task has returned, or tried to end the process."""


class Background:
    """Tasks outliving their request, and tasks running as long as the service."""

    def __init__(self) -> None:
        self.kept: dict[str, KeptTask] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` once, and log a failure. Work needs a kept task if it must survive a crash."""
        self._add(asyncio.create_task(_log_failure(work)))

    def keep(self, name: str, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the task returned by `start`, and restart it whenever it ends, until `close`. Each end is logged as an
        error and counted by `name` (`carrel_background_restarts`). The pause grows with consecutive failed starts."""
        task = self.kept[name] = KeptTask(name, start)
        self._start(task)

    def repeat(self, name: str, work: Callable[[], Awaitable[object]], *, every: float) -> None:
        """Run `work` now and every `every` seconds while the service runs (`run_every`)."""
        self.keep(name, partial(run_every, work, every=every, name=name))

    async def close(self) -> None:
        """Cancel running tasks, repeatedly if a cancellation is lost, and wait until all have stopped."""
        self._is_closing = True
        tasks = set(self._tasks)
        while running := {task for task in tasks if not task.done()}:
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=CANCELLED_AGAIN_SECONDS)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _add(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _start(self, kept: KeptTask) -> None:
        if self._is_closing:
            return
        task = kept.running = asyncio.create_task(_run_endless(kept), name=kept.name)
        self._add(task)
        began = task.get_loop().time()
        task.add_done_callback(partial(self._plan_restart, kept, began))

    def _plan_restart(self, kept: KeptTask, began: float, task: "asyncio.Task[None]") -> None:
        if self._is_closing:
            return
        kept.running = None
        loop = task.get_loop()
        if loop.time() - began > LONGEST_PAUSE_SECONDS:
            kept.pause_seconds = FIRST_PAUSE_SECONDS
        kept.restarts += 1
        reason = asyncio.CancelledError() if task.cancelled() else task.exception()
        log_trouble("background_task_ended", reason, task=kept.name, again_in=kept.pause_seconds, times=kept.restarts)
        loop.call_later(kept.pause_seconds, self._start, kept)
        kept.pause_seconds = min(kept.pause_seconds * 2, LONGEST_PAUSE_SECONDS)


async def _log_failure(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - a background task has nobody else to tell
        log_trouble("background_task_failed", error)


async def _run_endless(kept: KeptTask) -> NoReturn:
    try:
        await kept.start()
    except (SystemExit, KeyboardInterrupt) as error:
        # These would end the event loop, and with it the process.
        raise EndedEarlyError(repr(error)) from error
    raise EndedEarlyError("it returned")


async def run_every(work: Callable[[], Awaitable[object]], *, every: float, name: str) -> None:
    """Run `work` now and then every `every` seconds, until cancelled. Failures are logged (`background_work_failed`,
    once a minute if repeated) and the loop continues; a failure during cancellation counts as cancelled."""
    doing = asyncio.current_task()
    failures = Failures(name)
    while True:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - see above
            failures.log(error)
            if doing is not None and doing.cancelling():
                raise asyncio.CancelledError from None
        else:
            failures.reset()
        await asyncio.sleep(every)


async def for_each_organization(
    ids: Iterable[UUID] | AsyncIterable[UUID], work: Callable[[UUID], Awaitable[object]]
) -> None:
    """Call `work` for each organization in order. Failures are logged (`organization_failed`, except timeouts) and
    raised together at the end, as an ExceptionGroup; a failure during cancellation is raised at once. A repeated id
    whose work failed is skipped."""
    doing, failures = asyncio.current_task(), dict[UUID, Exception]()
    async for each in _iterate(ids):
        if each in failures:
            continue
        try:
            await work(each)
        except Exception as error:
            if doing is not None and doing.cancelling():
                raise
            # No traceback, because the group has one: some work repeats every two seconds.
            name = "" if doing is None else doing.get_name()
            if not is_late(error):
                logger.warning("organization_failed", task=name, organization_id=str(each), error=repr(error))
            failures[each] = error
    if failures:
        raise ExceptionGroup("work for some organizations failed", list(failures.values()))


async def _iterate(ids: Iterable[UUID] | AsyncIterable[UUID]) -> AsyncIterator[UUID]:
    if isinstance(ids, AsyncIterable):
        async for each in ids:
            yield each
    else:
        for each in ids:
            yield each


class Failures:
    """Logs consecutive failures: the first of a kind at once, later failures once a minute with their number."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.reset()

    def log(self, error: Exception) -> None:
        """Count a failure, and log it unless a similar failure was logged recently."""
        self._count += 1
        now = time.monotonic()
        if type(error) is self._kind and now - self._logged_at < LOG_EVERY_SECONDS:
            return
        self._kind, self._logged_at = type(error), now
        log_trouble("background_work_failed", error, task=self._name, failures_in_a_row=self._count)

    def reset(self) -> None:
        self._count = 0
        self._kind: type[Exception] | None = None
        self._logged_at = 0.0
