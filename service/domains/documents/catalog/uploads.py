"""Uploads: creating or updating a document from a file, all of it or nothing.

An upload is judged first as things are, without a lock; then its text is read, if its bytes are new; then everything is
judged again and done, in one transaction under the document's lock: whatever happened meanwhile counts. So a file that
can't be read, a refusal, a crash or a full disk leaves the document as it was; at worst a file that no version refers
to stays in the store until it is collected.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.uploads import UploadFileForm, UploadStatus
from service.audit.service import Change, record_in
from service.auth.callers import Caller, ask_acting_for
from service.domains.documents.catalog import queries
from service.domains.documents.catalog.decisions import Decision, ask_state, decide
from service.domains.documents.catalog.queries import NewText
from service.domains.documents.catalog.saved import SavedUpload
from service.domains.documents.collections.membership import place_document
from service.domains.documents.files.queries import keep_file
from service.domains.documents.recognition.jobs import enqueue_reading
from service.domains.documents.recognition.queries import read_recognition, replace_pages
from service.domains.documents.recognition.unread import has_unread_pages
from service.domains.documents.stored.containers import Container, enqueue_unpacking
from service.domains.documents.stored.queries import StoredDocument, StoredFile
from service.index.ingestion.indexer import Waiter
from service.index.ingestion.queries import IndexingWork, ask_indexing
from service.index.service import ensure_catalog_space
from service.index.spaces.queries import SearchedSpace
from service.permissions.access import Access
from service.permissions.service import Registration, ask_registration, set_access
from service.platform.batches import Answer, Batch
from service.platform.errors import Conflict
from service.runtime import Runtime
from service.text.extraction import FoundPicture
from service.web.multipart import ReceivedFile

MOST_ATTEMPTS = 4
ACTING_PART = "uploadAsUserEmail"


@dataclass(frozen=True, slots=True)
class _Extracted:
    """The result of extraction: the stored file, its own title, the packed blocks, the pages and pictures to read."""

    file: StoredFile
    title: str | None
    blocks: bytes
    scanned: Sequence[int]
    pictures: Sequence[FoundPicture]

    @property
    def is_recognized(self) -> bool:
        """Whether text recognition has something to read."""
        return bool(self.scanned or self.pictures)


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of an upload's transaction: the document, and the spaces to index it in."""

    saved: SavedUpload
    plan: "_IndexingPlan"


@dataclass(frozen=True, slots=True)
class _IndexingPlan:
    """The spaces to index a document in, and the work in the first of them if the file was just read.

    `is_begun`: there was room for that at once.
    """

    space_ids: list[int] = field(default_factory=list[int])
    known: IndexingWork | None = None
    is_begun: bool = False
    packed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Upload:
    """An upload in its transaction: who makes it, what was decided, what was read (None: the bytes are the same)."""

    runtime: Runtime
    connection: AsyncConnection
    caller: Caller
    form: UploadFileForm
    decision: Decision
    read: _Extracted | None


