"""documentCollections/* but docstore: collections, the documents in them, and their chunks."""

from dataclasses import asdict

from carrel.wire import collections as wire
from service.auth.callers import acting_for
from service.domains.documents.collections import listing, membership, service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.CREATE_DOCUMENT_COLLECTION)
async def create_document_collection(
    request: wire.CreateDocumentCollectionRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.CreateDocumentCollectionResponse:
    """Create a collection."""
    caller = await acting_for(connection, caller, request.user_email)
    collection_id = await service.create_collection(connection, caller, embedders=runtime.embedders, request=request)
    return wire.CreateDocumentCollectionResponse(document_collection_id=collection_id)


@router.operation(wire.ADD_DOCUMENT_TO_COLLECTION)
async def add_document_to_collection(
    request: wire.AddDocumentToCollectionRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.AddDocumentToCollectionResponse:
    """Add a catalog document to a collection, or bring it up to date there."""
    added = await membership.add_document(runtime, caller, request=request)
    return wire.AddDocumentToCollectionResponse(**asdict(added))


@router.operation(wire.ADD_DOCUMENT_CHUNKS_TO_COLLECTION)
async def add_document_chunks_to_collection(
    request: wire.AddDocumentChunksToCollectionRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.AddDocumentChunksToCollectionResponse:
    """Add a catalog document to a collection by chunks the caller made."""
    added = await membership.add_chunks(runtime, caller, request=request)
    return wire.AddDocumentChunksToCollectionResponse(**asdict(added))


@router.operation(wire.REINDEX_DOCUMENT_IN_COLLECTION)
async def reindex_document_in_collection(
    request: wire.ReindexDocumentInCollectionRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.ReindexDocumentInCollectionResponse:
    """Chunk and index a document's newest contents again."""
    indexed = await membership.reindex_document(runtime, caller, request=request)
    return wire.ReindexDocumentInCollectionResponse(**asdict(indexed))


@router.operation(wire.REMOVE_DOCUMENT_FROM_COLLECTION)
async def remove_document_from_collection(
    request: wire.RemoveDocumentFromCollectionRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.RemoveDocumentFromCollectionResponse:
    """Take a document out of a collection."""
    caller = await acting_for(connection, caller, request.user_email)
    key = {"document_id": request.document_id, "collection_id": request.document_collection_id}
    await service.remove_document(connection, caller, **key)
    return wire.RemoveDocumentFromCollectionResponse(
        document_id=request.document_id, document_collection_id=request.document_collection_id
    )


@router.operation(wire.DELETE_DOCUMENT_COLLECTION)
async def delete_document_collection(
    request: wire.DeleteDocumentCollectionRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.DeleteDocumentCollectionResponse:
    """Delete a collection; its documents stay in the catalog."""
    caller = await acting_for(connection, caller, request.user_email)
    await service.delete_collection(connection, caller, collection_id=request.document_collection_id)
    return wire.DeleteDocumentCollectionResponse(document_collection_id=request.document_collection_id)


@router.operation(wire.LIST_DOCUMENT_COLLECTIONS)
async def list_document_collections(
    request: wire.ListDocumentCollectionsRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.ListDocumentCollectionsResponse:
    """List the collections the caller may search."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await listing.list_collections(connection, caller, request=request)
    return wire.ListDocumentCollectionsResponse(
        document_collections=list(page.items), next_page_token=page.next_page_token
    )


@router.operation(wire.LIST_DOCUMENTS_IN_COLLECTION)
async def list_documents_in_collection(
    request: wire.ListDocumentsInCollectionRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.ListDocumentsInCollectionResponse:
    """List the documents of a collection that the caller may READ."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await listing.list_documents(connection, caller, request=request)
    return wire.ListDocumentsInCollectionResponse(documents=list(page.items), next_page_token=page.next_page_token)


@router.operation(wire.GET_DOCUMENT_CHUNKS)
async def get_document_chunks(
    request: wire.GetDocumentChunksRequest, runtime: RuntimeDep, connection: SnapshotDep, caller: CallerDep
) -> wire.GetDocumentChunksResponse:
    """List a document's chunks in a collection, or in the catalog."""
    caller = await acting_for(connection, caller, request.user_email)
    is_distributed = runtime.database.is_distributed
    return await listing.get_chunks(connection, caller, request=request, is_distributed=is_distributed)
