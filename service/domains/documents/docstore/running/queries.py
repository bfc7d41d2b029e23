"""SQL of runs. A run writes only while no other run has replaced it (`lock_run`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, case, delete, exists, func, null, select, update
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.documents.docstore.queries import StoredSync, document_exists
from service.platform.sql import columns_of, find_row, find_rows, get_row, in_array, rows_of
from service.schema.collections import collections
from service.schema.docstore import docstore_documents, docstore_failures, docstore_syncs
from service.schema.indexing import space_documents

_COUNTS = ("read_count", "created_count", "updated_count", "unchanged_count", "deleted_count")


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of documents to add to a run's counts."""

    read: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A source document that could not be taken."""

    document_id: UUID
    source_id: str
    external_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Listing:
    """How a sync's documents compare with a listing of the source's ids.

    `existing` documents are in the catalog, `missing` of them not in the listing, `created` by the run; `unlisted` is
    every document, existing or not, that was tried and isn't listed. Failed documents don't exist.
    """

    existing: int
    missing: int
    created: int
    unlisted: int


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """How a run ended, and its counts."""

    status: str
    read_count: int
    created_count: int
    updated_count: int
    deleted_count: int


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """A reason for which documents failed: its `number` of documents, and the ids of some of them in the source."""

    code: str
    message: str
    number: int
    source_ids: Sequence[str]


def _run(organization_id: UUID, sync_id: UUID, attempt: int) -> ColumnElement[bool]:
    return and_(
        docstore_syncs.c.organization_id == organization_id,
        docstore_syncs.c.sync_id == sync_id,
        docstore_syncs.c.attempt == attempt,
        docstore_syncs.c.status == "RUNNING",
    )


async def begin_run(connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID) -> StoredSync | None:
    """Begin the requested run of a sync, or continue one that was interrupted; None when there is neither.

    The sync is returned with its status before: PENDING for a new run, whose counts begin at zero.
    """
    of_sync = and_(docstore_syncs.c.organization_id == organization_id, docstore_syncs.c.sync_id == sync_id)
    kept = select(*columns_of(docstore_syncs, StoredSync)).where(of_sync).with_for_update()
    before = await find_row(connection, kept, StoredSync)
    if before is None or before.status not in {"PENDING", "RUNNING"}:
        return None
    is_new = docstore_syncs.c.status == "PENDING"
    counts = {name: case((is_new, 0), else_=docstore_syncs.c[name]) for name in _COUNTS}
    statement = (
        update(docstore_syncs)
        .where(of_sync)
        .values(
            **counts,
            status="RUNNING",
            attempt=docstore_syncs.c.attempt + 1,
            started_at=case((is_new, func.now()), else_=docstore_syncs.c.started_at),
            progress_at=func.now(),
            finished_at=null(),
            warning_code=null(),
            warning_message=null(),
            error_code=null(),
            error_message=null(),
        )
        .returning(docstore_syncs.c.attempt)
    )
    attempt: int = (await connection.execute(statement)).scalar_one()
    return replace(before, attempt=attempt)


async def lock_run(connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID, attempt: int) -> bool:
    """Keep another run from replacing this run until the transaction ends; False when one has."""
    statement = select(docstore_syncs.c.sync_id).where(_run(organization_id, sync_id, attempt))
    return (await connection.execute(statement.with_for_update())).one_or_none() is not None


async def save_progress(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    sync_id: UUID,
    counts: Counts,
    cursor: Mapping[str, Any] | None = None,
) -> None:
    """Add to the counts of a locked run, and save its position if `cursor` is given."""
    added = {name: docstore_syncs.c[name] + getattr(counts, name.removesuffix("_count")) for name in _COUNTS}
    moved = {} if cursor is None else {"cursor": dict(cursor)}
    statement = (
        update(docstore_syncs)
        .where(docstore_syncs.c.organization_id == organization_id, docstore_syncs.c.sync_id == sync_id)
        .values(**added, **moved, progress_at=func.now())
    )
    await connection.execute(statement)


async def finish_run(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    sync_id: UUID,
    attempt: int,
    error: tuple[str, str] | None,
    warning: tuple[str, str] | None,
) -> FinishedRun | None:
    """End a run with an error or a warning (code, message), or neither; return its end, None when it was replaced."""
    error_code, error_message = error or (None, None)
    warning_code, warning_message = warning or (None, None)
    statement = (
        update(docstore_syncs)
        .where(_run(organization_id, sync_id, attempt))
        .values(
            status="COMPLETED" if error is None else "FAILED",
            error_code=error_code,
            error_message=error_message,
            warning_code=warning_code,
            warning_message=warning_message,
            finished_at=func.now(),
        )
        .returning(*columns_of(docstore_syncs, FinishedRun))
    )
    return await find_row(connection, statement, FinishedRun)


async def note_documents(
    connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID, document_ids: Sequence[UUID]
) -> None:
    """Record that these documents are about to be tried."""
    new = [{"document_id": one, "sync_id": sync_id, "organization_id": organization_id} for one in set(document_ids)]
    if new:
        await connection.execute(insert(docstore_documents).values(new).on_conflict_do_nothing())


async def in_collection(
    connection: AsyncConnection, organization_id: UUID, *, collection_id: UUID, document_ids: Sequence[UUID]
) -> frozenset[UUID]:
    """Return the documents, of those given, that are in the collection."""
    statement = (
        select(space_documents.c.document_id)
        .join(collections, collections.c.space_id == space_documents.c.space_id)
        .where(
            space_documents.c.organization_id == organization_id,
            collections.c.collection_id == collection_id,
            in_array(space_documents.c.document_id, document_ids),
        )
    )
    return frozenset((await connection.execute(statement)).scalars())


async def replace_failures(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    sync_id: UUID,
    tried: Sequence[UUID],
    failures: Sequence[Failure],
) -> None:
    """Record why these documents failed, and delete earlier failures of all that were tried."""
    gone = delete(docstore_failures).where(
        docstore_failures.c.organization_id == organization_id,
        docstore_failures.c.sync_id == sync_id,
        in_array(docstore_failures.c.document_id, tried),
    )
    await connection.execute(gone)
    rows = {
        one.document_id: {
            "document_id": one.document_id,
            "sync_id": sync_id,
            "organization_id": organization_id,
            "source_id": one.source_id,
            "external_id": one.external_id,
            "code": one.code,
            "message": one.message,
        }
        for one in failures
    }
    if rows:
        await connection.execute(insert(docstore_failures).values(list(rows.values())))


async def count_held(connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID) -> int:
    """Return the number of a sync's documents that exist and that the source has ever listed."""
    statement = select(func.count()).where(
        docstore_documents.c.organization_id == organization_id,
        docstore_documents.c.sync_id == sync_id,
        docstore_documents.c.listing_no > 0,
        document_exists(organization_id),
    )
    return (await connection.execute(statement)).scalar_one()


