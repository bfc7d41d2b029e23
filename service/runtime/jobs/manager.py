"""The job manager of a worker: it takes the jobs of tasks that it knows, and ends only those that it still has."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any, LiteralString

from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from service.runtime.jobs import queries


class FencedJobManager(JobManager):
    """Finishes a job by deleting it, or puts it back, unless it was released meanwhile.

    That happens to a worker that was taken for dead and comes back. `on_failure` is called when the database can't be
    told: the job stays with this worker, which must end for others to take it up. Jobs whose task is not among `tasks`
    are a newer release's, a replica of which runs at the same time: they are left to it as they are.
    """

    def __init__(self, connector: BaseConnector, *, tasks: Collection[str]) -> None:
        super().__init__(connector)
        self._tasks = list(tasks)
        self.on_failure: Callable[[], None] = lambda: None

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Take up the next job of a task that is known here; None when there is none."""
        rows = await self.connector.execute_query_all_async(
            queries.FETCH, queues=queues, tasks=self._tasks, worker_id=worker_id
        )
        return Job.from_row(rows[0]) if rows else None

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Delete the job, whatever came of it."""
        del status, delete_job
        await self._execute(queries.FINISH, job)

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Put the job back, to be taken up from `retry_at` on."""
        del priority, queue, lock
        await self._execute(queries.PUT_BACK, job, retry_at=retry_at)

    async def _execute(self, statement: LiteralString, job: Job, **values: Any) -> None:
        try:
            await self.connector.execute_query_async(statement, job_id=job.id, attempts=job.attempts, **values)
        except ConnectorException:
            self.on_failure()
            raise
