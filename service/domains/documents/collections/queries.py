"""SQL of collections and of their documents."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Select, Text, case, column, delete, func, literal, select, true, tuple_
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import collections as wire
from carrel.wire.catalog import DocumentIndexing, IndexingStatus
from carrel.wire.collections import FieldType
from carrel.wire.common import ResourceIdentifier, ResourceType, Role
from carrel.wire.field_values import BETWEEN
from service.auth.callers import Caller
from service.domains.documents.collections.comparisons import LONGEST_KEY, TEXTS, as_key, fits, name_of_value
from service.domains.documents.collections.filters import Condition
from service.index.progress import indexing_status
from service.index.queries import has_status, shown_version
from service.index.spaces.queries import is_searched, stands_for
from service.permissions.access import RANKED
from service.permissions.queries import classes_of, readable_classes
from service.platform import sql
from service.platform.batches import Answer, Batch
from service.platform.identifiers import NIL
from service.schema.catalog import caller_chunks, collections, documents
from service.schema.identity import class_readers, resources
from service.schema.indexing import INDEX_TABLES, space_documents, spaces

MOST_FORMER_NAMES = 20
MOST_COUNTED = 10_000
MOST_VALUES = 50


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A collection, its metadata fields by name, and the caller's role (None: hidden from the caller)."""

    collection_id: UUID
    space_id: int
    name: str
    model: str
    dimensions: int
    distance_metric: str
    schema: Mapping[str, wire.SchemaFieldInfo]
    created_at: datetime
    role: Role | None

    @property
    def fields(self) -> dict[str, str]:
        return {name: field.type for name, field in self.schema.items()}

    @property
    def required(self) -> set[str]:
        return {name for name, field in self.schema.items() if field.required}


@dataclass(frozen=True, slots=True)
class MemberValues:
    """A document's values in a collection. `may_read`: the caller may READ the document."""

    document_id: UUID
    name: str
    custom_metadata: Mapping[str, str]
    may_read: bool


@dataclass(frozen=True, slots=True)
class Membership:
    """A document's desired and indexed versions in a collection, and the maker of its chunks."""

    version: int
    indexed_version: int | None
    words_version: int | None
    chunk_count: int
    caller_chunks: bool
    custom_metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FieldOrder:
    """An order by a field's values, then by id; documents without a value of the type are last."""

    name: str
    kind: FieldType
    is_descending: bool


def _select_roles(caller: Caller) -> ColumnElement[Any]:
    return (
        select(func.array_agg(class_readers.c.role.distinct()))
        .where(
            sql.matches(class_readers, caller.organization_id, access_class=resources.c.access_class),
            sql.in_array(class_readers.c.principal_id, caller.principals),
            sql.optional_in(collections.c.collection_id, caller.collection_ids),
        )
        .scalar_subquery()
        .label("roles")
    )


# The columns of a collection, without the caller's roles.
_COLUMNS = (
    collections.c.collection_id,
    collections.c.space_id,
    collections.c.name,
    collections.c.distance_metric,
    collections.c.schema_fields,
    collections.c.created_at,
    spaces.c.model,
    spaces.c.dimensions,
)


