"""A bulk upload from its source to its end: scan, plan, batches, index. It knows nothing of Prefect."""

import asyncio

from flows.operations.jobs import NO_HOOKS, Hooks, Outcome, Planned, Stopwatch, carry_out, open_client, patience_of
from flows.operations.ledger import Ledger
from flows.operations.names import names_of
from flows.operations.options import UploadOptions
from flows.operations.plan import make_plan
from flows.operations.scan import scan
from flows.operations.sources import source_identity
from flows.operations.summary import summarize
from flows.settings import FlowSettings


def upload_ledger(source: str, *, settings: FlowSettings) -> Ledger:
    """Open the ledger of uploads from this source to the settings' service."""
    return Ledger.at(
        settings.ledgers,
        target=settings.base_url,
        source=source_identity(source),
        database_url=settings.flows_database_url,
    )


async def upload(
    source: str, *, options: UploadOptions, settings: FlowSettings, hooks: Hooks = NO_HOOKS, dry_run: bool = False
) -> Outcome:
    """Bring the catalog to what the source holds; documents the source no longer has are left alone.

    `dry_run` ends with the plan. Raises SourceError, SourceBusyError, LedgerError, RefusedError or ServiceDownError;
    whatever was done is kept and the next run goes on from there.
    """
    watch = Stopwatch()
    async with open_client(settings) as client:
        with upload_ledger(source, settings=settings) as ledger:
            await asyncio.to_thread(ledger.begin)
            patience = patience_of(client, settings)
            names = names_of(client, patience=patience)
            scanned = await scan(ledger, source, defaults=await names.defaults(options.defaults()), names=names)
            plan = await make_plan(
                client,
                ledger,
                patience=patience,
                upload_as=options.upload_as_user_email,
                retry_refused=options.retry_refused,
            )
            planned = Planned(
                "upload", scanned, plan, options.wait_for_index, options.upload_as_user_email, dry_run=dry_run
            )
            await carry_out(planned, client, ledger, settings=settings, patience=patience, hooks=hooks)
            return Outcome(summarize(ledger), plan, scanned, watch.seconds, ledger.address)
