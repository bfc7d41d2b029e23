"""Rules of the trash. A deleted document can no longer be found or read; while the trash keeps it, its owner and admins
restore it or delete it for good. A restored document has at most its previous readers."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import trash as wire
from carrel.wire.common import Role
from service.audit.service import Change, record, record_all
from service.auth.callers import Caller, acting_for
from service.domains.documents.catalog.queries import save_version
from service.domains.documents.catalog.trash import queries
from service.domains.documents.catalog.trash.queries import Kept
from service.domains.documents.collections.membership import place_document
from service.domains.documents.collections.queries import read_collection
from service.domains.documents.collections.service import Placement
from service.domains.documents.recognition.jobs import enqueue_reading, has_unread_pages
from service.domains.documents.stored import queries as stored
from service.domains.documents.stored.containers import enqueue_unpacking
from service.domains.people.directory.queries import erase_old_groups
from service.identity.queries import list_principals, organization_ids
from service.index.ingestion.queries import ask_indexing
from service.index.progress import Half
from service.permissions.access import Access
from service.permissions.rights import role_in
from service.permissions.service import ask_registration
from service.platform.background import for_each_organization
from service.platform.batches import Batch
from service.platform.database import Database
from service.platform.errors import Conflict, NotFound
from service.platform.identifiers import uuid7
from service.runtime import Runtime
from service.web.pagination import Cursor

ERASED_AT_ONCE = 1000


async def keep(connection: Connection, caller: Caller, document: stored.StoredDocument, *, days: int) -> UUID | None:
    """Move a locked document's versions and text into the trash before its deletion, and return the id there. Returns
    None without a trash, and for a file in a container: restoring the container restores its files."""
    if not days or document.container_id is not None:
        return None
    ids, by = {"document_id": document.document_id, "trashed_document_id": uuid7()}, caller.principal_id
    await queries.keep_document(connection, caller.organization_id, **ids, deleted_by=by)
    return ids["trashed_document_id"]


async def list_trashed(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.ListTrashedDocumentsRequest
) -> wire.ListTrashedDocumentsResponse:
    """List documents in the trash, last deleted first: the caller's own, or for an admin all documents."""
    cursor = Cursor.read(caller, operation=wire.LIST_TRASHED_DOCUMENTS.path, request=request)
    after = (datetime.fromisoformat(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else None
    name, days = request.document_name, runtime.settings.trash_days
    rows = await queries.list_kept(connection, caller, days=days, name=name, after=after, limit=cursor.limit)
    return cursor.answer(wire.ListTrashedDocumentsResponse, rows, "deleted_at", "trashed_document_id", trash_days=days)


async def delete_for_good(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.DeleteTrashedDocumentsRequest
) -> wire.DeleteTrashedDocumentsResponse:
    """Delete documents in the trash for good, for owners and admins; skip unknown ids. 404 if every id is unknown."""
    trashed = await _lock_trashed(runtime, connection, caller, request.trashed_document_ids)
    ids = [item.trashed_document_id for item in trashed]
    # Use the trashed id: another document may have the earlier id by now.
    details = [{"documentId": str(item.document_id), "version": item.version} for item in trashed]
    changes = [Change("document.erase", "document", *entry) for entry in zip(ids, details, strict=True)]
    await record_all(connection, caller, changes=changes)
    await queries.erase_kept(connection, caller.organization_id, ids=ids)
    return wire.DeleteTrashedDocumentsResponse(trashed_document_ids=ids)


async def restore(
    runtime: Runtime, caller: Caller, *, request: wire.RestoreDocumentRequest
) -> wire.RestoreDocumentResponse:
    """Restore a document from the trash with its previous rights or fewer, for its owner and admins, and wait a while
    for its words. 404 if not (any more) in the trash, 409 `external_id_in_use`, `resource_taken`, 503 if too busy."""
    organization_id = caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        caller = await acting_for(connection, caller, request.user_email)
        [kept] = await _lock_trashed(runtime, connection, caller, [request.trashed_document_id])
        which: dict[str, Any] = {"document_id": kept.document_id}
        version = await _next_version(connection, caller, kept)
        runtime.indexer.refuse_backlog(organization_id)
        await queries.give_back(connection, organization_id, kept)
        file = await stored.read_file(connection, organization_id, **which, version=kept.version)
        assert file is not None  # noqa: S101 - the version was just moved
        readers_left_out, space_ids = await _write_restored(connection, caller, kept, file, version=version)
        placed, places_left_out, values_left_out = await _place_again(connection, caller, kept, version=version)
        if file.file_count:
            await enqueue_unpacking(runtime, connection, caller, kept.document_id)
        if file.reads_pictures or has_unread_pages(file.not_read):
            await enqueue_reading(runtime, connection, organization_id, **which)
    space_ids += placed
    waiter = runtime.indexer.request(organization_id, **which, space_ids=space_ids, is_begun=False, half=Half.WORDS)
    await runtime.indexer.wait(waiter, seconds=runtime.settings.inline_indexing_seconds)
    return wire.RestoreDocumentResponse(
        **which,
        document_name=kept.fields.name,
        document_external_id=kept.fields.external_id,
        document_version=version,
        readers_left_out=readers_left_out or None,
        collections_left_out=sorted(places_left_out) or None,
        values_left_out=values_left_out or None,
    )


async def _lock_trashed(runtime: Runtime, connection: Connection, caller: Caller, ids: Collection[UUID]) -> list[Kept]:
    """Lock the documents in the trash that the caller may restore; NotFound if there is none."""
    locked = await queries.lock_kept(connection, caller, ids=ids, days=runtime.settings.trash_days)
    if not locked:
        raise NotFound(
            "The trash has no such document: it was restored or deleted for good. To list the documents that you may "
            "restore, call catalog/listTrashedDocuments.",
            code="trashed_document_not_found",
        )
    return locked


async def _next_version(connection: Connection, caller: Caller, kept: Kept) -> int:
    """Block uploads of the id, and return the version to restore; Conflict `external_id_in_use` for a taken id."""
    batch, document_id = Batch(), kept.document_id
    # Like an upload, block uploads with the same external id until the commit.
    stored.lock_document(batch, document_id)
    answer = stored.ask_document(batch, caller.organization_id, document_id=document_id)
    last = stored.ask_version(batch, caller.organization_id, document_id=document_id)
    await batch.run(connection)
    if (other := answer.document) is None:
        return 1 + (last.row or {"version": kept.version})["version"]
    reason = "now has this document's external id."
    if caller.is_admin or role_in(other.access, caller) is not None:
        message = f"{other.fields.name} (documentId {document_id}) {reason} Delete that document first."
    else:
        message = f"Another document, which you may not read, {reason} Ask an admin."
    raise Conflict(message, code="external_id_in_use")


async def _write_restored(
    connection: Connection, caller: Caller, kept: Kept, file: stored.StoredFile, *, version: int
) -> tuple[list[str], list[int]]:
    """Write the document with the rights left, and audit; Conflict `resource_taken`. Return the readers left out (only
    their number, except for admins) and the spaces to index."""
    organization_id, document_id = caller.organization_id, kept.document_id
    ids = [UUID(reader["id"]) for reader in kept.readers]
    principals = await list_principals(connection, organization_id, principal_ids=ids)
    living = {str(principal.principal_id) for principal in principals if principal.deleted_at is None}
    grants = [(UUID(row["id"]), row["role"]) for row in kept.readers if row["id"] in living]
    access = Access.of(grants).owned_by(kept.fields.owner_id)
    batch = Batch()
    registration = ask_registration(
        batch,
        organization_id,
        object_id=document_id,
        resource_type=kept.resource_type,
        resource_id=kept.resource_id,
        access=access,
    )
    save_version(
        batch,
        organization_id,
        document_id=document_id,
        version=version,
        fields=kept.fields,
        file=replace(file, files_done=0) if file.file_count else file,
        created_by=caller.principal_id,
        blocks=None,
    )
    spaces = ask_indexing(
        batch, organization_id, document_id=document_id, version=version, collections_too=False, is_begun=False
    )
    await batch.run(connection)
    try:
        await registration.complete(connection)
    except Conflict as error:
        message = "Another document now has this document's resourceType and resourceId. Delete that document first."
        raise Conflict(message, code="resource_taken") from error
    details = {"version": version, "viewers": sorted(map(str, access.viewers))}
    details |= {"editors": sorted(map(str, access.editors))}
    await record(connection, caller, "document.restore", "document", document_id, details=details)
    left_out = sorted({row["name"] for row in kept.readers if row["id"] not in living})
    if left_out and not caller.is_admin:
        # Only admins may know the readers that other admins chose.
        left_out = ["1 reader" if len(left_out) == 1 else f"{len(left_out)} readers"]
    return left_out, [space.space_id for space in spaces.rows]


async def _place_again(
    connection: Connection, caller: Caller, kept: Kept, *, version: int
) -> tuple[list[int], list[str], list[str]]:
    """Add a restored document to the earlier collections that the caller may edit. Return the spaces, and the names of
    omitted collections known to the caller, and of omitted values."""
    space_ids, places, unfit = list[int](), list[str](), list[str]()
    for place in kept.collections:
        collection = await read_collection(connection, caller, collection_id=UUID(place["collection_id"]), lock=True)
        role = None if collection is None else collection.role
        may_add = caller.is_admin or role in {Role.OWNER, Role.EDITOR}
        if collection is not None and may_add and not place["caller_chunks"]:
            metadata, fields = place["custom_metadata"], collection.schema
            read = {name: fields[name].read(value) for name, value in metadata.items() if name in fields}
            values = {name: value for name, value in read.items() if value is not None}
            unfit += (f"{place['name']}: {name}" for name in metadata if name not in values)
            placement = Placement(kept.document_id, collection, None, values)
            await place_document(connection, caller, placement, version=version)
            space_ids.append(collection.space_id)
        # Other callers may not learn that this collection exists or existed.
        elif caller.is_admin or role is not None or place["created_by"] == str(caller.principal_id):
            places.append(place["name"])
    return space_ids, places, unfit


async def purge(database: Database, *, days: int) -> None:
    """Delete documents and groups for good after `days` in the trash, some documents in each transaction."""

    async def purge_in(organization_id: UUID) -> None:
        more = True
        while more:
            async with database.transaction(organization_id) as connection:
                ids = await queries.lock_due(connection, organization_id, days=days, limit=ERASED_AT_ONCE)
                await queries.erase_kept(connection, organization_id, ids=ids)
                await erase_old_groups(connection, organization_id, days=days)
            more = bool(ids)

    await for_each_organization(await organization_ids(database), purge_in)
