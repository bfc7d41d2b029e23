"""Rules of rebuilding an index with another embedding model, one rebuild at a time. EDITORs and admins rebuild a
collection's index, admins the catalog's. Callers learn only of documents visible to them."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import rebuilds as wire
from carrel.wire.common import Role
from service.audit.service import record
from service.auth.callers import Caller, acting_for
from service.domains.documents.collections.queries import read_collection
from service.domains.documents.collections.service import require_collection, unknown_collection
from service.index.ingestion.indexer import Indexer
from service.index.progress import FAILED_AFTER
from service.index.rebuilds import queries
from service.index.rebuilds.queries import Rebuild
from service.index.rebuilds.running import rebuild_organization
from service.index.spaces.queries import SearchedSpace, find_catalog, lock_space, retire_replacement
from service.platform.errors import DATABASE_ERRORS, Conflict, Forbidden, require
from service.platform.identifiers import uuid7
from service.platform.logs import logger
from service.runtime import Runtime
from service.text.embedding import EmbeddingModel
from service.web.pagination import Cursor

TARGET = "indexRebuild"


async def start_rebuild(
    runtime: Runtime, caller: Caller, *, request: wire.StartIndexRebuildRequest
) -> wire.StartIndexRebuildResponse:
    """Build an index with another embedding model while the current index stays in use, then swap both.

    Returns at once, also the same rebuild if running or done. Raises BadRequest for an unknown model, NotFound,
    Forbidden, Conflict `rebuild_running` with a third model, `model_in_use`, `no_catalog` before the first upload."""
    async with runtime.database.transaction(caller.organization_id) as connection:
        caller = await acting_for(connection, caller, request.user_email)
        model = runtime.embedders.get(request.embeddings_model).model
        started = await _start(connection, caller, model=model, request=request)
    if started.status is wire.IndexRebuildStatus.RUNNING:
        runtime.background.spawn(_run_now(runtime.indexer, caller.organization_id))
    # Counting all entries may fail; the rebuild has begun anyway.
    try:
        async with runtime.database.transaction(caller.organization_id, read_only=True) as connection:
            return wire.StartIndexRebuildResponse(**dict(await _to_rebuild(connection, caller, started)))
    except DATABASE_ERRORS as error:
        logger.warning("index_rebuild_not_counted", kind=type(error).__name__)
        return wire.StartIndexRebuildResponse(**dict(_without_counts(caller, started)))


async def get_rebuild(
    connection: Connection, caller: Caller, *, request: wire.GetIndexRebuildRequest
) -> wire.GetIndexRebuildResponse:
    """Show the newest rebuild of an index, with its progress; 404, 403, 409 `no_rebuild`."""
    collection_id = request.document_collection_id
    await _check_rights(connection, caller, collection_id)
    return wire.GetIndexRebuildResponse(
        **dict(await _to_rebuild(connection, caller, await _require_newest(connection, caller, collection_id)))
    )


async def list_failures(
    connection: Connection, caller: Caller, *, request: wire.ListIndexRebuildFailuresRequest
) -> wire.ListIndexRebuildFailuresResponse:
    """List the documents that block a running rebuild and are visible to the caller, with reasons; 404, 403, 409."""
    await _check_rights(connection, caller, request.document_collection_id)
    cursor = Cursor.read(caller, operation=wire.LIST_INDEX_REBUILD_FAILURES.path, request=request)
    rebuild = await _require_newest(connection, caller, request.document_collection_id)
    if rebuild.replaces_space_id is None:
        return wire.ListIndexRebuildFailuresResponse(failures=[], next_page_token=None)
    rows = await queries.list_failures(
        connection, caller, old_id=rebuild.replaces_space_id, new_id=rebuild.space_id, **cursor.window._asdict()
    )
    return cursor.answer(wire.ListIndexRebuildFailuresResponse, rows, "document_id")


async def cancel_rebuild(
    connection: Connection, caller: Caller, *, request: wire.CancelIndexRebuildRequest
) -> wire.CancelIndexRebuildResponse:
    """Cancel a rebuild; the index in use stays. 404, 403, 409 `rebuild_over` if none is running, or `no_rebuild`."""
    collection_id = request.document_collection_id
    space = await _lock_space(connection, caller, collection_id)
    rebuild = await _require_newest(connection, caller, collection_id)
    if rebuild.status != wire.IndexRebuildStatus.RUNNING:
        message = f"No rebuild of this index is running. The newest is {rebuild.status}; getIndexRebuild shows it."
        raise Conflict(message, code="rebuild_over")
    await retire_replacement(connection, caller.organization_id, space_id=space.space_id)
    await queries.finish_rebuild(connection, caller.organization_id, rebuild_id=rebuild.rebuild_id, status="CANCELLED")
    await _record(connection, caller, "index.rebuild_cancel", rebuild)
    return wire.CancelIndexRebuildResponse(
        **dict(await _to_rebuild(connection, caller, await _require_newest(connection, caller, collection_id)))
    )


async def _start(
    connection: Connection, caller: Caller, *, model: EmbeddingModel, request: wire.StartIndexRebuildRequest
) -> Rebuild:
    """Begin a rebuild, with audit, or return the running or completed rebuild with this model. 404, 403, 409."""
    collection_id, organization_id = request.document_collection_id, caller.organization_id
    space = await _lock_space(connection, caller, collection_id)
    newest = await queries.find_newest_rebuild(connection, organization_id, collection_id=collection_id)
    if newest is not None and newest.status == wire.IndexRebuildStatus.RUNNING:
        return await _retry(connection, caller, newest, model=model, force=request.force)
    if space.model == model.name:
        if newest is not None and (newest.status, newest.model) == (wire.IndexRebuildStatus.COMPLETED, model.name):
            return newest
        raise Conflict("The index already uses this model. Choose another model.", code="model_in_use")
    await queries.insert_rebuild(
        connection,
        caller,
        rebuild_id=uuid7(),
        collection_id=collection_id,
        replaced=space,
        model=model,
        forced=request.force,
    )
    started = await _require_newest(connection, caller, collection_id)
    await _record(connection, caller, "index.rebuild_start", started)
    return started


async def _retry(
    connection: Connection, caller: Caller, running: Rebuild, *, model: EmbeddingModel, force: bool
) -> Rebuild:
    """Force a running rebuild to complete, or retry its failed documents; Conflict if it has another model."""
    if running.model != model.name:
        message = f"This index is being rebuilt with {running.model}. Wait for that rebuild, or cancel it first."
        raise Conflict(message, code="rebuild_running")
    if force and not running.forced:
        await queries.force_completion(connection, caller.organization_id, rebuild_id=running.rebuild_id)
        await _record(connection, caller, "index.rebuild_force", running)
    if not force:
        await queries.retry_failed(connection, caller.organization_id, space_id=running.space_id)
    return await _require_newest(connection, caller, running.collection_id)


async def _check_rights(connection: Connection, caller: Caller, collection_id: UUID | None) -> None:
    """Refuse (404, 403) all but admins, and EDITORs of the collection (None: the catalog, for admins alone)."""
    if collection_id is None:
        if not caller.is_admin:
            message = "Only an admin may rebuild the catalog's index. Name a collection, or use an admin's key."
            raise Forbidden(message, code="admin_only")
    elif not caller.is_admin:
        await require_collection(connection, caller, collection_id=collection_id, at_least=Role.EDITOR)
    elif await read_collection(connection, caller, collection_id=collection_id) is None:
        raise unknown_collection()


async def _lock_space(connection: Connection, caller: Caller, collection_id: UUID | None) -> SearchedSpace:
    organization_id = caller.organization_id
    await _check_rights(connection, caller, collection_id)
    if collection_id is not None:
        await queries.lock_collection(connection, organization_id, collection_id=collection_id)
    while True:
        space_id = await _find_space_id(connection, caller, collection_id)
        space = await lock_space(connection, organization_id, space_id=space_id)
        # Another space replaced the catalog's space during the wait: lock that space.
        if space is not None:
            return space


async def _find_space_id(connection: Connection, caller: Caller, collection_id: UUID | None) -> int:
    if collection_id is not None:
        collection = await read_collection(connection, caller, collection_id=collection_id)
        return require(collection, unknown_collection()).space_id
    no_catalog = Conflict("There is no catalog yet. Upload a document to create it.", code="no_catalog")
    return require(await find_catalog(connection, caller.organization_id), no_catalog).space_id


async def _require_newest(connection: Connection, caller: Caller, collection_id: UUID | None) -> Rebuild:
    return require(
        await queries.find_newest_rebuild(connection, caller.organization_id, collection_id=collection_id),
        Conflict("This index has never been rebuilt. Start it with startIndexRebuild.", code="no_rebuild"),
    )


async def _record(connection: Connection, caller: Caller, action: str, rebuild: Rebuild) -> None:
    details = {"model": rebuild.model}
    if rebuild.collection_id is not None:
        details["collectionId"] = str(rebuild.collection_id)
    await record(connection, caller, action, TARGET, rebuild.rebuild_id, details=details)


async def _run_now(indexer: Indexer, organization_id: UUID) -> None:
    while await rebuild_organization(indexer, organization_id):
        pass


def _without_counts(caller: Caller, rebuild: Rebuild) -> wire.IndexRebuild:
    return wire.IndexRebuild(
        index_rebuild_id=rebuild.rebuild_id,
        document_collection_id=rebuild.collection_id,
        embeddings_model=rebuild.model,
        previous_embeddings_model=rebuild.previous_model,
        status=rebuild.status,
        forced=rebuild.forced,
        # Only admins may know how many other documents there are.
        left_count=rebuild.left_count if caller.is_admin else None,
        started_at=rebuild.started_at,
        finished_at=rebuild.finished_at,
    )


async def _to_rebuild(connection: Connection, caller: Caller, rebuild: Rebuild) -> wire.IndexRebuild:
    shown = _without_counts(caller, rebuild)
    if rebuild.replaces_space_id is None:
        return shown
    counts = await queries.count_progress(
        connection, caller, old_id=rebuild.replaces_space_id, new_id=rebuild.space_id, hopeless=FAILED_AFTER
    )
    return shown.model_copy(
        update={
            "status": wire.IndexRebuildStatus.HELD if counts.held else shown.status,
            "document_count": counts.documents,
            "indexed_count": counts.indexed,
            "failed_count": counts.failed,
        }
    )
