"""Bring source documents into the catalog: earlier failures, all documents at first, then changes. The latest change is
read before the first walk, so the walk by changes finds changes since. No walk begins later than the walk before:
future times are not trusted. A document's error fails only the document until the next run; a general error ends the
run."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.uploads import UploadStatus
from service.auth.callers import Caller
from service.domains.documents.catalog.queries import read_upload_states
from service.domains.documents.catalog.uploads import save_upload
from service.domains.documents.docstore import queries
from service.domains.documents.docstore.mapping import MappedDocument, MappingError, map_document
from service.domains.documents.docstore.queries import Failure, FailureGroup, Note
from service.domains.documents.docstore.running.run import MOST_SILENT_SECONDS, Run, RunError
from service.domains.documents.docstore.sources import Position, SourceDocument
from service.domains.documents.docstore.values import SourceId, extended_text, from_extended, to_extended
from service.platform.errors import ServiceError, Unavailable
from service.platform.identifiers import NIL, document_id_for
from service.platform.sql import Window
from service.runtime import Runtime
from service.web.multipart import uploads_folder, write_bytes

# Enough documents at once to fill the embedder's batches, few enough to leave room for people's uploads.
AT_ONCE = 6
RETRIED_AT_ONCE = 100
NOT_MAPPED, NOT_TAKEN, SOME_FAILED = "source_not_mapped", "documents_not_taken", "documents_failed"
# Error codes of the mapping; all others are the upload's.
_OF_MAPPING = frozenset({"missing_value", "wrong_type", "invalid_value"})
_REASONS, _EXAMPLES, _LONGEST_EXAMPLE = 3, 3, 60
_AGAIN = "every run tries them again."
_ADVICE = f"Correct sourceFields or filterExpression, or the documents in the source; {_AGAIN}"
_ADVICE_OTHERWISE = f"Correct the reasons, here or in the source; {_AGAIN}"
SNAPSHOT, CHANGES, WALKED = "snapshot", "changes", "walked"
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


async def walk(run: Run) -> None:
    """Upload new and changed documents of the source, page by page. Each page is saved before the next is read."""
    is_dated = run.config.source_fields.source_system_updated is not None
    kept = run.sync.cursor or {"phase": None}
    phase = kept["phase"]
    if phase == WALKED and not run.is_new:
        return
    # Without times, only a new walk from the beginning finds changes before the position.
    resumes = phase in {SNAPSHOT, CHANGES} and (is_dated or not run.is_new)
    if resumes and run.is_new:
        await retry_failures(run)
    if resumes and phase == CHANGES:
        await _walk_changes(run, *await _find_start(run, kept))
        return
    since = await _walk_snapshot(run, kept if resumes else None)
    if is_dated:
        await _walk_changes(run, since, began=await _read_now(run))


async def _walk_snapshot(run: Run, kept: Mapping[str, Any] | None) -> Position:
    """Upload all documents by id, from a kept cursor on (None: from the first); return where to walk changes from."""
    mark = from_extended(kept["mark"]) if kept else _earlier(await run.source.newest(), await _read_now(run))
    begin = Position.from_json(kept["after"]) if kept else Position()
    async for page in run.source.snapshot(begin.source_id):
        after = (page.position or begin).to_json()
        cursor = {"phase": SNAPSHOT, "after": after, "mark": to_extended(mark)}
        await apply_documents(run, page.documents, cursor=cursor)
    since = Position(updated=mark)
    is_dated = run.config.source_fields.source_system_updated is not None
    await apply_documents(run, (), cursor=_changes_cursor(since, began=mark) if is_dated else {"phase": WALKED})
    return since


async def _walk_changes(run: Run, since: Position, began: datetime | None) -> None:
    async for page in run.source.changes(since):
        cursor = None if page.position is None else _changes_cursor(page.position, began=began)
        await apply_documents(run, page.documents, cursor=cursor)


async def _find_start(run: Run, kept: Mapping[str, Any]) -> tuple[Position, datetime | None]:
    """Return where to continue a walk, for a new run some seconds before, and when the walk began."""
    stopped, began = Position.from_json(kept["after"]), from_extended(kept["began"])
    if not run.is_new:
        return stopped, began
    seconds = run.runtime.settings.docstore_overlap_seconds
    return Position(updated=_subtract_or_earliest(_earlier(stopped.updated, began), seconds)), await _read_now(run)


def _changes_cursor(position: Position, *, began: datetime | None) -> dict[str, Any]:
    return {"phase": CHANGES, "after": position.to_json(), "began": to_extended(began)}


async def _read_now(run: Run) -> datetime:
    async with run.transaction() as connection:
        return await run.runtime.clock.now(connection)


def _earlier(moment: datetime | None, other: datetime | None) -> datetime | None:
    return None if moment is None or other is None else min(moment, other)


def _subtract_or_earliest(moment: datetime | None, seconds: float) -> datetime | None:
    if moment is None:
        return None
    try:
        return moment - timedelta(seconds=seconds)
    except OverflowError:
        return _EARLIEST


@dataclass(frozen=True, slots=True)
class _Attempt:
    document_id: UUID
    external_id: str
    source_id: str
    mapped: MappedDocument | MappingError


async def apply_documents(
    run: Run, documents: Sequence[SourceDocument], *, cursor: Mapping[str, Any] | None = None
) -> None:
    """Upload source documents, record failures, save `cursor`; raises OvertakenError, RunError and ServiceError."""
    tried = await asyncio.to_thread(lambda: [_try_to_map(run, document) for document in documents])
    ids = [attempt.document_id for attempt in tried]
    mapped = {attempt.document_id: attempt.mapped for attempt in tried if isinstance(attempt.mapped, MappedDocument)}
    async with run.transaction() as connection:
        caller = await run.caller(connection)
        await queries.note_documents(connection, run.key, document_ids=ids)
        unchanged = await _find_unchanged(connection, caller, run, mapped)
    outcomes = await _upload_all(run, caller, {key: mapped[key] for key in mapped if key not in unchanged})
    failures = [_to_failure(attempt, outcomes.get(attempt.document_id, attempt.mapped)) for attempt in tried]
    done = dict.fromkeys(unchanged, "unchanged")
    done |= {key: o.value.lower() for key, o in outcomes.items() if isinstance(o, UploadStatus)}
    async with run.transaction() as connection:
        kept = [failure for failure in failures if failure is not None]
        await queries.replace_failures(connection, run.key, tried=ids, failures=kept)
        counts = await queries.count_outcomes(connection, run.key, {item: done.get(item, "failed") for item in ids})
        await queries.save_progress(connection, run.key, cursor=cursor, **counts)


def _try_to_map(run: Run, document: SourceDocument) -> _Attempt:
    external_id = run.target.external_id(document.source_id)
    try:
        mapped: MappedDocument | MappingError = map_document(document, run.target)
    except MappingError as error:
        mapped = error
    document_id = document_id_for(run.organization_id, external_id)
    return _Attempt(document_id, external_id, extended_text(document.source_id.value), mapped)


async def _find_unchanged(
    connection: Connection, caller: Caller, run: Run, mapped: Mapping[UUID, MappedDocument]
) -> frozenset[UUID]:
    """Return the documents in the collection with an equal fingerprint, unless the caller may not update them."""
    states = await read_upload_states(connection, caller, document_ids=list(mapped))
    there = await queries.find_in_collection(
        connection, run.organization_id, collection_id=run.sync.collection_id, document_ids=list(mapped)
    )
    return frozenset(
        document_id
        for document_id, item in mapped.items()
        if document_id in there and states.get(document_id, ())[:2] == (item.form.fingerprint, True)
    )


async def _upload_all(
    run: Run, caller: Caller, wanted: Mapping[UUID, MappedDocument]
) -> dict[UUID, UploadStatus | ServiceError]:
    """Upload the documents, AT_ONCE at a time; return statuses, and errors below 500. Raises the first other error."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def upload(document: MappedDocument) -> UploadStatus:
        async with turns:
            return await _upload_patiently(run, caller, document)

    found = await asyncio.gather(*map(upload, wanted.values()), return_exceptions=True)
    outcomes: dict[UUID, UploadStatus | ServiceError] = {}
    for document_id, outcome in zip(wanted, found, strict=True):
        if isinstance(outcome, BaseException) and not (isinstance(outcome, ServiceError) and outcome.status < 500):
            raise outcome
        outcomes[document_id] = outcome
    return outcomes


