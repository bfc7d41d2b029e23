"""Show, download, re-index, rename and delete documents. Admins see every name; contents need access."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import catalog as wire
from carrel.wire.common import ResourceIdentifier, ResourceType, Role
from carrel.wire.file_names import forms_of
from service.audit.service import Change, record, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller, acting_for
from service.domains.documents.catalog import queries
from service.domains.documents.catalog.queries import DocumentFilter, known_not_read, save_version
from service.domains.documents.catalog.trash.service import keep
from service.domains.documents.collections.queries import list_memberships
from service.domains.documents.recognition.queries import read_recognition
from service.domains.documents.stored import queries as stored
from service.domains.documents.stored.queries import StoredDocument, StoredFile, erase_documents
from service.index.ingestion.queries import ask_indexing, request_indexing_in_space
from service.index.service import ensure_catalog_space, remove_entries
from service.permissions.queries import Reader, delete_resources, lock_contained
from service.permissions.readers import find_grantee
from service.permissions.rights import role_in, unknown_document, widen
from service.platform.batches import Batch
from service.platform.errors import Forbidden, NotFound, require
from service.platform.identifiers import document_id_for
from service.runtime import Runtime
from service.web.pagination import Cursor


async def get_document(
    connection: Connection, caller: Caller, *, request: wire.GetDocumentRequest
) -> wire.GetDocumentResponse:
    """Show a document with versions and, where visible, indexing status. For readers and admins; 404 for others."""
    document_id = request.document_id
    reader = await widen(connection, caller, document_id=document_id)
    document = await stored.read_document(connection, caller.organization_id, document_id=document_id)
    if document is None or (role_in(document.access, reader) is None and not caller.is_admin):
        raise unknown_document()
    versions = await queries.list_versions(connection, caller.organization_id, document_id=document_id)
    owner = await queries.read_owner(connection, caller.organization_id, principal_id=document.fields.owner_id)
    places = await list_memberships(connection, caller, document_id=document_id)
    in_catalog = next((place for place in places if place.document_collection_id is None), None)
    recognition = await read_recognition(connection, caller.organization_id, document_id=document_id)
    fields, file, contained = document.fields, document.file, None
    if file.file_count:
        contained = await stored.count_contained(
            connection, caller.organization_id, container=file, container_id=document_id
        )
    not_read: Any = known_not_read(file.not_read, file.file_count, file.files_done)
    resource_type = ResourceType(document.resource_type)
    return wire.GetDocumentResponse(
        document_id=document_id,
        document_name=fields.name,
        document_external_id=fields.external_id,
        document_external_url=fields.external_url,
        resource=ResourceIdentifier(resource_id=document.resource_id, resource_type=resource_type),
        owner=owner,
        document_version=document.version,
        file_name=file.name,
        file_size=file.size,
        media_type=file.media_type,
        not_read=not_read,
        file_count=file.file_count,
        files_done=file.files_done,
        parent_document_id=document.container_id,
        custom_metadata=dict(fields.custom_metadata),
        source_system_updated=fields.source_updated_at,
        created_at=document.created_at,
        updated_at=document.updated_at,
        indexing=None if in_catalog is None else in_catalog.status,
        chunk_count=None if in_catalog is None or in_catalog.indexed_version is None else in_catalog.chunk_count,
        is_being_read=recognition is not None and recognition.status is wire.RecognitionStatus.RUNNING,
        text_recognition=recognition,
        read_pictures=file.reads_pictures,
        contained_files=contained,
        fingerprint=fields.fingerprint,
        versions=versions,
        indexed_in=places,
    )


async def list_documents(
    connection: Connection, caller: Caller, *, request: wire.ListDocumentsRequest
) -> wire.ListDocumentsResponse:
    """List a page of the matching documents that the caller may READ (an admin: all), by default the newest first."""
    cursor = Cursor.read(caller, operation=wire.LIST_DOCUMENTS.path, request=request)
    order = request.order or wire.DocumentOrder.CREATED
    rows = await queries.list_documents(
        connection,
        caller,
        document_filter=await read_filter(connection, caller, request, ids=request.ids),
        order=order,
        is_descending=order is not wire.DocumentOrder.NAME if request.descending is None else request.descending,
        after=(cursor.after[0], UUID(cursor.after[1])) if cursor.after else None,
        limit=cursor.limit,
    )
    page = cursor.page(rows, position=lambda row: (row[1], str(row[0].document_id)))
    return wire.ListDocumentsResponse(
        documents=[document for document, _ in page.items], next_page_token=page.next_page_token
    )


async def list_folders(
    connection: Connection, caller: Caller, *, request: wire.ListFoldersRequest
) -> wire.ListFoldersResponse:
    """List a page of the folders directly in a folder, by name, with counts of the matching documents in each."""
    cursor = Cursor.read(caller, operation=wire.LIST_FOLDERS.path, request=request)
    document_filter = await read_filter(connection, caller, request)
    after = cursor.after[0] if cursor.after else None
    rows = await queries.list_folders(
        connection, caller, document_filter=document_filter, after=after, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: (row[1],))
    return wire.ListFoldersResponse(folders=[folder for folder, _ in page.items], next_page_token=page.next_page_token)


async def read_filter(
    connection: Connection, caller: Caller, request: wire.DocumentFilters, *, ids: Collection[UUID] | None = None
) -> DocumentFilter:
    """Look up a filter's readers and ids; Forbidden `admin_only` for `readableBy`, except for admins."""
    readers: list[Reader] = [] if caller.is_admin and caller.collection_ids is None else [caller]
    if request.readable_by is not None:
        if not caller.is_admin:
            message = "Only an admin may list the documents of another reader. Leave out readableBy, or ask an admin."
            raise Forbidden(message, code="admin_only")
        readers.append(await find_grantee(connection, caller.organization_id, request.readable_by, field="readableBy"))
    if request.document_external_ids is not None:
        names = {form for name in request.document_external_ids for form in forms_of(name)}
        named_ids = {document_id_for(caller.organization_id, name) for name in names}
        ids = named_ids if ids is None else named_ids.intersection(ids)
    return DocumentFilter(request, ids, readers)


