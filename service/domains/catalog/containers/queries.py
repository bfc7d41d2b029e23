"""SQL of the files in containers: how far they are brought into the catalog, which are left out, how much there is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import CTE, ColumnElement, and_, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.catalog import ContainedFiles
from service.domains.documents.containers import Container
from service.domains.documents.queries import StoredFile, existing_documents
from service.index.progress import FAILED_AFTER
from service.index.queries import is_pending
from service.index.spaces.queries import is_searched
from service.platform.sql import columns_of, count_where, find_rows, get_row, in_array, rows_of
from service.schema.catalog import document_versions, documents, left_out_files
from service.schema.indexing import space_documents, spaces
from service.schema.permissions import resources


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The documents that one uploaded file has become already: their number, and the sizes of their files in bytes."""

    count: int
    size: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file in a container that became no document: its number there, from 0, its path (None: unknown), and why."""

    file_no: int
    path: str | None
    code: str
    message: str


async def list_containers(connection: AsyncConnection, organization_id: UUID, *, document_id: UUID) -> list[UUID]:
    """List a document and the containers that it is in, the innermost first."""
    own = (
        select(resources.c.object_id, resources.c.container_id)
        .where(resources.c.organization_id == organization_id, resources.c.object_id == document_id)
        .cte("outer", recursive=True)
    )
    outer = own.union_all(
        select(resources.c.object_id, resources.c.container_id)
        .join(own, own.c.container_id == resources.c.object_id)
        .where(resources.c.organization_id == organization_id)
    )
    return list((await connection.execute(select(outer.c.object_id))).scalars())


async def sum_up_contained(
    connection: AsyncConnection, organization_id: UUID, *, container_id: UUID, without: UUID
) -> Unpacked:
    """Sum up the documents in a container and in containers there, but for those directly in `without`."""
    inside = _inside(organization_id, container_id)
    statement = existing_documents(
        organization_id,
        func.count().label("count"),
        func.coalesce(func.sum(document_versions.c.file_size), 0).label("size"),
    ).where(documents.c.document_id.in_(select(inside.c.object_id)), resources.c.container_id.is_distinct_from(without))
    return await get_row(connection, statement, Unpacked)


def _inside(organization_id: UUID, container_id: UUID) -> CTE:
    """Select the documents in a container and in containers there."""
    own = (
        select(resources.c.object_id)
        .where(resources.c.organization_id == organization_id, resources.c.container_id == container_id)
        .cte("inside", recursive=True)
    )
    return own.union_all(
        select(resources.c.object_id)
        .join(own, own.c.object_id == resources.c.container_id)
        .where(resources.c.organization_id == organization_id)
    )


async def count_contained(
    connection: AsyncConnection, organization_id: UUID, *, container: StoredFile, container_id: UUID
) -> ContainedFiles:
    """Count the files in a container, and in containers there, by how far they are."""
    inside = _inside(organization_id, container_id)
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
        count_where(has_failed, "indexing_failed"),
        count_where(documents.c.document_id.in_(waiting) & ~has_failed, "indexing"),
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


async def _count_left_out(connection: AsyncConnection, organization_id: UUID, *, container_id: UUID) -> dict[str, int]:
    """Count the files that were left out of a container, and of containers there, by the codes of the reasons."""
    own, inside = left_out_files.c, _inside(organization_id, container_id)
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
    connection: AsyncConnection, organization_id: UUID, *, container_id: UUID, after: int, limit: int
) -> list[LeftOut]:
    """List the files that were left out of a container itself, by their numbers after a given one."""
    own = left_out_files.c
    statement = (
        select(*columns_of(left_out_files, LeftOut))
        .where(own.organization_id == organization_id, own.document_id == container_id, own.file_no > after)
        .order_by(own.file_no)
        .limit(limit)
    )
    return await find_rows(connection, statement, LeftOut)


async def save_left_out(
    connection: AsyncConnection, organization_id: UUID, *, container_id: UUID, files: Sequence[LeftOut]
) -> None:
    """Keep which files were left out of a container; of those that are known already, nothing changes."""
    if not files:
        return
    columns = list(left_out_files.columns)
    of_it = {"organization_id": organization_id, "document_id": container_id}
    given = rows_of(columns, [{**asdict(file), **of_it} for file in files])
    statement = insert(left_out_files).from_select(
        [one.name for one in columns], select(*(given.c[one.name] for one in columns))
    )
    await connection.execute(statement.on_conflict_do_nothing())


async def lock_gone(
    connection: AsyncConnection, organization_id: UUID, *, container_id: UUID, kept: Collection[UUID], limit: int
) -> Sequence[UUID]:
    """Lock some documents that are directly in a container, other than those that are kept."""
    statement = (
        select(resources.c.object_id)
        .where(
            resources.c.organization_id == organization_id,
            resources.c.container_id == container_id,
            ~in_array(resources.c.object_id, kept),
        )
        .order_by(resources.c.object_id)
        .limit(limit)
        .with_for_update()
    )
    return (await connection.execute(statement)).scalars().all()


async def save_progress(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    container: Container,
    files_done: int,
    not_read: Sequence[Mapping[str, Any]] | None = None,
) -> bool:
    """Save how many of a container's files are done, and at the end what was not read.

    False when the document's newest version has other contents.
    """
    values: dict[str, Any] = {"files_done": files_done} | ({} if not_read is None else {"not_read": not_read})
    statement = update(document_versions).where(_is_newest(organization_id, container)).values(**values)
    return (await connection.execute(statement)).rowcount == 1


def _is_newest(organization_id: UUID, container: Container) -> ColumnElement[bool]:
    newest = select(documents.c.version).where(
        documents.c.organization_id == organization_id,
        documents.c.document_id == container.document_id,
        documents.c.deleted_at.is_(None),
    )
    return and_(
        document_versions.c.organization_id == organization_id,
        document_versions.c.document_id == container.document_id,
        document_versions.c.version == newest.scalar_subquery(),
        document_versions.c.file_sha256 == container.sha256,
    )
