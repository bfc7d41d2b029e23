"""The flow that adds documents of the catalog to a collection."""

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State

from flows.operations.collecting import add_to_collection
from flows.operations.ledger import Ledger
from flows.operations.options import CollectionOptions
from flows.operations.plan import Plan
from flows.operations.scan import Scanned
from flows.progress import following
from flows.running import batches_as_tasks, concluded, current_run_id
from flows.settings import FlowSettings


@flow(name="collection-add", persist_result=False)
async def collection_add(source: str, options: CollectionOptions) -> State[dict[str, Any]]:
    """Add the documents that `source` names to the collection, with the metadata it gives them.

    Documents are found by their external id, as flows.bulk_upload gave it; no file is read or sent. A document that
    the catalog has not goes to quarantine. Created counts those added or brought up to date.
    """
    settings = FlowSettings()
    async with following(current_run_id()) as progress:

        async def on_plan(ledger: Ledger, scanned: Scanned, plan: Plan) -> None:
            get_run_logger().info("%s documents to add to %s", plan.sends, options.collection)
            await progress.on_plan(ledger, scanned, plan)

        outcome = await add_to_collection(
            source,
            options=options,
            settings=settings,
            run_batches=batches_as_tasks(progress, settings=settings),
            on_plan=on_plan,
            on_end=progress.update,
        )
        return await concluded(progress, outcome)
