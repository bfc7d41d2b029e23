"""documentCollections/* (docstore syncs aside): collections, the documents in them, and their chunks."""

from enum import StrEnum
from typing import Annotated, ClassVar, Self
from uuid import UUID

from pydantic import Field, model_validator

from carrel.wire.catalog import IndexingStatus
from carrel.wire.common import (
    ActingRequest,
    ChunkText,
    CustomMetadata,
    Identifier,
    Instant,
    Label,
    NarrowedRequest,
    PagedRequest,
    PagedResponse,
    RequestModel,
    ResponseModel,
    Role,
)


class DistanceMetric(StrEnum):
    """How embeddings are compared; vectors have unit norm, so the ranking is the same and only scores differ."""

    EUCLIDEAN = "EUCLIDEAN"
    COSINE = "COSINE"
    DOTPRODUCT = "DOTPRODUCT"


class FieldType(StrEnum):
    """Type of a metadata field; values are sent as strings and must parse as it."""

    STRING = "STRING"
    INT = "INT"
    DOUBLE = "DOUBLE"
    DATETIME = "DATETIME"
    BOOLEAN = "BOOLEAN"


class SchemaField(RequestModel):
    """A field of a collection's metadata schema."""

    name: Label
    type: FieldType


class CustomMetadataSchema(RequestModel):
    """The fields a document's metadata in a collection may have, each at most once."""

    fields: Annotated[list[SchemaField], Field(max_length=200)] = Field(default_factory=list[SchemaField])

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [field.name for field in self.fields]
        if len(set(names)) != len(names):
            msg = "two fields have the same name"
            raise ValueError(msg)
        return self


class SchemaFieldInfo(ResponseModel):
    """A field of a collection's metadata schema, as reported."""

    name: str
    type: FieldType


class CustomMetadataSchemaInfo(ResponseModel):
    """A collection's metadata schema, as reported."""

    fields: list[SchemaFieldInfo]


class CreateDocumentCollectionRequest(ActingRequest):
    """Create a collection (seed, deprecated); without `embeddings_model` the service's default embeds its chunks."""

    collection_name: Label
    embeddings_model: Identifier | None = None
    distance_metric: DistanceMetric = DistanceMetric.COSINE
    custom_metadata_schema: CustomMetadataSchema = CustomMetadataSchema()


class CreateDocumentCollectionResponse(ResponseModel):
    """The new collection."""

    document_collection_id: UUID


class _DocumentInCollection(ActingRequest):
    document_id: UUID
    document_collection_id: UUID


class AddDocumentToCollectionRequest(_DocumentInCollection):
    """Add a catalog document to a collection, or bring it up to date there (seed)."""

    custom_metadata: CustomMetadata


class AddDocumentChunksToCollectionRequest(_DocumentInCollection):
    """Add a document whose chunks the caller made; they are indexed as given, in this order."""

    chunks: Annotated[list[ChunkText], Field(min_length=1, max_length=10_000)]
    custom_metadata: CustomMetadata


class ReindexDocumentInCollectionRequest(_DocumentInCollection):
    """Chunk and index the newest contents again (seed); without metadata, the existing one is kept."""

    custom_metadata: CustomMetadata | None = None


class CollectionIndexStatus(StrEnum):
    """INDEXED and UNCHANGED: searchable when the call returns; RUNNING: goes on in the background."""

    INDEXED = "INDEXED"
    UNCHANGED = "UNCHANGED"
    RUNNING = "RUNNING"


class CollectionIndexing(ResponseModel):
    """What indexing a document in a collection came to; `embedded_chunk_count` of the chunks had to be embedded."""

    document_id: UUID
    document_collection_id: UUID
    document_version: int
    chunk_count: int
    embedded_chunk_count: int
    status: CollectionIndexStatus


class AddDocumentToCollectionResponse(CollectionIndexing):
    """The document as it is indexed in the collection."""


class AddDocumentChunksToCollectionResponse(CollectionIndexing):
    """The document as it is indexed in the collection."""


class ReindexDocumentInCollectionResponse(CollectionIndexing):
    """The document as it is indexed in the collection."""


class RemoveDocumentFromCollectionRequest(_DocumentInCollection):
    """Take a document out of a collection; it stays in the catalog (seed)."""


class RemoveDocumentFromCollectionResponse(ResponseModel):
    """The document that is no longer in the collection."""

    document_id: UUID
    document_collection_id: UUID


class DeleteDocumentCollectionRequest(ActingRequest):
    """Delete a collection and its index; its documents stay in the catalog; extension."""

    document_collection_id: UUID


class DeleteDocumentCollectionResponse(ResponseModel):
    """The collection that is gone."""

    document_collection_id: UUID


class DocumentCollection(ResponseModel):
    """A collection as its caller sees it: their role there, and how many of its documents they may READ."""

    document_collection_id: UUID
    collection_name: str
    embeddings_model: str
    distance_metric: DistanceMetric
    custom_metadata_schema: CustomMetadataSchemaInfo
    document_count: int
    role: Role
    created_at: Instant


class ListDocumentCollectionsRequest(ActingRequest, PagedRequest):
    """List the collections the caller may search; `collection_name` is part of the name; extension."""

    collection_name: Label | None = None


class ListDocumentCollectionsResponse(PagedResponse):
    """One page of collections."""

    rows_in: ClassVar[str] = "document_collections"
    document_collections: list[DocumentCollection]


class DocumentInCollection(ResponseModel):
    """A document in a collection; `stale`: its newest contents are not what is searchable there.

    `indexing` is of the version wanted there, which is an older one where an upload left the collection as it was.
    """

    document_id: UUID
    document_name: str
    document_external_id: str
    document_version: int
    indexed_version: int | None = None
    stale: bool
    chunk_count: int
    custom_metadata: dict[str, str]
    added_at: Instant
    error: str | None = None
    indexing: IndexingStatus | None = None


class ListDocumentsInCollectionRequest(ActingRequest, NarrowedRequest):
    """List the documents of a collection that the caller may READ, or those of one status there; extension.

    Narrowed to ids of documents, it tells which of them are in the collection.
    """

    document_collection_id: UUID
    indexing: IndexingStatus | None = None


class ListDocumentsInCollectionResponse(PagedResponse):
    """One page of a collection's documents."""

    rows_in: ClassVar[str] = "documents"
    documents: list[DocumentInCollection]


class DocumentChunk(ResponseModel):
    """A chunk of a document as it is indexed; `chunk_index` counts from 0 in reading order."""

    chunk_id: UUID
    chunk_index: int
    text: str


class GetDocumentChunksRequest(ActingRequest, PagedRequest):
    """List a document's chunks in a collection, or in the catalog when none is named; extension."""

    document_id: UUID
    document_collection_id: UUID | None = None


class GetDocumentChunksResponse(PagedResponse):
    """One page of chunks in reading order, all of the version `document_version`."""

    rows_in: ClassVar[str] = "chunks"
    document_version: int
    chunks: list[DocumentChunk]
