"""SQL of the files in containers: how far they are brought into the catalog, and how much there is of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.documents.stored.contained.queries import files_inside
from service.domains.documents.stored.containers import Container
from service.domains.documents.stored.queries import existing_documents
from service.platform.sql import get_row, in_array
from service.schema.catalog import document_versions, documents
from service.schema.permissions import resources


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The documents that one uploaded file has become already: their number, and the sizes of their files in bytes."""

    count: int
    size: int


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
    inside = files_inside(organization_id, container_id)
    statement = existing_documents(
        organization_id,
        func.count().label("count"),
        func.coalesce(func.sum(document_versions.c.file_size), 0).label("size"),
    ).where(documents.c.document_id.in_(select(inside.c.object_id)), resources.c.container_id.is_distinct_from(without))
    return await get_row(connection, statement, Unpacked)


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