async def save_upload(
    runtime: Runtime,
    caller: Caller,
    *,
    form: UploadFileForm,
    file: ReceivedFile,
    new_only: bool = False,
    container: Container | None = None,
) -> SavedUpload:
    """Create or update the document of `form.document_external_id` from a file that lies on disk.

    All of an upload but to wait for its index, which needs neither a connection nor the file. With `new_only` a
    document that is there with other bytes is a Conflict `idempotency_key_reused`. A file in a `container` is saved
    while that still has the same contents; otherwise ContainerChangedError is raised. Raises what `decide` does,
    UnreadableFile for a file that can't be read, Conflict `resource_taken` or `concurrent_change`, and
    InsufficientStorage, or, before the file is read, Unavailable `indexing_backlog`.
    """
    read: _Extracted | None = None
    for lock in (False, *[True] * (MOST_ATTEMPTS - 1)):
        first = Batch()
        acting = ask_acting_for(first, caller, form.upload_as_user_email, field=ACTING_PART)
        within = None if container is None else container.ask(first, caller.organization_id, lock=lock)
        state = ask_state(first, caller, external_id=form.document_external_id, lock=lock)
        if read is not None:
            keep_file(first, sha256=file.sha256)
        async with runtime.database.transaction(caller.organization_id, first=first) as connection:
            actor = acting.caller()
            inside = None if within is None else within.document
            decision = await decide(connection, actor, state=state, form=form, file=file, container=inside)
            if new_only and decision.before is not None and decision.new_contents:
                raise _key_reused()
            is_read = read is not None and read.file.reads_pictures == decision.reads_pictures
            unread = decision.new_contents and not is_read
            ready = decision.nothing_to_do or (lock and not unread)
            if ready and read is not None:
                await runtime.files.ensure(file.path, file.sha256)
            done = await _apply_decision(_Upload(runtime, connection, actor, form, decision, read)) if ready else None
        if done is not None:
            return replace(done.saved, waiter=_start_indexing(runtime, caller.organization_id, done))
        if decision.new_version:
            runtime.indexer.refuse_backlog(caller.organization_id)
        if unread:
            read = await _read(runtime, file, reads_pictures=decision.reads_pictures)
    raise Conflict("The document is being changed by others at the same time. Try again.", code="concurrent_change")


def _key_reused() -> Conflict:
    return Conflict("This Idempotency-Key was used for another file. Use a new one.", code="idempotency_key_reused")


async def _read(runtime: Runtime, file: ReceivedFile, *, reads_pictures: bool) -> _Extracted:
    finds_pictures = reads_pictures and runtime.settings.ocr
    extraction = await runtime.extractor.extract(file.path, file_name=file.name, finds_pictures=finds_pictures)
    await runtime.files.put(file.path, file.sha256)
    stored = StoredFile(
        sha256=file.sha256,
        size=file.size,
        name=file.name,
        media_type=extraction.media_type,
        not_read=None if extraction.not_read is None else [asdict(each) for each in extraction.not_read],
        file_count=extraction.file_count or None,
        files_done=0 if extraction.file_count else None,
        reads_pictures=reads_pictures,
    )
    scanned = extraction.scanned if runtime.settings.ocr else ()
    return _Extracted(stored, extraction.title, extraction.packed, scanned, extraction.pictures)


async def _apply_decision(upload: _Upload) -> _Result:
    decision, before, changes = upload.decision, upload.decision.before, upload.decision.changes()
    version, plan = decision.version, _IndexingPlan()
    if before is None:
        status = UploadStatus.CREATED
        plan = await _write(upload, details={"version": version, **_readers(decision.access)})
    elif changes:
        await _change_rights(upload, before)
        readers = _readers(decision.access) if "access" in changes else {}
        plan = await _write(upload, details={"version": version, "changed": changes, **readers})
        status = UploadStatus.UPDATED if set(changes) - {"fingerprint"} else UploadStatus.UNCHANGED
    else:
        status = UploadStatus.UNCHANGED
    if decision.placement is not None and await _place_document(upload, version, plan):
        status = UploadStatus.UPDATED if status is UploadStatus.UNCHANGED else status
    if status is not UploadStatus.UNCHANGED and _holds_files(upload):
        await enqueue_unpacking(upload.runtime, upload.connection, upload.caller, decision.document_id)
    is_pending = before is not None and before.pending and not plan.space_ids
    file = _file(upload)
    saved = SavedUpload(decision.document_id, version, status, is_pending=is_pending, file=file)
    if has_unread_pages(file.not_read) or decision.reads_pictures:
        organization_id = upload.caller.organization_id
        recognition = await read_recognition(upload.connection, organization_id, document_id=decision.document_id)
        saved = replace(saved, text_recognition=recognition)
    return _Result(saved, plan)


