"""SQL of documents, versions and extracted text."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from unicodedata import normalize
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from sqlalchemy.sql.dml import ReturningInsert

from carrel.wire.catalog import Document, DocumentFilters, DocumentFolder, DocumentOrder, DocumentVersion
from carrel.wire.common import Principal, ResourceIdentifier, ResourceType, Role, UserPrincipal
from carrel.wire.fields import normal_email
from carrel.wire.file_names import forms_of
from service.auth.callers import Caller
from service.domains.documents.recognition.queries import is_being_read
from service.domains.documents.stored.queries import FILE_COLUMNS, DocumentFields, StoredFile, existing_documents
from service.identity.queries import user_as
from service.index.progress import indexing_status
from service.index.queries import has_status, shown_version
from service.permissions.queries import (
    Reader,
    classes_of,
    collections_of,
    documents_within,
    is_readable,
    readable_classes,
    shared_classes,
)
from service.platform import sql
from service.platform.batches import Batch
from service.platform.identifiers import document_id_for
from service.schema.catalog import (
    collections,
    document_contents,
    document_versions,
    documents,
    name_key,
    path_of_document,
)
from service.schema.identity import principals, resources
from service.schema.indexing import space_documents, spaces


def known_not_read(
    not_read: Sequence[Mapping[str, Any]] | None, file_count: int | None, files_done: int | None
) -> Sequence[Mapping[str, Any]] | None:
    """Return the known unread parts of a file; None while none is known and files inside it are waiting."""
    return not_read or (not_read if file_count == files_done else None)


def _document_values(document_id: UUID, version: int, fields: DocumentFields) -> dict[str, Any]:
    return {"document_id": document_id, "version": version, **asdict(fields)}


def _build_document_upsert() -> ReturningInsert[int]:
    times = {"created_at", "updated_at", "deleted_at"}
    columns = [column for column in documents.columns if column.name not in times]
    new = insert(documents).values(
        {column.name: sql.param(column) for column in columns} | {"organization_id": sql.ORGANIZATION}
    )
    unchanged = {"document_id", "organization_id", "version"}
    changed = {column.name: new.excluded[column.name] for column in columns if column.name not in unchanged}
    exists = documents.c.deleted_at.is_(None)
    came_back = {
        "version": sa.case((exists, new.excluded.version), else_=documents.c.version + 1),
        "created_at": sa.case((exists, documents.c.created_at), else_=sa.func.now()),
        "updated_at": sa.func.now(),
        "deleted_at": None,
    }
    statement = new.on_conflict_do_update(index_elements=[documents.c.document_id], set_={**changed, **came_back})
    return statement.returning(documents.c.version)


_SAVED = _build_document_upsert().cte("saved")
_SAVE_DOCUMENT = sa.select(_SAVED.c.version)


def save_document(
    batch: Batch, organization_id: UUID, *, document_id: UUID, version: int, fields: DocumentFields
) -> None:
    """Write a document's row in a batch. A deleted document returns as created now, at the version after its last."""
    parameters = sql.params(organization_id, **_document_values(document_id, version, fields))
    batch.ask(_SAVE_DOCUMENT, dict[str, int], parameters)


_FILE = (*FILE_COLUMNS, "created_by")
_IDENTITY = ("document_id", "organization_id")
_OWN_ID = sql.param(documents.c.document_id)


def _build_version_insert(*, new_text: bool) -> sa.Select[int]:
    saved = _SAVED
    recorded = insert(document_versions).from_select(
        [*_IDENTITY, "version", *_FILE],
        sa.select(
            _OWN_ID, sql.ORGANIZATION, saved.c.version, *(sql.param(document_versions.c[name]) for name in _FILE)
        ),
    )
    text = _replace_text(saved) if new_text else _carry_text_over(saved)
    return sa.select(saved.c.version).add_cte(recorded.cte("recorded"), text.cte("kept"))


def _replace_text(saved: sa.CTE) -> Insert:
    contents = document_contents.c
    new = insert(document_contents).from_select(
        [*_IDENTITY, "version", "title", "blocks"],
        sa.select(_OWN_ID, sql.ORGANIZATION, saved.c.version, sql.param(contents.title), sql.param(contents.blocks)),
    )
    replaced = {name: new.excluded[name] for name in ("version", "title", "blocks")}
    return new.on_conflict_do_update(index_elements=[contents.document_id], set_=replaced)


