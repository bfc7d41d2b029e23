"""Every statement about rebuilds: what is left to do, the copying of places, and the swap.

A space that is built is written by the indexer as every other; here is what only a rebuild does with it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Integer,
    Select,
    and_,
    func,
    literal,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.rebuilds import IndexRebuildStatus
from service.auth.callers import Caller
from service.index.ingestion.backlog.queries import select_is_large
from service.index.spaces.queries import SearchedSpace, Space
from service.platform.sql import as_member, columns_of, find_row, find_rows, in_array
from service.schema.collections import caller_chunks, collections
from service.schema.indexing import space_documents, spaces
from service.schema.permissions import resources
from service.schema.rebuilds import index_rebuilds


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild, of a collection's index or of the catalog's; while it runs it replaces another space."""

    rebuild_id: UUID
    collection_id: UUID | None
    space_id: int
    replaces_space_id: int | None
    model: str
    previous_model: str
    status: IndexRebuildStatus
    forced: bool
    left_count: int
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunningRebuild:
    """A rebuild that goes on, with the dimensions of the space that it replaces."""

    rebuild_id: UUID
    collection_id: UUID | None
    space_id: int
    replaces_space_id: int
    replaced_dimensions: int
    model: str
    forced: bool


@dataclass(frozen=True, slots=True)
class CopiedEntry:
    """An entry that was added to the new space; `caller_chunks`: a caller has made its chunks."""

    document_id: UUID
    caller_chunks: bool


async def insert_replacement(
    connection: AsyncConnection, organization_id: UUID, *, replaced: Space, model: str, dimensions: int
) -> int:
    """Add an empty space as the replacement of another, which is locked, and return its id."""
    statement = (
        insert(spaces)
        .values(
            organization_id=organization_id,
            model=model,
            dimensions=dimensions,
            language=replaced.language,
            replaces_space_id=replaced.space_id,
        )
        .returning(spaces.c.space_id)
    )
    return (await connection.execute(statement)).scalar_one()


async def insert_rebuild(
    connection: AsyncConnection,
    caller: Caller,
    *,
    rebuild_id: UUID,
    collection_id: UUID | None,
    space_id: int,
    models: tuple[str, str],
    forced: bool,
) -> None:
    """Add a running rebuild; `models` are the old and the new embedding model."""
    previous, new = models
    await connection.execute(
        insert(index_rebuilds).values(
            rebuild_id=rebuild_id,
            organization_id=caller.organization_id,
            collection_id=collection_id,
            space_id=space_id,
            previous_model=previous,
            model=new,
            forced=forced,
            started_by=caller.principal_id,
        )
    )


_replaced = spaces.alias("replaced")


def _select_rebuilds(organization_id: UUID, kind: type[Rebuild | RunningRebuild]) -> Select[*tuple[Any, ...]]:
    """Select rebuilds, each with the id and dimensions of the space that it replaces while it runs."""
    chosen: Select[*tuple[Any, ...]] = select(
        *columns_of(
            index_rebuilds,
            kind,
            as_member(index_rebuilds.c.status, IndexRebuildStatus),
            spaces.c.replaces_space_id,
            _replaced.c.dimensions.label("replaced_dimensions"),
        )
    )
    return (
        chosen.outerjoin(spaces, spaces.c.space_id == index_rebuilds.c.space_id)
        .outerjoin(_replaced, _replaced.c.space_id == spaces.c.replaces_space_id)
        .where(index_rebuilds.c.organization_id == organization_id)
    )


async def find_newest_rebuild(
    connection: AsyncConnection, organization_id: UUID, *, collection_id: UUID | None
) -> Rebuild | None:
    """Find the newest rebuild of a collection's index, or of the catalog's.

    A running rebuild is the newest. Ids don't give the order, because they come from the clocks of several replicas.
    """
    statement = (
        _select_rebuilds(organization_id, Rebuild)
        .where(index_rebuilds.c.collection_id.is_not_distinct_from(collection_id))
        .order_by((index_rebuilds.c.status == "RUNNING").desc(), index_rebuilds.c.started_at.desc())
        .limit(1)
    )
    return await find_row(connection, statement, Rebuild)


async def list_running(connection: AsyncConnection, organization_id: UUID) -> list[RunningRebuild]:
    """List the running rebuilds, the oldest first."""
    statement = _select_rebuilds(organization_id, RunningRebuild).where(index_rebuilds.c.status == "RUNNING")
    return await find_rows(connection, statement.order_by(index_rebuilds.c.rebuild_id), RunningRebuild)


async def force_completion(connection: AsyncConnection, organization_id: UUID, *, rebuild_id: UUID) -> None:
    """Let a rebuild finish without the documents that fail."""
    await connection.execute(
        update(index_rebuilds)
        .where(index_rebuilds.c.organization_id == organization_id, index_rebuilds.c.rebuild_id == rebuild_id)
        .values(forced=True)
    )


