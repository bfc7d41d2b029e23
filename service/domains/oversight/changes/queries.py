"""SQL of changes of all documents that match filters."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.document_changes import DocumentChangeStatus
from service.domains.documents.stored.queries import files_inside
from service.platform.identifiers import NIL
from service.platform.sql import columns_of, count_rows, delete_rows, find_row, find_rows, matches, rows_after
from service.schema.catalog import collections, replaced_states
from service.schema.catalog import document_changes as changes
from service.schema.indexing import space_documents

KEPT_FOR = timedelta(days=30)
UNDOABLE_FOR = timedelta(hours=24)
CHUNKS = "CHUNKS"
"""State of a document in a collection for which a program sent the chunks."""


@dataclass(frozen=True, slots=True)
class StoredChange:
    document_change_id: UUID
    principal_id: UUID
    origin: Mapping[str, Any]
    request: Mapping[str, Any]
    position: UUID | None
    state: Mapping[str, Any]
    started_at: datetime

    @property
    def subject(self) -> UUID | None:
        """The reader or collection of a change that can be undone."""
        subject = self.origin.get("subject")
        return subject and UUID(subject)

    @property
    def of_access(self) -> bool:
        return "principal" in self.request


@dataclass(frozen=True, slots=True)
class ReplacedState:
    """The state of a document before and after a change (`service.domains.oversight.changes.undoing`)."""

    document_id: UUID
    before: Any
    after: Any


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


async def read_places(
    connection: Connection, organization_id: UUID, *, collection_id: UUID, document_id: UUID
) -> dict[UUID, Any]:
    """Return the values in a collection of a document and of the files in it, or CHUNKS, if they are in it."""
    entry, inside = space_documents.c, files_inside(organization_id, document_id)
    state = sa.case((entry.caller_chunks, sa.literal(CHUNKS, JSONB)), else_=entry.custom_metadata)
    statement = (
        sa.select(entry.document_id, state)
        .join(collections, collections.c.space_id == entry.space_id)
        .where(matches(collections, organization_id, collection_id=collection_id))
        .where((entry.document_id == document_id) | entry.document_id.in_(sa.select(inside.c.object_id)))
    )
    return {row[0]: row[1] for row in await connection.execute(statement)}


async def keep_replaced(
    connection: Connection, organization_id: UUID, change_id: UUID, *, states: Collection[ReplacedState]
) -> None:
    key = {"organization_id": organization_id, "document_change_id": change_id}
    if rows := [{**key, **asdict(state)} for state in states if state.before != state.after]:
        await connection.execute(insert(replaced_states).on_conflict_do_nothing(), rows)


async def count_replaced(connection: Connection, organization_id: UUID, change_id: UUID) -> int:
    return await count_rows(connection, matches(replaced_states, organization_id, document_change_id=change_id))


async def list_replaced(
    connection: Connection, organization_id: UUID, change_id: UUID, *, after: UUID | None, limit: int
) -> list[ReplacedState]:
    own = matches(replaced_states, organization_id, document_change_id=change_id)
    statement = sa.select(*columns_of(replaced_states, ReplacedState)).where(own)
    page = rows_after(statement, replaced_states.c.document_id, after or NIL, limit)
    return await find_rows(connection, page, ReplacedState)


async def delete_old(connection: Connection, organization_id: UUID) -> None:
    """Delete old changes, and what can no longer be undone, except what a running change still undoes."""
    now, started, own = sa.func.now(), changes.c.started_at, matches(changes, organization_id)
    await delete_rows(connection, changes, organization_id, started < now - KEPT_FOR)
    young = sa.select(changes.c.document_change_id).where(own, started >= now - UNDOABLE_FOR)
    undone = sa.cast(changes.c.request["undoes"].astext, sa.Uuid)
    is_running = changes.c.state["status"].astext == DocumentChangeStatus.RUNNING
    undoing = sa.select(undone).where(own, is_running, undone.is_not(None))
    old = ~replaced_states.c.document_change_id.in_(young.union(undoing))
    await delete_rows(connection, replaced_states, organization_id, old)
