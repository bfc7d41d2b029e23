"""EDITORs add, re-index, remove; VIEWERs search. Adding and finding need READ. Owner and admins rename and delete."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import collections as wire
from carrel.wire.collections import FieldType, SchemaField, SchemaFieldInfo
from carrel.wire.common import ResourceType, Role
from carrel.wire.field_values import read_value
from carrel.wire.formats import FORMATS
from service.audit.service import Change, record, record_all
from service.audit.versions import change_between, refuse_stale
from service.auth.callers import Caller
from service.domains.documents.collections import queries
from service.domains.documents.collections.queries import Membership, StoredCollection
from service.domains.documents.stored.queries import StoredDocument, read_document
from service.domains.documents.stored.texts import read_text, unpack_text
from service.index.rebuilds.queries import lock_collection
from service.index.service import create_space, remove_entries
from service.index.spaces.queries import delete_space, find_catalog
from service.permissions.access import Access
from service.permissions.queries import delete_resources, lock_contained
from service.permissions.rights import role_in, unknown_document
from service.permissions.service import register_resource
from service.platform.batches import Batch
from service.platform.errors import BadRequest, Conflict, FieldError, Forbidden, NotFound, require
from service.platform.identifiers import uuid7
from service.runtime import Runtime
from service.web.pagination import Cursor

Fields: TypeAlias = Mapping[str, SchemaFieldInfo]
MOST_CHOICES = 2000
MISSING = "The field is required: give a value."
_MAILS = frozenset(each.media_type for each in FORMATS if each.kind == "mail")


@dataclass(frozen=True, slots=True)
class Placement:
    """The planned values of a document in a collection, and its current membership (None: not yet a member)."""

    document_id: UUID
    collection: StoredCollection
    membership: Membership | None
    metadata: Mapping[str, str]


def unknown_collection() -> NotFound:
    return NotFound(
        "There is no such collection. Check the id (listDocumentCollections lists the ids), or create it first.",
        code="collection_not_found",
    )


def not_in_collection() -> NotFound:
    message = "The document is not in this collection. listDocumentsInCollection lists its documents."
    return NotFound(message, code="document_not_in_collection")


async def create_collection(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.CreateDocumentCollectionRequest
) -> wire.CreateDocumentCollectionResponse:
    """Create a collection, owned by the caller. 409 `collection_name_taken`, 400 for a wrong model or fields."""
    model = runtime.embedders.get(request.embeddings_model).model
    fields = request.custom_metadata_schema.fields
    if errors := find_unfit_choices(fields, "customMetadataSchema.fields"):
        raise BadRequest(errors[0].message, code="invalid_fields", details=errors)
    collection_id = uuid7()
    added = await queries.insert_collection(
        connection,
        caller,
        collection_id=collection_id,
        space_id=(await create_space(connection, caller.organization_id, model=model)).space_id,
        name=request.collection_name,
        distance_metric=request.distance_metric,
        schema_fields=[field.model_dump(mode="json", exclude_none=True) for field in fields],
    )
    if not added:
        raise _name_taken()
    await register_resource(
        connection,
        caller.organization_id,
        object_id=collection_id,
        resource_type=ResourceType.DOCUMENT_COLLECTION,
        resource_id=str(collection_id),
        access=Access(owner_id=caller.principal_id),
    )
    await record(connection, caller, "collection.create", "collection", collection_id)
    return wire.CreateDocumentCollectionResponse(document_collection_id=collection_id)


async def require_collection(
    connection: Connection,
    caller: Caller,
    *,
    collection_id: UUID,
    at_least: Literal[Role.VIEWER, Role.EDITOR],
    lock: bool = False,
) -> StoredCollection:
    """Return a collection if the caller has this role or a higher role; 404 without any role, 403 below it."""
    collection = _require_known(
        await queries.read_collection(connection, caller, collection_id=collection_id, lock=lock)
    )
    if at_least is not Role.VIEWER and collection.role is Role.VIEWER:
        message = "You may search this collection, not change it. Ask its owner for the EDITOR role."
        raise Forbidden(message, code="collection_editor_required")
    return collection


def ask_collection(batch: Batch, organization_id: UUID, *, collection_id: UUID) -> Callable[[Caller], StoredCollection]:
    """Read a collection for a search in a batch; afterwards, the function gives a caller the collection, or 404."""
    found = queries.ask_collection(batch, organization_id, collection_id=collection_id)
    return lambda caller: _require_known(found.row and found.row(caller))


def _require_known(collection: StoredCollection | None) -> StoredCollection:
    if collection is None or collection.role is None:
        raise unknown_collection()
    return collection


async def require_document(
    connection: Connection, caller: Caller, *, document_id: UUID, lock: bool = False
) -> StoredDocument:
    """Return a document the caller may READ, else 404, also for admins. `lock` lasts until the transaction ends."""
    document = await read_document(connection, caller.organization_id, document_id=document_id, lock=lock)
    if document is None or role_in(document.access, caller) is None:
        raise unknown_document()
    return document


async def check_placement(
    connection: Connection,
    caller: Caller,
    *,
    document_id: UUID,
    collection_id: UUID,
    custom_metadata: Mapping[str, str] | None,
    adds: bool = True,
) -> Placement:
    """Lock a collection, and check metadata and the caller's right to put a document there: else 404, 403 or 400."""
    collection = await require_collection(
        connection, caller, collection_id=collection_id, at_least=Role.EDITOR, lock=True
    )
    membership = await queries.read_membership(
        connection, caller.organization_id, document_id=document_id, space_id=collection.space_id
    )
    is_whole = adds and (membership is None or custom_metadata is not None)
    required = collection.required if is_whole else ()
    metadata = check_metadata(custom_metadata or {}, collection.schema, required=required)
    return Placement(document_id, collection, membership, metadata)


