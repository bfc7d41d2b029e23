"""documentCollections/docstore/*: syncs of collections with outside document databases (seed, beta)."""

from carrel.wire import docstore as wire
from service.auth.callers import acting_for
from service.domains.documents.docstore import service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.CREATE_DOCSTORE_SYNC)
async def create_docstore_sync(
    request: wire.CreateDocstoreSyncRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.CreateDocstoreSyncResponse:
    """Keep a collection as a collection of a document database has it, and launch the first run."""
    caller = await acting_for(connection, caller, request.user_email)
    launched = await service.create_sync(runtime, connection, caller, request=request)
    return wire.CreateDocstoreSyncResponse(**dict(launched))


@router.operation(wire.UPDATE_DOCSTORE_SYNC)
async def update_docstore_sync(
    request: wire.UpdateDocstoreSyncRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.UpdateDocstoreSyncResponse:
    """Replace a sync's address and config, and launch a run (beta)."""
    caller = await acting_for(connection, caller, request.user_email)
    launched = await service.update_sync(runtime, connection, caller, request=request)
    return wire.UpdateDocstoreSyncResponse(**dict(launched))


@router.operation(wire.LAUNCH_DOCSTORE_SYNC)
async def launch_docstore_sync(
    request: wire.LaunchDocstoreSyncRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.LaunchDocstoreSyncResponse:
    """Launch a run of a sync as it is."""
    caller = await acting_for(connection, caller, request.user_email)
    launched = await service.launch_sync(runtime, connection, caller, sync_id=request.docstore_credential_id)
    return wire.LaunchDocstoreSyncResponse(**dict(launched))


@router.operation(wire.GET_DOCSTORE_SYNC)
async def get_docstore_sync(
    request: wire.GetDocstoreSyncRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.GetDocstoreSyncResponse:
    """Show a sync, and how its last run went."""
    caller = await acting_for(connection, caller, request.user_email)
    sync = await service.get_sync(connection, caller, sync_id=request.docstore_credential_id)
    return wire.GetDocstoreSyncResponse(**dict(sync))


@router.operation(wire.LIST_DOCSTORE_SYNCS)
async def list_docstore_syncs(
    request: wire.ListDocstoreSyncsRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.ListDocstoreSyncsResponse:
    """List the syncs into collections that the caller may edit."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await service.list_syncs(connection, caller, request=request)
    return wire.ListDocstoreSyncsResponse(docstore_syncs=list(page.items), next_page_token=page.next_page_token)


@router.operation(wire.LIST_DOCSTORE_FAILURES)
async def list_docstore_failures(
    request: wire.ListDocstoreFailuresRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.ListDocstoreFailuresResponse:
    """List the source documents that a sync could not take, and why."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await service.list_failures(connection, caller, request=request)
    return wire.ListDocstoreFailuresResponse(failures=list(page.items), next_page_token=page.next_page_token)


@router.operation(wire.DELETE_DOCSTORE_SYNC)
async def delete_docstore_sync(
    request: wire.DeleteDocstoreSyncRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.DeleteDocstoreSyncResponse:
    """Delete a sync and its address; the documents that it brought stay."""
    caller = await acting_for(connection, caller, request.user_email)
    await service.delete_sync(connection, caller, sync_id=request.docstore_credential_id)
    return wire.DeleteDocstoreSyncResponse(docstore_credential_id=request.docstore_credential_id)
