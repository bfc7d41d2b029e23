"""documentCollections/* (docstore syncs aside): collections, the documents in them, and their chunks."""

from collections.abc import Iterable
from enum import StrEnum
from operator import attrgetter
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.catalog import IndexingStatus
from carrel.wire.fields import ChunkText, CustomMetadata, Identifier, Instant, Label, once_each
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, READ, SHARED, WRITE, ApiOperation
from carrel.wire.places import PassagePlace


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


class SchemaField(common.RequestModel):
    """A field of a collection's metadata schema."""

    name: Label
    """Name of the field."""
    type: FieldType
    """Type that the field's values must parse as."""


class CustomMetadataSchema(common.RequestModel):
    """The fields a document's metadata in a collection may have, each at most once."""

    fields: Annotated[list[SchemaField], Field(max_length=200)] = Field(default_factory=list[SchemaField])
    """The fields, at most 200, each name once."""

    _names_once = once_each("fields", "two fields have the same name", key="name")


class SchemaFieldInfo(common.ResponseModel):
    """A field of a collection's metadata schema, as reported."""

    name: str
    """Name of the field."""
    type: FieldType
    """Type that the field's values must parse as."""


class CustomMetadataSchemaInfo(common.ResponseModel):
    """A collection's metadata schema, as reported."""

    fields: list[SchemaFieldInfo]
    """The fields."""


class CreateDocumentCollectionRequest(common.ActingRequest):
    """Create a collection."""

    collection_name: Label
    embeddings_model: Identifier | None = None
    """Embedding model, one of those the service has; absent: its default."""
    distance_metric: DistanceMetric = DistanceMetric.COSINE
    """How embeddings are compared; COSINE unless given."""
    custom_metadata_schema: CustomMetadataSchema = CustomMetadataSchema()
    """The metadata fields that documents in the collection may have; none unless given."""


class CreateDocumentCollectionResponse(common.ResponseModel):
    """The new collection."""

    document_collection_id: UUID
    """Id of the new collection."""


class _DocumentInCollection(common.ActingRequest):
    document_id: UUID
    document_collection_id: UUID


class AddDocumentToCollectionRequest(common.VersionedRequest, _DocumentInCollection):
    """Add a catalog document to a collection, or bring it up to date there; an archive or a mail with its files."""

    custom_metadata: CustomMetadata
    """The document's metadata in the collection; must match its schema. Fields may be left out."""


class AddDocumentChunksToCollectionRequest(common.VersionedRequest, _DocumentInCollection):
    """Add a document whose chunks the caller made; they are indexed as given, in this order."""

    chunks: Annotated[list[ChunkText], Field(min_length=1, max_length=10_000)]
    """The chunks in reading order, 1 to 10,000, each at most 50,000 characters."""
    custom_metadata: CustomMetadata
    """The document's metadata in the collection; must match its schema. Fields may be left out."""


class ReindexDocumentInCollectionRequest(common.VersionedRequest, _DocumentInCollection):
    """Chunk and index the newest contents again; without metadata, the existing one is kept."""

    custom_metadata: CustomMetadata | None = None
    """New metadata, which must match the collection's schema; absent: unchanged."""


class CollectionIndexStatus(StrEnum):
    """INDEXED and UNCHANGED: searchable when the call returns; RUNNING: goes on in the background."""

    INDEXED = "INDEXED"
    UNCHANGED = "UNCHANGED"
    RUNNING = "RUNNING"


class CollectionIndexing(common.ResponseModel):
    """What indexing a document in a collection came to."""

    document_id: UUID
    document_collection_id: UUID
    document_version: int
    """Number of the version that is indexed."""
    chunk_count: int
    """Number of chunks of the document in the collection."""
    embedded_chunk_count: int
    """Number of chunks that had to be embedded; the others were known."""
    status: CollectionIndexStatus
    """What came of it."""


class AddDocumentToCollectionResponse(CollectionIndexing):
    """The document as it is indexed in the collection."""


class AddDocumentChunksToCollectionResponse(CollectionIndexing):
    """The document as it is indexed in the collection."""


class ReindexDocumentInCollectionResponse(CollectionIndexing):
    """The document as it is indexed in the collection."""


class RemoveDocumentFromCollectionRequest(_DocumentInCollection):
    """Take a document out of a collection, an archive or a mail with its files; all stay in the catalog."""


class RemoveDocumentFromCollectionResponse(common.ResponseModel):
    """The document that is no longer in the collection."""

    document_id: UUID
    document_collection_id: UUID


