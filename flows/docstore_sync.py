"""The flow that launches a sync with a document database and watches its run."""

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from carrel.wire.docstore import DocstoreSync
from flows.operations.jobs import Stopwatch
from flows.operations.options import SyncOptions
from flows.operations.syncing import SyncHooks, SyncOutcome, counts_of, is_running, plan_text, sync
from flows.progress import Progress, publish_progress
from flows.running import current_run_id
from flows.runs import FAILURES, PLAN
from flows.settings import FlowSettings


@flow(name="docstore-sync", persist_result=False)
async def docstore_sync(source: str, options: SyncOptions | None = None) -> State[dict[str, Any]]:
    """Launch the sync that `source` names, by its name or id, and watch its run; a running one is only watched.

    The service and its key come from the environment of the process (flows.settings), never from parameters. The run
    is the service's: it continues when this flow ends.
    """
    async with publish_progress(current_run_id()) as progress:
        told = _ProgressPublisher(progress)
        outcome = await sync(
            source,
            options=options or SyncOptions(),
            settings=FlowSettings(),
            hooks=SyncHooks(on_plan=told.plan, on_update=told.counts),
        )
        return await _conclude(progress, outcome)


class _ProgressPublisher:
    """Publishes the plan and the counts of a sync's run as artifacts."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._watch = Stopwatch()

    async def plan(self, found: DocstoreSync) -> None:
        """Publish the plan of the sync's run."""
        plan = plan_text(found)
        get_run_logger().info("The plan for %s: %s", found.config.sync_name, plan)
        await self._progress.publish(PLAN, kind="markdown", data=f"The run {plan}.")

    async def counts(self, now: DocstoreSync) -> None:
        """Publish the current counts of the sync's run."""
        is_done = not is_running(now)
        seconds, counts = self._watch.seconds, counts_of(now)
        row: dict[str, Any] = {
            **counts,
            "sent": counts["created"] + counts["updated"],
            "quarantined": counts["failed"],
            "phase": "done" if is_done else "sending",
            "progress": 100.0 if is_done else 0.0,
            "seconds": round(seconds, 1),
            "documentsPerSecond": round(counts["read"] / seconds, 4) if seconds else 0.0,
        }
        await self._progress.publish_counts(row)


async def _conclude(progress: Progress, outcome: SyncOutcome) -> State[dict[str, Any]]:
    """Publish the documents that could not be taken, and return the run's final state with its problems."""
    if outcome.failures:
        await progress.publish_table(FAILURES, outcome.failures)
    get_run_logger().info(outcome.text())
    name = "Completed"
    if outcome.has_problems:
        name = "CompletedWithProblems" if outcome.is_incomplete else "CompletedWithQuarantine"
    return Completed(name=name, message=outcome.text(), data=outcome.as_json())
