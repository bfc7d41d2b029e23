"""documentCollections/* but docstore: collections, the documents in them, and their chunks."""

from dataclasses import asdict

from carrel.wire.collections import (
    AddDocumentChunksToCollectionRequest,
    AddDocumentChunksToCollectionResponse,
    AddDocumentToCollectionRequest,
    AddDocumentToCollectionResponse,
    CreateDocumentCollectionRequest,
    CreateDocumentCollectionResponse,
    DeleteDocumentCollectionRequest,
    DeleteDocumentCollectionResponse,
    GetDocumentChunksRequest,
    GetDocumentChunksResponse,
    ListDocumentCollectionsRequest,
    ListDocumentCollectionsResponse,
    ListDocumentsInCollectionRequest,
    ListDocumentsInCollectionResponse,
    ReindexDocumentInCollectionRequest,
    ReindexDocumentInCollectionResponse,
    RemoveDocumentFromCollectionRequest,
    RemoveDocumentFromCollectionResponse,
)
from service.auth.callers import acting_for
from service.domains.collections import listing, membership, service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.idempotency import idempotent
from service.web.routing import Router

router = Router(prefix="/documentCollections")


@router.post("/createDocumentCollection", tags=["collections"], deprecated=True)
@idempotent
async def create_document_collection(
    request: CreateDocumentCollectionRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> CreateDocumentCollectionResponse:
    """Create a collection."""
    caller = await acting_for(connection, caller, request.user_email)
    collection_id = await service.create_collection(connection, caller, embedders=runtime.embedders, request=request)
    return CreateDocumentCollectionResponse(document_collection_id=collection_id)


@router.post("/addDocumentToCollection", tags=["collections"])
async def add_document_to_collection(
    request: AddDocumentToCollectionRequest, runtime: RuntimeDep, caller: CallerDep
) -> AddDocumentToCollectionResponse:
    """Add a catalog document to a collection, or bring it up to date there."""
    added = await membership.add_document(runtime, caller, request=request)
    return AddDocumentToCollectionResponse(**asdict(added))


@router.post("/addDocumentChunksToCollection", tags=["collections"])
async def add_document_chunks_to_collection(
    request: AddDocumentChunksToCollectionRequest, runtime: RuntimeDep, caller: CallerDep
) -> AddDocumentChunksToCollectionResponse:
    """Add a catalog document to a collection by chunks the caller made."""
    added = await membership.add_chunks(runtime, caller, request=request)
    return AddDocumentChunksToCollectionResponse(**asdict(added))


@router.post("/reindexDocumentInCollection", tags=["collections"])
async def reindex_document_in_collection(
    request: ReindexDocumentInCollectionRequest, runtime: RuntimeDep, caller: CallerDep
) -> ReindexDocumentInCollectionResponse:
    """Chunk and index a document's newest contents again."""
    indexed = await membership.reindex_document(runtime, caller, request=request)
    return ReindexDocumentInCollectionResponse(**asdict(indexed))


@router.post("/removeDocumentFromCollection", tags=["collections"])
@idempotent
async def remove_document_from_collection(
    request: RemoveDocumentFromCollectionRequest, connection: ConnectionDep, caller: CallerDep
) -> RemoveDocumentFromCollectionResponse:
    """Take a document out of a collection."""
    caller = await acting_for(connection, caller, request.user_email)
    key = {"document_id": request.document_id, "collection_id": request.document_collection_id}
    await service.remove_document(connection, caller, **key)
    return RemoveDocumentFromCollectionResponse(
        document_id=request.document_id, document_collection_id=request.document_collection_id
    )


@router.post("/deleteDocumentCollection", tags=["extension"])
@idempotent
async def delete_document_collection(
    request: DeleteDocumentCollectionRequest, connection: ConnectionDep, caller: CallerDep
) -> DeleteDocumentCollectionResponse:
    """Delete a collection; its documents stay in the catalog."""
    caller = await acting_for(connection, caller, request.user_email)
    await service.delete_collection(connection, caller, collection_id=request.document_collection_id)
    return DeleteDocumentCollectionResponse(document_collection_id=request.document_collection_id)


@router.post("/listDocumentCollections", tags=["extension"])
async def list_document_collections(
    request: ListDocumentCollectionsRequest, connection: ConnectionDep, caller: CallerDep
) -> ListDocumentCollectionsResponse:
    """List the collections the caller may search."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await listing.list_collections(connection, caller, request=request)
    return ListDocumentCollectionsResponse(document_collections=list(page.items), next_page_token=page.next_page_token)


@router.post("/listDocumentsInCollection", tags=["extension"])
async def list_documents_in_collection(
    request: ListDocumentsInCollectionRequest, connection: ConnectionDep, caller: CallerDep
) -> ListDocumentsInCollectionResponse:
    """List the documents of a collection that the caller may READ."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await listing.list_documents(connection, caller, request=request)
    return ListDocumentsInCollectionResponse(documents=list(page.items), next_page_token=page.next_page_token)


@router.post("/getDocumentChunks", tags=["extension"])
async def get_document_chunks(
    request: GetDocumentChunksRequest, connection: ConnectionDep, caller: CallerDep
) -> GetDocumentChunksResponse:
    """List a document's chunks in a collection, or in the catalog."""
    caller = await acting_for(connection, caller, request.user_email)
    return await listing.get_chunks(connection, caller, request=request)
