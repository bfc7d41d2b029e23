"""documentCollections/…IndexRebuild: rebuilding the index of a collection, or the catalog's, with another model."""

from carrel.wire.rebuilds import (
    CancelIndexRebuildRequest,
    CancelIndexRebuildResponse,
    GetIndexRebuildRequest,
    GetIndexRebuildResponse,
    ListIndexRebuildFailuresRequest,
    ListIndexRebuildFailuresResponse,
    StartIndexRebuildRequest,
    StartIndexRebuildResponse,
)
from service.auth.callers import acting_for
from service.domains.rebuilds import service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.idempotency import idempotent
from service.web.routing import Router

router = Router(prefix="/documentCollections")


@router.post("/startIndexRebuild", tags=["extension"])
async def start_index_rebuild(
    request: StartIndexRebuildRequest, runtime: RuntimeDep, caller: CallerDep
) -> StartIndexRebuildResponse:
    """Make an index with another embedding model beside the one that is searched, and swap it in when it is whole."""
    started = await service.start_rebuild(runtime, caller, request=request)
    return StartIndexRebuildResponse(**dict(started))


@router.post("/getIndexRebuild", tags=["extension"])
async def get_index_rebuild(
    request: GetIndexRebuildRequest, connection: ConnectionDep, caller: CallerDep
) -> GetIndexRebuildResponse:
    """Show the newest rebuild of an index, and how far it is."""
    caller = await acting_for(connection, caller, request.user_email)
    rebuild = await service.get_rebuild(connection, caller, collection_id=request.document_collection_id)
    return GetIndexRebuildResponse(**dict(rebuild))


@router.post("/listIndexRebuildFailures", tags=["extension"])
async def list_index_rebuild_failures(
    request: ListIndexRebuildFailuresRequest, connection: ConnectionDep, caller: CallerDep
) -> ListIndexRebuildFailuresResponse:
    """List the documents that keep a rebuild from coming to its end, and why."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await service.list_failures(connection, caller, request=request)
    return ListIndexRebuildFailuresResponse(failures=list(page.items), next_page_token=page.next_page_token)


@router.post("/cancelIndexRebuild", tags=["extension"])
@idempotent
async def cancel_index_rebuild(
    request: CancelIndexRebuildRequest, connection: ConnectionDep, caller: CallerDep
) -> CancelIndexRebuildResponse:
    """Give up a rebuild; the index that is searched stays as it is."""
    caller = await acting_for(connection, caller, request.user_email)
    rebuild = await service.cancel_rebuild(connection, caller, collection_id=request.document_collection_id)
    return CancelIndexRebuildResponse(**dict(rebuild))
