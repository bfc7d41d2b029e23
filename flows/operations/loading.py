"""Runs over a source: uploading it, and adding documents of the catalog to a collection, without Prefect."""

import asyncio
import hashlib
import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from carrel import AsyncCarrel
from carrel.errors import NotFoundError
from flows.errors import NameUnknownError, SourceError
from flows.operations.backlog import notes_of
from flows.operations.deletions import plan_deletions
from flows.operations.formatting import count_text
from flows.operations.jobs import NO_HOOKS, Hooks, Outcome, Planned, carry_out, open_client, outage_policy_of
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Entry, Retry
from flows.operations.names import Names, check_readers
from flows.operations.options import CollectionOptions, UploadOptions, options_for_ledger
from flows.operations.outages import OutagePolicy, walk_pages
from flows.operations.plan import count_unreadable_suffixes, make_plan, read_plan
from flows.operations.reporting import RunReport, name_source, report_at_end, report_run, take_ignored
from flows.operations.scan import Scanned, scan
from flows.operations.sources.documents import Defaults, SourceDocument
from flows.operations.sources.reading import source_identity
from flows.operations.sources.selection import is_selection, select_documents
from flows.settings import FlowSettings

_SHARED = "{} readers besides the owner, such as {}. Remove them on the page Who can read this?"
_ELSEWHERE = (
    "The catalog already has {} with an external id of this source, and this ledger has sent none: {}. Another source,"
    " program or ledger (another CARREL_DATA_DIR, user or machine) sent them. This run cannot tell which are gone."
)


def open_ledger(source: str, *, settings: FlowSettings, collection: str | None = None) -> Ledger:
    """Open the ledger of uploads, or of additions to a collection (its id). Raises SourceError and LedgerError."""
    return Ledger.at(
        settings.ledgers,
        target=settings.base_url,
        source=source_identity(source),
        collection=collection,
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
    confirmed: str | None = None,
) -> Outcome:
    """Make the catalog match the source; a stopped run continues from there. `delete_missing` and `confirmed`: see
    flows.operations.deletions. `retry` sends only the chosen quarantined items, and deletes nothing."""
    told = report_run(settings, flow="bulk-upload", source=name_source(source), is_partial=retry is not None)
    reporting = nullcontext(RunReport()) if dry_run else told
    async with reporting as report, open_client(settings) as client:
        with open_ledger(source, settings=settings) as ledger:
            report.ledger = ledger.address.name
            kept = None if retry or dry_run else options_for_ledger(source, options)
            await asyncio.to_thread(ledger.begin, options=kept, retry=retry)
            async with nullcontext() if dry_run else report_at_end(client, ledger, settings=settings):
                outages = outage_policy_of(client, settings, ledger=ledger.address.name)
                names = Names(client, outages=outages)
                defaults = await names.with_ids(options.defaults())
                if defaults.access is not None:
                    await check_readers(client, defaults.access, outages=outages)
                scanned = await scan(ledger, source, defaults=defaults, names=names, retry=retry)
                report.has_begun = True
                await _refuse_empty(ledger, source, scanned, retry=retry)
                notes = notes_of(ledger.address.name)
                notes.scanned = scanned
                if scanned.kept_readers:
                    rows = count_text(scanned.kept_readers, "row names", "rows name")
                    notes.remarks.append(f"{rows} no readers, so access does not change. A cell with - means nobody.")
                await take_ignored(client, ledger, settings=settings, outages=outages)
                shared = list[str]()
                plan = await make_plan(
                    client,
                    ledger,
                    outages=outages,
                    upload_as=options.upload_as_user_email,
                    retry_refused=options.retry_refused or retry is not None,
                    shared=shared,
                )
                if shared and defaults.access is not None:
                    documents = count_text(len(shared), "unchanged document keeps", "unchanged documents keep")
                    notes.remarks.append(_SHARED.format(documents, ", ".join(shared[:5])))
                if retry is None:
                    await plan_deletions(client, ledger, source, options=options, outages=outages, confirmed=confirmed)
                    plan = await asyncio.to_thread(read_plan, ledger)
                    known = await asyncio.to_thread(ledger.count_known)
                    if known and not await asyncio.to_thread(ledger.has_sent):
                        documents = count_text(known, "document")
                        notes.remarks.append(_ELSEWHERE.format(documents, ledger.address))
                if dry_run:
                    plan = replace(plan, unread=await asyncio.to_thread(count_unreadable_suffixes, ledger))
                user = options.upload_as_user_email
                planned = Planned("upload", scanned, plan, options.wait_for_index, user, dry_run=dry_run)
                outcome = await carry_out(planned, client, ledger, settings=settings, outages=outages, hooks=hooks)
                report.take(outcome.summary)
                if dry_run:
                    await asyncio.to_thread(ledger.forget_plan)
                return outcome


