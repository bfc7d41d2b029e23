"""Compare the catalog with the source's listing: read missing, delete gone documents. Deletion needs a complete,
non-empty listing within the allowed losses, because an emptied or restored database looks like deleted documents."""

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from carrel.wire.catalog import DeleteDocumentRequest
from service.domains.documents.catalog.documents import delete_document
from service.domains.documents.docstore import queries
from service.domains.documents.docstore.queries import Listing, Note
from service.domains.documents.docstore.running.applying import apply_documents
from service.domains.documents.docstore.running.run import Run
from service.domains.documents.docstore.values import SourceId
from service.platform.errors import Forbidden, NotFound
from service.platform.identifiers import NIL, document_id_for

AT_ONCE = 100
INCOMPLETE = "listing_incomplete"


async def reconcile(run: Run) -> Note | None:
    """List the source and apply the differences; return the reason if due deletions were withheld."""
    expected = await run.source.count()
    async with run.transaction() as connection:
        held = await queries.count_ever_listed(connection, run.key)
        listing_no = await queries.begin_listing(connection, run.key)
    listed = 0
    async for source_ids in run.source.list_ids():
        listed += len(source_ids)
        missing = await _mark(run, listing_no, source_ids)
        for start in range(0, len(missing), AT_ONCE):
            if documents := await run.source.read(missing[start : start + AT_ONCE]):
                await apply_documents(run, documents)
                await _mark(run, listing_no, [document.source_id for document in documents])
    async with run.transaction() as connection:
        found = await queries.count_listed(connection, run.key, listing_no=listing_no)
    if found.unlisted == 0 or not run.config.delete_missing:
        return None
    # Compare the loss with the earlier documents only: new and failed documents must not make it look smaller.
    before = min(held, found.existing - found.created) or found.existing
    reason = _reason_to_keep(run, listed=listed, expected=expected, before=before, found=found)
    if reason is not None:
        async with run.transaction() as connection:
            await queries.hold_removals(connection, run.key, listing_no=listing_no)
    if reason is None or reason.code != INCOMPLETE:
        await _remove_unlisted(run, listing_no, only_approved=reason is not None)
    return reason


def _reason_to_keep(run: Run, *, listed: int, expected: int, before: int, found: Listing) -> Note | None:
    if listed < expected and found.missing:
        nothing = f"so nothing was removed; {found.missing} of {before} documents are no longer listed."
        return Note(INCOMPLETE, f"The source counts {expected} documents and listed {listed}, {nothing}")
    if (unlisted := found.missing - found.approved) == 0:
        return None
    held = f"so they were not removed; {unlisted} of {before} documents are no longer listed."
    if found.approved:
        held = f"so only the {found.approved} approved were removed; {unlisted} of {before} others are not listed."
    advice = "If they are meant to go, approve the removal of these documents once"
    if listed == 0:
        return Note("listing_empty", f"The source lists no documents at all, {held} {advice}.")
    limit = run.config.delete_limit_percent
    if unlisted * 100 > limit * before:
        return Note(
            "deletion_limit",
            f"More than {limit} % of the documents are gone from the source or its filter, {held} {advice}, or update"
            " the sync with a greater limit (deleteLimitPercent).",
        )
    return None


async def _mark(run: Run, listing_no: int, source_ids: Sequence[SourceId]) -> list[SourceId]:
    """Record a page's ids as listed; return the ids never tried, because their time is in the past."""
    by_document = {document_id_for(run.organization_id, run.target.external_id(item)): item for item in source_ids}
    async with run.transaction() as connection:
        known = await queries.mark_listed(connection, run.key, listing_no=listing_no, document_ids=list(by_document))
        await queries.save_progress(connection, run.key)
    return [source_id for document_id, source_id in by_document.items() if document_id not in known]


async def _remove_unlisted(run: Run, listing_no: int, *, only_approved: bool) -> None:
    after = NIL
    while True:
        async with run.transaction() as connection:
            gone = await queries.list_unlisted_documents(
                connection, run.key, listing_no=listing_no, after=after, limit=AT_ONCE, only_approved=only_approved
            )
        if not gone:
            return
        for document_id in gone:
            await _remove_document(run, document_id)
        after = gone[-1]


async def _remove_document(run: Run, document_id: UUID) -> None:
    """Delete a document with its record, in one transaction. A document now owned by another principal is kept."""
    deleted = 0
    async with run.transaction() as connection:
        caller = await run.caller(connection)
        with suppress(NotFound, Forbidden):
            request = DeleteDocumentRequest(document_id=document_id)
            await delete_document(run.runtime, connection, caller, request=request)
            deleted = 1
        await queries.delete_document_record(connection, run.key, document_id=document_id)
        await queries.save_progress(connection, run.key, deleted=deleted)
