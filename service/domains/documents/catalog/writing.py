"""The rows of an upload, in a single transaction: document, version, text, readers, and collection."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.catalog import TextRecognition
from carrel.wire.uploads import UploadStatus
from service.audit.service import Change, record_in
from service.domains.documents.catalog import queries
from service.domains.documents.catalog.decisions import Decision
from service.domains.documents.collections.membership import place_document
from service.domains.documents.recognition.jobs import enqueue_reading, has_unread_pages
from service.domains.documents.recognition.queries import read_recognition, replace_pages
from service.domains.documents.stored.containers import enqueue_unpacking
from service.domains.documents.stored.queries import StoredDocument, StoredFile
from service.index.ingestion.indexer import Waiter
from service.index.ingestion.queries import IndexingWork, ask_indexing
from service.index.progress import Half
from service.index.service import ensure_catalog_space
from service.index.spaces.queries import SearchedSpace
from service.permissions.service import Registration, ask_registration, set_access
from service.platform.batches import Answer, Batch
from service.platform.errors import Conflict
from service.runtime import Runtime
from service.text.reading import FoundPicture


@dataclass(frozen=True, slots=True)
class Contents:
    """A file after reading: the stored file, its own title, the packed blocks, the pages and pictures to recognize."""

    file: StoredFile
    title: str | None
    blocks: bytes
    scanned: Sequence[int]
    pictures: Sequence[FoundPicture]

    @property
    def needs_recognition(self) -> bool:
        return bool(self.scanned or self.pictures)


@dataclass(frozen=True, slots=True)
class SavedUpload:
    """A document after an upload. `is_pending`: a part already waited for its index; `lacks_words`: the words, too."""

    document_id: UUID
    version: int
    status: UploadStatus
    is_pending: bool
    lacks_words: bool
    file: StoredFile
    text_recognition: TextRecognition | None = None
    waiter: Waiter | None = None


@dataclass(frozen=True, slots=True)
class Indexing:
    """The spaces to index a document in, the first space's work for a file just read, and whether it has begun."""

    space_ids: list[int] = field(default_factory=list[int])
    known: IndexingWork | None = None
    is_begun: bool = False
    packed_bytes: int = 0

    def start(self, runtime: Runtime, organization_id: UUID, document_id: UUID, *, half: Half) -> Waiter | None:
        """Start the indexing after the upload's commit, and wait for a `half`; None when no space needs indexing."""
        if not self.space_ids:
            return None
        return runtime.indexer.request(
            organization_id,
            document_id=document_id,
            space_ids=self.space_ids,
            is_begun=self.is_begun,
            known=self.known,
            packed_bytes=self.packed_bytes,
            half=half,
        )


async def write(
    runtime: Runtime, connection: Connection, decision: Decision, contents: Contents | None
) -> tuple[SavedUpload, Indexing]:
    """Save a decision, and enqueue the unpacking of a changed container; Conflict `resource_taken`."""
    before, changes, indexing = decision.before, decision.changes(), Indexing()
    if before is not None and changes:
        await _change_rights(connection, decision, before)
    if before is None or changes:
        indexing = await _write_document(runtime, connection, decision, contents)
    is_placed = await _place_document(connection, decision, indexing)
    if before is None:
        status = UploadStatus.CREATED
    elif is_placed or set(changes) - {"fingerprint"}:
        status = UploadStatus.UPDATED
    else:
        status = UploadStatus.UNCHANGED
    saved = await describe(connection, decision, contents, status=status, indexing=indexing)
    # The same job deletes the files of the previous version.
    holds_files = saved.file.file_count or (before is not None and before.file.file_count)
    if holds_files and status is not UploadStatus.UNCHANGED:
        await enqueue_unpacking(runtime, connection, decision.caller, decision.document_id)
    return saved, indexing


async def describe(
    connection: Connection,
    decision: Decision,
    contents: Contents | None = None,
    *,
    status: UploadStatus = UploadStatus.UNCHANGED,
    indexing: Indexing | None = None,
) -> SavedUpload:
    """Return the document after an upload, with the progress of text recognition; writes nothing."""
    file = _file(decision, contents)
    recognition = None
    if has_unread_pages(file.not_read) or decision.reads_pictures:
        organization_id = decision.caller.organization_id
        recognition = await read_recognition(connection, organization_id, document_id=decision.document_id)
    is_indexed = indexing is not None and bool(indexing.space_ids)
    before = None if is_indexed else decision.before
    waits = before is not None and before.pending, before is not None and before.lacks_words
    return SavedUpload(decision.document_id, decision.version, status, *waits, file, recognition)


def _file(decision: Decision, contents: Contents | None) -> StoredFile:
    if contents is not None:
        return contents.file
    assert decision.before is not None  # noqa: S101 - a new document's file has been read
    return decision.before.file


async def _change_rights(connection: Connection, decision: Decision, before: StoredDocument) -> None:
    """Save changed readers and a changed identity in the source system; Conflict `resource_taken`."""
    document_id, organization_id = decision.document_id, decision.caller.organization_id
    # Named access also ends what a group in the trash would get back.
    if decision.access != before.access or decision.upload.form.names_access:
        await set_access(connection, organization_id, object_id=document_id, access=decision.access)
    resource_type, resource_id = decision.resource
    if decision.resource != (before.resource_type, before.resource_id) and not await queries.set_source_identity(
        connection, organization_id, document_id=document_id, resource_type=resource_type, resource_id=resource_id
    ):
        message = "Another resource has this resourceType and resourceId. Update that resource, or use other values."
        raise Conflict(message, code="resource_taken")


