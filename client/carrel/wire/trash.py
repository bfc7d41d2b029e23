"""catalog/*: the trash, in which deleted documents wait for some days to be restored or deleted for good."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.fields import DocumentName, Instant
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, READ, WRITE, ApiOperation


class ListTrashedDocumentsRequest(common.ActingRequest, common.PagedRequest):
    """List the deleted documents that the caller may restore: their own, for an admin all."""

    document_name: DocumentName | None = None
    """Part of the name or of the external id, in any case."""


class TrashedDocument(common.NamedDocument):
    """A deleted document that can be restored."""

    trashed_document_id: UUID
    """Id of this deletion, by which the document is restored or deleted for good."""
    file_name: str
    """Name of the newest file."""
    file_size: int
    """Size of the newest file in bytes."""
    media_type: str
    """Media type of the newest file."""
    owner: common.Principal
    """Owner of the document."""
    deleted_at: Instant
    """When the document was deleted."""
    deleted_by: common.Principal
    """Person or service account that deleted the document."""
    kept_until: Instant
    """When the document is deleted for good."""


class ListTrashedDocumentsResponse(common.PagedResponse):
    """A page of deleted documents."""

    documents: list[TrashedDocument]
    """The documents, the last deleted first."""
    trash_days: int
    """How many days the trash keeps a document; 0: documents are deleted for good at once."""


class RestoreDocumentRequest(common.ActingRequest):
    """Restore a deleted document, for its owner and admins."""

    trashed_document_id: UUID
    """Id of the deletion, from catalog/listTrashedDocuments."""


class RestoreDocumentResponse(common.NamedDocument):
    """A restored document, with the readers, collections and values that could not be restored."""

    document_version: int
    """Number of the newest version: it has the contents of the last version before the deletion."""
    readers_left_out: list[str] | None = None
    """Names of groups and service accounts that could read the document and were deleted since; absent: none. For
    callers who aren't admins, a text with their number."""
    collections_left_out: list[str] | None = None
    """Names of collections that the document is no longer in; absent: none. They were deleted, the caller may not add
    documents to them, or the document's chunks there were a caller's."""
    values_left_out: list[str] | None = None
    """Values that no longer fit a field, as `collection: field`; absent: none."""


class DeleteTrashedDocumentsRequest(common.ActingRequest):
    """Delete documents in the trash for good, for their owners and admins."""

    trashed_document_ids: Annotated[list[UUID], Field(min_length=1, max_length=100)]
    """Ids of the deletions, at most 100; those that are no longer in the trash are passed over."""


class DeleteTrashedDocumentsResponse(common.ResponseModel):
    """Ids of the documents that were deleted for good."""

    trashed_document_ids: list[UUID]
    """Ids of the deletions whose documents are gone."""


LIST_TRASHED_DOCUMENTS = ApiOperation(
    "catalog/listTrashedDocuments", ListTrashedDocumentsRequest, ListTrashedDocumentsResponse, READ
)
"""Walk the deleted documents that the caller may restore, the last deleted first: their own, for an admin all.

`document_name` is part of the name or of the external id, in any case."""
RESTORE_DOCUMENT = ApiOperation(
    "catalog/restoreDocument",
    RestoreDocumentRequest,
    RestoreDocumentResponse,
    WRITE,
    KEYED | ADDS_DATA | NOT_FOUND | CONFLICT,
)
"""Restore a deleted document with its ids, versions, metadata and owner.

Readers and collections that no longer exist are left out. Files in an archive or mail are read again in the
background; they do not return to collections to which they were added separately. Raises ConflictError
`external_id_in_use` or `resource_taken` if another document now has the external id or source identity, and
NotFoundError for a document already restored or deleted for good."""
DELETE_TRASHED_DOCUMENTS = ApiOperation(
    "catalog/deleteTrashedDocuments",
    DeleteTrashedDocumentsRequest,
    DeleteTrashedDocumentsResponse,
    WRITE,
    KEYED | NOT_FOUND,
)
"""Delete documents in the trash for good; raises NotFoundError if none of them is in the trash any more."""
