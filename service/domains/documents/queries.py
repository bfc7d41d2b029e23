"""SQL of a document as it is stored: its fields, its newest file, who reads it, and whether it waits to be indexed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, BindParameter, Select, and_, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.index.spaces.queries import is_searched
from service.permissions.access import Access
from service.permissions.queries import lock_resource
from service.platform.sql import ORGANIZATION, AnyRow, param, params
from service.schema.catalog import document_versions, documents
from service.schema.indexing import space_documents, spaces
from service.schema.permissions import class_readers, resources


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The bytes of one version: where they lie in the file store, and what they are."""

    sha256: bytes
    size: int
    name: str
    media_type: str


@dataclass(frozen=True, slots=True)
class DocumentFields:
    """What the catalog records about a document besides its contents and its readers."""

    external_id: str
    name: str
    external_url: str | None
    owner_id: UUID
    custom_metadata: Mapping[str, str]
    fingerprint: str | None
    source_updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document that exists, its newest file, its identity in its source system, and who may read it.

    `pending`: some space that is searched wants a version of it that is not indexed there yet.
    """

    document_id: UUID
    version: int
    fields: DocumentFields
    file: StoredFile
    resource_type: str
    resource_id: str
    access: Access
    pending: bool
    created_at: datetime
    updated_at: datetime


_LOCK_KEY = select(func.pg_advisory_xact_lock(bindparam("key", type_=BigInteger)))


async def lock_document(connection: AsyncConnection, document_id: UUID) -> None:
    """Lock a document's id against other uploads until the transaction ends, even if it has no row yet."""
    key = int.from_bytes(document_id.bytes[:8], signed=True)
    await connection.execute(_LOCK_KEY, {"key": key})


_document_columns = (
    documents,
    document_versions.c.file_sha256,
    document_versions.c.file_size,
    document_versions.c.file_name,
    document_versions.c.media_type,
    resources.c.resource_type,
    resources.c.resource_id,
    select(func.array_agg(func.concat(class_readers.c.role, ":", class_readers.c.principal_id)))
    .where(class_readers.c.access_class == resources.c.access_class)
    .scalar_subquery()
    .label("readers"),
    select(space_documents.c.space_id)
    .join(spaces, spaces.c.space_id == space_documents.c.space_id)
    .where(
        is_searched(),
        space_documents.c.document_id == documents.c.document_id,
        space_documents.c.indexed_version.is_distinct_from(space_documents.c.version),
    )
    .exists()
    .label("pending"),
)


def existing_documents(organization_id: UUID | BindParameter[UUID], *columns: Any) -> Select[*tuple[Any, ...]]:
    """Select from the documents of the organization that are not deleted, each with its newest version."""
    newest = and_(
        document_versions.c.document_id == documents.c.document_id,
        document_versions.c.version == documents.c.version,
    )
    joined = documents.join(resources, resources.c.object_id == documents.c.document_id).join(document_versions, newest)
    chosen: Select[*tuple[Any, ...]] = select(*columns)
    return chosen.select_from(joined).where(documents.c.organization_id == organization_id)


_DOCUMENT = existing_documents(ORGANIZATION, *_document_columns).where(
    documents.c.document_id == param(documents.c.document_id)
)


async def read_document(
    connection: AsyncConnection, organization_id: UUID, *, document_id: UUID, lock: bool = False
) -> StoredDocument | None:
    """Return a document without a check of rights; None when it does not exist or was deleted.

    `lock` holds its resource row until the transaction ends, as grants and index writes do; it is taken by a statement
    of its own, because one that waits for a lock goes on with what it saw of other tables before. Both are run whether
    there is a document or not, so that the time taken tells nobody.
    """
    there = not lock or await lock_resource(connection, organization_id, document_id) is not None
    row = (await connection.execute(_DOCUMENT, params(organization_id, document_id=document_id))).one_or_none()
    return _stored_document(row) if there and row is not None else None


def _stored_document(row: AnyRow) -> StoredDocument:
    return StoredDocument(
        document_id=row.document_id,
        version=row.version,
        fields=DocumentFields(
            external_id=row.external_id,
            name=row.name,
            external_url=row.external_url,
            owner_id=row.owner_id,
            custom_metadata=row.custom_metadata,
            fingerprint=row.fingerprint,
            source_updated_at=row.source_updated_at,
        ),
        file=StoredFile(row.file_sha256, row.file_size, row.file_name, row.media_type),
        resource_type=row.resource_type,
        resource_id=row.resource_id,
        access=_access(row.readers or ()),
        pending=row.pending,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _access(readers: Sequence[str]) -> Access:
    grantees: dict[str, set[UUID]] = {"OWNER": set(), "EDITOR": set(), "VIEWER": set()}
    for reader in readers:
        role, _, principal_id = reader.partition(":")
        grantees[role].add(UUID(principal_id))
    return Access(
        owner_id=next(iter(grantees["OWNER"]), None),
        viewers=frozenset(grantees["VIEWER"]),
        editors=frozenset(grantees["EDITOR"]),
    )
