"""SQL of a caller's recent and saved searches. Each statement reads or changes the rows of a single principal."""

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.own_searches import RecentSearch, SavedSearch
from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.auth.queries import is_by_hand
from service.platform import sql
from service.schema.identity import principals
from service.schema.search import free_texts, saved_searches, searches

# The number of newest searches read to find a person's own searches among the searches by programs.
MOST_READ = 2000


async def list_recent(connection: Connection, caller: Caller, *, limit: int) -> list[RecentSearch]:
    """List distinct newest searches whose text is still stored: a person's own, or made with the caller's keys."""
    newest = (
        select(searches.c.search_id, searches.c.at, searches.c.collection_id, searches.c.mode, searches.c.origin)
        .where(sql.matches(searches, caller.organization_id, principal_id=caller.principal_id))
        .order_by(searches.c.at.desc(), searches.c.search_id.desc())
        .limit(MOST_READ)
        .subquery("newest")
    )
    by_keys = or_(newest.c.origin.is_(None), newest.c.origin == caller.origin)
    is_listed = is_by_hand(newest.c.origin, caller.organization_id) if caller.client_id else by_keys
    search = (free_texts.c.text, newest.c.collection_id, newest.c.mode)
    last_at = func.max(newest.c.at).label("at")
    statement = (
        select(
            free_texts.c.text.label("search_query"),
            newest.c.collection_id.label("document_collection_id"),
            sql.as_member(newest.c.mode, SearchMode),
            last_at,
        )
        .join_from(newest, free_texts, free_texts.c.subject_id == newest.c.search_id)
        .where(free_texts.c.organization_id == caller.organization_id, is_listed)
        .group_by(*search)
        .order_by(last_at.desc(), *search)
        .limit(limit)
    )
    return await sql.find_rows(connection, statement, RecentSearch)


async def lock_saved(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> None:
    await connection.execute(
        select(principals.c.principal_id)
        .where(sql.matches(principals, organization_id, principal_id=principal_id))
        .with_for_update(key_share=True)
    )


async def count_other_saved(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, saved_search_id: UUID
) -> int:
    own = sql.matches(saved_searches, organization_id, principal_id=principal_id)
    return await sql.count_rows(connection, own, saved_searches.c.saved_search_id != saved_search_id)


async def insert_saved(connection: Connection, organization_id: UUID, *, row: Mapping[str, object]) -> None:
    await sql.insert_new(connection, saved_searches, {**row, "organization_id": organization_id})


async def list_saved(connection: Connection, organization_id: UUID, *, principal_id: UUID) -> list[SavedSearch]:
    statement = (
        select(
            *sql.columns_of(
                saved_searches,
                SavedSearch,
                saved_searches.c.collection_id.label("document_collection_id"),
                sql.as_member(saved_searches.c.mode, SearchMode),
            )
        )
        .where(sql.matches(saved_searches, organization_id, principal_id=principal_id))
        .order_by(saved_searches.c.saved_at.desc(), saved_searches.c.saved_search_id)
    )
    return await sql.find_rows(connection, statement, SavedSearch)


async def delete_saved(
    connection: Connection, organization_id: UUID, *, principal_id: UUID, saved_search_id: UUID | None = None
) -> int:
    chosen = sql.optional(saved_searches.c.saved_search_id, saved_search_id)
    return await sql.delete_rows(connection, saved_searches, organization_id, chosen, principal_id=principal_id)
