"""The flow for uploads: makes the catalog equal to a folder, a glob or a manifest."""

from functools import partial
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.operations.loading import upload
from flows.operations.options import UploadOptions
from flows.running import run_to_end, skip_while_busy


@flow(name="bulk-upload", persist_result=False)
@skip_while_busy
async def bulk_upload(
    source: str, options: UploadOptions | None = None, *, dry_run: bool = False, confirmed: str | None = None
) -> State[dict[str, Any]]:
    """Upload new and changed documents of `source`: a folder, a glob pattern, or a .csv or .jsonl manifest. `dry_run`
    ends with the plan: nothing is sent or deleted. `confirmed` is the mark of deletions confirmed by name
    (flows.operations.deletions). The service's address and key come from the environment (flows.settings), never from
    parameters. A bad document doesn't stop the run. Run the flow again after a failure to continue."""
    work = partial(upload, options=options or UploadOptions(), dry_run=dry_run, confirmed=confirmed)
    return await run_to_end(work, source, dry_run=dry_run)
