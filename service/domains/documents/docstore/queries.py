"""SQL of syncs, for the requests of people; SQL of their runs is in `running.queries`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, case, delete, exists, func, null, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.common import Role
from carrel.wire.docstore import DocstoreSyncStatus
from service.auth.callers import Caller
from service.permissions.queries import readable_classes
from service.platform.sql import as_member, columns_of, find_row, find_rows, get_row, in_array
from service.schema.catalog import documents
from service.schema.docstore import docstore_documents, docstore_failures, docstore_syncs
from service.schema.permissions import resources

# A run that has told nothing for so long is taken for lost; it may be launched again, and then writes no more.
LOST_AFTER = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class StoredSync:
    """A sync; its principal, credential and who acted are those of the request that created it or handed it over."""

    sync_id: UUID
    collection_id: UUID
    principal_id: UUID
    credential_id: UUID
    acting_through_id: UUID | None
    sealed_uri: bytes | None
    config: Mapping[str, Any]
    status: str
    attempt: int
    cursor: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SyncState:
    """A sync, how its last run went, and how many documents of it exist and failed."""

    sync_id: UUID
    collection_id: UUID
    config: dict[str, Any]
    status: DocstoreSyncStatus
    read_count: int
    created_count: int
    updated_count: int
    unchanged_count: int
    deleted_count: int
    failed_count: int
    document_count: int
    cursor: dict[str, Any] | None
    warning_code: str | None
    warning_message: str | None
    error_code: str | None
    error_message: str | None
    created_at: datetime
    updated_at: datetime
    progress_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """A document that a sync could not take; `source_id` is in canonical Extended JSON."""

    document_id: UUID
    source_id: str
    external_id: str
    code: str
    message: str
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class StuckSync:
    """A sync whose run has stopped without an end."""

    sync_id: UUID
    name: str


def _is_sync(organization_id: UUID, sync_id: UUID) -> ColumnElement[bool]:
    return and_(docstore_syncs.c.organization_id == organization_id, docstore_syncs.c.sync_id == sync_id)


def _select_syncs(organization_id: UUID) -> Select[*tuple[Any, ...]]:
    """Select an organization's syncs, each with the numbers of its documents that exist and of its failures."""
    tried, failed = (
        select(func.count()).where(
            table.c.organization_id == organization_id, table.c.sync_id == docstore_syncs.c.sync_id
        )
        for table in (docstore_documents, docstore_failures)
    )
    return select(
        *columns_of(
            docstore_syncs,
            SyncState,
            as_member(docstore_syncs.c.status, DocstoreSyncStatus),
            tried.where(document_exists(organization_id)).scalar_subquery().label("document_count"),
            failed.scalar_subquery().label("failed_count"),
        )
    ).where(docstore_syncs.c.organization_id == organization_id)


def document_exists(organization_id: UUID) -> ColumnElement[bool]:
    """Build the condition that a document a sync tried is in the catalog now: it was taken, and not deleted since."""
    return exists().where(
        documents.c.document_id == docstore_documents.c.document_id,
        documents.c.organization_id == organization_id,
        documents.c.deleted_at.is_(None),
    )


async def insert_sync(
    connection: AsyncConnection,
    caller: Caller,
    *,
    sync_id: UUID,
    collection_id: UUID,
    sealed_uri: bytes,
    config: Mapping[str, Any],
) -> None:
    """Add a sync whose first run is requested; its runs will act as the caller does."""
    values = {
        "sync_id": sync_id,
        "organization_id": caller.organization_id,
        "collection_id": collection_id,
        "principal_id": caller.principal_id,
        "credential_id": caller.credential_id,
        "acting_through_id": caller.acting_through,
        "sealed_uri": sealed_uri,
        "config": dict(config),
    }
    await connection.execute(insert(docstore_syncs).values(values))


async def get_sync(
    connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID, lock: bool = False
) -> StoredSync | None:
    """Get a sync without a check of rights, None when there is none; `lock` locks it until the transaction ends."""
    statement = select(*columns_of(docstore_syncs, StoredSync)).where(_is_sync(organization_id, sync_id))
    if lock:
        statement = statement.with_for_update()
    return await find_row(connection, statement, StoredSync)


async def read_sync(connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID) -> SyncState:
    """Return the state of an existing sync."""
    return await get_row(
        connection, _select_syncs(organization_id).where(docstore_syncs.c.sync_id == sync_id), SyncState
    )


