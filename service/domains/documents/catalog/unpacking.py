"""The job that adds a container's files to the catalog, and deletes gone files. Uploads count as made by the
container's uploader, with the container's owner and access. A repeated job changes no data and reads no known bytes."""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.formats import BY_NAME, NotReadKind
from carrel.wire.uploads import UploadFileForm, UploadStatus
from service.audit.service import record
from service.auth.callers import Caller, reload_caller
from service.domains.documents.catalog.documents import delete_locked
from service.domains.documents.catalog.uploads import save_upload
from service.domains.documents.collections.membership import place_files
from service.domains.documents.stored import queries
from service.domains.documents.stored.containers import UNPACK_FILES, Container, ContainerChangedError
from service.domains.documents.stored.queries import LeftOut, StoredDocument, forget_left_out, read_document
from service.index.ingestion.turns import Lane
from service.platform.errors import ServiceError, Unavailable
from service.platform.identifiers import document_id_for
from service.platform.logs import logger
from service.runtime import Runtime
from service.runtime.jobs.models import Task
from service.runtime.jobs.running import LATE, is_away, is_last_attempt, refuse_deadly
from service.text.reading import MOST_PLACES, ContainedFile, Limits, UnreadableFile
from service.web.multipart import ReceivedFile, uploads_folder, write_bytes, write_stream

# Enough files at once to keep the readers busy, few enough to leave room for people's uploads.
AT_ONCE = 4
DELETED_AT_ONCE = 100
# The most files between two updates of the number done.
READ_AT_ONCE = 50
LONGEST_ID, LONGEST_NAME = 1024, 255
# The most paths read at once if the files themselves are not read.
NAMED_AT_ONCE = 1_000
# The levels of nested archives whose files become documents.
DEEPEST = 3
# After this many files that can't be extracted, the container is damaged or meant to keep the readers busy.
MOST_FAILURES = 3
LIMITS = Limits()

Reason = tuple[str, str]
"""The reason a file is left out: a code and a message, like an API error's."""

TOO_DEEP: Reason = (
    "archive_too_deep",
    f"The file is more than {DEEPEST} archives deep. Load the archive that directly contains it.",
)
TOO_MUCH: Reason = (
    "archive_too_large",
    (
        f"An archive may hold at most {LIMITS.archive_entries:,} files and {LIMITS.archive_bytes >> 20:,} MiB. Load "
        "the other files in a separate archive."
    ),
)
BROKEN: Reason = (
    "archive_unreadable",
    (
        f"After {MOST_FAILURES} files could not be unpacked, the other files were not tried. Unpack the archive "
        "yourself and load its files."
    ),
)
STOPPED: Reason = (
    "unpacking_stopped",
    ("Loading the files ended with an error, which is in the service's log. Load the archive or mail again."),
)
NOBODY: Reason = (
    "owner_not_active",
    "The person who loaded the archive or mail is not active, nor is its owner. Load it again as an active person.",
)


@dataclass
class Run:
    """A run of the job: the container and the uploader. `files_left` and `bytes_left` remain of the outermost
    container's limits; `is_too_deep` means nested too deep. `kept` are documents of contained files, readable or not.
    `read` are the numbers, from 0, of readable files, and `left_out` of all other files examined. `deleted` documents
    were of gone files. `is_whole` means every file was examined."""

    runtime: Runtime
    document: StoredDocument
    caller: Caller
    files_left: int
    bytes_left: int
    is_too_deep: bool
    kept: set[UUID] = field(default_factory=set[UUID])
    read: set[int] = field(default_factory=set[int])
    left_out: dict[int, LeftOut] = field(default_factory=dict[int, LeftOut])
    deleted: int = 0
    has_changed: bool = False
    is_whole: bool = False

    @property
    def container(self) -> Container:
        return Container(self.document.document_id, self.document.file.sha256)

    def leave_out(self, number: int, path: str | None, why: Reason) -> None:
        self.left_out[number] = LeftOut(number, path or None, *why)