async def find_download(
    connection: Connection, caller: Caller, *, document_id: UUID, version: int | None
) -> StoredFile:
    """Return a version's file (None: the newest). 404 without READ, also for admins, and for an unknown version."""
    document = await _read_readable(connection, caller, document_id=document_id)
    if version is None or version == document.version:
        return document.file
    file = await stored.read_file(connection, caller.organization_id, document_id=document_id, version=version)
    error = NotFound("The document has no such version. getDocument lists its versions.", code="version_not_found")
    return require(file, error)


async def _read_readable(connection: Connection, caller: Caller, *, document_id: UUID) -> StoredDocument:
    """Return a document the caller may READ; 404 otherwise, also for admins."""
    reader = await widen(connection, caller, document_id=document_id)
    document = await stored.read_document(connection, caller.organization_id, document_id=document_id)
    if document is None or role_in(document.access, reader) is None:
        raise unknown_document()
    return document


async def list_left_out_files(
    connection: Connection, caller: Caller, *, request: wire.ListLeftOutFilesRequest
) -> wire.ListLeftOutFilesResponse:
    """List the files in an archive or mail without a document of their own, with reasons. 404 without READ."""
    cursor = Cursor.read(caller, operation=wire.LIST_LEFT_OUT_FILES.path, request=request)
    document = await _read_readable(connection, caller, document_id=request.document_id)
    rows = await stored.list_left_out(
        connection,
        caller.organization_id,
        container_id=document.document_id,
        after=int(cursor.after[0]) if cursor.after else -1,
        limit=cursor.limit,
    )
    page = cursor.page(rows, position=lambda row: (str(row.number - 1),))
    return wire.ListLeftOutFilesResponse(files=page.items, next_page_token=page.next_page_token)


async def lock_known_document(
    connection: Connection, caller: Caller, *, document_id: UUID
) -> tuple[StoredDocument, Role | None]:
    """Lock a document, also against uploads; return it with the caller's role. None only for admins; 404 if hidden."""
    batch = Batch()
    stored.lock_document(batch, document_id)
    answer = stored.ask_document(batch, caller.organization_id, document_id=document_id, lock=True)
    await batch.run(connection)
    document = answer.document
    role = None if document is None else role_in(document.access, caller)
    if document is None or (role is None and not caller.is_admin):
        raise unknown_document()
    return document, role


async def reindex(
    runtime: Runtime, caller: Caller, *, request: wire.ReindexDocumentRequest
) -> wire.ReindexDocumentResponse:
    """Index a document's newest contents again, and wait a while; 404 if hidden, 403 below EDITOR, 503 if too busy."""
    document_id, organization_id = request.document_id, caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        caller = await acting_for(connection, caller, request.user_email)
        version, space_id = await request_reindexing(runtime, connection, caller, document_id)
    waiter = runtime.indexer.request(organization_id, document_id=document_id, space_ids=[space_id], is_begun=False)
    outcomes = await runtime.indexer.wait(waiter, seconds=runtime.settings.inline_indexing_seconds)
    status = wire.IndexingStatus.RUNNING if outcomes is None else wire.IndexingStatus.DONE
    return wire.ReindexDocumentResponse(document_id=document_id, document_version=version, indexing=status)


