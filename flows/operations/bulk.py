"""A bulk upload from its source to its end: scan, plan, batches, index. It knows nothing of Prefect."""

import asyncio

from flows.operations.jobs import (
    Job,
    OnEnd,
    OnPlan,
    Outcome,
    RunBatches,
    Stopwatch,
    open_client,
    partitions_of,
    patience_of,
    run_in_turn,
)
from flows.operations.ledger import Ledger
from flows.operations.names import names_of
from flows.operations.options import UploadOptions
from flows.operations.plan import make_plan
from flows.operations.scan import scan
from flows.operations.settle import settle
from flows.operations.sources import source_identity
from flows.operations.summary import summarize
from flows.settings import FlowSettings


def upload_ledger(source: str, *, settings: FlowSettings) -> Ledger:
    """Open the ledger of uploads from this source to the settings' service."""
    return Ledger.at(settings.ledgers, target=settings.base_url, source=source_identity(source))


async def upload(
    source: str,
    *,
    options: UploadOptions,
    settings: FlowSettings,
    run_batches: RunBatches | None = None,
    on_plan: OnPlan | None = None,
    on_end: OnEnd | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Bring the catalog to what the source holds; documents the source no longer has are left alone.

    `on_plan` hears the plan before anything is sent, `on_end` the end while the ledger is open; `run_batches` does the
    batches (by default in turn, here); `dry_run` ends with the plan. Raises SourceError, SourceBusyError, RefusedError
    or ServiceDownError; whatever was done is kept and the next run goes on from there.
    """
    watch = Stopwatch()
    async with open_client(settings) as client:
        with upload_ledger(source, settings=settings) as ledger:
            await asyncio.to_thread(ledger.begin)
            patience = patience_of(client, settings)
            names = names_of(client, patience=patience)
            scanned = await scan(ledger, source, defaults=options.defaults(), names=names)
            plan = await make_plan(
                client,
                ledger,
                patience=patience,
                upload_as=options.upload_as_user_email,
                retry_refused=options.retry_refused,
            )
            if on_plan is not None:
                await on_plan(ledger, scanned, plan)
            if not dry_run:
                job = Job(
                    kind="upload",
                    ledger=str(ledger.path),
                    run_key=ledger.run_key,
                    partitions=partitions_of(plan.sends, batch_size=settings.flows_batch_size),
                    upload_as=options.upload_as_user_email,
                )
                if plan.sends:
                    await (run_batches(job) if run_batches else run_in_turn(job, settings=settings))
                if options.wait_for_index:
                    await settle(client, ledger, patience=patience)
                ledger.finish()
            if on_end is not None:
                await on_end()
            return Outcome(summarize(ledger), plan, scanned, watch.seconds, ledger.path)
