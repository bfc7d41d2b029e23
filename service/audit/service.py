"""Recording in the audit log: actor, action, object, principal, time. Entries, also of feedback, are only added.
`details` hold ids and settings; people's words are in `text`, which can be erased. An entry keeps the names of its
moment, so a deletion is recorded before it happens."""

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
from service.platform.networks import NO_SENDER, Sender, current_sender


@dataclass(frozen=True)
class Change:
    """A change to record in the audit log; `details` are JSON values, `text` has people's words."""

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
    sender: Sender = NO_SENDER


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
    """Add an audit entry in the caller's transaction, so the change and its entry commit together; return the id."""
    entry = _to_entry(Change(action, target_type, target_id, details or {}, text or ""), caller)
    await _insert(connection, caller.organization_id, entries=[entry])
    return entry["audit_log_id"]


def record_in(batch: Batch, caller: Caller, *, change: Change) -> None:
    """Queue the audit entry of a change in a batch, without the change's text."""
    queries.add_entries(batch, caller.organization_id, entries=[_to_entry(change, caller)])


async def record_all(connection: Connection, caller: Caller, *, changes: Sequence[Change]) -> None:
    """Add an audit entry for each change, in a single round trip."""
    entries = [_to_entry(change, caller) for change in changes]
    await _insert(connection, caller.organization_id, entries=entries)


async def record_by_credential(
    connection: Connection, organization_id: UUID, *, credential_id: UUID, changes: Sequence[Change]
) -> None:
    """Add an audit entry for each change by a program with a credential outside any account, in a single round trip."""
    own = {"credential_id": credential_id, **current_sender().columns}
    await _insert(connection, organization_id, entries=[{**_to_entry(change, None), **own} for change in changes])


async def record_unattended(connection: Connection, organization_id: UUID, *, change: Change) -> None:
    """Add an audit entry for the service's own work, without a caller."""
    await _insert(connection, organization_id, entries=[_to_entry(change, None)])


async def record_for(connection: Connection, organization_id: UUID, *, actor_id: UUID, change: Change) -> None:
    """Add an audit entry for a person's action in a browser, without an API credential."""
    entry = {**_to_entry(change, None), "actor_id": actor_id, **current_sender().columns}
    await _insert(connection, organization_id, entries=[entry])


async def record_attempt(connection: Connection, organization_id: UUID, *, audit_log_id: UUID, change: Change) -> None:
    """Add the audit entry with this id for an attempt by an unknown person in a browser."""
    entry = {**_to_entry(change, None), "audit_log_id": audit_log_id, **current_sender().columns}
    await _insert(connection, organization_id, entries=[entry])


async def record_later(connection: Connection, organization_id: UUID, *, origin: Origin, change: Change) -> UUID:
    """Add an audit entry for work begun by an earlier request; return the entry's id."""
    entry = _to_entry(change, None)
    entry["actor_id"] = origin.acting_through or origin.principal_id
    entry["acting_for_id"] = origin.principal_id if origin.acting_through else None
    entry["credential_id"] = origin.credential_id
    entry["request_id"] = origin.request_id
    entry |= origin.sender.columns
    await _insert(connection, organization_id, entries=[entry])
    return entry["audit_log_id"]


async def _insert(connection: Connection, organization_id: UUID, *, entries: Sequence[Mapping[str, Any]]) -> None:
    batch = Batch()
    queries.add_entries(batch, organization_id, entries=entries)
    await batch.run(connection)
    texts = {entry["audit_log_id"]: entry["text"] for entry in entries if entry["text"]}
    if texts:
        await queries.insert_texts(connection, organization_id, texts=texts)


def _to_entry(change: Change, caller: Caller | None) -> dict[str, Any]:
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
        **(current_sender() if caller else NO_SENDER).columns,
    }


@dataclass(frozen=True)
class FeedbackAuthor:
    """The author of feedback: `caller`, or the end user `named` by the caller, not an active user. The feedback may be
    about results for, or messages to, the principals `subject_ids` (None: all principals, for admins)."""

    caller: Caller
    named: str | None
    subject_ids: frozenset[UUID] | None


async def find_author(connection: Connection, caller: Caller, *, user_email: str | None) -> FeedbackAuthor:
    """Return the author of a caller's feedback. A user of the organization with `user_email` is the author, for their
    own or the caller's results: a program passes on its users' words. Any other end user is stored as a text of the
    caller's. Raises the errors of `find_acting`."""
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
    """Add the audit entry of feedback; return its id. The texts and the named end user can be erased."""
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