async def begin_listing(connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID) -> int:
    """Begin a listing of the source's ids; return its number, which is greater than every earlier one's."""
    statement = (
        update(docstore_syncs)
        .where(docstore_syncs.c.organization_id == organization_id, docstore_syncs.c.sync_id == sync_id)
        .values(listing_no=docstore_syncs.c.listing_no + 1, progress_at=func.now())
        .returning(docstore_syncs.c.listing_no)
    )
    return (await connection.execute(statement)).scalar_one()


async def mark_listed(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    sync_id: UUID,
    listing_no: int,
    document_ids: Sequence[UUID],
) -> frozenset[UUID]:
    """Record that a listing has these documents; return those of them that were tried before."""
    given = rows_of([docstore_documents.c.document_id], [{"document_id": one} for one in document_ids])
    statement = (
        update(docstore_documents)
        .where(
            docstore_documents.c.organization_id == organization_id,
            docstore_documents.c.sync_id == sync_id,
            docstore_documents.c.document_id == given.c.document_id,
        )
        .values(listing_no=listing_no)
        .returning(docstore_documents.c.document_id)
    )
    return frozenset((await connection.execute(statement)).scalars())


async def count_listed(
    connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID, listing_no: int
) -> Listing:
    """Compare all documents that a sync has tried with a listing."""
    is_unlisted = docstore_documents.c.listing_no != listing_no
    created = select(docstore_syncs.c.created_count).where(
        docstore_syncs.c.organization_id == organization_id, docstore_syncs.c.sync_id == sync_id
    )
    statement = select(
        func.count().filter(document_exists(organization_id)).label("existing"),
        func.count().filter(document_exists(organization_id), is_unlisted).label("missing"),
        created.scalar_subquery().label("created"),
        func.count().filter(is_unlisted).label("unlisted"),
    ).where(docstore_documents.c.organization_id == organization_id, docstore_documents.c.sync_id == sync_id)
    return await get_row(connection, statement, Listing)


async def count_taken(connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID) -> tuple[int, int]:
    """Return the number of documents in the sync's last listing, and the number of those without a failure."""
    has_failed = exists().where(
        docstore_failures.c.organization_id == organization_id,
        docstore_failures.c.document_id == docstore_documents.c.document_id,
        docstore_failures.c.sync_id == docstore_documents.c.sync_id,
    )
    statement = (
        select(func.count(), func.count().filter(~has_failed))
        .select_from(docstore_documents)
        .join(docstore_syncs, docstore_syncs.c.sync_id == docstore_documents.c.sync_id)
        .where(
            docstore_documents.c.organization_id == organization_id,
            docstore_documents.c.sync_id == sync_id,
            docstore_documents.c.listing_no == docstore_syncs.c.listing_no,
        )
    )
    listed, taken = (await connection.execute(statement)).one()
    return listed, taken


async def group_failures(
    connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID, examples: int
) -> list[FailureGroup]:
    """List the reasons for which a sync's documents failed, the most frequent first."""
    some = func.array_agg(aggregate_order_by(docstore_failures.c.source_id, docstore_failures.c.document_id))
    statement = (
        select(
            docstore_failures.c.code,
            docstore_failures.c.message,
            func.count().label("number"),
            some[1:examples].label("source_ids"),
        )
        .where(docstore_failures.c.organization_id == organization_id, docstore_failures.c.sync_id == sync_id)
        .group_by(docstore_failures.c.code, docstore_failures.c.message)
        .order_by(func.count().desc(), docstore_failures.c.message, docstore_failures.c.code)
    )
    return await find_rows(connection, statement, FailureGroup)


async def list_unlisted_documents(
    connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID, listing_no: int, after: UUID, limit: int
) -> Sequence[UUID]:
    """List documents that a listing doesn't have, by id."""
    statement = (
        select(docstore_documents.c.document_id)
        .where(
            docstore_documents.c.organization_id == organization_id,
            docstore_documents.c.sync_id == sync_id,
            docstore_documents.c.listing_no != listing_no,
            docstore_documents.c.document_id > after,
        )
        .order_by(docstore_documents.c.document_id)
        .limit(limit)
    )
    return (await connection.execute(statement)).scalars().all()


async def delete_document_record(
    connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID, document_id: UUID
) -> None:
    """Delete the record of a document that is gone from source and catalog, and its failure."""
    for table in (docstore_failures, docstore_documents):
        statement = delete(table).where(
            table.c.organization_id == organization_id,
            table.c.sync_id == sync_id,
            table.c.document_id == document_id,
        )
        await connection.execute(statement)
