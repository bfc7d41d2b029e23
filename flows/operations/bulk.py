"""A bulk upload: scan, plan, batches, index. It knows nothing of Prefect."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

from flows.operations.deletions import plan_deletions
from flows.operations.jobs import NO_HOOKS, Hooks, Outcome, Planned, Stopwatch, carry_out, open_client, outage_policy_of
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Retry
from flows.operations.names import names_of
from flows.operations.notes import notes_of
from flows.operations.options import UploadOptions, options_for_ledger
from flows.operations.plan import count_unread, make_plan, read_plan
from flows.operations.reporting import report_at_end, take_ignored
from flows.operations.run_reports import RunReport, name_source, report_run
from flows.operations.scan import scan
from flows.operations.sources.reading import source_identity
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
    source: str,
    *,
    options: UploadOptions,
    settings: FlowSettings,
    hooks: Hooks = NO_HOOKS,
    dry_run: bool = False,
    retry: Retry | None = None,
) -> Outcome:
    """Bring the catalog to what the source holds.

    Documents the source no longer has are left alone, unless the options say `delete_missing`
    (flows.operations.deletions). `dry_run` ends with the plan; `retry` sends just that of what is in quarantine, and
    deletes nothing. Raises SourceError, SourceBusyError, LedgerError, RefusedError or ServiceDownError; whatever was
    done is kept and the next run goes on from there.
    """
    watch = Stopwatch()
    name = name_source(source)
    reporting = nullcontext(RunReport()) if dry_run else report_run(settings, flow="bulk-upload", source=name)
    async with reporting as report, open_client(settings) as client:
        with upload_ledger(source, settings=settings) as ledger:
            kept = None if retry or dry_run else options_for_ledger(source, options)
            await asyncio.to_thread(ledger.begin, options=kept, retry=retry)
            ending = nullcontext() if dry_run else report_at_end(client, ledger, settings=settings)
            async with ending:
                outages = outage_policy_of(client, settings, ledger=ledger.address.name)
                names = names_of(client, outages=outages)
                defaults = await names.defaults(options.defaults())
                scanned = await scan(ledger, source, defaults=defaults, names=names, retry=retry)
                report.has_begun = True
                notes_of(ledger.address.name).scanned = scanned
                await take_ignored(client, ledger, settings=settings, outages=outages)
                plan = await make_plan(
                    client,
                    ledger,
                    outages=outages,
                    upload_as=options.upload_as_user_email,
                    retry_refused=options.retry_refused or retry is not None,
                )
                if options.delete_missing and retry is None:
                    await plan_deletions(client, ledger, source, options=options, outages=outages)
                    plan = await asyncio.to_thread(read_plan, ledger)
                if dry_run:
                    plan = replace(plan, unread=await asyncio.to_thread(count_unread, ledger))
                planned = Planned(
                    "upload", scanned, plan, options.wait_for_index, options.upload_as_user_email, dry_run=dry_run
                )
                await carry_out(planned, client, ledger, settings=settings, outages=outages, hooks=hooks)
                outcome = Outcome(summarize(ledger), plan, scanned, watch.seconds, ledger.address)
                report.take(outcome.summary)
                if dry_run:
                    await asyncio.to_thread(ledger.forget_plan)
                return outcome
