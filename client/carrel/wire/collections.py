"""documentCollections/* (without docstore syncs): collections, their documents and chunks."""

from collections.abc import Iterable
from enum import StrEnum
from operator import attrgetter
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.catalog import IndexingStatus
from carrel.wire.field_values import expectation, read_value
from carrel.wire.fields import (
    NO_NUL,
    ChunkText,
    CustomMetadata,
    Identifier,
    Instant,
    Label,
    MetadataValue,
    StrictFlag,
    once_each,
)
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, READ, SHARED, WRITE, ApiOperation
from carrel.wire.places import PassagePlace
from carrel.wire.search import Filters


class DistanceMetric(StrEnum):
    """How embeddings are compared. Vectors have unit norm, so only scores depend on the metric, not the ranking."""

    EUCLIDEAN = "EUCLIDEAN"
    COSINE = "COSINE"
    DOTPRODUCT = "DOTPRODUCT"


class FieldType(StrEnum):
    """Type of a metadata field; values are strings and must parse as the type."""

    STRING = "STRING"
    INT = "INT"
    DOUBLE = "DOUBLE"
    DATETIME = "DATETIME"
    BOOLEAN = "BOOLEAN"
    LIST = "LIST"
    """Texts with `; ` between them. A filter for an equal value finds documents with the value in the list."""


Choices = Annotated[list[Label], Field(max_length=200)]
"""The values that a field takes, at most 200, in any case."""


class SchemaField(common.RequestModel):
    """A field of a collection's metadata schema."""

    name: Label
    type: FieldType
    """Type of the field's values; values must parse as the type."""
    required: StrictFlag | None = None
    """Whether each document added to the collection must have a value; default: false."""
    choices: Choices | None = None
    """The values that the field takes; of a LIST, its items; default: any."""


class CustomMetadataSchema(common.RequestModel):
    """The fields a document's metadata in a collection may have, each at most once."""

    fields: Annotated[list[SchemaField], Field(max_length=200)] = Field(default_factory=list[SchemaField])
    """The fields, at most 200, each name once."""

    _names_once = once_each("fields", "two fields have the same name", key="name")


class SchemaFieldInfo(common.ResponseModel):
    """A field of a collection's metadata schema, as reported."""

    name: str
    type: FieldType
    """Type of the field's values; values must parse as the type."""
    required: bool | None = None
    """Whether each document added to the collection must have a value; absent: no."""
    choices: list[str] | None = None
    """The values that the field takes; of a LIST, its items; absent: any."""

    def read(self, text: str) -> str | None:
        """Return a text as a stored value of the field; None if invalid or ambiguous."""
        return read_value(self.type, text, self.choices)

    def explain(self, text: str = "") -> str:
        """Return a sentence with the texts that the field takes."""
        return expectation(self.type, text, self.choices)


class CustomMetadataSchemaInfo(common.ResponseModel):
    """A collection's metadata schema, as reported."""

    fields: list[SchemaFieldInfo]


class CreateDocumentCollectionRequest(common.ActingRequest):
    """Create a collection."""

    collection_name: Label
    embeddings_model: Identifier | None = None
    """Embedding model available on the service; absent: the service's default."""
    distance_metric: DistanceMetric = DistanceMetric.COSINE
    """How embeddings are compared; COSINE unless given."""
    custom_metadata_schema: CustomMetadataSchema = CustomMetadataSchema()
    """The metadata fields of documents in the collection; default: none."""


class CreateDocumentCollectionResponse(common.ResponseModel):
    """The new collection."""

    document_collection_id: UUID
    """Id of the new collection."""


class _DocumentInCollection(common.ActingRequest):
    document_id: UUID
    document_collection_id: UUID


class AddDocumentToCollectionRequest(common.VersionedRequest, _DocumentInCollection):
    """Add a catalog document, with the files of an archive or mail, to a collection, or update it there."""

    custom_metadata: CustomMetadata
    """The document's metadata in the collection; must match the schema. Fields are optional."""


