"""Putting documents, or a caller's chunks, into collections: recorded under a lock, then indexed despite crashes."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import collections as wire
from service.audit.service import Change, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller, acting_for
from service.domains.documents.collections import service
from service.domains.documents.stored.queries import StoredDocument
from service.index.ingestion.contained.queries import request_with_container
from service.index.ingestion.indexing import pack_chunks
from service.index.ingestion.queries import keep_caller_chunks, request_indexing_in_space
from service.index.ingestion.turns import Lane
from service.permissions.queries import lock_contained, lock_objects
from service.platform.identifiers import uuid7
from service.runtime import Runtime


@dataclass(frozen=True, slots=True)
class RecordedMembership:
    """A recorded membership of a document in a collection: whether it changed, and whether to index it."""

    placement: service.Placement
    version: int
    changed: bool = True
    to_index: bool = True


async def add_document(
    runtime: Runtime, caller: Caller, *, request: wire.AddDocumentToCollectionRequest
) -> wire.AddDocumentToCollectionResponse:
    """Add a catalog document to a collection, or update it there, and wait a while for its index. A container's files,
    at every level, are added and indexed later. 404 without READ on the document or a role in the collection, 403 below
    EDITOR, 400 for metadata, 409 for a caller's chunks or a stale version, 503 `indexing_backlog`."""
    async with runtime.database.transaction(caller.organization_id) as connection:
        caller, document, placement = await _lock_place(connection, caller, request)
        service.refuse_caller_chunks(placement)
        recorded = await place_document(connection, caller, placement, version=document.version)
        if recorded.changed and recorded.to_index:
            runtime.indexer.refuse_backlog(caller.organization_id)
        has_files = bool(document.file.file_count)
        if has_files:
            await place_files(connection, caller, container_id=document.document_id)
    if has_files:
        runtime.indexer.note_backlog(caller.organization_id, Lane.SMALL, Lane.LARGE)
    indexed = await _await_index(runtime, caller, recorded, is_begun=False)
    return wire.AddDocumentToCollectionResponse(**dict(indexed))


async def add_chunks(
    runtime: Runtime, caller: Caller, *, request: wire.AddDocumentChunksToCollectionRequest
) -> wire.AddDocumentChunksToCollectionResponse:
    """Add a catalog document to a collection with chunks made by the caller, replacing all earlier chunks there, and
    wait a while for the index. Errors are as for addDocumentToCollection, except for a caller's chunks."""
    runtime.indexer.refuse_backlog(caller.organization_id)
    packed = await asyncio.to_thread(pack_chunks, request.chunks)
    async with runtime.database.transaction(caller.organization_id) as connection:
        caller, document, placement = await _lock_place(connection, caller, request)
        is_begun = runtime.indexer.has_room(caller.organization_id, packed_bytes=len(packed))
        recorded = RecordedMembership(placement, document.version)
        await _request_indexing(connection, caller, recorded, is_begun=is_begun, caller_bytes=len(packed))
        await keep_caller_chunks(
            connection,
            caller.organization_id,
            document_id=document.document_id,
            space_id=placement.collection.space_id,
            batch_id=uuid7(),
            chunks=packed,
        )
        await _record(connection, caller, "collection.add_chunks", recorded, request.custom_metadata)
    indexed = await _await_index(runtime, caller, recorded, is_begun=is_begun, packed_bytes=len(packed))
    return wire.AddDocumentChunksToCollectionResponse(**dict(indexed))


async def reindex_document(
    runtime: Runtime, caller: Caller, *, request: wire.ReindexDocumentInCollectionRequest
) -> wire.ReindexDocumentInCollectionResponse:
    """Index a document's newest contents again, and wait. 404 if not there; errors as for addDocumentToCollection."""
    async with runtime.database.transaction(caller.organization_id) as connection:
        caller, document, placement = await _lock_place(connection, caller, request)
        if placement.membership is None:
            raise service.not_in_collection()
        service.refuse_caller_chunks(placement)
        runtime.indexer.refuse_backlog(caller.organization_id)
        if request.custom_metadata is None:
            placement = replace(placement, metadata=placement.membership.custom_metadata)
        recorded = RecordedMembership(placement, document.version)
        await _request_indexing(connection, caller, recorded, as_unindexed=True)
        await _record(connection, caller, "collection.reindex_document", recorded, request.custom_metadata)
    indexed = await _await_index(runtime, caller, recorded, is_begun=False)
    return wire.ReindexDocumentInCollectionResponse(**dict(indexed))