async def _write_document(
    runtime: Runtime, connection: Connection, decision: Decision, contents: Contents | None
) -> Indexing:
    """Write the document, and a version if needed, with audit; enqueue text recognition. Return what to index."""
    batch, before, organization_id = Batch(), decision.before, decision.caller.organization_id
    registration = _register(batch, decision) if before is None else None
    spaces, packed_bytes = None, 0 if contents is None else len(contents.blocks)
    # While the backlog is full, the text waits in the database. A text saved earlier is claimed with its size.
    is_begun = contents is not None and runtime.indexer.has_room(organization_id, packed_bytes=packed_bytes)
    if decision.new_version:
        _save_version(batch, decision, contents, most_pages=runtime.settings.ocr_pages)
        spaces = _ask_spaces(batch, decision, is_begun=is_begun)
    else:
        queries.save_document(
            batch, organization_id, document_id=decision.document_id, version=decision.version, fields=decision.fields
        )
    record_in(batch, decision.caller, change=_to_change(decision))
    await batch.run(connection)
    if registration is not None:
        await registration.complete(connection)
    if contents is not None and contents.needs_recognition:
        await enqueue_reading(runtime, connection, organization_id, document_id=decision.document_id)
    if spaces is None:
        return Indexing()
    if not spaces.rows or not spaces.rows[0].is_catalog:
        await ensure_catalog_space(connection, organization_id, model=runtime.embedders.default.model)
        again = Batch()
        spaces = _ask_spaces(again, decision, is_begun=is_begun)
        await again.run(connection)
    known = None
    if contents is not None and is_begun:
        space = spaces.rows[0]
        known = IndexingWork(
            document_id=decision.document_id,
            space_id=space.space_id,
            model=space.model,
            dimensions=space.dimensions,
            language=space.language,
            desired_version=decision.version,
            contents_version=decision.version,
            name=contents.file.name if decision.fields.named_by == "FILE" else decision.fields.name,
            title=decision.fields.name,
            media_type=contents.file.media_type,
            blocks=contents.blocks,
            indexed_before=before is not None,
        )
    return Indexing([space.space_id for space in spaces.rows], known, is_begun, packed_bytes)


def _register(batch: Batch, decision: Decision) -> Registration:
    resource_type, resource_id = decision.resource
    return ask_registration(
        batch,
        decision.caller.organization_id,
        object_id=decision.document_id,
        resource_type=resource_type,
        resource_id=resource_id,
        access=decision.access,
        container_id=decision.container_id,
    )


def _save_version(batch: Batch, decision: Decision, contents: Contents | None, *, most_pages: int) -> None:
    organization_id, document_id = decision.caller.organization_id, decision.document_id
    queries.save_version(
        batch,
        organization_id,
        document_id=document_id,
        version=decision.version,
        fields=decision.fields,
        file=_file(decision, contents),
        created_by=decision.caller.principal_id,
        blocks=None if contents is None else contents.blocks,
    )
    # A new document has no earlier pages to replace.
    if contents is not None and (contents.needs_recognition or decision.before is not None):
        replace_pages(
            batch,
            organization_id,
            document_id=document_id,
            sha256=contents.file.sha256,
            pages=contents.scanned,
            pictures=contents.pictures,
            most=most_pages,
        )


def _ask_spaces(batch: Batch, decision: Decision, *, is_begun: bool) -> Answer[SearchedSpace]:
    return ask_indexing(
        batch,
        decision.caller.organization_id,
        document_id=decision.document_id,
        version=decision.version,
        collections_too=decision.upload.form.reindex_collections,
        is_begun=is_begun,
    )


def _to_change(decision: Decision) -> Change:
    details: dict[str, Any] = {"version": decision.version}
    changes = decision.changes()
    if decision.before is not None:
        details["changed"] = changes
    if decision.before is None or "access" in changes:
        details["viewers"] = sorted(map(str, decision.access.viewers))
        details["editors"] = sorted(map(str, decision.access.editors))
    if decision.container_id is not None:
        details["containerId"] = str(decision.container_id)
    action = "document.update" if decision.before else "document.create"
    return Change(action, target_type="document", target_id=decision.document_id, details=details)


async def _place_document(connection: Connection, decision: Decision, indexing: Indexing) -> bool:
    """Put the document into the form's collection, if any, add its space to `indexing`; return whether it changed."""
    placement = decision.placement
    if placement is None:
        return False
    is_given, membership = decision.upload.form.custom_metadata is not None, placement.membership
    if membership and not is_given:
        placement = replace(placement, metadata=membership.custom_metadata)
    space_id = placement.collection.space_id
    if space_id in indexing.space_ids and membership is not None and membership.custom_metadata == placement.metadata:
        return False
    placed = await place_document(
        connection, decision.caller, placement, version=decision.version, is_begun=indexing.is_begun
    )
    if placed.to_index and space_id not in indexing.space_ids:
        indexing.space_ids.append(space_id)
    return placed.changed