class AddDocumentChunksToCollectionRequest(common.VersionedRequest, _DocumentInCollection):
    """Add a document with chunks made by the caller, indexed as given, in order."""

    chunks: Annotated[list[ChunkText], Field(min_length=1, max_length=10_000)]
    """The chunks in reading order, 1 to 10,000, each at most 50,000 characters."""
    custom_metadata: CustomMetadata
    """The document's metadata in the collection; must match the schema. Fields are optional."""


class ReindexDocumentInCollectionRequest(common.VersionedRequest, _DocumentInCollection):
    """Chunk and index the newest contents again; omitted metadata stays."""

    custom_metadata: CustomMetadata | None = None
    """New metadata, matching the collection's schema; absent: unchanged."""


class CollectionIndexStatus(StrEnum):
    """INDEXED and UNCHANGED: searchable when the call returns; RUNNING: goes on in the background."""

    INDEXED = "INDEXED"
    UNCHANGED = "UNCHANGED"
    RUNNING = "RUNNING"


class CollectionIndexing(common.ResponseModel):
    """Result of indexing a document in a collection."""

    document_id: UUID
    document_collection_id: UUID
    document_version: int
    """Number of the indexed version."""
    chunk_count: int
    """Number of chunks of the document in the collection."""
    embedded_chunk_count: int
    """Number of newly embedded chunks; the remaining chunks had embeddings."""
    status: CollectionIndexStatus


class AddDocumentToCollectionResponse(CollectionIndexing):
    """The document as indexed in the collection."""


class AddDocumentChunksToCollectionResponse(CollectionIndexing):
    """The document as indexed in the collection."""


class ReindexDocumentInCollectionResponse(CollectionIndexing):
    """The document as indexed in the collection."""


class RemoveDocumentFromCollectionRequest(_DocumentInCollection):
    """Remove a document from a collection, including the files of an archive or mail; all stay in the catalog."""


class RemoveDocumentFromCollectionResponse(common.ResponseModel):
    """The document removed from the collection."""

    document_id: UUID
    document_collection_id: UUID


class DeleteDocumentCollectionRequest(common.ActingRequest):
    """Delete a collection and its index; the documents stay in the catalog."""

    document_collection_id: UUID


class DeleteDocumentCollectionResponse(common.ResponseModel):
    """The deleted collection."""

    document_collection_id: UUID


class RenameDocumentCollectionRequest(common.VersionedRequest, DeleteDocumentCollectionRequest):
    """Rename a collection; for the owner and admins."""

    collection_name: Label
    """The new name."""


class RenameDocumentCollectionResponse(common.Versioned):
    """A collection with its new name."""

    edited = ("collection_name",)

    document_collection_id: UUID
    collection_name: str


class DocumentCollection(common.Versioned):
    """A collection with the caller's role and the number of documents the caller may READ."""

    edited = ("collection_name",)

    document_collection_id: UUID
    collection_name: str
    name = property(attrgetter("collection_name"))
    embeddings_model: str
    """Name of the embedding model."""
    distance_metric: DistanceMetric
    """How embeddings are compared."""
    custom_metadata_schema: CustomMetadataSchemaInfo
    """The metadata fields of documents in the collection."""
    document_count: int
    """Number of documents in the collection that the caller may READ."""
    role: common.Role
    """The caller's role in the collection."""
    created_at: Instant
    former_names: list[str] | None = None
    """Former names, newest first; absent: none. A former name still works unless another collection uses it."""


def find_named(collections: Iterable[DocumentCollection], name: str) -> list[DocumentCollection]:
    """Return the collections with this id or name; without any, the collections with this former name."""
    known = list(collections)
    found = [item for item in known if name in {str(item.document_collection_id), item.collection_name}]
    return found or [collection for collection in known if name in (collection.former_names or ())]


class FieldChange(common.RequestModel):
    """A field to add, or a change of an existing field; omitted members stay as they are."""

    field: Label | None = None
    """Name of the existing field; absent: a new field, which needs a name and a type."""
    name: Label | None = None
    """The new name; values move with it."""
    type: FieldType | None = None
    """The new type; values are converted."""
    required: StrictFlag | None = None
    """Whether each document must have a value."""
    choices: Choices | None = None
    """The values that the field takes from now on; empty: any."""
    value: MetadataValue | None = None
    """Value for documents without a value."""
    remove: StrictFlag | None = None
    """Whether to remove the field and its values."""
    empty_unfit: StrictFlag | None = None
    """Whether the field is empty in documents without a value that fits; default: the change is refused."""