async def add_to_collection(
    source: str,
    *,
    options: CollectionOptions,
    settings: FlowSettings,
    hooks: Hooks = NO_HOOKS,
    retry: Retry | None = None,
) -> Outcome:
    """Add the source's documents to the collection, with the given or existing metadata; `retry` limits them."""
    named, is_partial = {"source": name_source(source), "within": options.collection}, retry is not None
    reporting = report_run(settings, flow="collection-add", is_partial=is_partial, **named)
    async with reporting as report, open_client(settings) as client:
        outages = outage_policy_of(client, settings)
        names = Names(client, outages=outages)
        collection = await names.id_of("collection", options.collection)
        defaults = Defaults(metadata=options.metadata, hidden=options.hidden, files=options.files)

        def prepare(_: Ledger, documents: list[SourceDocument]) -> list[Entry]:
            entries: list[Entry] = []
            for document in documents:
                covered = json.dumps([collection, sorted(document.metadata.items())])
                member = replace(document, access=None, collection=collection)
                entries.append(Entry(member, 0, b"", hashlib.sha256(covered.encode()).hexdigest()))
            return entries

        with open_ledger(source, settings=settings, collection=collection) as ledger:
            report.ledger = ledger.address.name
            kept = None if retry else options_for_ledger(source, options)
            await asyncio.to_thread(ledger.begin, options=kept, retry=retry)
            async with report_at_end(client, ledger, settings=settings):
                selected = select_documents(client, source, defaults=defaults, outages=outages)
                chunks = selected if is_selection(source) else None
                scanned = await scan(
                    ledger, source, defaults=defaults, names=names, prepare=prepare, retry=retry, chunks=chunks
                )
                report.has_begun = True
                if chunks is None:
                    await _refuse_empty(ledger, source, scanned, retry=retry)
                notes_of(ledger.address.name).scanned = scanned
                await take_ignored(client, ledger, settings=settings, outages=outages)
                await _identify(client, ledger, outages=outages)
                if not options.metadata:
                    await _keep_metadata(client, ledger, collection, outages=outages)
                await asyncio.to_thread(ledger.plan_identified)
                await asyncio.to_thread(ledger.set_aside, refused=False)
                plan = await asyncio.to_thread(read_plan, ledger)
                planned = Planned("collection", scanned, plan, options.wait_for_index)
                outcome = await carry_out(planned, client, ledger, settings=settings, outages=outages, hooks=hooks)
                report.take(outcome.summary)
                return outcome


async def _refuse_empty(ledger: Ledger, source: str, scanned: Scanned, *, retry: Retry | None) -> None:
    """Raise SourceError for an empty source, unless documents were found before: they are named and stay."""
    if scanned.documents or scanned.problems or retry or await asyncio.to_thread(ledger.has_sent):
        return
    left_out = scanned.skipped.total()
    why = f"{count_text(left_out, 'file is', 'files are')} left out" if left_out else "it is empty, or matches no file"
    raise SourceError(f"{source} has no documents: {why}. Check the name, and whether the folder is mounted.")


async def _identify(client: AsyncCarrel, ledger: Ledger, *, outages: OutagePolicy) -> None:
    """Store in the ledger the ids of its documents that the caller may read in the catalog."""
    listed = partial(client.catalog.list_documents, page_size=1000)
    async for page in walk_pages(outages, lambda token: listed(page_token=token)):
        found = {document.document_external_id: str(document.document_id) for document in page.documents}
        await asyncio.to_thread(ledger.identify, found)


async def _keep_metadata(client: AsyncCarrel, ledger: Ledger, collection: str, *, outages: OutagePolicy) -> None:
    """Keep the metadata of documents already in the collection if the source gives none. Raises NameUnknownError."""
    listed = partial(client.document_collections.list_documents_in_collection, collection, page_size=1000)
    try:
        async for page in walk_pages(outages, lambda token: listed(page_token=token)):
            there = {document.document_external_id: document.custom_metadata for document in page.documents}
            current = {item.document_external_id for item in page.documents if not item.stale}
            await asyncio.to_thread(ledger.keep_as_it_is, there, current=current)
    except NotFoundError as exc:
        msg = f"You cannot add to a collection {collection}. Check its name, or create it first."
        raise NameUnknownError(msg) from exc
