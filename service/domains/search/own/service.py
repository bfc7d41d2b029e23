"""A caller's recent and saved searches. No caller, not even an admin, can list or change another person's searches."""

import json
from uuid import uuid5

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import own_searches as wire
from carrel.wire.own_searches import MOST_SAVED
from service.auth.callers import Caller
from service.domains.search.own import queries
from service.platform.errors import Conflict, NotFound


async def list_recent(
    connection: Connection, caller: Caller, *, request: wire.ListRecentSearchesRequest
) -> wire.ListRecentSearchesResponse:
    """List the caller's recent searches without repetitions. A person's list excludes searches by programs."""
    return wire.ListRecentSearchesResponse(
        searches=await queries.list_recent(connection, caller, limit=request.max_searches)
    )


async def save(connection: Connection, caller: Caller, *, request: wire.SaveSearchRequest) -> wire.SaveSearchResponse:
    """Save a search that only the caller can list. Raises Conflict `too_many_saved_searches`."""
    organization_id, principal_id = caller.organization_id, caller.principal_id
    saved_search_id = uuid5(principal_id, json.dumps(request.model_dump(mode="json"), sort_keys=True))
    await queries.lock_saved(connection, organization_id, principal_id=principal_id)
    count = await queries.count_other_saved(
        connection, organization_id, principal_id=principal_id, saved_search_id=saved_search_id
    )
    if count >= MOST_SAVED:
        message = f"You have {MOST_SAVED} saved searches, which is the limit. Delete unused saved searches."
        raise Conflict(message, code="too_many_saved_searches")
    row = {
        "principal_id": principal_id,
        "saved_search_id": saved_search_id,
        "search_query": request.search_query,
        "collection_id": request.document_collection_id,
        "mode": str(request.mode),
        "metadata_filters": [metadata_filter.model_dump(mode="json") for metadata_filter in request.metadata_filters],
    }
    await queries.insert_saved(connection, organization_id, row=row)
    return wire.SaveSearchResponse(saved_search_id=saved_search_id)


async def list_saved(connection: Connection, caller: Caller) -> wire.ListSavedSearchesResponse:
    """List the caller's saved searches."""
    return wire.ListSavedSearchesResponse(
        searches=await queries.list_saved(connection, caller.organization_id, principal_id=caller.principal_id)
    )


async def delete_saved(
    connection: Connection, caller: Caller, *, request: wire.DeleteSavedSearchRequest
) -> wire.DeleteSavedSearchResponse:
    """Delete a saved search of the caller. Raises NotFound `saved_search_not_found`."""
    if not await queries.delete_saved(
        connection, caller.organization_id, principal_id=caller.principal_id, saved_search_id=request.saved_search_id
    ):
        message = "You have no saved search with this id. To list your saved searches, call search/listSavedSearches."
        raise NotFound(message, code="saved_search_not_found")
    return wire.DeleteSavedSearchResponse()
