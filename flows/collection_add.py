"""The flow for adding documents of the catalog to a collection."""

from functools import partial
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.operations.loading import add_to_collection
from flows.operations.options import CollectionOptions
from flows.running import run_to_end, skip_while_busy


@flow(name="collection-add", persist_result=False)
@skip_while_busy
async def collection_add(source: str, options: CollectionOptions) -> State[dict[str, Any]]:
    """Add the documents named by `source` to the collection, with their metadata; no file is read or sent. Documents
    unknown to the catalog go to quarantine. Created counts the added and updated documents."""
    return await run_to_end(partial(add_to_collection, options=options), source)
