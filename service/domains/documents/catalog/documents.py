"""Rules of looking at documents and fetching their files.

An admin sees the names and the history of every document; contents only where access says so.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.catalog import (
    LIST_DOCUMENTS,
    LIST_LEFT_OUT_FILES,
    ContainedFiles,
    Document,
    DocumentIndexing,
    DocumentVersion,
    GetDocumentRequest,
    GetDocumentResponse,
    IndexingStatus,
    LeftOutFile,
    ListDocumentsRequest,
    ListDocumentsResponse,
    ListLeftOutFilesRequest,
    ListLeftOutFilesResponse,
    NotRead,
    RecognitionStatus,
)
from carrel.wire.common import Principal, ResourceIdentifier, ResourceType, Role, UserPrincipal
from carrel.wire.fields import normal_email
from service.auth.callers import Caller
from service.domains.documents.catalog import queries
from service.domains.documents.catalog.queries import DocumentFilter, known_not_read
from service.domains.documents.collections.queries import DocumentEntry, list_memberships
from service.domains.documents.recognition.queries import read_recognition
from service.domains.documents.stored.contained import queries as contained
from service.domains.documents.stored.queries import (
    StoredDocument,
    StoredFile,
    ask_document,
    lock_document,
    read_document,
    read_file,
)
from service.domains.documents.stored.rights import role_in, unknown_document, widen
from service.index.progress import indexing_status
from service.platform.batches import Batch
from service.platform.errors import NotFound
from service.platform.identifiers import document_id_for
from service.web.pagination import Cursor


async def get_document(
    connection: AsyncConnection, caller: Caller, *, request: GetDocumentRequest
) -> GetDocumentResponse:
    """Show a document, its versions, and where and how far it is indexed.

    For its readers and admins; 404 for others.
    """
    document_id = request.document_id
    reader = await widen(connection, caller, document_id=document_id)
    document = await read_document(connection, caller.organization_id, document_id=document_id)
    if document is None or (role_in(document.access, reader) is None and not caller.is_admin):
        raise unknown_document()
    versions = await queries.list_versions(connection, caller.organization_id, document_id=document_id)
    owner = await queries.read_principal(connection, caller.organization_id, principal_id=document.fields.owner_id)
    places = [_to_indexing(row) for row in await list_memberships(connection, caller, document_id=document_id)]
    in_catalog = next((place for place in places if place.document_collection_id is None), None)
    recognition = await read_recognition(connection, caller.organization_id, document_id=document_id)
    return GetDocumentResponse(
        **_document_members(document, owner),
        indexing=None if in_catalog is None else in_catalog.status,
        chunk_count=None if in_catalog is None or in_catalog.indexed_version is None else in_catalog.chunk_count,
        is_being_read=recognition is not None and recognition.status is RecognitionStatus.RUNNING,
        text_recognition=recognition,
        read_pictures=document.file.reads_pictures,
        contained_files=await _count_contained(connection, caller.organization_id, document),
        fingerprint=document.fields.fingerprint,
        versions=[_to_version(row) for row in versions],
        indexed_in=places,
    )


async def _count_contained(
    connection: AsyncConnection, organization_id: UUID, document: StoredDocument
) -> ContainedFiles | None:
    if not document.file.file_count:
        return None
    return await contained.count_contained(
        connection, organization_id, container=document.file, container_id=document.document_id
    )


async def list_documents(
    connection: AsyncConnection, caller: Caller, *, request: ListDocumentsRequest
) -> ListDocumentsResponse:
    """List documents, newest first.

    The documents that the caller may READ; for an admin, all.
    """
    cursor = Cursor.read(caller, operation=LIST_DOCUMENTS.path, request=request)
    after = (datetime.fromisoformat(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else None
    filters = DocumentFilter(
        ids=_wanted_ids(caller.organization_id, request),
        name_contains=request.document_name,
        owner_email=None if request.owner_email is None else normal_email(request.owner_email),
        resource_types=request.resource_types,
        media_types=request.media_types,
        updated_from=request.updated_from,
        updated_before=request.updated_to,
        indexing=request.indexing,
        container_id=request.parent_document_id,
        contained=request.contained,
    )
    rows = await queries.list_documents(connection, caller, filters=filters, after=after, limit=cursor.limit)
    page = cursor.page(rows, position=lambda row: (row.created_at.isoformat(), str(row.document_id)))
    return ListDocumentsResponse(
        documents=[_to_document(row) for row in page.items], next_page_token=page.next_page_token
    )


def _wanted_ids(organization_id: UUID, request: ListDocumentsRequest) -> Collection[UUID] | None:
    """Return the ids to narrow a list to: those given, and those that external ids stand for; None for all."""
    if request.document_external_ids is None:
        return request.ids
    named = {document_id_for(organization_id, one) for one in request.document_external_ids}
    return named if request.ids is None else named.intersection(request.ids)


async def find_download(
    connection: AsyncConnection, caller: Caller, *, document_id: UUID, version: int | None
) -> StoredFile:
    """Return the file of a version (None: the newest); 404 for those who may not READ the document, admins too."""
    document = await _read_readable(connection, caller, document_id=document_id)
    if version is None or version == document.version:
        return document.file
    file = await read_file(connection, caller.organization_id, document_id=document_id, version=version)
    if file is None:
        raise NotFound("The document has no such version; getDocument lists them.", code="version_not_found")
    return file


async def _read_readable(connection: AsyncConnection, caller: Caller, *, document_id: UUID) -> StoredDocument:
    """Return a document that the caller may READ; 404 for others, admins too."""
    reader = await widen(connection, caller, document_id=document_id)
    document = await read_document(connection, caller.organization_id, document_id=document_id)
    if document is None or role_in(document.access, reader) is None:
        raise unknown_document()
    return document


async def list_left_out_files(
    connection: AsyncConnection, caller: Caller, *, request: ListLeftOutFilesRequest
) -> ListLeftOutFilesResponse:
    """List which files in an archive or mail are no documents, each with its reason.

    404 for callers who may not READ the container, admins too.
    """
    cursor = Cursor.read(caller, operation=LIST_LEFT_OUT_FILES.path, request=request)
    document = await _read_readable(connection, caller, document_id=request.document_id)
    rows = await contained.list_left_out(
        connection,
        caller.organization_id,
        container_id=document.document_id,
        after=int(cursor.after[0]) if cursor.after else -1,
        limit=cursor.limit,
    )
    page = cursor.page(rows, position=lambda row: (str(row.file_no),))
    files = [
        LeftOutFile(path=row.path, number=row.file_no + 1, code=row.code, message=row.message) for row in page.items
    ]
    return ListLeftOutFilesResponse(files=files, next_page_token=page.next_page_token)


async def lock_known_document(
    connection: AsyncConnection, caller: Caller, *, document_id: UUID
) -> tuple[StoredDocument, Role | None]:
    """Lock a document, and return it with the caller's role, which an admin may lack; 404 when it is hidden."""
    batch = Batch()
    lock_document(batch, document_id)
    asked = ask_document(batch, caller.organization_id, document_id=document_id, lock=True)
    await batch.run(connection)
    document = asked.document
    role = None if document is None else role_in(document.access, caller)
    if document is None or (role is None and not caller.is_admin):
        raise unknown_document()
    return document, role