def refuse_caller_chunks(placement: Placement) -> None:
    if placement.membership is not None and placement.membership.caller_chunks:
        raise Conflict(
            "A caller sent this document's chunks for the collection. Send them again with "
            "addDocumentChunksToCollection, or remove the document from the collection first.",
            code="caller_chunks",
        )


async def remove_document(
    connection: Connection, caller: Caller, *, request: wire.RemoveDocumentFromCollectionRequest
) -> wire.RemoveDocumentFromCollectionResponse:
    """Remove a document and its files from a collection; 404 if missing there or without READ, 403 below EDITOR."""
    document_id, collection_id = request.document_id, request.document_collection_id
    await require_document(connection, caller, document_id=document_id, lock=True)
    placement = await check_placement(
        connection, caller, document_id=document_id, collection_id=collection_id, custom_metadata=None, adds=False
    )
    if placement.membership is None:
        raise not_in_collection()
    organization_id, space_id = caller.organization_id, placement.collection.space_id
    inside = await lock_contained(connection, organization_id, container_ids=[document_id])
    document_ids = [document_id, *inside]
    await queries.delete_waiting_chunks(connection, organization_id, document_ids=document_ids, space_id=space_id)
    removed = await remove_entries(connection, organization_id, space_id=space_id, document_ids=document_ids)
    of_collection = {"collectionId": str(collection_id)}
    changes = [
        Change(
            "collection.remove_document",
            "document",
            item,
            of_collection if item == document_id else {**of_collection, "containerId": str(inside[item])},
        )
        for item in document_ids
        if item in removed
    ]
    await record_all(connection, caller, changes=changes)
    return wire.RemoveDocumentFromCollectionResponse(document_id=document_id, document_collection_id=collection_id)


async def delete_collection(
    connection: Connection, caller: Caller, *, request: wire.DeleteDocumentCollectionRequest
) -> wire.DeleteDocumentCollectionResponse:
    """Delete a collection; its documents stay in the catalog. For the owner and admins; 403 for others with a role."""
    collection_id = request.document_collection_id
    space_id = (await lock_owned(connection, caller, collection_id=collection_id)).space_id
    await record(connection, caller, "collection.delete", "collection", collection_id)
    await queries.delete_collection(connection, caller.organization_id, collection_id=collection_id, space_id=space_id)
    await delete_space(connection, caller.organization_id, space_id=space_id)
    await delete_resources(connection, caller.organization_id, object_ids=[collection_id])
    return wire.DeleteDocumentCollectionResponse(document_collection_id=request.document_collection_id)


async def rename_collection(
    connection: Connection, caller: Caller, *, request: wire.RenameDocumentCollectionRequest
) -> wire.RenameDocumentCollectionResponse:
    """Rename a collection. For the owner and admins; 404, 403, 409 `collection_name_taken` or if stale."""
    collection_id = request.document_collection_id
    name = (await lock_owned(connection, caller, collection_id=collection_id)).name
    before, after = (
        wire.RenameDocumentCollectionResponse(document_collection_id=collection_id, collection_name=item)
        for item in (name, request.collection_name)
    )
    await refuse_stale(connection, caller, request.version, before, target_id=collection_id)
    if after != before:
        organization_id, name = caller.organization_id, after.collection_name
        if not await queries.rename_collection(connection, organization_id, collection_id=collection_id, name=name):
            raise _name_taken()
        change = change_between("collection.rename", "collection", collection_id, before, after)
        await record_all(connection, caller, changes=[change])
    return after


async def lock_owned(connection: Connection, caller: Caller, *, collection_id: UUID) -> StoredCollection:
    """Lock a collection of the caller, or any for an admin; 404 if unknown, 403 for others with a role."""
    await lock_collection(connection, caller.organization_id, collection_id=collection_id)
    return await require_owned(connection, caller, collection_id=collection_id)


async def require_owned(connection: Connection, caller: Caller, *, collection_id: UUID) -> StoredCollection:
    """Return a collection of the caller, or any for an admin; 404 if unknown, 403 for others with a role."""
    collection = await queries.read_collection(connection, caller, collection_id=collection_id)
    if collection is None or (collection.role is None and not caller.is_admin):
        raise unknown_collection()
    if collection.role is not Role.OWNER and not caller.is_admin:
        message = "Only the collection's owner or an admin may do this. Ask one of them."
        raise Forbidden(message, code="collection_owner_required")
    return collection


