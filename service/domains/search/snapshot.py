"""One snapshot of the index that is searched, though another may take its place at any time.

A query is embedded before its transaction opens, with the model of the space that was searched then. Where another
space has taken that one's place meanwhile, the query is embedded again: an answer is of the old index or of the new
one, never of both or neither.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.search.search_query import SearchQuery
from service.index.service import Space, ask_current_space
from service.index.statistics.queries import ask_frequencies
from service.index.term_keys import choose_keys
from service.index.terms import weigh_query
from service.platform.batches import Batch
from service.runtime import Runtime
from service.schema.indexing import TOTAL_TERM


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A transaction that reads one snapshot, the searched space, and the query as it is weighed there."""

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
        first = Batch()
        current = ask_current_space(first, organization_id, space_id=space.space_id)
        weigh = _ask_weights(first, organization_id, space, search_query)
        async with runtime.database.transaction(
            organization_id, isolation="REPEATABLE READ", read_only=read_only, first=first
        ) as connection:
            now = current.row or space
            if now.space_id == space.space_id:
                yield Snapshot(connection, now, weigh())
                return
        space = now


def _ask_weights(
    batch: Batch, organization_id: UUID, space: Space, search_query: SearchQuery
) -> Callable[[], SearchQuery]:
    """Ask for the statistics that a query is weighed by; what is returned weighs it, once the batch has been run."""
    if search_query.is_weighed or not search_query.looks_for_words:
        return lambda: search_query
    terms = [TOTAL_TERM, *sorted(search_query.term_set)]
    counted = ask_frequencies(batch, organization_id, space_id=space.space_id, terms=terms)

    def weigh() -> SearchQuery:
        frequencies = dict(counted.rows)
        total = frequencies.get(TOTAL_TERM, 0)
        weights = weigh_query(search_query.words, language=search_query.language, frequencies=frequencies, total=total)
        lookup = choose_keys(weights, space_id=space.space_id, frequencies=frequencies)
        return search_query.with_weights(weights, lookup)

    return weigh
