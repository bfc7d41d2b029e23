"""Search for resources, and complete lists of access. For admins, because they see all names."""

import hashlib
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import access as wire
from carrel.wire.common import PrincipalReference
from service.auth.callers import Caller
from service.auth.queries import Grantee
from service.domains.access.lookups.service import MOST_THROUGH
from service.domains.access.resources import queries
from service.domains.access.resources.queries import ResourceFilter
from service.permissions.readers import find_grantee
from service.platform import base64url
from service.platform.errors import BadRequest, FieldError
from service.platform.identifiers import NIL
from service.web.pagination import Cursor


async def list_resources(
    connection: Connection, caller: Caller, *, request: wire.AdminAccessListResourcesRequest
) -> wire.AdminAccessListResourcesResponse:
    """List resources and access classes: all, or by part of the name, by type, or by reader."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ACCESS_LIST_RESOURCES.path, request=request)
    resource_filter = await _read_filter(connection, caller, request)
    if request.order is wire.ResourceOrder.NAME:
        after = (cursor.after[0], UUID(cursor.after[1])) if cursor.after else None
        by_name = await queries.list_resources_by_name(
            connection, caller.organization_id, resource_filter=resource_filter, after=after, limit=cursor.limit
        )
        page = cursor.page(by_name, position=lambda row: [row[1], str(row[0].object_id)])
    else:
        rows = await queries.list_resources(
            connection, caller.organization_id, cursor.window, resource_filter=resource_filter
        )
        page = cursor.page(rows, position=lambda row: [str(row[0].object_id)])
    listed = [resource for resource, _ in page.items]
    if request.with_through and resource_filter.readable_by is not None:
        through: dict[str, list[wire.AccessThrough]] = {item.access_class: [] for item in listed}
        for digest, way in await queries.list_through(
            connection,
            caller.organization_id,
            grantee=resource_filter.readable_by,
            classes=through.keys(),
            most=MOST_THROUGH,
        ):
            through[base64url.encode(digest)].append(way)
        listed = [item.model_copy(update={"through": through[item.access_class]}) for item in listed]
    return wire.AdminAccessListResourcesResponse(resources=listed, next_page_token=page.next_page_token)


async def count_resources(
    connection: Connection, caller: Caller, *, request: wire.AdminAccessCountResourcesRequest
) -> wire.AdminAccessCountResourcesResponse:
    """Count the resources of `listResources` by type. 400 `unknown_principal`."""
    resource_filter = await _read_filter(connection, caller, request)
    counts = await queries.count_resources(connection, caller.organization_id, resource_filter=resource_filter)
    return wire.AdminAccessCountResourcesResponse(counts=counts, total=sum(count.count for count in counts))


async def _read_filter(connection: Connection, caller: Caller, filters: wire.ResourceFilters) -> ResourceFilter:
    async def find(reference: PrincipalReference | None, field: str) -> Grantee | None:
        if reference is None:
            return None
        return await find_grantee(connection, caller.organization_id, reference, field=field)

    owner = await find(filters.owned_by, "ownedBy")
    return ResourceFilter(
        filters,
        readable_by=await find(filters.readable_by, "readableBy"),
        not_readable_by=await find(filters.not_readable_by, "notReadableBy"),
        owner_id=None if owner is None else owner.principal_id,
    )


# Frequent actions that take no access away. A `document.update` that changes the access has another entry for that.
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
    connection: Connection, caller: Caller, *, request: wire.AdminAccessGetStateRequest
) -> wire.AdminAccessGetStateResponse:
    """Return the current state of all access, and whether access changed since an earlier state.

    A grant added and removed in between leaves only an audit log entry. Raises BadRequest `invalid_state`."""
    values, changed_at = await queries.read_totals(connection, caller.organization_id)
    fingerprint = hashlib.sha256(":".join(values).encode()).hexdigest()[:_FINGERPRINT]
    state = f"{fingerprint}.{(changed_at - _EPOCH) // timedelta(microseconds=1)}"
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
        message = "This state is not from this service. Send a state exactly as you received it, or leave it out."
        raise BadRequest(message, code="invalid_state", details=[FieldError("since", message)]) from exc


async def list_grantees(
    connection: Connection, caller: Caller, *, request: wire.AdminAccessListHoldersRequest
) -> wire.AdminAccessListHoldersResponse:
    """List the principals with a role in each access class."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ACCESS_LIST_HOLDERS.path, request=request)
    after = (bytes.fromhex(cursor.after[0]), UUID(cursor.after[1]), cursor.after[2]) if cursor.after else (b"", NIL, "")
    rows = await queries.list_grantees(connection, caller.organization_id, after=after, limit=cursor.limit)
    page = cursor.page(rows, position=lambda row: [row[0].hex(), str(row[1].principal_id), row[1].role])
    return wire.AdminAccessListHoldersResponse(
        holders=[holder for _, holder in page.items], next_page_token=page.next_page_token
    )


async def list_group_people(
    connection: Connection, caller: Caller, *, request: wire.AdminAccessListGroupPeopleRequest
) -> wire.AdminAccessListGroupPeopleResponse:
    """List the people in every group, including nested groups."""
    cursor = Cursor.read(caller, operation=wire.ADMIN_ACCESS_LIST_GROUP_PEOPLE.path, request=request)
    after = (UUID(cursor.after[0]), UUID(cursor.after[1])) if cursor.after else (NIL, NIL)
    rows = await queries.list_group_people(connection, caller.organization_id, after=after, limit=cursor.limit)
    return cursor.answer(wire.AdminAccessListGroupPeopleResponse, rows, "group_id", "principal_id")