def _carry_text_over(saved: sa.CTE) -> sa.Update:
    contents = document_contents.c
    return (
        sa.update(document_contents)
        .where(contents.organization_id == sql.ORGANIZATION, contents.document_id == _OWN_ID)
        .values(version=sa.select(saved.c.version).scalar_subquery())
    )


_SAVE_VERSION_WITH_TEXT = _build_version_insert(new_text=True)
_SAVE_VERSION = _build_version_insert(new_text=False)


def save_version(
    batch: Batch,
    organization_id: UUID,
    *,
    document_id: UUID,
    version: int,
    fields: DocumentFields,
    file: StoredFile,
    created_by: UUID,
    blocks: bytes | None,
) -> None:
    """Save a document like `save_document`, and record the version. `blocks`, packed, replace the text (None: kept)."""
    values = {
        **_document_values(document_id, version, fields),
        **{name: getattr(file, field) for name, field in FILE_COLUMNS.items()},
        "created_by": created_by,
    }
    statement = _SAVE_VERSION if blocks is None else _SAVE_VERSION_WITH_TEXT
    new = {} if blocks is None else {"title": fields.name, "blocks": blocks}
    batch.ask(statement, dict[str, int], sql.params(organization_id, **values, **new))


async def set_source_identity(
    connection: Connection, organization_id: UUID, *, document_id: UUID, resource_type: str, resource_id: str
) -> bool:
    """Give the document another identity in its source system; return False when another resource has that identity."""
    values = {"resource_type": resource_type, "resource_id": resource_id}
    try:
        async with connection.begin_nested():
            await sql.update_rows(connection, resources, organization_id, values, object_id=document_id)
    except IntegrityError:
        return False
    return True


async def find_external_ids(
    connection: Connection, organization_id: UUID, external_ids: Collection[str]
) -> dict[str, str]:
    """Return each external id in the Unicode form of the existing document; composed (NFC) without a document."""
    # An ASCII name has a single Unicode form, so it needs no second id.
    others = [external_id for external_id in external_ids if not external_id.isascii()]
    forms = {other: {document_id_for(organization_id, form): form for form in forms_of(other)} for other in others}
    candidates = [document_id for ids in forms.values() if len(ids) > 1 for document_id in ids]
    existing = existing_documents(organization_id, documents.c.document_id).where(
        sql.in_array(documents.c.document_id, candidates)
    )
    known = set((await connection.execute(existing)).scalars()) if candidates else set[UUID]()
    return {item: item for item in external_ids} | {
        name: next((form for document_id, form in ids.items() if document_id in known), normalize("NFC", name))
        for name, ids in forms.items()
    }


async def read_upload_states(
    connection: Connection, caller: Caller, *, document_ids: Sequence[UUID]
) -> dict[UUID, tuple[str | None, bool, bool]]:
    """Return existing documents' fingerprints, whether the caller may update, and whether other principals may read."""
    may_update = resources.c.access_class.in_(readable_classes(caller, at_least=Role.EDITOR))
    shared = resources.c.access_class.in_(shared_classes(caller.organization_id))
    statement = (
        sa.select(
            documents.c.document_id, documents.c.fingerprint, may_update.label("may_update"), shared.label("shared")
        )
        .join(resources, resources.c.object_id == documents.c.document_id)
        .where(
            documents.c.organization_id == caller.organization_id, sql.in_array(documents.c.document_id, document_ids)
        )
    )
    rows = await connection.execute(statement)
    return {row.document_id: (row.fingerprint, row.may_update, row.shared) for row in rows}


async def list_versions(connection: Connection, organization_id: UUID, *, document_id: UUID) -> list[DocumentVersion]:
    """Return the versions of a document, newest first."""
    version = document_versions.c
    statement = (
        sa.select(
            version.version.label("document_version"),
            *(version[name] for name in ("file_name", "file_size", "media_type", "created_at")),
            user_as("created_by", principals.c.principal_id),
        )
        .join(principals, principals.c.principal_id == version.created_by)
        .where(version.organization_id == organization_id, version.document_id == document_id)
        .order_by(version.version.desc())
    )
    return await sql.find_rows(connection, statement, DocumentVersion)


