"""Reading the audit log."""

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import oversight as wire
from carrel.wire.common import UserPrincipal
from service.audit import queries
from service.audit.queries import Position
from service.auth.callers import Caller
from service.web.pagination import Cursor


async def query_log(
    connection: Connection, caller: Caller, *, request: wire.AdminAuditLogQueryRequest
) -> wire.AdminAuditLogQueryResponse:
    """Read the audit log, newest first.

    `actor` is the acting principal, or the principal acted for. With `query`, or the filter for files in archives and
    mails, a page may be short or empty although more pages follow."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_AUDIT_LOG_QUERY.path, request=request)
    before = Position(datetime.fromisoformat(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else None
    rows = await queries.list_entries(
        connection, caller.organization_id, filters=request, before=before, limit=cursor.limit
    )
    page = cursor.page(rows, position=_position)
    if queries.looks_through(request) and page.next_page_token is None:
        last = await queries.find_last_looked_through(
            connection, caller.organization_id, filters=request, before=before
        )
        page = page if last is None else cursor.page_until(rows, after=_position(last))
    return wire.AdminAuditLogQueryResponse(
        entries=[_entry(row) for row in page.items], next_page_token=page.next_page_token
    )


def _position(row: queries.StoredEntry | Position) -> list[str]:
    return [row.at.isoformat(), str(row.audit_log_id)]


def _entry(row: queries.StoredEntry) -> wire.AuditEntry:
    named: dict[str, Any] = {
        "actor": _person(row.actor_id, name=row.actor_name, email=row.actor_email),
        "acting_for": _person(row.acting_for_id, name=row.acting_for_name, email=row.acting_for_email),
        "target": None
        if row.target_id is None
        else wire.AuditTarget(type=row.target_type, id=row.target_id, name=row.target_name),
    }
    if "changes" in row.details:
        # People's words are in the text, unless that is erased.
        changes = {name: pair or {} for name, pair in row.details["changes"].items()} | json.loads(row.text or "{}")
        details = {name: value for name, value in row.details.items() if name != "changes"}
        named |= {"details": details, "changes": changes, "text": None}
    return wire.AuditEntry.model_validate(asdict(row) | named)


def _person(principal_id: UUID | None, *, name: str | None, email: str | None) -> UserPrincipal | None:
    if principal_id is None:
        return None
    return UserPrincipal(id=str(principal_id), name=name or "", email=email or "")
