"""Statements only for rebuilds: copying, comparing, swapping, and emptying a retired space."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.rebuilds import IndexRebuildFailure, IndexRebuildStatus
from service.auth.callers import Caller
from service.index.ingestion.backlog.queries import select_is_large
from service.index.queries import is_pending, shown_version
from service.index.spaces.queries import SearchedSpace, Space
from service.permissions.queries import readable_classes
from service.platform import sql
from service.schema.catalog import caller_chunks, collections, documents
from service.schema.identity import resources
from service.schema.indexing import INDEX_TABLES, index_rebuilds, space_documents, spaces, term_deltas, term_statistics
from service.text.embedding import EmbeddingModel


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild of a collection's index or the catalog's. A running rebuild replaces another space."""

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
    rebuild_id: UUID
    collection_id: UUID | None
    space_id: int
    replaces_space_id: int
    replaced_dimensions: int
    model: str
    forced: bool


async def insert_rebuild(
    connection: Connection,
    caller: Caller,
    *,
    rebuild_id: UUID,
    collection_id: UUID | None,
    replaced: Space,
    model: EmbeddingModel,
    forced: bool,
) -> None:
    """Add a running rebuild, and an empty space of a model as the replacement of another space, which is locked."""
    replacement = insert(spaces).values(
        organization_id=caller.organization_id,
        model=model.name,
        dimensions=model.dimensions,
        language=replaced.language,
        replaces_space_id=replaced.space_id,
    )
    space_id = (await connection.execute(replacement.returning(spaces.c.space_id))).scalar_one()
    await connection.execute(
        insert(index_rebuilds).values(
            rebuild_id=rebuild_id,
            organization_id=caller.organization_id,
            collection_id=collection_id,
            space_id=space_id,
            previous_model=replaced.model,
            model=model.name,
            forced=forced,
            started_by=caller.principal_id,
        )
    )


_replaced = spaces.alias("replaced")


