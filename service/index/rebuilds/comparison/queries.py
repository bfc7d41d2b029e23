"""SQL that compares the entries of a space with those of the space that is built to replace it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ColumnElement, Select, Text, and_, any_, cast, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.rebuilds import IndexRebuildFailure
from service.auth.callers import Caller
from service.index.queries import is_pending
from service.permissions.queries import readable_classes
from service.platform.sql import find_rows, get_row
from service.schema.catalog import documents
from service.schema.indexing import space_documents
from service.schema.permissions import resources


@dataclass(frozen=True, slots=True)
class Progress:
    """The documents of a rebuild; `held`: some are left, and none of these without many failures."""

    documents: int
    indexed: int
    failed: int
    held: bool


@dataclass(frozen=True, slots=True)
class Unready:
    """How many documents the new space doesn't have as the old one has them; `blocking`: that hold the swap back."""

    documents: int
    blocking: int


_old = space_documents.alias("old_places")
_new = space_documents.alias("new_places")


def _is_ready() -> ColumnElement[bool]:
    """Build the condition that a document's entry in the new space has all that is searched in the old one.

    An entry that isn't indexed in the old space need only be requested in the new one.
    """
    never_indexed = and_(
        _old.c.indexed_version.is_(None), or_(_new.c.indexed_version.is_not(None), _old.c.chunk_count == 0)
    )
    as_new = func.coalesce(_new.c.indexed_version >= _old.c.indexed_version, never_indexed)
    return and_(_new.c.document_id.is_not(None), as_new)


def _select_entries(organization_id: UUID, old_id: int, new_id: int, *columns: Any) -> Select[*tuple[Any, ...]]:
    """Select from the entries of the old space, each with its entry in the new one if there is one."""
    is_same = and_(_new.c.document_id == _old.c.document_id, _new.c.space_id == new_id)
    chosen: Select[*tuple[Any, ...]] = select(*columns)
    return (
        chosen.select_from(_old.outerjoin(_new, is_same))
        .join(resources, resources.c.object_id == _old.c.document_id)
        .where(_old.c.organization_id == organization_id, _old.c.space_id == old_id)
    )


def _number(transaction: ColumnElement[Any]) -> ColumnElement[int]:
    """Select the number of a transaction as an integer."""
    return cast(cast(transaction, Text), BigInteger)


async def list_missing_entries(
    connection: AsyncConnection, organization_id: UUID, *, old_id: int, new_id: int, after: UUID, limit: int
) -> Sequence[UUID]:
    """List documents of the old space that are not in the new one, by id; `after` is the last one of the list before.

    It reads the entries from there on, of both spaces, until it has found so many.
    """
    missing = _select_entries(organization_id, old_id, new_id, _old.c.document_id).where(
        _old.c.document_id > after, _new.c.document_id.is_(None)
    )
    return (await connection.execute(missing.order_by(_old.c.document_id).limit(limit))).scalars().all()


async def number_transaction(connection: AsyncConnection) -> int:
    """Return the number of this transaction: all others that have one by now have smaller ones."""
    return (await connection.execute(select(_number(func.pg_current_xact_id())))).scalar_one()


async def have_ended(connection: AsyncConnection, *, before: int) -> bool:
    """Check whether all transactions with a smaller number have ended."""
    statement = select(_number(func.pg_snapshot_xmin(func.pg_current_snapshot())) >= before)
    return bool((await connection.execute(statement)).scalar_one())


async def count_unready(
    connection: AsyncConnection, organization_id: UUID, *, old_id: int, new_id: int, forced: bool
) -> Unready:
    """Count the documents that the new space doesn't have as the old one has them; failed ones block unless `forced`.

    It reads all entries of both spaces.
    """
    statement = _select_unready(organization_id, old_id, new_id, forced=forced)
    return await get_row(connection, statement, Unready)


async def count_unready_pending(
    connection: AsyncConnection, organization_id: UUID, *, old_id: int, new_id: int, forced: bool
) -> Unready:
    """Count like `count_unready` of the documents that are pending in the new space, and read those entries alone."""
    new = space_documents.alias("pending_places")
    pending = select(new.c.document_id).where(
        new.c.organization_id == organization_id, new.c.space_id == new_id, is_pending(new)
    )
    # An array, of which the planner assumes few: it would rather read all entries of the old space to join them.
    ids: Any = func.array(pending.scalar_subquery())
    statement = _select_unready(organization_id, old_id, new_id, forced=forced).where(_old.c.document_id == any_(ids))
    return await get_row(connection, statement, Unready)


def _select_unready(organization_id: UUID, old_id: int, new_id: int, *, forced: bool) -> Select[*tuple[Any, ...]]:
    failed = and_(_new.c.document_id.is_not(None), _new.c.error.is_not(None)) if forced else ~true()
    counts = func.count().label("documents"), func.count().filter(~failed).label("blocking")
    return _select_entries(organization_id, old_id, new_id, *counts).where(~_is_ready())


def _is_visible(caller: Caller) -> ColumnElement[bool]:
    return true() if caller.is_admin else resources.c.access_class.in_(readable_classes(caller))


async def count_progress(
    connection: AsyncConnection, caller: Caller, *, old_id: int, new_id: int, hopeless: int
) -> Progress:
    """Count the documents that the caller may know about, those of them that are indexed, and those that failed.

    `held` is about all documents: some are left, and each of those failed at least `hopeless` times in a row.
    """
    ready, known = _is_ready(), _is_visible(caller)
    failed = and_(_new.c.document_id.is_not(None), _new.c.error.is_not(None))
    given_up = and_(failed, _new.c.attempts >= hopeless)
    left, beyond_hope = func.count().filter(~ready), func.count().filter(~ready, given_up)
    statement = _select_entries(
        caller.organization_id,
        old_id,
        new_id,
        func.count().filter(known).label("documents"),
        func.count().filter(known, ready).label("indexed"),
        func.count().filter(known, ~ready, failed).label("failed"),
        and_(left > 0, left == beyond_hope).label("held"),
    )
    return await get_row(connection, statement, Progress)


async def list_failures(
    connection: AsyncConnection, caller: Caller, *, old_id: int, new_id: int, after: UUID, limit: int
) -> list[IndexRebuildFailure]:
    """List failed documents that the caller may know about, by id."""
    statement = (
        _select_entries(
            caller.organization_id,
            old_id,
            new_id,
            documents.c.document_id,
            documents.c.name.label("document_name"),
            documents.c.external_id.label("document_external_id"),
            _new.c.error,
            _new.c.attempts,
        )
        .join(documents, documents.c.document_id == _old.c.document_id)
        .where(~_is_ready(), _new.c.error.is_not(None), _is_visible(caller), _old.c.document_id > after)
        .order_by(_old.c.document_id)
        .limit(limit)
    )
    return await find_rows(connection, statement, IndexRebuildFailure)
