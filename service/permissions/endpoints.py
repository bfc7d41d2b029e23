"""permissions/list… (seed), and admin/grants (extension)."""

from carrel.wire.admin import (
    AdminGrantsListRequest,
    AdminGrantsListResponse,
    AdminGrantsSetManyRequest,
    AdminGrantsSetManyResponse,
    AdminGrantsSetRequest,
    AdminGrantsSetResponse,
)
from carrel.wire.permissions import (
    ListAuthorizedPrincipalsForResourceRequest,
    ListAuthorizedPrincipalsForResourceResponse,
    ListAuthorizedResourcesRequest,
    ListAuthorizedResourcesResponse,
)
from service.dependencies import CallerDep, ConnectionDep
from service.permissions import grants
from service.permissions.lookups import lists
from service.routing import Router

router = Router()


@router.post("/permissions/listAuthorizedPrincipalsForResource", tags=["permissions"])
async def list_authorized_principals_for_resource(
    request: ListAuthorizedPrincipalsForResourceRequest, connection: ConnectionDep, caller: CallerDep
) -> ListAuthorizedPrincipalsForResourceResponse:
    """List the users and groups that may act on a resource, each once; for admins."""
    return await lists.list_authorized_principals(connection, caller, request=request)


@router.post("/permissions/listAuthorizedResources", tags=["permissions"])
async def list_authorized_resources(
    request: ListAuthorizedResourcesRequest, connection: ConnectionDep, caller: CallerDep
) -> ListAuthorizedResourcesResponse:
    """List the resources the acting principal may act on."""
    return await lists.list_authorized_resources(connection, caller, request=request)


@router.post("/admin/grants/set", tags=["extension"])
async def set_grants(
    request: AdminGrantsSetRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGrantsSetResponse:
    """Replace the grants on a resource; its owner stays."""
    return AdminGrantsSetResponse(**dict(await grants.set_grants(connection, caller, request=request)))


@router.post("/admin/grants/setMany", tags=["extension"])
async def set_many_grants(
    request: AdminGrantsSetManyRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGrantsSetManyResponse:
    """Replace the grants on up to 1000 resources; all or none."""
    count = await grants.set_many_grants(connection, caller, requests=request.resources)
    return AdminGrantsSetManyResponse(resource_count=count)


@router.post("/admin/grants/list", tags=["extension"])
async def list_grants(
    request: AdminGrantsListRequest, connection: ConnectionDep, caller: CallerDep
) -> AdminGrantsListResponse:
    """List the grants on a resource."""
    return await grants.list_grants(connection, caller, request=request)
