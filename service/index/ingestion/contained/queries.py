"""SQL for requesting the indexing of contained files in their containers' collections."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Select, Uuid, and_, func, literal, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.index.ingestion.backlog.queries import FROM_THE_START, has_large_text
from service.index.ingestion.queries import extend_claim
from service.index.spaces.queries import lock_existing, lock_spaces, select_catalog_id
from service.platform.sql import columns_of, find_rows, in_array
from service.schema.catalog import collections, documents
from service.schema.identity import resources
from service.schema.indexing import space_documents, spaces


@dataclass(frozen=True, slots=True)
class PlacedFile:
    document_id: UUID
    collection_id: UUID
    version: int


async def request_with_container(
    connection: Connection, organization_id: UUID, *, container_id: UUID, document_ids: Collection[UUID]
) -> list[PlacedFile]:
    """Request locked files in the container's collections; return new and changed requests. Callers' chunks stay."""
    placed_in = select(space_documents.c.space_id).where(
        space_documents.c.organization_id == organization_id, space_documents.c.document_id == container_id
    )
    await lock_spaces(connection, organization_id, spaces.c.space_id.in_(placed_in))
    given, entry = _select_files(organization_id, container_id, document_ids), space_documents.c
    new = insert(space_documents).from_select(given.selected_columns.keys(), given)
    changed: dict[str, Any] = {name: new.excluded[name] for name in ("version", "custom_metadata", "is_large")}
    changed |= {**FROM_THE_START, "claimed_until": extend_claim(new.excluded.claimed_until)}
    differs = or_(entry.version != new.excluded.version, entry.custom_metadata != new.excluded.custom_metadata)
    placed = (
        new.on_conflict_do_update(
            index_elements=[entry.document_id, entry.space_id], set_=changed, where=and_(~entry.caller_chunks, differs)
        )
        .returning(entry.document_id, entry.space_id, entry.version)
        .cte("placed")
    )
    statement = select(*columns_of(placed, PlacedFile, collections.c.collection_id)).join(
        collections, collections.c.space_id == placed.c.space_id
    )
    return await find_rows(connection, statement, PlacedFile)


def _select_files(
    organization_id: UUID, container_id: UUID, document_ids: Collection[UUID]
) -> Select[*tuple[Any, ...]]:
    entry, owner = space_documents.c, literal(organization_id, Uuid())
    placed = select(entry.space_id).where(entry.organization_id == organization_id, entry.document_id == container_id)
    homes = lock_existing(
        organization_id,
        ~spaces.c.is_catalog,
        spaces.c.replaces_space_id.is_distinct_from(select_catalog_id(organization_id)),
        spaces.c.space_id.in_(placed),
    )
    return (
        select(
            documents.c.document_id,
            homes.c.space_id,
            documents.c.organization_id,
            documents.c.version,
            entry.custom_metadata,
            has_large_text(owner, documents.c.document_id).label("is_large"),
            func.now().label("claimed_until"),
        )
        .join(resources, resources.c.object_id == documents.c.document_id)
        .join(space_documents, and_(entry.document_id == container_id, ~entry.caller_chunks))
        .join(homes, homes.c.space_id == entry.space_id)
        .where(documents.c.organization_id == organization_id, in_array(documents.c.document_id, document_ids))
        .order_by(documents.c.document_id, homes.c.space_id)
    )
