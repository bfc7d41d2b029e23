"""Rules of syncs and their addresses. EDITORs of a collection create, see and launch syncs. Documents and runs are the
creator's until an admin hands both over. Only the current principal or an admin changes or deletes a sync."""

import asyncio
import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import docstore as wire
from carrel.wire.common import Role
from service.alerting.telling import Telling
from service.audit.service import record, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller, acting_for
from service.domains.documents.collections.queries import read_collection
from service.domains.documents.collections.service import require_collection
from service.domains.documents.docstore import queries
from service.domains.documents.docstore.filters import filter_query
from service.domains.documents.docstore.queries import StoredSync, SyncKey
from service.domains.documents.docstore.running.run import RunError, unseal_uri
from service.domains.documents.docstore.running.task import RUN_SYNC
from service.permissions.service import resolve_readers
from service.platform.errors import BadRequest, FieldError, Forbidden, NotFound, require
from service.platform.identifiers import uuid7
from service.platform.networks import AllowedHosts
from service.platform.secrets import seal
from service.runtime import Runtime
from service.web.pagination import Cursor

TARGET = "docstoreSync"
# Members of a config whose changes keep the position of the next run.
_APART = ("sync_name", "delete_missing", "delete_limit_percent")


def unknown_sync() -> NotFound:
    return NotFound(
        "There is no such sync. Check the docstoreCredentialId, or create it first.", code="docstore_sync_not_found"
    )


async def create_sync(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.CreateDocstoreSyncRequest
) -> wire.CreateDocstoreSyncResponse:
    """Keep a collection up to date with a document database's collection, and launch the first run.

    Raises BadRequest for an unacceptable address, filter or reader; NotFound or Forbidden for the collection."""
    await _check_source(runtime, request.docstore_uri, request.config)
    collection = await require_collection(
        connection, caller, collection_id=request.document_collection_id, at_least=Role.EDITOR, lock=True
    )
    await resolve_readers(connection, caller.organization_id, request.config)
    sync_id = uuid7()
    await queries.insert_sync(
        connection,
        caller,
        sync_id=sync_id,
        collection_id=collection.collection_id,
        sealed_uri=_seal(runtime, caller, sync_id, request.docstore_uri),
        config=_to_json(request.config),
    )
    await _record(connection, caller, "docstore.create_sync", sync_id, collection.collection_id)
    await _enqueue(runtime, connection, caller.organization_id, sync_id)
    return wire.CreateDocstoreSyncResponse(**dict(_to_launched(sync_id, launched=True)))


async def update_sync(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.UpdateDocstoreSyncRequest
) -> wire.UpdateDocstoreSyncResponse:
    """Replace a sync's config, and its address if given, and launch a run (beta).

    Raises the errors of `create_sync`, `_unseal` and `_own_sync`, and Conflict for a stale version."""
    uri, config = request.docstore_uri, request.config
    await _check_source(runtime, uri, config)
    sync = await _own_sync(connection, caller, request.docstore_credential_id)
    before = await queries.read_sync(connection, _key(caller, sync.sync_id))
    await refuse_stale(connection, caller, request.version, before, target_id=sync.sync_id)
    await resolve_readers(connection, caller.organization_id, config)
    if uri is None:
        _unseal(runtime, caller, sync, config)
    old = wire.DocstoreConfig.model_validate(sync.config)
    await queries.replace_sync(
        connection,
        _key(caller, sync.sync_id),
        sealed_uri=None if uri is None else _seal(runtime, caller, sync.sync_id, uri),
        config=_to_json(config),
        rewind=uri is not None or old.model_copy(update={item: getattr(config, item) for item in _APART}) != config,
    )
    after = await queries.read_sync(connection, _key(caller, sync.sync_id))
    about = ("docstore.update_sync", TARGET, sync.sync_id)
    change = change_between(*about, before, after, details={"collectionId": str(sync.collection_id)})
    await record_all(connection, caller, changes=[change])
    await _enqueue(runtime, connection, caller.organization_id, sync.sync_id)
    return wire.UpdateDocstoreSyncResponse(**dict(_to_launched(sync.sync_id, launched=True)))


async def launch_sync(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.LaunchDocstoreSyncRequest
) -> wire.LaunchDocstoreSyncResponse:
    """Launch a run of a sync, from the last position, unless a run is in progress. Only owners approve removals."""
    sync_id, approved = request.docstore_credential_id, request.approved_removals
    find = _own_sync if approved else _known_sync
    sync = await find(connection, caller, sync_id, lock=True)
    if approved:
        number = await queries.approve_removals(connection, _key(caller, sync_id), document_ids=approved)
        await _record(connection, caller, "docstore.approve_removals", sync_id, sync.collection_id, approved=number)
    is_requested = await queries.request_run(connection, _key(caller, sync_id))
    if is_requested:
        await _record(connection, caller, "docstore.launch_sync", sync_id, sync.collection_id)
        await _enqueue(runtime, connection, caller.organization_id, sync_id)
    return wire.LaunchDocstoreSyncResponse(**dict(_to_launched(sync_id, launched=is_requested)))


