"""SQL of the audit log: entries are added and read, never changed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Uuid, delete, func, insert, literal, or_, select, tuple_, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.sql import columns_of, find_rows, optional_in, rows_of
from service.schema.audit import audit_entries, free_texts
from service.schema.identity import principals
from service.schema.search import searches


@dataclass(frozen=True)
class EntryFilter:
    """The filters of a query of the audit log; `actor` is an address or an id, times are inclusive and exclusive."""

    actor: str | None = None
    action: str | None = None
    target_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: Collection[UUID] | None = None


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry, with who acted and for whom; `text` is None without any, or once it is erased."""

    audit_log_id: UUID
    at: datetime
    actor_id: UUID | None
    actor_name: str | None
    actor_email: str | None
    acting_for_id: UUID | None
    acting_for_name: str | None
    acting_for_email: str | None
    action: str
    target_type: str | None
    target_id: str | None
    details: dict[str, Any]
    text: str | None
    request_id: str | None


_INSERT_ENTRY = insert(audit_entries)


async def insert_entries(
    connection: AsyncConnection, organization_id: UUID, *, entries: Sequence[Mapping[str, object]]
) -> None:
    """Append entries, in one statement."""
    if len(entries) == 1:
        # What most requests do: cheaper without arrays.
        await connection.execute(_INSERT_ENTRY, {**entries[0], "organization_id": organization_id})
    elif entries:
        rows = rows_of([audit_entries.c[name] for name in entries[0]], entries)
        values = select(literal(organization_id, Uuid), *rows.c)
        await connection.execute(insert(audit_entries).from_select(["organization_id", *rows.c.keys()], values))


async def insert_text(connection: AsyncConnection, organization_id: UUID, *, subject_id: UUID, text: str) -> None:
    """Store the free text of an audit entry or a search."""
    row = {"subject_id": subject_id, "organization_id": organization_id, "text": text}
    await connection.execute(insert(free_texts).values(row))


async def delete_texts_before(connection: AsyncConnection, organization_id: UUID, *, before: UUID, limit: int) -> int:
    """Delete up to `limit` texts of entries and searches with ids below a given one; return the number deleted."""
    old = (
        select(free_texts.c.subject_id)
        .where(free_texts.c.organization_id == organization_id, free_texts.c.subject_id < before)
        .order_by(free_texts.c.subject_id)
        .limit(limit)
    )
    statement = delete(free_texts).where(
        free_texts.c.organization_id == organization_id, free_texts.c.subject_id.in_(old)
    )
    return (await connection.execute(statement)).rowcount


async def delete_texts_of(connection: AsyncConnection, organization_id: UUID, *, principal_id: UUID) -> int:
    """Delete the texts of a principal's searches, and of audit entries made by or for it; return the number."""
    searched = select(searches.c.search_id).where(
        searches.c.organization_id == organization_id, searches.c.principal_id == principal_id
    )
    # The owner of a key that acts for users did not write their words.
    author = func.coalesce(audit_entries.c.acting_for_id, audit_entries.c.actor_id)
    noted = select(audit_entries.c.audit_log_id).where(
        audit_entries.c.organization_id == organization_id, author == principal_id
    )
    statement = delete(free_texts).where(
        free_texts.c.organization_id == organization_id, free_texts.c.subject_id.in_(union_all(searched, noted))
    )
    return (await connection.execute(statement)).rowcount


async def list_entries(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    filters: EntryFilter,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[StoredEntry]:
    """List audit entries, newest first, before a position."""
    actors, subjects = principals.alias("actors"), principals.alias("subjects")
    statement = (
        select(
            *columns_of(
                audit_entries,
                StoredEntry,
                actors.c.email.label("actor_email"),
                actors.c.name.label("actor_name"),
                subjects.c.email.label("acting_for_email"),
                subjects.c.name.label("acting_for_name"),
                free_texts.c.text,
            )
        )
        .outerjoin(actors, actors.c.principal_id == audit_entries.c.actor_id)
        .outerjoin(subjects, subjects.c.principal_id == audit_entries.c.acting_for_id)
        .outerjoin(free_texts, free_texts.c.subject_id == audit_entries.c.audit_log_id)
        .where(audit_entries.c.organization_id == organization_id, *_conditions(organization_id, filters))
        .order_by(audit_entries.c.at.desc(), audit_entries.c.audit_log_id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(tuple_(audit_entries.c.at, audit_entries.c.audit_log_id) < before)
    return await find_rows(connection, statement, StoredEntry)


def _conditions(organization_id: UUID, filters: EntryFilter) -> list[ColumnElement[bool]]:
    conditions = [optional_in(audit_entries.c.audit_log_id, filters.ids)]
    if filters.actor is not None:
        named = select(principals.c.principal_id).where(
            principals.c.organization_id == organization_id, principals.c.email == filters.actor
        )
        conditions.append(or_(audit_entries.c.actor_id.in_(named), audit_entries.c.acting_for_id.in_(named)))
    if filters.action is not None:
        conditions.append(audit_entries.c.action == filters.action)
    if filters.target_id is not None:
        conditions.append(audit_entries.c.target_id == filters.target_id)
    if filters.since is not None:
        conditions.append(audit_entries.c.at >= filters.since)
    if filters.until is not None:
        conditions.append(audit_entries.c.at < filters.until)
    return conditions
