"""documentCollections/*: collections, the documents in them, and their chunks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, Members, as_any, as_list
from carrel.resources._choices import AnyDistanceMetric, AnyIndexingStatus
from carrel.resources.docstore import Docstore
from carrel.resources.index_rebuilds import IndexRebuilds
from carrel.wire import collections as wire
from carrel.wire.catalog import IndexingStatus

M = TypeVar("M")


class DocumentCollections(Resource[M]):
    """Collections the caller may search, or edit."""

    @property
    def with_raw_response(self) -> "DocumentCollections[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return DocumentCollections(self._session.as_raw())

    @property
    def docstore(self) -> Docstore[M]:
        """Syncs that keep collections as outside document databases have them."""
        return Docstore(self._session)

    @property
    def index_rebuilds(self) -> IndexRebuilds[M]:
        """Indexes made anew with another embedding model."""
        return IndexRebuilds(self._session)

    @Operation
    def create_document_collection(
        self,
        collection_name: str,
        *,
        embeddings_model: str | None = None,
        distance_metric: AnyDistanceMetric = wire.DistanceMetric.COSINE,
        custom_metadata_schema: wire.CustomMetadataSchema | Members | None = None,
        user_email: str | None = None,
    ) -> Call[wire.CreateDocumentCollectionResponse]:
        """Create a collection, which the caller then owns. Raises ConflictError `collection_name_taken`.

        The schema is `{"fields": [{"name": "team", "type": "STRING"}, …]}`, types being STRING, INT, DOUBLE, DATETIME
        and BOOLEAN; without one, documents have no metadata there.
        """
        request = wire.CreateDocumentCollectionRequest(
            collection_name=collection_name,
            embeddings_model=embeddings_model,
            distance_metric=as_any(wire.DistanceMetric, distance_metric),
            custom_metadata_schema=as_any(
                wire.CustomMetadataSchema, custom_metadata_schema or wire.CustomMetadataSchema()
            ),
            user_email=user_email,
        )
        return Call(wire.CREATE_DOCUMENT_COLLECTION, request)

    @Operation
    def delete_document_collection(
        self, document_collection_id: Id, *, user_email: str | None = None
    ) -> Call[wire.DeleteDocumentCollectionResponse]:
        """Delete a collection; its documents stay in the catalog."""
        request = wire.DeleteDocumentCollectionRequest(
            document_collection_id=as_any(UUID, document_collection_id), user_email=user_email
        )
        return Call(wire.DELETE_DOCUMENT_COLLECTION, request)

    @ListOperation
    def list_document_collections(
        self,
        *,
        collection_name: str | None = None,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.DocumentCollection, wire.ListDocumentCollectionsResponse]:
        """Walk the collections the caller may search; `collection_name` is part of the name, whatever its case."""
        request = wire.ListDocumentCollectionsRequest(
            collection_name=collection_name, user_email=user_email, page_size=page_size, page_token=page_token
        )
        return Listing(wire.LIST_DOCUMENT_COLLECTIONS, request, lambda page: page.document_collections)

    @Operation
    def add_document_to_collection(
        self,
        *,
        document_id: Id,
        document_collection_id: Id,
        custom_metadata: Mapping[str, str],
        user_email: str | None = None,
    ) -> Call[wire.AddDocumentToCollectionResponse]:
        """Add a catalog document to a collection, or bring it up to date there; needs EDITOR and READ.

        Keys of the metadata must be in the collection's schema, and values, always strings, parse as their types. The
        files in an archive or a mail are added with it, with the same metadata.
        """
        request = wire.AddDocumentToCollectionRequest(
            document_id=as_any(UUID, document_id),
            document_collection_id=as_any(UUID, document_collection_id),
            custom_metadata=dict(custom_metadata),
            user_email=user_email,
        )
        return Call(wire.ADD_DOCUMENT_TO_COLLECTION, request)

    @Operation
    def add_document_chunks_to_collection(
        self,
        *,
        document_id: Id,
        document_collection_id: Id,
        chunks: Sequence[str],
        custom_metadata: Mapping[str, str],
        user_email: str | None = None,
    ) -> Call[wire.AddDocumentChunksToCollectionResponse]:
        """Add a catalog document with up to 10,000 chunks of the caller's making, indexed as given."""
        request = wire.AddDocumentChunksToCollectionRequest(
            document_id=as_any(UUID, document_id),
            document_collection_id=as_any(UUID, document_collection_id),
            chunks=as_list(str, chunks),
            custom_metadata=dict(custom_metadata),
            user_email=user_email,
        )
        return Call(wire.ADD_DOCUMENT_CHUNKS_TO_COLLECTION, request)

    @Operation
    def reindex_document_in_collection(
        self,
        *,
        document_id: Id,
        document_collection_id: Id,
        custom_metadata: Mapping[str, str] | None = None,
        user_email: str | None = None,
    ) -> Call[wire.ReindexDocumentInCollectionResponse]:
        """Chunk and index a document's newest contents again; its metadata stays unless given.

        Raises ConflictError for a document whose chunks the caller made: those are the caller's to send again.
        """
        request = wire.ReindexDocumentInCollectionRequest(
            document_id=as_any(UUID, document_id),
            document_collection_id=as_any(UUID, document_collection_id),
            custom_metadata=None if custom_metadata is None else dict(custom_metadata),
            user_email=user_email,
        )
        return Call(wire.REINDEX_DOCUMENT_IN_COLLECTION, request)

    @Operation
    def remove_document_from_collection(
        self, *, document_id: Id, document_collection_id: Id, user_email: str | None = None
    ) -> Call[wire.RemoveDocumentFromCollectionResponse]:
        """Take a document, with the files in it, out of a collection; they stay in the catalog.

        Raises NotFoundError if it isn't in it.
        """
        request = wire.RemoveDocumentFromCollectionRequest(
            document_id=as_any(UUID, document_id),
            document_collection_id=as_any(UUID, document_collection_id),
            user_email=user_email,
        )
        return Call(wire.REMOVE_DOCUMENT_FROM_COLLECTION, request)

    @ListOperation
    def list_documents_in_collection(
        self,
        document_collection_id: Id,
        *,
        ids: Iterable[Id] | None = None,
        indexing: AnyIndexingStatus | None = None,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.DocumentInCollection, wire.ListDocumentsInCollectionResponse]:
        """Walk the documents of a collection that the caller may read, each with its version there.

        With `ids` of documents (at most 1000) it walks those of them that are in it. `indexing` (DONE, RUNNING or
        FAILED) is of that collection's index.
        """
        request = wire.ListDocumentsInCollectionRequest(
            document_collection_id=as_any(UUID, document_collection_id),
            ids=as_list(UUID, ids),
            indexing=as_any(IndexingStatus, indexing),
            user_email=user_email,
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.LIST_DOCUMENTS_IN_COLLECTION, request, lambda page: page.documents)

    @ListOperation
    def get_document_chunks(
        self,
        document_id: Id,
        *,
        document_collection_id: Id | None = None,
        first_chunk_index: int | None = None,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.DocumentChunk, wire.GetDocumentChunksResponse]:
        """Walk a document's chunks in reading order, as a collection has them, or the catalog when none is named.

        `first_chunk_index`: begin with this chunk, such as the `chunk_index` of a passage that was found.
        """
        request = wire.GetDocumentChunksRequest(
            document_id=as_any(UUID, document_id),
            document_collection_id=as_any(UUID, document_collection_id),
            first_chunk_index=first_chunk_index,
            user_email=user_email,
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.GET_DOCUMENT_CHUNKS, request, lambda page: page.chunks)
