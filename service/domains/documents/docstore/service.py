"""Rules of syncs: who may create, see, launch, change and delete one, and which addresses it may connect to.

EDITORs of a collection create, see and launch its syncs. The documents are the creator's, and runs act as that
principal, until an admin hands both over. So only that principal or an admin changes or deletes a sync.
"""

import asyncio
import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire import docstore as wire
from carrel.wire.common import Role
from service.audit.service import record, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller
from service.domains.documents.collections.queries import read_collection
from service.domains.documents.collections.service import require_collection
from service.domains.documents.docstore import queries
from service.domains.documents.docstore.filters import filter_query
from service.domains.documents.docstore.queries import StoredSync, SyncKey
from service.domains.documents.docstore.running.task import RUN_SYNC
from service.permissions.service import resolve_readers
from service.platform.errors import Forbidden, NotFound
from service.platform.identifiers import uuid7
from service.platform.networks import AllowedHosts
from service.platform.sealing import seal
from service.runtime import Runtime
from service.web.pagination import Cursor

TARGET = "docstoreSync"


def unknown_sync() -> NotFound:
    """Return the one error for a sync that is unknown or that the caller may not know about."""
    return NotFound(
        "There is no such sync. Check the docstoreCredentialId, or create it first.", code="docstore_sync_not_found"
    )


async def create_sync(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, *, request: wire.CreateDocstoreSyncRequest
) -> wire.CreateDocstoreSyncResponse:
    """Keep a collection as a collection of a document database has it, and launch the first run.

    Raises BadRequest for an address, filter or reader that isn't accepted; NotFound or Forbidden for the collection.
    """
    await _check(runtime, request.docstore_uri, request.config)
    collection = await require_collection(
        connection, caller, collection_id=request.document_collection_id, at_least=Role.EDITOR, lock=True
    )
    await _check_readers(connection, caller, request.config)
    sync_id = uuid7()
    await queries.insert_sync(
        connection,
        caller,
        sync_id=sync_id,
        collection_id=collection.collection_id,
        sealed_uri=_seal(runtime, caller, sync_id, request.docstore_uri),
        config=_to_json(request.config),
    )
    launched = await _launch(
        runtime, connection, caller, sync_id, collection_id=collection.collection_id, action="docstore.create_sync"
    )
    return wire.CreateDocstoreSyncResponse(**dict(launched))


async def update_sync(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, *, request: wire.UpdateDocstoreSyncRequest
) -> wire.UpdateDocstoreSyncResponse:
    """Replace a sync's address and config, and launch a run (beta).

    Raises as `create_sync`; NotFound for an unknown sync, Forbidden `docstore_sync_owner_required`.
    """
    await _check(runtime, request.docstore_uri, request.config)
    sync = await _own_sync(connection, caller, request.docstore_credential_id)
    before = await queries.read_sync(connection, _key(caller, sync.sync_id))
    await refuse_stale(connection, caller, request.version, before, target_id=sync.sync_id)
    await _check_readers(connection, caller, request.config)
    await queries.replace_sync(
        connection,
        _key(caller, sync.sync_id),
        sealed_uri=_seal(runtime, caller, sync.sync_id, request.docstore_uri),
        config=_to_json(request.config),
    )
    after = await queries.read_sync(connection, _key(caller, sync.sync_id))
    about = ("docstore.update_sync", TARGET, sync.sync_id)
    change = change_between(*about, before, after, details={"collectionId": str(sync.collection_id)})
    await record_all(connection, caller, changes=[change])
    await _enqueue(runtime, connection, caller.organization_id, sync.sync_id)
    return wire.UpdateDocstoreSyncResponse(**dict(_to_launched(sync.sync_id, launched=True)))


async def launch_sync(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, *, request: wire.LaunchDocstoreSyncRequest
) -> wire.LaunchDocstoreSyncResponse:
    """Launch a run of a sync as it is, from where the last run stopped, unless one is running; for EDITORs."""
    sync_id = request.docstore_credential_id
    sync = await _known_sync(connection, caller, sync_id, lock=True)
    if await queries.request_run(connection, _key(caller, sync_id)):
        launched = await _launch(
            runtime, connection, caller, sync_id, collection_id=sync.collection_id, action="docstore.launch_sync"
        )
    else:
        launched = _to_launched(sync_id, launched=False)
    return wire.LaunchDocstoreSyncResponse(**dict(launched))


async def get_sync(
    connection: AsyncConnection, caller: Caller, *, request: wire.GetDocstoreSyncRequest
) -> wire.GetDocstoreSyncResponse:
    """Show a sync and how its last run went, to EDITORs of its collection and admins; 404 for others."""
    sync_id = request.docstore_credential_id
    await _known_sync(connection, caller, sync_id)
    return wire.GetDocstoreSyncResponse(**dict(await queries.read_sync(connection, _key(caller, sync_id))))


async def list_syncs(
    connection: AsyncConnection, caller: Caller, *, request: wire.ListDocstoreSyncsRequest
) -> wire.ListDocstoreSyncsResponse:
    """List the syncs into collections that the caller may edit."""
    cursor = Cursor.read(caller, operation=wire.LIST_DOCSTORE_SYNCS.path, request=request)
    rows = await queries.list_syncs(
        connection, caller, collection_id=request.document_collection_id, after=cursor.after_id, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda sync: [str(sync.docstore_credential_id)])
    return wire.ListDocstoreSyncsResponse(docstore_syncs=page.items, next_page_token=page.next_page_token)


