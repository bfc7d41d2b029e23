"""The job that runs a sync, and alerts about stopped runs."""

import asyncio
from importlib import import_module
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.alerts import AlertKind
from carrel.wire.docstore import DocstoreConfig
from carrel.wire.oversight import StorageLevel
from service.alerting.telling import Telling
from service.audit.service import Change, Origin, record_later
from service.domains.documents.docstore import queries
from service.domains.documents.docstore.queries import Note, StoredSync, SyncKey, list_stuck_syncs
from service.domains.documents.docstore.running.applying import SOME_FAILED, sum_up, walk
from service.domains.documents.docstore.running.reconciling import reconcile
from service.domains.documents.docstore.running.run import OvertakenError, Run, unseal_uri
from service.domains.documents.docstore.sources import SyncError
from service.platform.errors import InsufficientStorage, ServiceError
from service.platform.identifiers import NIL
from service.platform.logs import logger, request_id
from service.platform.networks import AllowedHosts
from service.runtime import Runtime
from service.runtime.jobs.models import Task
from service.runtime.jobs.running import is_away, is_last_attempt, refuse_deadly

# Syncs have their own queue: a sync may take hours, and no reply may wait for it.
DOCSTORE = "docstore"
SILENT = Note("source_silent", "The document database has not answered for a few seconds. The run keeps trying.")
DEFECT = Note("internal", "The service failed on this run. Launch it again. If it fails again, tell an operator.")
AWAY = Note("database_unavailable", "The service's database failed repeatedly. Launch the sync again later.")


async def run_sync(runtime: Runtime, *, organization_id: UUID, sync_id: UUID) -> None:
    """Carry out the requested run of a sync, or finish an interrupted run, and save the outcome. Raises the database's
    errors while unreachable, and InsufficientStorage while a disk is short of room. The run then continues later,
    unless the job has no attempts left. Lack of room elsewhere, for example in a bucket, fails the run."""
    async with runtime.database.transaction(organization_id) as connection:
        sync = await queries.begin_run(connection, SyncKey(organization_id, sync_id))
    if sync is None:
        return
    try:
        refuse_deadly()
        warning = await _run(runtime, organization_id, sync)
    except OvertakenError:
        return
    except (SyncError, ServiceError) as error:
        if isinstance(error, InsufficientStorage) and not is_last_attempt() and await _runs_short(runtime):
            raise
        await _finish(runtime, organization_id, sync, error=Note(error.code, error.message))
    except Exception as error:
        if is_away(error) and not is_last_attempt():
            raise
        logger.exception("docstore_sync_failed", sync_id=str(sync_id))
        await _finish(runtime, organization_id, sync, error=AWAY if is_away(error) else DEFECT)
    else:
        await _finish(runtime, organization_id, sync, warning=warning)


RUN_SYNC = Task("run_docstore_sync", run_sync, queue=DOCSTORE)


async def _run(runtime: Runtime, organization_id: UUID, sync: StoredSync) -> Note | None:
    settings = runtime.settings
    config = DocstoreConfig.model_validate(sync.config)
    uri = unseal_uri(runtime, organization_id, sync)
    # MongoDB's driver would take a good part of the service's start, so the first run loads it off the event loop.
    await asyncio.to_thread(import_module, "service.domains.documents.docstore.mongodb")
    from service.domains.documents.docstore.mongodb import open_mongodb  # noqa: PLC0415 - see above

    key = SyncKey(organization_id, sync.sync_id)

    async def on_silence(is_silent: bool) -> None:
        note = SILENT if is_silent else None
        async with runtime.database.transaction(organization_id) as connection:
            await queries.note_silence(connection, key, attempt=sync.attempt, note=note)

    opened = open_mongodb(
        uri,
        config,
        allowed=AllowedHosts.of(settings.docstore_allowed_hosts),
        seconds=settings.docstore_query_seconds,
        connect_seconds=settings.docstore_connect_seconds,
        on_silence=on_silence,
    )
    async with opened as source:
        run = Run(runtime, organization_id, sync, config, source, is_new=sync.status == "PENDING")
        await walk(run)
        return await sum_up(run, await reconcile(run))


async def _runs_short(runtime: Runtime) -> bool:
    await asyncio.to_thread(runtime.disk.look)
    return runtime.disk.level is not StorageLevel.OK


async def _finish(
    runtime: Runtime, organization_id: UUID, sync: StoredSync, *, error: Note | None = None, warning: Note | None = None
) -> None:
    """Save the end of a run, with alert and audit, unless another run has taken over."""
    async with runtime.database.transaction(organization_id) as connection:
        ended = await queries.finish_run(
            connection, SyncKey(organization_id, sync.sync_id), attempt=sync.attempt, error=error, warning=warning
        )
        if ended is None:
            return
        details = {
            "status": ended.status.value,
            "collectionId": str(sync.collection_id),
            **ended.counts.model_dump(by_alias=False, include={"read", "created", "updated", "deleted"}),
            **({} if error is None else {"error": error.code}),
            **({} if warning is None else {"warning": warning.code}),
        }
        await _tell_outcome(Telling(runtime, connection, organization_id), sync, problem=error or warning)
        change = Change(action="docstore.sync", target_type="docstoreSync", target_id=sync.sync_id, details=details)
        origin = Origin(
            principal_id=sync.principal_id,
            credential_id=sync.credential_id,
            acting_through=sync.acting_through_id,
            request_id=request_id() or None,
        )
        await record_later(connection, organization_id, origin=origin, change=change)


async def _tell_outcome(to: Telling, sync: StoredSync, *, problem: Note | None) -> None:
    subject, name = str(sync.sync_id), str(sync.config["syncName"])
    if problem is None or problem.code == SOME_FAILED:
        await to.end(AlertKind.SYNC_BEHIND, subject)
    else:
        await to.begin(AlertKind.SYNC_BEHIND, subject=subject, name=name, code=problem.code)
    count = await queries.count_failures(to.connection, SyncKey(to.organization_id, sync.sync_id))
    await to.tell_of_quarantine(count, subject=subject, name=name, code=SOME_FAILED)


TOLD_AT_ONCE = 100
STUCK = "run_stuck"


async def begin_stuck(runtime: Runtime, connection: Connection, organization_id: UUID) -> None:
    """Begin an alert for each sync with a run silent for a quarter of an hour."""
    after = NIL
    while syncs := await list_stuck_syncs(connection, organization_id, after=after, limit=TOLD_AT_ONCE):
        for sync_id, name in syncs:
            to = Telling(runtime, connection, organization_id)
            await to.begin(AlertKind.SYNC_BEHIND, subject=str(sync_id), name=name, code=STUCK)
        after = syncs[-1][0]
