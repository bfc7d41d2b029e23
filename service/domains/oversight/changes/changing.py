"""Rules of changes of all documents that match filters. The job changes some documents, saves its progress in the same
transaction, and enqueues itself again: a kill repeats and loses nothing. Rights are those at that time."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import document_changes as wire
from carrel.wire.document_changes import DocumentChangeStatus
from service.audit.service import record
from service.auth.callers import Caller, reload_caller
from service.domains.documents.catalog import queries as documents
from service.domains.documents.catalog.documents import read_filter
from service.domains.oversight.changes import queries
from service.domains.oversight.changes.acting import SO_BEFORE, Request, change_document, check
from service.domains.oversight.changes.queries import StoredChange
from service.index.ingestion.turns import Lane
from service.platform.errors import Conflict, InsufficientStorage, NotFound, ServiceError, Unavailable
from service.platform.identifiers import uuid7
from service.platform.logs import logger
from service.runtime import Runtime
from service.runtime.jobs.models import Task
from service.runtime.jobs.running import is_away, is_last_attempt, refuse_deadly

CHANGES = "document_changes"
AT_ONCE, MOST_FAILURES, PAUSE = 100, 1000, timedelta(seconds=5)
INACTIVE = "The person who started this change is no longer active."
FAILED = "The service failed during this change; its log has details. Start it again for the other documents."


async def start_change(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.StartDocumentChangeRequest
) -> wire.DocumentChange:
    """Count the documents that match now, and with `expectedCount` change them in the background. 409 `count_changed`
    if more match; 404 and 403 for a collection that the caller may not edit."""
    return await _start(runtime, connection, caller, request)


async def start_access_change(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.StartAccessChangeRequest
) -> wire.DocumentChange:
    """Give a principal a role on all documents that match, like startDocumentChange. 400 for an unknown principal."""
    return await _start(runtime, connection, caller, request)


async def _start(runtime: Runtime, connection: Connection, caller: Caller, request: Request) -> wire.DocumentChange:
    await check(connection, caller, request)
    wanted = await read_filter(connection, caller, request)
    count = await documents.count_documents(connection, caller, document_filter=wanted)
    if request.expected_count is None:
        return wire.DocumentChange(status=DocumentChangeStatus.PLANNED, document_count=count)
    if count > request.expected_count:
        message = f"{count:,} documents match now. Check the documents, then send this number as expectedCount."
        raise Conflict(message, code="count_changed")
    change_id, organization_id, by = uuid7(), caller.organization_id, caller.acting_through
    state = wire.DocumentChange(document_change_id=change_id, status=DocumentChangeStatus.RUNNING, document_count=count)
    sent = request.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"user_email"})
    await queries.insert_change(
        connection,
        organization_id,
        document_change_id=change_id,
        principal_id=caller.principal_id,
        origin={"credential": str(caller.credential_id), "by": by and str(by), "isAdmin": caller.is_admin},
        request=sent,
        state=state.model_dump(mode="json", by_alias=True),
    )
    details = {"documentCount": count, **{name: sent[name] for name in ("change", "principal", "role") if name in sent}}
    await record(connection, caller, "document.change_all", "documentChange", change_id, details=details)
    await _enqueue(runtime, connection, organization_id, change_id)
    return state


async def get_change(
    connection: Connection, caller: Caller, *, request: wire.GetDocumentChangeRequest
) -> wire.DocumentChange:
    """Show a change that the caller started, and the documents that could not be changed; 404 for others."""
    change = await queries.read_change(connection, caller.organization_id, request.document_change_id)
    if change is None or change.principal_id != caller.principal_id:
        message = "You started no change with this id in the last 30 days. Check documentChangeId."
        raise NotFound(message, code="document_change_not_found")
    return wire.DocumentChange.model_validate(change.state)


async def _enqueue(
    runtime: Runtime, connection: Connection, organization_id: UUID, change_id: UUID, pause: timedelta | None = None
) -> None:
    to: dict[str, Any] = {"organization_id": organization_id, "change_id": change_id}
    await runtime.jobs.enqueue(connection, CHANGE_DOCUMENTS, lock=f"{CHANGES}-{change_id}", pause=pause, **to)


async def change_documents(runtime: Runtime, *, organization_id: UUID, change_id: UUID) -> None:
    """Change the next documents. Raises while the database is away."""
    try:
        refuse_deadly()
        await _change_next(runtime, organization_id, change_id)
    except Exception as error:
        if is_away(error) and not is_last_attempt():
            raise
        logger.exception("document_change_failed", document_change_id=str(change_id))
        await _change_next(runtime, organization_id, change_id, error=FAILED)
    runtime.indexer.note_backlog(organization_id, Lane.SMALL, Lane.LARGE)


CHANGE_DOCUMENTS = Task("change_documents", change_documents, queue=CHANGES)


async def _change_next(runtime: Runtime, organization_id: UUID, change_id: UUID, *, error: str = "") -> None:
    """Change the next documents of a running change, or stop it with an error; save its progress."""
    async with runtime.database.transaction(organization_id) as connection:
        change = await queries.read_change(connection, organization_id, change_id, lock=True)
        if change is None or change.state["status"] != DocumentChangeStatus.RUNNING:
            return
        position, state = change.position, {"status": DocumentChangeStatus.STOPPED, "error": error or INACTIVE}
        if not error:
            caller = await reload_caller(
                connection,
                organization_id,
                principal_id=change.principal_id,
                credential_id=UUID(change.origin["credential"]),
                acting_through=change.origin["by"] and UUID(change.origin["by"]),
                keys=runtime.keys,
                may_be_admin=change.origin["isAdmin"],
            )
            try:
                if caller is not None:
                    position, state = await _change_some(runtime, connection, caller, change)
            except ServiceError as refusal:
                state["error"] = refusal.message
        state = {**change.state, **state}
        await queries.save_change(connection, organization_id, change_id, position=position, state=state)


async def _change_some(
    runtime: Runtime, connection: Connection, caller: Caller, change: StoredChange
) -> tuple[UUID | None, dict[str, Any]]:
    kind = wire.StartDocumentChangeRequest if "change" in change.request else wire.StartAccessChangeRequest
    request = kind.model_validate(change.request)
    so_before = SO_BEFORE.get(request.change) if isinstance(request, wire.StartDocumentChangeRequest) else None
    await check(connection, caller, request)
    wanted = await read_filter(connection, caller, request)
    place: dict[str, Any] = {"until": change.started_at, "after": change.position, "limit": AT_ONCE}
    found = await documents.list_ids(connection, caller, document_filter=wanted, **place)
    position, done, failures, waits = change.position, 0, list[dict[str, str]](), False
    for document_id in found:
        try:
            async with connection.begin_nested():
                await change_document(runtime, connection, caller, request, document_id)
            done += 1
        except (Unavailable, InsufficientStorage):  # such as a full indexing backlog
            waits = True
            break
        except ServiceError as error:
            done += error.code == so_before
            if error.code != so_before:
                failures.append({"documentId": str(document_id), "message": error.message})
        position = document_id
    is_over = not waits and len(found) < AT_ONCE
    if not is_over:
        await _enqueue(runtime, connection, caller.organization_id, change.document_change_id, PAUSE if waits else None)
    return position, {
        "doneCount": change.state["doneCount"] + done,
        "failedCount": change.state["failedCount"] + len(failures),
        "failures": [*(change.state["failures"] or ()), *failures][:MOST_FAILURES] or None,
        "status": DocumentChangeStatus.DONE if is_over else DocumentChangeStatus.RUNNING,
    }