def _name_taken() -> Conflict:
    return Conflict("Another collection has this name. Choose another one.", code="collection_name_taken")


def find_unfit_choices(fields: Sequence[SchemaField | SchemaFieldInfo], member: str) -> list[FieldError]:
    """Return errors: too many choices, choices of a BOOLEAN, up to 5 choices of a field that no value could have."""
    found = list[FieldError]()
    if sum(len(field.choices or ()) for field in fields) > MOST_CHOICES:
        found.append(FieldError(member, f"The fields of a collection have at most {MOST_CHOICES:,} choices together."))
    for field in fields:
        if field.choices and field.type is FieldType.BOOLEAN:
            found.append(FieldError(member, f"“{field.name}” is yes or no, and has no choices."))
            continue
        told = f"is not a value of “{field.name}”, is there twice, or has a semicolon or a space around it."
        read = {item: read_value(field.type, item, field.choices) for item in field.choices or ()}
        unfit = (item for item, value in read.items() if value != item or ";" in item)
        found += [FieldError(member, f"The choice “{choice}” {told}") for choice in islice(unfit, 5)]
    return found


def check_metadata(
    metadata: Mapping[str, str], fields: Fields, *, required: Iterable[str] = (), within: str = ""
) -> dict[str, str]:
    """Return values as stored; BadRequest `invalid_metadata` names unknown keys, and wrong and missing values."""
    read = {key: fields[key].read(value) for key, value in metadata.items() if key in fields}
    missing = (FieldError(f"{within}customMetadata.{item}", MISSING) for item in required if read.get(item, "") == "")
    if errors := [*_metadata_errors(metadata, fields, read, within), *missing]:
        raise BadRequest(f"{errors[0].field}: {errors[0].message}", code="invalid_metadata", details=errors)
    return {key: value or "" for key, value in read.items() if value or not metadata[key]}


def _metadata_errors(
    metadata: Mapping[str, str], fields: Fields, read: Mapping[str, str | None], within: str
) -> Iterator[FieldError]:
    for key, value in metadata.items():
        member = f"{within}customMetadata.{key}"
        if key not in fields:
            known = ", ".join(fields) or "none, its schema is empty"
            yield FieldError(member, f"The collection's schema has no such field; it has: {known}. Add it first.")
        elif read[key] is None:
            yield FieldError(member, fields[key].explain(value))


async def list_collections(
    connection: Connection, caller: Caller, *, request: wire.ListDocumentCollectionsRequest
) -> wire.ListDocumentCollectionsResponse:
    """List a page of the collections searchable by the caller, by id, whose names contain a text if given."""
    cursor = Cursor.read(caller, operation=wire.LIST_DOCUMENT_COLLECTIONS.path, request=request)
    found = await queries.list_collections(connection, caller, cursor.window, name_contains=request.collection_name)
    return cursor.answer(wire.ListDocumentCollectionsResponse, found, "document_collection_id")


async def get_chunks(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.GetDocumentChunksRequest
) -> wire.GetDocumentChunksResponse:
    """List a document's chunks in a collection or the catalog, at last a mail's quoted text; 404 without READ."""
    document = await require_document(connection, caller, document_id=request.document_id)
    space_id, dimensions = await _find_space(connection, caller, request.document_collection_id)
    there = await queries.read_membership(
        connection, caller.organization_id, document_id=document.document_id, space_id=space_id
    )
    there = require(there, not_in_collection())
    version = max(there.words_version or 0, there.indexed_version or 0) or there.version
    cursor = Cursor.of(
        caller,
        operation=wire.GET_DOCUMENT_CHUNKS.path,
        parameters={"document": str(document.document_id), "space": space_id, "version": version},
        page_size=request.page_size,
        page_token=request.page_token,
    )
    rows = await queries.list_chunks(
        connection,
        caller,
        document_id=document.document_id,
        space_id=space_id,
        dimensions=dimensions,
        after=int(cursor.after[0]) if cursor.after else (request.first_chunk_index or 0) - 1,
        limit=cursor.limit,
    )
    if runtime.database.is_distributed:
        # The index's servers have other snapshots than this connection, so check the access again.
        await require_document(connection, caller, document_id=request.document_id)
    page, quoted = cursor.page(rows, position=lambda row: [str(row.chunk_index)]), None
    if page.next_page_token is None and version == document.version and document.file.media_type in _MAILS:
        stored = await read_text(connection, caller, document_id=request.document_id)
        quoted = (await unpack_text(stored, start=0, quoted_alone=True)).text or None
    return wire.GetDocumentChunksResponse(
        document_version=version, chunks=page.items, quoted_text=quoted, next_page_token=page.next_page_token
    )


async def _find_space(connection: Connection, caller: Caller, collection_id: UUID | None) -> tuple[int, int]:
    if collection_id is not None:
        collection = await require_collection(connection, caller, collection_id=collection_id, at_least=Role.VIEWER)
        return collection.space_id, collection.dimensions
    catalog = await find_catalog(connection, caller.organization_id)
    assert catalog is not None  # noqa: S101 - a document exists, so the catalog does
    return catalog.space_id, catalog.dimensions
