"""SQL of syncs and their runs. A run may write only until another run replaces it (`lock_run`)."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Table, and_, case, cast, delete, exists, func, null, select, text, update
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import docstore as wire
from carrel.wire.common import Role, digest_of
from service.auth.callers import Caller
from service.permissions.queries import readable_classes
from service.platform import sql
from service.schema.catalog import collections, docstore_documents, docstore_failures, docstore_syncs, documents
from service.schema.identity import resources
from service.schema.indexing import space_documents

# A run without a sign of life for this time is lost. It can be launched again, and the lost run can't write.
LOST_AFTER = timedelta(minutes=15)
APPROVED, _HELD = "approved", "held"
_KEPT_RUNS = 50
# For each first outcome of a document in a run, the later outcomes that don't replace it.
_STANDS = {"created": ("updated", "unchanged"), "updated": ("unchanged",)}
_COUNTS = ("read_count", "created_count", "updated_count", "unchanged_count", "deleted_count")
_OUTCOMES = ("warning", "error")
# The columns of a sync that people see, besides its status.
_SHOWN = (
    *("sync_id", "collection_id", "config", "cursor", "created_at", "updated_at", "progress_at"),
    *("started_at", "finished_at", *_COUNTS, *(f"{kind}_{part}" for kind in _OUTCOMES for part in ("code", "message"))),
)


@dataclass(frozen=True, slots=True)
class SyncKey:
    organization_id: UUID
    sync_id: UUID

    def is_of(self, table: Table) -> ColumnElement[bool]:
        return sql.matches(table, self.organization_id, sync_id=self.sync_id)


@dataclass(frozen=True, slots=True)
class StoredSync:
    """A sync. Principal, credential and actor come from the request that created the sync or handed it over."""

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
class Failure:
    """A source document rejected by a sync; `source_id` is in canonical Extended JSON."""

    document_id: UUID
    source_id: str
    external_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Note:
    code: str
    message: str


def _select_syncs(organization_id: UUID) -> Select[*tuple[Any, ...]]:
    tried, failed = (
        select(func.count()).where(sql.matches(table, organization_id, sync_id=docstore_syncs.c.sync_id))
        for table in (docstore_documents, docstore_failures)
    )
    return select(
        *(docstore_syncs.c[name] for name in (*_SHOWN, "sealed_uri")),
        sql.as_member(docstore_syncs.c.status, wire.DocstoreSyncStatus),
        tried.where(document_exists(organization_id)).scalar_subquery().label("document_count"),
        failed.scalar_subquery().label("failed_count"),
    ).where(docstore_syncs.c.organization_id == organization_id)


def _to_sync(
    *,
    sync_id: UUID,
    collection_id: UUID,
    config: Mapping[str, Any],
    status: wire.DocstoreSyncStatus,
    updated_at: datetime,
    progress_at: datetime | None,
    **columns: Any,
) -> wire.DocstoreSync:
    counts = {name: columns.pop(f"{name}_count") for name in wire.DocstoreCounts.model_fields}
    warning, error = (
        None if code is None else wire.DocstoreError(code=code, message=message or "")
        for code, message in ((columns.pop(f"{kind}_code"), columns.pop(f"{kind}_message")) for kind in _OUTCOMES)
    )
    with_defaults = wire.DocstoreConfig.model_validate(config).model_dump(mode="json", by_alias=True)
    return wire.DocstoreSync(
        docstore_credential_id=sync_id,
        resource_id=str(sync_id),
        document_collection_id=collection_id,
        config=wire.DocstoreConfigInfo.model_validate(with_defaults),
        # Each encryption of an address differs, so the digest shows only that the address was replaced.
        version=digest_of([with_defaults, (columns.pop("sealed_uri") or b"").hex()]),
        status=status,
        counts=wire.DocstoreCounts(**counts),
        warning=warning,
        last_error=error,
        updated_at=updated_at,
        wanted_at=max(updated_at, progress_at or updated_at) if status is wire.DocstoreSyncStatus.PENDING else None,
        **columns,
    )


def document_exists(organization_id: UUID) -> ColumnElement[bool]:
    """Build the condition for tried documents now in the catalog: uploaded, and not deleted since."""
    return exists().where(
        documents.c.document_id == docstore_documents.c.document_id,
        documents.c.organization_id == organization_id,
        documents.c.deleted_at.is_(None),
    )


async def insert_sync(connection: Connection, caller: Caller, **values: Any) -> None:
    """Add a sync and request the first run; runs act as the caller."""
    acting = {
        "organization_id": caller.organization_id,
        "principal_id": caller.principal_id,
        "credential_id": caller.credential_id,
        "acting_through_id": caller.acting_through,
    }
    await connection.execute(insert(docstore_syncs).values(**acting, **values))


async def get_sync(connection: Connection, key: SyncKey, *, lock: bool = False) -> StoredSync | None:
    """Return a sync without a check of rights, or None if unknown; `lock` locks it until the transaction ends."""
    statement = select(*sql.columns_of(docstore_syncs, StoredSync)).where(key.is_of(docstore_syncs))
    if lock:
        statement = statement.with_for_update()
    return await sql.find_row(connection, statement, StoredSync)


async def read_sync(connection: Connection, key: SyncKey) -> wire.DocstoreSync:
    return await sql.get_row(
        connection, _select_syncs(key.organization_id).where(docstore_syncs.c.sync_id == key.sync_id), _to_sync
    )


async def list_syncs(
    connection: Connection, caller: Caller, window: sql.Window, *, collection_id: UUID | None
) -> list[wire.DocstoreSync]:
    """List the states of syncs by id, limited to collections the caller may edit; all for admins."""
    chosen = _select_syncs(caller.organization_id)
    chosen = chosen.join(resources, resources.c.object_id == docstore_syncs.c.collection_id)
    statement = sql.rows_after(chosen, docstore_syncs.c.sync_id, *window)
    if not caller.is_admin:
        statement = statement.where(resources.c.access_class.in_(readable_classes(caller, at_least=Role.EDITOR)))
    statement = statement.where(sql.optional(docstore_syncs.c.collection_id, collection_id))
    return await sql.find_rows(connection, statement, _to_sync)


async def replace_sync(
    connection: Connection, key: SyncKey, *, sealed_uri: bytes | None, config: Mapping[str, Any], rewind: bool
) -> None:
    """Replace a sync's config, address (None: unchanged) and, to `rewind`, position; end its run and request a run."""
    renewed = {"updated_at": func.now(), "status": "PENDING", "attempt": docstore_syncs.c.attempt + 1}
    address = {} if sealed_uri is None else {"sealed_uri": sealed_uri}
    position = {"cursor": null()} if rewind else {}
    statement = update(docstore_syncs).where(key.is_of(docstore_syncs))
    await connection.execute(statement.values(config=dict(config), **renewed, **address, **position))


