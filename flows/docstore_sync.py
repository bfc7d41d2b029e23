"""The flow for syncs: launches a sync with a document database and watches its run."""

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State

from carrel.wire.docstore import DocstoreSync
from flows.operations.options import SyncOptions
from flows.operations.syncing import counts_of, is_running, plan_text, sync
from flows.running import complete, publish_progress
from flows.runs import FAILURES, PLAN
from flows.settings import FlowSettings


@flow(name="docstore-sync", persist_result=False)
async def docstore_sync(source: str, options: SyncOptions | None = None) -> State[dict[str, Any]]:
    """Launch the sync `source`, a name or id, and watch its run. The run belongs to the service and outlives this flow.
    The service's address and key come from the environment of the process (flows.settings), never from parameters."""
    async with publish_progress() as progress:

        async def publish_plan(found: DocstoreSync) -> None:
            plan = plan_text(found)
            get_run_logger().info("The plan for %s: %s", found.config.sync_name, plan)
            await progress.publish(PLAN, kind="markdown", data=f"The run {plan}.")

        async def publish_counts(now: DocstoreSync) -> None:
            is_done, counts = not is_running(now), counts_of(now)
            waiting = now.warning.message.rstrip(".") if now.warning and not is_done else ""
            row = {
                **counts,
                "waitingFor": waiting,
                "sent": counts["created"] + counts["updated"],
                "quarantined": counts["failed"],
            }
            phase, share = ("done", 100.0) if is_done else ("sending", 0.0)
            await progress.publish_average(row, phase=phase, progress=share, done=counts["read"])

        outcome = await sync(
            source,
            options=options or SyncOptions(),
            settings=FlowSettings(),
            on_plan=publish_plan,
            on_update=publish_counts,
        )
        if outcome.failures:
            await progress.publish_table(FAILURES, outcome.failures)
    name = "Completed"
    if outcome.has_problems:
        name = "CompletedWithProblems" if outcome.is_incomplete else "CompletedWithQuarantine"
    return complete(outcome.text(), outcome.as_json(), name=name)