async def list_failures(
    connection: AsyncConnection, caller: Caller, *, request: wire.ListDocstoreFailuresRequest
) -> wire.ListDocstoreFailuresResponse:
    """List the source documents that a sync could not take, and why; 404 as for `getDocstoreSync`."""
    cursor = Cursor.read(caller, operation=wire.LIST_DOCSTORE_FAILURES.path, request=request)
    sync = await _known_sync(connection, caller, request.docstore_credential_id)
    rows = await queries.list_failures(
        connection, _key(caller, sync.sync_id), after=cursor.after_id, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: [str(row.document_id)])
    return wire.ListDocstoreFailuresResponse(
        failures=[_failure(row) for row in page.items], next_page_token=page.next_page_token
    )


async def delete_sync(
    connection: AsyncConnection, caller: Caller, *, request: wire.DeleteDocstoreSyncRequest
) -> wire.DeleteDocstoreSyncResponse:
    """Delete a sync and its address, for its creator and admins; its documents stay, and a run in progress ends."""
    sync = await _own_sync(connection, caller, request.docstore_credential_id)
    await queries.delete_sync(connection, _key(caller, sync.sync_id))
    await _record(connection, caller, "docstore.delete_sync", sync.sync_id, sync.collection_id)
    return wire.DeleteDocstoreSyncResponse(docstore_credential_id=request.docstore_credential_id)


async def hand_over_syncs(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, *, syncs: Sequence[StoredSync], owner_id: UUID
) -> None:
    """Let locked syncs act as another principal; a run in progress is replaced by one that continues it."""
    await queries.set_syncs_owner(
        connection,
        caller.organization_id,
        sync_ids=[one.sync_id for one in syncs],
        principal_id=owner_id,
        credential_id=caller.credential_id,
    )
    for one in syncs:
        if one.status == wire.DocstoreSyncStatus.RUNNING:
            await _enqueue(runtime, connection, caller.organization_id, one.sync_id)


def _key(caller: Caller, sync_id: UUID) -> SyncKey:
    return SyncKey(caller.organization_id, sync_id)


def _seal(runtime: Runtime, caller: Caller, sync_id: UUID, uri: SecretStr) -> bytes:
    return seal(runtime.keys.docstore_key(caller.organization_id), row_id=sync_id, secret=uri)


async def _check(runtime: Runtime, uri: SecretStr, config: wire.DocstoreConfig) -> None:
    # The module that reads addresses imports MongoDB's driver, and is loaded late as that is (see `running.task`).
    await asyncio.to_thread(import_module, "service.domains.documents.docstore.uris")
    from service.domains.documents.docstore.uris import check_uri  # noqa: PLC0415 - see above

    check_uri(uri, AllowedHosts.of(runtime.settings.docstore_allowed_hosts))
    filter_query(config.filter_expression)


async def _check_readers(connection: AsyncConnection, caller: Caller, config: wire.DocstoreConfig) -> None:
    await resolve_readers(
        connection,
        caller.organization_id,
        emails=config.allowed_users_email_addresses or (),
        group_ids=config.allowed_group_ids or (),
    )


async def _known_sync(connection: AsyncConnection, caller: Caller, sync_id: UUID, *, lock: bool = False) -> StoredSync:
    sync = await queries.get_sync(connection, _key(caller, sync_id), lock=lock)
    if sync is None:
        raise unknown_sync()
    collection = await read_collection(connection, caller, collection_id=sync.collection_id)
    is_editor = collection is not None and collection.role in {Role.OWNER, Role.EDITOR}
    if not is_editor and not caller.is_admin:
        raise unknown_sync()
    return sync


async def _own_sync(connection: AsyncConnection, caller: Caller, sync_id: UUID) -> StoredSync:
    sync = await _known_sync(connection, caller, sync_id, lock=True)
    if sync.principal_id != caller.principal_id and not caller.is_admin:
        raise Forbidden(
            "Only the person who made this sync, or an admin, may change or delete it: it writes in that person's name."
            " Create one of your own.",
            code="docstore_sync_owner_required",
        )
    return sync


async def _record(connection: AsyncConnection, caller: Caller, action: str, sync_id: UUID, collection_id: UUID) -> None:
    details = {"collectionId": str(collection_id)}
    await record(connection, caller, action=action, target_type=TARGET, target_id=sync_id, details=details)


async def _launch(
    runtime: Runtime, connection: AsyncConnection, caller: Caller, sync_id: UUID, *, collection_id: UUID, action: str
) -> wire.DocstoreSyncLaunched:
    await _record(connection, caller, action, sync_id, collection_id)
    await _enqueue(runtime, connection, caller.organization_id, sync_id)
    return _to_launched(sync_id, launched=True)


async def _enqueue(runtime: Runtime, connection: AsyncConnection, organization_id: UUID, sync_id: UUID) -> None:
    lock = f"docstore:{sync_id}"
    await runtime.jobs.enqueue(connection, RUN_SYNC, organization_id=organization_id, lock=lock, sync_id=sync_id)


def _to_json(config: wire.DocstoreConfig) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(config.to_json()))


def _to_launched(sync_id: UUID, *, launched: bool) -> wire.DocstoreSyncLaunched:
    return wire.DocstoreSyncLaunched(docstore_credential_id=sync_id, resource_id=str(sync_id), sync_launched=launched)


def _failure(row: queries.StoredFailure) -> wire.DocstoreFailure:
    return wire.DocstoreFailure(
        source_id=json.loads(row.source_id),
        document_external_id=row.external_id,
        code=row.code,
        message=row.message,
        failed_at=row.failed_at,
    )