class DeleteDocumentCollectionRequest(common.ActingRequest):
    """Delete a collection and its index; its documents stay in the catalog."""

    document_collection_id: UUID


class DeleteDocumentCollectionResponse(common.ResponseModel):
    """The collection that is gone."""

    document_collection_id: UUID


class RenameDocumentCollectionRequest(common.VersionedRequest, DeleteDocumentCollectionRequest):
    """Give a collection another name; for its owner and admins."""

    collection_name: Label
    """The new name."""


class RenameDocumentCollectionResponse(common.Versioned):
    """A collection with its new name."""

    edited = ("collection_name",)

    document_collection_id: UUID
    collection_name: str


class DocumentCollection(common.Versioned):
    """A collection as its caller sees it: their role there, and how many of its documents they may READ."""

    edited = ("collection_name",)

    document_collection_id: UUID
    collection_name: str
    name = property(attrgetter("collection_name"))
    embeddings_model: str
    """Name of the embedding model."""
    distance_metric: DistanceMetric
    """How embeddings are compared."""
    custom_metadata_schema: CustomMetadataSchemaInfo
    """The metadata fields that documents in the collection may have."""
    document_count: int
    """Number of documents in the collection that the caller may READ."""
    role: common.Role
    """The caller's role in the collection."""
    created_at: Instant
    former_names: list[str] | None = None
    """The last names it had before, the newest first; absent: none. They still find it where no collection has them."""


def find_named(collections: Iterable[DocumentCollection], name: str) -> list[DocumentCollection]:
    """Return the collections of this id or name; if there are none, those that had the name before."""
    known = list(collections)
    found = [one for one in known if name in {str(one.document_collection_id), one.collection_name}]
    return found or [one for one in known if name in (one.former_names or ())]


class ListDocumentCollectionsRequest(common.ActingRequest, common.PagedRequest):
    """List the collections the caller may search."""

    collection_name: Label | None = None
    """Part of the name, in any case."""


class ListDocumentCollectionsResponse(common.PagedResponse):
    """One page of collections."""

    document_collections: list[DocumentCollection]
    """The collections."""


class MetadataInCollection(common.Versioned):
    """The metadata that a document has in a collection."""

    edited = ("custom_metadata",)
    custom_metadata: dict[str, str]
    """The document's metadata in the collection: values by field name, always strings."""


class DocumentInCollection(common.NamedDocument, MetadataInCollection):
    """A document in a collection.

    The version that is to be searchable is an older one where an upload left the collection as it was."""

    resource: common.ResourceIdentifier
    """The document's identity in its source system."""
    document_version: int
    """Number of the version that is to be searchable in the collection."""
    indexed_version: int | None = None
    """Number of the version that is searchable there; absent: none yet."""
    stale: bool
    """Whether the document's newest contents are not what is searchable there."""
    chunk_count: int
    """Number of chunks that are searchable there."""
    added_at: Instant
    """When the document was added to the collection."""
    error: str | None = None
    """Why indexing failed last."""
    indexing: IndexingStatus | None = None
    """How far indexing of `documentVersion` is."""


class ListDocumentsInCollectionRequest(common.ActingRequest, common.NarrowedRequest):
    """List the documents of a collection that the caller may READ, or those of one status there.

    Narrowed to ids of documents, it tells which of them are in the collection."""

    document_collection_id: UUID
    indexing: IndexingStatus | None = None
    """Only documents with this status in the collection."""


class ListDocumentsInCollectionResponse(common.PagedResponse):
    """One page of a collection's documents."""

    documents: list[DocumentInCollection]
    """The documents."""


class DocumentChunk(common.ResponseModel):
    """A chunk of a document as it is indexed."""

    chunk_id: UUID
    """Id of the chunk."""
    chunk_index: int
    """Place of the chunk in reading order, counted from 0."""
    text: str
    """Text of the chunk."""
    place: PassagePlace | None = None
    """Where the chunk stands in the document; absent where that is unknown."""


class GetDocumentChunksRequest(common.ActingRequest, common.PagedRequest):
    """List a document's chunks in a collection, or in the catalog when none is named."""

    document_id: UUID
    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""
    first_chunk_index: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] | None = None
    """The first chunk to list, by its place in reading order, counted from 0; absent: the first one there is."""


