"""Who may read a resource, and what a caller may read (seed, "permissions/…")."""

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire import permissions as wire
from carrel.wire.common import GroupPrincipal, Principal, ResourceIdentifier, UserPrincipal
from service.auth.callers import Caller
from service.domains.access.lookups import queries
from service.permissions.queries import find_resource
from service.permissions.service import unknown_resource
from service.web.pagination import Cursor


async def list_authorized_principals(
    connection: AsyncConnection, caller: Caller, *, request: wire.ListAuthorizedPrincipalsForResourceRequest
) -> wire.ListAuthorizedPrincipalsForResourceResponse:
    """List the users and groups that may act on a resource, each once; for admins.

    Every group that holds READ, nested ones too, and every active person who has READ. In the order of their ids, which
    is that of their creation. NotFound for an unknown resource.
    """
    cursor = Cursor.read(caller, operation=wire.LIST_AUTHORIZED_PRINCIPALS_FOR_RESOURCE.path, request=request)
    resource = await find_resource(
        connection,
        caller.organization_id,
        resource_type=request.resource.resource_type,
        resource_id=request.resource.resource_id,
    )
    if resource is None:
        raise unknown_resource("resource")
    rows = await queries.list_effective_principals(
        connection,
        caller.organization_id,
        access_class=resource.access_class,
        after=cursor.after_id,
        limit=cursor.limit,
    )
    page = cursor.page(rows, position=lambda row: [str(row.principal_id)])
    return wire.ListAuthorizedPrincipalsForResourceResponse(
        principals=[_principal(row) for row in page.items], next_page_token=page.next_page_token
    )


async def list_authorized_resources(
    connection: AsyncConnection, caller: Caller, *, request: wire.ListAuthorizedResourcesRequest
) -> wire.ListAuthorizedResourcesResponse:
    """List the resources the acting principal may act on.

    By access alone, for an admin too.
    """
    cursor = Cursor.read(caller, operation=wire.LIST_AUTHORIZED_RESOURCES.path, request=request)
    rows = await queries.list_readable_resources(
        connection, caller, resource_type=request.resource_type, after=cursor.after_id, limit=cursor.limit
    )
    page = cursor.page(rows, position=lambda row: [str(row.object_id)])
    return wire.ListAuthorizedResourcesResponse(
        resources=[
            ResourceIdentifier(resource_id=row.resource_id, resource_type=row.resource_type) for row in page.items
        ],
        next_page_token=page.next_page_token,
    )


def _principal(row: queries.EffectivePrincipal) -> Principal:
    if row.kind == "group":
        return GroupPrincipal(id=str(row.principal_id), name=row.name)
    return UserPrincipal(id=str(row.principal_id), name=row.name, email=row.email or "")