def _select_rebuilds(organization_id: UUID, kind: type[Rebuild | RunningRebuild]) -> sa.Select[*tuple[Any, ...]]:
    chosen: sa.Select[*tuple[Any, ...]] = sa.select(
        *sql.columns_of(
            index_rebuilds,
            kind,
            sql.as_member(index_rebuilds.c.status, IndexRebuildStatus),
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
    connection: Connection, organization_id: UUID, *, collection_id: UUID | None
) -> Rebuild | None:
    """Find an index's running, else newest rebuild; ids give no order, because they come from several clocks."""
    statement = (
        _select_rebuilds(organization_id, Rebuild)
        .where(index_rebuilds.c.collection_id.is_not_distinct_from(collection_id))
        .order_by((index_rebuilds.c.status == "RUNNING").desc(), index_rebuilds.c.started_at.desc())
        .limit(1)
    )
    return await sql.find_row(connection, statement, Rebuild)


async def list_running(connection: Connection, organization_id: UUID) -> list[RunningRebuild]:
    statement = _select_rebuilds(organization_id, RunningRebuild).where(index_rebuilds.c.status == "RUNNING")
    return await sql.find_rows(connection, statement.order_by(index_rebuilds.c.rebuild_id), RunningRebuild)


async def force_completion(connection: Connection, organization_id: UUID, *, rebuild_id: UUID) -> None:
    await sql.update_rows(connection, index_rebuilds, organization_id, {"forced": True}, rebuild_id=rebuild_id)


async def retry_failed(connection: Connection, organization_id: UUID, *, space_id: int) -> None:
    """Release pending documents of a space that have failed, to be indexed at once and with no attempts counted."""
    of_space = sql.matches(space_documents, organization_id, space_id=space_id)
    failed = sa.update(space_documents).where(of_space, is_pending(), space_documents.c.error.is_not(None))
    await connection.execute(failed.values(attempts=0, error=None, claimed_until=sa.func.now()))


async def copy_entries(
    connection: Connection, organization_id: UUID, *, old_id: int, new_id: int, document_ids: Collection[UUID]
) -> list[UUID]:
    """Copy locked documents' entries from the old space to the new space, except known entries, to be indexed; return
    the copied documents with a caller's chunks. Copies nothing once the new space no longer replaces the old."""
    copied = ("document_id", "organization_id", "version", "caller_chunks", "custom_metadata", "added_at")
    still = sa.and_(spaces.c.space_id == new_id, spaces.c.replaces_space_id == old_id)
    wanted = (
        # Recompute the lane, because the text may have changed since the old entry's last request.
        sa.select(*(space_documents.c[name] for name in copied), select_is_large(), spaces.c.space_id, sa.func.now())
        .join(spaces, still)
        .where(
            sql.matches(space_documents, organization_id, space_id=old_id),
            sql.in_array(space_documents.c.document_id, document_ids),
        )
    )
    new = insert(space_documents).from_select([*copied, "is_large", "space_id", "claimed_until"], wanted)
    statement = new.on_conflict_do_nothing().returning(space_documents.c.document_id, space_documents.c.caller_chunks)
    return [document_id for document_id, is_by_caller in await connection.execute(statement) if is_by_caller]


async def copy_waiting_chunks(
    connection: Connection, organization_id: UUID, *, old_id: int, new_id: int, document_ids: Collection[UUID]
) -> set[UUID]:
    kept = ("document_id", "organization_id", "batch_id", "chunks")
    waiting = sa.select(*(caller_chunks.c[name] for name in kept), sa.literal(new_id, sa.Integer())).where(
        sql.matches(caller_chunks, organization_id, space_id=old_id),
        sql.in_array(caller_chunks.c.document_id, document_ids),
    )
    new = insert(caller_chunks).from_select([*kept, "space_id"], waiting).on_conflict_do_nothing()
    return set((await connection.execute(new.returning(caller_chunks.c.document_id))).scalars())


async def keep_chunks(
    connection: Connection, organization_id: UUID, *, document_id: UUID, space_id: int, batch_id: UUID, chunks: bytes
) -> None:
    """Store a caller's chunks of a document until indexed in this space, unless newer chunks exist."""
    new = insert(caller_chunks).values(
        document_id=document_id, space_id=space_id, organization_id=organization_id, batch_id=batch_id, chunks=chunks
    )
    await connection.execute(new.on_conflict_do_nothing())


async def swap(
    connection: Connection, organization_id: UUID, *, old: SearchedSpace, new_id: int, collection_id: UUID | None
) -> None:
    """Replace the old space (locked with its collection) by the new space, and retire the old space."""
    update = partial(sql.update_rows, connection, spaces, organization_id)
    await update(
        {"is_catalog": False, "retired_at": sa.func.now(), "replaced_by_space_id": new_id}, space_id=old.space_id
    )
    # Earlier replaced spaces lead directly to the new space.
    await update({"replaced_by_space_id": new_id}, replaced_by_space_id=old.space_id)
    await update({"is_catalog": old.is_catalog, "replaces_space_id": None}, space_id=new_id)
    if collection_id is not None:
        values = {"space_id": new_id}
        await sql.update_rows(connection, collections, organization_id, values, collection_id=collection_id)


async def finish_rebuild(
    connection: Connection, organization_id: UUID, *, rebuild_id: UUID, status: str, left_count: int = 0
) -> None:
    ended = {"status": status, "left_count": left_count, "finished_at": sa.func.now()}
    await sql.update_rows(connection, index_rebuilds, organization_id, ended, rebuild_id=rebuild_id)


async def lock_collection(connection: Connection, organization_id: UUID, *, collection_id: UUID) -> bool:
    """Lock a collection against additions; False if unknown."""
    this = sql.matches(collections, organization_id, collection_id=collection_id)
    statement = sa.select(collections.c.collection_id).where(this).with_for_update()
    return (await connection.execute(statement)).one_or_none() is not None


@dataclass(frozen=True, slots=True)
class Progress:
    """The numbers of a rebuild's documents. `held`: some documents remain, and each has failed many times."""

    documents: int
    indexed: int
    failed: int
    held: bool


@dataclass(frozen=True, slots=True)
class Unready:
    """The number of documents that differ between both spaces; `blocking` documents hold up the swap."""

    documents: int
    blocking: int


_old = space_documents.alias("old_places")
_new = space_documents.alias("new_places")


def _is_ready() -> sa.ColumnElement[bool]:
    """Build the condition for a complete entry: all the old space shows, with vectors, or requested if unindexed."""
    found = shown_version(_old)
    never_indexed = sa.and_(found.is_(None), sa.or_(_new.c.indexed_version.is_not(None), _old.c.chunk_count == 0))
    as_new = sa.func.coalesce(_new.c.indexed_version >= found, never_indexed)
    return sa.and_(_new.c.document_id.is_not(None), as_new)


def _select_entries(organization_id: UUID, old_id: int, new_id: int, *columns: Any) -> sa.Select[*tuple[Any, ...]]:
    is_same = sa.and_(_new.c.document_id == _old.c.document_id, _new.c.space_id == new_id)
    chosen: sa.Select[*tuple[Any, ...]] = sa.select(*columns)
    return (
        chosen.select_from(_old.outerjoin(_new, is_same))
        .join(resources, resources.c.object_id == _old.c.document_id)
        .where(sql.matches(_old, organization_id, space_id=old_id))
    )


def _number(transaction: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    return sa.cast(sa.cast(transaction, sa.Text), sa.BigInteger)


async def list_missing_entries(
    connection: Connection, organization_id: UUID, *, old_id: int, new_id: int, after: UUID, limit: int
) -> Sequence[UUID]:
    missing = _select_entries(organization_id, old_id, new_id, _old.c.document_id).where(
        _old.c.document_id > after, _new.c.document_id.is_(None)
    )
    return (await connection.execute(missing.order_by(_old.c.document_id).limit(limit))).scalars().all()


async def number_transaction(connection: Connection) -> int:
    """Return the number of this transaction; every other transaction already numbered has a smaller number."""
    return (await connection.execute(sa.select(_number(sa.func.pg_current_xact_id())))).scalar_one()


async def have_ended(connection: Connection, *, before: int) -> bool:
    """Return whether every transaction with a number below `before` has ended."""
    statement = sa.select(_number(sa.func.pg_snapshot_xmin(sa.func.pg_current_snapshot())) >= before)
    return bool((await connection.execute(statement)).scalar_one())


async def count_unready(
    connection: Connection, organization_id: UUID, *, old_id: int, new_id: int, forced: bool, only_pending: bool = False
) -> Unready:
    """Count the documents missing from the new space, over all entries, or with `only_pending` over entries pending in
    the new space. Failed documents block unless `forced`."""
    failed = sa.and_(_new.c.document_id.is_not(None), _new.c.error.is_not(None)) if forced else ~sa.true()
    counts = sa.func.count().label("documents"), sql.count_where(~failed, "blocking")
    statement = _select_entries(organization_id, old_id, new_id, *counts).where(~_is_ready())
    if only_pending:
        new = space_documents.alias("pending_places")
        pending = sa.select(new.c.document_id).where(
            sql.matches(new, organization_id, space_id=new_id), is_pending(new)
        )
        # The planner expects few rows from an array; for a join it would read all entries of the old space.
        ids: Any = sa.func.array(pending.scalar_subquery())
        statement = statement.where(_old.c.document_id == sa.any_(ids))
    return await sql.get_row(connection, statement, Unready)


def _is_visible(caller: Caller) -> sa.ColumnElement[bool]:
    return sa.true() if caller.is_admin else resources.c.access_class.in_(readable_classes(caller))


async def count_progress(
    connection: Connection, caller: Caller, *, old_id: int, new_id: int, hopeless: int
) -> Progress:
    """Count visible, indexed and failed documents; `held`: all remaining, visible or not, failed `hopeless` times."""
    ready, known = _is_ready(), _is_visible(caller)
    failed = sa.and_(_new.c.document_id.is_not(None), _new.c.error.is_not(None))
    given_up = sa.and_(failed, _new.c.attempts >= hopeless)
    left, beyond_hope = sa.func.count().filter(~ready), sa.func.count().filter(~ready, given_up)
    statement = _select_entries(
        caller.organization_id,
        old_id,
        new_id,
        sa.func.count().filter(known).label("documents"),
        sa.func.count().filter(known, ready).label("indexed"),
        sa.func.count().filter(known, ~ready, failed).label("failed"),
        sa.and_(left > 0, left == beyond_hope).label("held"),
    )
    return await sql.get_row(connection, statement, Progress)


async def list_failures(
    connection: Connection, caller: Caller, *, old_id: int, new_id: int, after: UUID, limit: int
) -> list[IndexRebuildFailure]:
    columns = (
        documents.c.document_id,
        documents.c.name.label("document_name"),
        documents.c.external_id.label("document_external_id"),
        _new.c.error,
        _new.c.attempts,
    )
    failed = (
        _select_entries(caller.organization_id, old_id, new_id, *columns)
        .join(documents, documents.c.document_id == _old.c.document_id)
        .where(~_is_ready(), _new.c.error.is_not(None), _is_visible(caller))
    )
    statement = sql.rows_after(failed, _old.c.document_id, after=after, limit=limit)
    return await sql.find_rows(connection, statement, IndexRebuildFailure)


# A request that began before a swap may read the old index for this time.
READ_FOR = timedelta(minutes=1)
# An indexing request finds the new space through the old space's row for this time.
LEADS_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class RetiredSpace:
    """A retired space; `done` means the row can be removed, too."""

    space_id: int
    dimensions: int
    done: bool


async def list_retired(connection: Connection, organization_id: UUID) -> list[RetiredSpace]:
    """List the spaces retired longer than `READ_FOR` ago, by id."""
    done = sa.or_(spaces.c.replaced_by_space_id.is_(None), spaces.c.retired_at < sa.func.now() - LEADS_FOR)
    statement = sa.select(*sql.columns_of(spaces, RetiredSpace, done.label("done"))).where(
        spaces.c.organization_id == organization_id, spaces.c.retired_at < sa.func.now() - READ_FOR
    )
    return await sql.find_rows(connection, statement.order_by(spaces.c.space_id), RetiredSpace)


async def list_some_documents(
    connection: Connection, organization_id: UUID, *, space_id: int, limit: int
) -> Sequence[UUID]:
    left = sa.select(space_documents.c.document_id).where(
        sql.matches(space_documents, organization_id, space_id=space_id)
    )
    statement = left.order_by(space_documents.c.document_id).limit(limit)
    return (await connection.execute(statement)).scalars().all()


async def clear_entries(
    connection: Connection, organization_id: UUID, *, space: RetiredSpace, document_ids: Collection[UUID]
) -> None:
    """Remove these locked documents from a retired space. The space's term statistics are deleted as a whole later."""
    for table in (*INDEX_TABLES[space.dimensions].all, caller_chunks, space_documents):
        given = sql.in_array(table.c.document_id, document_ids)
        await sql.delete_rows(connection, table, organization_id, given, space_id=space.space_id)


async def delete_statistics(connection: Connection, organization_id: UUID, *, space_id: int) -> bool:
    """Delete a retired space's term statistics, locked against folding; False without any."""
    found = 0
    for table in (term_statistics, term_deltas):
        found += await sql.delete_rows(connection, table, organization_id, space_id=space_id)
    return found > 0


async def delete_row(connection: Connection, organization_id: UUID, *, space_id: int) -> None:
    await sql.delete_rows(connection, spaces, organization_id, space_id=space_id)
