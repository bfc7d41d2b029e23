"""A test's own queue, with a task that waits until released, run like a service's queues."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from service.runtime import Runtime
from service.runtime.jobs.models import Queue, Task
from service.runtime.jobs.worker import keep_working
from tests.harness.services import RunningService
from tests.service.directory import organization_id

QUEUE = "tests"
SECONDS = 60


@dataclass
class Workshop:
    """A record of the task in this process: ids begun and ended, in order, and the number at a time."""

    is_open: bool = True
    failure: BaseException | None = None
    begun: list[UUID] = field(default_factory=list[UUID])
    ended: list[UUID] = field(default_factory=list[UUID])
    at_once: int = 0
    most_at_once: int = 0

    @property
    def task(self) -> Task:
        return Task("tests.work", self._work, queue=QUEUE)

    async def _work(self, _runtime: Runtime, *, organization_id: UUID, thing_id: UUID) -> None:
        assert isinstance(organization_id, UUID)
        self.begun.append(thing_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            while not self.is_open:  # noqa: ASYNC110 - opened from other threads
                await asyncio.sleep(0.01)
            if self.failure is not None:
                raise self.failure
        finally:
            self.at_once -= 1
        self.ended.append(thing_id)


def work(service: RunningService, what: Workshop | Task, *beside: Queue, concurrency: int = 4) -> "asyncio.Task[None]":
    """Run the tests' queue in a service; when cancelled, end as at the service's stop."""

    async def start() -> "asyncio.Task[None]":
        tasks = [what if isinstance(what, Task) else what.task]
        queues = [Queue(QUEUE, tasks, concurrency), *beside]
        working = asyncio.create_task(keep_working(service.runtime, queues))
        service.runtime.background.spawn(_follow(working))
        return working

    return service.run(start())


async def _follow(working: "asyncio.Task[None]") -> None:
    await working


def stop(service: RunningService, worker: "asyncio.Task[None]") -> None:

    async def cancel() -> None:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)

    service.run(cancel())


def enqueue(service: RunningService, task: Task, *, count: int = 1, lock: str | None = None) -> list[UUID]:
    here, things = organization_id(service), [uuid4() for _ in range(count)]

    async def put(connection: AsyncConnection) -> None:
        for thing in things:
            await service.runtime.jobs.enqueue(connection, task, organization_id=here, lock=lock, thing_id=thing)

    service.in_transaction(here, put)
    return things


def until(
    claim: Callable[[], object], seconds: float = SECONDS, *, told: Callable[[], object] | None = None, pause=0.01
) -> None:
    """Wait until a claim is true; `told` says after the time why it is not."""
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, told() if told else "it never came to be"
        time.sleep(pause)


def queued(service: RunningService) -> Sequence[tuple]:
    statement = "SELECT status::text, attempts, args FROM procrastinate_jobs WHERE queue_name = %s ORDER BY id"
    return service.execute(statement, [QUEUE])


def readers_of(extractor) -> set[int]:
    """Return the process identifiers of the workers that read files."""
    return {pid for pool in extractor._pool.pools for pid in pool._pool_manager.worker_manager.workers}
