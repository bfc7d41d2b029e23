"""SQL of stored documents: fields, newest file, readers, and contained files."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import CTE, BindParameter, Select, and_, delete, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.catalog import ContainedFiles, LeftOutFile
from service.auth.callers import Caller
from service.index.progress import FAILED_AFTER
from service.index.queries import is_pending, lacks_words
from service.index.spaces.queries import is_searched
from service.permissions.access import Access
from service.permissions.queries import ask_lock, is_readable
from service.platform import sql
from service.platform.batches import Answer, Batch
from service.schema.catalog import (
    caller_chunks,
    document_contents,
    document_versions,
    documents,
    left_out_files,
    scanned_pages,
)
from service.schema.identity import class_readers, resources
from service.schema.indexing import space_documents, spaces


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The bytes of a version: their place in the file store, and their description."""

    sha256: bytes
    size: int
    name: str
    media_type: str
    not_read: Sequence[Mapping[str, Any]] | None
    """The parts left unread, as on the wire; None for a file read before this was recorded."""
    file_count: int | None = None
    """The number of files inside; None: none."""
    files_done: int | None = None
    """The number of contained files that became documents or were given up."""
    reads_pictures: bool = False
    """Whether to recognize text in pictures within the file."""


NamedBy = Literal["FILE", "UPLOAD", "RENAME"]


@dataclass(frozen=True, slots=True)
class DocumentFields:
    """The catalog's record of a document, except contents and readers."""

    external_id: str
    name: str
    external_url: str | None
    owner_id: UUID
    custom_metadata: Mapping[str, str]
    fingerprint: str | None
    source_updated_at: datetime | None
    named_by: NamedBy | None
    """The giver of the name; None for a document last written before this was recorded."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """An existing document, inside `container_id` if any; `pending` for an index, `lacks_words` if also for words."""

    document_id: UUID
    version: int
    fields: DocumentFields
    file: StoredFile
    resource_type: str
    resource_id: str
    container_id: UUID | None
    access: Access
    pending: bool
    lacks_words: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StoredText:
    """A document with the newest version's text: the packed blocks, None without text (yet)."""

    document_id: UUID
    name: str
    external_url: str | None
    custom_metadata: Mapping[str, str]
    updated_at: datetime
    version: int
    media_type: str
    blocks: bytes | None


def lock_document(batch: Batch, document_id: UUID) -> None:
    """Lock a document's id against other uploads until the transaction ends, even without a row."""
    key = int.from_bytes(document_id.bytes[:8], signed=True)
    batch.tell("SELECT pg_advisory_xact_lock($1::bigint)", key)


# The columns of a version that describe its file, with their fields in StoredFile.
FILE_COLUMNS = {
    "file_sha256": "sha256",
    "file_size": "size",
    "file_name": "name",
    **{name: name for name in ("media_type", "not_read", "file_count", "files_done", "reads_pictures")},
}
_document_columns = (
    *sql.columns_of(documents, DocumentFields),
    documents.c.document_id,
    documents.c.version,
    documents.c.created_at,
    documents.c.updated_at,
    *(document_versions.c[name] for name in FILE_COLUMNS),
    resources.c.resource_type,
    resources.c.resource_id,
    resources.c.container_id,
    select(func.array_agg(func.concat(class_readers.c.role, ":", class_readers.c.principal_id)))
    .where(class_readers.c.access_class == resources.c.access_class)
    .scalar_subquery()
    .label("readers"),
    *(
        select(space_documents.c.space_id)
        .join(spaces, spaces.c.space_id == space_documents.c.space_id)
        .where(is_searched(), space_documents.c.document_id == documents.c.document_id, lacks)
        .exists()
        .label(name)
        for name, lacks in {"pending": is_pending(), "lacks_words": lacks_words()}.items()
    ),
)


def existing_documents(organization_id: UUID | BindParameter[UUID], *columns: Any) -> Select[*tuple[Any, ...]]:
    """Select the organization's documents, except deleted documents, each with its newest version."""
    newest = and_(
        document_versions.c.document_id == documents.c.document_id, document_versions.c.version == documents.c.version
    )
    joined = documents.join(resources, resources.c.object_id == documents.c.document_id).join(document_versions, newest)
    chosen: Select[*tuple[Any, ...]] = select(*columns)
    return chosen.select_from(joined).where(documents.c.organization_id == organization_id)


_DOCUMENT = existing_documents(sql.ORGANIZATION, *_document_columns).where(
    documents.c.document_id == sql.param(documents.c.document_id)
)


@dataclass(frozen=True, slots=True)
class AskedDocument:
    """A question in a batch for a document, with or without a lock on its resource."""

    _document: Answer[StoredDocument]
    _locked: Answer[dict[str, int]] | None

    @property
    def document(self) -> StoredDocument | None:
        """The document, after the batch has run; None when missing or deleted."""
        is_there = self._locked is None or self._locked.row is not None
        return self._document.row if is_there else None


