"""The rules of a change for each of its documents: the rules of the operations for a single document."""

from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import collections as wire
from carrel.wire.catalog import DeleteDocumentRequest
from carrel.wire.common import Role
from carrel.wire.document_changes import DocumentAction, StartAccessChangeRequest, StartDocumentChangeRequest
from service.audit.service import Change, record_all
from service.auth.callers import Caller
from service.domains.documents.catalog.documents import delete_document, lock_known_document, request_reindexing
from service.domains.documents.collections import service as collections
from service.domains.documents.collections.membership import place_document, place_files
from service.domains.documents.collections.values import change_values
from service.domains.oversight.owners.transferring import find_new_owner, give_documents
from service.identity.principals import resolve
from service.permissions.access import Access, roles_by_id
from service.permissions.queries import get_resource
from service.permissions.service import access_of, refuse_contained, set_access, unknown_resource
from service.platform.errors import BadRequest, Conflict, FieldError, Forbidden, NotFound, require
from service.runtime import Runtime

Request = StartDocumentChangeRequest | StartAccessChangeRequest
SO_BEFORE = {
    DocumentAction.DELETE: "document_not_found",
    DocumentAction.REMOVE_FROM_COLLECTION: "document_not_in_collection",
}
"""Error codes of documents that are already in the requested state, such as a file deleted with its archive."""


async def check(connection: Connection, caller: Caller, request: Request) -> None:
    """Raise errors that all documents would share, such as an unknown collection, wrong values or unknown principal."""
    if isinstance(request, StartAccessChangeRequest):
        await _find_principal(connection, caller, request)
    elif request.change not in {DocumentAction.DELETE, DocumentAction.REINDEX}:
        which: dict[str, Any] = {"collection_id": _collection_of(request), "at_least": Role.EDITOR}
        found = await collections.require_collection(connection, caller, **which)
        values = request.custom_metadata or {}
        adds = request.change is DocumentAction.ADD_TO_COLLECTION
        required = found.required if adds else found.required & set(values)
        given = {name: value for name, value in values.items() if value}
        collections.check_metadata(given, found.schema, required=sorted(required))


def _collection_of(request: StartDocumentChangeRequest) -> UUID:
    if request.target_collection_id is None:
        message = "Name the collection of this change."
        raise BadRequest(message, details=[FieldError("targetCollectionId", message)])
    return request.target_collection_id


async def _find_principal(connection: Connection, caller: Caller, request: StartAccessChangeRequest) -> UUID:
    if not caller.is_admin:
        raise Forbidden("Only an admin may do this. Ask an admin to do it.", code="admin_only")
    if request.role is Role.OWNER:
        return (await find_new_owner(connection, caller, request.principal, owner_id=None)).principal_id
    references = [("principal", request.principal)]
    [found] = await resolve(connection, caller.organization_id, references=references)
    return found.principal_id


async def change_document(
    runtime: Runtime, connection: Connection, caller: Caller, request: Request, document_id: UUID
) -> None:
    if isinstance(request, StartAccessChangeRequest):
        await _change_access(connection, caller, request, document_id)
        return
    which: dict[str, Any] = {"document_id": document_id}
    where: dict[str, Any] = {"document_collection_id": request.target_collection_id}
    match request.change:
        case DocumentAction.DELETE:
            await delete_document(runtime, connection, caller, request=DeleteDocumentRequest(**which))
        case DocumentAction.REINDEX:
            await request_reindexing(runtime, connection, caller, document_id)
        case DocumentAction.ADD_TO_COLLECTION:
            runtime.indexer.refuse_backlog(caller.organization_id)
            await _add(connection, caller, request, document_id)
        case DocumentAction.REMOVE_FROM_COLLECTION:
            removal = wire.RemoveDocumentFromCollectionRequest(**which, **where)
            await collections.remove_document(connection, caller, request=removal)
        case DocumentAction.SET_VALUES:
            change = wire.ValueChange(**which, custom_metadata=request.custom_metadata or {})
            changes = wire.ChangeValuesRequest(**where, changes=[change])
            [result] = (await change_values(connection, caller, request=changes)).results
            if result.status is wire.ValueChangeStatus.NOT_FOUND:
                message = "The document is not in the collection, or you may not read it. Add it, or ask its owner."
                raise NotFound(message, code="document_not_in_collection")
            if result.status is wire.ValueChangeStatus.IN_CONTAINER:
                message = "The document has the values of its archive or mail. Change the values there."
                raise Conflict(message, code="document_in_container")


async def _add(connection: Connection, caller: Caller, request: StartDocumentChangeRequest, document_id: UUID) -> None:
    document = await collections.require_document(connection, caller, document_id=document_id, lock=True)
    placement = await collections.check_placement(
        connection,
        caller,
        document_id=document_id,
        collection_id=_collection_of(request),
        custom_metadata=request.custom_metadata,
    )
    if placement.membership is None:  # a document already in the collection keeps its field values
        await place_document(connection, caller, placement, version=document.version)
        if document.file.file_count:
            await place_files(connection, caller, container_id=document_id)


async def _change_access(
    connection: Connection, caller: Caller, request: StartAccessChangeRequest, document_id: UUID
) -> None:
    principal_id, organization_id = await _find_principal(connection, caller, request), caller.organization_id
    await lock_known_document(connection, caller, document_id=document_id)
    resource = require(await get_resource(connection, organization_id, object_id=document_id), unknown_resource())
    refuse_contained([("documentId", resource)])
    before = await access_of(connection, organization_id, document_id)
    if before.owner_id == principal_id:
        return
    if request.role is Role.OWNER:
        _, changes = await give_documents(connection, organization_id, [resource], owner_id=principal_id)
    else:
        others = before.without([(principal_id, Role.VIEWER), (principal_id, Role.EDITOR)])
        after = Access.of([*others.grants(), *([(principal_id, request.role)] if request.role else ())])
        await set_access(connection, organization_id, object_id=document_id, access=after)
        details = {"before": roles_by_id(before.grants()), "after": roles_by_id(after.grants())}
        changes = [Change("grants.set", resource.resource_type, document_id, details)] if after != before else []
    await record_all(connection, caller, changes=changes)