def _principal(row: queries.Author) -> Principal:
    return UserPrincipal(email=row.email, id=str(row.principal_id), name=row.name)


def _document_members(document: StoredDocument, owner: queries.Author) -> dict[str, Any]:
    fields, file = document.fields, document.file
    return {
        "document_id": document.document_id,
        "document_name": fields.name,
        "document_external_id": fields.external_id,
        "document_external_url": fields.external_url,
        "resource": ResourceIdentifier(
            resource_id=document.resource_id, resource_type=ResourceType(document.resource_type)
        ),
        "owner": _principal(owner),
        "document_version": document.version,
        "file_name": file.name,
        "file_size": file.size,
        "media_type": file.media_type,
        "not_read": _to_not_read(known_not_read(file)),
        "file_count": file.file_count,
        "files_done": file.files_done,
        "parent_document_id": document.container_id,
        "custom_metadata": dict(fields.custom_metadata),
        "source_system_updated": fields.source_updated_at,
        "created_at": document.created_at,
        "updated_at": document.updated_at,
    }


def _to_not_read(parts: Sequence[Mapping[str, Any]] | None) -> list[NotRead] | None:
    return None if parts is None else [NotRead.model_validate(part) for part in parts]


def _to_document(row: queries.ListedDocument) -> Document:
    return Document(
        document_id=row.document_id,
        document_name=row.name,
        document_external_id=row.external_id,
        document_external_url=row.external_url,
        resource=ResourceIdentifier(resource_id=row.resource_id, resource_type=row.resource_type),
        owner=UserPrincipal(email=row.owner_email, id=str(row.owner_id), name=row.owner_name),
        document_version=row.version,
        file_name=row.file_name,
        file_size=row.file_size,
        media_type=row.media_type,
        not_read=_to_not_read(known_not_read(row)),
        file_count=row.file_count,
        files_done=row.files_done,
        parent_document_id=row.container_id,
        custom_metadata=row.custom_metadata,
        source_system_updated=row.source_updated_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        chunk_count=None if row.indexed_version is None else row.chunk_count,
        is_being_read=row.is_being_read,
        indexing=None
        if row.wanted_version is None
        else indexing_status(
            desired_version=row.wanted_version, indexed_version=row.indexed_version, attempts=row.attempts or 0
        ),
    )


def _to_version(row: queries.StoredVersion) -> DocumentVersion:
    return DocumentVersion(
        document_version=row.version,
        file_name=row.file_name,
        file_size=row.file_size,
        media_type=row.media_type,
        created_at=row.created_at,
        created_by=_principal(row),
    )


def _to_indexing(row: DocumentEntry) -> DocumentIndexing:
    status = indexing_status(desired_version=row.version, indexed_version=row.indexed_version, attempts=row.attempts)
    told = status is IndexingStatus.RUNNING and row.chunks_expected > 0
    return DocumentIndexing(
        document_collection_id=row.collection_id,
        collection_name=row.name,
        document_version=row.version,
        indexed_version=row.indexed_version,
        status=status,
        chunk_count=row.chunk_count,
        chunks_embedded=row.chunks_embedded if told else None,
        chunks_expected=row.chunks_expected if told else None,
        language=row.language,
        error=row.error,
    )