class GetDocumentChunksResponse(common.PagedResponse):
    """One page of chunks in reading order, all of one version."""

    document_version: int
    """Number of the version that the chunks are of."""
    chunks: list[DocumentChunk]
    """The chunks in reading order."""
    quoted_text: str | None = None
    """On the last page of a mail's newest version: the text of earlier mails that it quotes, which is in no chunk."""


CREATE_DOCUMENT_COLLECTION = ApiOperation(
    "documentCollections/createDocumentCollection",
    CreateDocumentCollectionRequest,
    CreateDocumentCollectionResponse,
    WRITE,
    KEYED | ADDS_DATA | SHARED,
    successor="",
)
"""Create a collection, which the caller then owns. Raises ConflictError `collection_name_taken`.

The schema is `{"fields": [{"name": "team", "type": "STRING"}, …]}`, types being STRING, INT, DOUBLE, DATETIME
and BOOLEAN; without one, documents have no metadata there."""
ADD_DOCUMENT_TO_COLLECTION = ApiOperation(
    "documentCollections/addDocumentToCollection",
    AddDocumentToCollectionRequest,
    AddDocumentToCollectionResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT | SHARED,
    by_position=(),
)
"""Add a catalog document to a collection, or bring it up to date there; needs EDITOR and READ.

Keys of the metadata must be in the collection's schema, and values, always strings, parse as their types. The
files in an archive or a mail are added with it, with the same metadata."""
ADD_DOCUMENT_CHUNKS_TO_COLLECTION = ApiOperation(
    "documentCollections/addDocumentChunksToCollection",
    AddDocumentChunksToCollectionRequest,
    AddDocumentChunksToCollectionResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT | SHARED,
    by_position=(),
)
"""Add a catalog document with up to 10,000 chunks of the caller's making, indexed as given."""
REINDEX_DOCUMENT_IN_COLLECTION = ApiOperation(
    "documentCollections/reindexDocumentInCollection",
    ReindexDocumentInCollectionRequest,
    ReindexDocumentInCollectionResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT | SHARED,
    by_position=(),
)
"""Chunk and index a document's newest contents again; its metadata stays unless given.

Raises ConflictError for a document whose chunks the caller made: those are the caller's to send again."""
REMOVE_DOCUMENT_FROM_COLLECTION = ApiOperation(
    "documentCollections/removeDocumentFromCollection",
    RemoveDocumentFromCollectionRequest,
    RemoveDocumentFromCollectionResponse,
    WRITE,
    KEYED | NOT_FOUND | SHARED,
    by_position=(),
)
"""Take a document, with the files in it, out of a collection; they stay in the catalog.

Raises NotFoundError if it isn't in it."""
DELETE_DOCUMENT_COLLECTION = ApiOperation(
    "documentCollections/deleteDocumentCollection",
    DeleteDocumentCollectionRequest,
    DeleteDocumentCollectionResponse,
    WRITE,
    KEYED | NOT_FOUND,
)
"""Delete a collection; its documents stay in the catalog."""
RENAME_DOCUMENT_COLLECTION = ApiOperation(
    "documentCollections/renameDocumentCollection",
    RenameDocumentCollectionRequest,
    RenameDocumentCollectionResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT,
)
"""Give a collection another name; schedules, manifests and `in:` in searches still find it by its former name.

Raises PermissionDeniedError `collection_owner_required` for anyone but its owner and admins, and ConflictError
`collection_name_taken`."""
LIST_DOCUMENT_COLLECTIONS = ApiOperation(
    "documentCollections/listDocumentCollections", ListDocumentCollectionsRequest, ListDocumentCollectionsResponse, READ
)
"""Walk the collections the caller may search; `collection_name` is part of the name, whatever its case."""
LIST_DOCUMENTS_IN_COLLECTION = ApiOperation(
    "documentCollections/listDocumentsInCollection",
    ListDocumentsInCollectionRequest,
    ListDocumentsInCollectionResponse,
    READ,
    NOT_FOUND,
)
"""Walk the documents of a collection that the caller may read, each with its version there.

With `ids` of documents (at most 1000) it walks those of them that are in it. `indexing` (DONE, RUNNING or
FAILED) is of that collection's index."""
GET_DOCUMENT_CHUNKS = ApiOperation(
    "documentCollections/getDocumentChunks", GetDocumentChunksRequest, GetDocumentChunksResponse, READ, NOT_FOUND
)
"""Walk a document's chunks in reading order, as a collection has them, or the catalog when none is named.

`first_chunk_index`: begin with this chunk, such as the `chunk_index` of a passage that was found."""
