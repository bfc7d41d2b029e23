"""The job manager of a worker: it ends only jobs that the worker still has."""

from collections.abc import Callable
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
    told: the job stays with this worker, which must end for others to take it up.
    """

    def __init__(self, connector: BaseConnector) -> None:
        super().__init__(connector)
        self.on_failure: Callable[[], None] = lambda: None

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