async def _upload_patiently(run: Run, caller: Caller, document: MappedDocument) -> UploadStatus:
    """Upload a document, waiting for room in the backlog without limit; OvertakenError if another run took over."""
    while True:
        # A document may take minutes, and a superseded run must not write documents that it read earlier.
        await run.report_alive()
        try:
            return await _upload_and_wait(run.runtime, caller, document)
        except Unavailable as error:
            if error.code != "indexing_backlog":
                raise
            await asyncio.sleep(min(error.retry_after, MOST_SILENT_SECONDS))


async def _upload_and_wait(runtime: Runtime, caller: Caller, document: MappedDocument) -> UploadStatus:
    limit = runtime.settings.max_upload_bytes
    async with write_bytes(
        document.content, folder=uploads_folder(runtime.settings), name=document.file_name, max_bytes=limit
    ) as file:
        saved = await save_upload(runtime, caller, form=document.form, file=file)
    if saved.waiter is not None:
        await runtime.indexer.wait(saved.waiter, seconds=runtime.settings.inline_indexing_seconds)
    return saved.status


def _to_failure(
    attempt: _Attempt, outcome: UploadStatus | MappedDocument | ServiceError | MappingError
) -> Failure | None:
    if isinstance(outcome, UploadStatus | MappedDocument):
        return None
    return Failure(attempt.document_id, attempt.source_id, attempt.external_id, outcome.code, outcome.message)


