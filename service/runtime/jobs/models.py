"""The task of a job, and the job's queue."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The queue of agents' replies; other jobs use other queues, so that replies never wait for them.
AGENTS = "agents"


class TaskName(NamedTuple):
    name: str
    queue: str


@dataclass(frozen=True, slots=True)
class Task:
    """Work that outlives the request: `await run(runtime, organization_id=…, **ids)`. A job runs again after a kill, a
    stop, or the loss of the database. So `run` must find the remaining work in the database, and let no replaced worker
    write. Errors are logged and end the job, so `run` must notify waiting clients, also when the job is deadly
    (`refuse_deadly`). CancelledError must pass: a stopping service puts the job back."""

    name: str
    run: Callable[..., Awaitable[None]]
    queue: str = AGENTS


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue worked by a service: the tasks of its jobs, and how many run at a time."""

    name: str
    tasks: Sequence[Task]
    concurrency: int
