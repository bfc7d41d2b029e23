"""The task that a job runs, and the queue that the job waits in."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The queue of agents' replies; what must not wait behind them gets one of its own.
AGENTS = "agents"


class TaskName(NamedTuple):
    """The name of a task, and the queue in which its jobs wait: enough to enqueue one."""

    name: str
    queue: str


@dataclass(frozen=True, slots=True)
class Task:
    """Work that outlives its request: `await run(runtime, organization_id=…, **ids)`. A job runs at least once:
    again if its process was killed or stopped, or the database went away. So `run` must find in the database what is
    left, and let no replaced worker write. Its errors are logged and end the job, so `run` must tell the waiting,
    also when the job is deadly (`refuse_deadly`). It must let CancelledError pass, by which a stopping service puts
    the job back."""

    name: str
    run: Callable[..., Awaitable[None]]
    queue: str = AGENTS


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that a service works: the tasks of its jobs, and how many of them run at a time."""

    name: str
    tasks: Sequence[Task]
    concurrency: int
