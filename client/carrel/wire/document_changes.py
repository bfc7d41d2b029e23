"""catalog/*DocumentChange: an action on all documents that match filters, as a job of the service."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.catalog import DocumentFilters
from carrel.wire.operations import CONFLICT, KEYED, NOT_FOUND, READ, WRITE, ApiOperation


class DocumentAction(StrEnum):
    """An action on each document."""

    DELETE = "DELETE"
    REINDEX = "REINDEX"
    ADD_TO_COLLECTION = "ADD_TO_COLLECTION"
    REMOVE_FROM_COLLECTION = "REMOVE_FROM_COLLECTION"


class DocumentChangeStatus(StrEnum):
    """Status of a change. PLANNED: only counted. STOPPED: the caller may not do this any more, or an error ended it."""

    PLANNED = "PLANNED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    STOPPED = "STOPPED"


class StartDocumentChangeRequest(DocumentFilters):
    """Count the documents that match now, and with `expectedCount` change them in the background."""

    change: DocumentAction
    target_collection_id: UUID | None = None
    """Id of the collection to add to or remove from."""
    expected_count: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Number of documents to change, as counted before: if more match by now, none is changed. Absent: only count."""


class DocumentChangeFailure(common.ResponseModel):
    """A document that could not be changed."""

    document_id: UUID
    message: str
    """Reason, for people."""


class DocumentChange(common.ResponseModel):
    """A change of all documents that matched at its start. Documents gone since count neither as done nor as failed."""

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
    """The first 1000 of them; absent: none."""
    error: str | None = None
    """Reason for STOPPED."""


class GetDocumentChangeRequest(common.ActingRequest):
    """Get a change that the caller started in the last 30 days."""

    document_change_id: UUID


START_DOCUMENT_CHANGE = ApiOperation(
    "catalog/startDocumentChange",
    StartDocumentChangeRequest,
    DocumentChange,
    WRITE,
    KEYED | NOT_FOUND | CONFLICT,
    by_position=("change",),
)
"""Delete or re-index all documents that match filters now, or add them to a collection or remove them from it.
Without `expected_count`, nothing changes: the answer has the number. With it, the service changes them in the
background, with the caller's rights at that time. Raises ConflictError `count_changed` if more match by now."""
GET_DOCUMENT_CHANGE = ApiOperation(
    "catalog/getDocumentChange", GetDocumentChangeRequest, DocumentChange, READ, NOT_FOUND
)
"""Return a change that the caller started: its progress, and the documents that could not be changed."""
