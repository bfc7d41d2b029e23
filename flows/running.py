"""What both flows share: batches as task runs, and a run's end as a Prefect state."""

import asyncio
from collections.abc import Awaitable, Callable

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed
from prefect.tasks import Task

from flows.errors import FlowError, ServiceDownError
from flows.operations.jobs import Job, Outcome, run_batch
from flows.progress import Progress
from flows.settings import FlowSettings

_AT_ONCE = 2  # batches: while one drains its last documents, the other keeps the service busy


def _worth_retrying(_task: Task[..., object], _run: object, state: State) -> bool:
    """A service that stayed away may be back; what else stops a batch would stop it again."""
    try:
        state.result(raise_on_failure=True)
    except ServiceDownError:
        return True
    except FlowError:
        return False
    except Exception:  # noqa: BLE001 - not ours to judge: a lost worker, a bug in one place
        return True
    return False