async def read_owner(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> Principal:
    is_principal = sql.matches(principals, organization_id, principal_id=principal_id)
    statement = sa.select(user_as("owner", principals.c.principal_id)).where(is_principal)
    return UserPrincipal.model_validate((await connection.execute(statement)).scalar_one())


# The columns of a listed document, without its owner, its index entry, and whether pages are being read.
_LISTED = (
    *(documents.c[name] for name in ("document_id", "custom_metadata", "created_at", "updated_at")),
    documents.c.name.label("document_name"),
    documents.c.external_id.label("document_external_id"),
    documents.c.external_url.label("document_external_url"),
    documents.c.version.label("document_version"),
    documents.c.source_updated_at.label("source_system_updated"),
    *(document_versions.c[name] for name in ("file_name", "file_size", "media_type")),
    *(document_versions.c[name] for name in ("not_read", "file_count", "files_done")),
    resources.c.container_id.label("parent_document_id"),
    resources.c.resource_id,
    sql.as_member(resources.c.resource_type, ResourceType),
)


@dataclass(frozen=True, slots=True)
class _Key:
    """A sort key with the document id of the same index; `read` reads the key from a page token."""

    value: sa.ColumnElement[Any]
    document_id: sa.ColumnElement[UUID]
    read: Callable[[str], Any]


_ID = documents.c.document_id
_KEYS = {
    DocumentOrder.CREATED: _Key(documents.c.created_at, _ID, datetime.fromisoformat),
    DocumentOrder.UPDATED: _Key(documents.c.updated_at, _ID, datetime.fromisoformat),
    DocumentOrder.NAME: _Key(name_key(), _ID, str),
    DocumentOrder.SIZE: _Key(document_versions.c.file_size, document_versions.c.document_id, int),
}
# Sort at most this many documents of a reader. For other readers, walk the index and pass over unreadable ones.
_FEW = 5000


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """The filters of a request, with their looked-up values: only documents readable by all `readers`."""

    request: DocumentFilters
    ids: Collection[UUID] | None
    readers: Sequence[Reader]
    """An empty value means all documents of the organization."""


async def list_documents(
    connection: Connection,
    caller: Caller,
    *,
    document_filter: DocumentFilter,
    order: DocumentOrder,
    is_descending: bool,
    after: tuple[str, UUID] | None,
    limit: int,
) -> list[tuple[Document, str]]:
    """List documents in the order of a key, after a key and an id, each with its own key."""
    key, organization_id = _KEYS[order], caller.organization_id
    walks = document_filter.ids is None and await _may_read_many(connection, organization_id, document_filter.readers)
    matching = _select_matching(caller, document_filter, _ID, key.value.label("sort_key"), walks=walks)
    if after is not None:
        position, start = sa.tuple_(key.value, key.document_id), sa.tuple_(key.read(after[0]), after[1])
        matching = matching.where(position < start if is_descending else position > start)
    turn = sa.desc if is_descending else sa.asc
    # No index has the order of this tuple, so use it only to sort all matches: few documents, or a filter by name.
    has_name = document_filter.request.document_name is not None
    is_sorted = not walks or (has_name and order is not DocumentOrder.CREATED)
    places = [sa.tuple_(key.value, key.document_id)] if is_sorted else [key.value, key.document_id]
    page = matching.order_by(*map(turn, places)).limit(limit).subquery("page")
    statement = (
        existing_documents(
            organization_id,
            *_LISTED,
            page.c.sort_key,
            user_as("owner", principals.c.principal_id),
            space_documents.c.version.label("wanted_version"),
            *(space_documents.c[name] for name in ("indexed_version", "attempts", "chunk_count")),
            shown_version().label("found_version"),
            is_being_read(organization_id),
        )
        .join(page, page.c.document_id == _ID)
        .join(principals, principals.c.principal_id == documents.c.owner_id)
        .outerjoin(space_documents, _is_in_catalog(organization_id))
        .order_by(turn(page.c.sort_key), turn(_ID))
    )
    return await sql.find_rows(connection, statement, _to_listed)


async def count_documents(connection: Connection, caller: Caller, *, document_filter: DocumentFilter) -> int:
    matching = _select_matching(caller, document_filter, _ID, of_versions=False).subquery("matching")
    return (await connection.execute(sa.select(sql.count_of(matching)))).scalar_one()


async def list_ids(
    connection: Connection,
    caller: Caller,
    *,
    document_filter: DocumentFilter,
    until: datetime,
    after: UUID | None,
    limit: int,
) -> Sequence[UUID]:
    """List ids of matching documents created up to a time, in order, after an id."""
    walks = await _may_read_many(connection, caller.organization_id, document_filter.readers)
    matching = _select_matching(caller, document_filter, _ID, walks=walks).where(documents.c.created_at <= until)
    if after is not None:
        matching = matching.where(after < _ID)
    return (await connection.execute(matching.order_by(_ID).limit(limit))).scalars().all()


def _catalog_of(organization_id: UUID) -> sa.ScalarSelect[int]:
    return (
        sa.select(spaces.c.space_id).where(sql.matches(spaces, organization_id), spaces.c.is_catalog).scalar_subquery()
    )


def _is_in_catalog(organization_id: UUID) -> sa.ColumnElement[bool]:
    return sql.matches(space_documents, organization_id, document_id=_ID, space_id=_catalog_of(organization_id))


def _select_matching(
    caller: Caller, document_filter: DocumentFilter, *columns: Any, walks: bool = False, of_versions: bool = True
) -> sa.Select[*tuple[Any, ...]]:
    """Select the documents of a filter. Without `of_versions`, PostgreSQL leaves out versions that no filter needs."""
    organization_id, request = caller.organization_id, document_filter.request
    readable = [is_readable(reader, resources) for reader in document_filter.readers]
    if walks:
        # `IS TRUE` prevents a join in the plan, which would lose the order.
        readable = [condition.is_(sa.true()) for condition in readable]
    newest = (document_versions.c.document_id == _ID) & (document_versions.c.version == documents.c.version)
    joined = documents.join(resources, resources.c.object_id == _ID).outerjoin(document_versions, newest)
    selection: sa.Select[*tuple[Any, ...]] = sa.select(*columns).select_from(joined)
    statement = selection.where(
        documents.c.organization_id == organization_id,
        documents.c.deleted_at.is_(None),
        *([document_versions.c.organization_id == organization_id] if of_versions else ()),
        resources.c.organization_id == organization_id,
        *_filter_conditions(request),
        *_owner_and_place_conditions(caller, request),
        sql.optional_in(_ID, document_filter.ids),
        *readable,
    )
    if request.indexing is None:
        return statement
    status = has_status(
        request.indexing, document_id=_ID, organization_id=organization_id, space_id=_catalog_of(organization_id)
    )
    return statement.join(space_documents, _is_in_catalog(organization_id)).where(status)


async def _may_read_many(connection: Connection, organization_id: UUID, readers: Sequence[Reader]) -> bool:
    """Return whether each reader may read more than `_FEW` resources; False for a reader limited to collections."""
    for reader in readers:
        if collections_of(reader) is not None:  # a walk would pass over all documents outside of the collections
            return False
        readable = sql.matches(resources, organization_id), resources.c.access_class.in_(classes_of(reader))
        first = sa.select(resources.c.object_id).where(*readable).limit(_FEW + 1).subquery("first")
        if (await connection.execute(sa.select(sql.count_of(first)))).scalar_one() <= _FEW:
            return False
    return True


def _to_listed(*, sort_key: datetime | str | int, **columns: Any) -> tuple[Document, str]:
    return _to_document(**columns), sort_key.isoformat() if isinstance(sort_key, datetime) else str(sort_key)


async def list_folders(
    connection: Connection, caller: Caller, *, document_filter: DocumentFilter, after: str | None, limit: int
) -> list[tuple[DocumentFolder, str]]:
    """List the folders in the filter's folder after a key, each with its key, the name in lower case, merged by key."""
    outer = _path_of(document_filter.request.folder or "")
    depth = outer.count("/") + 1 if outer else 0
    paths = _select_matching(caller, document_filter, path_of_document().label("path"), of_versions=False)
    path = paths.offset(sa.literal_column("0")).subquery("paths").c.path  # OFFSET 0 makes each path once
    folder = sa.select(sa.func.split_part(path, "/", depth + 1).label("name"))
    subfolders = folder.where(sa.func.cardinality(sa.func.string_to_array(path, "/")) > depth + 1).subquery("inside")
    key = sa.func.lower(sa.func.normalize(subfolders.c.name))  # macOS writes names decomposed
    statement = (
        sa.select(key.label("key"), sa.func.min(subfolders.c.name).label("name"), sa.func.count().label("documents"))
        .group_by(key)
        .having(sa.true() if after is None else key > after)
        .order_by(key)
        .limit(limit)
    )
    return [
        (DocumentFolder(folder=f"{outer}/{row.name}".lstrip("/"), name=row.name, document_count=row.documents), row.key)
        for row in await connection.execute(statement)
    ]


def _to_document(
    *,
    resource_id: str,
    resource_type: ResourceType,
    wanted_version: int | None,
    indexed_version: int | None,
    found_version: int | None,
    attempts: int | None,
    chunk_count: int | None,
    **columns: Any,
) -> Document:
    columns["not_read"] = known_not_read(columns["not_read"], columns["file_count"], columns["files_done"])
    status = None
    if wanted_version is not None:
        status = indexing_status(
            desired_version=wanted_version, indexed_version=indexed_version, attempts=attempts or 0
        )
    return Document(
        resource=ResourceIdentifier(resource_id=resource_id, resource_type=resource_type),
        chunk_count=None if found_version is None else chunk_count,
        indexing=status,
        **columns,
    )


def _filter_conditions(request: DocumentFilters) -> Iterator[sa.ColumnElement[bool]]:
    if request.document_name is not None:
        names = (documents.c.name, document_versions.c.file_name)
        yield sa.or_(*(name.icontains(request.document_name, autoescape=True) for name in names))
    if request.resource_types is not None:
        yield sql.in_array(resources.c.resource_type, request.resource_types)
    if request.media_types is not None:
        yield sql.in_array(document_versions.c.media_type, request.media_types)
    if request.parent_document_id is not None:
        yield resources.c.container_id == request.parent_document_id
    if request.contained is not None:
        yield resources.c.container_id.is_not(None) if request.contained else resources.c.container_id.is_(None)
    if request.updated_from is not None:
        yield documents.c.updated_at >= request.updated_from
    if request.updated_to is not None:
        yield documents.c.updated_at < request.updated_to


def _owner_and_place_conditions(caller: Caller, request: DocumentFilters) -> Iterator[sa.ColumnElement[bool]]:
    if request.owner_email is not None:
        email = normal_email(request.owner_email)
        has_email = sql.matches(principals, caller.organization_id, email=email)
        # An array, because PostgreSQL would underestimate a join, and then sort all documents of the owner.
        owner = sa.func.array(sa.select(principals.c.principal_id).where(has_email).scalar_subquery())
        yield documents.c.owner_id == sa.any_(owner)
    if request.shared_with_me is not None:
        personal = replace(caller, principals=tuple(set(caller.principals) - {caller.organization_id}))
        shared = resources.c.access_class.in_(classes_of(personal)), documents.c.owner_id != caller.principal_id
        yield sa.and_(*shared) if request.shared_with_me else sa.not_(sa.and_(*shared))
    if request.document_collection_id is not None:
        yield _ID.in_(_documents_in(caller, request.document_collection_id))
    if path := _path_of(request.folder or ""):
        yield sa.or_(*map(_is_in_folder, forms_of(path)))


def _documents_in(caller: Caller, collection_id: UUID) -> sa.Select[UUID]:
    """Select the documents in a collection if the caller has a role there; an admin needs no role."""
    organization_id = caller.organization_id
    within = documents_within(
        sa.literal(organization_id, sa.Uuid), sa.literal([collection_id], sa.ARRAY(sa.Uuid))
    ).where(sql.optional_in(collections.c.collection_id, caller.collection_ids))
    if caller.is_admin:
        return within
    member = resources.alias("held")
    visible = sa.select(member.c.object_id).where(
        sql.matches(member, organization_id), member.c.access_class.in_(classes_of(caller))
    )
    return within.where(collections.c.collection_id.in_(visible))


def _path_of(folder: str) -> str:
    return re.sub("//+", "/", folder).strip("/")


def _is_in_folder(folder: str) -> sa.ColumnElement[bool]:
    # This scans all documents: lower() is not leakproof, so under row-level security it can't use an index.
    return sa.func.starts_with(sa.func.lower(path_of_document()), sa.func.lower(f"{folder}/"))
