"""SQL of a document as it is stored: its fields, its newest file, who reads it, and whether it waits to be indexed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BindParameter, Select, and_, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.auth.callers import Caller
from service.index.spaces.queries import is_searched
from service.permissions.access import Access
from service.permissions.queries import ask_lock, is_readable
from service.platform.batches import Answer, Batch
from service.platform.sql import ORGANIZATION, columns_of, find_row, in_array, param, params
from service.schema.catalog import document_contents, document_versions, documents, left_out_files, scanned_pages
from service.schema.collections import caller_chunks
from service.schema.indexing import space_documents, spaces
from service.schema.permissions import class_readers, resources


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The bytes of one version: where they lie in the file store, and what they are."""

    sha256: bytes
    size: int
    name: str
    media_type: str
    not_read: Sequence[Mapping[str, Any]] | None
    """The parts that reading left out, as on the wire; None for a file that was read before this was told."""
    file_count: int | None = None
    """The number of files that it holds; None: none."""
    files_done: int | None = None
    """The number of those that have become documents, or were given up."""
    reads_pictures: bool = False
    """Whether text in pictures within it is to be read by machine."""


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

    `container_id`: the document whose file holds this one's, if one does.

    `pending`: some space that is searched wants a version of it that is not indexed there yet.
    """

    document_id: UUID
    version: int
    fields: DocumentFields
    file: StoredFile
    resource_type: str
    resource_id: str
    container_id: UUID | None
    access: Access
    pending: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StoredText:
    """A document with the text of its newest version: the packed blocks, None where it has none (yet)."""

    document_id: UUID
    name: str
    external_url: str | None
    custom_metadata: Mapping[str, str]
    updated_at: datetime
    version: int
    media_type: str
    blocks: bytes | None


def lock_document(batch: Batch, document_id: UUID) -> None:
    """Lock a document's id against other uploads until the transaction ends, even if it has no row yet."""
    key = int.from_bytes(document_id.bytes[:8], signed=True)
    batch.tell("SELECT pg_advisory_xact_lock($1::bigint)", key)


_document_columns = (
    *columns_of(documents, DocumentFields),
    documents.c.document_id,
    documents.c.version,
    documents.c.created_at,
    documents.c.updated_at,
    document_versions.c.file_sha256,
    document_versions.c.file_size,
    document_versions.c.file_name,
    document_versions.c.media_type,
    document_versions.c.not_read,
    document_versions.c.file_count,
    document_versions.c.files_done,
    document_versions.c.reads_pictures,
    resources.c.resource_type,
    resources.c.resource_id,
    resources.c.container_id,
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


@dataclass(frozen=True, slots=True)
class AskedDocument:
    """A question in a batch: a document, whose resource was locked or not."""

    _document: Answer[StoredDocument]
    _locked: Answer[dict[str, int]] | None

    @property
    def document(self) -> StoredDocument | None:
        """The document, once the batch has been run; None when it does not exist or was deleted."""
        is_there = self._locked is None or self._locked.row is not None
        return self._document.row if is_there else None


def ask_document(batch: Batch, organization_id: UUID, *, document_id: UUID, lock: bool = False) -> AskedDocument:
    """Ask for a document without a check of rights.

    `lock` holds its resource row until the transaction ends, as grants and index writes do; it is taken by a statement
    of its own, because one that waits for a lock goes on with what it saw of other tables before. Both are run whether
    there is a document or not, so that the time taken tells nobody.
    """
    locked = ask_lock(batch, organization_id, document_id) if lock else None
    document = batch.ask(_DOCUMENT, _to_document, params(organization_id, document_id=document_id))
    return AskedDocument(document, locked)


_VERSION = select(documents.c.version).where(
    documents.c.organization_id == ORGANIZATION, documents.c.document_id == param(documents.c.document_id)
)


def ask_version(batch: Batch, organization_id: UUID, *, document_id: UUID) -> Answer[dict[str, int]]:
    """Ask for a document's newest version, of a deleted one its last; no row when there never was any."""
    return batch.ask(_VERSION, dict[str, int], params(organization_id, document_id=document_id))


async def read_document(
    connection: AsyncConnection, organization_id: UUID, *, document_id: UUID, lock: bool = False
) -> StoredDocument | None:
    """Return a document as `ask_document` finds it."""
    batch = Batch()
    asked = ask_document(batch, organization_id, document_id=document_id, lock=lock)
    await batch.run(connection)
    return asked.document


async def find_text(connection: AsyncConnection, caller: Caller, *, document_id: UUID) -> StoredText | None:
    """Return a document that the caller may READ, with its text; None for others, admins too."""
    columns = columns_of(documents, StoredText, document_versions.c.media_type, document_contents.c.blocks)
    found = existing_documents(caller.organization_id, *columns)
    statement = found.outerjoin(document_contents, document_contents.c.document_id == documents.c.document_id).where(
        documents.c.document_id == document_id, is_readable(caller, resources)
    )
    return await find_row(connection, statement, StoredText)


async def read_file(
    connection: AsyncConnection, organization_id: UUID, *, document_id: UUID, version: int
) -> StoredFile | None:
    """Return the file of one version of a document; None when there is no such version."""
    own = document_versions.c
    renamed = own.file_sha256.label("sha256"), own.file_size.label("size"), own.file_name.label("name")
    statement = select(*renamed, own.media_type, own.not_read).where(
        own.organization_id == organization_id, own.document_id == document_id, own.version == version
    )
    return await find_row(connection, statement, StoredFile)


async def erase_documents(
    connection: AsyncConnection, organization_id: UUID, *, document_ids: Collection[UUID]
) -> None:
    """Erase everything about documents but their ids, their external ids and their last version numbers."""
    erased = (
        delete(table)
        .where(table.c.organization_id == organization_id, in_array(table.c.document_id, document_ids))
        .cte(f"erased_{table.name}")
        for table in (document_contents, document_versions, scanned_pages, left_out_files, caller_chunks)
    )
    statement = (
        update(documents)
        .where(documents.c.organization_id == organization_id, in_array(documents.c.document_id, document_ids))
        .values(
            name="",
            external_url=None,
            custom_metadata={},
            fingerprint=None,
            source_updated_at=None,
            deleted_at=func.now(),
        )
        .add_cte(*erased)
    )
    await connection.execute(statement)


def _to_document(*, readers: Sequence[str] | None, **columns: Any) -> StoredDocument:
    own = DocumentFields(**{one.name: columns.pop(one.name) for one in fields(DocumentFields)})
    of_file = ("file_sha256", "file_size", "file_name", "media_type", "not_read", "file_count", "files_done")
    of_file = (*of_file, "reads_pictures")
    file = StoredFile(*(columns.pop(name) for name in of_file))
    return StoredDocument(fields=own, file=file, access=_access(readers or ()), **columns)


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