def ask_document(batch: Batch, organization_id: UUID, *, document_id: UUID, lock: bool = False) -> AskedDocument:
    """Read a document in a batch without a check of rights. `lock` locks the resource row until the transaction ends,
    in a separate statement with a new view. Both statements always run, so timing reveals nothing."""
    locked = ask_lock(batch, organization_id, document_id) if lock else None
    document = batch.ask(_DOCUMENT, _to_document, sql.params(organization_id, document_id=document_id))
    return AskedDocument(document, locked)


_VERSION = select(documents.c.version).where(
    documents.c.organization_id == sql.ORGANIZATION, documents.c.document_id == sql.param(documents.c.document_id)
)


def ask_version(batch: Batch, organization_id: UUID, *, document_id: UUID) -> Answer[dict[str, int]]:
    """Read a document's newest version in a batch, or a deleted document's last; no row without any version."""
    return batch.ask(_VERSION, dict[str, int], sql.params(organization_id, document_id=document_id))


async def read_document(
    connection: Connection, organization_id: UUID, *, document_id: UUID, lock: bool = False
) -> StoredDocument | None:
    """Return a document, locked if asked, without a check of rights; None when missing or deleted."""
    batch = Batch()
    asked = ask_document(batch, organization_id, document_id=document_id, lock=lock)
    await batch.run(connection)
    return asked.document


async def find_text(connection: Connection, caller: Caller, *, document_id: UUID) -> StoredText | None:
    """Return a document the caller may READ, with its text; None otherwise, also for admins."""
    columns = sql.columns_of(documents, StoredText, document_versions.c.media_type, document_contents.c.blocks)
    found = existing_documents(caller.organization_id, *columns)
    statement = found.outerjoin(document_contents, document_contents.c.document_id == documents.c.document_id).where(
        documents.c.document_id == document_id, is_readable(caller, resources)
    )
    return await sql.find_row(connection, statement, StoredText)


async def read_file(
    connection: Connection, organization_id: UUID, *, document_id: UUID, version: int
) -> StoredFile | None:
    columns = (document_versions.c[name].label(field) for name, field in FILE_COLUMNS.items())
    statement = select(*columns).where(
        sql.matches(document_versions, organization_id, document_id=document_id, version=version)
    )
    return await sql.find_row(connection, statement, StoredFile)