async def set_syncs_owner(
    connection: Connection, caller: Caller, *, sync_ids: Collection[UUID], principal_id: UUID
) -> None:
    """Let locked syncs act as another principal from the next run on; a run in progress can no longer write."""
    is_running = docstore_syncs.c.status == "RUNNING"
    values = {
        "principal_id": principal_id,
        "credential_id": caller.credential_id,
        "acting_through_id": null(),
        "status": case((is_running, "PENDING"), else_=docstore_syncs.c.status),
        "attempt": docstore_syncs.c.attempt + case((is_running, 1), else_=0),
    }
    chosen = sql.in_array(docstore_syncs.c.sync_id, sync_ids)
    await sql.update_rows(connection, docstore_syncs, caller.organization_id, values, chosen)


async def request_run(connection: Connection, key: SyncKey) -> bool:
    """Request a run of a sync; False while a requested or begun run has reported lately."""
    is_over = docstore_syncs.c.status.in_(("COMPLETED", "FAILED")) | _is_lost()
    requested = {"status": "PENDING", "attempt": docstore_syncs.c.attempt + 1, "progress_at": func.now()}
    statement = update(docstore_syncs).where(key.is_of(docstore_syncs), is_over).values(**requested)
    return (await connection.execute(statement)).rowcount == 1


