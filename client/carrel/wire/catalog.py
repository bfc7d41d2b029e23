"""catalog/*: uploads, plans for uploads, documents and their files."""

import json
from enum import StrEnum
from typing import Annotated, ClassVar, Self
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from carrel.wire.common import (
    ActingRequest,
    CustomMetadata,
    DocumentName,
    EmailAddress,
    Fingerprint,
    Identifier,
    Instant,
    PagedRequest,
    PagedResponse,
    Principal,
    RequestInstant,
    RequestModel,
    ResourceIdentifier,
    ResourceType,
    ResponseModel,
    Tabular,
    Url,
    refuse_reserved_type,
)


def _flag_of(part: object) -> object:
    if not isinstance(part, str):
        return part
    if part not in {"true", "false"}:
        msg = 'must be "true" or "false"'
        raise ValueError(msg)
    return part == "true"


def _list_of(part: object) -> object:
    if not isinstance(part, str):
        return part
    if not part.lstrip().startswith("["):
        return [item.strip() for item in part.split(",") if item.strip()]
    return _json_of(part)


def _json_of(part: object) -> object:
    if not isinstance(part, str):
        return part
    try:
        return json.loads(part)
    except (ValueError, RecursionError) as exc:
        msg = "must be valid JSON"
        raise ValueError(msg) from exc


Flag = Annotated[bool, Field(strict=True), BeforeValidator(_flag_of)]
"""A multipart part that is "true" or "false"."""

_FROM_LIST = BeforeValidator(_list_of)


class UploadFileForm(RequestModel):
    """The parts of uploadFile beside `file` (seed, "POST /api/v0/catalog/uploadFile").

    Parts are strings on the wire: lists a JSON array or separated by commas, flags "true" or "false", metadata a JSON
    object, times RFC 3339. The service validates a mapping of part names to strings with this model; `parts` is the
    way back. Access parts that are absent (None) on an update leave the access as it was; any of them present
    replaces all of it.
    """

    document_external_id: Identifier
    document_name: DocumentName | None = None
    collection_id: UUID | None = None
    upload_as_user_email: EmailAddress | None = None
    allowed_users_email_addresses: Annotated[list[EmailAddress] | None, Field(max_length=10_000), _FROM_LIST] = None
    allowed_group_ids: Annotated[list[UUID] | None, Field(max_length=10_000), _FROM_LIST] = None
    internal_public: Flag | None = None
    document_external_url: Url | None = None
    custom_metadata: Annotated[CustomMetadata | None, BeforeValidator(_json_of)] = None
    source_system_updated: RequestInstant | None = None
    resource_id: Identifier | None = None
    resource_type: Annotated[ResourceType, AfterValidator(refuse_reserved_type)] | None = None
    force_update: Flag = False
    reindex_collections: Flag = True
    fingerprint: Fingerprint | None = None
    await_vector_store_sync: Flag = False

    @model_validator(mode="after")
    def _source_identity_is_whole(self) -> Self:
        if (self.resource_id is None) != (self.resource_type is None):
            msg = "resourceId and resourceType are given together or not at all"
            raise ValueError(msg)
        return self

    @property
    def names_access(self) -> bool:
        """Whether any access part is present, and so replaces who may read the document."""
        return not (
            self.allowed_users_email_addresses is None
            and self.allowed_group_ids is None
            and self.internal_public is None
        )

    def parts(self) -> dict[str, str]:
        """Return the parts as strings, in the order of the fields; only what was given."""
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        members = self.model_dump(mode="json", by_alias=True, include=given)
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in members.items()}


class UploadDocumentFileForm(RequestModel):
    """The parts of the deprecated uploadDocumentFile beside `document`: none."""


