"""Feedback on the audit log: who gives it, what it may be about, and the entry that keeps it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.audit.service import record
from service.auth.callers import Caller, find_acting


@dataclass(frozen=True)
class FeedbackAuthor:
    """The author of feedback: `caller`, or the end user `named` by it who is no active user of the organization.

    The feedback may be about what was found for, or said to, the principals `subject_ids`; None: everybody, for admins.
    """

    caller: Caller
    named: str | None
    subject_ids: frozenset[UUID] | None


async def find_author(connection: AsyncConnection, caller: Caller, *, user_email: str | None) -> FeedbackAuthor:
    """Find the author of a caller's feedback, which names an end user by `user_email`, or nobody.

    A user of the organization gives it as themselves, on what was their own or the caller's: a program may search by
    its own right, and pass on what its users say (seed, "submitSearchFeedback"). Anybody else is kept as a text, and
    the caller gives the feedback. Raises what `find_acting` raises.
    """
    user = await find_acting(connection, caller, user_email)
    author = user or caller
    own = None if author.is_admin else frozenset((author.principal_id, caller.principal_id))
    return FeedbackAuthor(author, user_email if user is None else None, own)


async def record_feedback(
    connection: AsyncConnection,
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
        action=action,
        target_type=target_type,
        target_id=target_id,
        details=details,
        text="\n\n".join(text for text in (named, *texts) if text),
    )