async def unpack(
    runtime: Runtime,
    *,
    organization_id: UUID,
    document_id: UUID,
    principal_id: UUID,
    credential_id: UUID,
    actor_id: UUID,
) -> None:
    """Add a document's files to the catalog for the uploader, or else the owner. Raises while the database is away;
    any other error marks the files not yet read as unread."""
    async with runtime.database.transaction(organization_id) as connection:
        document = await read_document(connection, organization_id, document_id=document_id)
        if document is None:
            return
        run = None
        for each in (principal_id, document.fields.owner_id):
            caller = await reload_caller(
                connection,
                organization_id,
                principal_id=each,
                credential_id=credential_id,
                acting_through=None if actor_id == each else actor_id,
                keys=runtime.keys,
            )
            if caller is not None:
                run = await _begin(runtime, connection, document, caller)
                break
    try:
        if run is not None:
            refuse_deadly()
            await _bring_all(run)
            await _finish(run)
            return
    except ContainerChangedError:
        # The upload that changed the container has enqueued its own job.
        return
    except Exception as error:
        if is_away(error) and not is_last_attempt():
            raise
        logger.exception("unpacking_failed", document_id=str(document_id))
    await _give_up(runtime, organization_id, document, run)


UNPACK = Task(UNPACK_FILES.name, unpack, queue=UNPACK_FILES.queue)


async def _begin(runtime: Runtime, connection: Connection, document: StoredDocument, caller: Caller) -> Run:
    """Forget files left out before, and return a run with the room left by other files in the outermost container."""
    organization_id, document_id = caller.organization_id, document.document_id
    *_, outermost = containers = await queries.list_containers(connection, organization_id, document_id=document_id)
    await forget_left_out(connection, organization_id, document_id=document_id)
    count, size = await queries.sum_up_contained(
        connection, organization_id, container_id=outermost, without=document_id
    )
    is_too_deep = len(containers) > DEEPEST
    return Run(
        runtime,
        document,
        caller,
        files_left=0 if is_too_deep else LIMITS.archive_entries - count,
        bytes_left=LIMITS.archive_bytes - size,
        is_too_deep=is_too_deep,
    )


async def _bring_all(run: Run) -> None:
    """Add the files, some dozens or some megabytes at a time. Files too deep or beyond the limits are not read."""
    file = run.document.file
    count = file.file_count or 0
    most = min(count, max(run.files_left, 0))
    done = failures = 0
    if not count:
        run.is_whole = True
        return
    pieces = await run.runtime.files.stream(file.sha256)
    async with write_stream(pieces, folder=uploads_folder(run.runtime.settings), name=file.name) as received:
        while done < most and failures < MOST_FAILURES and run.bytes_left > 0:
            try:
                files = await _read_next(run, received.path, start=done, most=min(most - done, READ_AT_ONCE))
            except UnreadableFile as error:
                names = await _name_some(run, received.path, start=done, most=1)
                path = names[0].path if names else ""
                files, failures = [ContainedFile(path, None, error.code, error.message)], failures + 1
            if not files:
                break
            document_ids = await _bring(run, files, start=done)
            done += len(files)
            if done < count:
                await _place_and_save(run, done, document_ids)
        if done < count:
            why = TOO_DEEP if run.is_too_deep else BROKEN if failures >= MOST_FAILURES else TOO_MUCH
            await _leave_out_rest(run, received.path, start=done, why=why)
    run.is_whole = done == count and not failures


async def _read_next(run: Run, path: Path, *, start: int, most: int) -> list[ContainedFile]:
    """Read up to `most` files; if that fails, the first alone. UnreadableFile if this fails, too."""
    largest = run.runtime.settings.max_upload_bytes
    try:
        return await _read(run, path, start=start, most=most, largest=largest)
    except UnreadableFile:
        return await _read(run, path, start=start, most=1, largest=largest)


