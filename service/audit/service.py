"""Recording in the audit log: who did what to which object, for whom, and when. Entries are only ever added.

`details` hold ids and settings; people's words go to `text`, which can be erased. An entry keeps the names of its
moment, so a deletion is recorded before it is done. Feedback is an entry, too."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.audit import queries
from service.auth.callers import Caller, find_acting
from service.platform.batches import Batch
from service.platform.identifiers import uuid7
from service.platform.logs import request_id
from service.platform.networks import NOBODY, Sender, current_sender


@dataclass(frozen=True)
class Change:
    """A change to record in the audit log; `details` are JSON values, `text` is what people wrote."""

    action: str
    target_type: str | None = None
    target_id: object = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str = ""


@dataclass(frozen=True)
class Origin:
    """The caller, credential, request id and sender of finished work; `acting_through` is as in `Caller`."""

    principal_id: UUID
    credential_id: UUID
    acting_through: UUID | None = None
    request_id: str | None = None
    sender: Sender = NOBODY


async def record(
    connection: Connection,
    caller: Caller,
    action: str,
    target_type: str | None = None,
    target_id: object = None,
    *,
    details: Mapping[str, Any] | None = None,
    text: str | None = None,
) -> UUID:
    """Add an audit entry in the caller's transaction, so that it exists exactly when the change does; return its id."""
    entry = _entry(Change(action, target_type, target_id, details or {}, text or ""), caller)
    await _add(connection, caller.organization_id, entries=[entry])
    return entry["audit_log_id"]


def record_in(batch: Batch, caller: Caller, *, change: Change) -> None:
    """Add an audit entry in a batch of the caller's transaction, as `record` does."""
    queries.add_entries(batch, caller.organization_id, entries=[_entry(change, caller)])


async def record_all(connection: Connection, caller: Caller, *, changes: Sequence[Change]) -> None:
    """Add an audit entry for each change, in one round trip."""
    entries = [_entry(change, caller) for change in changes]
    await _add(connection, caller.organization_id, entries=entries)


async def record_by_credential(
    connection: Connection, organization_id: UUID, *, credential_id: UUID, changes: Sequence[Change]
) -> None:
    """Add an audit entry for each change of a program whose credential is nobody's, in one round trip."""
    own = {"credential_id": credential_id, **current_sender().columns}
    await _add(connection, organization_id, entries=[{**_entry(change, None), **own} for change in changes])


async def record_unattended(connection: Connection, organization_id: UUID, *, change: Change) -> None:
    """Add an audit entry for work of the service itself, which no caller requested."""
    await _add(connection, organization_id, entries=[_entry(change, None)])


async def record_for(connection: Connection, organization_id: UUID, *, actor_id: UUID, change: Change) -> None:
    """Add an audit entry for a person's action in a browser, without a credential of the API."""
    entry = {**_entry(change, None), "actor_id": actor_id, **current_sender().columns}
    await _add(connection, organization_id, entries=[entry])


async def record_attempt(connection: Connection, organization_id: UUID, *, audit_log_id: UUID, change: Change) -> None:
    """Add the audit entry of this id for what somebody unknown tried in a browser."""
    entry = {**_entry(change, None), "audit_log_id": audit_log_id, **current_sender().columns}
    await _add(connection, organization_id, entries=[entry])


async def record_later(connection: Connection, organization_id: UUID, *, origin: Origin, change: Change) -> UUID:
    """Add an audit entry for work that a request began and that ends only now; return its id."""
    entry = _entry(change, None)
    entry["actor_id"] = origin.acting_through or origin.principal_id
    entry["acting_for_id"] = origin.principal_id if origin.acting_through else None
    entry["credential_id"] = origin.credential_id
    entry["request_id"] = origin.request_id
    entry |= origin.sender.columns
    await _add(connection, organization_id, entries=[entry])
    return entry["audit_log_id"]


async def _add(connection: Connection, organization_id: UUID, *, entries: Sequence[Mapping[str, Any]]) -> None:
    batch = Batch()
    queries.add_entries(batch, organization_id, entries=entries)
    await batch.run(connection)
    texts = {entry["audit_log_id"]: entry["text"] for entry in entries if entry["text"]}
    if texts:
        await queries.insert_texts(connection, organization_id, texts=texts)


def _entry(change: Change, caller: Caller | None) -> dict[str, Any]:
    acted_for = caller is not None and caller.acting_through is not None
    return {
        "audit_log_id": uuid7(),
        "actor_id": (caller.acting_through or caller.principal_id) if caller else None,
        "acting_for_id": caller.principal_id if caller and acted_for else None,
        "credential_id": caller.credential_id if caller else None,
        "action": change.action,
        "target_type": change.target_type,
        "target_id": None if change.target_id is None else str(change.target_id),
        "details": dict(change.details),
        "text": change.text,
        "request_id": request_id() or None,
        **(current_sender() if caller else NOBODY).columns,
    }


@dataclass(frozen=True)
class FeedbackAuthor:
    """The author of feedback: `caller`, or the end user `named` by it who is no active user of the organization. The
    feedback may be about what was found for, or said to, the principals `subject_ids`; None: everybody, for admins."""

    caller: Caller
    named: str | None
    subject_ids: frozenset[UUID] | None


async def find_author(connection: Connection, caller: Caller, *, user_email: str | None) -> FeedbackAuthor:
    """Find the author of a caller's feedback, which names an end user by `user_email`, or nobody.

    A user of the organization gives it as themselves, on what was their own or the caller's: a program passes on what
    its users say. Anybody else is kept as a text of the caller's. Raises what `find_acting` raises."""
    user = await find_acting(connection, caller, user_email)
    author = user or caller
    own = None if author.is_admin else frozenset((author.principal_id, caller.principal_id))
    return FeedbackAuthor(author, user_email if user is None else None, own)


async def record_feedback(
    connection: Connection,
    author: FeedbackAuthor,
    *,
    action: str,
    target_type: str,
    target_id: UUID,
    details: Mapping[str, Any],
    texts: Iterable[str | None],
) -> UUID:
    """Add the audit entry of feedback; return its id. What people wrote, and who was named, can be erased."""
    named = author.named and f"End user: {author.named}"
    return await record(
        connection,
        author.caller,
        action,
        target_type,
        target_id,
        details=details,
        text="\n\n".join(text for text in (named, *texts) if text),
    )