async def get_sync(
    connection: Connection, caller: Caller, *, request: wire.GetDocstoreSyncRequest
) -> wire.GetDocstoreSyncResponse:
    """Show a sync and the outcome of the last run, to EDITORs of its collection and admins; 404 for other callers."""
    sync_id = request.docstore_credential_id
    await _known_sync(connection, caller, sync_id)
    return wire.GetDocstoreSyncResponse(**dict(await queries.read_sync(connection, _key(caller, sync_id))))


async def list_syncs(
    connection: Connection, caller: Caller, *, request: wire.ListDocstoreSyncsRequest
) -> wire.ListDocstoreSyncsResponse:
    """List the syncs into collections the caller may edit."""
    cursor = Cursor.read(caller, operation=wire.LIST_DOCSTORE_SYNCS.path, request=request)
    rows = await queries.list_syncs(connection, caller, cursor.window, collection_id=request.document_collection_id)
    return cursor.answer(wire.ListDocstoreSyncsResponse, rows, "docstore_credential_id")


async def list_failures(
    connection: Connection, caller: Caller, *, request: wire.ListDocstoreFailuresRequest
) -> wire.ListDocstoreFailuresResponse:
    """List the source documents a sync failed to load, with reasons; 404 as for `getDocstoreSync`."""
    cursor = Cursor.read(caller, operation=wire.LIST_DOCSTORE_FAILURES.path, request=request)
    sync = await _known_sync(connection, caller, request.docstore_credential_id)
    rows = await queries.list_failures(connection, _key(caller, sync.sync_id), cursor.window)
    page = cursor.page(rows, position=lambda row: [str(row[0])])
    failures = [failure for _, failure in page.items]
    return wire.ListDocstoreFailuresResponse(failures=failures, next_page_token=page.next_page_token)


async def list_held_removals(
    connection: Connection, caller: Caller, *, request: wire.ListDocstoreHeldRemovalsRequest
) -> wire.ListDocstoreHeldRemovalsResponse:
    """List the document removals that a sync's limit blocked. For callers who may change the sync."""
    cursor = Cursor.read(caller, operation=wire.LIST_DOCSTORE_HELD_REMOVALS.path, request=request)
    sync = await _own_sync(connection, caller, request.docstore_credential_id, lock=False)
    rows = await queries.list_held(connection, _key(caller, sync.sync_id), cursor.window)
    held_count = await queries.count_held_removals(connection, _key(caller, sync.sync_id))
    return cursor.answer(wire.ListDocstoreHeldRemovalsResponse, rows, "document_id", held_count=held_count)


async def list_runs(
    connection: Connection, caller: Caller, *, request: wire.ListDocstoreRunsRequest
) -> wire.ListDocstoreRunsResponse:
    """List the last finished runs of a sync, newest first; 404 as for `getDocstoreSync`."""
    sync = await _known_sync(connection, caller, request.docstore_credential_id)
    return wire.ListDocstoreRunsResponse(runs=await queries.list_runs(connection, _key(caller, sync.sync_id)))


async def preview_sync(
    runtime: Runtime, caller: Caller, *, request: wire.PreviewDocstoreSyncRequest
) -> wire.PreviewDocstoreSyncResponse:
    """Connect to a document database like a sync, and map the first documents; saves only an audit entry."""
    async with runtime.database.transaction(caller.organization_id) as connection:
        caller = await acting_for(connection, caller, request.user_email)
        await _check_source(runtime, request.docstore_uri, request.config)
        collection_id = request.document_collection_id
        await require_collection(connection, caller, collection_id=collection_id, at_least=Role.EDITOR)
        uri, sync_id, target = request.docstore_uri, request.docstore_credential_id, ("collection", collection_id)
        if uri is None and sync_id is not None:
            sync, target = await _own_sync(connection, caller, sync_id, lock=False), (TARGET, sync_id)
            uri = _unseal(runtime, caller, sync, request.config)
        if uri is not None:
            details = {"collectionId": str(collection_id)}
            await record(connection, caller, "docstore.preview_sync", *target, details=details)
    await asyncio.to_thread(import_module, "service.domains.documents.docstore.previewing")
    from service.domains.documents.docstore.previewing import preview, refusal  # noqa: PLC0415 - see `_check_source`

    if uri is None:
        return refusal("docstore_uri_missing", "Send docstoreURI, or the docstoreCredentialId of a sync.")
    return await preview(runtime, uri, request)


