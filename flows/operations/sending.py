"""The third step of a run: send a batch; a bad document goes to the quarantine, a refused caller stops the batch."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from uuid import UUID

from carrel import AsyncCarrel
from carrel.errors import APIConnectionError, APIError, CarrelError, NotFoundError
from carrel.wire.catalog import ContainedFiles, IndexingStatus
from carrel.wire.collections import CollectionIndexStatus
from carrel.wire.uploads import PlanAction, PlannedUpload
from flows.errors import FlowError
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Entry, Send, Sent, State
from flows.operations.outages import OutagePolicy, Pace
from flows.operations.sources.contents import ChangingFileError, open_contents
from flows.operations.sources.documents import SourceDocument

_log = logging.getLogger(__name__)
# Refusals that stay valid until the document changes, so that later runs need not send it again.
_FOR_GOOD = frozenset({413, 415})
_FOR_GOOD_PREFIX = "file_"


class IndexingFailedError(Exception):
    """The service accepted the document and then could not index it."""

    code = "indexing_failed"


async def apply_batch(
    ledger: Ledger,
    *,
    partition: int,
    partitions: int,
    send: Send,
    outages: OutagePolicy,
    concurrency: int,
    deleting: bool = False,
) -> int:
    """Send (or delete) a partition's planned documents, at most `concurrency` at a time; return their number. `send`
    must be safe to repeat. Raises RefusedError, StorageFullError or ServiceDownError."""
    entries = await asyncio.to_thread(ledger.pending, partition=partition, partitions=partitions, deleting=deleting)
    queue, pace = iter(entries), Pace(most=concurrency)

    async def work() -> None:
        for entry in queue:
            await _send_entry(entry, ledger=ledger, send=send, outages=outages, pace=pace)

    await run_workers(work, number=min(concurrency, len(entries)))
    return len(entries)


async def run_workers(work: Callable[[], Coroutine[Any, Any, None]], *, number: int) -> None:
    """Run `number` workers to their end; the first FlowError stops all workers and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(work())
    except BaseExceptionGroup as failures:
        stops = failures.subgroup(FlowError)
        raise (stops or failures).exceptions[0] from failures


async def _send_entry(entry: Entry, *, ledger: Ledger, send: Send, outages: OutagePolicy, pace: Pace) -> None:
    """Send or delete a document, and record the result; a failure becomes quarantine. Raises FlowErrors."""
    try:
        sent = await outages.call(lambda: pace.run(lambda: send(entry)))
    except FlowError:
        raise
    except Exception as exc:  # noqa: BLE001 - whatever is wrong with one document, the others go on
        await asyncio.to_thread(quarantine, ledger, entry, exc)
        return
    if sent.state is State.DELETED:
        await asyncio.to_thread(ledger.mark_deleted, entry.document.external_id)
        return
    await asyncio.to_thread(ledger.mark_sent, entry.document.external_id, sent)


def quarantine(ledger: Ledger, entry: Entry, exc: Exception) -> None:
    """Put a document into quarantine with its error; log an unexpected error. Some refusals last until a change."""
    code, message, status = _reason(exc)
    if code == "unexpected":
        _log.warning("%s could not be sent", entry.document.external_id, exc_info=exc)
    for_good = status in _FOR_GOOD or (status == 400 and code.startswith(_FOR_GOOD_PREFIX))
    state = State.FORBIDDEN if status == 403 else State.FAILED
    ledger.mark_failed(entry, state=state, code=code, message=message, for_good=for_good)


def _reason(exc: Exception) -> tuple[str, str, int]:
    """Return the code, message and HTTP status (0 without an answer) of a document's error."""
    if isinstance(exc, APIConnectionError):
        return "connection_lost", f"The connection broke each time when sending this document: {exc}", 0
    if isinstance(exc, APIError):
        return exc.code, str(exc), exc.status
    if isinstance(exc, ChangingFileError | IndexingFailedError):
        return exc.code, str(exc), 0
    if isinstance(exc, CarrelError):
        return "invalid_request", str(exc), 0
    if isinstance(exc, OSError):
        return "file_unreadable", f"The file cannot be read: {exc.strerror or exc}", 0
    return "unexpected", f"{type(exc).__name__}: {exc}", 0


