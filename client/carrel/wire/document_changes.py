"""catalog/*DocumentChange: a change of all documents that match filters, as a job of the service."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.catalog import DocumentFilters
from carrel.wire.fields import CustomMetadata
from carrel.wire.operations import ADMIN, CONFIRMED, CONFLICT, KEYED, NOT_FOUND, READ, WRITE, ApiOperation


class DocumentAction(StrEnum):
    """An action on each document. SET_VALUES: the values of a document in a collection."""

    DELETE = "DELETE"
    REINDEX = "REINDEX"
    ADD_TO_COLLECTION = "ADD_TO_COLLECTION"
    REMOVE_FROM_COLLECTION = "REMOVE_FROM_COLLECTION"
    SET_VALUES = "SET_VALUES"


class DocumentChangeStatus(StrEnum):
    """Status of a change. PLANNED: only counted. STOPPED: by an error, or the caller lost a right."""

    PLANNED = "PLANNED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    STOPPED = "STOPPED"


class ChangeMatchingRequest(DocumentFilters):
    """Filters of the documents to change."""

    expected_count: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Number of documents to change, as counted before: if more match, none is changed. Absent: only count."""


class StartDocumentChangeRequest(ChangeMatchingRequest, common.ActingRequest):
    """Count the documents that match now, and with `expectedCount` change them in the background."""

    change: DocumentAction
    target_collection_id: UUID | None = None
    """Id of the collection to add to, to remove from, or with the values."""
    custom_metadata: CustomMetadata | None = None
    """Values of documents to add, or for SET_VALUES; an empty value removes the field's value."""


class StartAccessChangeRequest(ChangeMatchingRequest):
    """Count the documents that match now, and with `expectedCount` change access to them in the background."""

    principal: common.PrincipalReference
    role: common.Role | None = None
    """The direct role that the principal gets; OWNER replaces the owner. Absent: none, the principal loses it."""


class DocumentChangeFailure(common.ResponseModel):
    """A document that could not be changed."""

    document_id: UUID
    message: str
    """Reason, for people."""


class DocumentChange(common.ResponseModel):
    """A change of all documents that matched at its start. Documents deleted since, or that no longer match, count
    neither as done nor as failed."""

    document_change_id: UUID | None = None
    """Id of the change; absent: PLANNED."""
    status: DocumentChangeStatus
    document_count: int
    """Documents that matched at the start."""
    done_count: int = 0
    """Documents changed, or in the wanted state before."""
    failed_count: int = 0
    """Documents that could not be changed."""
    failures: list[DocumentChangeFailure] | None = None
    """The first 1000 failures; absent: none."""
    error: str | None = None
    """Reason for STOPPED."""


class GetDocumentChangeRequest(common.ActingRequest):
    """Get a change that the caller started in the last 30 days."""

    document_change_id: UUID


START_DOCUMENT_CHANGE = ApiOperation(
    "catalog/startDocumentChange", StartDocumentChangeRequest, DocumentChange, WRITE, KEYED | NOT_FOUND | CONFLICT
)
"""Change all documents that match filters: delete or re-index, add to or remove from a collection, or set
values. Without `expected_count`, only return the number of documents. With `expected_count`, change the
documents in the background, with the rights that the caller has then. Raises ConflictError `count_changed` if
more documents match now."""
START_ACCESS_CHANGE = ApiOperation(
    "catalog/startAccessChange", StartAccessChangeRequest, DocumentChange, ADMIN, KEYED | CONFLICT | CONFIRMED
)
"""Give a principal a role on all documents that match filters, or remove it, like `start_document_change`."""
GET_DOCUMENT_CHANGE = ApiOperation(
    "catalog/getDocumentChange", GetDocumentChangeRequest, DocumentChange, READ, NOT_FOUND
)
"""Return the progress of a change that the caller started, and the documents that could not be changed."""
