"""The flow for adding documents of the catalog to a collection."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.operations.loading import add_to_collection
from flows.operations.options import CollectionOptions
from flows.running import conclude, current_run_id, hooks_of, publish_progress, skip_while_busy
from flows.settings import FlowSettings


@flow(name="collection-add", persist_result=False)
@skip_while_busy
async def collection_add(source: str, options: CollectionOptions) -> State[dict[str, Any]]:
    """Add the documents named by `source` to the collection, with their metadata; no file is read or sent. Documents
    unknown to the catalog go to quarantine. Created counts the added and updated documents."""
    settings = FlowSettings()
    async with publish_progress(current_run_id()) as progress:
        hooks = hooks_of(progress, source=source, settings=settings)
        outcome = await add_to_collection(source, options=options, settings=settings, hooks=hooks)
        return await conclude(progress, outcome)