class PlanFieldChangesRequest(common.ActingRequest):
    """Plan changes of a collection's fields."""

    document_collection_id: UUID
    changes: Annotated[list[FieldChange], Field(min_length=1, max_length=200)]
    """The changes, at most 200, each existing field once."""


class ChangeFieldsRequest(common.VersionedRequest, PlanFieldChangesRequest):
    """Change a collection's fields, with the version of the plan that was shown."""


class ValueEffect(StrEnum):
    """Effect of a change on a document's value. FILLED: an empty value gets the change's value."""

    KEPT = "KEPT"
    CONVERTED = "CONVERTED"
    FILLED = "FILLED"
    UNFIT = "UNFIT"
    REMOVED = "REMOVED"


class ValueExample(common.ResponseModel):
    """A document's value of a field before and after a change; empty: none."""

    document_id: UUID
    document_name: str
    before: str
    after: str


class FieldEffect(common.ResponseModel):
    """An effect of a change, and the documents with this effect."""

    field: str
    """Name of the field before the change; of a new field, its name."""
    effect: ValueEffect
    count: int
    examples: list[ValueExample]
    """The first of the documents, at most 5."""


class CollectionFields(common.Versioned):
    """A collection's fields, and effects of changes on the documents that the caller may READ."""

    edited = ("fields",)

    fields: list[SchemaFieldInfo]
    """The fields: of a plan the present fields."""
    effects: list[FieldEffect]
    """Effects with at least one document."""
    hidden_unfit: bool | None = None
    """Whether documents that the caller may not READ have no value that fits; absent: no."""


class ListDocumentCollectionsRequest(common.ActingRequest, common.PagedRequest):
    """List the collections the caller may search."""

    collection_name: Label | None = None
    """Part of the name, in any case."""


class ListDocumentCollectionsResponse(common.PagedResponse):
    """A page of collections."""

    document_collections: list[DocumentCollection]


class MetadataInCollection(common.Versioned):
    """The document's metadata in a collection."""

    edited = ("custom_metadata",)
    custom_metadata: dict[str, str]
    """The document's metadata in the collection: values by field name, always strings."""


class DocumentInCollection(common.NamedDocument, MetadataInCollection):
    """A document in a collection, perhaps in an older version, if an upload didn't update the collection."""

    resource: common.ResourceIdentifier
    """The document's identity in its source system."""
    document_version: int
    """Number of the version to be searchable in the collection."""
    indexed_version: int | None = None
    """Number of the searchable version; absent: none yet."""
    stale: bool
    """Whether the searchable contents differ from the document's newest contents."""
    chunk_count: int
    parent_document_id: UUID | None = None
    """The archive or mail whose metadata this file has in the collection; absent: the file has its own."""
    added_at: Instant
    """When the document was added to the collection."""
    error: str | None = None
    indexing: IndexingStatus | None = None
    """How far indexing of `documentVersion` is."""


class ListDocumentsInCollectionRequest(common.ActingRequest, common.NarrowedRequest):
    """List the documents of a collection that the caller may READ, optionally with a status or with these ids."""

    document_collection_id: UUID
    indexing: IndexingStatus | None = None
    """Only documents with the given status in the collection."""
    metadata_filters: Filters | None = None
    """Only documents whose values meet all conditions, at most 50 conditions."""
    order_by: Label | None = None
    """Name of the field whose values give the order; documents without a value are last. Default: by id."""
    descending: StrictFlag | None = None
    """Whether a list with `orderBy` begins with the largest value; default: false."""


class ListDocumentsInCollectionResponse(common.PagedResponse):
    """A page of a collection's documents."""

    documents: list[DocumentInCollection]


class CountValuesRequest(common.ActingRequest):
    """Count the values of a collection's fields in the documents that the caller may READ."""

    document_collection_id: UUID


