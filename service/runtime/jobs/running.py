"""Running a job: request id, ids, and a retry after a failure."""

import asyncio
from contextvars import ContextVar
from uuid import UUID

from opentelemetry.trace import SpanKind
from procrastinate import BaseRetryStrategy, JobContext, RetryDecision
from procrastinate.jobs import Job
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from service.platform import traces
from service.platform.errors import TRANSIENT_DRIVER_ERRORS, InsufficientStorage, Unavailable, from_database
from service.platform.logs import begin_request, logger
from service.platform.traces import TRACEPARENT
from service.runtime import Runtime
from service.runtime.jobs.models import Task
from service.runtime.jobs.queue import REQUEST_ID, Counts, is_job, split_request

# The most attempts of a job that fails because of the database, and the seconds between two attempts.
MOST_ATTEMPTS = 10
RETRY_SECONDS = 2
LATE = "reading_late"
_attempts: ContextVar[int] = ContextVar("attempts", default=0)


class DeadlyJobError(Exception):
    """A job begun ten times without an end: the worker died, or seemed dead, each time."""


def refuse_deadly() -> None:
    """Raise DeadlyJobError instead of starting a deadly job again. For tasks, where failures are reported."""
    if _attempts.get() >= MOST_ATTEMPTS:
        raise DeadlyJobError(f"The service ended {MOST_ATTEMPTS} times during this work, and gave up.")


class PutBack(BaseRetryStrategy):
    """The retry strategy: jobs cut off by a stopping service or a lost database are put back, failed jobs are not."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return the time of the retry; None: never."""
        if isinstance(exception, asyncio.CancelledError):
            return RetryDecision()
        return RetryDecision(retry_in={"seconds": RETRY_SECONDS}) if may_retry(exception, job) else None


def may_retry(error: BaseException, job: Job) -> bool:
    """Return whether a job failed because a resource was unavailable, and fewer than ten times."""
    return is_away(error) and job.attempts + 1 < MOST_ATTEMPTS


def is_last_attempt() -> bool:
    """Return whether the running job won't be put back again: its task must notify waiting clients in any case."""
    return _attempts.get() + 1 >= MOST_ATTEMPTS


def is_away(error: BaseException) -> bool:
    """Return whether an error means that the database is unreachable, a disk is full, or no reader process has time."""
    if isinstance(error, DBAPIError):
        return isinstance(from_database(error), Unavailable | InsufficientStorage)
    is_late = isinstance(error, Unavailable) and error.code == LATE
    return is_late or isinstance(error, (*TRANSIENT_DRIVER_ERRORS, PoolTimeoutError, InsufficientStorage))


async def run_job(runtime: Runtime, task: Task, context: JobContext, **arguments: str) -> None:
    """Run a job's task, and count the outcome; log a failure. Only an error that puts the job back is raised."""
    request_id, parent, link = split_request(arguments.pop(REQUEST_ID))
    begin_request(request_id)
    is_job.set(True)
    named = {"carrel.task": task.name, "carrel.attempt": context.job.attempts + 1}
    with traces.begin(f"job {task.name}", named, kind=SpanKind.CONSUMER, parent={TRACEPARENT: parent}, link=link):
        await _run_job(runtime, task, context, arguments)


async def _run_job(runtime: Runtime, task: Task, context: JobContext, arguments: dict[str, str]) -> None:
    _attempts.set(context.job.attempts)
    counts: Counts = runtime.jobs.counts
    counts.running += 1
    try:
        # A job that a full disk would fail waits here, without using up attempts.
        await runtime.disk.wait_for_room(even_low=True)
        await task.run(runtime, **{name: UUID(value) for name, value in arguments.items()})
    except asyncio.CancelledError:
        if context.abort_reason() is not None:
            raise
        # No request stopped the job: its own code cancelled itself, and would do so again.
        _record_failure(counts, task, context)
    except Exception as error:
        if may_retry(error, context.job):
            raise
        _record_failure(counts, task, context)
    else:
        counts.done[task.name] = counts.done.get(task.name, 0) + 1
    finally:
        counts.running -= 1


def _record_failure(counts: Counts, task: Task, context: JobContext) -> None:
    traces.fail()
    counts.failed[task.name] = counts.failed.get(task.name, 0) + 1
    logger.exception("job_failed", task=task.name, job_id=context.job.id, ids=context.job.task_kwargs)