def _file(upload: _Upload) -> StoredFile:
    """Return the file that the document has now: the one that was read, or the one it had."""
    if upload.decision.new_contents and upload.read is not None:
        return upload.read.file
    assert upload.decision.before is not None  # noqa: S101 - a new document's file has been read
    return upload.decision.before.file


def _holds_files(upload: _Upload) -> bool:
    """Check whether the document's file holds others, or did until now: those are then to be deleted."""
    before = upload.decision.before
    return bool(_file(upload).file_count or (before is not None and before.file.file_count))


async def _change_rights(upload: _Upload, before: StoredDocument) -> None:
    """Give an existing document the access, and the identity in its source system, that were decided."""
    decision, organization_id = upload.decision, upload.caller.organization_id
    if decision.access != before.access:
        await set_access(upload.connection, organization_id, object_id=decision.document_id, access=decision.access)
    if decision.resource != (before.resource_type, before.resource_id):
        await _claim_source_identity(upload)


async def _write(upload: _Upload, *, details: dict[str, Any]) -> _IndexingPlan:
    """Write the document as it was decided, with its audit entry, in one message; return the spaces to index it in."""
    decision, organization_id, batch = upload.decision, upload.caller.organization_id, Batch()
    registration = _register(upload, batch) if decision.before is None else None
    request = None
    if decision.new_version:
        request = _save_version(upload, batch)
    else:
        queries.save_document(
            batch,
            organization_id,
            document_id=decision.document_id,
            version=decision.version,
            fields=decision.fields,
        )
    action = "document.update" if decision.before else "document.create"
    within = {} if decision.container_id is None else {"containerId": str(decision.container_id)}
    change = Change(action, target_type="document", target_id=decision.document_id, details=details | within)
    record_in(batch, upload.caller, change=change)
    await batch.run(upload.connection)
    if registration is not None:
        await registration.complete(upload.connection)
    if request is not None and request.text is not None and upload.read is not None and upload.read.is_recognized:
        document_id = decision.document_id
        await enqueue_reading(upload.runtime, upload.connection, organization_id, document_id=document_id)
    return _IndexingPlan() if request is None else await request.plan(upload)


def _register(upload: _Upload, batch: Batch) -> Registration:
    decision = upload.decision
    resource_type, resource_id = decision.resource
    return ask_registration(
        batch,
        upload.caller.organization_id,
        object_id=decision.document_id,
        resource_type=resource_type,
        resource_id=resource_id,
        access=decision.access,
        container_id=decision.container_id,
    )


async def _claim_source_identity(upload: _Upload) -> None:
    resource_type, resource_id = upload.decision.resource
    claimed = await queries.set_source_identity(
        upload.connection,
        upload.caller.organization_id,
        document_id=upload.decision.document_id,
        resource_type=resource_type,
        resource_id=resource_id,
    )
    if not claimed:
        raise Conflict(
            "Another resource has this resourceType and resourceId. Update that one, or use other ones.",
            code="resource_taken",
        )


def _save_version(upload: _Upload, batch: Batch) -> "_Request":
    """Save the document with a new version (of the same bytes if none were read) in a batch, and want that indexed."""
    decision, read, organization_id = upload.decision, upload.read, upload.caller.organization_id
    if decision.new_contents and read is not None:
        text = NewText(title=_title(upload.form, read, decision.fields.name), blocks=read.blocks)
    else:
        text = None
    file = _file(upload)
    queries.save_version(
        batch,
        organization_id,
        document_id=decision.document_id,
        version=decision.version,
        fields=decision.fields,
        file=file,
        created_by=upload.caller.principal_id,
        text=text,
    )
    # A new document has no pages from before.
    if text is not None and read is not None and (read.is_recognized or decision.before is not None):
        replace_pages(
            batch,
            organization_id,
            document_id=decision.document_id,
            sha256=read.file.sha256,
            pages=read.scanned,
            pictures=read.pictures,
            most=upload.runtime.settings.ocr_pages,
        )
    # While more waits than there is room for, the text is left where it was just written.
    packed_bytes = 0 if text is None else len(text.blocks)
    # A text that was kept before is claimed with its size.
    is_begun = text is not None and upload.runtime.indexer.has_room(organization_id, packed_bytes=packed_bytes)
    return _Request(text, file.media_type, is_begun, packed_bytes, _ask_spaces(upload, batch, is_begun=is_begun))