async def _read(run: Run, path: Path, *, start: int, most: int, largest: int) -> list[ContainedFile]:
    name = run.document.file.name
    return await run.runtime.extractor.read_files(path, file_name=name, start=start, most=most, largest=largest)


async def _name_some(run: Run, path: Path, *, start: int, most: int) -> list[ContainedFile]:
    """Read only the paths of some of the files; none when even this fails."""
    try:
        return await _read(run, path, start=start, most=most, largest=0)
    except UnreadableFile:
        return []


async def _leave_out_rest(run: Run, path: Path, *, start: int, why: Reason) -> None:
    done, count = start, run.document.file.file_count or 0
    while done < count and (files := await _name_some(run, path, start=done, most=NAMED_AT_ONCE)):
        for number, file in enumerate(files, start=done):
            run.leave_out(number, file.path, why)
        done += len(files)
    for number in range(done, count):
        run.leave_out(number, None, why)


async def _bring(run: Run, files: Sequence[ContainedFile], *, start: int) -> set[UUID]:
    """Upload files, AT_ONCE at a time, and note in the run which were left out; return all their documents' ids."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def bring(number: int, file: ContainedFile) -> None:
        why: Reason | None = (file.code, file.message)
        async with turns:
            if file.content is not None:
                why = await _upload(run, file, file.content)
        if why is None:
            run.read.add(number)
        else:
            run.leave_out(number, file.path, why)

    # A file with unreadable new contents leaves its document unchanged, like a refused upload.
    document_ids = {document_id_for(run.caller.organization_id, _external_id(run, item)) for item in files}
    run.kept |= document_ids
    run.bytes_left -= sum(len(file.content or b"") for file in files)
    brought = (bring(number, file) for number, file in enumerate(files, start=start))
    for outcome in await asyncio.gather(*brought, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
    return document_ids


def _external_id(run: Run, file: ContainedFile) -> str:
    whole = f"{run.document.fields.external_id}!/{file.path}"
    if len(whole) <= LONGEST_ID:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:32]
    return f"{whole[: LONGEST_ID - len(digest) - 1]}~{digest}"


async def _upload(run: Run, contained: ContainedFile, content: bytes) -> Reason | None:
    """Upload a contained file; return the reason of a refusal, None when saved. Errors from 500 on are raised."""
    document = run.document
    name = contained.path.rpartition("/")[2][-LONGEST_NAME:]
    limit = run.runtime.settings.max_upload_bytes
    form = UploadFileForm(
        document_external_id=_external_id(run, contained),
        document_external_url=document.fields.external_url,
        custom_metadata=dict(document.fields.custom_metadata),
        source_system_updated=document.fields.source_updated_at,
    )
    async with write_bytes(content, folder=uploads_folder(run.runtime.settings), name=name, max_bytes=limit) as file:
        try:
            status = await _save_patiently(run, form, file)
            run.has_changed = run.has_changed or status is not UploadStatus.UNCHANGED
        except ServiceError as error:
            if error.status >= 500 and not (error.code == LATE and is_last_attempt()):
                raise
            return error.code, error.message
    return None


async def _save_patiently(run: Run, form: UploadFileForm, file: ReceivedFile) -> UploadStatus:
    """Save an upload, waiting for room in the backlog without limit, then a while for its index."""
    runtime = run.runtime
    while True:
        try:
            saved = await save_upload(runtime, run.caller, form=form, file=file, container=run.container)
        except Unavailable as error:
            if error.code != "indexing_backlog":
                raise
            await asyncio.sleep(error.retry_after)
        else:
            if saved.waiter is not None:
                await runtime.indexer.wait(saved.waiter, seconds=runtime.settings.inline_indexing_seconds)
            return saved.status


async def _place_and_save(run: Run, done: int, document_ids: Collection[UUID]) -> None:
    organization_id = run.caller.organization_id
    async with run.runtime.database.transaction(organization_id) as connection:
        document = await _lock_unchanged(run, connection)
        await place_files(connection, run.caller, container_id=document.document_id, document_ids=document_ids)
        await queries.save_left_out(connection, organization_id, container_id=document.document_id, files=run.left_out)
        file = run.document.file
        await queries.save_files_done(
            connection, organization_id, document_id=document.document_id, sha256=file.sha256, files_done=done
        )
    run.runtime.indexer.note_backlog(organization_id, Lane.SMALL, Lane.LARGE)


async def _lock_unchanged(run: Run, connection: Connection) -> StoredDocument:
    document_id, organization_id = run.document.document_id, run.caller.organization_id
    container = await read_document(connection, organization_id, document_id=document_id, lock=True)
    return run.container.check(container)


async def _finish(run: Run) -> None:
    """Delete the documents of gone files, if every file was examined, then save and record the end of the run."""
    organization_id, document_id = run.caller.organization_id, run.document.document_id
    while True:
        async with run.runtime.database.transaction(organization_id) as connection:
            document = await _lock_unchanged(run, connection)
            removed_ids: Sequence[UUID] = ()
            if run.is_whole:
                removed_ids = await queries.lock_files_except(
                    connection, organization_id, container_id=document_id, kept=run.kept, limit=DELETED_AT_ONCE
                )
            if not removed_ids:
                await place_files(connection, run.caller, container_id=document_id)
                await _save_end(connection, organization_id, document, run.left_out)
                await _record(connection, run)
                break
            detail = {"containerId": str(document_id)}
            await delete_locked(connection, run.caller, documents=dict.fromkeys(removed_ids, detail))
            run.deleted += len(removed_ids)
    run.runtime.indexer.note_backlog(organization_id, Lane.SMALL, Lane.LARGE)


async def _record(connection: Connection, run: Run) -> None:
    """Record a container's contents if new or changed; an earlier run may have been killed just before recording."""
    document = run.document
    if document.file.files_done == document.file.file_count and not (run.has_changed or run.deleted):
        return
    details = {"version": document.version, "files": document.file.file_count or 0}
    details |= {"leftOut": len(run.left_out), "deleted": run.deleted}
    await record(connection, run.caller, "document.unpack", "document", document.document_id, details=details)


