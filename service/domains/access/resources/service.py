"""Finding resources: by a part of a name, by type, by owner, and by who may read them; for admins.

An admin sees the names of everything. Who may read what is as the checks and look-ups say.
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire import access as wire
from carrel.wire.common import PrincipalReference
from service.auth.callers import Caller
from service.auth.queries import Grantee
from service.domains.access.listings.service import holder_type_of
from service.domains.access.resources import queries
from service.domains.access.resources.queries import ResourceFilter
from service.permissions.readers import find_grantee, find_referenced_principal
from service.platform import base64url
from service.web.pagination import Cursor, Page

MOST_THROUGH = 10


async def list_resources(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminAccessListResourcesRequest
) -> wire.AdminAccessListResourcesResponse:
    """List resources with their access classes: all, or by a part of their name, by type, or by who may read them.

    Raises BadRequest `unknown_principal`.
    """
    cursor = Cursor.read(caller, operation=wire.ADMIN_ACCESS_LIST_RESOURCES.path, request=request)
    resource_filter = await _read_filter(connection, caller, request)
    if request.order is wire.ResourceOrder.NAME:
        page = await _list_by_name(connection, caller, resource_filter=resource_filter, cursor=cursor)
    else:
        rows = await queries.list_resources(
            connection,
            caller.organization_id,
            resource_filter=resource_filter,
            after=cursor.after_id,
            limit=cursor.limit,
        )
        page = cursor.page(rows, position=lambda row: [str(row.object_id)])
    through: Mapping[bytes, Sequence[wire.AccessThrough]] | None = None
    if request.with_through and resource_filter.readable_by is not None:
        through = await _find_through(
            connection, resource_filter.readable_by, digests={row.digest for row in page.items}
        )
    return wire.AdminAccessListResourcesResponse(
        resources=[
            wire.ClassedResource(
                object_id=row.object_id,
                resource_id=row.resource_id,
                resource_type=row.resource_type,
                access_class=base64url.encode(row.digest),
                name=row.name,
                through=None if through is None else list(through.get(row.digest, ())),
            )
            for row in page.items
        ],
        next_page_token=page.next_page_token,
    )


async def _find_through(
    connection: AsyncConnection, grantee: Grantee, *, digests: Collection[bytes]
) -> Mapping[bytes, Sequence[wire.AccessThrough]]:
    """Find through whom a principal may act on resources of these classes, in one statement for all."""
    found: dict[bytes, list[wire.AccessThrough]] = {}
    for row in await queries.list_through(
        connection, grantee.organization_id, grantee=grantee, digests=digests, most=MOST_THROUGH
    ):
        one = wire.AccessThrough(
            principal_id=row.principal_id,
            principal_type=holder_type_of(row.kind),
            name=row.name,
            role=row.role,
        )
        found.setdefault(row.digest, []).append(one)
    return found


async def count_resources(
    connection: AsyncConnection, caller: Caller, *, request: wire.AdminAccessCountResourcesRequest
) -> wire.AdminAccessCountResourcesResponse:
    """Count the same by type.

    Raises BadRequest `unknown_principal`.
    """
    resource_filter = await _read_filter(connection, caller, request)
    counts = await queries.count_resources(connection, caller.organization_id, resource_filter=resource_filter)
    return wire.AdminAccessCountResourcesResponse(
        counts=counts,
        total=sum(one.count for one in counts),
    )


async def _list_by_name(
    connection: AsyncConnection, caller: Caller, *, resource_filter: ResourceFilter, cursor: Cursor
) -> Page[queries.SortedResource]:
    after = (cursor.after[0], UUID(cursor.after[1])) if cursor.after else None
    rows = await queries.list_resources_by_name(
        connection, caller.organization_id, resource_filter=resource_filter, after=after, limit=cursor.limit
    )
    return cursor.page(rows, position=lambda row: [row.sort_key, str(row.object_id)])


async def _read_filter(connection: AsyncConnection, caller: Caller, filters: wire.ResourceFilters) -> ResourceFilter:
    async def find(reference: PrincipalReference | None, field: str) -> Grantee | None:
        if reference is None:
            return None
        return await find_grantee(connection, caller.organization_id, reference, field=field)

    return ResourceFilter(
        object_ids=filters.object_ids,
        text=filters.query,
        resource_ids=filters.resource_ids,
        resource_types=filters.resource_types,
        readable_by=await find(filters.readable_by, "readableBy"),
        not_readable_by=await find(filters.not_readable_by, "notReadableBy"),
        owner_id=await _find_owner(connection, caller, filters.owned_by),
        is_open=filters.organization_wide is True,
    )


async def _find_owner(connection: AsyncConnection, caller: Caller, reference: PrincipalReference | None) -> UUID | None:
    if reference is None:
        return None
    found = await find_referenced_principal(connection, caller.organization_id, reference, field="ownedBy")
    return found.principal_id
