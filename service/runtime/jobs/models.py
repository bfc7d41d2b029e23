"""The task that a job runs, and the queue that the job waits in."""

from collections.abc import Awaitable, Callable
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
    """Work that outlives the request that asked for it: `await run(runtime, organization_id=…, **ids)`.

    A job is run at least once: again when its process was killed or stopped meanwhile, or the database went away. So
    `run` must find out from the database what is left to do, and let nobody write who has been replaced. What it
    raises is logged and ends the job, so it is `run` that tells whoever waits, also when the job is deadly
    (`refuse_deadly`). It must let CancelledError pass, by
    which a stopping service puts the job back.
    """

    name: str
    run: Callable[..., Awaitable[None]]
    queue: str = AGENTS
