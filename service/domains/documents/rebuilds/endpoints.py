"""documentCollections/…IndexRebuild: rebuilding the index of a collection, or the catalog's, with another model."""

from carrel.wire import rebuilds as wire
from service.auth.callers import acting_for
from service.domains.documents.rebuilds import service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.START_INDEX_REBUILD)
async def start_index_rebuild(
    request: wire.StartIndexRebuildRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.StartIndexRebuildResponse:
    """Make an index with another embedding model beside the one that is searched, and swap it in when it is whole."""
    started = await service.start_rebuild(runtime, caller, request=request)
    return wire.StartIndexRebuildResponse(**dict(started))


@router.operation(wire.GET_INDEX_REBUILD)
async def get_index_rebuild(
    request: wire.GetIndexRebuildRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.GetIndexRebuildResponse:
    """Show the newest rebuild of an index, and how far it is."""
    caller = await acting_for(connection, caller, request.user_email)
    rebuild = await service.get_rebuild(connection, caller, collection_id=request.document_collection_id)
    return wire.GetIndexRebuildResponse(**dict(rebuild))


@router.operation(wire.LIST_INDEX_REBUILD_FAILURES)
async def list_index_rebuild_failures(
    request: wire.ListIndexRebuildFailuresRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.ListIndexRebuildFailuresResponse:
    """List the documents that keep a rebuild from coming to its end, and why."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await service.list_failures(connection, caller, request=request)
    return wire.ListIndexRebuildFailuresResponse(failures=list(page.items), next_page_token=page.next_page_token)


@router.operation(wire.CANCEL_INDEX_REBUILD)
async def cancel_index_rebuild(
    request: wire.CancelIndexRebuildRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.CancelIndexRebuildResponse:
    """Give up a rebuild; the index that is searched stays as it is."""
    caller = await acting_for(connection, caller, request.user_email)
    rebuild = await service.cancel_rebuild(connection, caller, collection_id=request.document_collection_id)
    return wire.CancelIndexRebuildResponse(**dict(rebuild))
