"""SQL of the files in a container that is a document: how far they are, and which were left out, with the reasons."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from sqlalchemy import CTE, delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.catalog import ContainedFiles
from service.domains.documents.stored.queries import StoredFile, existing_documents
from service.index.progress import FAILED_AFTER
from service.index.queries import is_pending
from service.index.spaces.queries import is_searched
from service.platform.sql import columns_of, count_where, find_rows, rows_of
from service.schema.catalog import document_versions, documents, left_out_files
from service.schema.indexing import space_documents, spaces
from service.schema.permissions import resources


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file in a container that became no document: its number there, from 0, its path (None: unknown), and why."""

    file_no: int
    path: str | None
    code: str
    message: str


def files_inside(organization_id: UUID, container_id: UUID) -> CTE:
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


async def forget_left_out(connection: AsyncConnection, organization_id: UUID, *, document_id: UUID) -> None:
    """Forget which files were left out of a document's file, since they are looked at again."""
    own = left_out_files.c
    await connection.execute(
        delete(left_out_files).where(own.organization_id == organization_id, own.document_id == document_id)
    )
