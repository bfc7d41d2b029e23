"""documentCollections/docstore/*: syncs of collections with outside document databases (seed, beta)."""

from carrel.wire.docstore import (
    CreateDocstoreSyncRequest,
    CreateDocstoreSyncResponse,
    DeleteDocstoreSyncRequest,
    DeleteDocstoreSyncResponse,
    GetDocstoreSyncRequest,
    GetDocstoreSyncResponse,
    LaunchDocstoreSyncRequest,
    LaunchDocstoreSyncResponse,
    ListDocstoreFailuresRequest,
    ListDocstoreFailuresResponse,
    ListDocstoreSyncsRequest,
    ListDocstoreSyncsResponse,
    UpdateDocstoreSyncRequest,
    UpdateDocstoreSyncResponse,
)
from service.auth.callers import acting_for
from service.domains.docstore import service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.idempotency import idempotent
from service.web.routing import Router

router = Router(prefix="/documentCollections/docstore")


@router.post("/createDocstoreSync", tags=["extension"])
@idempotent
async def create_docstore_sync(
    request: CreateDocstoreSyncRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> CreateDocstoreSyncResponse:
    """Keep a collection as a collection of a document database has it, and launch the first run."""
    caller = await acting_for(connection, caller, request.user_email)
    launched = await service.create_sync(runtime, connection, caller, request=request)
    return CreateDocstoreSyncResponse(**dict(launched))


@router.post("/updateDocstoreSync", tags=["collections"])
@idempotent
async def update_docstore_sync(
    request: UpdateDocstoreSyncRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> UpdateDocstoreSyncResponse:
    """Replace a sync's address and config, and launch a run (beta)."""
    caller = await acting_for(connection, caller, request.user_email)
    launched = await service.update_sync(runtime, connection, caller, request=request)
    return UpdateDocstoreSyncResponse(**dict(launched))


@router.post("/launchDocstoreSync", tags=["extension"])
@idempotent
async def launch_docstore_sync(
    request: LaunchDocstoreSyncRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> LaunchDocstoreSyncResponse:
    """Launch a run of a sync as it is."""
    caller = await acting_for(connection, caller, request.user_email)
    launched = await service.launch_sync(runtime, connection, caller, sync_id=request.docstore_credential_id)
    return LaunchDocstoreSyncResponse(**dict(launched))


@router.post("/getDocstoreSync", tags=["extension"])
async def get_docstore_sync(
    request: GetDocstoreSyncRequest, connection: ConnectionDep, caller: CallerDep
) -> GetDocstoreSyncResponse:
    """Show a sync, and how its last run went."""
    caller = await acting_for(connection, caller, request.user_email)
    sync = await service.get_sync(connection, caller, sync_id=request.docstore_credential_id)
    return GetDocstoreSyncResponse(**dict(sync))


@router.post("/listDocstoreSyncs", tags=["extension"])
async def list_docstore_syncs(
    request: ListDocstoreSyncsRequest, connection: ConnectionDep, caller: CallerDep
) -> ListDocstoreSyncsResponse:
    """List the syncs into collections that the caller may edit."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await service.list_syncs(connection, caller, request=request)
    return ListDocstoreSyncsResponse(docstore_syncs=list(page.items), next_page_token=page.next_page_token)


@router.post("/listDocstoreFailures", tags=["extension"])
async def list_docstore_failures(
    request: ListDocstoreFailuresRequest, connection: ConnectionDep, caller: CallerDep
) -> ListDocstoreFailuresResponse:
    """List the source documents that a sync could not take, and why."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await service.list_failures(connection, caller, request=request)
    return ListDocstoreFailuresResponse(failures=list(page.items), next_page_token=page.next_page_token)


@router.post("/deleteDocstoreSync", tags=["extension"])
@idempotent
async def delete_docstore_sync(
    request: DeleteDocstoreSyncRequest, connection: ConnectionDep, caller: CallerDep
) -> DeleteDocstoreSyncResponse:
    """Delete a sync and its address; the documents that it brought stay."""
    caller = await acting_for(connection, caller, request.user_email)
    await service.delete_sync(connection, caller, sync_id=request.docstore_credential_id)
    return DeleteDocstoreSyncResponse(docstore_credential_id=request.docstore_credential_id)