async def request_reindexing(
    runtime: Runtime, connection: Connection, caller: Caller, document_id: UUID
) -> tuple[int, int]:
    """Request indexing in the catalog again, with audit; return version and space. 404, 403, 503 as for `reindex`."""
    organization_id = caller.organization_id
    document = await _lock_editable(runtime, connection, caller, document_id)
    catalog = await ensure_catalog_space(connection, organization_id, model=runtime.embedders.default.model)
    await request_indexing_in_space(
        connection,
        organization_id,
        document_id=document_id,
        space_id=catalog.space_id,
        version=document.version,
        custom_metadata={},
        is_begun=False,
        as_unindexed=True,
    )
    details = {"version": document.version}
    await record(connection, caller, "document.reindex", "document", document_id, details=details)
    return document.version, catalog.space_id


async def rename(
    runtime: Runtime, caller: Caller, *, request: wire.RenameDocumentRequest
) -> wire.RenameDocumentResponse:
    """Rename a document unless the name is the same, and index it later. 404 if hidden, 403 below EDITOR, 409, 503."""
    document_id, name, organization_id = request.document_id, request.document_name.strip(), caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        caller = await acting_for(connection, caller, request.user_email)
        document = await _lock_editable(runtime, connection, caller, document_id)
        before, version = document.fields, document.version
        whose: dict[str, Any] = {"document_id": document_id, "document_external_id": before.external_id}
        shown_before = wire.RenameDocumentResponse(**whose, document_name=before.name, document_version=version)
        await refuse_stale(connection, caller, request.version, shown_before, target_id=document_id)
        renamed = replace(before, name=name, named_by="RENAME")
        batch, space_ids = Batch(), list[int]()
        if renamed != before:
            version, by, file = version + 1, caller.principal_id, document.file
            which: dict[str, Any] = {"document_id": document_id, "version": version}
            save_version(batch, organization_id, **which, fields=renamed, file=file, created_by=by, blocks=None)
            spaces = ask_indexing(batch, organization_id, **which, collections_too=True, is_begun=False)
            await batch.run(connection)
            after = wire.RenameDocumentResponse(**whose, document_name=name, document_version=version)
            about = ("document.rename", "document", document_id)
            change = change_between(*about, shown_before, after, details={"version": version})
            await record_all(connection, caller, changes=[change])
            space_ids = [space.space_id for space in spaces.rows]
    if space_ids:
        runtime.indexer.request(organization_id, document_id=document_id, space_ids=space_ids, is_begun=False)
    return wire.RenameDocumentResponse(**whose, document_name=name, document_version=version)


async def _lock_editable(runtime: Runtime, connection: Connection, caller: Caller, document_id: UUID) -> StoredDocument:
    """Lock a document the caller may change; 404 if hidden, 403 below EDITOR, 503 while the backlog is full."""
    document, role = await lock_known_document(connection, caller, document_id=document_id)
    if role not in {Role.OWNER, Role.EDITOR} and not caller.is_admin:
        message = "You may read this document but not change it. Ask its owner for the EDITOR role, or ask an admin."
        raise Forbidden(message, code="document_editor_required")
    runtime.indexer.refuse_backlog(caller.organization_id)
    return document


async def delete_document(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.DeleteDocumentRequest
) -> wire.DeleteDocumentResponse:
    """Delete a document everywhere, with the documents that are files in it; 403 except for its owner and admins. They
    can restore it from the trash for some days. Its version numbers are never used again."""
    document_id = request.document_id
    document, role = await lock_known_document(connection, caller, document_id=document_id)
    if role is not Role.OWNER and not caller.is_admin:
        message = "Only the document's owner or an admin may delete it. Ask one of them."
        raise Forbidden(message, code="owner_required")
    trashed_document_id = await keep(connection, caller, document, days=runtime.settings.trash_days)
    await delete_locked(connection, caller, documents={document_id: {"version": document.version}})
    return wire.DeleteDocumentResponse(document_id=document_id, trashed_document_id=trashed_document_id)


async def delete_locked(connection: Connection, caller: Caller, *, documents: Mapping[UUID, Mapping[str, Any]]) -> None:
    """Delete locked documents and the files in them, not into the trash; the values are details of audit entries."""
    organization_id = caller.organization_id
    contained = await lock_contained(connection, organization_id, container_ids=documents.keys())
    details = {**documents, **{key: {"containerId": str(container_id)} for key, container_id in contained.items()}}
    changes = [Change("document.delete", "document", key, detail) for key, detail in details.items()]
    await record_all(connection, caller, changes=changes)
    await remove_entries(connection, organization_id, document_ids=details.keys())
    await erase_documents(connection, organization_id, document_ids=details.keys())
    await delete_resources(connection, organization_id, object_ids=details.keys())
