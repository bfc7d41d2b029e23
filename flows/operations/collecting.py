"""Adding documents of the catalog to a collection, each with its metadata there."""

import asyncio
import hashlib
import json
from dataclasses import replace

from carrel import AsyncCarrel
from carrel.errors import NotFoundError
from flows.errors import NameUnknownError
from flows.operations.jobs import NO_HOOKS, Hooks, Outcome, Planned, Stopwatch, carry_out, open_client, outage_policy_of
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Entry, Retry
from flows.operations.names import names_of
from flows.operations.notes import notes_of
from flows.operations.options import CollectionOptions, options_for_ledger
from flows.operations.outages import OutagePolicy
from flows.operations.plan import read_plan
from flows.operations.reporting import report_at_end, take_ignored
from flows.operations.run_reports import name_source, report_run
from flows.operations.scan import Prepare, scan
from flows.operations.sources.documents import Defaults, SourceDocument
from flows.operations.sources.reading import source_identity
from flows.operations.sources.selection import is_selection, select_documents
from flows.operations.summary import summarize
from flows.settings import FlowSettings


def collection_ledger(source: str, collection: str, *, settings: FlowSettings) -> Ledger:
    """Open the ledger of adding this source's documents to a collection (its id)."""
    return Ledger.at(
        settings.ledgers,
        target=settings.base_url,
        source=source_identity(source),
        collection=collection,
        database_url=settings.flows_database_url,
    )


async def add_to_collection(
    source: str,
    *,
    options: CollectionOptions,
    settings: FlowSettings,
    hooks: Hooks = NO_HOOKS,
    retry: Retry | None = None,
) -> Outcome:
    """Add every document that the source names, by its external id, to the collection; no file is read or sent.

    If neither the source nor the options give metadata, a document keeps its metadata in the collection. A source
    `catalog://…` is a selection from the catalog itself (flows.operations.sources.selection). `retry` adds
    only these of the documents in quarantine.

    Needs EDITOR on the collection and READ on the documents. Raises the errors of flows.operations.bulk.upload.
    """
    watch = Stopwatch()
    reporting = report_run(settings, flow="collection-add", source=name_source(source), within=options.collection)
    async with reporting as report, open_client(settings) as client:
        outages = outage_policy_of(client, settings)
        names = names_of(client, outages=outages)
        collection = await names.id_of("collection", options.collection)
        defaults = Defaults(metadata=options.metadata, hidden=options.hidden, files=options.files)
        with collection_ledger(source, collection, settings=settings) as ledger:
            kept = None if retry else options_for_ledger(source, options)
            await asyncio.to_thread(ledger.begin, options=kept, retry=retry)
            async with report_at_end(client, ledger, settings=settings):
                scanned = await scan(
                    ledger,
                    source,
                    defaults=defaults,
                    names=names,
                    prepare=_membership(collection),
                    retry=retry,
                    chunks=select_documents(client, source, defaults=defaults, outages=outages)
                    if is_selection(source)
                    else None,
                )
                report.has_begun = True
                notes_of(ledger.address.name).scanned = scanned
                await take_ignored(client, ledger, settings=settings, outages=outages)
                await _identify(client, ledger, outages=outages)
                if not options.metadata:
                    await _keep_metadata(client, ledger, collection, outages=outages)
                await asyncio.to_thread(ledger.plan_identified)
                await asyncio.to_thread(ledger.set_aside, refused=False)
                plan = await asyncio.to_thread(read_plan, ledger)
                planned = Planned("collection", scanned, plan, options.wait_for_index)
                await carry_out(planned, client, ledger, settings=settings, outages=outages, hooks=hooks)
                outcome = Outcome(summarize(ledger), plan, scanned, watch.seconds, ledger.address)
                report.take(outcome.summary)
                return outcome


def _membership(collection: str) -> Prepare:
    """Return what makes ledger entries for additions to the collection: of each document only id and metadata count."""

    def prepare(_: Ledger, documents: list[SourceDocument]) -> list[Entry]:
        return [_entry(replace(document, access=None, collection=collection)) for document in documents]

    return prepare


def _entry(document: SourceDocument) -> Entry:
    covered = json.dumps([document.collection, sorted(document.metadata.items())])
    return Entry(document, 0, b"", hashlib.sha256(covered.encode()).hexdigest())


async def _identify(client: AsyncCarrel, ledger: Ledger, *, outages: OutagePolicy) -> None:
    """Find the documents' ids by walking the catalog once, as far as the caller may read it."""

    async def walk() -> None:
        found: dict[str, str] = {}
        async for document in client.catalog.list_documents(page_size=1000):
            found[document.document_external_id] = str(document.document_id)
            if len(found) == 1000:
                await asyncio.to_thread(ledger.identify, found)
                found = {}
        await asyncio.to_thread(ledger.identify, found)

    await outages.call(walk)


async def _keep_metadata(client: AsyncCarrel, ledger: Ledger, collection: str, *, outages: OutagePolicy) -> None:
    """Walk the collection, so that what it has already keeps its metadata there where the source says nothing."""

    async def walk() -> None:
        listing = client.document_collections.list_documents_in_collection(collection, page_size=1000)
        async for page in listing.pages():
            there = {one.document_external_id: one.custom_metadata for one in page.documents}
            current = {one.document_external_id for one in page.documents if not one.stale}
            await asyncio.to_thread(ledger.keep_as_it_is, there, current=current)

    try:
        await outages.call(walk)
    except NotFoundError as exc:
        msg = f"There is no collection {collection} that you may add to. Give its name, or create it first."
        raise NameUnknownError(msg) from exc
