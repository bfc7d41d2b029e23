"""Looking at collections, the documents in one, and a document's chunks: never more than the caller may READ."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import collections as wire
from carrel.wire.common import Role
from carrel.wire.formats import FORMATS
from service.auth.callers import Caller
from service.domains.documents.collections import queries
from service.domains.documents.collections.service import require_collection, require_document
from service.domains.documents.stored.texts import read_text, unpack_text
from service.index.service import find_catalog
from service.platform.errors import NotFound
from service.runtime import Runtime
from service.web.pagination import Cursor

_MAILS = frozenset(each.media_type for each in FORMATS if each.kind == "mail")


async def list_collections(
    connection: Connection, caller: Caller, *, request: wire.ListDocumentCollectionsRequest
) -> wire.ListDocumentCollectionsResponse:
    """List the collections the caller may search."""
    cursor = Cursor.read(caller, operation=wire.LIST_DOCUMENT_COLLECTIONS.path, request=request)
    name = request.collection_name
    found = await queries.list_collections(connection, caller, name_contains=name, **cursor.window)
    page = cursor.page(found, position=lambda each: [str(each.document_collection_id)])
    return wire.ListDocumentCollectionsResponse(document_collections=page.items, next_page_token=page.next_page_token)


async def list_documents(
    connection: Connection, caller: Caller, *, request: wire.ListDocumentsInCollectionRequest
) -> wire.ListDocumentsInCollectionResponse:
    """List the documents of a collection that the caller may READ; 404 without a role in the collection."""
    collection = await require_collection(
        connection, caller, collection_id=request.document_collection_id, at_least=Role.VIEWER
    )
    cursor = Cursor.read(caller, operation=wire.LIST_DOCUMENTS_IN_COLLECTION.path, request=request)
    rows = await queries.list_members(
        connection, caller, space_id=collection.space_id, ids=request.ids, indexing=request.indexing, **cursor.window
    )
    page = cursor.page(rows, position=lambda row: [str(row.document_id)])
    return wire.ListDocumentsInCollectionResponse(documents=page.items, next_page_token=page.next_page_token)


async def get_chunks(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.GetDocumentChunksRequest
) -> wire.GetDocumentChunksResponse:
    """List a document's chunks in a collection, or in the catalog; 404 for callers who may not READ it there."""
    document = await require_document(connection, caller, document_id=request.document_id)
    space_id, dimensions = await _space(connection, caller, request.document_collection_id)
    there = await queries.read_membership(
        connection, caller.organization_id, document_id=document.document_id, space_id=space_id
    )
    if there is None:
        raise NotFound("The document is not in this collection.", code="document_not_in_collection")
    version = max(there.words_version or 0, there.indexed_version or 0) or there.version
    cursor = Cursor.of(
        caller,
        operation=wire.GET_DOCUMENT_CHUNKS.path,
        parameters={"document": str(document.document_id), "space": space_id, "version": version},
        page_size=request.page_size,
        page_token=request.page_token,
    )
    rows = await queries.list_chunks(
        connection,
        caller,
        document_id=document.document_id,
        space_id=space_id,
        dimensions=dimensions,
        after=int(cursor.after[0]) if cursor.after else (request.first_chunk_index or 0) - 1,
        limit=cursor.limit,
    )
    if runtime.database.is_distributed:
        # Its servers are not read at one moment with this one: may they be read now, too?
        await require_document(connection, caller, document_id=request.document_id)
    page, quoted = cursor.page(rows, position=lambda row: [str(row.chunk_index)]), None
    if page.next_page_token is None and version == document.version and document.file.media_type in _MAILS:
        stored = await read_text(connection, caller, document_id=request.document_id)
        quoted = (await unpack_text(stored, start=0, quoted_alone=True)).text or None
    return wire.GetDocumentChunksResponse(
        document_version=version, chunks=page.items, quoted_text=quoted, next_page_token=page.next_page_token
    )


async def _space(connection: Connection, caller: Caller, collection_id: UUID | None) -> tuple[int, int]:
    if collection_id is not None:
        collection = await require_collection(connection, caller, collection_id=collection_id, at_least=Role.VIEWER)
        return collection.space_id, collection.dimensions
    catalog = await find_catalog(connection, caller.organization_id)
    assert catalog is not None  # noqa: S101 - a document exists, so the catalog does
    return catalog.space_id, catalog.dimensions
