"""SQL of the people who may read a conversation."""

from collections.abc import Collection
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.platform.sql import in_array, matches
from service.schema.conversations import conversation_readers


async def replace_readers(
    connection: Connection, organization_id: UUID, *, conversation_id: UUID, principal_ids: Collection[UUID]
) -> tuple[list[UUID], list[UUID]]:
    """Set the readers of a locked conversation; return the added and the removed readers."""
    reader = conversation_readers.c.principal_id
    gone = sa.delete(conversation_readers).where(
        matches(conversation_readers, organization_id, conversation_id=conversation_id),
        ~in_array(reader, principal_ids),
    )
    removed = (await connection.execute(gone.returning(reader))).scalars().all()
    if not principal_ids:
        return [], sorted(removed)
    own = {"organization_id": organization_id, "conversation_id": conversation_id}
    rows = [{**own, "principal_id": one} for one in principal_ids]
    new = insert(conversation_readers).values(rows).on_conflict_do_nothing().returning(reader)
    return sorted((await connection.execute(new)).scalars().all()), sorted(removed)
