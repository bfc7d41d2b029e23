"""The flow that brings the catalog to what a folder, a glob or a manifest holds."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.operations.bulk import upload
from flows.operations.options import UploadOptions
from flows.progress import following
from flows.running import concluded, current_run_id, hooks_of
from flows.settings import FlowSettings


@flow(name="bulk-upload", persist_result=False)
async def bulk_upload(source: str, options: UploadOptions | None = None) -> State[dict[str, Any]]:
    """Upload what is new or changed in `source`: a folder, a glob pattern, or a .csv or .jsonl manifest.

    The service and its key come from the environment of the process (flows.settings), never from parameters. One bad
    document costs only itself; a run that fails or is killed goes on where it was when it is run again.
    """
    settings = FlowSettings()
    async with following(current_run_id()) as progress:
        hooks = hooks_of(progress, source=source, settings=settings)
        outcome = await upload(source, options=options or UploadOptions(), settings=settings, hooks=hooks)
        return await concluded(progress, outcome)