def _is_lost() -> ColumnElement[bool]:
    told_at = func.coalesce(docstore_syncs.c.progress_at, docstore_syncs.c.updated_at)
    return told_at < func.now() - LOST_AFTER


async def list_stuck_syncs(
    connection: Connection, organization_id: UUID, *, after: UUID, limit: int
) -> Sequence[tuple[UUID, str]]:
    """List ids and names of syncs after an id, if a requested or begun run has long stopped reporting."""
    name = docstore_syncs.c.config["syncName"].astext
    stuck = select(docstore_syncs.c.sync_id, name).where(
        docstore_syncs.c.organization_id == organization_id,
        docstore_syncs.c.status.in_(("PENDING", "RUNNING")),
        _is_lost(),
    )
    statement = sql.rows_after(stuck, docstore_syncs.c.sync_id, after=after, limit=limit)
    return [(key, title) for key, title in await connection.execute(statement)]


async def delete_sync(connection: Connection, key: SyncKey) -> None:
    """Delete a sync with its address and records of documents; the documents stay."""
    await connection.execute(delete(docstore_syncs).where(key.is_of(docstore_syncs)))


async def list_failures(
    connection: Connection, key: SyncKey, window: sql.Window
) -> list[tuple[UUID, wire.DocstoreFailure]]:
    """List failures by document id, each with this id."""
    failed = docstore_failures.c
    external_id = failed.external_id.label("document_external_id")
    own = select(failed.document_id, failed.source_id, external_id, failed.code, failed.message, failed.failed_at)
    statement = sql.rows_after(own.where(key.is_of(docstore_failures)), failed.document_id, *window)
    return await sql.find_rows(connection, statement, _to_failure)


def _to_failure(*, document_id: UUID, source_id: str, **columns: Any) -> tuple[UUID, wire.DocstoreFailure]:
    return document_id, wire.DocstoreFailure(source_id=json.loads(source_id), **columns)


async def list_held(connection: Connection, key: SyncKey, window: sql.Window) -> list[wire.DocstoreHeldRemoval]:
    """List the existing documents whose removal is held, by id, each with whether the removal is approved."""
    of_sync, there = docstore_documents.c, documents.c
    names = (there.external_id.label("document_external_id"), there.name.label("document_name"))
    held = (
        select(there.document_id, *names, (of_sync.removal == APPROVED).label("approved"))
        .join(docstore_documents, of_sync.document_id == there.document_id)
        .where(_is_held(key), there.organization_id == key.organization_id, there.deleted_at.is_(None))
    )
    statement = sql.rows_after(held, there.document_id, *window)
    return await sql.find_rows(connection, statement, wire.DocstoreHeldRemoval)


async def count_held_removals(connection: Connection, key: SyncKey) -> int:
    return await sql.count_rows(connection, _is_held(key), document_exists(key.organization_id))


def _is_held(key: SyncKey) -> ColumnElement[bool]:
    return and_(key.is_of(docstore_documents), docstore_documents.c.removal.is_not(None))


async def approve_removals(connection: Connection, key: SyncKey, *, document_ids: Sequence[UUID]) -> int:
    """Let runs remove the held documents among the given ids; return their number."""
    held = _is_held(key), sql.in_array(docstore_documents.c.document_id, document_ids)
    return (await connection.execute(update(docstore_documents).where(*held).values(removal=APPROVED))).rowcount


async def list_runs(connection: Connection, key: SyncKey) -> list[wire.DocstoreRun]:
    """List the last runs of an existing sync, newest first."""
    kept = await connection.execute(select(docstore_syncs.c.runs).where(key.is_of(docstore_syncs)))
    return [wire.DocstoreRun.model_validate(item) for item in kept.scalar_one()]


