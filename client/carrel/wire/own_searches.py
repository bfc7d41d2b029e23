"""search/…: the caller's recent and saved searches; extensions."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import RequestModel, ResponseModel, Tabular
from carrel.wire.fields import Instant, SearchQuery
from carrel.wire.operations import ADDS_DATA, CONFLICT, NOT_FOUND, READ, ApiOperation
from carrel.wire.search import AppliedFilter, Filters, MetadataFilter, SearchMode

MOST_SAVED = 100
"""Most saved searches of a caller."""


class ListRecentSearchesRequest(RequestModel):
    """List the caller's recent searches; searches with erased queries are left out."""

    max_searches: Annotated[int, Field(strict=True, ge=1, le=50)] = 10
    """Most searches, 1 to 50; 10 unless given."""


class RecentSearch(ResponseModel):
    """A recent search of the caller; repetitions are listed once."""

    search_query: str
    document_collection_id: UUID | None = None
    """Id of the searched collection; absent: the catalog."""
    mode: SearchMode
    at: Instant
    """When the search was last run."""


class ListRecentSearchesResponse(Tabular):
    """The caller's recent searches."""

    searches: list[RecentSearch]


class SaveSearchRequest(RequestModel):
    """Save a search for the caller only; an existing saved search stays unchanged."""

    search_query: SearchQuery
    document_collection_id: UUID | None = None
    """Id of the collection to search; absent: the catalog."""
    mode: SearchMode = SearchMode.HYBRID
    """How to search; HYBRID unless given."""
    metadata_filters: Filters = Field(default_factory=list[MetadataFilter])


class SaveSearchResponse(ResponseModel):
    """The saved search."""

    saved_search_id: UUID


class ListSavedSearchesRequest(RequestModel):
    """List all of the caller's saved searches."""


class SavedSearch(ResponseModel):
    """A saved search of the caller."""

    saved_search_id: UUID
    search_query: str
    document_collection_id: UUID | None = None
    """Id of the collection to search; absent: the catalog."""
    mode: SearchMode
    """How to search."""
    metadata_filters: list[AppliedFilter] = Field(default_factory=list[AppliedFilter])
    """Conditions on metadata; all must match."""
    saved_at: Instant
    """When the search was saved."""


class ListSavedSearchesResponse(Tabular):
    """The caller's saved searches, at most 100."""

    searches: list[SavedSearch]


class DeleteSavedSearchRequest(RequestModel):
    """Delete one of the caller's saved searches."""

    saved_search_id: UUID


class DeleteSavedSearchResponse(ResponseModel):
    """The saved search is deleted."""


LIST_RECENT_SEARCHES = ApiOperation(
    "search/listRecentSearches", ListRecentSearchesRequest, ListRecentSearchesResponse, READ
)
"""List up to 50 different recent searches of the caller, newest first, while the log keeps the queries."""
SAVE_SEARCH = ApiOperation("search/saveSearch", SaveSearchRequest, SaveSearchResponse, READ, ADDS_DATA | CONFLICT)
"""Save a search, of the catalog or a collection, for the caller only; repeating has no effect. Raises
ConflictError `too_many_saved_searches` beyond 100."""
LIST_SAVED_SEARCHES = ApiOperation(
    "search/listSavedSearches", ListSavedSearchesRequest, ListSavedSearchesResponse, READ
)
"""List the caller's saved searches, at most 100, newest first."""
DELETE_SAVED_SEARCH = ApiOperation(
    "search/deleteSavedSearch", DeleteSavedSearchRequest, DeleteSavedSearchResponse, READ, NOT_FOUND
)
"""Delete one of the caller's saved searches. Raises NotFoundError `saved_search_not_found`."""
