"""VIEWERs list, sort and count by values; EDITORs change them. Each sees only documents that they may READ."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import collections as wire
from carrel.wire.collections import FieldType
from carrel.wire.common import Role
from service.audit.service import Change, record_all
from service.audit.versions import change_between
from service.auth.callers import Caller
from service.domains.documents.collections import queries
from service.domains.documents.collections.filters import conditions_by_schema
from service.domains.documents.collections.queries import StoredCollection
from service.domains.documents.collections.service import check_metadata, require_collection
from service.permissions.queries import lock_contained, lock_objects
from service.platform.errors import BadRequest, FieldError
from service.web.pagination import Cursor

MOST_SORTED = 100_000


async def list_documents(
    connection: Connection, caller: Caller, *, request: wire.ListDocumentsInCollectionRequest
) -> wire.ListDocumentsInCollectionResponse:
    """List a page of a collection's documents that the caller may READ; 404 without a role, 400 for a wrong order."""
    collection = await require_collection(
        connection, caller, collection_id=request.document_collection_id, at_least=Role.VIEWER
    )
    space_id, fields, order = collection.space_id, collection.fields, None
    cursor = Cursor.read(caller, operation=wire.LIST_DOCUMENTS_IN_COLLECTION.path, request=request)
    if (name := request.order_by) is not None:
        if name not in fields:
            message = f"The collection has these fields: {', '.join(fields) or 'none, its schema is empty'}."
            raise BadRequest(message, code="invalid_order", details=[FieldError("orderBy", message)])
        if await queries.has_more_members(connection, caller, space_id=space_id, than=MOST_SORTED):
            message = f"The collection has more than {MOST_SORTED:,} documents. Leave out orderBy."
            raise BadRequest(message, code="too_many_to_sort", details=[FieldError("orderBy", message)])
        order = queries.FieldOrder(name, FieldType(fields[name]), is_descending=request.descending is True)
    rows = await queries.list_members(
        connection,
        caller,
        space_id=space_id,
        ids=request.ids,
        indexing=request.indexing,
        conditions=conditions_by_schema(request.metadata_filters or (), fields, member="metadataFilters"),
        order=order,
        after=cursor.after,
        limit=cursor.limit,
    )
    page = cursor.page(rows, position=lambda row: [str(row[0].document_id), row[1]])
    documents = [member for member, _ in page.items]
    return wire.ListDocumentsInCollectionResponse(documents=documents, next_page_token=page.next_page_token)


async def count_values(
    connection: Connection, caller: Caller, *, request: wire.CountValuesRequest
) -> wire.CountValuesResponse:
    """Count the values of fields in a collection's documents that the caller may READ; 404 without a role there."""
    collection = await require_collection(
        connection, caller, collection_id=request.document_collection_id, at_least=Role.VIEWER
    )
    lists = [name for name, kind in collection.fields.items() if kind == FieldType.LIST]
    values = await queries.count_values(connection, caller, space_id=collection.space_id, lists=lists)
    return wire.CountValuesResponse(values=values)


async def change_values(
    connection: Connection, caller: Caller, *, request: wire.ChangeValuesRequest
) -> wire.ChangeValuesResponse:
    """Change documents' values without indexing them again. A document changed meanwhile keeps its values, as does a
    file in a container. 404 without a role in the collection, 403 below EDITOR, 400 for values."""
    organization_id, ids = caller.organization_id, [change.document_id for change in request.changes]
    await lock_objects(connection, organization_id, object_ids=ids)
    collection = await require_collection(
        connection, caller, collection_id=request.document_collection_id, at_least=Role.EDITOR, lock=True
    )
    found = await queries.list_members(connection, caller, space_id=collection.space_id, ids=ids, limit=len(ids))
    held = {document.document_id: document for document, _ in found}
    results = [
        _plan_change(each, held.get(each.document_id), collection, within=f"changes.{number}.")
        for number, each in enumerate(request.changes)
    ]
    changed = (each for each in results if each.status is wire.ValueChangeStatus.CHANGED)
    values = {each.document_id: each.custom_metadata for each in changed}
    held |= await _add_files(connection, caller, collection.space_id, values)
    await queries.write_values(connection, organization_id, space_id=collection.space_id, values=values)
    changes = list[Change]()
    for key, after in values.items():
        details, within = {"collectionId": str(request.document_collection_id)}, held[key].parent_document_id
        details |= {"containerId": str(within)} if within else {}
        new = wire.MetadataInCollection(custom_metadata=after)
        changes.append(change_between("collection.change_values", "document", key, held[key], new, details=details))
    await record_all(connection, caller, changes=changes)
    return wire.ChangeValuesResponse(results=results)


async def _add_files(
    connection: Connection, caller: Caller, space_id: int, values: dict[UUID, dict[str, str]]
) -> dict[UUID, wire.DocumentInCollection]:
    """Add the files in changed containers to the values, and return the files as they were."""
    inside = await lock_contained(connection, caller.organization_id, container_ids=values)
    if not inside:
        return {}
    found = await queries.list_members(connection, caller, space_id=space_id, ids=inside, limit=len(inside))
    files = {file.document_id: file for file, _ in found if file.parent_document_id is not None}
    for document_id, container_id in inside.items():  # containers come before the files in them
        if document_id in files and container_id in values:
            values[document_id] = values[container_id]
    return files


def _plan_change(
    change: wire.ValueChange, held: wire.DocumentInCollection | None, collection: StoredCollection, *, within: str
) -> wire.ValueChangeResult:
    """Return the values to write, with status CHANGED, or the current values with the reason to keep them. 400."""
    fields, emptied = collection.schema, sorted(collection.required & change.custom_metadata.keys())
    given, now, status = change.custom_metadata, held.custom_metadata if held else {}, wire.ValueChangeStatus.CHANGED
    written = {name: value for name, value in given.items() if value or name not in fields}
    values = {name: value for name, value in now.items() if name not in given}
    values |= check_metadata(written, fields, required=emptied, within=within)
    if held is None:
        status = wire.ValueChangeStatus.NOT_FOUND
    elif values == now:
        status = wire.ValueChangeStatus.UNCHANGED
    elif held.parent_document_id is not None:
        status = wire.ValueChangeStatus.IN_CONTAINER
    elif change.version not in {None, held.version}:
        status = wire.ValueChangeStatus.CHANGED_MEANWHILE
    saved = values if status is wire.ValueChangeStatus.CHANGED else now
    return wire.ValueChangeResult(document_id=change.document_id, status=status, custom_metadata=saved)