def _select_collections(caller: Caller, *further: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    return (
        select(*_COLUMNS, _select_roles(caller), *further)
        .join(spaces, spaces.c.space_id == collections.c.space_id)
        .join(resources, resources.c.object_id == collections.c.collection_id)
        .where(collections.c.organization_id == caller.organization_id)
    )


def _to_collection(
    *, schema_fields: Sequence[Mapping[str, Any]], roles: Sequence[str] | None, **columns: Any
) -> StoredCollection:
    return StoredCollection(
        schema={field["name"]: wire.SchemaFieldInfo.model_validate(field) for field in schema_fields},
        role=next((role for role in RANKED if role in (roles or ())), None),
        **columns,
    )


async def read_collection(
    connection: Connection, caller: Caller, *, collection_id: UUID, lock: bool = False
) -> StoredCollection | None:
    """Return a collection with the caller's role. `lock` locks it with its space, in a statement with a new view."""
    own = sql.matches(collections, caller.organization_id, collection_id=collection_id)
    if lock:
        kept = select(collections.c.collection_id).where(own).with_for_update(key_share=True, read=True)
        await connection.execute(kept)
    return await sql.find_row(connection, _select_collections(caller).where(own), _to_collection)


async def list_searchable(
    connection: Connection, caller: Caller, *, collection_ids: Sequence[UUID]
) -> list[StoredCollection]:
    """Return the collections in which the caller has a role, by id; all others are skipped."""
    statement = (
        _select_collections(caller)
        .where(
            sql.in_array(collections.c.collection_id, collection_ids),
            sql.optional_in(collections.c.collection_id, caller.collection_ids),
            resources.c.access_class.in_(classes_of(caller)),
        )
        .order_by(collections.c.collection_id)
    )
    return await sql.find_rows(connection, statement, _to_collection)


async def insert_collection(connection: Connection, caller: Caller, **values: Any) -> bool:
    """Add a collection; return False when the name is taken in the organization."""
    row = {"organization_id": caller.organization_id, "created_by": caller.principal_id, **values}
    return await sql.insert_new(connection, collections, row, unique=["organization_id", "name"])


async def rename_collection(connection: Connection, organization_id: UUID, *, collection_id: UUID, name: str) -> bool:
    """Rename a locked collection, recording earlier names; return False when another collection has the name."""
    others = func.array_remove(collections.c.former_names, name, type_=ARRAY(Text()))
    former = func.array_prepend(collections.c.name, others, type_=ARRAY(Text()))
    values = {"name": name, "former_names": former[1:MOST_FORMER_NAMES]}
    try:
        async with connection.begin_nested():
            await sql.update_rows(connection, collections, organization_id, values, collection_id=collection_id)
    except IntegrityError:
        return False
    return True


async def write_fields(
    connection: Connection, organization_id: UUID, *, collection_id: UUID, fields: Sequence[Mapping[str, Any]]
) -> None:
    values = {"schema_fields": fields}
    await sql.update_rows(connection, collections, organization_id, values, collection_id=collection_id)


async def delete_collection(
    connection: Connection, organization_id: UUID, *, collection_id: UUID, space_id: int
) -> None:
    """Remove a locked collection and its waiting chunks. Places are locked before chunks, as in indexing."""
    entries = select(space_documents.c.document_id).where(
        sql.matches(space_documents, organization_id, space_id=space_id)
    )
    await connection.execute(entries.order_by(space_documents.c.document_id).with_for_update())
    waiting = delete(caller_chunks).where(sql.matches(caller_chunks, organization_id, space_id=space_id)).cte("waiting")
    statement = delete(collections).where(sql.matches(collections, organization_id, collection_id=collection_id))
    await connection.execute(statement.add_cte(waiting))


async def list_collections(
    connection: Connection, caller: Caller, window: sql.Window, *, name_contains: str | None
) -> list[wire.DocumentCollection]:
    """List the caller's collections by id, each with the number of documents the caller may READ."""
    count = (
        select(func.count())
        .select_from(space_documents)
        .join(_document_resources, _document_resources.c.object_id == space_documents.c.document_id)
        .where(
            space_documents.c.space_id == collections.c.space_id,
            _document_resources.c.access_class.in_(classes_of(caller)),
        )
        .scalar_subquery()
    )
    known = _select_collections(caller, count.label("document_count"), collections.c.former_names).where(
        sql.optional_in(collections.c.collection_id, caller.collection_ids),
        resources.c.access_class.in_(classes_of(caller)),
    )
    statement = sql.rows_after(known, collections.c.collection_id, *window)
    if name_contains is not None:
        statement = statement.where(collections.c.name.icontains(name_contains, autoescape=True))
    return await sql.find_rows(connection, statement, _to_counted)


def _to_counted(*, document_count: int, former_names: Sequence[str], **columns: Any) -> wire.DocumentCollection:
    stored = _to_collection(**columns)
    return wire.DocumentCollection.model_validate(
        {
            "document_collection_id": stored.collection_id,
            "collection_name": stored.name,
            "embeddings_model": stored.model,
            "distance_metric": stored.distance_metric,
            "custom_metadata_schema": wire.CustomMetadataSchemaInfo(fields=[*stored.schema.values()]),
            "document_count": document_count,
            "role": stored.role,
            "created_at": stored.created_at,
            "former_names": former_names or None,
        }
    )


_document_resources = resources.alias("document_resources")
_container_places = space_documents.alias()
# A file also has its container's values in the same space, unless a caller sent chunks of either.
_parent = (
    select(_container_places.c.document_id)
    .where(
        _container_places.c.document_id == resources.c.container_id,
        _container_places.c.space_id == space_documents.c.space_id,
        ~_container_places.c.caller_chunks & ~space_documents.c.caller_chunks,
    )
    .correlate(resources, space_documents)
    .scalar_subquery()
    .label("parent_document_id")
)


async def read_membership(
    connection: Connection, organization_id: UUID, *, document_id: UUID, space_id: int
) -> Membership | None:
    statement = select(*sql.columns_of(space_documents, Membership)).where(
        sql.matches(space_documents, organization_id, document_id=document_id, space_id=space_id)
    )
    return await sql.find_row(connection, statement, Membership)


async def delete_waiting_chunks(
    connection: Connection, organization_id: UUID, *, document_ids: Collection[UUID], space_id: int
) -> None:
    """Delete callers' waiting chunks of documents in a space, or in the space being built to replace it."""
    space_ids = select(spaces.c.space_id).where(spaces.c.organization_id == organization_id, stands_for(space_id))
    own = sql.in_array(caller_chunks.c.document_id, document_ids), caller_chunks.c.space_id.in_(space_ids)
    await sql.delete_rows(connection, caller_chunks, organization_id, *own)


def _select_readable_members(caller: Caller, space_id: int, *columns: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    return (
        select(*columns)
        .select_from(space_documents)
        .join(resources, resources.c.object_id == space_documents.c.document_id)
        .where(
            sql.matches(space_documents, caller.organization_id, space_id=space_id),
            resources.c.access_class.in_(readable_classes(caller)),
        )
    )


# The version that search finds, and the version whose words and vectors are both indexed.
_INDEXED = shown_version().label("indexed_version"), space_documents.c.indexed_version.label("whole_version")


async def list_members(
    connection: Connection,
    caller: Caller,
    *,
    space_id: int,
    ids: Collection[UUID] | None,
    indexing: IndexingStatus | None = None,
    conditions: Sequence[Condition] = (),
    order: FieldOrder | None = None,
    after: Sequence[str] = (),
    limit: int,
) -> list[tuple[wire.DocumentInCollection, str]]:
    """List a space's readable documents that fit all filters, by id or in an order, each with its place."""
    held = space_documents.c.custom_metadata
    columns = (
        *(space_documents.c[name] for name in ("document_id", "version", "chunk_count")),
        *(space_documents.c[name] for name in ("custom_metadata", "added_at", "attempts", "error")),
        *_INDEXED,
        documents.c.name.label("document_name"),
        documents.c.external_id.label("document_external_id"),
        documents.c.version.label("document_version"),
        resources.c.resource_id,
        _parent,
        sql.as_member(resources.c.resource_type, ResourceType),
    )
    members = (
        _select_readable_members(caller, space_id, *columns)
        .join(documents, documents.c.document_id == space_documents.c.document_id)
        .where(
            sql.optional_in(space_documents.c.document_id, ids),
            *(fits(held, each, number=number) for number, each in enumerate(conditions)),
        )
    )
    last = UUID(after[0]) if after else NIL
    if order is None:
        members = sql.rows_after(members, space_documents.c.document_id, after=last, limit=limit)
    else:
        members = _order_rows(members, order, after=after).limit(limit)
    if indexing is not None:
        members = members.where(
            has_status(
                indexing,
                document_id=space_documents.c.document_id,
                organization_id=caller.organization_id,
                space_id=literal(space_id),
            )
        )
    values = {name_of_value(number): each.value for number, each in enumerate(conditions)}
    return await sql.find_rows(connection, members, _to_member, values)


def _order_rows(
    members: Select[*tuple[Any, ...]], order: FieldOrder, *, after: Sequence[str]
) -> Select[*tuple[Any, ...]]:
    """Order a statement, and begin after an id and a place: the value, of text the key, of a row; empty for none."""
    held: ColumnElement[str] = space_documents.c.custom_metadata.op("->>", return_type=Text())(order.name)
    key, own_id = as_key(held, order.kind), space_documents.c.document_id
    if after:
        last, place = literal(UUID(after[0])), as_key(literal(after[1]), order.kind)
        own, there = tuple_(key, own_id), tuple_(place, last)
        beyond, later = (own < there, own_id < last) if order.is_descending else (own > there, own_id > last)
        members = members.where((beyond | key.is_(None)) if after[1] else (key.is_(None) & later))
    turned = (key.desc(), own_id.desc()) if order.is_descending else (key.asc(), own_id.asc())
    shown = key if order.kind in TEXTS else held
    place = case((key.is_not(None), shown), else_="").label("place")
    return members.add_columns(place).order_by(turned[0].nulls_last(), turned[1])


async def count_values(
    connection: Connection, caller: Caller, *, space_id: int, lists: Collection[str]
) -> list[wire.ValueCount]:
    """Count the values of a space's documents readable by the caller, up to MOST_COUNTED: of each field the MOST_VALUES
    most frequent in any case, without long texts. The items of `lists` count each."""
    readable = _select_readable_members(caller, space_id, space_documents.c.custom_metadata)
    members = readable.limit(MOST_COUNTED).subquery()
    texts = [column(name, Text()) for name in ("key", "value")]
    entry = func.jsonb_each_text(members.c.custom_metadata).table_valued(*texts)
    items = func.string_to_array(entry.c.value, BETWEEN, type_=ARRAY(Text()))
    values = case((sql.in_array(entry.c.key, lists), items), else_=array([entry.c.value]))
    each = select(entry.c.key.label("field"), func.unnest(values).label("value")).join_from(members, entry, true())
    held = each.subquery()
    key, count = func.lower(held.c.value), func.count()
    place = func.row_number().over(partition_by=held.c.field, order_by=(count.desc(), key)).label("place")
    counted = (
        select(held.c.field, func.min(held.c.value).label("value"), count.label("count"), place)
        .where(held.c.value != "", func.length(held.c.value) <= LONGEST_KEY)
        .group_by(held.c.field, key)
        .subquery()
    )
    statement = select(counted.c.field, counted.c.value, counted.c.count).where(counted.c.place <= MOST_VALUES)
    return await sql.find_rows(connection, statement.order_by(counted.c.field, counted.c.place), wire.ValueCount)


async def list_values(
    connection: Connection, caller: Caller, *, space_id: int, after: UUID, limit: int
) -> list[MemberValues]:
    """List the values of all documents in a space, by id, each with whether the caller may READ the document."""
    statement = (
        select(
            space_documents.c.document_id,
            documents.c.name,
            space_documents.c.custom_metadata,
            resources.c.access_class.in_(readable_classes(caller)).label("may_read"),
        )
        .join(documents, documents.c.document_id == space_documents.c.document_id)
        .join(resources, resources.c.object_id == space_documents.c.document_id)
        .where(sql.matches(space_documents, caller.organization_id, space_id=space_id))
    )
    after_last = sql.rows_after(statement, space_documents.c.document_id, after=after, limit=limit)
    return await sql.find_rows(connection, after_last, MemberValues)


async def write_values(
    connection: Connection, organization_id: UUID, *, space_id: int, values: Mapping[UUID, Mapping[str, str]]
) -> None:
    """Replace documents' metadata in a space, and in the space being built to replace it."""
    rows = [{"document_id": key, "custom_metadata": dict(held)} for key, held in values.items()]
    given = sql.rows_of([space_documents.c.document_id, space_documents.c.custom_metadata], rows)
    space_ids = select(spaces.c.space_id).where(spaces.c.organization_id == organization_id, stands_for(space_id))
    await sql.update_rows(
        connection,
        space_documents,
        organization_id,
        {"custom_metadata": given.c.custom_metadata},
        space_documents.c.space_id.in_(space_ids),
        document_id=given.c.document_id,
    )


async def has_more_members(connection: Connection, caller: Caller, *, space_id: int, than: int) -> bool:
    """Return whether the caller may READ more of a space's documents than this number."""
    readable = _select_readable_members(caller, space_id, space_documents.c.document_id)
    return (await connection.execute(readable.offset(than).limit(1))).one_or_none() is not None


def _to_member(
    *,
    place: str = "",
    resource_id: str,
    resource_type: ResourceType,
    version: int,
    attempts: int,
    whole_version: int | None,
    **columns: Any,
) -> tuple[wire.DocumentInCollection, str]:
    member = wire.DocumentInCollection(
        resource=ResourceIdentifier(resource_id=resource_id, resource_type=resource_type),
        stale=columns["indexed_version"] != columns["document_version"],
        indexing=indexing_status(desired_version=version, indexed_version=whole_version, attempts=attempts),
        **columns,
    )
    return member, place


async def list_memberships(connection: Connection, caller: Caller, *, document_id: UUID) -> list[DocumentIndexing]:
    """List a document's index entries, of the catalog and of collections visible to the caller (an admin: all)."""
    statement = (
        select(
            space_documents.c.version.label("document_version"),
            *(space_documents.c[name] for name in ("chunk_count", "chunks_expected", "chunks_embedded", "language")),
            *(space_documents.c[name] for name in ("attempts", "error")),
            *_INDEXED,
            collections.c.collection_id.label("document_collection_id"),
            collections.c.name.label("collection_name"),
        )
        .select_from(space_documents)
        .join(spaces, spaces.c.space_id == space_documents.c.space_id)
        .outerjoin(collections, collections.c.space_id == spaces.c.space_id)
        .outerjoin(resources, resources.c.object_id == collections.c.collection_id)
        .where(sql.matches(space_documents, caller.organization_id, document_id=document_id), is_searched())
        .order_by(spaces.c.is_catalog.desc(), collections.c.collection_id)
    )
    if not caller.is_admin:
        statement = statement.where(spaces.c.is_catalog | resources.c.access_class.in_(classes_of(caller)))
    if caller.collection_ids is not None:
        statement = statement.where(
            spaces.c.is_catalog | sql.in_array(collections.c.collection_id, caller.collection_ids)
        )
    return await sql.find_rows(connection, statement, _to_indexing)


def _to_indexing(
    *, attempts: int, chunks_expected: int, chunks_embedded: int, whole_version: int | None, **columns: Any
) -> DocumentIndexing:
    status = indexing_status(
        desired_version=columns["document_version"], indexed_version=whole_version, attempts=attempts
    )
    told = status is IndexingStatus.RUNNING and chunks_expected > 0
    return DocumentIndexing(
        status=status,
        chunks_embedded=chunks_embedded if told else None,
        chunks_expected=chunks_expected if told else None,
        words_indexed=columns["indexed_version"] == columns["document_version"],
        **columns,
    )


async def list_chunks(
    connection: Connection, caller: Caller, *, document_id: UUID, space_id: int, dimensions: int, after: int, limit: int
) -> list[wire.DocumentChunk]:
    """Return the chunks of a document in a space, in reading order, if the caller may READ it."""
    chunks = INDEX_TABLES[dimensions].chunks
    readable = select(*sql.columns_of(chunks, wire.DocumentChunk, chunks.c.chunk_no.label("chunk_index"))).where(
        sql.matches(chunks, caller.organization_id, document_id=document_id, space_id=space_id),
        chunks.c.access_class.in_(readable_classes(caller)),
    )
    statement = sql.rows_after(readable, chunks.c.chunk_no, after=after, limit=limit)
    return await sql.find_rows(connection, statement, wire.DocumentChunk)


# Each value is `role:principal id`.
_GRANTS = (
    select(func.array_agg(func.concat(class_readers.c.role, ":", class_readers.c.principal_id)))
    .where(sql.matches(class_readers, sql.ORGANIZATION, access_class=resources.c.access_class))
    .scalar_subquery()
    .label("grants")
)
_COLLECTION = (
    select(*_COLUMNS, _GRANTS)
    .join(spaces, spaces.c.space_id == collections.c.space_id)
    .join(resources, resources.c.object_id == collections.c.collection_id)
    .where(sql.matches(collections, sql.ORGANIZATION, collection_id=sql.param(collections.c.collection_id)))
)


def _to_collection_by_caller(*, grants: Sequence[str] | None, **columns: Any) -> Callable[[Caller], StoredCollection]:

    def as_seen_by(caller: Caller) -> StoredCollection:
        granted = (grant.partition(":") for grant in grants or ())
        acting = {*map(str, caller.principals)}
        roles = [role for role, _, principal_id in granted if principal_id in acting]
        narrowed_to = caller.collection_ids
        is_within = narrowed_to is None or columns["collection_id"] in narrowed_to
        return _to_collection(roles=roles if is_within else (), **columns)

    return as_seen_by


def ask_collection(
    batch: Batch, organization_id: UUID, *, collection_id: UUID
) -> Answer[Callable[[Caller], StoredCollection]]:
    """Read a collection in a batch; the answer's row, None if unknown, returns it with the role of a caller, if any."""
    return batch.ask(_COLLECTION, _to_collection_by_caller, sql.params(organization_id, collection_id=collection_id))