@dataclass(frozen=True, slots=True)
class Listing:
    """A sync's documents: `existing` in the catalog, of these `missing` from a listing, and of these `approved` for
    removal; `created` by this run; `unlisted` ever tried, even if not in the catalog."""

    existing: int
    missing: int
    approved: int
    created: int
    unlisted: int


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """A reason for failure: the `number` of failed documents, with some of their source ids."""

    code: str
    message: str
    number: int
    source_ids: Sequence[str]


def _is_run(key: SyncKey, attempt: int) -> ColumnElement[bool]:
    return and_(key.is_of(docstore_syncs), docstore_syncs.c.attempt == attempt, docstore_syncs.c.status == "RUNNING")


async def begin_run(connection: Connection, key: SyncKey) -> StoredSync | None:
    """Begin a sync's requested or interrupted run; return the sync with the earlier status, None without a run."""
    before = await get_sync(connection, key, lock=True)
    if before is None or before.status not in {"PENDING", "RUNNING"}:
        return None
    new = {**dict.fromkeys(_COUNTS, 0), "started_at": func.now()} if before.status == "PENDING" else {}
    begun = {"status": "RUNNING", "attempt": before.attempt + 1, "progress_at": func.now(), "finished_at": null()}
    values = {**new, **begun, **_outcome_values(error=None, warning=None)}
    await connection.execute(update(docstore_syncs).where(key.is_of(docstore_syncs)).values(values))
    return replace(before, attempt=before.attempt + 1)


async def lock_run(connection: Connection, key: SyncKey, *, attempt: int) -> bool:
    """Protect this run from being replaced until the transaction ends; False when another run has replaced it."""
    statement = select(docstore_syncs.c.sync_id).where(_is_run(key, attempt))
    return (await connection.execute(statement.with_for_update())).one_or_none() is not None


async def save_progress(
    connection: Connection, key: SyncKey, *, cursor: Mapping[str, Any] | None = None, **counts: int
) -> None:
    """Note a locked run as alive, add to its counts (`created=1`), and save the position if `cursor` is given."""
    added = {f"{name}_count": docstore_syncs.c[f"{name}_count"] + number for name, number in counts.items()}
    moved = {} if cursor is None else {"cursor": dict(cursor)}
    statement = update(docstore_syncs).where(key.is_of(docstore_syncs)).values(**added, **moved, progress_at=func.now())
    await connection.execute(statement)


async def note_silence(connection: Connection, key: SyncKey, *, attempt: int, note: Note | None) -> None:
    """Record that the source of a run in progress is silent, or (None) answers again."""
    statement = update(docstore_syncs).where(_is_run(key, attempt))
    await connection.execute(statement.values(**_outcome_values(warning=note), progress_at=func.now()))


async def finish_run(
    connection: Connection, key: SyncKey, *, attempt: int, error: Note | None, warning: Note | None
) -> wire.DocstoreSync | None:
    """End a run, with an error or warning if given, and keep it among the last; return the sync, None if replaced."""
    status = "COMPLETED" if error is None else "FAILED"
    ended = update(docstore_syncs).where(_is_run(key, attempt))
    statement = ended.values(status=status, **_outcome_values(error=error, warning=warning), finished_at=func.now())
    if (await connection.execute(statement)).rowcount != 1:
        return None
    sync = await read_sync(connection, key)
    shown = sync.model_dump(mode="json", by_alias=True, include=set(wire.DocstoreRun.model_fields))
    runs = func.jsonb_build_array(cast(shown, JSONB)).op("||")(docstore_syncs.c.runs)
    last = func.jsonb_path_query_array(runs, text(f"'$[0 to {_KEPT_RUNS - 1}]'::jsonpath"))
    await connection.execute(update(docstore_syncs).where(key.is_of(docstore_syncs)).values(runs=last))
    return sync


