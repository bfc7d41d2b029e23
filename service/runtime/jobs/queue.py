"""The job queue for requests, and counts of the jobs' outcomes."""

import re
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import psycopg
from procrastinate import App, PsycopgConnector
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.platform import traces
from service.platform.logs import request_id
from service.runtime.jobs.models import Task, TaskName

REQUEST_ID = "request_id"
ORGANIZATION_ID = "organization_id"
# After its request's id, a job contains its trace: the trace of the request that enqueued it, or a link to another
# job's. With a separate argument, workers of earlier releases would fail the job.
TRACE, LINK = "traceparent", "tracelink"
_TRACED = re.compile(rf"(?P<request_id>.*)\.(?P<kind>{TRACE}|{LINK})\.(?P<trace>[0-9a-f-]{{55}})", re.ASCII)
is_job: ContextVar[bool] = ContextVar("is_job", default=False)


@dataclass
class Counts:
    """Jobs of the process since the start, by task; and the number of waiting jobs, for any process, when last read."""

    waiting: int = 0
    running: int = 0
    done: dict[str, int] = field(default_factory=dict[str, int])
    failed: dict[str, int] = field(default_factory=dict[str, int])

    def begin(self, task: str) -> None:
        """Publish a task's counts as 0, because a metric that first appears as 1 shows no increase."""
        for outcomes in (self.done, self.failed):
            outcomes.setdefault(task, 0)


class Jobs:
    """Puts jobs into PostgreSQL for the workers of any replica (`service.runtime.jobs.worker`)."""

    def __init__(self) -> None:
        self.counts = Counts()
        # No connections of its own: jobs are enqueued on the caller's connection.
        self._app = App(connector=PsycopgConnector())

    async def enqueue(
        self,
        connection: Connection,
        task: Task | TaskName,
        *,
        organization_id: UUID,
        lock: str | None = None,
        pause: timedelta | None = None,
        priority: int = 0,
        **ids: UUID,
    ) -> None:
        """Enqueue `task` with these ids. The job runs after the transaction commits and `pause` is over, highest
        `priority` first; jobs with the same `lock` run in order. Anyone with access to the database can see the ids."""
        raw = (await connection.get_raw_connection()).driver_connection
        assert isinstance(raw, psycopg.AsyncConnection)  # noqa: S101 - the only driver there is
        job = self._app.configure_task(
            task.name,
            queue=task.queue,
            lock=lock,
            connection=raw,
            priority=priority,
            schedule_in=None if pause is None else {"seconds": int(pause.total_seconds())},
        )
        given = {ORGANIZATION_ID: organization_id, **ids}
        trace = traces.traceparent()
        request = f"{request_id()}.{LINK if is_job.get() else TRACE}.{trace}" if trace else request_id()
        await job.defer_async(**{name: str(value) for name, value in given.items()}, **{REQUEST_ID: request})


def split_request(name: str) -> tuple[str, str, str]:
    """Return the request's id, the traceparent and the link of a job; traceparent and link may be empty."""
    found = _TRACED.fullmatch(name)
    if found is None:
        return name, "", ""
    request, kind, trace = found.group("request_id", "kind", "trace")
    return (request, trace, "") if kind == TRACE else (request, "", trace)
