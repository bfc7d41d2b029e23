"""search/…: the caller's own searches, those of late and those that they saved; extensions."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import RequestModel, ResponseModel, Tabular
from carrel.wire.fields import Instant, SearchQuery
from carrel.wire.operations import ADDS_DATA, CONFLICT, NOT_FOUND, READ, ApiOperation
from carrel.wire.search import AppliedFilter, Filters, MetadataFilter, SearchMode

MOST_SAVED = 100
"""Searches that a caller can have saved."""


class ListRecentSearchesRequest(RequestModel):
    """List what the caller has searched for of late; searches whose words were erased are left out."""

    max_searches: Annotated[int, Field(strict=True, ge=1, le=50)] = 10
    """Most searches, 1 to 50; 10 unless given."""


class RecentSearch(ResponseModel):
    """A search of the caller's, named once however often it was done."""

    search_query: str
    """What was searched for."""
    document_collection_id: UUID | None = None
    """Id of the collection that was searched; absent: the catalog."""
    mode: SearchMode
    """How it was searched."""
    at: Instant
    """When it was last done."""


class ListRecentSearchesResponse(Tabular):
    """What the caller has searched for of late."""

    searches: list[RecentSearch]
    """The searches, newest first."""


class SaveSearchRequest(RequestModel):
    """Save a search for the caller alone; one that is saved already stays as it is."""

    search_query: SearchQuery
    document_collection_id: UUID | None = None
    """Id of the collection to search; absent: the catalog."""
    mode: SearchMode = SearchMode.HYBRID
    """How to search; HYBRID unless given."""
    metadata_filters: Filters = Field(default_factory=list[MetadataFilter])
    """Conditions on metadata, at most 50, which must all hold."""


class SaveSearchResponse(ResponseModel):
    """The search that was saved."""

    saved_search_id: UUID


class ListSavedSearchesRequest(RequestModel):
    """List the searches that the caller saved, all of them."""


class SavedSearch(ResponseModel):
    """A search that the caller saved."""

    saved_search_id: UUID
    search_query: str
    """What to search for."""
    document_collection_id: UUID | None = None
    """Id of the collection to search; absent: the catalog."""
    mode: SearchMode
    """How to search."""
    metadata_filters: list[AppliedFilter] = Field(default_factory=list[AppliedFilter])
    """Conditions on metadata, which must all hold."""
    saved_at: Instant
    """When it was saved."""


class ListSavedSearchesResponse(Tabular):
    """The searches that the caller saved, at most 100."""

    searches: list[SavedSearch]
    """The searches, newest first."""


class DeleteSavedSearchRequest(RequestModel):
    """Delete a search that the caller saved."""

    saved_search_id: UUID


class DeleteSavedSearchResponse(ResponseModel):
    """The saved search is deleted."""


LIST_RECENT_SEARCHES = ApiOperation(
    "search/listRecentSearches", ListRecentSearchesRequest, ListRecentSearchesResponse, READ
)
"""List up to 50 searches that the caller did of late, each once, the newest first.

They come from the search log, as long as that keeps their words; nobody else's are among them."""
SAVE_SEARCH = ApiOperation("search/saveSearch", SaveSearchRequest, SaveSearchResponse, READ, ADDS_DATA | CONFLICT)
"""Save a search, of the catalog or a collection, for the caller alone; saving it again changes nothing.

Raises ConflictError `too_many_saved_searches` beyond 100."""
LIST_SAVED_SEARCHES = ApiOperation(
    "search/listSavedSearches", ListSavedSearchesRequest, ListSavedSearchesResponse, READ
)
"""List the searches that the caller saved, at most 100, the newest first."""
DELETE_SAVED_SEARCH = ApiOperation(
    "search/deleteSavedSearch", DeleteSavedSearchRequest, DeleteSavedSearchResponse, READ, NOT_FOUND
)
"""Delete a search that the caller saved. Raises NotFoundError `saved_search_not_found`."""
