"""Rules of a caller's own searches: nobody, not even an admin, lists or changes those of others here."""

import json
from uuid import UUID, uuid5

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.own_searches import MOST_SAVED, RecentSearch, SavedSearch, SaveSearchRequest
from service.auth.callers import Caller
from service.domains.search.own import queries
from service.platform.errors import Conflict, NotFound


async def list_recent(connection: AsyncConnection, caller: Caller, *, limit: int) -> list[RecentSearch]:
    """Return what the caller has searched for of late, the newest first."""
    return await queries.list_recent(connection, caller.organization_id, principal_id=caller.principal_id, limit=limit)


async def save(connection: AsyncConnection, caller: Caller, *, request: SaveSearchRequest) -> UUID:
    """Save a search for the caller, and return its id. Raises Conflict `too_many_saved_searches`."""
    organization_id, principal_id = caller.organization_id, caller.principal_id
    saved_search_id = uuid5(principal_id, json.dumps(request.model_dump(mode="json"), sort_keys=True))
    await queries.lock_saved(connection, organization_id, principal_id=principal_id)
    others = await queries.count_saved_beside(
        connection, organization_id, principal_id=principal_id, saved_search_id=saved_search_id
    )
    if others >= MOST_SAVED:
        message = f"You have saved {MOST_SAVED} searches, and can't have more. Delete one that you don't need."
        raise Conflict(message, code="too_many_saved_searches")
    row = {
        "principal_id": principal_id,
        "saved_search_id": saved_search_id,
        "search_query": request.search_query,
        "collection_id": request.document_collection_id,
        "mode": str(request.mode),
        "metadata_filters": [one.model_dump(mode="json") for one in request.metadata_filters],
    }
    await queries.insert_saved(connection, organization_id, row=row)
    return saved_search_id


async def list_saved(connection: AsyncConnection, caller: Caller) -> list[SavedSearch]:
    """Return the searches that the caller has saved, the newest first."""
    return await queries.list_saved(connection, caller.organization_id, principal_id=caller.principal_id)


async def delete_saved(connection: AsyncConnection, caller: Caller, *, saved_search_id: UUID) -> None:
    """Delete a search that the caller has saved. Raises NotFound."""
    if not await queries.delete_saved(
        connection,
        caller.organization_id,
        principal_id=caller.principal_id,
        saved_search_id=saved_search_id,
    ):
        message = "You have no such saved search. search/listSavedSearches has those that you have."
        raise NotFound(message, code="saved_search_not_found")
