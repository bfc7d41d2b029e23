"""Bringing a page of source documents into the catalog: plan, upload, then record.

Documents are uploaded as by any caller, so that the same rules hold and known texts aren't embedded again. An error of
one document fails that document alone; an error that would concern all documents ends the run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.uploads import UploadStatus
from service.auth.callers import Caller
from service.domains.documents.catalog.queries import read_upload_states
from service.domains.documents.catalog.uploads import save_upload
from service.domains.documents.docstore.mapping import MappedDocument, MappingError, map_document
from service.domains.documents.docstore.running import queries
from service.domains.documents.docstore.running.queries import Counts, Failure
from service.domains.documents.docstore.running.run import MOST_SILENT_SECONDS, Run
from service.domains.documents.docstore.sources import SourceDocument
from service.domains.documents.docstore.values import extended_text
from service.platform.errors import ServiceError, Unavailable
from service.platform.identifiers import document_id_for
from service.runtime import Runtime
from service.web.multipart import uploads_folder, write_bytes

# So many documents at once: enough to fill the embedder's batches, few enough to leave room for people's uploads.
AT_ONCE = 6


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A source document with its ids in the catalog, and the upload it is mapped to or the error that prevents it."""

    document_id: UUID
    external_id: str
    source_id: str
    mapped: MappedDocument | MappingError


async def apply_documents(
    run: Run, documents: Sequence[SourceDocument], *, cursor: Mapping[str, Any] | None = None
) -> None:
    """Upload source documents to the catalog, record failures, then save `cursor` as the run's position.

    Raises OvertakenError, RunError, and ServiceError for errors of the service that aren't a document's.
    """
    tried = await asyncio.to_thread(_map_all, run, documents)
    ids = [one.document_id for one in tried]
    mapped = {one.document_id: one.mapped for one in tried if isinstance(one.mapped, MappedDocument)}
    async with run.transaction() as connection:
        caller = await run.caller(connection)
        await queries.note_documents(connection, run.organization_id, sync_id=run.sync.sync_id, document_ids=ids)
        unchanged = await _find_unchanged(connection, caller, run, mapped)
    wanted = [one for one in tried if one.document_id in mapped.keys() - unchanged]
    outcomes = await _upload_all(run, caller, wanted, mapped)
    failures = [
        *(_failure(one, one.mapped) for one in tried if isinstance(one.mapped, MappingError)),
        *(_failure(one, outcomes[one.document_id]) for one in wanted),
    ]
    done = [outcome for outcome in outcomes.values() if isinstance(outcome, UploadStatus)]
    counts = Counts(
        read=len(documents),
        created=done.count(UploadStatus.CREATED),
        updated=done.count(UploadStatus.UPDATED),
        unchanged=done.count(UploadStatus.UNCHANGED) + len(unchanged),
    )
    async with run.transaction() as connection:
        sync_id, organization_id = run.sync.sync_id, run.organization_id
        kept = [failure for failure in failures if failure is not None]
        await queries.replace_failures(connection, organization_id, sync_id=sync_id, tried=ids, failures=kept)
        await queries.save_progress(connection, organization_id, sync_id=sync_id, counts=counts, cursor=cursor)


def _map_all(run: Run, documents: Sequence[SourceDocument]) -> list[_Attempt]:
    return [_map(run, document) for document in documents]


def _map(run: Run, document: SourceDocument) -> _Attempt:
    external_id = run.target.external_id(document.source_id)
    try:
        mapped: MappedDocument | MappingError = map_document(document, run.target)
    except MappingError as error:
        mapped = error
    document_id = document_id_for(run.organization_id, external_id)
    return _Attempt(document_id, external_id, extended_text(document.source_id.value), mapped)


async def _find_unchanged(
    connection: AsyncConnection, caller: Caller, run: Run, mapped: Mapping[UUID, MappedDocument]
) -> frozenset[UUID]:
    """Return the documents that are in catalog and collection already with the same fingerprint."""
    states = await read_upload_states(connection, caller, document_ids=list(mapped))
    there = await queries.in_collection(
        connection, run.organization_id, collection_id=run.sync.collection_id, document_ids=list(mapped)
    )
    return frozenset(
        document_id
        for document_id, one in mapped.items()
        if document_id in there and states.get(document_id) == (one.form.fingerprint, True)
    )


async def _upload_all(
    run: Run, caller: Caller, wanted: Sequence[_Attempt], mapped: Mapping[UUID, MappedDocument]
) -> dict[UUID, UploadStatus | ServiceError]:
    """Upload documents concurrently, and return the outcome of each; other errors than a document's are raised."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def upload(document_id: UUID) -> UploadStatus | ServiceError:
        async with turns:
            try:
                return await _upload_patiently(run, caller, mapped[document_id])
            except ServiceError as error:
                if error.status >= 500:
                    raise
                return error

    ids = [one.document_id for one in wanted]
    found = await asyncio.gather(*map(upload, ids), return_exceptions=True)
    outcomes: dict[UUID, UploadStatus | ServiceError] = {}
    for document_id, outcome in zip(ids, found, strict=True):
        if isinstance(outcome, BaseException) and not (isinstance(outcome, ServiceError) and outcome.status < 500):
            raise outcome
        outcomes[document_id] = outcome
    return outcomes


async def _upload_patiently(run: Run, caller: Caller, one: MappedDocument) -> UploadStatus:
    """Upload a document, again after a pause while too much waits to be indexed."""
    while True:
        # One document may take minutes, and a run that has lost its place must not bring what it read before.
        await run.report_alive()
        try:
            return await _upload(run.runtime, caller, one)
        except Unavailable as error:
            if error.code != "indexing_backlog":
                raise
            await asyncio.sleep(min(error.retry_after, MOST_SILENT_SECONDS))


async def _upload(runtime: Runtime, caller: Caller, one: MappedDocument) -> UploadStatus:
    limit = runtime.settings.max_upload_bytes
    async with write_bytes(
        one.content, folder=uploads_folder(runtime.settings), name=one.file_name, max_bytes=limit
    ) as file:
        saved = await save_upload(runtime, caller, form=one.form, file=file)
    if saved.waiter is not None:
        await runtime.indexer.wait(saved.waiter, seconds=runtime.settings.inline_indexing_seconds)
    return saved.status


def _failure(one: _Attempt, outcome: UploadStatus | ServiceError | MappingError) -> Failure | None:
    if isinstance(outcome, UploadStatus):
        return None
    return Failure(one.document_id, one.source_id, one.external_id, outcome.code, outcome.message)
