"""search/*: the catalog, a collection (extension), feedback, and the caller's own searches (extension)."""

from carrel.wire import own_searches
from carrel.wire import search as wire
from service.domains.search import collection_search, service
from service.domains.search.own import service as own
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.SEARCH_DOCUMENT_CATALOG)
async def search_document_catalog(
    request: wire.SearchDocumentCatalogRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.SearchDocumentCatalogResponse:
    """Search all documents the caller may READ, by metadata and contents."""
    return await service.search_catalog(runtime, caller, request=request)


@router.operation(wire.SEARCH_DOCUMENT_COLLECTION)
async def search_document_collection(
    request: wire.SearchDocumentCollectionRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.SearchDocumentCollectionResponse:
    """Search the chunks of a collection; needs VIEWER on it and READ on each document."""
    return await collection_search.search_collection(runtime, caller, request=request)


@router.operation(wire.SUBMIT_SEARCH_FEEDBACK)
async def submit_search_feedback(
    request: wire.SubmitSearchFeedbackRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.SubmitSearchFeedbackResponse:
    """Store an end user's feedback on a search of the caller's, or by an admin on anybody's, on the audit log."""
    audit_log_id = await service.submit_feedback(connection, caller, request=request)
    return wire.SubmitSearchFeedbackResponse(audit_log_id=audit_log_id)


@router.operation(own_searches.LIST_RECENT_SEARCHES)
async def list_recent_searches(
    request: own_searches.ListRecentSearchesRequest, connection: ConnectionDep, caller: CallerDep
) -> own_searches.ListRecentSearchesResponse:
    """List what the caller has searched for of late, each search once."""
    found = await own.list_recent(connection, caller, limit=request.max_searches)
    return own_searches.ListRecentSearchesResponse(searches=found)


@router.operation(own_searches.SAVE_SEARCH)
async def save_search(
    request: own_searches.SaveSearchRequest, connection: ConnectionDep, caller: CallerDep
) -> own_searches.SaveSearchResponse:
    """Save a search for the caller alone."""
    return own_searches.SaveSearchResponse(saved_search_id=await own.save(connection, caller, request=request))


@router.operation(own_searches.LIST_SAVED_SEARCHES)
async def list_saved_searches(
    request: own_searches.ListSavedSearchesRequest,  # noqa: ARG001 - it has no members
    connection: SnapshotDep,
    caller: CallerDep,
) -> own_searches.ListSavedSearchesResponse:
    """List the searches that the caller saved."""
    return own_searches.ListSavedSearchesResponse(searches=await own.list_saved(connection, caller))


@router.operation(own_searches.DELETE_SAVED_SEARCH)
async def delete_saved_search(
    request: own_searches.DeleteSavedSearchRequest, connection: ConnectionDep, caller: CallerDep
) -> own_searches.DeleteSavedSearchResponse:
    """Delete a search that the caller saved."""
    await own.delete_saved(connection, caller, saved_search_id=request.saved_search_id)
    return own_searches.DeleteSavedSearchResponse()