async def place_document(
    connection: Connection, caller: Caller, placement: service.Placement, *, version: int, is_begun: bool = False
) -> RecordedMembership:
    """Put a locked document into a collection, with audit, if version or metadata changed. Callers check the rights."""
    membership = placement.membership
    changed = membership is None or membership.version != version or membership.custom_metadata != placement.metadata
    to_index = membership is None or membership.indexed_version != version
    recorded = RecordedMembership(placement, version, changed=changed, to_index=to_index)
    if changed:
        await _request_indexing(connection, caller, recorded, is_begun=is_begun)
        await _record(connection, caller, "collection.add_document", recorded, placement.metadata)
    return recorded


async def _request_indexing(
    connection: Connection, caller: Caller, recorded: RecordedMembership, *, is_begun: bool = False, **how: Any
) -> None:
    placement = recorded.placement
    await request_indexing_in_space(
        connection,
        caller.organization_id,
        document_id=placement.document_id,
        space_id=placement.collection.space_id,
        version=recorded.version,
        custom_metadata=placement.metadata,
        is_begun=is_begun,
        **how,
    )


async def place_files(
    connection: Connection, caller: Caller, *, container_id: UUID, document_ids: Collection[UUID] | None = None
) -> None:
    """Put a container's files (None: all) into its collections, to index later, with audit. Locks the files."""
    organization_id = caller.organization_id
    if document_ids is None:
        document_ids = (await lock_contained(connection, organization_id, container_ids=[container_id])).keys()
    else:
        await lock_objects(connection, organization_id, object_ids=document_ids)
    placed = await request_with_container(
        connection, organization_id, container_id=container_id, document_ids=document_ids
    )
    within = str(container_id)
    changes = [
        Change(
            "collection.add_document",
            "document",
            file.document_id,
            {"collectionId": str(file.collection_id), "version": file.version, "containerId": within},
        )
        for file in placed
    ]
    await record_all(connection, caller, changes=changes)


async def _lock_place(
    connection: Connection,
    caller: Caller,
    request: wire.AddDocumentToCollectionRequest
    | wire.AddDocumentChunksToCollectionRequest
    | wire.ReindexDocumentInCollectionRequest,
) -> tuple[Caller, StoredDocument, service.Placement]:
    """Return the caller to act as, the document and its place, both locked. 404, 403, 400, and 409 if stale."""
    caller = await acting_for(connection, caller, request.user_email)
    document = await service.require_document(connection, caller, document_id=request.document_id, lock=True)
    placement = await service.check_placement(
        connection,
        caller,
        document_id=request.document_id,
        collection_id=request.document_collection_id,
        custom_metadata=request.custom_metadata,
    )
    shown = placement.membership and _show(placement.membership.custom_metadata)
    await refuse_stale(connection, caller, request.version, shown, target_id=request.document_id)
    return caller, document, placement


def _show(metadata: Mapping[str, str]) -> wire.MetadataInCollection:
    return wire.MetadataInCollection(custom_metadata=dict(metadata))


async def _record(
    connection: Connection,
    caller: Caller,
    action: str,
    recorded: RecordedMembership,
    metadata: Mapping[str, str] | None,
) -> None:
    membership, document_id = recorded.placement.membership, recorded.placement.document_id
    details = {"collectionId": str(recorded.placement.collection.collection_id), "version": recorded.version}
    change = Change(action, "document", document_id, details)
    if membership is not None and metadata is not None:
        before, after = _show(membership.custom_metadata), _show(metadata)
        change = change_between(action, "document", document_id, before, after, details=details)
    await record_all(connection, caller, changes=[change])


async def _await_index(
    runtime: Runtime, caller: Caller, recorded: RecordedMembership, *, is_begun: bool, packed_bytes: int = 0
) -> wire.CollectionIndexing:
    """Index a document if needed, and wait a while; return its state in the collection, with the texts embedded now."""
    membership, collection = recorded.placement.membership, recorded.placement.collection
    chunk_count, embedded = (membership.chunk_count if membership else 0), 0
    status = wire.CollectionIndexStatus.INDEXED if recorded.changed else wire.CollectionIndexStatus.UNCHANGED
    if recorded.to_index:
        waiter = runtime.indexer.request(
            caller.organization_id,
            document_id=recorded.placement.document_id,
            space_ids=[collection.space_id],
            is_begun=is_begun,
            packed_bytes=packed_bytes,
        )
        outcomes = await runtime.indexer.wait(waiter, seconds=runtime.settings.inline_indexing_seconds)
        status = wire.CollectionIndexStatus.RUNNING if outcomes is None else wire.CollectionIndexStatus.INDEXED
        if outcomes is not None:
            chunk_count = outcomes[collection.space_id].chunk_count
            embedded = outcomes[collection.space_id].embedded_chunk_count
    return wire.CollectionIndexing(
        document_id=recorded.placement.document_id,
        document_collection_id=collection.collection_id,
        document_version=recorded.version,
        chunk_count=chunk_count,
        embedded_chunk_count=embedded,
        status=status,
    )
