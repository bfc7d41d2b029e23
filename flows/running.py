"""Shared parts of the flows: batches as Prefect task runs, progress as artifacts, and the final state."""

import logging
from typing import Any
from uuid import UUID

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.errors import FlowError, ServiceDownError
from flows.limits import ensure_limits, give_slots_back, one_of_the_batches, slots_file
from flows.operations.apply import run_workers
from flows.operations.jobs import Hooks, Job, Outcome, RunBatches, run_batch
from flows.operations.ledger.ledger import Ledger
from flows.operations.notes import notes_of
from flows.operations.plan import Plan
from flows.operations.scan import Scanned
from flows.progress import Progress
from flows.settings import FlowSettings


def _remove_own_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback of a FlowError from a log record, because its message says what to do; return True."""
    if record.exc_info and isinstance(record.exc_info[1], FlowError):
        record.exc_info = None
    return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_remove_own_traceback)

_AT_ONCE = 2  # batches: while one drains its last documents, the other keeps the service busy


def _is_worth_retrying(_task: object, _run: object, state: State[Any]) -> bool:
    """Return whether a failed task is retried: after an outage or an unexpected error, but not another FlowError."""
    error: object = state.data
    return isinstance(error, ServiceDownError) or not isinstance(error, FlowError)


@task(
    task_run_name="batch-{partition}",
    retries=3,
    retry_delay_seconds=[5, 30, 120],
    retry_condition_fn=_is_worth_retrying,
    cache_policy=NO_CACHE,
    persist_result=False,
)
async def send_batch(job: Job, partition: int, concurrency: int) -> int:
    """Send one batch, without what an earlier try has sent, and return the number of documents."""
    settings = FlowSettings()
    async with one_of_the_batches(slots_file(settings, job.ledger)):
        return await run_batch(job, partition, settings=settings, concurrency=concurrency)


def hooks_of(progress: Progress, *, source: str, settings: FlowSettings) -> Hooks:
    """Return the hooks of a flow's run: publish the plan, do the batches as task runs, and publish the end."""

    async def on_plan(ledger: Ledger, scanned: Scanned, plan: Plan) -> None:
        get_run_logger().info("The plan for %s: %s", source, plan.text())
        await progress.on_plan(ledger, scanned, plan)

    return Hooks(_batches_as_tasks(progress, settings=settings), on_plan, progress.update)


def _batches_as_tasks(progress: Progress, *, settings: FlowSettings) -> RunBatches:
    """Return a function that runs a job's batches as task runs, two at a time, sharing the set concurrency."""

    async def run(job: Job) -> None:
        at_once = min(_AT_ONCE, job.partitions)
        concurrency = max(1, settings.flows_concurrency // at_once)
        queue = iter(range(job.partitions))
        await ensure_limits(settings)
        await give_slots_back(slots_file(settings, job.ledger))

        async def work() -> None:
            for partition in queue:
                await send_batch(job, partition, concurrency)

        await run_workers(work, number=at_once)
        progress.phase = "indexing"

    return run


def current_run_id() -> UUID:
    """Return the id of the current flow run."""
    return UUID(str(flow_run.get_id()))


async def conclude(progress: Progress, outcome: Outcome) -> State[dict[str, Any]]:
    """Publish the last figures and return the run's final state: completed, naming a quarantine that isn't empty.

    The state's data are the summary's members.
    """
    progress.phase = "done"
    await progress.publish_summary(outcome.summary)
    get_run_logger().info(outcome.summary.text())
    for remark in notes_of(outcome.ledger.name).remarks:
        get_run_logger().warning(remark)
    name = "Completed" if outcome.summary.complete else "CompletedWithProblems"
    if outcome.summary.quarantined:
        name = "CompletedWithQuarantine"
    return Completed(name=name, message=outcome.summary.text(), data=outcome.summary.as_json())