async def retry_failures(run: Run) -> None:
    """Apply every failed document again; documents gone from the source leave the list of failures."""
    after = NIL
    while failures := await _next_failures(run, after):
        documents = await run.source.read(list(failures.values()))
        await apply_documents(run, documents)
        found = {document.source_id.key for document in documents}
        gone = [document_id for document_id, source_id in failures.items() if source_id.key not in found]
        async with run.transaction() as connection:
            await queries.replace_failures(connection, run.key, tried=gone, failures=())
        after = max(failures)


async def _next_failures(run: Run, after: UUID) -> dict[UUID, SourceId]:
    async with run.transaction() as connection:
        rows = await queries.list_failures(connection, run.key, Window(after, RETRIED_AT_ONCE))
    return {document_id: SourceId(from_extended(failure.source_id)) for document_id, failure in rows}


async def sum_up(run: Run, note: Note | None) -> Note | None:
    """Return a run's warning: `note`, with the reasons of failures if any. RunError if every listed document failed."""
    async with run.transaction() as connection:
        listed, taken = await queries.count_taken(connection, run.key)
        reasons = await queries.group_failures(connection, run.key, examples=_EXAMPLES)
    if not reasons:
        return note
    failed = sum(row.number for row in reasons)
    before = f"{note.message} " if note else ""
    is_mapping = all(row.code in _OF_MAPPING for row in reasons)
    said = f"{_reasons_text(reasons)}. {_ADVICE if is_mapping else _ADVICE_OTHERWISE}"
    if listed > 0 and taken == 0:
        message = f"{before}None of the {listed} documents that the source lists could be loaded: {said}"
        raise RunError(NOT_MAPPED if is_mapping else NOT_TAKEN, message)
    message = f"{before}{failed} of {max(failed, listed)} documents could not be loaded: {said}"
    return Note(note.code if note else SOME_FAILED, message)


def _reasons_text(reasons: Sequence[FailureGroup]) -> str:
    told = [f"{row.message.rstrip('.')} ({_examples_text(row)})" for row in reasons[:_REASONS]]
    further = sum(row.number for row in reasons[_REASONS:])
    return "; ".join([*told, f"and {further} for other reasons"] if further else told)


def _examples_text(row: FailureGroup) -> str:
    ids = ", ".join(item if len(item) <= _LONGEST_EXAMPLE else f"{item[:_LONGEST_EXAMPLE]}…" for item in row.source_ids)
    documents = "1 document" if row.number == 1 else f"{row.number} documents"
    return f"{documents}{',' if row.number == 1 else ', such as'} {ids}"