_INDEXED: Mapping[CollectionIndexStatus, State] = {
    CollectionIndexStatus.INDEXED: State.INDEXED,
    CollectionIndexStatus.UNCHANGED: State.UNCHANGED,
    CollectionIndexStatus.RUNNING: State.UPLOADED,
}


def uploader(client: AsyncCarrel, *, upload_as: str | None = None) -> Send:
    """Return a function that uploads a document. A repeated call first asks whether the document has arrived."""
    tried: set[str] = set()

    async def send(entry: Entry) -> Sent:
        contents = await asyncio.to_thread(open_contents, entry)
        try:
            name = entry.document.external_id
            if name in tried:
                same = PlannedUpload(document_external_id=name, fingerprint=contents.fingerprint)
                [plan] = (await client.catalog.plan_upload([same], upload_as_user_email=upload_as)).documents
                if plan.action is PlanAction.UNCHANGED:
                    return Sent(State.UPLOADED, str(plan.document_id), contents.size, contents.fingerprint)
            tried.add(name)
            response = await client.catalog.upload_file(
                contents.file,
                file_name=entry.document.file_name,
                fingerprint=contents.fingerprint,
                upload_as_user_email=upload_as,
                **upload_fields(entry.document),
            )
            contents.check()
        except CarrelError:
            contents.check()  # a file that changes during sending is cut off or refused, so report that instead
            raise
        finally:
            contents.file.close()
        if response.indexing is IndexingStatus.FAILED:
            raise IndexingFailedError("The document was stored, but could not be indexed.")
        contained = contained_files(response.file_count, response.files_done)
        is_done = response.indexing is IndexingStatus.DONE and contained is None
        state = State.INDEXED if is_done else State.UPLOADED
        recognition = response.text_recognition
        waiting = 0 if recognition is None else recognition.waiting
        not_read = sum(part.count for part in response.not_read or ()) - waiting
        return Sent(state, str(response.document_id), contents.size, contents.fingerprint, not_read, waiting, contained)

    return send


def contained_files(file_count: int | None, files_done: int | None) -> ContainedFiles | None:
    """Return the progress of the files in a container while only its numbers are known; None for no container."""
    if not file_count:
        return None
    waiting = file_count - (files_done or 0)
    return ContainedFiles(files=file_count, waiting=waiting, documents=0, indexing=0, indexing_failed=0, left_out={})


def upload_fields(document: SourceDocument) -> dict[str, Any]:
    """Return the client's keyword arguments for a document; unset fields are omitted."""
    fields: dict[str, Any] = {"document_external_id": document.external_id, "document_name": document.name}
    if document.access is not None:
        fields["allowed_users_email_addresses"] = list(document.access.users)
        fields["allowed_group_ids"] = list(document.access.groups)
        fields["internal_public"] = document.access.internal_public
    said = {
        "custom_metadata": dict(document.metadata) or None,
        "collection_id": document.collection,
        "read_pictures": document.read_pictures,
        "document_external_url": document.external_url,
    }
    return fields | {name: value for name, value in said.items() if value is not None}


def deleter(client: AsyncCarrel, ledger: Ledger, *, upload_as: str | None = None) -> Send:
    """Return a function that deletes a document; safe to repeat while no other run has the source."""

    async def send(entry: Entry) -> Sent:
        document_id = entry.document_id or ""
        await asyncio.to_thread(ledger.assure)
        with contextlib.suppress(NotFoundError):
            await client.catalog.delete_document(document_id, user_email=upload_as)
        return Sent(State.DELETED, document_id, 0, entry.fingerprint)

    return send


def adder(client: AsyncCarrel) -> Send:
    """Return a function that adds a catalog document to its collection. Repeating with equal metadata is harmless."""

    async def send(entry: Entry) -> Sent:
        response = await client.document_collections.add_document_to_collection(
            document_id=UUID(entry.document_id),
            document_collection_id=UUID(entry.document.collection),
            custom_metadata=dict(entry.document.metadata),
        )
        return Sent(_INDEXED[response.status], str(response.document_id), 0, entry.fingerprint)

    return send