async def retry_failed(connection: AsyncConnection, organization_id: UUID, *, space_id: int) -> None:
    """Have failed documents of a space indexed again at once, as if for the first time."""
    failed = and_(
        space_documents.c.organization_id == organization_id,
        space_documents.c.space_id == space_id,
        space_documents.c.indexed_version.is_distinct_from(space_documents.c.version),
        space_documents.c.error.is_not(None),
    )
    await connection.execute(
        update(space_documents).where(failed).values(attempts=0, error=None, claimed_until=func.now())
    )


async def lock_documents(connection: AsyncConnection, organization_id: UUID, *, document_ids: Collection[UUID]) -> None:
    """Lock the resources of documents, in the order that everybody locks several in."""
    statement = (
        select(resources.c.object_id)
        .where(resources.c.organization_id == organization_id, in_array(resources.c.object_id, document_ids))
        .order_by(resources.c.object_id)
        .with_for_update()
    )
    await connection.execute(statement)


async def copy_entries(
    connection: AsyncConnection, organization_id: UUID, *, old_id: int, new_id: int, document_ids: Collection[UUID]
) -> list[CopiedEntry]:
    """Request in the new space the versions desired of these locked documents in the old one, if it is still replaced.

    Returns the entries that were added.
    """
    copied = ("document_id", "organization_id", "version", "caller_chunks", "custom_metadata", "added_at")
    still = and_(spaces.c.space_id == new_id, spaces.c.replaces_space_id == old_id)
    wanted = (
        # An entry keeps the lane of its last request, and its text may be another one since.
        select(*(space_documents.c[name] for name in copied), select_is_large(), spaces.c.space_id, func.now())
        .join(spaces, still)
        .where(
            space_documents.c.organization_id == organization_id,
            space_documents.c.space_id == old_id,
            in_array(space_documents.c.document_id, document_ids),
        )
    )
    statement = (
        insert(space_documents)
        .from_select([*copied, "is_large", "space_id", "claimed_until"], wanted)
        .on_conflict_do_nothing()
        .returning(space_documents.c.document_id, space_documents.c.caller_chunks)
    )
    return await find_rows(connection, statement, CopiedEntry)


async def copy_waiting_chunks(
    connection: AsyncConnection, organization_id: UUID, *, old_id: int, new_id: int, document_ids: Collection[UUID]
) -> set[UUID]:
    """Copy callers' chunks that wait for the old space to the new one; return the documents of the copied chunks."""
    kept = ("document_id", "organization_id", "batch_id", "chunks")
    waiting = select(*(caller_chunks.c[name] for name in kept), literal(new_id, Integer())).where(
        caller_chunks.c.organization_id == organization_id,
        caller_chunks.c.space_id == old_id,
        in_array(caller_chunks.c.document_id, document_ids),
    )
    statement = (
        insert(caller_chunks)
        .from_select([*kept, "space_id"], waiting)
        .on_conflict_do_nothing()
        .returning(caller_chunks.c.document_id)
    )
    return set((await connection.execute(statement)).scalars())


async def keep_chunks(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    document_id: UUID,
    space_id: int,
    batch_id: UUID,
    chunks: bytes,
) -> None:
    """Keep a caller's chunks of a document until they are indexed in this space, unless there are newer ones."""
    new = insert(caller_chunks).values(
        document_id=document_id, space_id=space_id, organization_id=organization_id, batch_id=batch_id, chunks=chunks
    )
    await connection.execute(new.on_conflict_do_nothing())


async def swap(
    connection: AsyncConnection, organization_id: UUID, *, old: SearchedSpace, new_id: int, collection_id: UUID | None
) -> None:
    """Replace the old space (locked with its collection) by the new one, and retire the old one."""
    own = spaces.c.organization_id == organization_id
    retired = {"is_catalog": False, "retired_at": func.now(), "replaced_by_space_id": new_id}
    await connection.execute(update(spaces).where(own, spaces.c.space_id == old.space_id).values(retired))
    # One hop from whichever space a request still knows.
    before = update(spaces).where(own, spaces.c.replaced_by_space_id == old.space_id)
    await connection.execute(before.values(replaced_by_space_id=new_id))
    searched = {"is_catalog": old.is_catalog, "replaces_space_id": None}
    await connection.execute(update(spaces).where(own, spaces.c.space_id == new_id).values(searched))
    if collection_id is not None:
        of_collection = and_(
            collections.c.organization_id == organization_id, collections.c.collection_id == collection_id
        )
        await connection.execute(update(collections).where(of_collection).values(space_id=new_id))


async def finish_rebuild(
    connection: AsyncConnection, organization_id: UUID, *, rebuild_id: UUID, status: str, left_count: int = 0
) -> None:
    """Record how a rebuild ended."""
    await connection.execute(
        update(index_rebuilds)
        .where(index_rebuilds.c.organization_id == organization_id, index_rebuilds.c.rebuild_id == rebuild_id)
        .values(status=status, left_count=left_count, finished_at=func.now())
    )


async def lock_collection(connection: AsyncConnection, organization_id: UUID, *, collection_id: UUID) -> bool:
    """Lock a collection against being added to; False when there is none."""
    statement = (
        select(collections.c.collection_id)
        .where(collections.c.organization_id == organization_id, collections.c.collection_id == collection_id)
        .with_for_update()
    )
    return (await connection.execute(statement)).one_or_none() is not None
