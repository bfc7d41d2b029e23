"""SQL of changes of all documents that match filters."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.platform.sql import columns_of, find_row, matches
from service.schema.catalog import document_changes as changes

KEPT_FOR = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class StoredChange:
    document_change_id: UUID
    principal_id: UUID
    origin: Mapping[str, Any]
    request: Mapping[str, Any]
    position: UUID | None
    state: Mapping[str, Any]
    started_at: datetime


async def insert_change(connection: Connection, organization_id: UUID, **values: Any) -> None:
    await connection.execute(changes.insert().values(organization_id=organization_id, **values))


async def read_change(
    connection: Connection, organization_id: UUID, change_id: UUID, *, lock: bool = False
) -> StoredChange | None:
    own = matches(changes, organization_id, document_change_id=change_id)
    statement = sa.select(*columns_of(changes, StoredChange)).where(own)
    return await find_row(connection, statement.with_for_update() if lock else statement, StoredChange)


async def save_change(connection: Connection, organization_id: UUID, change_id: UUID, **values: Any) -> None:
    own = matches(changes, organization_id, document_change_id=change_id)
    await connection.execute(sa.update(changes).where(own).values(**values))


async def delete_old(connection: Connection, organization_id: UUID) -> None:
    old = changes.c.started_at < sa.func.now() - KEPT_FOR
    await connection.execute(sa.delete(changes).where(matches(changes, organization_id), old))