async def _give_up(runtime: Runtime, organization_id: UUID, document: StoredDocument, run: Run | None) -> None:
    """Mark the rest of a container's files as unread, and record a run (None: none could begin). Earlier files stay."""
    left_out = {} if run is None else run.left_out
    code, message = NOBODY if run is None else STOPPED
    known = left_out.keys() | (set[int]() if run is None else run.read)
    rest = (number for number in range(document.file.file_count or 0) if number not in known)
    left_out |= {number: LeftOut(number, None, code, message) for number in rest}
    async with runtime.database.transaction(organization_id) as connection:
        await _save_end(connection, organization_id, document, left_out)
        if run is not None:
            await _record(connection, run)


async def _save_end(
    connection: Connection, organization_id: UUID, document: StoredDocument, left_out: Mapping[int, LeftOut]
) -> None:
    """Save a container's files as done, and the files left out, unless the container has other contents by now."""
    file = document.file
    if not file.file_count:
        return
    is_archive = file.media_type in {BY_NAME[name].media_type for name in ("ZIP", "gzip")}
    kind = NotReadKind.EMBEDDED if is_archive else NotReadKind.ATTACHMENT
    parts = [part for part in file.not_read or () if part["kind"] != kind]
    if numbers := sorted(left_out):
        places = [f"file {number + 1}" for number in numbers[:MOST_PLACES]]
        parts.append({"kind": kind, "count": len(numbers), "where": places})
    is_newest = await queries.save_files_done(
        connection,
        organization_id,
        document_id=document.document_id,
        sha256=file.sha256,
        files_done=file.file_count,
        not_read=parts,
    )
    if is_newest:
        await queries.save_left_out(connection, organization_id, container_id=document.document_id, files=left_out)
