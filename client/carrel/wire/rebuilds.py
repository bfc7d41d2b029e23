"""documentCollections/…IndexRebuild: an index made anew with another embedding model beside the searched index;
extensions."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import ActingRequest, NamedDocument, PagedRequest, PagedResponse, ResponseModel
from carrel.wire.fields import Instant, Label, StrictFlag
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, READ, WRITE, ApiOperation


class IndexRebuildStatus(StrEnum):
    """How far a rebuild is. HELD: all that is left are documents that failed again and again; they are still tried."""

    RUNNING = "RUNNING"
    HELD = "HELD"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"


class IndexRebuild(ResponseModel):
    """A rebuild, and how far it is.

    Until it is COMPLETED, searches see the whole index of the previous model; from then on the new one. Documents that
    a forced rebuild left out are tried further."""

    index_rebuild_id: UUID
    """Id of the rebuild."""
    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""
    embeddings_model: str
    """Embedding model of the new index."""
    previous_embeddings_model: str
    """Embedding model of the index that is searched until the rebuild is COMPLETED."""
    status: IndexRebuildStatus
    """How far the rebuild is."""
    forced: bool
    """Whether the new index takes over without the documents that fail."""
    document_count: int | None = None
    """Documents to index that the caller may know of; absent once COMPLETED."""
    indexed_count: int | None = None
    """Documents that are in the new index as they are in the old one; absent once COMPLETED."""
    failed_count: int | None = None
    """Documents of the rest that failed at least once; absent once COMPLETED."""
    left_count: int | None = None
    """Documents that a forced rebuild left out of the new index; for admins."""
    started_at: Instant
    """When it began."""
    finished_at: Instant | None = None
    """When it ended; absent while it goes on."""


class StartIndexRebuildRequest(ActingRequest):
    """Make an index with another model, of a collection or (without one, for admins) of the catalog.

    While it goes on already with this model: try at once again what failed, and with `force` let it take the old
    index's place without the documents that fail."""

    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog, for admins."""
    embeddings_model: Label
    """Embedding model of the new index, one of those the service has."""
    force: StrictFlag = False
    """Whether the new index takes over without the documents that fail; false unless given."""


class StartIndexRebuildResponse(IndexRebuild):
    """The rebuild, as it goes on."""


class GetIndexRebuildRequest(ActingRequest):
    """Ask for the newest rebuild of a collection's index, or (without one) of the catalog's."""

    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""


class GetIndexRebuildResponse(IndexRebuild):
    """The rebuild."""


class ListIndexRebuildFailuresRequest(ActingRequest, PagedRequest):
    """List the documents that the running rebuild of an index could not index; those the caller may know of."""

    document_collection_id: UUID | None = None
    """Id of the collection; absent: the catalog."""


class IndexRebuildFailure(NamedDocument):
    """A document that keeps a rebuild from coming to its end: why it failed last, of how many times in a row."""

    error: str
    """Why indexing failed last."""
    attempts: Annotated[int, Field(ge=0)]
    """How many times in a row it failed."""


class ListIndexRebuildFailuresResponse(PagedResponse):
    """One page of failures, none when no rebuild goes on."""

    failures: list[IndexRebuildFailure]
    """The failures; none when no rebuild goes on."""


class CancelIndexRebuildRequest(ActingRequest):
    """Give up the rebuild that goes on; the index that is searched stays as it is."""

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
"""Make an index with another model beside the one that is searched; returns at once.

While it goes on already with this model, what failed is tried again at once; with `force`, the new index takes
the old one's place without the documents that fail. Raises ConflictError `model_in_use` for the model it has,
`rebuild_running` while it is rebuilt with a third one."""
GET_INDEX_REBUILD = ApiOperation(
    "documentCollections/getIndexRebuild",
    GetIndexRebuildRequest,
    GetIndexRebuildResponse,
    READ,
    NOT_FOUND | CONFLICT,
    by_position=("document_collection_id",),
)
"""Show the newest rebuild of an index. Raises ConflictError `no_rebuild` when there has been none."""
LIST_INDEX_REBUILD_FAILURES = ApiOperation(
    "documentCollections/listIndexRebuildFailures",
    ListIndexRebuildFailuresRequest,
    ListIndexRebuildFailuresResponse,
    READ,
    NOT_FOUND | CONFLICT,
    by_position=("document_collection_id",),
)
"""Walk the documents that keep a rebuild from coming to its end, each with the reason of its last failure."""
CANCEL_INDEX_REBUILD = ApiOperation(
    "documentCollections/cancelIndexRebuild",
    CancelIndexRebuildRequest,
    CancelIndexRebuildResponse,
    WRITE,
    KEYED | NOT_FOUND,
    by_position=("document_collection_id",),
)
"""Give up the rebuild that goes on; the index that is searched stays. Raises ConflictError `rebuild_over`."""
