"""The flow that brings the catalog to what a folder, a glob or a manifest holds."""

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State

from flows.operations.bulk import upload
from flows.operations.ledger import Ledger
from flows.operations.options import UploadOptions
from flows.operations.plan import Plan
from flows.operations.scan import Scanned
from flows.progress import following
from flows.running import batches_as_tasks, concluded, current_run_id
from flows.settings import FlowSettings


@flow(name="bulk-upload", persist_result=False)
async def bulk_upload(source: str, options: UploadOptions | None = None) -> State[dict[str, Any]]:
    """Upload what is new or changed in `source`: a folder, a glob pattern, or a .csv or .jsonl manifest.

    The service and its key come from the environment of the process (flows.settings), never from parameters. One bad
    document costs only itself; a run that fails or is killed goes on where it was when it is run again.
    """
    options = options or UploadOptions()
    settings = FlowSettings()
    async with following(current_run_id()) as progress:

        async def on_plan(ledger: Ledger, scanned: Scanned, plan: Plan) -> None:
            get_run_logger().info("The plan for %s: %s", source, plan.text())
            await progress.on_plan(ledger, scanned, plan)

        outcome = await upload(
            source,
            options=options,
            settings=settings,
            run_batches=batches_as_tasks(progress, settings=settings),
            on_plan=on_plan,
            on_end=progress.update,
        )
        return await concluded(progress, outcome)