class ValueCount(common.ResponseModel):
    """A value of a field, and the number of documents with this value."""

    field: str
    value: str
    """The value, as a document has it; text in any case is counted together."""
    count: int


class CountValuesResponse(common.ResponseModel):
    """The most frequent values of fields."""

    values: list[ValueCount]
    """At most 50 values of each field, the most frequent first, each of at most 200 characters."""


class ValueChange(common.RequestModel):
    """New values of a document in a collection."""

    document_id: UUID
    custom_metadata: CustomMetadata
    """The values to set, by field name; an empty value removes the field's value. Other fields stay."""
    version: Annotated[str, Field(max_length=100), NO_NUL] | None = None
    """Version of the document's values when they were read; absent: the change overwrites concurrent changes."""


class ChangeValuesRequest(common.ActingRequest):
    """Change the values of documents in a collection."""

    document_collection_id: UUID
    changes: Annotated[list[ValueChange], Field(min_length=1, max_length=1000)]
    """The changes, at most 1000, each document once."""

    _documents_once = once_each("changes", "two changes are for the same document", key="document_id")


class ValueChangeStatus(StrEnum):
    """CHANGED_MEANWHILE: another change came first, and nothing was saved. IN_CONTAINER: the file has the values of its
    archive or mail; change the archive or mail. NOT_FOUND: not in the collection, or hidden from the caller."""

    CHANGED = "CHANGED"
    UNCHANGED = "UNCHANGED"
    CHANGED_MEANWHILE = "CHANGED_MEANWHILE"
    IN_CONTAINER = "IN_CONTAINER"
    NOT_FOUND = "NOT_FOUND"


class ValueChangeResult(MetadataInCollection):
    """Result of a change of a document's values, with the values that are saved now."""

    document_id: UUID
    status: ValueChangeStatus


class ChangeValuesResponse(common.ResponseModel):
    """The results of the changes."""

    results: list[ValueChangeResult]
    """A result for each change, in the order of the request."""


class DocumentChunk(common.ResponseModel):
    """An indexed chunk of a document."""

    chunk_id: UUID
    chunk_index: int
    text: str
    place: PassagePlace | None = None


class GetDocumentChunksRequest(common.ActingRequest, common.PagedRequest):
    """List a document's chunks in a collection, or in the catalog when none is named."""

    document_id: UUID
    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""
    first_chunk_index: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] | None = None
    """The first chunk to list, by position in reading order, counted from 0; default: the first chunk."""


class GetDocumentChunksResponse(common.PagedResponse):
    """A page of chunks in reading order, all of the same version."""

    document_version: int
    """Number of the chunks' version."""
    chunks: list[DocumentChunk]
    """The chunks in reading order."""
    quoted_text: str | None = None
    """On the last page for a mail's newest version: the quoted text of earlier mails, which is not in the chunks."""


