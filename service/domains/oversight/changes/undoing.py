"""Undoing a change of readers or of a collection: for 24 hours the service keeps what the change replaced on each
document, and restores exactly that."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.document_changes import DocumentAction, DocumentChangeStatus, StartDocumentChangeRequest
from service.auth.callers import Caller
from service.domains.documents.catalog.documents import lock_known_document
from service.domains.documents.collections import service as collections
from service.domains.documents.collections.membership import place_document
from service.domains.oversight.changes import queries
from service.domains.oversight.changes.acting import change_access, check, read_request
from service.domains.oversight.changes.queries import ReplacedState, StoredChange
from service.identity.queries import list_principals
from service.permissions.service import access_of
from service.platform.errors import Conflict
from service.runtime import Runtime

CHANGED_LATER = "Someone changed this after the change that you undo. The later change stays."
READER_GONE = "The person or group is no longer active in the organization, and does not get access again."
OF_PROGRAM = "A program sent the passages of this document. Send them again with addDocumentChunksToCollection."


def undoable_until(change: StoredChange) -> datetime | None:
    """Return when a change can no longer be undone; None if it is running, was undone, or is of another kind."""
    is_over = change.state["status"] != DocumentChangeStatus.RUNNING
    may = is_over and change.subject and not change.state.get("undoneBy")
    return change.started_at + queries.UNDOABLE_FOR if may else None


async def check_undoing(connection: Connection, caller: Caller, change: StoredChange) -> None:
    """Raise the errors that undoing a change would have for all documents."""
    request = read_request(change.request)
    if isinstance(request, StartDocumentChangeRequest):  # of adding, only the right: fields may have changed since
        request = request.model_copy(update={"change": DocumentAction.REMOVE_FROM_COLLECTION, "custom_metadata": None})
    if await check(connection, caller, request) != change.subject:
        raise Conflict(READER_GONE)  # another person has the address


@asynccontextmanager
async def keep_replaced(
    connection: Connection, caller: Caller, change: StoredChange, document_id: UUID
) -> AsyncGenerator[None]:
    """Keep what the block replaces, of a change that can be undone."""
    if change.subject:
        await lock_known_document(connection, caller, document_id=document_id)
    before = await _read_states(connection, caller, change, document_id)
    yield
    after = await _read_states(connection, caller, change, document_id)
    changed = [ReplacedState(key, before.get(key), after.get(key)) for key in before.keys() | after.keys()]
    await queries.keep_replaced(connection, caller.organization_id, change.document_change_id, states=changed)


async def _read_states(
    connection: Connection, caller: Caller, change: StoredChange, document_id: UUID
) -> dict[UUID, Any]:
    """Return the roles of the change's reader on a document, or the values of it and its files in the collection."""
    if change.subject is None:
        return {}
    if change.of_access:
        access = await access_of(connection, caller.organization_id, document_id)
        return {document_id: [role for grantee, role in access.grants() if grantee == change.subject]}
    which = {"collection_id": change.subject, "document_id": document_id}
    return await queries.read_places(connection, caller.organization_id, **which)


async def restore_document(
    runtime: Runtime, connection: Connection, caller: Caller, change: StoredChange, state: ReplacedState
) -> None:
    """Restore the state of a document before a change. Raises Conflict if it changed later, or cannot be restored."""
    document_id, before, subject = state.document_id, state.before, change.subject
    assert subject is not None  # noqa: S101 - changes without it keep no states
    document, _ = await lock_known_document(connection, caller, document_id=document_id)
    now = (await _read_states(connection, caller, change, document_id)).get(document_id)
    if now == before:
        return
    if now != state.after:
        raise Conflict(CHANGED_LATER)
    if before == queries.CHUNKS:
        raise Conflict(OF_PROGRAM)
    if change.of_access:
        found = await list_principals(connection, caller.organization_id, principal_ids=[subject])
        if before and not any(principal.active and principal.deleted_at is None for principal in found):
            raise Conflict(READER_GONE)
        await change_access(connection, caller, document_id, principal_id=subject, roles=before)
        return
    await collections.require_document(connection, caller, document_id=document_id)
    where: dict[str, Any] = {"document_id": document_id, "collection_id": subject, "custom_metadata": before}
    placement = await collections.check_placement(connection, caller, **where, adds=before is not None)
    if before is None:
        await collections.take_out(connection, caller, placement, inside={})
    else:
        runtime.indexer.refuse_backlog(caller.organization_id)
        await place_document(connection, caller, placement, version=document.version)