async def erase_documents(connection: Connection, organization_id: UUID, *, document_ids: Collection[UUID]) -> None:
    """Erase documents, except their ids, external ids and last version numbers."""
    erased = (
        delete(table)
        .where(table.c.organization_id == organization_id, sql.in_array(table.c.document_id, document_ids))
        .cte(f"erased_{table.name}")
        for table in (document_contents, document_versions, scanned_pages, left_out_files, caller_chunks)
    )
    statement = (
        update(documents)
        .where(documents.c.organization_id == organization_id, sql.in_array(documents.c.document_id, document_ids))
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
    own = DocumentFields(**{item.name: columns.pop(item.name) for item in fields(DocumentFields)})
    file = StoredFile(**{field: columns.pop(name) for name, field in FILE_COLUMNS.items()})
    named = (reader.partition(":") for reader in readers or ())
    access = Access.of((UUID(principal_id), role) for role, _, principal_id in named)
    return StoredDocument(fields=own, file=file, access=access, **columns)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file in a container without a document: the number, from 0, the path (None: unknown), and the reason."""

    file_no: int
    path: str | None
    code: str
    message: str


def files_inside(organization_id: UUID, container_id: UUID) -> CTE:
    """Select the ids of the documents in a container, at every level."""
    own = (
        select(resources.c.object_id)
        .where(sql.matches(resources, organization_id, container_id=container_id))
        .cte("inside", recursive=True)
    )
    return own.union_all(
        select(resources.c.object_id)
        .join(own, own.c.object_id == resources.c.container_id)
        .where(resources.c.organization_id == organization_id)
    )


async def count_contained(
    connection: Connection, organization_id: UUID, *, container: StoredFile, container_id: UUID
) -> ContainedFiles:
    """Count the files in a container at every level by progress, and the files left out by code."""
    inside = files_inside(organization_id, container_id)
    unindexed, version = space_documents.c, document_versions.c
    waiting = (
        select(unindexed.document_id)
        .join(spaces, spaces.c.space_id == unindexed.space_id)
        .where(unindexed.organization_id == organization_id, is_searched(), is_pending())
    )
    has_failed = documents.c.document_id.in_(waiting.where(unindexed.attempts >= FAILED_AFTER))
    statement = existing_documents(
        organization_id,
        func.count().label("documents"),
        func.coalesce(func.sum(version.file_count), 0).label("files"),
        func.coalesce(func.sum(version.file_count - version.files_done), 0).label("waiting"),
        sql.count_where(has_failed, "indexing_failed"),
        sql.count_where(documents.c.document_id.in_(waiting) & ~has_failed, "indexing"),
    ).where(documents.c.document_id.in_(select(inside.c.object_id)))
    found = (await connection.execute(statement)).one()
    own = container.file_count or 0
    return ContainedFiles(
        files=own + found.files,
        waiting=own - (container.files_done or 0) + found.waiting,
        documents=found.documents,
        indexing=found.indexing,
        indexing_failed=found.indexing_failed,
        left_out=await _count_left_out(connection, organization_id, container_id=container_id),
    )


async def _count_left_out(connection: Connection, organization_id: UUID, *, container_id: UUID) -> dict[str, int]:
    own, inside = left_out_files.c, files_inside(organization_id, container_id)
    statement = (
        select(own.code, func.count().label("files"))
        .where(
            own.organization_id == organization_id,
            or_(own.document_id == container_id, own.document_id.in_(select(inside.c.object_id))),
        )
        .group_by(own.code)
        .order_by(func.count().desc(), own.code)
    )
    return {row.code: row.files for row in await connection.execute(statement)}


async def list_left_out(
    connection: Connection, organization_id: UUID, *, container_id: UUID, after: int, limit: int
) -> list[LeftOutFile]:
    own = left_out_files.c
    of_it = select((own.file_no + 1).label("number"), own.path, own.code, own.message).where(
        sql.matches(left_out_files, organization_id, document_id=container_id)
    )
    return await sql.find_rows(connection, sql.rows_after(of_it, own.file_no, after=after, limit=limit), LeftOutFile)


async def save_left_out(
    connection: Connection, organization_id: UUID, *, container_id: UUID, files: Mapping[int, LeftOut]
) -> None:
    """Save the files left out of a container, by number; known entries stay unchanged."""
    if not files:
        return
    of_it = {"organization_id": organization_id, "document_id": container_id}
    given = sql.rows_of(list(left_out_files.columns), [{**asdict(file), **of_it} for file in files.values()])
    statement = insert(left_out_files).from_select(given.c.keys(), select(*given.c))
    await connection.execute(statement.on_conflict_do_nothing())


async def forget_left_out(connection: Connection, organization_id: UUID, *, document_id: UUID) -> None:
    await sql.delete_rows(connection, left_out_files, organization_id, document_id=document_id)


async def list_containers(connection: Connection, organization_id: UUID, *, document_id: UUID) -> list[UUID]:
    """List a document and all containers around, the innermost first."""
    own = (
        select(resources.c.object_id, resources.c.container_id, literal(0).label("depth"))
        .where(sql.matches(resources, organization_id, object_id=document_id))
        .cte("outer", recursive=True)
    )
    outer = own.union_all(
        select(resources.c.object_id, resources.c.container_id, own.c.depth + 1)
        .join(own, own.c.container_id == resources.c.object_id)
        .where(resources.c.organization_id == organization_id)
    )
    return list((await connection.execute(select(outer.c.object_id).order_by(outer.c.depth))).scalars())


async def sum_up_contained(
    connection: Connection, organization_id: UUID, *, container_id: UUID, without: UUID
) -> tuple[int, int]:
    """Count the documents in a container at every level, and their bytes, except documents directly in `without`."""
    inside = files_inside(organization_id, container_id)
    size = func.coalesce(func.sum(document_versions.c.file_size), 0)
    statement = existing_documents(organization_id, func.count(), size).where(
        documents.c.document_id.in_(select(inside.c.object_id)), resources.c.container_id.is_distinct_from(without)
    )
    count, total = (await connection.execute(statement)).one()
    return count, total


async def lock_files_except(
    connection: Connection, organization_id: UUID, *, container_id: UUID, kept: Collection[UUID], limit: int
) -> Sequence[UUID]:
    """Lock up to `limit` documents directly in a container, except the `kept`, and return their ids."""
    statement = (
        select(resources.c.object_id)
        .where(
            sql.matches(resources, organization_id, container_id=container_id),
            ~sql.in_array(resources.c.object_id, kept),
        )
        .order_by(resources.c.object_id)
        .limit(limit)
        .with_for_update()
    )
    return (await connection.execute(statement)).scalars().all()


async def save_files_done(
    connection: Connection,
    organization_id: UUID,
    *,
    document_id: UUID,
    sha256: bytes,
    files_done: int,
    not_read: Sequence[Mapping[str, Any]] | None = None,
) -> bool:
    """Save the number of finished files and, if given, the unread parts; False if the file is no longer the newest."""
    newest = select(documents.c.version).where(
        sql.matches(documents, organization_id, document_id=document_id), documents.c.deleted_at.is_(None)
    )
    values: dict[str, Any] = {"files_done": files_done} | ({} if not_read is None else {"not_read": not_read})
    key = {"document_id": document_id, "file_sha256": sha256, "version": newest.scalar_subquery()}
    return await sql.update_rows(connection, document_versions, organization_id, values, **key) == 1