class UploadStatus(StrEnum):
    """What an upload did; UNCHANGED: the same bytes and fields were there already."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    UNCHANGED = "UNCHANGED"


class IndexingStatus(StrEnum):
    """Whether a document is searchable yet: RUNNING goes on in the background, FAILED needs a new upload."""

    DONE = "DONE"
    RUNNING = "RUNNING"
    FAILED = "FAILED"


class UploadFileResponse(ResponseModel):
    """The document an upload made or updated; versions count from 1."""

    document_id: UUID
    document_version: int
    status: UploadStatus
    indexing: IndexingStatus


class UploadDocumentFileResponse(UploadFileResponse):
    """As for uploadFile (seed, deprecated)."""


class PlannedUpload(RequestModel):
    """One document of a plan: `fingerprint` covers everything the caller would send for it."""

    document_external_id: Identifier
    fingerprint: Fingerprint


class PlanUploadRequest(RequestModel):
    """Ask what uploads would do, for up to 1000 documents; extension."""

    documents: Annotated[list[PlannedUpload], Field(min_length=1, max_length=1000)]
    upload_as_user_email: EmailAddress | None = None


class PlanAction(StrEnum):
    """What an upload would do; FORBIDDEN: the external id is another's document."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    UNCHANGED = "UNCHANGED"
    FORBIDDEN = "FORBIDDEN"


class UploadPlan(ResponseModel):
    """The answer for one document of a plan; `document_id` of one that is there and that the caller may update."""

    document_external_id: str
    action: PlanAction
    document_id: UUID | None = None


class PlanUploadResponse(Tabular):
    """The plan, in the order asked."""

    rows_in: ClassVar[str] = "documents"
    documents: list[UploadPlan]


class Document(ResponseModel):
    """A document of the catalog at its newest version; `file_size` in bytes. `indexing`: in the catalog's index."""

    document_id: UUID
    document_name: str
    document_external_id: str
    document_external_url: str | None = None
    resource: ResourceIdentifier
    owner: Principal
    document_version: int
    file_name: str
    file_size: int
    media_type: str
    custom_metadata: dict[str, str] = Field(default_factory=dict)
    source_system_updated: Instant | None = None
    created_at: Instant
    updated_at: Instant
    indexing: IndexingStatus | None = None


class DocumentVersion(ResponseModel):
    """One version of a document's contents; `file_size` in bytes."""

    document_version: int
    file_name: str
    file_size: int
    media_type: str
    created_at: Instant
    created_by: Principal


class DocumentIndexing(ResponseModel):
    """How far a document is in one place: the catalog (`document_collection_id` None) or a collection.

    `document_version` is the one wanted there, `indexed_version` the one searchable now (None: not yet any). While a
    worker is at it, `chunks_embedded` of `chunks_expected` are embedded; told about every ten seconds.
    """

    document_collection_id: UUID | None = None
    collection_name: str | None = None
    document_version: int
    indexed_version: int | None = None
    status: IndexingStatus
    chunk_count: int
    chunks_embedded: int | None = None
    chunks_expected: int | None = None
    error: str | None = None


class GetDocumentRequest(ActingRequest):
    """Ask for one document; extension."""

    document_id: UUID


class GetDocumentResponse(Document):
    """A document with its versions, newest first, and where it is indexed (of collections, those the caller sees)."""

    fingerprint: str | None = None
    versions: list[DocumentVersion]
    indexed_in: list[DocumentIndexing]


class ListDocumentsRequest(ActingRequest, PagedRequest):
    """List the documents the caller may READ; filters narrow together; extension.

    `document_name` is part of the name, whatever its case; `updated_from` is included, `updated_to` is not. `indexing`
    is of the catalog's index.
    """

    document_name: DocumentName | None = None
    owner_email: EmailAddress | None = None
    resource_types: Annotated[list[ResourceType] | None, Field(min_length=1, max_length=100)] = None
    media_types: Annotated[list[Identifier] | None, Field(min_length=1, max_length=100)] = None
    updated_from: RequestInstant | None = None
    updated_to: RequestInstant | None = None
    indexing: IndexingStatus | None = None


class ListDocumentsResponse(PagedResponse):
    """One page of documents."""

    rows_in: ClassVar[str] = "documents"
    documents: list[Document]


class DownloadDocumentRequest(ActingRequest):
    """Ask for a document's file, of its newest version unless one is named; answered with the bytes; extension."""

    document_id: UUID
    document_version: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] | None = None


class DeleteDocumentRequest(ActingRequest):
    """Delete a document everywhere; its id and version numbers are never used again; extension."""

    document_id: UUID


class DeleteDocumentResponse(ResponseModel):
    """The document that is gone."""

    document_id: UUID
