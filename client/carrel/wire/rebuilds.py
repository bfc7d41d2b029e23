"""documentCollections/…IndexRebuild: an index made anew with another embedding model, beside the one that is searched.

All of it is extensions.
"""

from enum import StrEnum
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field

from carrel.wire.admin import StrictFlag
from carrel.wire.common import (
    ActingRequest,
    Instant,
    Label,
    PagedRequest,
    PagedResponse,
    ResponseModel,
)


class IndexRebuildStatus(StrEnum):
    """How far a rebuild is. HELD: all that is left are documents that failed again and again; they are still tried."""

    RUNNING = "RUNNING"
    HELD = "HELD"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"


class IndexRebuild(ResponseModel):
    """A rebuild, and how far it is.

    Until it is COMPLETED, searches see the index of `previous_embeddings_model`, whole; from then on the other one. The
    counts are of the documents that the caller may know of, once COMPLETED they are left out: `indexed_count` of
    `document_count` are in the new index as they are in the old one, `failed_count` of the rest failed at least once.
    `left_count`, for admins: how many a forced rebuild left out of the new index, where they are tried further.
    """

    index_rebuild_id: UUID
    document_collection_id: UUID | None = None
    embeddings_model: str
    previous_embeddings_model: str
    status: IndexRebuildStatus
    forced: bool
    document_count: int | None = None
    indexed_count: int | None = None
    failed_count: int | None = None
    left_count: int | None = None
    started_at: Instant
    finished_at: Instant | None = None


class StartIndexRebuildRequest(ActingRequest):
    """Make an index with another model, of a collection or (without one, for admins) of the catalog.

    While it goes on already with this model: try at once again what failed, and with `force` let it take the old
    index's place without the documents that fail.
    """

    document_collection_id: UUID | None = None
    embeddings_model: Label
    force: StrictFlag = False


class StartIndexRebuildResponse(IndexRebuild):
    """The rebuild, as it goes on."""


class GetIndexRebuildRequest(ActingRequest):
    """Ask for the newest rebuild of a collection's index, or (without one) of the catalog's."""

    document_collection_id: UUID | None = None


class GetIndexRebuildResponse(IndexRebuild):
    """The rebuild."""


class ListIndexRebuildFailuresRequest(ActingRequest, PagedRequest):
    """List the documents that the running rebuild of an index could not index; those the caller may know of."""

    document_collection_id: UUID | None = None


class IndexRebuildFailure(ResponseModel):
    """A document that keeps a rebuild from coming to its end: why it failed last, of how many times in a row."""

    document_id: UUID
    document_name: str
    document_external_id: str
    error: str
    attempts: Annotated[int, Field(ge=0)]


class ListIndexRebuildFailuresResponse(PagedResponse):
    """One page of failures, none when no rebuild goes on."""

    rows_in: ClassVar[str] = "failures"
    failures: list[IndexRebuildFailure]


class CancelIndexRebuildRequest(ActingRequest):
    """Give up the rebuild that goes on; the index that is searched stays as it is."""

    document_collection_id: UUID | None = None


class CancelIndexRebuildResponse(IndexRebuild):
    """The rebuild, CANCELLED."""
