"""Deleting documents: everywhere at once, a container with the files in it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.catalog import DeleteDocumentRequest, DeleteDocumentResponse
from carrel.wire.common import Role
from service.audit.service import Change, record_all
from service.auth.callers import Caller
from service.domains.documents.catalog.documents import lock_known_document
from service.domains.documents.stored.queries import erase_documents
from service.index.service import remove_everywhere
from service.permissions.queries import lock_contained
from service.permissions.service import unregister_resources
from service.platform.errors import Forbidden


async def delete_document(
    connection: Connection, caller: Caller, *, request: DeleteDocumentRequest
) -> DeleteDocumentResponse:
    """Delete a document everywhere, with the documents that are files in it; for its owner and admins.

    Its id and versions are never used again."""
    document_id = request.document_id
    document, role = await lock_known_document(connection, caller, document_id=document_id)
    if role is not Role.OWNER and not caller.is_admin:
        raise Forbidden("Only the document's owner or an admin may delete it.", code="owner_required")
    await delete_locked(connection, caller, documents={document_id: {"version": document.version}})
    return DeleteDocumentResponse(document_id=request.document_id)


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