def _outcome_values(**notes: Note | None) -> dict[str, str | None]:
    return {
        f"{kind}_{part}": note and getattr(note, part) for kind, note in notes.items() for part in ("code", "message")
    }


async def note_documents(connection: Connection, key: SyncKey, *, document_ids: Sequence[UUID]) -> None:
    """Record documents as tried by a sync; existing records stay unchanged."""
    new = [{"document_id": document_id, **asdict(key)} for document_id in set(document_ids)]
    if new:
        await connection.execute(insert(docstore_documents).values(new).on_conflict_do_nothing())


async def find_in_collection(
    connection: Connection, organization_id: UUID, *, collection_id: UUID, document_ids: Sequence[UUID]
) -> frozenset[UUID]:
    statement = (
        select(space_documents.c.document_id)
        .join(collections, collections.c.space_id == space_documents.c.space_id)
        .where(
            space_documents.c.organization_id == organization_id,
            collections.c.collection_id == collection_id,
            sql.in_array(space_documents.c.document_id, document_ids),
        )
    )
    return frozenset((await connection.execute(statement)).scalars())


async def count_outcomes(connection: Connection, key: SyncKey, outcomes: Mapping[UUID, str]) -> Mapping[str, int]:
    """Record the outcomes of documents; return the increase in the run's counts. Each document counts once."""
    begun_at = select(docstore_syncs.c.started_at).where(key.is_of(docstore_syncs)).scalar_subquery()
    table = docstore_documents.c
    known = select(table.document_id, table.outcome).where(
        key.is_of(docstore_documents), sql.in_array(table.document_id, outcomes), table.run_at == begun_at
    )
    before: dict[UUID, str] = {row.document_id: row.outcome for row in await connection.execute(known)}
    now = {o: before[o] if done in _STANDS.get(before.get(o, ""), ()) else done for o, done in outcomes.items()}
    given = sql.rows_of([table.document_id, table.outcome], [{"document_id": o, "outcome": now[o]} for o in now])
    recorded = update(docstore_documents).where(key.is_of(docstore_documents), table.document_id == given.c.document_id)
    await connection.execute(recorded.values(outcome=given.c.outcome, run_at=begun_at))
    added = Counter(now.values())
    added.subtract(before.values())
    return {"read": len(now) - len(before), **{item: added[item] for item in ("created", "updated", "unchanged")}}


async def replace_failures(
    connection: Connection, key: SyncKey, *, tried: Sequence[UUID], failures: Sequence[Failure]
) -> None:
    """Delete the failures of tried documents, and add the new failures."""
    gone = key.is_of(docstore_failures), sql.in_array(docstore_failures.c.document_id, tried)
    await connection.execute(delete(docstore_failures).where(*gone))
    rows = {failure.document_id: {**asdict(failure), **asdict(key)} for failure in failures}
    if rows:
        await connection.execute(insert(docstore_failures).values(list(rows.values())))


async def count_ever_listed(connection: Connection, key: SyncKey) -> int:
    """Count a sync's existing documents that were ever in the source's listing."""
    own = key.is_of(docstore_documents), docstore_documents.c.listing_no > 0
    return await sql.count_rows(connection, *own, document_exists(key.organization_id))


async def begin_listing(connection: Connection, key: SyncKey) -> int:
    """Begin a listing of the source's ids; return its number, greater than all earlier numbers."""
    number = docstore_syncs.c.listing_no
    begun = update(docstore_syncs).where(key.is_of(docstore_syncs))
    statement = begun.values(listing_no=number + 1, progress_at=func.now()).returning(number)
    return (await connection.execute(statement)).scalar_one()


async def mark_listed(
    connection: Connection, key: SyncKey, *, listing_no: int, document_ids: Sequence[UUID]
) -> frozenset[UUID]:
    """Mark documents as listed if the sync has tried the documents before; return the marked ids."""
    given = sql.rows_of([docstore_documents.c.document_id], [{"document_id": item} for item in document_ids])
    is_given = docstore_documents.c.document_id == given.c.document_id
    listed = update(docstore_documents).where(key.is_of(docstore_documents), is_given)
    statement = listed.values(listing_no=listing_no, removal=null()).returning(docstore_documents.c.document_id)
    return frozenset((await connection.execute(statement)).scalars())


