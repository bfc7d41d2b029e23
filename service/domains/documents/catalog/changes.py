"""Changes of a document of the catalog without an upload: index it again, by another name too, or delete it everywhere,
a container with the files in it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import catalog as wire
from carrel.wire.common import Role
from service.audit.service import Change, record, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller, acting_for
from service.domains.documents.catalog.documents import lock_known_document
from service.domains.documents.catalog.queries import save_version
from service.domains.documents.stored.queries import StoredDocument, erase_documents
from service.index.ingestion.queries import ask_indexing, request_indexing_in_space
from service.index.service import ensure_catalog_space, remove_everywhere
from service.permissions.queries import lock_contained
from service.permissions.service import unregister_resources
from service.platform.batches import Batch
from service.platform.errors import Forbidden
from service.runtime import Runtime


async def reindex(
    runtime: Runtime, caller: Caller, *, request: wire.ReindexDocumentRequest
) -> wire.ReindexDocumentResponse:
    """Index a document's newest contents again; 404 if hidden, 403 below EDITOR, 503 `indexing_backlog`."""
    document_id, organization_id = request.document_id, caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        caller = await acting_for(connection, caller, request.user_email)
        document = await _lock_editable(runtime, connection, caller, document_id)
        catalog = await ensure_catalog_space(connection, organization_id, model=runtime.embedders.default.model)
        await request_indexing_in_space(
            connection,
            organization_id,
            document_id=document_id,
            space_id=catalog.space_id,
            version=document.version,
            custom_metadata={},
            is_begun=False,
            anew=True,
        )
        details = {"version": document.version}
        await record(connection, caller, "document.reindex", "document", document_id, details=details)
    waiter = runtime.indexer.request(
        organization_id, document_id=document_id, space_ids=[catalog.space_id], is_begun=False
    )
    outcomes = await runtime.indexer.wait(waiter, seconds=runtime.settings.inline_indexing_seconds)
    status = wire.IndexingStatus.RUNNING if outcomes is None else wire.IndexingStatus.DONE
    return wire.ReindexDocumentResponse(document_id=document_id, document_version=document.version, indexing=status)


async def rename(
    runtime: Runtime, caller: Caller, *, request: wire.RenameDocumentRequest
) -> wire.RenameDocumentResponse:
    """Rename a document, whose text is indexed by the name; 404 if hidden, 403 below EDITOR, 503 `indexing_backlog`."""
    document_id, name, organization_id = request.document_id, request.document_name.strip(), caller.organization_id
    async with runtime.database.transaction(organization_id) as connection:
        caller = await acting_for(connection, caller, request.user_email)
        document = await _lock_editable(runtime, connection, caller, document_id)
        before, version = document.fields, document.version
        whose: dict[str, Any] = {"document_id": document_id, "document_external_id": before.external_id}
        shown = wire.RenameDocumentResponse(**whose, document_name=before.name, document_version=version)
        await refuse_stale(connection, caller, request.version, shown, target_id=document_id)
        renamed = replace(before, name=name, named_by="RENAME")
        batch, space_ids = Batch(), list[int]()
        if renamed != before:
            version, by, file = version + 1, caller.principal_id, document.file
            which: dict[str, Any] = {"document_id": document_id, "version": version}
            save_version(batch, organization_id, **which, fields=renamed, file=file, created_by=by, text=None)
            spaces = ask_indexing(batch, organization_id, **which, collections_too=True, is_begun=False)
            await batch.run(connection)
            after = wire.RenameDocumentResponse(**whose, document_name=name, document_version=version)
            about = ("document.rename", "document", document_id)
            change = change_between(*about, shown, after, details={"version": version})
            await record_all(connection, caller, changes=[change])
            space_ids = [each.space_id for each in spaces.rows]
    if space_ids:
        runtime.indexer.request(organization_id, document_id=document_id, space_ids=space_ids, is_begun=False)
    return wire.RenameDocumentResponse(**whose, document_name=name, document_version=version)


async def _lock_editable(runtime: Runtime, connection: Connection, caller: Caller, document_id: UUID) -> StoredDocument:
    document, role = await lock_known_document(connection, caller, document_id=document_id)
    if role not in {Role.OWNER, Role.EDITOR} and not caller.is_admin:
        raise Forbidden(
            "You may read this document, not change it. Ask its owner for the EDITOR role, or an admin to do it.",
            code="document_editor_required",
        )
    runtime.indexer.refuse_backlog(caller.organization_id)
    return document


async def delete_document(
    connection: Connection, caller: Caller, *, request: wire.DeleteDocumentRequest
) -> wire.DeleteDocumentResponse:
    """Delete a document everywhere, with the documents that are files in it; for its owner and admins.

    Its id and versions are never used again."""
    document_id = request.document_id
    document, role = await lock_known_document(connection, caller, document_id=document_id)
    if role is not Role.OWNER and not caller.is_admin:
        raise Forbidden("Only the document's owner or an admin may delete it.", code="owner_required")
    await delete_locked(connection, caller, documents={document_id: {"version": document.version}})
    return wire.DeleteDocumentResponse(document_id=request.document_id)


async def delete_locked(connection: Connection, caller: Caller, *, documents: Mapping[UUID, Mapping[str, Any]]) -> None:
    """Delete documents whose resources are locked, with the files in them; the audit log gets these details of each."""
    organization_id = caller.organization_id
    inside = await lock_contained(connection, organization_id, container_ids=documents.keys())
    details = {**documents, **{one: {"containerId": str(container_id)} for one, container_id in inside.items()}}
    changes = [Change("document.delete", "document", one, said) for one, said in details.items()]
    await record_all(connection, caller, changes=changes)
    await remove_everywhere(connection, organization_id, document_ids=details.keys())
    await erase_documents(connection, organization_id, document_ids=details.keys())
    await unregister_resources(connection, organization_id, object_ids=details.keys())
