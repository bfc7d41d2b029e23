"""The flow for uploads: makes the catalog equal to a folder, a glob or a manifest."""

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.operations.backlog import notes_of
from flows.operations.loading import upload
from flows.operations.options import UploadOptions
from flows.running import conclude, current_run_id, hooks_of, publish_progress, skip_while_busy
from flows.settings import FlowSettings


@flow(name="bulk-upload", persist_result=False)
@skip_while_busy
async def bulk_upload(
    source: str, options: UploadOptions | None = None, *, dry_run: bool = False, confirmed: str | None = None
) -> State[dict[str, Any]]:
    """Upload new and changed documents of `source`: a folder, a glob pattern, or a .csv or .jsonl manifest. `dry_run`
    ends with the plan: nothing is sent or deleted. `confirmed` is the mark of deletions confirmed by name
    (flows.operations.deletions). The service's address and key come from the environment (flows.settings), never from
    parameters. A bad document doesn't stop the run. Run the flow again after a failure to continue."""
    settings = FlowSettings()
    async with publish_progress(current_run_id()) as progress:
        hooks = hooks_of(progress, source=source, settings=settings)
        chosen = options or UploadOptions()
        outcome = await upload(
            source, options=chosen, settings=settings, hooks=hooks, dry_run=dry_run, confirmed=confirmed
        )
        if dry_run:
            # Documents in quarantine don't make a dry run fail.
            progress.phase = "done"
            await progress.publish_summary(outcome.summary)
            text = outcome.plan.text()
            get_run_logger().info("Nothing was sent: %s", text)
            for remark in notes_of(outcome.ledger.name).remarks:
                get_run_logger().warning(remark)
            return Completed(message=text, data=outcome.summary.as_json())
        return await conclude(progress, outcome)