async def list_syncs(
    connection: AsyncConnection, caller: Caller, *, collection_id: UUID | None, after: UUID, limit: int
) -> list[SyncState]:
    """List the states of syncs by id: those into collections the caller may edit; all for admins."""
    statement = (
        _select_syncs(caller.organization_id)
        .join(resources, resources.c.object_id == docstore_syncs.c.collection_id)
        .where(docstore_syncs.c.sync_id > after)
        .order_by(docstore_syncs.c.sync_id)
        .limit(limit)
    )
    if not caller.is_admin:
        statement = statement.where(resources.c.access_class.in_(readable_classes(caller, at_least=Role.EDITOR)))
    if collection_id is not None:
        statement = statement.where(docstore_syncs.c.collection_id == collection_id)
    return await find_rows(connection, statement, SyncState)


async def replace_sync(
    connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID, sealed_uri: bytes, config: Mapping[str, Any]
) -> None:
    """Replace a sync's address and config, and request a new run; a run in progress can write no more."""
    statement = (
        update(docstore_syncs)
        .where(_is_sync(organization_id, sync_id))
        .values(
            sealed_uri=sealed_uri,
            config=dict(config),
            cursor=null(),
            updated_at=func.now(),
            status="PENDING",
            attempt=docstore_syncs.c.attempt + 1,
        )
    )
    await connection.execute(statement)


async def set_syncs_owner(
    connection: AsyncConnection,
    organization_id: UUID,
    *,
    sync_ids: Collection[UUID],
    principal_id: UUID,
    credential_id: UUID,
) -> None:
    """Let locked syncs act as another principal from their next run on; a run in progress can write no more."""
    is_running = docstore_syncs.c.status == "RUNNING"
    statement = (
        update(docstore_syncs)
        .where(docstore_syncs.c.organization_id == organization_id, in_array(docstore_syncs.c.sync_id, sync_ids))
        .values(
            principal_id=principal_id,
            credential_id=credential_id,
            acting_through_id=null(),
            status=case((is_running, "PENDING"), else_=docstore_syncs.c.status),
            attempt=docstore_syncs.c.attempt + case((is_running, 1), else_=0),
        )
    )
    await connection.execute(statement)


async def request_run(connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID) -> bool:
    """Request a run of a sync; False when one is requested already, or is running and has reported lately."""
    told = func.coalesce(docstore_syncs.c.progress_at, docstore_syncs.c.updated_at)
    statement = (
        update(docstore_syncs)
        .where(
            _is_sync(organization_id, sync_id),
            or_(docstore_syncs.c.status.in_(("COMPLETED", "FAILED")), told < func.now() - LOST_AFTER),
        )
        .values(status="PENDING", attempt=docstore_syncs.c.attempt + 1, progress_at=func.now())
    )
    return (await connection.execute(statement)).rowcount == 1


async def list_stuck_syncs(
    connection: AsyncConnection, organization_id: UUID, *, after: UUID, limit: int
) -> list[StuckSync]:
    """List the syncs whose run was requested or began, and has told nothing for long, by id after a given one."""
    told_at = func.coalesce(docstore_syncs.c.progress_at, docstore_syncs.c.updated_at)
    statement = (
        select(docstore_syncs.c.sync_id, docstore_syncs.c.config["syncName"].astext.label("name"))
        .where(
            docstore_syncs.c.organization_id == organization_id,
            docstore_syncs.c.sync_id > after,
            docstore_syncs.c.status.in_(("PENDING", "RUNNING")),
            told_at < func.now() - LOST_AFTER,
        )
        .order_by(docstore_syncs.c.sync_id)
        .limit(limit)
    )
    return await find_rows(connection, statement, StuckSync)


async def delete_sync(connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID) -> None:
    """Delete a sync with its address and its records of documents; the documents stay."""
    await connection.execute(delete(docstore_syncs).where(_is_sync(organization_id, sync_id)))


async def list_failures(
    connection: AsyncConnection, organization_id: UUID, *, sync_id: UUID, after: UUID, limit: int
) -> list[StoredFailure]:
    """List the documents that a sync could not take, by document id, with the reasons."""
    statement = (
        select(*columns_of(docstore_failures, StoredFailure))
        .where(
            docstore_failures.c.organization_id == organization_id,
            docstore_failures.c.sync_id == sync_id,
            docstore_failures.c.document_id > after,
        )
        .order_by(docstore_failures.c.document_id)
        .limit(limit)
    )
    return await find_rows(connection, statement, StoredFailure)