async def delete_sync(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.DeleteDocstoreSyncRequest
) -> wire.DeleteDocstoreSyncResponse:
    """Delete a sync and its address. For its owner and admins; documents stay, a run in progress and its alerts end."""
    sync = await _own_sync(connection, caller, request.docstore_credential_id)
    await queries.delete_sync(connection, _key(caller, sync.sync_id))
    await Telling(runtime, connection, caller.organization_id).end_settled()
    await _record(connection, caller, "docstore.delete_sync", sync.sync_id, sync.collection_id)
    return wire.DeleteDocstoreSyncResponse(docstore_credential_id=request.docstore_credential_id)


async def hand_over_syncs(
    runtime: Runtime, connection: Connection, caller: Caller, *, syncs: Sequence[StoredSync], owner_id: UUID
) -> None:
    """Let locked syncs act as another principal; a new run continues and replaces a run in progress."""
    sync_ids = [item.sync_id for item in syncs]
    await queries.set_syncs_owner(connection, caller, sync_ids=sync_ids, principal_id=owner_id)
    for sync in syncs:
        if sync.status == wire.DocstoreSyncStatus.RUNNING:
            await _enqueue(runtime, connection, caller.organization_id, sync.sync_id)


def _key(caller: Caller, sync_id: UUID) -> SyncKey:
    return SyncKey(caller.organization_id, sync_id)


def _seal(runtime: Runtime, caller: Caller, sync_id: UUID, uri: SecretStr) -> bytes:
    return seal(runtime.keys.docstore_key(caller.organization_id), row_id=sync_id, secret=uri)


def _unseal(runtime: Runtime, caller: Caller, sync: StoredSync, config: wire.DocstoreConfig) -> SecretStr:
    """Return the address; BadRequest `docstore_uri_required` for a new collection, `docstore_uri_lost` without key."""
    if config.collection_name != sync.config["collectionName"]:
        message = "To read another collection of the database, send its address again."
        raise BadRequest(message, code="docstore_uri_required", details=[FieldError("docstoreURI", message)])
    try:
        return unseal_uri(runtime, caller.organization_id, sync)
    except RunError as error:
        message = "The address of this sync was lost with the secret key. Send docstoreURI."
        raise BadRequest(message, code="docstore_uri_lost") from error


async def _check_source(runtime: Runtime, uri: SecretStr | None, config: wire.DocstoreConfig) -> None:
    # `uris` imports MongoDB's driver, which is loaded late (see `running.task`).
    await asyncio.to_thread(import_module, "service.domains.documents.docstore.uris")
    from service.domains.documents.docstore.uris import check_uri  # noqa: PLC0415 - see above

    if uri is not None:
        check_uri(uri, AllowedHosts.of(runtime.settings.docstore_allowed_hosts))
    filter_query(config.filter_expression)


async def _known_sync(connection: Connection, caller: Caller, sync_id: UUID, *, lock: bool = False) -> StoredSync:
    """Return a sync into a collection that the caller may edit, or any for an admin; NotFound otherwise."""
    sync = require(await queries.get_sync(connection, _key(caller, sync_id), lock=lock), unknown_sync())
    collection = await read_collection(connection, caller, collection_id=sync.collection_id)
    is_editor = collection is not None and collection.role in {Role.OWNER, Role.EDITOR}
    if not is_editor and not caller.is_admin:
        raise unknown_sync()
    return sync


async def _own_sync(connection: Connection, caller: Caller, sync_id: UUID, *, lock: bool = True) -> StoredSync:
    """Return a sync that acts as the caller, or any for an admin; NotFound if not `_known_sync`, else Forbidden."""
    sync = await _known_sync(connection, caller, sync_id, lock=lock)
    if sync.principal_id != caller.principal_id and not caller.is_admin:
        raise Forbidden(
            "This sync writes as its creator, so only the creator or an admin may change or delete it. Create your own "
            "sync.",
            code="docstore_sync_owner_required",
        )
    return sync


async def _record(
    connection: Connection, caller: Caller, action: str, sync_id: UUID, collection_id: UUID, **members: int
) -> None:
    details = {"collectionId": str(collection_id), **members}
    await record(connection, caller, action, TARGET, sync_id, details=details)


async def _enqueue(runtime: Runtime, connection: Connection, organization_id: UUID, sync_id: UUID) -> None:
    lock = f"docstore:{sync_id}"
    await runtime.jobs.enqueue(connection, RUN_SYNC, organization_id=organization_id, lock=lock, sync_id=sync_id)


def _to_json(config: wire.DocstoreConfig) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(config.to_json()))


def _to_launched(sync_id: UUID, *, launched: bool) -> wire.DocstoreSyncLaunched:
    return wire.DocstoreSyncLaunched(docstore_credential_id=sync_id, resource_id=str(sync_id), sync_launched=launched)
