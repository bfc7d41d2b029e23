"""Running jobs in every replica, in parallel with requests: by notification, with a heartbeat, put back at a stop."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, LiteralString, TypeVar

from procrastinate import App, PsycopgConnector
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from procrastinate.worker import Worker
from psycopg import AsyncConnection
from psycopg.abc import PQGen
from psycopg_pool import AsyncConnectionPool

from service.platform.background import run_every
from service.platform.descriptors import JOB_CONNECTIONS
from service.platform.logs import logger
from service.runtime import Runtime
from service.runtime.jobs import queries
from service.runtime.jobs.models import Queue
from service.runtime.jobs.running import PutBack, run_job

NAME = "jobs"
Result = TypeVar("Result")


class FencedJobManager(JobManager):
    """Deletes a finished job or puts the job back, unless taken from a worker that seemed dead. `on_failure`: the
    database is unreachable, so the worker keeps the job and must end, to let another take it. `on_room`: a full queue
    has room again. Jobs of unknown tasks belong to a newer release's replica and stay."""

    def __init__(self, connector: BaseConnector, queues: Sequence[Queue]) -> None:
        super().__init__(connector)
        self._tasks = [task.name for queue in queues for task in queue.tasks]
        self._room = {queue.name: queue.concurrency for queue in queues}
        self.on_failure: Callable[[], None] = lambda: None
        self.on_room: Callable[[], None] = lambda: None

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Take the next job of a known task from a queue with room; None without a job. `queues` is ignored."""
        del queues
        looked: list[str] | None = None
        # Look again if another queue got room during the look.
        while looked is None or any(room and name not in looked for name, room in self._room.items()):
            looked = [name for name, room in self._room.items() if room]
            rows = await self.connector.execute_query_all_async(
                queries.FETCH, queues=looked, tasks=self._tasks, worker_id=worker_id
            )
            if rows:
                job = Job.from_row(rows[0])
                self._room[job.queue] -= 1
                return job
        return None

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Delete the job after success or failure."""
        del status, delete_job
        await self._end_job(queries.FINISH, job)

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Put the job back, to run at `retry_at` (None: at once, without counting an attempt)."""
        del priority, queue, lock
        await self._end_job(queries.PUT_BACK, job, retry_at=retry_at)

    async def _end_job(self, statement: LiteralString, job: Job, **values: Any) -> None:
        try:
            await self.connector.execute_query_async(statement, job_id=job.id, attempts=job.attempts, **values)
        except ConnectorException:
            self.on_failure()
            raise
        finally:
            self._room[job.queue] += 1
            self.on_room()


class Connection(AsyncConnection):
    """A connection woken by the socket. Psycopg's own also polls the socket ten times a second."""

    async def wait(self, gen: PQGen[Result], *_: object, **options: Any) -> Result:
        return await super().wait(gen, **{**options, "interval": LOOK_SECONDS})


# Workers are not notified of jobs that were put back, and lose notifications during a look.
LOOK_SECONDS = 2.0
HEARTBEAT_SECONDS = 3.0
# A worker without a sign of life for this time counts as dead.
STALLED_SECONDS = 10.0
RELEASE_SECONDS = 3.0
# How long a worker waits after the database went away.
RESTART_SECONDS = 1.0
# How long jobs may continue after the service stops, before they are put back.
GRACE_SECONDS = 5.0
PATIENCE_SECONDS = 5.0
# On a busy machine, the first connection of a starting service may take this long.
START_SECONDS = 600.0


async def keep_working(runtime: Runtime, queues: Sequence[Queue]) -> None:
    """Run the queues' jobs until cancelled; then put back unfinished jobs."""
    async with _pool(runtime) as pool:
        await pool.wait(START_SECONDS)
        connector = PsycopgConnector()
        await connector.open_async(pool)
        app = App(connector=connector)
        for queue in queues:
            for task in queue.tasks:
                register = app.task(name=task.name, queue=queue.name, pass_context=True, retry=PutBack())
                register(partial(run_job, runtime, task))
                runtime.jobs.counts.begin(task.name)
        await run_every(partial(_work, app, queues), every=RESTART_SECONDS, name=NAME)


async def release_stalled(runtime: Runtime) -> None:
    """Put back the jobs of dead workers, and publish the number of waiting jobs."""
    async with runtime.database.transaction(None) as connection:
        await queries.release_stalled(connection, seconds=STALLED_SECONDS)
        runtime.jobs.counts.waiting = await queries.count_waiting(connection)


class WatchedWorker(Worker):
    """A worker that ends, to be restarted, when a necessary task has ended or was cancelled."""

    def look(self) -> None:
        self._new_job_event.set()

    async def _monitor_side_tasks(self, side_tasks: list[asyncio.Task[Any]]) -> None:
        """Stop the worker when a side task fails. The library itself watches only until the first side task ends."""
        needed = set(side_tasks)
        while needed:
            ended, needed = await asyncio.wait(needed, return_when=asyncio.FIRST_COMPLETED)
            failed = [task.get_name() for task in ended if task.cancelled() or task.exception() is not None]
            if failed:
                logger.error("jobs_worker_incomplete", failed=failed)
                self.stop()
                return


async def _work(app: App, queues: Sequence[Queue]) -> None:
    """Work until cancelled, or until the database fails. Running jobs are then put back, or released as stalled."""
    manager = app.job_manager = FencedJobManager(app.connector, queues)
    worker = WatchedWorker(
        app,
        queues=[queue.name for queue in queues],
        name=NAME,
        concurrency=sum(queue.concurrency for queue in queues),
        fetch_job_polling_interval=LOOK_SECONDS,
        shutdown_graceful_timeout=GRACE_SECONDS,
        install_signal_handlers=False,
        update_heartbeat_interval=HEARTBEAT_SECONDS,
        stalled_worker_timeout=STALLED_SECONDS,
    )
    manager.on_failure, manager.on_room = worker.stop, worker.look
    await worker.run()


def _pool(runtime: Runtime) -> AsyncConnectionPool[AsyncConnection]:
    """Return a closed pool with connections like the service's own. Opening the pool doesn't wait for a connection."""

    async def configure(connection: AsyncConnection) -> None:
        await runtime.database.primary.verify(connection)
        # Each statement of the library is its own transaction; autocommit saves BEGIN and COMMIT.
        await connection.set_autocommit(True)

    return AsyncConnectionPool(
        connection_class=Connection,
        kwargs=runtime.database.driver_parameters,
        configure=configure,
        min_size=1,
        max_size=JOB_CONNECTIONS - 1,  # one connection listens
        open=False,
        name=NAME,
        timeout=PATIENCE_SECONDS,
        reconnect_timeout=PATIENCE_SECONDS,
        check=AsyncConnectionPool.check_connection,
    )
