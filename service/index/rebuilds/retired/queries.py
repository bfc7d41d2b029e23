"""SQL of retired spaces: what is left there when another one has taken their place, and its removal."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import and_, delete, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.sql import columns_of, find_rows, in_array
from service.schema.collections import caller_chunks
from service.schema.indexing import INDEX_TABLES, space_documents, spaces, term_deltas, term_statistics

# A request that began before a swap may go on reading the old index for so long.
READ_FOR = timedelta(minutes=1)
# And one that indexes finds by the old space's row for so long which one took its place.
LEADS_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class RetiredSpace:
    """A retired space; `done`: its row may go too."""

    space_id: int
    dimensions: int
    done: bool


async def list_retired(connection: AsyncConnection, organization_id: UUID) -> list[RetiredSpace]:
    """List retired spaces that no search reads any more."""
    done = or_(spaces.c.replaced_by_space_id.is_(None), spaces.c.retired_at < func.now() - LEADS_FOR)
    statement = select(*columns_of(spaces, RetiredSpace, done.label("done"))).where(
        spaces.c.organization_id == organization_id, spaces.c.retired_at < func.now() - READ_FOR
    )
    return await find_rows(connection, statement.order_by(spaces.c.space_id), RetiredSpace)


async def list_some_documents(
    connection: AsyncConnection, organization_id: UUID, *, space_id: int, limit: int
) -> Sequence[UUID]:
    """List some documents that have an entry in a space."""
    statement = (
        select(space_documents.c.document_id)
        .where(space_documents.c.organization_id == organization_id, space_documents.c.space_id == space_id)
        .order_by(space_documents.c.document_id)
        .limit(limit)
    )
    return (await connection.execute(statement)).scalars().all()


async def clear_entries(
    connection: AsyncConnection, organization_id: UUID, *, space: RetiredSpace, document_ids: Collection[UUID]
) -> None:
    """Remove these locked documents from a retired space; the space's term statistics are deleted as a whole later."""
    tables = INDEX_TABLES[space.dimensions]
    for table in (tables.chunks, tables.code_pages, caller_chunks, space_documents):
        own = and_(
            table.c.organization_id == organization_id,
            table.c.space_id == space.space_id,
            in_array(table.c.document_id, document_ids),
        )
        await connection.execute(delete(table).where(own))


async def delete_statistics(connection: AsyncConnection, organization_id: UUID, *, space_id: int) -> bool:
    """Delete the term statistics of a retired space, which are locked against folding; False if there were none."""
    found = 0
    for table in (term_statistics, term_deltas):
        own = and_(table.c.organization_id == organization_id, table.c.space_id == space_id)
        found += (await connection.execute(delete(table).where(own))).rowcount
    return found > 0


async def delete_row(connection: AsyncConnection, organization_id: UUID, *, space_id: int) -> None:
    """Remove the row of an empty space."""
    await connection.execute(
        delete(spaces).where(spaces.c.organization_id == organization_id, spaces.c.space_id == space_id)
    )