CREATE_DOCUMENT_COLLECTION = ApiOperation(
    "documentCollections/createDocumentCollection",
    CreateDocumentCollectionRequest,
    CreateDocumentCollectionResponse,
    WRITE,
    KEYED | ADDS_DATA | SHARED,
    successor="",
)
"""Create a collection owned by the caller. Raises ConflictError `collection_name_taken`. The schema is
`{"fields": [{"name": "team", "type": "STRING"}, …]}`, with the types STRING, INT, DOUBLE, DATETIME, BOOLEAN
and LIST;
without a schema, documents have no metadata in the collection."""
ADD_DOCUMENT_TO_COLLECTION = ApiOperation(
    "documentCollections/addDocumentToCollection",
    AddDocumentToCollectionRequest,
    AddDocumentToCollectionResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT | SHARED,
    by_position=(),
)
"""Add a catalog document to a collection, or update it in the collection; needs EDITOR and READ. Keys of the
metadata must be in the collection's schema. Values are always strings and must parse as their types. The files
in an archive or a mail are added with it, with the same metadata."""
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
"""Chunk and index a document's newest contents again; omitted metadata stays. Raises ConflictError for a
document with chunks supplied by the caller: send new chunks instead."""
REMOVE_DOCUMENT_FROM_COLLECTION = ApiOperation(
    "documentCollections/removeDocumentFromCollection",
    RemoveDocumentFromCollectionRequest,
    RemoveDocumentFromCollectionResponse,
    WRITE,
    KEYED | NOT_FOUND | SHARED,
    by_position=(),
)
"""Remove a document and its contained files from a collection; they stay in the catalog. Raises NotFoundError
if the document isn't in the collection."""
DELETE_DOCUMENT_COLLECTION = ApiOperation(
    "documentCollections/deleteDocumentCollection",
    DeleteDocumentCollectionRequest,
    DeleteDocumentCollectionResponse,
    WRITE,
    KEYED | NOT_FOUND,
)
"""Delete a collection; the documents stay in the catalog."""
RENAME_DOCUMENT_COLLECTION = ApiOperation(
    "documentCollections/renameDocumentCollection",
    RenameDocumentCollectionRequest,
    RenameDocumentCollectionResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT,
)
"""Rename a collection; schedules, manifests and `in:` in searches still work with the former name. Raises
PermissionDeniedError `collection_owner_required` (owner and admins only), ConflictError
`collection_name_taken`."""
PLAN_FIELD_CHANGES = ApiOperation(
    "documentCollections/planFieldChanges", PlanFieldChangesRequest, CollectionFields, READ, NOT_FOUND
)
"""Plan changes of a collection's fields: in which documents values stay, are converted, filled or removed, or
don't fit. Nothing is saved. A change without `field` adds a field. For the owner and admins."""
CHANGE_FIELDS = ApiOperation(
    "documentCollections/changeFields",
    ChangeFieldsRequest,
    CollectionFields,
    WRITE,
    KEYED | ADDS_DATA | NOT_FOUND | CONFLICT,
)
"""Change a collection's fields and all documents' values together, without indexing. With a plan's `version`,
raises EditConflictError if the plan doesn't hold. Raises ConflictError `unfit_values` for values that don't
fit, unless `empty_unfit` is set. With over 100,000 documents, only optional fields can be added."""
LIST_DOCUMENT_COLLECTIONS = ApiOperation(
    "documentCollections/listDocumentCollections", ListDocumentCollectionsRequest, ListDocumentCollectionsResponse, READ
)
"""List the collections that the caller may search; `collection_name` is part of the name, in any case."""
LIST_DOCUMENTS_IN_COLLECTION = ApiOperation(
    "documentCollections/listDocumentsInCollection",
    ListDocumentsInCollectionRequest,
    ListDocumentsInCollectionResponse,
    READ,
    NOT_FOUND,
)
"""List the documents of a collection readable by the caller, each with its version in the collection. `ids` (at
most 1000) limit the list. `indexing` (DONE, RUNNING or FAILED) is the status in the collection's index. Raises
BadRequestError `too_many_to_sort` for `order_by` in a collection of more than 100,000 documents."""
COUNT_VALUES = ApiOperation("documentCollections/countValues", CountValuesRequest, CountValuesResponse, READ, NOT_FOUND)
"""Count the values of a collection's fields in the documents readable by the caller, at most 10,000 of them."""
CHANGE_VALUES = ApiOperation(
    "documentCollections/changeValues", ChangeValuesRequest, ChangeValuesResponse, WRITE, ADDS_DATA | NOT_FOUND
)
"""Change the values of up to 1000 documents in a collection, without indexing them; needs EDITOR and READ. A
change with an outdated `version` is left out, with status CHANGED_MEANWHILE and the saved values. The files in
an archive or a mail get its values. Raises BadRequestError `invalid_metadata`, and saves nothing, if a value
doesn't fit its field."""
GET_DOCUMENT_CHUNKS = ApiOperation(
    "documentCollections/getDocumentChunks", GetDocumentChunksRequest, GetDocumentChunksResponse, READ, NOT_FOUND
)
"""List a document's chunks in reading order, in a collection or, by default, in the catalog.
`first_chunk_index`: begin with this chunk, for example the `chunk_index` of a hit."""