def _ask_spaces(upload: _Upload, batch: Batch, *, is_begun: bool) -> Answer[SearchedSpace]:
    return ask_indexing(
        batch,
        upload.caller.organization_id,
        document_id=upload.decision.document_id,
        version=upload.decision.version,
        collections_too=upload.form.reindex_collections,
        is_begun=is_begun,
    )


@dataclass(frozen=True, slots=True)
class _Request:
    """The request, in a batch, to index a new version, whose text is given if its file was just read."""

    text: NewText | None
    media_type: str
    is_begun: bool
    packed_bytes: int
    spaces: Answer[SearchedSpace]

    async def plan(self, upload: _Upload) -> _IndexingPlan:
        """Return the spaces to index in once the batch has been run, the catalog first (added when there is none)."""
        spaces, decision = self.spaces.rows, upload.decision
        if not spaces or not spaces[0].is_catalog:
            model = upload.runtime.embedders.default.model
            await ensure_catalog_space(upload.connection, upload.caller.organization_id, model=model)
            again = Batch()
            answer = _ask_spaces(upload, again, is_begun=self.is_begun)
            await again.run(upload.connection)
            spaces = answer.rows
        space_ids = [space.space_id for space in spaces]
        if self.text is None or not self.is_begun:
            return _IndexingPlan(space_ids, is_begun=self.is_begun, packed_bytes=self.packed_bytes)
        known = IndexingWork.of_contents(
            spaces[0],
            version=decision.version,
            name=decision.fields.name,
            title=self.text.title,
            media_type=self.media_type,
            blocks=self.text.blocks,
            indexed_before=decision.before is not None,
        )
        return _IndexingPlan(space_ids, known, is_begun=self.is_begun, packed_bytes=self.packed_bytes)


def _title(form: UploadFileForm, read: _Extracted, name: str) -> str:
    """Return what the contents are titled in embeddings: the name given by hand, their own title, or the file name."""
    by_hand = form.document_name is not None and form.document_name != read.file.name
    return name if by_hand or read.title is None else read.title


async def _place_document(upload: _Upload, version: int, plan: _IndexingPlan) -> bool:
    """Put the document into the form's collection, and its space on `plan`; return whether anything changed."""
    placement = upload.decision.placement
    assert placement is not None  # noqa: S101 - the caller has looked
    given, there = upload.form.custom_metadata, placement.membership
    metadata = given if given is not None else (there.custom_metadata if there else {})
    space_id = placement.collection.space_id
    if space_id in plan.space_ids and there is not None and there.custom_metadata == metadata:
        return False
    placed = await place_document(
        upload.connection,
        upload.caller,
        document_id=upload.decision.document_id,
        version=version,
        placement=placement,
        metadata=metadata,
        is_begun=plan.is_begun,
    )
    if placed.to_index and space_id not in plan.space_ids:
        plan.space_ids.append(space_id)
    return placed.changed


def _readers(access: Access) -> dict[str, list[str]]:
    return {"viewers": sorted(map(str, access.viewers)), "editors": sorted(map(str, access.editors))}


def _start_indexing(runtime: Runtime, organization_id: UUID, done: _Result) -> Waiter | None:
    """Start indexing a document as planned; None when no space is planned."""
    plan = done.plan
    if not plan.space_ids:
        return None
    return runtime.indexer.request(
        organization_id,
        document_id=done.saved.document_id,
        space_ids=plan.space_ids,
        is_begun=plan.is_begun,
        known=plan.known,
        packed_bytes=plan.packed_bytes,
    )
