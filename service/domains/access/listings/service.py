"""Lists of all access in an organization, and a check whether access stayed unchanged while they were read."""

import hashlib
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire import access as wire
from carrel.wire.common import Role
from service.auth.callers import Caller
from service.domains.access.listings import queries
from service.platform import base64url
from service.platform.errors import BadRequest, FieldError
from service.platform.identifiers import NIL
from service.web.pagination import Cursor

# What is done all day long and takes nothing from anybody. An access that a `document.update` changes shows by itself.
QUIET = frozenset(
    {
        "agent.feedback",
        "agent.message",
        "collection.add_chunks",
        "collection.add_document",
        "collection.reindex_document",
        "collection.remove_document",
        "docstore.sync",
        "document.update",
        "passkey.copied",
        "search.feedback",
        "secondFactor.add",
        "secondFactor.makeRecoveryCodes",
        "secondFactor.remove",
        "secondFactor.reset",
        "session.begin",
        "session.confirm",
        "sign-in",
        "texts.erase",
    }
)
_FINGERPRINT = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def get_state(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminAccessGetStateRequest
) -> wire.AdminAccessGetStateResponse:
    """Say what state all access is in, and whether it changed since another one.

    What was added and taken back meanwhile leaves no row behind, but it leaves its entry in the audit log. Raises
    BadRequest `invalid_state` for a state that this service never gave.
    """
    values, at = await queries.read_totals(connection, caller.organization_id)
    fingerprint = hashlib.sha256(":".join(values).encode()).hexdigest()[:_FINGERPRINT]
    state = f"{fingerprint}.{(at - _EPOCH) // timedelta(microseconds=1)}"
    if request.since is None:
        return wire.AdminAccessGetStateResponse(state=state)
    before, since = _parse_state(request.since)
    changed = before != fingerprint or await queries.has_entry_since(
        connection, caller.organization_id, since=since, but=QUIET
    )
    return wire.AdminAccessGetStateResponse(state=state, changed=changed)


def _parse_state(state: str) -> tuple[str, datetime]:
    fingerprint, _, microseconds = state.partition(".")
    try:
        return fingerprint, _EPOCH + timedelta(microseconds=int(microseconds))
    except (ValueError, OverflowError) as exc:
        message = "This is no state of this service. Give one back as it was given, or leave it out."
        raise BadRequest(message, code="invalid_state", details=[FieldError("since", message)]) from exc


async def list_grantees(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminAccessListHoldersRequest
) -> wire.AdminAccessListHoldersResponse:
    """List who holds which role in which access class."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ACCESS_LIST_HOLDERS.path, request=request)
    after = (bytes.fromhex(cursor.after[0]), UUID(cursor.after[1]), cursor.after[2]) if cursor.after else (b"", NIL, "")
    rows = await queries.list_grantees(connection, caller.organization_id, after=after, limit=cursor.limit)
    page = cursor.page(rows, position=lambda row: [row.digest.hex(), str(row.principal_id), row.role])
    return wire.AdminAccessListHoldersResponse(
        holders=[
            wire.AccessHolder(
                access_class=base64url.encode(row.digest),
                principal_id=row.principal_id,
                principal_type=holder_type_of(row.kind),
                role=Role(row.role),
            )
            for row in page.items
        ],
        next_page_token=page.next_page_token,
    )


def holder_type_of(kind: str) -> wire.HolderType:
    """Return the type of a principal of this kind, as lists of access name it."""
    return wire.HolderType.ORGANIZATION if kind == "everyone" else wire.HolderType(kind)


async def list_group_people(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminAccessListGroupPeopleRequest
) -> wire.AdminAccessListGroupPeopleResponse:
    """List the people in every group, however deep."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ACCESS_LIST_GROUP_PEOPLE.path, request=request)
    after = (UUID(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else (NIL, NIL)
    rows = await queries.list_group_people(connection, caller.organization_id, after=after, limit=cursor.limit)
    page = cursor.page(rows, position=lambda row: [str(row.group_id), str(row.principal_id)])
    return wire.AdminAccessListGroupPeopleResponse(
        people=list(page.items),
        next_page_token=page.next_page_token,
    )