async def count_listed(connection: Connection, key: SyncKey, *, listing_no: int) -> Listing:
    there, is_unlisted = document_exists(key.organization_id), docstore_documents.c.listing_no != listing_no
    is_missing = there & is_unlisted
    created = select(docstore_syncs.c.created_count).where(key.is_of(docstore_syncs))
    statement = select(
        sql.count_where(there, "existing"),
        sql.count_where(is_missing, "missing"),
        sql.count_where(is_missing & (docstore_documents.c.removal == APPROVED), "approved"),
        created.scalar_subquery().label("created"),
        sql.count_where(is_unlisted, "unlisted"),
    ).where(key.is_of(docstore_documents))
    return await sql.get_row(connection, statement, Listing)


async def count_taken(connection: Connection, key: SyncKey) -> tuple[int, int]:
    """Return the number of documents in the sync's last listing, and the number without a failure."""
    has_failed = exists().where(
        docstore_failures.c.organization_id == key.organization_id,
        docstore_failures.c.document_id == docstore_documents.c.document_id,
        docstore_failures.c.sync_id == docstore_documents.c.sync_id,
    )
    statement = (
        select(func.count(), func.count().filter(~has_failed))
        .select_from(docstore_documents)
        .join(docstore_syncs, docstore_syncs.c.sync_id == docstore_documents.c.sync_id)
        .where(key.is_of(docstore_documents), docstore_documents.c.listing_no == docstore_syncs.c.listing_no)
    )
    listed, taken = (await connection.execute(statement)).one()
    return listed, taken


async def count_failures(connection: Connection, key: SyncKey) -> int:
    return await sql.count_rows(connection, key.is_of(docstore_failures))


async def group_failures(connection: Connection, key: SyncKey, *, examples: int) -> list[FailureGroup]:
    """Group a sync's failed documents by reason, the most frequent first."""
    some = func.array_agg(aggregate_order_by(docstore_failures.c.source_id, docstore_failures.c.document_id))
    statement = (
        select(
            docstore_failures.c.code,
            docstore_failures.c.message,
            func.count().label("number"),
            some[1:examples].label("source_ids"),
        )
        .where(key.is_of(docstore_failures))
        .group_by(docstore_failures.c.code, docstore_failures.c.message)
        .order_by(func.count().desc(), docstore_failures.c.message, docstore_failures.c.code)
    )
    return await sql.find_rows(connection, statement, FailureGroup)


async def hold_removals(connection: Connection, key: SyncKey, *, listing_no: int) -> None:
    """Hold the removal of documents missing from a listing, unless approved."""
    held = and_(docstore_documents.c.listing_no != listing_no, docstore_documents.c.removal.is_(None))
    statement = update(docstore_documents).where(key.is_of(docstore_documents), held)
    await connection.execute(statement.values(removal=_HELD))


async def list_unlisted_documents(
    connection: Connection, key: SyncKey, *, listing_no: int, after: UUID, limit: int, only_approved: bool
) -> Sequence[UUID]:
    missing = key.is_of(docstore_documents), docstore_documents.c.listing_no != listing_no
    unlisted = select(docstore_documents.c.document_id).where(*missing)
    if only_approved:
        unlisted = unlisted.where(docstore_documents.c.removal == APPROVED)
    statement = sql.rows_after(unlisted, docstore_documents.c.document_id, after=after, limit=limit)
    return (await connection.execute(statement)).scalars().all()


async def delete_document_record(connection: Connection, key: SyncKey, *, document_id: UUID) -> None:
    for table in (docstore_failures, docstore_documents):
        await connection.execute(delete(table).where(key.is_of(table), table.c.document_id == document_id))
