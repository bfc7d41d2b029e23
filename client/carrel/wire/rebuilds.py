"""documentCollections/…IndexRebuild: a new index with another embedding model, while the old serves; extensions."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import ActingRequest, NamedDocument, PagedRequest, PagedResponse, ResponseModel
from carrel.wire.fields import Instant, Label, StrictFlag
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, READ, WRITE, ApiOperation


class IndexRebuildStatus(StrEnum):
    """Status of a rebuild. HELD: all remaining documents have failed repeatedly; retries continue."""

    RUNNING = "RUNNING"
    HELD = "HELD"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"


class IndexRebuild(ResponseModel):
    """A rebuild and its progress. Before COMPLETED, searches use the whole index of the previous model; afterwards the
    new index. Documents left out by a forced rebuild are still retried."""

    index_rebuild_id: UUID
    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""
    embeddings_model: str
    """Embedding model of the new index."""
    previous_embeddings_model: str
    """Embedding model of the index used by searches until the rebuild is COMPLETED."""
    status: IndexRebuildStatus
    """How far the rebuild is."""
    forced: bool
    """Whether the new index takes over without the failed documents."""
    document_count: int | None = None
    """Documents to index, among those visible to the caller; absent once COMPLETED."""
    indexed_count: int | None = None
    """Documents already up to date in the new index; absent once COMPLETED."""
    failed_count: int | None = None
    """Remaining documents that failed at least once; absent once COMPLETED."""
    left_count: int | None = None
    """Documents left out of the new index by a forced rebuild; for admins."""
    started_at: Instant
    """When the rebuild began."""
    finished_at: Instant | None = None
    """When the rebuild ended; absent during the rebuild."""


class StartIndexRebuildRequest(ActingRequest):
    """Build an index with another model, for a collection or (absent, for admins) the catalog. A running rebuild with
    the same model retries its failures; with `force`, the new index replaces the old without the failed documents."""

    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog, for admins."""
    embeddings_model: Label
    """Embedding model of the new index, available on the service."""
    force: StrictFlag = False
    """Whether the new index takes over without the failed documents; default: false."""


class StartIndexRebuildResponse(IndexRebuild):
    """The running rebuild."""


class GetIndexRebuildRequest(ActingRequest):
    """Get the newest rebuild of a collection's index, or (without a collection) of the catalog's."""

    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""


class GetIndexRebuildResponse(IndexRebuild):
    """The rebuild."""


class ListIndexRebuildFailuresRequest(ActingRequest, PagedRequest):
    """List the documents that failed in an index's running rebuild, if visible to the caller."""

    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""


class IndexRebuildFailure(NamedDocument):
    """A document blocking a rebuild, with its last failure and the number of failures in a row."""

    error: str
    attempts: Annotated[int, Field(ge=0)]
    """Number of failures in a row."""


class ListIndexRebuildFailuresResponse(PagedResponse):
    """A page of failures; empty without a running rebuild."""

    failures: list[IndexRebuildFailure]
    """The failures; none when no rebuild goes on."""


class CancelIndexRebuildRequest(ActingRequest):
    """Cancel the running rebuild; the current index stays."""

    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""


class CancelIndexRebuildResponse(IndexRebuild):
    """The rebuild, CANCELLED."""


START_INDEX_REBUILD = ApiOperation(
    "documentCollections/startIndexRebuild",
    StartIndexRebuildRequest,
    StartIndexRebuildResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT,
    by_position=("document_collection_id",),
)
"""Build an index with another model while searches use the old index; returns at once. A running rebuild with
the same model retries its failures; with `force`, the new index replaces the old without them. Raises
ConflictError `model_in_use` for the current model, `rebuild_running` during a rebuild with a third model."""
GET_INDEX_REBUILD = ApiOperation(
    "documentCollections/getIndexRebuild",
    GetIndexRebuildRequest,
    GetIndexRebuildResponse,
    READ,
    NOT_FOUND | CONFLICT,
    by_position=("document_collection_id",),
)
"""Return the newest rebuild of an index. Raises ConflictError `no_rebuild` if there was none."""
LIST_INDEX_REBUILD_FAILURES = ApiOperation(
    "documentCollections/listIndexRebuildFailures",
    ListIndexRebuildFailuresRequest,
    ListIndexRebuildFailuresResponse,
    READ,
    NOT_FOUND | CONFLICT,
    by_position=("document_collection_id",),
)
"""List the documents blocking a rebuild, each with the reason for its last failure."""
CANCEL_INDEX_REBUILD = ApiOperation(
    "documentCollections/cancelIndexRebuild",
    CancelIndexRebuildRequest,
    CancelIndexRebuildResponse,
    WRITE,
    KEYED | NOT_FOUND,
    by_position=("document_collection_id",),
)
"""Cancel the running rebuild; the current index stays. Raises ConflictError `rebuild_over`."""
