"""Rules of changes of all documents that match filters. The job changes some documents, saves its progress in the same
transaction, and enqueues itself again: a kill repeats and loses nothing. Rights are those at that time."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import document_changes as wire
from carrel.wire.catalog import DocumentFilters
from carrel.wire.document_changes import DocumentChangeStatus
from service.audit.service import record
from service.auth.callers import Caller, reload_caller
from service.domains.documents.catalog import queries as documents
from service.domains.documents.catalog.documents import read_filter
from service.domains.oversight.changes import queries, undoing
from service.domains.oversight.changes.acting import SO_BEFORE, Request, change_document, check, read_request
from service.domains.oversight.changes.queries import StoredChange
from service.index.ingestion.turns import Lane
from service.platform.errors import Conflict, InsufficientStorage, NotFound, ServiceError, Unavailable
from service.platform.identifiers import uuid7
from service.platform.logs import logger
from service.runtime import Runtime
from service.runtime.jobs.models import Task
from service.runtime.jobs.running import is_away, is_last_attempt, refuse_deadly

CHANGES = "document_changes"
Plan = tuple[Sequence[UUID], Callable[[UUID], Awaitable[bool]]]
"""The next documents, and a function that changes a document; it returns False for a document that is gone."""
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
    subject = await check(connection, caller, request)
    wanted = await read_filter(connection, caller, request)
    count = await documents.count_documents(connection, caller, document_filter=wanted)
    if request.expected_count is None:
        return wire.DocumentChange(status=DocumentChangeStatus.PLANNED, document_count=count)
    if count > request.expected_count:
        message = f"{count:,} documents match now. Check the documents, then send this number as expectedCount."
        raise Conflict(message, code="count_changed")
    sent = request.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"user_email"})
    return await _begin(runtime, connection, caller, sent=sent, count=count, subject=subject)


async def _begin(
    runtime: Runtime, connection: Connection, caller: Caller, *, sent: dict[str, Any], count: int, subject: UUID | None
) -> wire.DocumentChange:
    change_id, organization_id, by = uuid7(), caller.organization_id, caller.acting_through
    state = wire.DocumentChange(document_change_id=change_id, status=DocumentChangeStatus.RUNNING, document_count=count)
    origin = {"credential": str(caller.credential_id), "by": by and str(by), "isAdmin": caller.is_admin}
    await queries.insert_change(
        connection,
        organization_id,
        document_change_id=change_id,
        principal_id=caller.principal_id,
        origin={**origin, "subject": subject and str(subject)},
        request=sent,
        state=state.model_dump(mode="json", by_alias=True),
    )
    told = {name: sent[name] for name in ("change", "principal", "role", "undoes") if name in sent}
    details = {"documentCount": count, **told}
    await record(connection, caller, "document.change_all", "documentChange", change_id, details=details)
    await _enqueue(runtime, connection, organization_id, change_id)
    return state


async def get_change(
    connection: Connection, caller: Caller, *, request: wire.GetDocumentChangeRequest
) -> wire.DocumentChange:
    """Show a change that the caller started, and the documents that could not be changed; 404 for others."""
    change = await _require_own(connection, caller, request.document_change_id)
    return wire.DocumentChange.model_validate({**change.state, "undoableUntil": undoing.undoable_until(change)})


async def undo_change(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.GetDocumentChangeRequest
) -> wire.DocumentChange:
    """Undo a change of readers or of a collection in the background, once, within 24 hours. 404 for others' changes;
    409 `not_undoable` for other kinds, running changes, and later."""
    change = await _require_own(connection, caller, request.document_change_id, lock=True)
    if undone_by := change.state.get("undoneBy"):
        return wire.DocumentChange.model_validate((await _require_own(connection, caller, UUID(undone_by))).state)
    until = undoing.undoable_until(change)
    if until is None or until < await runtime.clock.now(connection):
        message = (
            "A change of readers or of the documents in a collection can be undone when it has ended, within 24 hours "
            "of its start. Restore deleted documents from the trash; correct other changes by a new change."
        )
        raise Conflict(message, code="not_undoable")
    await undoing.check_undoing(connection, caller, change)
    organization_id, change_id = caller.organization_id, change.document_change_id
    count = await queries.count_replaced(connection, organization_id, change_id)
    begun = await _begin(runtime, connection, caller, sent={"undoes": str(change_id)}, count=count, subject=None)
    state = {**change.state, "undoneBy": str(begun.document_change_id)}
    await queries.save_change(connection, organization_id, change_id, state=state)
    return begun


async def _require_own(connection: Connection, caller: Caller, change_id: UUID, *, lock: bool = False) -> StoredChange:
    change = await queries.read_change(connection, caller.organization_id, change_id, lock=lock)
    if change is None or change.principal_id != caller.principal_id:
        message = "You started no change with this id in the last 30 days. Check documentChangeId."
        raise NotFound(message, code="document_change_not_found")
    return change


async def _enqueue(
    runtime: Runtime, connection: Connection, organization_id: UUID, change_id: UUID, pause: timedelta | None = None
) -> None:
    to: dict[str, Any] = {"organization_id": organization_id, "change_id": change_id}
    await runtime.jobs.enqueue(connection, TASKS[0], lock=f"{CHANGES}-{change_id}", pause=pause, **to)


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


# Replicas of the release before keep nothing to undo a change, so they leave its jobs to others by the new name.
TASKS = tuple(Task(name, change_documents, queue=CHANGES) for name in ("change_documents_undoably", "change_documents"))


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
    plan = _plan_undoing if "undoes" in change.request else _plan_change
    found, act = await plan(runtime, connection, caller, change)
    so_before = SO_BEFORE.get(change.request.get("change", ""))
    position, done, failures, waits = change.position, 0, list[dict[str, str]](), False
    for document_id in found:
        try:
            async with connection.begin_nested():
                done += await act(document_id)
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


async def _plan_change(runtime: Runtime, connection: Connection, caller: Caller, change: StoredChange) -> Plan:
    request = read_request(change.request)
    await check(connection, caller, request)
    wanted = await read_filter(connection, caller, request)
    place: dict[str, Any] = {"until": change.started_at, "after": change.position, "limit": AT_ONCE}
    found = await documents.list_ids(connection, caller, document_filter=wanted, **place)

    async def act(document_id: UUID) -> bool:
        async with undoing.keep_replaced(connection, caller, change, document_id):
            await change_document(runtime, connection, caller, request, document_id)
        return True

    return found, act


async def _plan_undoing(runtime: Runtime, connection: Connection, caller: Caller, undo: StoredChange) -> Plan:
    change = await _require_own(connection, caller, UUID(undo.request["undoes"]))
    await undoing.check_undoing(connection, caller, change)
    where: dict[str, Any] = {"after": undo.position, "limit": AT_ONCE}
    states = await queries.list_replaced(connection, caller.organization_id, change.document_change_id, **where)
    replaced = {state.document_id: state for state in states}
    wanted = await read_filter(connection, caller, DocumentFilters(), ids=replaced)
    left = await documents.list_ids(
        connection, caller, document_filter=wanted, until=undo.started_at, after=None, limit=AT_ONCE
    )

    async def act(document_id: UUID) -> bool:
        if document_id in left:
            await undoing.restore_document(runtime, connection, caller, change, replaced[document_id])
        return document_id in left

    return list(replaced), act
