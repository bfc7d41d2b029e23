"""Every statement about documents, their versions and their extracted text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    CTE,
    ColumnElement,
    Select,
    Update,
    and_,
    case,
    func,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningInsert

from carrel.wire.catalog import IndexingStatus
from carrel.wire.common import ResourceType, Role
from service.auth.callers import Caller
from service.domains.documents.recognition.queries import is_being_read
from service.domains.documents.stored.queries import DocumentFields, StoredFile, existing_documents
from service.index.queries import has_status
from service.permissions.queries import is_readable, readable_classes
from service.platform.batches import Batch
from service.platform.sql import ORGANIZATION, as_member, columns_of, find_rows, get_row, in_array, param, params
from service.schema.catalog import document_contents, document_versions, documents
from service.schema.identity import principals
from service.schema.indexing import space_documents, spaces
from service.schema.permissions import resources


@dataclass(frozen=True, slots=True)
class NewText:
    """The title and the packed blocks that were extracted from a file (service.text.reading.pack_blocks)."""

    title: str
    blocks: bytes


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """The filters of `listDocuments`; None filters nothing. `owner_email` is a normal one; times: from, and before."""

    ids: Collection[UUID] | None = None
    name_contains: str | None = None
    owner_email: str | None = None
    resource_types: Sequence[str] | None = None
    media_types: Sequence[str] | None = None
    updated_from: datetime | None = None
    updated_before: datetime | None = None
    indexing: IndexingStatus | None = None
    container_id: UUID | None = None
    contained: bool | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """A principal that a document refers to: its owner, or who made a version."""

    principal_id: UUID
    name: str
    email: str


@dataclass(frozen=True, slots=True)
class StoredVersion(Author):
    """A version of a document, and who made it."""

    version: int
    file_name: str
    file_size: int
    media_type: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """A document in a list; `wanted_version` is None for one that the catalog's index doesn't have."""

    document_id: UUID
    name: str
    external_id: str
    external_url: str | None
    resource_type: ResourceType
    resource_id: str
    owner_id: UUID
    owner_name: str
    owner_email: str
    version: int
    file_name: str
    file_size: int
    media_type: str
    not_read: list[dict[str, Any]] | None
    file_count: int | None
    files_done: int | None
    container_id: UUID | None
    custom_metadata: dict[str, str]
    source_updated_at: datetime | None
    created_at: datetime
    updated_at: datetime
    wanted_version: int | None
    indexed_version: int | None
    attempts: int | None
    chunk_count: int | None
    is_being_read: bool


def known_not_read(file: StoredFile | ListedDocument) -> Sequence[Mapping[str, Any]] | None:
    """Return which parts of a file were not read; None while nothing is known, since the files in it wait."""
    return file.not_read or (file.not_read if file.file_count == file.files_done else None)


def _document_values(document_id: UUID, version: int, fields: DocumentFields) -> dict[str, Any]:
    return {
        "document_id": document_id,
        "version": version,
        "external_id": fields.external_id,
        "name": fields.name,
        "external_url": fields.external_url,
        "owner_id": fields.owner_id,
        "custom_metadata": dict(fields.custom_metadata),
        "fingerprint": fields.fingerprint,
        "source_updated_at": fields.source_updated_at,
    }


def _build_document_upsert() -> ReturningInsert[int]:
    times = {"created_at", "updated_at", "deleted_at"}
    columns = [column for column in documents.columns if column.name not in times]
    new = insert(documents).values(
        {column.name: param(column) for column in columns} | {"organization_id": ORGANIZATION}
    )
    kept = {"document_id", "organization_id", "version"}
    changed = {column.name: new.excluded[column.name] for column in columns if column.name not in kept}
    exists = documents.c.deleted_at.is_(None)
    came_back = {
        "version": case((exists, new.excluded.version), else_=documents.c.version + 1),
        "created_at": case((exists, documents.c.created_at), else_=func.now()),
        "updated_at": func.now(),
        "deleted_at": None,
    }
    statement = new.on_conflict_do_update(index_elements=[documents.c.document_id], set_={**changed, **came_back})
    return statement.returning(documents.c.version)


_SAVED = _build_document_upsert().cte("saved")
_SAVE_DOCUMENT = select(_SAVED.c.version)


def save_document(
    batch: Batch, organization_id: UUID, *, document_id: UUID, version: int, fields: DocumentFields
) -> None:
    """Write the document's row in a batch.

    A deleted document comes back as created now, at the version after its last one: no number is ever used twice.
    """
    parameters = params(organization_id, **_document_values(document_id, version, fields))
    batch.ask(_SAVE_DOCUMENT, dict[str, int], parameters)


_FILE = (
    *("file_sha256", "file_size", "file_name", "media_type", "not_read", "file_count", "files_done"),
    *("reads_pictures", "created_by"),
)
_IDENTITY = ("document_id", "organization_id")
_OWN_ID = param(documents.c.document_id)


def _build_version_insert(*, new_text: bool) -> Select[int]:
    """Save the document, record the version it has then, and keep its text or the text of the version before."""
    saved = _SAVED
    recorded = insert(document_versions).from_select(
        [*_IDENTITY, "version", *_FILE],
        select(_OWN_ID, ORGANIZATION, saved.c.version, *(param(document_versions.c[name]) for name in _FILE)),
    )
    text = _replace_text(saved) if new_text else _keep_text(saved)
    return select(saved.c.version).add_cte(recorded.cte("recorded"), text.cte("kept"))


def _replace_text(saved: CTE) -> Insert:
    contents = document_contents.c
    new = insert(document_contents).from_select(
        [*_IDENTITY, "version", "title", "blocks"],
        select(_OWN_ID, ORGANIZATION, saved.c.version, param(contents.title), param(contents.blocks)),
    )
    replaced = {name: new.excluded[name] for name in ("version", "title", "blocks")}
    return new.on_conflict_do_update(index_elements=[contents.document_id], set_=replaced)


def _keep_text(saved: CTE) -> Update:
    contents = document_contents.c
    return (
        update(document_contents)
        .where(contents.organization_id == ORGANIZATION, contents.document_id == _OWN_ID)
        .values(version=select(saved.c.version).scalar_subquery())
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
    text: NewText | None,
) -> None:
    """Do what `save_document` does, and record the version with its text in the same statement.

    `text` None keeps the text of the version before (the same bytes).
    """
    values = {
        **_document_values(document_id, version, fields),
        "file_sha256": file.sha256,
        "file_size": file.size,
        "file_name": file.name,
        "media_type": file.media_type,
        "not_read": file.not_read,
        "file_count": file.file_count,
        "files_done": file.files_done,
        "reads_pictures": file.reads_pictures,
        "created_by": created_by,
    }
    statement = _SAVE_VERSION if text is None else _SAVE_VERSION_WITH_TEXT
    new = {} if text is None else {"title": text.title, "blocks": text.blocks}
    batch.ask(statement, dict[str, int], params(organization_id, **values, **new))


async def set_source_identity(
    connection: AsyncConnection, organization_id: UUID, *, document_id: UUID, resource_type: str, resource_id: str
) -> bool:
    """Give the document another identity in its source system; False when another resource has it already."""
    taken = select(resources.c.object_id).where(
        resources.c.organization_id == organization_id,
        resources.c.resource_type == resource_type,
        resources.c.resource_id == resource_id,
        resources.c.object_id != document_id,
    )
    statement = (
        update(resources)
        .where(resources.c.organization_id == organization_id, resources.c.object_id == document_id, ~taken.exists())
        .values(resource_type=resource_type, resource_id=resource_id)
    )
    try:
        async with connection.begin_nested():
            result = await connection.execute(statement)
    except IntegrityError:
        return False
    return result.rowcount == 1


async def read_upload_states(
    connection: AsyncConnection, caller: Caller, *, document_ids: Sequence[UUID]
) -> dict[UUID, tuple[str | None, bool]]:
    """Return, for those of the documents that exist, the fingerprint and whether the caller may update the contents."""
    may_update = resources.c.access_class.in_(readable_classes(caller, at_least=Role.EDITOR))
    statement = (
        select(documents.c.document_id, documents.c.fingerprint, may_update.label("may_update"))
        .join(resources, resources.c.object_id == documents.c.document_id)
        .where(
            documents.c.organization_id == caller.organization_id,
            in_array(documents.c.document_id, document_ids),
        )
    )
    rows = await connection.execute(statement)
    return {row.document_id: (row.fingerprint, row.may_update) for row in rows}


async def list_versions(
    connection: AsyncConnection, organization_id: UUID, *, document_id: UUID
) -> list[StoredVersion]:
    """Return the versions of a document, newest first."""
    statement = (
        select(
            *columns_of(
                document_versions, StoredVersion, principals.c.principal_id, principals.c.email, principals.c.name
            )
        )
        .join(principals, principals.c.principal_id == document_versions.c.created_by)
        .where(
            document_versions.c.organization_id == organization_id,
            document_versions.c.document_id == document_id,
        )
        .order_by(document_versions.c.version.desc())
    )
    return await find_rows(connection, statement, StoredVersion)


async def read_principal(connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID) -> Author:
    """Return a principal that a document refers to."""
    statement = select(*columns_of(principals, Author)).where(
        principals.c.organization_id == organization_id, principals.c.principal_id == principal_id
    )
    return await get_row(connection, statement, Author)


async def list_documents(
    connection: AsyncConnection,
    caller: Caller,
    *,
    filters: DocumentFilter,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[ListedDocument]:
    """Return documents, newest created first, that the caller may read (an admin: that exist), after a position."""
    statement = (
        existing_documents(
            caller.organization_id,
            *columns_of(
                documents,
                ListedDocument,
                *(document_versions.c[name] for name in ("file_name", "file_size", "media_type")),
                *(document_versions.c[name] for name in ("not_read", "file_count", "files_done")),
                resources.c.container_id,
                as_member(resources.c.resource_type, ResourceType),
                resources.c.resource_id,
                principals.c.email.label("owner_email"),
                principals.c.name.label("owner_name"),
                space_documents.c.version.label("wanted_version"),
                space_documents.c.indexed_version,
                space_documents.c.attempts,
                space_documents.c.chunk_count,
                is_being_read(caller.organization_id),
            ),
        )
        .join(principals, principals.c.principal_id == documents.c.owner_id)
        .outerjoin(space_documents, _in_catalog(caller.organization_id))
        .where(*_filter_conditions(filters))
        .order_by(documents.c.created_at.desc(), documents.c.document_id.desc())
        .limit(limit)
    )
    if filters.indexing is not None:
        organization_id = caller.organization_id
        statement = statement.where(
            has_status(
                filters.indexing,
                document_id=documents.c.document_id,
                organization_id=organization_id,
                space_id=_catalog(organization_id),
            )
        )
    if not caller.is_admin or caller.collection_ids is not None:
        statement = statement.where(is_readable(caller, resources))
    if after is not None:
        statement = statement.where(tuple_(documents.c.created_at, documents.c.document_id) < tuple_(*after))
    return await find_rows(connection, statement, ListedDocument)


def _catalog(organization_id: UUID) -> ColumnElement[int]:
    return (
        select(spaces.c.space_id)
        .where(spaces.c.organization_id == organization_id, spaces.c.is_catalog)
        .scalar_subquery()
    )


def _in_catalog(organization_id: UUID) -> ColumnElement[bool]:
    """Return the document's place in the catalog's index."""
    return and_(
        space_documents.c.document_id == documents.c.document_id,
        space_documents.c.organization_id == organization_id,
        space_documents.c.space_id == _catalog(organization_id),
    )


def _filter_conditions(filters: DocumentFilter) -> Iterator[ColumnElement[bool]]:
    if filters.ids is not None:
        yield in_array(documents.c.document_id, filters.ids)
    if filters.name_contains is not None:
        yield documents.c.name.icontains(filters.name_contains, autoescape=True)
    if filters.owner_email is not None:
        yield principals.c.email == filters.owner_email
    if filters.resource_types is not None:
        yield in_array(resources.c.resource_type, filters.resource_types)
    if filters.media_types is not None:
        yield in_array(document_versions.c.media_type, filters.media_types)
    if filters.container_id is not None:
        yield resources.c.container_id == filters.container_id
    if filters.contained is not None:
        yield resources.c.container_id.is_not(None) if filters.contained else resources.c.container_id.is_(None)
    if filters.updated_from is not None:
        yield documents.c.updated_at >= filters.updated_from
    if filters.updated_before is not None:
        yield documents.c.updated_at < filters.updated_before
