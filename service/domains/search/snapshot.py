"""One snapshot of the index that is searched, though another may take its place at any time.

A query is embedded before its transaction opens, with the model of the space that was searched then. Where a space with
another model has taken that one's place meanwhile, the query is embedded again: an answer is of the old index or of the
new one, never of both or neither.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.search.search_query import SearchQuery
from service.index.service import Space, find_current_space
from service.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A transaction that reads one snapshot, the space that is searched in it, and the query for that space."""

    connection: AsyncConnection
    space: Space
    search_query: SearchQuery


@asynccontextmanager
async def open_snapshot(
    runtime: Runtime,
    organization_id: UUID,
    space: Space,
    *,
    prepare: Callable[[Space], Awaitable[SearchQuery]],
    read_only: bool = False,
) -> AsyncGenerator[Snapshot]:
    """Open a snapshot of a space that was read a moment ago, or of what has taken its place.

    `prepare` embeds the query for a space. A space that has been deleted meanwhile is searched all the same, and empty.
    """
    while True:
        search_query = await prepare(space)
        async with runtime.database.transaction(
            organization_id, isolation="REPEATABLE READ", read_only=read_only
        ) as connection:
            now = await find_current_space(connection, organization_id, space_id=space.space_id) or space
            if now.model == space.model:
                yield Snapshot(connection, now, search_query)
                return
        space = now
